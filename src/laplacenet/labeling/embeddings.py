"""Embeddings: the graph alone labels every row, and with folds of the labels hidden it says how well."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from laplacenet.graph.pseudo_labels import connect, unit_rows
from laplacenet.labeling.calibration import calibrate
from laplacenet.labeling.crossfit import Answer, ask, unseen_graph_evidence
from laplacenet.labeling.estimate import estimate_accuracy
from laplacenet.labeling.findings import Findings
from laplacenet.labeling.folds import NEVER, stratified_folds
from laplacenet.labeling.graph_model import GraphModel
from laplacenet.labeling.result import SOURCES, Calibration, Estimate
from laplacenet.labeling.settings import LabelingSettings

N_FOLDS, N_FOLDS_OF_MANY = 10, 5
MANY = 50_000  # rows beyond which a fold takes seconds
LARGEST_K, SMALLEST_K = 50, 5
ROWS_PER_NEIGHBOR = 8  # a row's neighbors should be a small part of its class


@dataclass(frozen=True, eq=False)
class GraphLabels:
    """What the graph says with all labels (`answer`) and of each given row without its own (`unseen`), and how well."""

    points: Float[Tensor, "n d"]
    answer: Answer
    unseen: Float[Tensor, "n C"]
    estimate: Estimate
    calibration: Calibration | None
    recall: float | None

    @property
    def temperature(self) -> float:
        return 1.0 if self.calibration is None else self.calibration.temperature

    @property
    def findings(self) -> Findings:
        finders = torch.full((len(self.points),), SOURCES.index("graph"), dtype=torch.uint8)
        return Findings(self.answer.evidence, self.temperature, self.unseen, finders, self.points)

    def model(self, *, k: int, class_names: tuple[str, ...]) -> GraphModel:
        """For rows that come later; one that no label reached has no voice."""
        return GraphModel(
            points=self.points,
            scores=torch.where(self.answer.unreachable[:, None], 0, self.answer.scores).float(),
            masses=self.answer.masses,
            prior=self.answer.prior,
            class_names=class_names,
            k=k,
            temperature=self.temperature,
        )

    def notes(self) -> list[str]:
        """What the graph had trouble with."""
        notes, n_unreachable = [], int(self.answer.unreachable.sum())
        if n_unreachable:
            notes.append(f"no label reaches {n_unreachable} rows, which say nothing but the prior; give more labels")
        if not self.answer.is_converged:
            notes.append("the conjugate gradients did not converge; raise graph.max_iterations or graph.tol")
        if self.recall is not None:
            notes.append(f"the neighbor search is approximate and finds {self.recall:.1%} of the neighbors")
        return notes


def neighbors_for(n: int, n_classes: int) -> int:
    """k: the paper's 50, fewer where a class has few rows."""
    return min(LARGEST_K, max(SMALLEST_K, n // (ROWS_PER_NEIGHBOR * n_classes)))


def label_embeddings(
    vectors: Float[Tensor, "n d"],
    given: Int64[Tensor, " n"],
    settings: LabelingSettings,
    *,
    class_names: tuple[str, ...],
    device: torch.device,
) -> GraphLabels:
    """The neighbors are found once; every question after that is a matter of conjugate gradients."""
    config, prior, n_classes = settings.graph, settings.prior, len(class_names)
    points = unit_rows(vectors.to(device))
    graph = connect(points, config)
    answer = ask(graph, given, config, prior=prior, n_classes=n_classes)
    folds = stratified_folds(given, N_FOLDS if len(given) <= MANY else N_FOLDS_OF_MANY, seed=settings.seed)
    hidden = unseen_graph_evidence(graph, given, folds, config, prior=prior, n_classes=n_classes)
    is_judged = folds != NEVER
    calibration = calibrate(hidden.rows(is_judged), given[is_judged])
    unseen = hidden.at(1.0 if calibration is None else calibration.temperature)
    shares = torch.tensor(answer.prior)
    estimate = estimate_accuracy(unseen, given, shares, method=method(folds), class_names=class_names)
    return GraphLabels(points.float().cpu(), answer, unseen, estimate, calibration, graph.recall)


def method(folds: Int64[Tensor, " n"]) -> str:
    """Which labels were kept from what, in a sentence."""
    n_folds, n_judged = int(folds.max()) + 1, int((folds != NEVER).sum())
    if not n_judged:
        return "No label could be hidden: every class has one at most."
    return (
        f"The {n_judged} given labels of classes with two or more were put into {n_folds} folds; each fold was hidden"
        " from the graph, which then labeled its rows from the others. So a label is judged by an answer that it had no"
        " part in, and each answer had slightly fewer labels than the one that counts."
    )
