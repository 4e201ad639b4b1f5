"""Embeddings: the graph alone labels every row, says how well, and is kept as a model for rows that come later."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from laplacenet.data import VectorSet
from laplacenet.graph.induction import neighbor_means
from laplacenet.graph.pseudo_labels import connect, unit_rows
from laplacenet.labeling.choices import chosen_prior
from laplacenet.labeling.estimate import FEW, calibrate, estimate_accuracy
from laplacenet.labeling.evidence import NEVER, Answer, ask, graph_evidence, stratified_folds, unseen_graph_evidence
from laplacenet.labeling.job import Job
from laplacenet.labeling.outcome import Findings, labeling_of, map_positions, write_outcome
from laplacenet.labeling.predictions import Prediction, Source, named_predictions, row_names
from laplacenet.labeling.result import SOURCES, Calibration, Estimate, Labeling, Summary
from laplacenet.labeling.settings import LabelingSettings
from laplacenet.models.saved import DESCRIPTION, model_kind, read_model_files, usable_temperature, write_model_files
from laplacenet.runtime import (
    InputError,
    Monitor,
    NullMonitor,
    RunFolder,
)
from laplacenet.training import Execution

KIND = "graph"


@dataclass(frozen=True, eq=False)
class GraphModel:
    """Rows of length 1 with their scores (zero where no label came), and what makes probabilities of scores."""

    points: Float[Tensor, "n d"]
    scores: Float[Tensor, "n C"]
    masses: Float[Tensor, " C"]
    prior: tuple[float, ...]
    class_names: tuple[str, ...]
    k: int
    temperature: float

    def __post_init__(self) -> None:
        (n, n_classes), names = self.scores.shape, self.class_names
        if len(self.points) != n or self.masses.shape != (n_classes,):
            raise ValueError(f"points, scores and masses do not fit one another ({n} rows, {n_classes} classes)")
        if len(set(names)) != n_classes or len(names) != n_classes:
            raise ValueError(f"class_names must be {n_classes} different names")
        if len(self.prior) != n_classes or not all(0 < share <= 1 for share in self.prior):
            raise ValueError(f"prior must be {n_classes} shares above 0")
        if self.k < 1:
            raise ValueError(f"k = {self.k}, where 1 or more neighbors are asked")
        usable_temperature(self.temperature)

    def probabilities(self, vectors: Float[Tensor, "m d"]) -> Float[Tensor, "m C"]:
        """F = γ𝒲F + Y holds at the labeled rows' neighbors; for a row without a label it is the mean of its own."""
        if vectors.shape[1] != self.points.shape[1]:
            raise InputError(f"embeddings of {vectors.shape[1]} numbers; this model reads {self.points.shape[1]}")
        queries, otherwise = unit_rows(vectors.float()), self.masses.double() / self.masses.double().sum()
        means = neighbor_means(queries, self.points, self.scores.double(), k=self.k, otherwise=otherwise)
        return graph_evidence(means, self.masses, self.prior).at(self.temperature)


def save_graph_model(folder: Path, model: GraphModel) -> None:
    tensors = {"points": model.points, "scores": model.scores.float(), "masses": model.masses.double()}
    description = {
        "kind": KIND,
        "class_names": model.class_names,
        "prior": model.prior,
        "k": model.k,
        "temperature": model.temperature,
    }
    write_model_files(folder, description, tensors)


def holds_graph_model(folder: Path) -> bool:
    """Whether the folder's model is a graph over embeddings, not a network."""
    return model_kind(folder) == KIND


def load_graph_model(folder: Path) -> GraphModel:
    found, tensors = read_model_files(folder)
    try:
        return GraphModel(
            points=tensors["points"],
            scores=tensors["scores"],
            masses=tensors["masses"],
            prior=tuple(float(share) for share in found["prior"]),
            class_names=tuple(str(name) for name in found["class_names"]),
            k=int(found["k"]),
            temperature=float(found["temperature"]),
        )
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise InputError(f"{folder / DESCRIPTION}: not the description of a graph over embeddings ({error})") from error


BLOCK = 5_000  # rows judged at once


def graph_predictions(
    model: GraphModel, sources: Sequence[Source], *, monitor: Monitor | None = None
) -> Iterator[Prediction]:
    """One for each row of the array files, in order."""
    for source, rows in [(source, vectors(source)) for source in sources]:
        named = None if source.rows is None else source.rows.file_names
        names: Sequence[str] = row_names(source.path, len(rows)) if named is None else named
        for start in range(0, len(rows), BLOCK):
            some = names[start : start + BLOCK]
            probabilities = model.probabilities(rows.vectors[start : start + BLOCK])
            (monitor or NullMonitor()).advance(len(some))
            yield from named_predictions(some, probabilities, model.class_names)


def vectors(source: Source) -> VectorSet:
    rows = None if source.rows is None else source.rows.rows
    if not isinstance(rows, VectorSet):
        raise InputError(f"{source.path}: holds no embeddings; this run labeled some, give .npy or .npz files of more")
    return rows


N_FOLDS, N_FOLDS_OF_MANY = 10, 5
MANY = 50_000  # rows beyond which a fold takes seconds


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


def run_on_embeddings(job: Job, folder: RunFolder, *, execution: Execution, started_at: float) -> Labeling:
    """`started_at` is by `time.monotonic`."""
    rows, settings = job.collection.rows, job.settings
    assert isinstance(rows, VectorSet)
    found = label_embeddings(rows.vectors, job.given, settings, class_names=job.class_names, device=execution.device)
    model = found.model(k=settings.graph.k, class_names=job.class_names)
    positions = map_positions(found.points, seed=settings.seed)
    labeling = labeling_of(
        found.findings, summary_of(job, found), positions, names=job.collection.names, given=job.given
    )
    predicted = None
    if job.judges is not None and isinstance(job.judges.rows, VectorSet) and not job.are_judges_inside:
        predicted = model.probabilities(job.judges.rows.vectors).argmax(dim=1)
    summary = replace(
        labeling.summary,
        estimate=job.tested(found.estimate, labeling.labels, predicted),
        elapsed_s=time.monotonic() - started_at,
    )
    labeling = replace(labeling, summary=summary)
    save_graph_model(folder.path, model)
    write_outcome(folder, labeling, job)
    return labeling


def summary_of(job: Job, found: GraphLabels) -> Summary:
    return Summary(
        title=job.settings.name,
        kind="embeddings",
        class_names=job.class_names,
        prior=found.answer.prior,
        choices=graph_choices(job),
        notes=(*job.notes, *found.notes(), *calibration_notes(found.calibration)),
        estimate=found.estimate,
        calibration=found.calibration,
        n_skipped=len(job.collection.skipped),
        is_complete=True,
        elapsed_s=0.0,
    )


def graph_choices(job: Job) -> tuple[str, ...]:
    rows = job.collection.rows
    assert isinstance(rows, VectorSet)
    n, d = rows.vectors.shape
    return (
        f"Embeddings of {d} numbers: the graph alone labels them, no network is trained.",
        f"Each of the {n} rows is joined to its {job.settings.graph.k} most similar ones, by the cosine of their angle:"
        " 50, fewer where a class has few rows.",
        chosen_prior(job.settings.prior),
    )


def calibration_notes(calibration: Calibration | None) -> list[str]:
    if calibration is None:
        return ["no label could be hidden, so confidences are the graph's own and not calibrated"]
    if calibration.n < FEW:
        return [f"confidences are calibrated on {calibration.n} labels only, which say little"]
    return []
