"""Small problems for the losses of methods, and their formulas one image at a time."""

from typing import Any

import torch
from torch import Tensor, nn

from laplacenet.graph import GraphConfig
from laplacenet.models import build_model
from laplacenet.training import Batch, Problem, TrainConfig, VectorViews, config_class, method_class

N, D, C = 30, 5, 3
N_LABELED, BATCH = 4, 12
TRAIN = TrainConfig(steps=40, batch_size=BATCH, labeled_batch_size=N_LABELED, lr=0.05)


def small_problem(*, n_labeled: int = 9) -> Problem:
    labels = torch.full((N,), -1)
    labels[:n_labeled] = torch.arange(n_labeled) % C
    return Problem(labels, C, VectorViews(), seed=1)


def small_method(name: str, *, train: TrainConfig = TRAIN, **settings: Any) -> Any:
    return method_class(name)(small_problem(), train, config_class(name)(**settings), GraphConfig(k=5))


def small_learner(method: Any, seed: int = 0) -> Any:
    """With a teacher, where there is one, that differs from its student."""
    learner = method.learner(build_model("mlp", n_classes=C, in_channels=D, seed=seed))
    teacher = getattr(getattr(learner, "pair", learner), "teacher", None)
    if teacher is not None:
        teacher.load_state_dict(build_model("mlp", n_classes=C, in_channels=D, seed=7).state_dict())
    return learner


def random_batch(n_views: int, seed: int = 0, *, tables: dict[str, Tensor] | None = None, **draws: Any) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    targets = torch.full((BATCH,), -1)
    targets[:N_LABELED] = torch.randint(0, C, (N_LABELED,), generator=generator)
    views = 2 * torch.randn(n_views * BATCH, D, generator=generator)
    rows = torch.randperm(N, generator=generator)[:BATCH]
    tensors = {name: torch.as_tensor(value) for name, value in draws.items()}
    return Batch(views, rows, N_LABELED, {"targets": targets, **(tables or {})}, tensors)


def soft(logits: Tensor) -> Tensor:
    """softmax, written out."""
    return logits.exp() / logits.exp().sum()


def cross_entropy(logits: Tensor, target: Tensor | int) -> Tensor:
    return -soft(logits)[int(target)].log()


def labeled_mean(logits: Tensor, batch: Batch) -> Tensor:
    return sum_of(cross_entropy(logits[i], batch.tables["targets"][i]) for i in range(N_LABELED)) / N_LABELED


def sum_of(values: Any) -> Tensor:
    total = torch.zeros(())
    for value in values:
        total = total + value
    return total


def mean_squares(a: Tensor, b: Tensor, *, rows: range = range(BATCH)) -> Tensor:
    """1/(C·b) Σ_i ‖softmax a_i − softmax b_i‖²."""
    return sum_of(((soft(a[i]) - soft(b[i])) ** 2).sum() for i in rows) / (len(rows) * C)


def assert_same(method: Any, learner: nn.Module, batch: Batch, reference: Tensor) -> None:
    """The same loss and the same gradients; `reference` detaches what has no gradient."""
    loss = method.loss(learner, batch)
    torch.testing.assert_close(loss, reference, rtol=1e-4, atol=1e-6)
    trained = [parameter for parameter in learner.parameters() if parameter.requires_grad]
    ours = torch.autograd.grad(loss, trained, allow_unused=True)
    theirs = torch.autograd.grad(reference, trained, allow_unused=True)
    for one, other in zip(ours, theirs, strict=True):
        zeros = torch.zeros(())
        torch.testing.assert_close(
            zeros if one is None else one, zeros if other is None else other, rtol=1e-3, atol=1e-5
        )
