"""The graph asked with some labels hidden: what it says of rows whose own label had no part in it."""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from laplacenet.graph import GraphConfig
from laplacenet.graph.pseudo_labels import Graph, spread
from laplacenet.labeling.evidence import Evidence, class_masses, graph_evidence, no_evidence
from laplacenet.labeling.folds import without_fold
from laplacenet.labeling.priors import class_shares


@dataclass(frozen=True, eq=False)
class Answer:
    """What the graph makes of some labels: scores before any alignment, their means, and the prior that it was told."""

    scores: Float[Tensor, "n C"]
    masses: Float[Tensor, " C"]
    prior: tuple[float, ...]
    unreachable: Bool[Tensor, " n"]
    is_converged: bool

    @property
    def evidence(self) -> Evidence:
        """A row that no label reaches has no evidence, which leaves the prior."""
        found = graph_evidence(self.scores, self.masses, self.prior)
        return Evidence(torch.where(self.unreachable[:, None], 0, found.logits), found.offset)


def ask(graph: Graph, seen: Int64[Tensor, " n"], config: GraphConfig, *, prior: str, n_classes: int) -> Answer:
    """Spread these labels, and no others; the prior comes from them too. Nothing is aligned: evidence does that."""
    shares = class_shares(prior, seen, n_classes)
    labels = seen.to(graph.W_normalized.device)
    found = spread(graph, labels, replace(config, prior=shares, alignment_iterations=0), n_classes=n_classes)
    scores = found.scores.cpu()
    masses = class_masses(scores, seen >= 0)
    return Answer(scores, masses, shares, found.unreachable.cpu(), found.is_converged)


def unseen_graph_evidence(
    graph: Graph,
    given: Int64[Tensor, " n"],
    folds: Int64[Tensor, " n"],
    config: GraphConfig,
    *,
    prior: str,
    n_classes: int,
) -> Evidence:
    """For every row of a fold, the evidence with that fold's labels hidden; NaN for rows in no fold."""
    unseen = no_evidence(len(given), n_classes)
    for fold in range(int(folds.max()) + 1):
        answer = ask(graph, without_fold(given, folds, fold), config, prior=prior, n_classes=n_classes)
        unseen = unseen.to(folds == fold, answer.evidence)
    return unseen
