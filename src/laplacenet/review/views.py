"""What the page shows: all of it computed from a session, as plain JSON."""

import functools
import string
import threading
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from laplacenet.labeling.estimate import WRONG_SHARE
from laplacenet.labeling.outcome import map_positions
from laplacenet.review.embedding import work_behind
from laplacenet.review.known import UNKNOWN, Known, best_guess, current_columns, merged_columns, shown_labels
from laplacenet.review.live import Result
from laplacenet.review.propagation import Embedded
from laplacenet.review.session import Session
from laplacenet.review.state import NONE_ID, State, folded
from laplacenet.runtime import InputError

N_SHOWN = 60
N_KEYS = 9
MOST_TILES = 200
NOTHING_COUNTED = {"given": 0, "found": 0}
ORDERS = ("surest", "doubtful", "suspects", "answered")
LEAST_RATIO = (1 - WRONG_SHARE) / WRONG_SHARE
"""How much likelier the neighbors' best class must be than the one given, for an answer to look like a mistake."""


def summary(session: Session) -> dict[str, Any]:
    """Counts, classes, the estimate with its curve, and how far embedding is.

    A file that cannot be read is no picture, unless it has a label all the same, from a file or before it was tried.
    Only the state is read under the lock: answers must not wait for computations.
    """
    result, known, embedding = session.live.current, session.known, session.embedding
    is_picture = embedding.is_readable | (known.targets != UNKNOWN)
    estimate = session.estimate()
    counts = label_counts(known, result, session.state)
    with session.lock:
        state = session.state
        keys = class_keys(state)
        content = {
            "n": state.n,
            "questions": state.n_questions,
            "classes": [
                {"class": label, "name": name, "key": keys.get(label), **counts.get(label, NOTHING_COUNTED)}
                for label, name in sorted(state.classes.items())
            ],
            "curve": state.curve[-200:],
            "disagreements": len(state.disagreements()),
        }
    return content | {
        "computed": 0 if result is None else result.n,
        "joined": 0 if result is None else len(result.embedded),
        "layouts": session.n_layouts,
        "files": len(session.photos),
        "pictures": int(is_picture.sum()),
        "labeled": 0 if result is None or not result.columns else len(result.embedded),
        "answered": int((known.is_answered & is_picture).sum()),
        "none": counts.get(NONE_ID, NOTHING_COUNTED),
        "goals": session.goals(estimate),
        "estimate": {
            "audits": estimate.n_audits,
            "value": estimate.value,
            "low": estimate.low,
            "high": estimate.high,
        },
        "embedded": embedding.n_done,
        "embedding_error": embedding.error,
        "unreadable": int((~embedding.is_readable).sum()),
        "notes": session.journal.notes,
    }


def class_keys(state: State) -> dict[int, int]:
    """The key, 1 to 9, of each class that has one: the first free one by the order in which classes were made.

    A class that is called by a digit has that digit's key or none: who sees a 7 presses 7. Classes that are gone keep
    theirs, so that no key ever moves.
    """
    first_names: dict[int, str] = {}
    for name, label in [*state.known_names.items(), *((folded(name), label) for label, name in state.classes.items())]:
        first_names.setdefault(label, name)
    keys: dict[int, int] = {}
    free = list(range(1, N_KEYS + 1))
    for label, name in sorted(first_names.items()):
        is_digit = len(name) == 1 and name in string.digits
        choices = [key for key in free if str(key) == name] if is_digit else free
        if choices:
            keys[label] = choices[0]
            free.remove(choices[0])
    return keys


def label_counts(known: Known, result: Result | None, state: State) -> dict[int, dict[str, int]]:
    """For each class how many pictures a person gave it and how many the model did."""
    counts: dict[int, dict[str, int]] = {}

    def count(labels: Int64[np.ndarray, " m"], key: str) -> None:
        for label, n in zip(*(found.tolist() for found in np.unique(labels, return_counts=True)), strict=True):
            counts.setdefault(label, dict(NOTHING_COUNTED))[key] = n

    count(known.targets[known.targets != UNKNOWN], "given")
    if result is not None and result.columns:
        is_found = known.targets[result.embedded.rows.numpy()] == UNKNOWN
        count(current_columns(result, state)[best_guess(result)[1].numpy()[is_found]], "found")
    return counts


def picture(session: Session, number: int) -> dict[str, Any]:
    """A picture with its guesses."""
    return {**tile(session, number, session.live.current), "guesses": session.guesses(number)}


def tile(session: Session, number: int, result: Result | None) -> dict[str, Any]:
    label, confidence, is_given = session.label_of(number, result)
    photo = session.photos[number]
    return {
        "number": number,
        "name": photo.name,
        "status": photo.status() if session.embedding.is_readable[number] else "unreadable",
        "class": label,
        "p": round(confidence, 4),
        "given": is_given,
    }


def question(session: Session, by: str, *, mode: str, holding: list[int]) -> dict[str, Any]:
    with session.lock:
        found = session.next_question(by, mode=mode, holding=holding)
        pictures = [picture(session, number) for number in found.pop("numbers", ())]
        return {**found, "pictures": pictures, "seen": session.state.n}


def class_tiles(session: Session, label: int, *, order: str, offset: int) -> dict[str, Any]:
    """Pictures of one class: the surest, the doubtful, the suspects, or those that a person gave it."""
    if order not in ORDERS:
        raise InputError(f"order {order!r}: choose one of {', '.join(ORDERS)}")
    result, seen = session.live.current, session.state.n
    numbers = numbers_in_class(session, result, label, order=order)
    tiles = [tile(session, number, result) for number in numbers[offset : offset + N_SHOWN]]
    if order == "suspects" and tiles and result is not None:
        rows = result.place[[one["number"] for one in tiles]]
        votes, classes = merged_columns(neighbor_votes(result)[rows], current_columns(result, session.state))
        for one, column in zip(tiles, votes.argmax(1).tolist(), strict=True):
            one["others"] = int(classes[column])
    return {"total": len(numbers), "offset": offset, "pictures": tiles, "seen": seen}


def numbers_in_class(session: Session, result: Result | None, label: int, *, order: str) -> list[int]:
    if order == "answered":
        return np.flatnonzero(session.known.shown == label).tolist()
    if result is None or not result.columns:
        return []
    known, columns = session.known, current_columns(result, session.state)
    shown = shown_labels(known, result, columns)
    if order == "suspects":
        given = set(shown.numbers[shown.is_given & (shown.labels == label)].tolist())
        return [number for number in suspects(known, result, columns) if number in given]
    rows = np.flatnonzero(~shown.is_given & (shown.labels == label))
    doubts = -shown.confidence[rows] if order == "surest" else shown.confidence[rows]
    found: list[int] = shown.numbers[rows[np.argsort(doubts, kind="stable")]].tolist()
    return found


def suspects(known: Known, result: Result, columns: Int64[np.ndarray, " C"]) -> list[int]:
    """Answers that the labels of the most similar pictures contradict, the most clearly contradicted first."""
    if len(np.unique(columns)) < 2:
        return []
    numbers = np.flatnonzero(np.isin(known.shown, columns) & (result.place.numpy() >= 0))
    votes, classes = merged_columns(neighbor_votes(result)[result.place[torch.from_numpy(numbers)]], columns)
    given = torch.from_numpy(np.searchsorted(classes, known.targets[numbers]))
    best, own = votes.amax(1).numpy(), votes.gather(1, given[:, None]).squeeze(1).numpy()
    order = np.argsort(own - best, kind="stable")
    found: list[int] = numbers[order[(best > LEAST_RATIO * own)[order]]].tolist()
    return found


@functools.lru_cache(maxsize=1)
def neighbor_votes(result: Result) -> Float[Tensor, "m C"]:
    """Scores of the nearest neighbors of each picture."""
    votes = result.embedded.land.graph.W_normalized @ result.scores
    return votes / votes.sum(1, keepdim=True).clamp(min=1e-12)


def tiles(session: Session, numbers: list[int]) -> dict[str, Any]:
    return {"pictures": [tile(session, number, session.live.current) for number in numbers]}


def search(session: Session, text: str, *, offset: int = 0) -> dict[str, Any]:
    """Pictures whose names contain the text, whatever the case."""
    wanted = text.casefold()
    numbers = [number for number, photo in enumerate(session.photos) if wanted in photo.name.casefold()]
    return {**_listed(session, numbers[offset:], session.live.current), "total": len(numbers), "offset": offset}


def similar(session: Session, number: int) -> dict[str, Any]:
    """The pictures most like one, itself first."""
    result = session.live.current
    row = -1 if result is None else int(result.place[number])
    if result is None or row < 0:
        return _listed(session, [number], result)
    points = result.embedded.points
    best = (points @ points[row]).topk(min(N_SHOWN, len(points))).indices
    numbers = result.embedded.rows[best].tolist()
    return _listed(session, [number, *(other for other in numbers if other != number)], result)


def disagreements(session: Session) -> dict[str, Any]:
    """Pictures of which people said different things without having seen each other's answer."""
    with session.lock:
        state, result = session.state, session.live.current
        said = []
        for name, answers in state.disagreements().items():
            if name in session.row_of:
                words = [answer.kind if answer.target is None else state.current(answer.target) for answer in answers]
                said.append({**tile(session, session.row_of[name], result), "said": words})
        return {"total": len(said), "pictures": said[:N_SHOWN], "seen": state.n}


def _listed(session: Session, numbers: list[int], result: Result | None) -> dict[str, Any]:
    tiles = [tile(session, number, result) for number in numbers[:N_SHOWN]]
    return {"total": len(numbers), "pictures": tiles, "seen": session.state.n}


@functools.lru_cache(maxsize=1)
def layout(embedded: Embedded, seed: int) -> Float[Tensor, "m 2"]:
    """Places by t-SNE: seconds, so they are kept for the map and for the files."""
    return map_positions(embedded.points, seed=seed)


def first_directions(embedded: Embedded) -> Float[Tensor, "m 2"]:
    """Coordinates along the two directions of largest variance."""
    coordinates = embedded.reduced[:, :2]
    return torch.nn.functional.pad(coordinates, (0, 2 - coordinates.shape[1]))


class Map:
    """Places of the embedded pictures: along two principal directions at once, by t-SNE when it is done."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._lock = threading.Lock()
        self._made_for: object = None
        self._positions: Float[Tensor, "m 2"] | None = None

    def content(self) -> dict[str, Any]:
        """Numbers, places between 0 and 1, and labels, row by row."""
        session, result = self._session, self._session.live.current
        if result is None:
            return {"numbers": [], "x": [], "y": [], "classes": [], "given": [], "seen": 0, "layouts": 0}
        with self._lock:
            if self._made_for is not result.embedded:
                self._made_for, self._positions = result.embedded, first_directions(result.embedded)
                if session.embedding.is_done:
                    threading.Thread(target=self._lay_out, args=(result,), name="review-map", daemon=True).start()
            positions, n_layouts = self._positions, session.n_layouts
        assert positions is not None
        seen = session.state.n
        shown = shown_labels(session.known, result, current_columns(result, session.state))
        places = between_zero_and_one(positions)
        return {
            "numbers": result.embedded.rows.tolist(),
            "x": [round(x, 4) for x in places[:, 0].tolist()],
            "y": [round(y, 4) for y in places[:, 1].tolist()],
            "classes": [None if label == UNKNOWN else label for label in shown.labels.tolist()],
            "given": shown.is_given.astype(int).tolist(),
            "seen": seen,
            "layouts": n_layouts,
        }

    def _lay_out(self, result: Result) -> None:
        work_behind()
        positions = layout(result.embedded, self._session.seed)
        with self._lock:
            if self._made_for is result.embedded:
                self._positions = positions
                self._session.n_layouts += 1
        self._session.on_change()


def between_zero_and_one(positions: Float[Tensor, "m c"]) -> Float[Tensor, "m 2"]:
    """Both directions by the same factor; a few far-off pictures lie on the border."""
    positions = positions[:, :2]
    low, high = (positions.quantile(q, dim=0) for q in (0.005, 0.995))
    factor = (high - low).amax().clamp(min=1e-9)
    return ((positions - (low + high) / 2) / factor + 0.5).clamp(0.0, 1.0)
