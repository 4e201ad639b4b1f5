"""Write the results of a review, the same files as `label`, at any time."""

import logging
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from laplacenet.data import SKIPPED, Skipped, VectorSet, data_hash, write_skipped
from laplacenet.data.decoding import decode
from laplacenet.labeling.embeddings import GraphModel, save_graph_model
from laplacenet.labeling.estimate import LEVEL, calibrate, class_estimate, wilson
from laplacenet.labeling.evidence import class_masses, score_evidence
from laplacenet.labeling.feature_model import FeatureModel, fit_head, save_feature_model
from laplacenet.labeling.job import InputRecord
from laplacenet.labeling.outcome import LARGEST_SIDE, save_gallery, shown_rows
from laplacenet.labeling.result import (
    SOURCES,
    ClassEstimate,
    Estimate,
    Interval,
    Labeling,
    Summary,
    save_labeling,
    write_labels,
)
from laplacenet.reports.labeling_page import write_labeling_page
from laplacenet.review.audits import FEWEST, AccuracyEstimate
from laplacenet.review.known import UNKNOWN, Known, best_guess, current_columns
from laplacenet.review.live import Result
from laplacenet.review.pretrained import PretrainedEmbedder
from laplacenet.review.propagation import GRAPH, Embedded
from laplacenet.review.session import Session
from laplacenet.review.state import NONE, NONE_ID
from laplacenet.review.views import layout, neighbor_votes, suspects
from laplacenet.runtime import InputError, RunFolder, provenance
from laplacenet.runtime.run_folder import ENTRIES, PROVENANCE
from laplacenet.runtime.settings import to_json

METHOD = (
    "A fifth of the questions was drawn at random and kept from the model; the estimate rests on the {n} still kept"
    " back. Of all labels, the person's own included, about {value:.0%} are right (95% confidence interval {low:.0%} to"
    " {high:.0%})."
)


@dataclass(frozen=True, eq=False)
class Snapshot:
    """A snapshot of all that is written; later answers do not wait and go into the next files.

    `n` is the last entry of the journal.
    """

    n: int
    result: Result
    known: Known
    columns: Int64[np.ndarray, " C"]
    classes: dict[int, str]
    audits: tuple[int, int, int, int]
    estimate: AccuracyEstimate
    n_questions: int

    @property
    def numbers(self) -> Int64[np.ndarray, " n"]:
        """The pictures that are embedded or labeled by a person."""
        return np.union1d(np.flatnonzero(self.known.targets != UNKNOWN), self.result.embedded.rows.numpy())

    @property
    def rows(self) -> Int64[Tensor, " n"]:
        """Their rows among the embedded ones, −1 where there is none."""
        return self.result.place[torch.from_numpy(self.numbers)]


def snapshot(session: Session) -> Snapshot:
    with session.lock:
        result, known, state = session.live.current, session.known, session.state
        if not bool((known.targets != UNKNOWN).any()):
            raise InputError("nothing to write yet: no picture has been labeled")
        if result is None:
            raise InputError("nothing to write yet: the pictures are still being read; the answers are saved")
        columns = current_columns(result, state)
        audits, estimate = session.audits(), session.estimate()
        return Snapshot(state.n, result, known, columns, dict(state.classes), audits, estimate, state.n_questions)


def write_outputs(session: Session, folder: Path, *, title: str, started_at: float) -> dict[str, Any]:
    """Labels, report and model as of now; `started_at` is by `time.monotonic`."""
    now = snapshot(session)
    labeling = current_labeling(session, now, title=title, elapsed_s=time.monotonic() - started_at)
    unreadable = [photo for photo, ok in zip(session.photos, session.embedding.is_readable, strict=True) if not ok]
    if unreadable:
        write_skipped(folder / SKIPPED, [Skipped(photo.name, "cannot be read as a picture") for photo in unreadable])
    write_gallery(session, folder, labeling, now.numbers.tolist())
    write_origin(folder, labeling, now, seed=session.seed)
    write_model(session, folder, labeling, now)
    save_labeling(folder, labeling)
    write_labels(folder, labeling)
    write_labeling_page(folder)
    return {"folder": str(folder), "n_labels": len(labeling), "n_given": int(labeling.is_given.sum())}


def current_labeling(session: Session, now: Snapshot, *, title: str, elapsed_s: float) -> Labeling:
    """Every picture with the person's label, or else the model's; one that has neither yet is left out."""
    numbers, rows = now.numbers, now.rows
    targets = now.known.targets[numbers]
    names, place, scores = model_scores(now)
    given = torch.tensor([place.get(target, -1) for target in targets.tolist()])
    is_given, is_kept_back = given >= 0, torch.from_numpy(now.known.is_kept_back[numbers]) & (given >= 0)
    calibration = calibrate(score_evidence(scores[is_kept_back]), given[is_kept_back])
    scores = score_evidence(scores).at(1.0 if calibration is None else calibration.temperature)
    unseen = torch.where(is_kept_back[:, None], scores, similar_say(now, place, is_given))
    scores[is_given] = torch.nn.functional.one_hot(given[is_given], len(names)).float()
    suspected = torch.from_numpy(np.isin(numbers, suspects(now.known, now.result, now.columns)))
    is_embedded = (rows >= 0)[:, None]
    positions = layout(now.result.embedded, session.seed)
    return Labeling(
        summary=replace(
            summary(session, now, names, scores, title=title, elapsed_s=elapsed_s), calibration=calibration
        ),
        names=tuple(session.photos[number].name for number in numbers),
        given=given,
        labels=torch.where(is_given, given, scores.argmax(1)),
        scores=scores,
        sources=torch.where(is_given, SOURCES.index("given"), SOURCES.index("graph")).to(torch.uint8),
        unseen_scores=unseen,
        is_suspect=suspected & is_given,
        features=torch.where(is_embedded, now.result.embedded.points[rows], 0.0),
        positions=torch.where(is_embedded, positions[rows], torch.nan),
    )


def class_numbers(now: Snapshot) -> list[int]:
    """The classes that have pictures, by number; "none" last."""
    present = {*now.columns.tolist(), *now.known.targets.tolist()} - {UNKNOWN}
    return sorted(present - {NONE_ID}) + ([NONE_ID] if NONE_ID in present else [])


def model_scores(now: Snapshot) -> tuple[tuple[str, ...], dict[int, int], Float[Tensor, "n C"]]:
    """The classes' names, the column of each class, "none" last, and what the model says of each picture."""
    labels = class_numbers(now)
    names = tuple(NONE if label == NONE_ID else now.classes.get(label, f"class {label}") for label in labels)
    place = {label: column for column, label in enumerate(labels)}
    scores = in_places(now, place, now.result.scores)
    is_unknown = scores.sum(1) == 0  # not embedded, or nothing is learned yet
    scores[is_unknown] = 1 / len(labels)
    return names, place, scores


def in_places(now: Snapshot, place: dict[int, int], table: Float[Tensor, "m c"]) -> Float[Tensor, "n C"]:
    """A table over the embedded rows and the model's classes, over the pictures and classes of the files."""
    rows = now.rows
    found = torch.zeros(len(rows), len(place))
    for column, label in enumerate(now.columns.tolist()):
        found[:, place[label]] += torch.where(rows >= 0, table[rows, column], 0.0)
    return found


def similar_say(now: Snapshot, place: dict[int, int], is_given: Bool[Tensor, " n"]) -> Float[Tensor, "n C"]:
    """For pictures that the model learned from, the scores of their nearest neighbors; NaN for all others."""
    if len(now.columns) < 2:
        return torch.full((len(is_given), len(place)), torch.nan)
    votes = in_places(now, place, neighbor_votes(now.result))
    is_told = is_given & (now.rows >= 0) & (votes.sum(1) > 0)
    return torch.where(is_told[:, None], votes / votes.sum(1, keepdim=True), torch.nan)


def summary(
    session: Session,
    now: Snapshot,
    names: tuple[str, ...],
    scores: Float[Tensor, "n C"],
    *,
    title: str,
    elapsed_s: float,
) -> Summary:
    found = now.estimate
    n_unreadable = int((~session.embedding.is_readable).sum())
    n_left = len(session.photos) - len(scores) - n_unreadable
    shares = scores.double().mean(0).clamp(min=1e-9)
    return Summary(
        title=title,
        kind="pictures",
        class_names=names,
        prior=tuple((shares / shares.sum()).tolist()),
        choices=(f"Labeled by a person in the browser: {now.n_questions} questions.",),
        notes=(
            *session.journal.notes,
            *([f"{n_left} pictures are not embedded yet and have no line in labels.csv"] if n_left > 0 else ()),
        ),
        estimate=Estimate(method(found), LEVEL, found.n_audits, of_found_labels(now), class_estimates(now, names)),
        calibration=None,
        n_skipped=n_unreadable,
        is_complete=True,
        elapsed_s=elapsed_s,
    )


def method(found: AccuracyEstimate) -> str:
    if found.low == 1:
        return "Every picture was labeled by a person, so there is nothing to estimate."
    if found.value is not None:
        return METHOD.format(n=found.n_audits, value=found.value, low=found.low, high=found.high).replace("%", " %")
    return (
        f"Between {100 * found.low:.0f} and {100 * found.high:.0f} % of all labels are right by {found.n_audits} random"
        f" checks, which were kept from the model; a single number is stated from {FEWEST} on."
    )


def of_found_labels(now: Snapshot) -> Interval | None:
    """The accuracy of the labels that no person gave; None with fewer audits than the page requires."""
    n_audits, n_right, n_known, n_pictures = now.audits
    if n_audits < FEWEST:
        return None
    return wilson(n_right / n_audits, n_audits, n_others=n_pictures - n_known)


def class_estimates(now: Snapshot, names: tuple[str, ...]) -> tuple[ClassEstimate, ...]:
    """For each class, the held-out answers that the model agrees with."""
    rows = now.result.embedded.rows.numpy()
    targets = now.known.targets[rows]
    is_judged = now.known.is_kept_back[rows] & (targets != UNKNOWN)
    labels = class_numbers(now)
    if not len(now.columns) or not is_judged.any():
        return tuple(ClassEstimate(name, 0, None) for name in names)
    guess = now.columns[best_guess(now.result)[1].numpy()]
    is_right = torch.from_numpy((guess == targets)[is_judged])
    truth = torch.from_numpy(targets[is_judged])
    return tuple(class_estimate(name, is_right[truth == label]) for name, label in zip(names, labels, strict=True))


def write_model(session: Session, folder: Path, labeling: Labeling, now: Snapshot) -> None:
    """A head on the network that embedded the pictures, as `label` writes it; else a graph for embeddings."""
    embedder, embedded = session.embedding.embedder, now.result.embedded
    is_embedded = now.rows >= 0
    labels, scores = labeling.labels[is_embedded], labeling.scores[is_embedded]
    names = labeling.summary.class_names
    if not isinstance(embedder, PretrainedEmbedder):
        save_graph_model(folder, graph_model(embedded, scores, labeling.summary))
        return
    weights, offsets, temperature = fit_head(embedded.points, labels, scores, seed=session.seed)
    model = FeatureModel(
        features=embedder.name,
        weights_file=None if embedder.weights is None else str(embedder.weights),
        fingerprint=embedder.fingerprint,
        transform=embedded.land.transform,
        weights=weights,
        offsets=offsets,
        temperature=temperature,
        class_names=names,
    )
    save_feature_model(folder, model)


def graph_model(embedded: Embedded, scores: Float[Tensor, "m C"], summary: Summary) -> GraphModel:
    """For new embeddings: each gets the labels of its nearest pictures."""
    vectors = embedded.vectors()
    return GraphModel(
        points=vectors / torch.linalg.vector_norm(vectors, dim=1, keepdim=True).clamp(min=1e-12),
        scores=scores,
        masses=class_masses(scores, torch.zeros(len(scores), dtype=torch.bool)),
        prior=summary.prior,
        class_names=summary.class_names,
        k=GRAPH.k,
        temperature=1.0,
    )


def write_origin(folder: Path, labeling: Labeling, now: Snapshot, *, seed: int) -> None:
    """Where the labels come from: program, machine, and a checksum of what was labeled."""
    names = labeling.summary.class_names
    rows = VectorSet(labeling.features, labeling.given, names)
    inputs = InputRecord(labeling.summary.title, data_hash(rows), len(labeling), names)
    origin = {"seed": seed, "data": to_json(inputs), ENTRIES: now.n}
    RunFolder(folder).write_sealed(PROVENANCE, provenance(torch.device("cpu")) | origin)


def write_gallery(session: Session, folder: Path, labeling: Labeling, numbers: list[int]) -> None:
    """The pictures that the report shows; one that is gone meanwhile is left out."""
    rows, images = [], []
    for row in shown_rows(labeling).tolist():
        try:
            image = decode(session.photos[numbers[row]].file.path, size=LARGEST_SIDE)
        except Exception:
            logging.getLogger(__name__).info("%s: not in the report", session.photos[numbers[row]].name)
            continue
        rows.append(row)
        images.append(torch.from_numpy(image).permute(2, 0, 1))
    if rows:
        save_gallery(folder, torch.tensor(rows), torch.stack(images))
