"""Our step, driven as the training loop drives it: blocks drawn on the host, LaplaceNet's loss, the real stepper."""

import time
from collections.abc import Iterator

import torch
from torch import Tensor

from laplacenet.augment import AugmentConfig
from laplacenet.experiments.benchmark.clock import seconds
from laplacenet.experiments.benchmark.settings import StepCase
from laplacenet.experiments.benchmark.synthetic import CIFAR_STATISTICS
from laplacenet.graph import GraphConfig
from laplacenet.models import build_model
from laplacenet.runtime import NullMonitor
from laplacenet.training import EpochPlan, Execution, ImageViews, LaplaceNet, TrainConfig
from laplacenet.training.loop import prepare, take_steps
from laplacenet.training.step import Stepper

N_LABELED = 4_000


class OurSteps:
    """A stepper with everything it needs, ready for rounds of steps over images with random labels."""

    def __init__(self, case: StepCase, images: Tensor, execution: Execution) -> None:
        height, width = images.shape[2:]
        config = TrainConfig(
            batch_size=case.batch_size, labeled_batch_size=case.labeled_batch_size, n_views=case.n_views
        )
        generator = torch.Generator().manual_seed(0)
        self.targets = torch.randint(case.n_classes, (len(images),), generator=generator)
        n_labeled = min(N_LABELED, len(images) // 2)
        self.is_candidate = torch.arange(len(images)) >= n_labeled
        views = ImageViews(AugmentConfig(), CIFAR_STATISTICS, height=height, width=width)
        self.method = LaplaceNet(
            labels=torch.where(self.is_candidate, -1, self.targets),
            n_classes=case.n_classes,
            views=views,
            config=config,
            graph=GraphConfig(),
            seed=0,
        )
        self.device = execution.device
        network = prepare(build_model(case.model, n_classes=case.n_classes), execution)
        self.stepper = Stepper(self.method, network, images, views=views, config=config, execution=execution)
        self.stepper.set_targets(self.targets)
        self.draw_s: list[float] = []

    def plan(self, index: int, n_steps: int) -> EpochPlan:
        """An epoch of this many steps."""
        targets = self.targets.to(self.device)
        return EpochPlan(index, "semi-supervised", index * n_steps, n_steps, targets, self.is_candidate)

    def round(self, index: int, n_steps: int) -> Iterator[None]:
        """Some steps of one block; yields after each."""
        plan = self.plan(index, n_steps)
        started_at = time.perf_counter()
        block = self.method.draw(plan, plan.first_step, n_steps)
        self.draw_s.append((time.perf_counter() - started_at) / n_steps)
        return self.stepper.run(block)

    def whole_ms(self, n_rounds: int, n_steps: int) -> float:
        """Wall time of a step when rounds follow one another as in training, the drawing included."""
        plans = [self.plan(index, n_steps) for index in range(n_rounds)]

        def take_all() -> None:
            for plan in plans:
                take_steps(self.stepper, plan, plan.first_step, NullMonitor())

        return 1000 * seconds(take_all, self.device)[1] / (n_rounds * n_steps)
