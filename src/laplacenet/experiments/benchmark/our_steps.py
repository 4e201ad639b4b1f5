"""Our step, driven as the training loop drives it: blocks drawn on the host, LaplaceNet's loss, the real stepper."""

import time
from collections.abc import Iterator

import torch
from torch import Tensor

from laplacenet.augment import AugmentConfig
from laplacenet.experiments.benchmark.clock import time_work
from laplacenet.experiments.benchmark.settings import StepCase
from laplacenet.experiments.benchmark.synthetic import CIFAR_STATISTICS
from laplacenet.models import build_model
from laplacenet.runtime import NullMonitor
from laplacenet.training import EpochPlan, Execution, ImageViews, LaplaceNet, LaplaceNetConfig, Problem, TrainConfig
from laplacenet.training.loop import prepare, take_steps
from laplacenet.training.methods.base import SEMI_SUPERVISED, TARGETS
from laplacenet.training.step import Stepper

N_LABELED = 4_000


class OurSteps:
    """A stepper with everything it needs, ready for rounds of steps over images with random labels."""

    def __init__(self, case: StepCase, images: Tensor, execution: Execution) -> None:
        height, width = images.shape[2:]
        config = TrainConfig(batch_size=case.batch_size, labeled_batch_size=case.labeled_batch_size)
        generator = torch.Generator().manual_seed(0)
        self.targets = torch.randint(case.n_classes, (len(images),), generator=generator)
        n_labeled = min(N_LABELED, len(images) // 2)
        is_hidden = torch.arange(len(images)) >= n_labeled
        views = ImageViews(AugmentConfig(), CIFAR_STATISTICS, height=height, width=width)
        problem = Problem(torch.where(is_hidden, -1, self.targets), case.n_classes, views)
        self.method = LaplaceNet(problem, config, LaplaceNetConfig(n_views=case.n_views))
        self.device = execution.device
        learner = prepare(self.method.learner(build_model(case.model, n_classes=case.n_classes)), execution)
        self.stepper = Stepper(self.method, learner, images, execution=execution)
        self.stepper.begin(self.plan(0, 1))
        self.draw_s: list[float] = []

    def plan(self, index: int, n_steps: int) -> EpochPlan:
        """An epoch of this many steps."""
        order = self.method.shuffled(self.method.problem.unlabeled, index)
        tables = {TARGETS: self.targets.to(self.device)}
        return EpochPlan(index, SEMI_SUPERVISED, index * n_steps, n_steps, order, tables)

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

        return 1000 * time_work(take_all, self.device)[1] / (n_rounds * n_steps)
