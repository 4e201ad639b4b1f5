"""The paper's Figure 2: two moons, the same shallow network with all labels, its own pseudo-labels, and the graph's."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from laplacenet.data import VectorSet, balanced_split, hide_labels, two_moons
from laplacenet.evaluation import error_rate, mean_and_std
from laplacenet.experiments.experiment import Experiment, with_method
from laplacenet.graph import GraphConfig
from laplacenet.models import Inference, Network
from laplacenet.models.small import mlp
from laplacenet.runtime import stream_seed
from laplacenet.training import Execution, LaplaceNetConfig, Problem, Run, TrainConfig, VectorViews, method_class, train

KIND = "figure-2"
N_POINTS = 400
NOISE = 0.1
N_TRAIN = 320
N_LABELED = 20
METHODS = ("supervised", "network", "graph")
GRAPH = GraphConfig(k=10)
TRAIN = TrainConfig(steps=500, batch_size=100, labeled_batch_size=20, lr=0.3)
NAMES = {"supervised": "supervised", "network": "network-labels", "graph": "laplacenet"}
HIDDEN = 256  # with few hidden units the angles between embeddings, which the graph sees, are too coarse for the moons


@dataclass(frozen=True)
class Moons:
    """The points, four fifths to train on (as many of each moon), and the ten of each moon that show their label.

    Each coordinate has mean 0 and deviation 1 over the points to train on.
    """

    points: VectorSet
    is_train: Bool[Tensor, " n"]
    is_labeled: Bool[Tensor, " n"]

    def labels_for(self, method: str) -> Int64[Tensor, " n_train"]:
        """The training labels that a method may see; all of them for the supervised network."""
        is_seen = self.is_train if method == "supervised" else self.is_labeled
        return torch.where(is_seen, self.points.labels, -1)[self.is_train]


@dataclass(frozen=True)
class Fit:
    """A trained network and its accuracy on the fifth that was kept out."""

    inference: Inference
    test_accuracy: float


@dataclass(frozen=True)
class FigureTwo:
    """The figure for one seed."""

    seed: int
    moons: Moons
    fits: dict[str, Fit]


def figure_two(seed: int) -> FigureTwo:
    moons = sample_moons(seed)
    return FigureTwo(seed, moons, {method: fit(moons, method, seed=seed) for method in METHODS})


def sample_moons(seed: int) -> Moons:
    points = two_moons(N_POINTS, NOISE, seed)
    is_train = torch.zeros(N_POINTS, dtype=torch.bool)
    is_train[balanced_split(points.labels, N_TRAIN, stream_seed(seed, "moons-train")).labeled] = True
    points = replace(points, vectors=standardize(points.vectors, is_train))
    train_labels = torch.where(is_train, points.labels, -1)
    shown = hide_labels(train_labels, balanced_split(train_labels, N_LABELED, seed))
    return Moons(points, is_train, shown >= 0)


def standardize(vectors: Float[Tensor, "n 2"], is_train: Bool[Tensor, " n"]) -> Float[Tensor, "n 2"]:
    seen = vectors[is_train]
    return (vectors - seen.mean(dim=0)) / seen.std(dim=0)


def shallow_network(seed: int) -> Network:
    """One hidden layer; torch's global generator is put back as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(stream_seed(seed, "network"))
        return mlp(n_classes=2, in_channels=2, hidden=HIDDEN)


def fit(moons: Moons, method: str, *, seed: int) -> Fit:
    """Algorithm 2 on vectors; nothing differs between methods but who gives the labels."""
    views, vectors = VectorViews(), moons.points.vectors
    problem = Problem(moons.labels_for(method), 2, views, seed)
    config = with_method(Experiment(method=LaplaceNetConfig(n_views=1, mixup_alpha=0.0)), NAMES[method]).method
    learner = method_class(NAMES[method])(problem, TRAIN, config, GRAPH)
    run = Run.of(learner, shallow_network(seed), vectors[moons.is_train], Execution(torch.device("cpu")))
    for _ in train(run):
        pass
    inference = run.inference
    is_test = ~moons.is_train
    return Fit(inference, 1 - error_rate(inference, vectors[is_test], moons.points.labels[is_test]))


def mean_accuracies(figures: Sequence[FigureTwo]) -> dict[str, tuple[float, float | None]]:
    return {method: mean_and_std([figure.fits[method].test_accuracy for figure in figures]) for method in METHODS}


def figure_two_record(figures: Sequence[FigureTwo], *, provenance: dict[str, Any]) -> dict[str, Any]:
    """The accuracies of all seeds with what made them, as JSON."""
    return {
        "kind": KIND,
        "provenance": provenance,
        "runs": [
            {"seed": figure.seed, **{method: figure.fits[method].test_accuracy for method in METHODS}}
            for figure in figures
        ],
        "means": {method: {"mean": mean, "std": std} for method, (mean, std) in mean_accuracies(figures).items()},
    }
