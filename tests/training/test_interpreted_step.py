"""Without a GPU: a training step as on one, all kernels interpreted and products in fp16, against torch's operations.

Each kernel has tests of its own; here they have to fit together, and to be reached where a GPU would reach them.
"""

from dataclasses import replace
from typing import Any

import pytest
import torch
from references_kernels import interpreted, kernel_names, pretend_to_be_on_a_gpu
from references_training import CPU, bright_halves, given_labels
from torch import Tensor
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode

from laplacenet.augment import AugmentConfig
from laplacenet.graph import GraphConfig
from laplacenet.models import build_model
from laplacenet.training import ImageViews, LaplaceNetConfig, Problem, TrainConfig, method_class
from laplacenet.training.loop import prepare
from laplacenet.training.method import EpochPlan
from laplacenet.training.step import Stepper

pytestmark = interpreted

SIDE = 16
# what the preset fast has: CutMix, averaged weights, smaller pictures, statistics of unaugmented ones
CONFIG = LaplaceNetConfig(n_views=2, supervised_passes=0, cutmix_share=0.5, ema_decay=0.5, plain_statistics=True)
TRAIN = TrainConfig(steps=2, batch_size=4, labeled_batch_size=2, small_share=1.0)


def note_launches(patch: pytest.MonkeyPatch) -> set[str]:
    """The names of the kernels that are interpreted from now on."""
    from triton.runtime.interpreter import GridExecutor

    names, call = set(), GridExecutor.__call__

    def noted(executor: GridExecutor, *arguments: object, **options: object) -> None:
        names.add(executor.fn.__name__)
        call(executor, *arguments, **options)

    patch.setattr(GridExecutor, "__call__", noted)
    return names


def ready_stepper() -> tuple[Stepper, EpochPlan]:
    """The 13-CNN as student and teacher, before the first step of this epoch."""
    pictures = bright_halves(24, channels=3, side=SIDE, noise=120)
    views = ImageViews(AugmentConfig(), pictures.statistics, SIDE, SIDE)
    method = method_class(CONFIG.name)(Problem(given_labels(pictures), 3, views), TRAIN, CONFIG, GraphConfig(k=5))
    learner = prepare(method.learner(build_model("13-cnn", n_classes=3)), CPU).to(memory_format=torch.channels_last)
    stepper = Stepper(method, learner, pictures.images, execution=CPU)
    plan = replace(method.plan_epoch(0, 0, learner=learner, inputs=pictures.images), n_steps=1)
    stepper.begin(plan)
    return stepper, plan


def loss_and_changes() -> tuple[float, dict[str, Tensor]]:
    """Of one step and the statistics after it: how every tensor of student and teacher has changed."""
    stepper, plan = ready_stepper()
    learner, method = stepper.learner, stepper.method
    before = {name: tensor.clone() for name, tensor in learner.state_dict().items()}
    (loss,) = [float(stepper.loss_sum) for _ in stepper.run(method.draw(plan, 0, 1))]
    method.after_epoch(learner, stepper.supply.inputs)
    state = learner.state_dict()
    return loss, {name: state[name] - tensor for name, tensor in before.items() if tensor.is_floating_point()}


class NothingOfTheHost(TorchDispatchMode):
    """Refuses what would end the capture of a step on a GPU: values that go to the host, and such that come from it."""

    def __torch_dispatch__(
        self, operation: OpOverload, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        name = operation._schema.name.removeprefix("aten::")
        assert name not in {"_local_scalar_dense", "equal", "nonzero", "masked_select", "lift_fresh"}, name
        return operation(*args, **(kwargs or {}))


def test_a_step_after_the_first_asks_nothing_of_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    from triton.runtime.interpreter import GridExecutor

    stepper, plan = ready_stepper()
    pretend_to_be_on_a_gpu(monkeypatch)
    monkeypatch.setattr(GridExecutor, "__call__", lambda *arguments, **options: None)  # what they compute is not asked
    monkeypatch.setattr(stepper.optimizer, "step", lambda: None)  # another one on a GPU, made for captures
    block = stepper.method.draw(plan, 0, 2)
    slots = stepper.supply.stage(block.rows)
    first, second = torch.tensor([0]), torch.tensor([1])
    with pytest.raises(AssertionError, match="lift_fresh"), NothingOfTheHost():  # lists what is averaged
        stepper._take(block, slots, first)
    stepper._take(block, slots, first)
    with NothingOfTheHost():
        stepper._take(block, slots, second)


def test_a_step_of_kernels_changes_what_a_step_of_torchs_operations_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    expected_loss, expected = loss_and_changes()
    pretend_to_be_on_a_gpu(monkeypatch)
    launched = note_launches(monkeypatch)
    loss, changes = loss_and_changes()
    assert launched == kernel_names()
    assert loss == pytest.approx(expected_loss, rel=1e-3)
    for name, change in expected.items():
        # eight views in fp16: gradients of early layers, behind eight maxima, differ by a tenth
        assert (changes[name] - change).norm() <= 0.15 * change.norm(), name
