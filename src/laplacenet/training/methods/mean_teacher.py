"""Mean Teacher: a student that agrees with the moving average of its own weights.

A second network, the teacher, has the exponential moving average of the weights of the first, the student. Both see
different views of an image, and the student is trained to give the teacher's output. The teacher improves with every
step, not once an epoch as the targets of temporal ensembling do.
"""

from dataclasses import dataclass
from typing import ClassVar, get_args

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from laplacenet.models import Network
from laplacenet.runtime import stream_seed
from laplacenet.runtime.device import at_least_float32
from laplacenet.training.averages import Statistics, StudentAndTeacher, TwoHeads
from laplacenet.training.method import Batch
from laplacenet.training.methods.consistency import (
    CONSISTENCY,
    DENOMINATORS,
    ConsistencyConfig,
    ConsistencyTraining,
    embed_and_classify,
    supervised_loss,
)


@dataclass(frozen=True)
class MeanTeacherConfig(ConsistencyConfig):
    """`ema_decay` is the decay of the teacher's average.

    With `n_heads=2`, as in the SGD version of Iscen et al., a second head agrees with the teacher. `head_distance`
    weights the squared distance between the logits of both heads. `labeled_loss_over` is what the labeled loss is
    divided by: the number of `labeled` images or, as in the authors' code, of the whole `batch`. `teacher_statistics`
    are the teacher's batch statistics: those of its `own` passes, the `average` of its student's, or a `copy` of them.
    """

    name: str = "mean-teacher"
    ema_decay: float = 0.999
    n_heads: int = 1
    head_distance: float = 0.01
    labeled_loss_over: str = "labeled"
    teacher_statistics: Statistics = "own"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require(0 <= self.ema_decay < 1, "ema_decay", "lie in [0, 1)")
        self.require(self.n_heads in (1, 2), "n_heads", "be 1 or 2")
        self.require_weight("head_distance")
        denominators, statistics = ", ".join(DENOMINATORS), get_args(Statistics)
        self.require(self.labeled_loss_over in DENOMINATORS, "labeled_loss_over", f"be one of {denominators}")
        self.require(self.teacher_statistics in statistics, "teacher_statistics", f"be one of {', '.join(statistics)}")


@dataclass(frozen=True, eq=False)
class MeanTeacher(ConsistencyTraining):
    """CE(f(x', θ), y) on labeled images + w(t)·1/(C·b) Σ ‖softmax f(x', θ) − softmax f(x'', θ')‖², θ' the average of θ.

    With two heads g and h on one body, labels train g, h agrees with the teacher's g, and δ/(C·b) Σ ‖g − h‖² keeps the
    two close. That is the SGD version of Iscen et al., whose numbers LaplaceNet's tables show. The teacher is the
    network that is tested.

    Kept between steps: the teacher θ' and the number of its updates.

    Our reading: the average is the plain mean of the weights until the decay is reached, as in the authors' PyTorch
    version; their first version averages with decay 0.999 from the first step on.
    """

    config: MeanTeacherConfig

    summary: ClassVar[str] = "agreement with an exponential moving average of the network"
    source: ClassVar[str] = "Tarvainen and Valpola, Mean teachers are better role models, 2017"

    def learner(self, network: Network) -> nn.Module:
        if self.config.n_heads == 1:
            return StudentAndTeacher(network)
        return TwoHeads(network, seed=stream_seed(self.problem.seed, "second head"))

    def judged(self, learner: nn.Module) -> Network:
        assert isinstance(learner, StudentAndTeacher)
        return learner.teacher

    def labeled_loss(self, logits: Float[Tensor, "b C"], batch: Batch) -> Float[Tensor, ""]:
        return supervised_loss(logits, batch, over=self.config.labeled_loss_over)

    def loss(self, learner: nn.Module, batch: Batch) -> Float[Tensor, ""]:
        assert isinstance(learner, StudentAndTeacher)
        first, second = self.noisy_views(batch).chunk(2)
        distance: Tensor | float = 0.0
        if isinstance(learner, TwoHeads):
            z, logits = embed_and_classify(learner.student, first)
            with torch.autocast(z.device.type, enabled=False):
                agreeing = learner.second_head(z)
            distance = self.config.head_distance * functional.mse_loss(logits, agreeing)
        else:
            logits = agreeing = at_least_float32(learner.student(first))
        with torch.no_grad():
            target = at_least_float32(learner.teacher(second)).softmax(dim=1)
        agreement = functional.mse_loss(agreeing.softmax(dim=1), target)
        return self.labeled_loss(logits, batch) + batch.draws[CONSISTENCY] * agreement + distance

    def after_step(self, learner: nn.Module, batch: Batch) -> None:
        assert isinstance(learner, StudentAndTeacher)
        learner.average(self.config.ema_decay, statistics=self.config.teacher_statistics)
