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
from laplacenet.labeling.evidence import class_masses
from laplacenet.labeling.gallery import LARGEST_SIDE, save_gallery, shown_rows
from laplacenet.labeling.graph_model import GraphModel, save_graph_model
from laplacenet.labeling.positions import map_positions
from laplacenet.labeling.result import SOURCES, Account, ClassEstimate, Estimate, Interval, Labeling, save_labeling
from laplacenet.labeling.table import write_labels
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
        numbers = result.embedded.rows.tolist()
        unreadable = [photo for photo, ok in zip(session.photos, session.embedding.is_readable, strict=True) if not ok]
    if unreadable:
        write_skipped(folder / SKIPPED, [Skipped(photo.name, "cannot be read as a picture") for photo in unreadable])
    write_gallery(session, folder, labeling, numbers)
    save_labeling(folder, labeling)
    save_graph_model(folder, graph_model(labeling, result))
    write_labels(folder, labeling)
    write_labeling_page(folder)
    return {"folder": str(folder), "n_labels": len(labeling), "n_given": int(labeling.is_given.sum())}


def current_labeling(session: Session, result: Result, *, title: str, elapsed_s: float) -> Labeling:
    """Every embedded picture with the person's label, or else the model's."""
    state, rows = session.state, result.embedded.rows
    targets = [state.target(session.photos[number].name) for number in rows.tolist()]
    now = [label if label == NONE_ID else state.current(label) for label in result.columns]
    labels = sorted({*now, *(target for target in targets if target is not None)} - {NONE_ID})
    if NONE_ID in now or NONE_ID in targets:
        labels.append(NONE_ID)
    names = tuple(NONE if label == NONE_ID else state.classes.get(label, f"class {label}") for label in labels)
    place = {label: column for column, label in enumerate(labels)}
    scores = torch.zeros(len(rows), len(labels))
    for column, label in enumerate(now):
        scores[:, place[label]] += result.scores[:, column]
    given = torch.tensor([-1 if target is None else place[target] for target in targets])
    unseen = torch.full_like(scores, torch.nan)
    kept_back = [row for row, n in enumerate(rows.tolist()) if state.is_kept_back(session.photos[n].name)]
    unseen[kept_back] = scores[kept_back]
    is_given = given >= 0
    scores[is_given] = torch.nn.functional.one_hot(given[is_given], len(labels)).float()
    suspected = set(suspects(session, result))
    return Labeling(
        account=account(session, names, scores, title=title, elapsed_s=elapsed_s),
        names=tuple(session.photos[number].name for number in rows.tolist()),
        given=given,
        labels=torch.where(is_given, given, scores.argmax(1)),
        scores=scores,
        sources=torch.where(is_given, SOURCES.index("given"), SOURCES.index("graph")).to(torch.uint8),
        unseen_scores=unseen,
        is_suspect=torch.tensor([number in suspected for number in rows.tolist()]),
        features=result.embedded.points,
        positions=map_positions(result.embedded.points, seed=session.seed),
    )


def account(
    session: Session, names: tuple[str, ...], scores: Float[Tensor, "n C"], *, title: str, elapsed_s: float
) -> Account:
    found = session.estimate()
    accuracy = None if found.value is None else Interval(found.value, found.low, found.high)
    n_left = len(session.photos) - len(scores) - int((~session.embedding.is_readable).sum())
    shares = scores.double().mean(0).clamp(min=1e-9)
    return Account(
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


def graph_model(labeling: Labeling, result: Result) -> GraphModel:
    """For embeddings that come later: each takes the labels of the pictures most like it."""
    vectors = result.embedded.vectors()
    return GraphModel(
        points=vectors / torch.linalg.vector_norm(vectors, dim=1, keepdim=True).clamp(min=1e-12),
        scores=labeling.scores,
        masses=class_masses(labeling.scores, torch.zeros(len(labeling), dtype=torch.bool)),
        prior=labeling.account.prior,
        class_names=labeling.account.class_names,
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
