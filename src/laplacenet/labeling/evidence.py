"""Scores relative to the mean score of each class.

Labels spread far over the graph, so the scores of all rows are nearly equal; what distinguishes rows is the ratio of a
row's score for a class to the mean score of that class. The mean itself reflects how many labels a class was given, not
how many rows it has, and is replaced by the prior. This labels more rows correctly than the scores themselves, and a
temperature turns it into probabilities.
"""

from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from laplacenet.data import UNKNOWN
from laplacenet.graph import GraphConfig
from laplacenet.graph.priors import prior_shares
from laplacenet.graph.pseudo_labels import Graph, spread
from laplacenet.runtime import stream

SMALLEST = 1e-6


@dataclass(frozen=True, eq=False)
class Evidence:
    """`softmax(logits / T + offset)` are the probabilities of the classes at temperature T."""

    logits: Float[Tensor, "n C"]
    offset: Float[Tensor, "n C"]

    def at(self, temperature: float) -> Float[Tensor, "n C"]:
        return (self.logits.double() / temperature + self.offset.double()).softmax(dim=1).float()

    def rows(self, chosen: Bool[Tensor, " n"]) -> "Evidence":
        return Evidence(self.logits[chosen], self.offset[chosen])

    def with_rows(self, chosen: Bool[Tensor, " n"], others: "Evidence") -> "Evidence":
        """With the chosen rows replaced by those of `others`."""
        pairs = ((self.logits, others.logits), (self.offset, others.offset))
        return Evidence(*(torch.where(chosen[:, None], new, old) for old, new in pairs))


def class_masses(scores: Float[Tensor, "n C"], is_labeled: Bool[Tensor, " n"]) -> Float[Tensor, " C"]:
    """The mean score of each class over the rows without a label; over all rows if every row has one."""
    counted = scores if bool(is_labeled.all()) else scores[~is_labeled]
    return counted.double().mean(dim=0)


def graph_evidence(scores: Float[Tensor, "n C"], masses: Float[Tensor, " C"], prior: tuple[float, ...]) -> Evidence:
    """Each score relative to its class's mean; nothing for a class without labels."""
    relative = scores.double() / masses.clamp(min=SMALLEST)
    logits = torch.where(masses > 0, relative, 0).clamp(min=SMALLEST).log()
    return Evidence(logits, torch.tensor(prior, dtype=torch.float64).log().expand_as(logits))


def score_evidence(scores: Float[Tensor, "n C"]) -> Evidence:
    """For scores that are probabilities already: unchanged at temperature 1."""
    logits = scores.double().clamp(min=SMALLEST).log()
    return Evidence(logits, torch.zeros_like(logits))


def no_evidence(n: int, n_classes: int) -> Evidence:
    nothing = torch.full((n, n_classes), torch.nan, dtype=torch.float64)
    return Evidence(nothing, nothing.clone())


NEVER = -1
"""The fold of a row that is never held out: it has no label, or its class would be left with none."""


def stratified_folds(given: Int64[Tensor, " n"], n_folds: int, *, seed: int) -> Int64[Tensor, " n"]:
    """The fold of every given label: folds of equal size, stratified by class.

    A class with no more labels than folds loses at most one label at a time; the only label of a class is never held
    out.
    """
    folds = torch.full_like(given, NEVER)
    n_dealt = 0
    for number in range(int(given.max()) + 1):
        members = torch.nonzero(given == number).flatten().numpy()
        if len(members) < 2:
            continue
        dealt = torch.from_numpy(np.arange(n_dealt, n_dealt + len(members)) % n_folds)
        folds[torch.from_numpy(stream(seed, "labeling/folds", number).permutation(members))] = dealt
        n_dealt += len(members)
    return folds


def without_fold(given: Int64[Tensor, " n"], folds: Int64[Tensor, " n"], fold: int) -> Int64[Tensor, " n"]:
    """The given labels without those of one fold."""
    return torch.where(folds == fold, UNKNOWN, given)


def class_shares(prior: str, given: Int64[Tensor, " n"], n_classes: int) -> tuple[float, ...]:
    """The prior for these given labels (−1 = none), as shares that sum to 1."""
    return prior_shares(prior, torch.bincount(given[given >= 0], minlength=n_classes).numpy())


@dataclass(frozen=True, eq=False)
class GraphScores:
    """Scores of the graph for some labels, before any alignment, with their means and the prior."""

    scores: Float[Tensor, "n C"]
    masses: Float[Tensor, " C"]
    prior: tuple[float, ...]
    unreachable: Bool[Tensor, " n"]
    is_converged: bool

    @property
    def evidence(self) -> Evidence:
        """A row that no label reaches gets the prior."""
        found = graph_evidence(self.scores, self.masses, self.prior)
        return Evidence(torch.where(self.unreachable[:, None], 0, found.logits), found.offset)


def graph_scores(
    graph: Graph, seen: Int64[Tensor, " n"], config: GraphConfig, *, prior: str, n_classes: int
) -> GraphScores:
    """Propagate these labels only; the prior is computed from them too. No alignment: `Evidence` takes its place."""
    shares = class_shares(prior, seen, n_classes)
    labels = seen.to(graph.W_normalized.device)
    found = spread(graph, labels, replace(config, prior=shares, alignment_iterations=0), n_classes=n_classes)
    scores = found.scores.cpu()
    masses = class_masses(scores, seen >= 0)
    return GraphScores(scores, masses, shares, found.unreachable.cpu(), found.is_converged)
