"""One view at first, and pseudo-labels that the network's own predictions soften."""

from pathlib import Path

import numpy as np
import pytest
import torch
from references_methods import learner_of, make_method, small_pictures
from references_runs import StopAfter

from laplacenet.models import build_model
from laplacenet.runtime import InputError
from laplacenet.training import Execution, LaplaceNetConfig, Run, TrainConfig, load_checkpoint, save_checkpoint, train
from laplacenet.training.methods.base import TARGETS
from laplacenet.training.methods.laplacenet import SOFT_TARGETS, soft_targets
from laplacenet.training.objective import mixed_cross_entropy

TRAIN = TrainConfig(steps=12, batch_size=12, labeled_batch_size=4, lr=0.05)
SETTINGS = {"one_view_share": 0.5, "network_share": 0.8, "ema_decay": 0.5, "supervised_passes": 1}


def run_of(**settings: float) -> Run:
    pictures = small_pictures()
    network = build_model("small-cnn", n_classes=3, in_channels=1, seed=0)
    return Run.of(
        make_method("laplacenet", TRAIN, **settings), network, pictures.images, Execution(torch.device("cpu"))
    )


def test_it_resumes_bit_for_bit(tmp_path: Path) -> None:
    whole = run_of(**SETTINGS)
    *_, _ = train(whole)
    position = None
    for n_steps in (3, 4, 100):
        run = run_of(**SETTINGS)
        if position is not None:
            position = load_checkpoint(tmp_path / "checkpoint", run.learner, identity={})
        *_, last = train(run, start=position, monitor=StopAfter(n_steps))
        position = last.position
        save_checkpoint(tmp_path / "checkpoint", run.learner, position, identity={})
    for name, tensor in whole.learner.state_dict().items():
        assert torch.equal(tensor, run.learner.state_dict()[name]), name


def test_an_image_has_one_view_until_the_share_is_over() -> None:
    method = make_method("laplacenet", TRAIN, one_view_share=0.5, supervised_passes=0)
    learner = learner_of(method)
    inputs = small_pictures().images
    for first_step, n_views in ((0, 1), (5, 1), (6, 3), (11, 3)):
        plan = method.plan_epoch(0, first_step, learner=learner, inputs=inputs)
        block = method.draw(plan, first_step, 1)
        assert len(block.sources) == n_views * block.rows.shape[1]


def test_the_networks_share_of_a_target_grows_in_a_line() -> None:
    method = make_method("laplacenet", TRAIN, network_share=0.8, supervised_passes=0)
    learner = learner_of(method)
    inputs = small_pictures().images
    inference = method.inference(learner)
    predictions = inference.logits(inputs).softmax(dim=1).detach()
    for step in (0, 3, 6):
        tables = method.plan_epoch(0, step, learner=learner, inputs=inputs).tables
        share = 0.8 * step / 12
        for i, given in enumerate(method.problem.labels.tolist()):
            expected = np.eye(3)[int(tables[TARGETS][i])]
            if given < 0:
                expected = (1 - share) * expected + share * predictions[i].numpy()
            np.testing.assert_allclose(tables[SOFT_TARGETS][i], expected, atol=1e-6)


def test_a_soft_target_of_one_class_is_the_hard_loss() -> None:
    logits, partners = torch.randn(2, 6, 4), torch.randperm(6)
    labels, mix_weight = torch.randint(0, 4, (6,)), torch.tensor(0.3)
    soft = soft_targets(labels, torch.full((6, 4), 0.25), torch.full((6,), -1), share=0.0)
    hard_loss = mixed_cross_entropy(logits, labels, partners, mix_weight)
    torch.testing.assert_close(mixed_cross_entropy(logits, soft, partners, mix_weight), hard_loss)


def test_a_soft_loss_is_linear_in_its_targets() -> None:
    logits, targets = torch.randn(2, 6, 4).double(), torch.rand(6, 4).double()
    targets /= targets.sum(dim=1, keepdim=True)
    loss = mixed_cross_entropy(logits, targets, torch.arange(6), torch.tensor(1.0))
    expected = -np.mean([(targets[i] * logits[v, i].log_softmax(0)).sum() for v in range(2) for i in range(6)])
    assert float(loss) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(("field", "value"), [("one_view_share", 1.5), ("network_share", -0.1), ("network_share", 2.0)])
def test_shares_lie_between_nothing_and_all(field: str, value: float) -> None:
    with pytest.raises(InputError, match=f"method.{field} = {value}"):
        LaplaceNetConfig(**{field: value})


def test_soft_labels_and_class_weights_are_not_combined() -> None:
    with pytest.raises(InputError, match="network_share"):
        LaplaceNetConfig(network_share=0.5, class_weighting=True)
