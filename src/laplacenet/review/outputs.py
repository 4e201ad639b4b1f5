"""What a review leaves in its run folder, at any time: what `label` leaves."""

import logging
import time
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from laplacenet.data import SKIPPED, Skipped, write_skipped
from laplacenet.data.decoding import decode
from laplacenet.labeling.embeddings import GraphModel, save_graph_model
from laplacenet.labeling.evidence import class_masses
from laplacenet.labeling.outcome import LARGEST_SIDE, map_positions, save_gallery, shown_rows
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
from laplacenet.review.live import Result
from laplacenet.review.propagation import K
from laplacenet.review.session import Session
from laplacenet.review.state import NONE, NONE_ID
from laplacenet.review.views import suspects
from laplacenet.runtime import InputError

LEVEL = 0.95
METHOD = (
    "A fifth of the questions was drawn at random and kept from the model; the estimate rests on those still kept back,"
    " and is stated for all labels, the person's own included."
)


def write_outputs(session: Session, folder: Path, *, title: str, started_at: float) -> dict[str, Any]:
    """Labels, report and model as of now; `started_at` is by `time.monotonic`."""
    with session.lock:
        result, state = session.live.current, session.state
        if result is None or not any(state.target(name) is not None for name in state.answers):
            raise InputError("nothing to write yet: no picture has been labeled")
        labeling = current_labeling(session, result, title=title, elapsed_s=time.monotonic() - started_at)
        numbers = labeled_numbers(session, result)
        unreadable = [photo for photo, ok in zip(session.photos, session.embedding.is_readable, strict=True) if not ok]
    if unreadable:
        write_skipped(folder / SKIPPED, [Skipped(photo.name, "cannot be read as a picture") for photo in unreadable])
    write_gallery(session, folder, labeling, numbers)
    save_labeling(folder, labeling)
    save_graph_model(folder, graph_model(labeling, result, numbers))
    write_labels(folder, labeling)
    write_labeling_page(folder)
    return {"folder": str(folder), "n_labels": len(labeling), "n_given": int(labeling.is_given.sum())}


def current_labeling(session: Session, result: Result, *, title: str, elapsed_s: float) -> Labeling:
    """Every picture with the person's label, or else the model's; one that has neither yet is left out."""
    state = session.state
    numbers = labeled_numbers(session, result)
    photos = [session.photos[number] for number in numbers]
    targets = [state.target(photo.name) for photo in photos]
    names, place, scores = model_scores(session, result, numbers, targets)
    given = torch.tensor([-1 if target is None else place[target] for target in targets])
    unseen = torch.full_like(scores, torch.nan)
    kept_back = [row for row, photo in enumerate(photos) if state.is_kept_back(photo.name)]
    unseen[kept_back] = scores[kept_back]
    is_given = given >= 0
    scores[is_given] = torch.nn.functional.one_hot(given[is_given], len(names)).float()
    suspected = set(suspects(session, result))
    rows = result.place[numbers]
    is_embedded = (rows >= 0)[:, None]
    positions = map_positions(result.embedded.points, seed=session.seed)
    return Labeling(
        summary=summary(session, names, scores, title=title, elapsed_s=elapsed_s),
        names=tuple(photo.name for photo in photos),
        given=given,
        labels=torch.where(is_given, given, scores.argmax(1)),
        scores=scores,
        sources=torch.where(is_given, SOURCES.index("given"), SOURCES.index("graph")).to(torch.uint8),
        unseen_scores=unseen,
        is_suspect=torch.tensor([number in suspected for number in numbers]),
        features=torch.where(is_embedded, result.embedded.points[rows], 0.0),
        positions=torch.where(is_embedded, positions[rows], torch.nan),
    )


def labeled_numbers(session: Session, result: Result) -> list[int]:
    """The pictures that are embedded, and those that a person has labeled before they were."""
    answered = {session.row_of[name] for name in session.state.answers if name in session.row_of}
    labeled = {number for number in answered if session.state.target(session.photos[number].name) is not None}
    return sorted(labeled | set(result.embedded.rows.tolist()))


def model_scores(
    session: Session, result: Result, numbers: list[int], targets: list[int | None]
) -> tuple[tuple[str, ...], dict[int, int], Float[Tensor, "n C"]]:
    """The classes' names, the column of each class, "none" last, and what the model says of each picture."""
    state = session.state
    now = [label if label == NONE_ID else state.current(label) for label in result.columns]
    labels = sorted({*now, *(target for target in targets if target is not None)} - {NONE_ID})
    if NONE_ID in now or NONE_ID in targets:
        labels.append(NONE_ID)
    names = tuple(NONE if label == NONE_ID else state.classes.get(label, f"class {label}") for label in labels)
    place = {label: column for column, label in enumerate(labels)}
    scores = torch.zeros(len(numbers), len(labels))
    rows = result.place[numbers]
    for column, label in enumerate(now):
        scores[:, place[label]] += torch.where(rows >= 0, result.scores[rows, column], 0.0)
    if not now:
        scores += 1 / len(labels)
    return names, place, scores


def summary(
    session: Session, names: tuple[str, ...], scores: Float[Tensor, "n C"], *, title: str, elapsed_s: float
) -> Summary:
    found = session.estimate()
    accuracy = None if found.value is None else Interval(found.value, found.low, found.high)
    n_left = len(session.photos) - len(scores) - int((~session.embedding.is_readable).sum())
    shares = scores.double().mean(0).clamp(min=1e-9)
    return Summary(
        title=title,
        kind="pictures",
        class_names=names,
        prior=tuple((shares / shares.sum()).tolist()),
        choices=(f"Labeled by a person in the browser: {session.state.n_questions} questions.",),
        notes=(
            *session.journal.notes,
            *([f"{n_left} pictures are not embedded yet and have no line in labels.csv"] if n_left > 0 else ()),
        ),
        estimate=Estimate(
            method=METHOD,
            level=LEVEL,
            n=found.n_audits,
            accuracy=accuracy,
            classes=tuple(ClassEstimate(name, 0, None) for name in names),
        ),
        calibration=None,
        n_skipped=int((~session.embedding.is_readable).sum()),
        is_complete=True,
        elapsed_s=elapsed_s,
    )


def graph_model(labeling: Labeling, result: Result, numbers: list[int]) -> GraphModel:
    """For embeddings that come later: each takes the labels of the pictures most like it."""
    vectors = result.embedded.vectors()
    scores = labeling.scores[result.place[numbers] >= 0]
    return GraphModel(
        points=vectors / torch.linalg.vector_norm(vectors, dim=1, keepdim=True).clamp(min=1e-12),
        scores=scores,
        masses=class_masses(scores, torch.zeros(len(scores), dtype=torch.bool)),
        prior=labeling.summary.prior,
        class_names=labeling.summary.class_names,
        k=K,
        temperature=1.0,
    )


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
