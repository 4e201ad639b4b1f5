"""What the page shows: all of it computed from a session, as plain JSON."""

import threading
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from laplacenet.labeling.outcome import map_positions, principal_components
from laplacenet.review.live import Result
from laplacenet.review.session import Session
from laplacenet.review.state import NONE_ID
from laplacenet.runtime import InputError

N_SHOWN = 60
ORDERS = ("surest", "doubtful", "suspects", "answered")
LEAST_CONTRADICTION = 0.2
"""By how much the neighbors' best class must lead over the one given, for an answer to look like a slip."""


def summary(session: Session) -> dict[str, Any]:
    """Counts, classes, the estimate with its curve, and how far embedding is."""
    with session.lock:
        state, result, estimate = session.state, session.live.current, session.estimate()
        counts = label_counts(session, result)
        embedding = session.embedding
        return {
            "n": state.n,
            "computed": 0 if result is None else result.n,
            "pictures": len(session.photos),
            "answered": sum(name in session.row_of for name in state.answers),
            "questions": state.n_questions,
            "classes": [
                {"class": label, "name": name, "key": label + 1, **counts.get(label, {"given": 0, "found": 0})}
                for label, name in sorted(state.classes.items())
            ],
            "none": counts.get(NONE_ID, {"given": 0, "found": 0}),
            "estimate": {
                "audits": estimate.n_audits,
                "value": estimate.value,
                "low": estimate.low,
                "high": estimate.high,
            },
            "goals": session.goals(estimate),
            "curve": state.curve[-200:],
            "embedded": embedding.n_done,
            "embedding_error": embedding.error,
            "unreadable": int((~embedding.is_readable).sum()),
            "disagreements": len(state.disagreements()),
            "notes": session.journal.notes,
        }


def label_counts(session: Session, result: Result | None) -> dict[int, dict[str, int]]:
    """For each class how many pictures a person gave it and how many the model did."""
    counts: dict[int, dict[str, int]] = {}
    is_given = torch.zeros(len(session.photos), dtype=torch.bool)
    for name in session.state.answers:
        number, target = session.row_of.get(name), session.state.target(name)
        if number is not None and target is not None:
            is_given[number] = True
            counts.setdefault(target, {"given": 0, "found": 0})["given"] += 1
    if result is not None and result.columns:
        guess = result.scores.argmax(1)[~is_given[result.embedded.rows]]
        for label, n in zip(result.columns, torch.bincount(guess, minlength=len(result.columns)).tolist(), strict=True):
            now = label if label == NONE_ID else session.state.current(label)
            counts.setdefault(now, {"given": 0, "found": 0})["found"] += n
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
    with session.lock:
        result = session.live.current
        if order == "suspects":
            numbers = [number for number in suspects(session, result) if session.label_of(number, result)[0] == label]
        elif order == "answered":
            numbers = [
                session.row_of[name]
                for name in session.state.answers
                if name in session.row_of and session.label_of(session.row_of[name], result)[::2] == (label, True)
            ]
        else:
            numbers = found_in_class(session, result, label, is_descending=order == "surest")
        shown = numbers[offset : offset + N_SHOWN]
        tiles = [tile(session, number, result) for number in shown]
        return {"total": len(numbers), "offset": offset, "pictures": tiles, "seen": session.state.n}


def found_in_class(session: Session, result: Result | None, label: int, *, is_descending: bool) -> list[int]:
    if result is None or not result.columns:
        return []
    state = session.state
    now = [column if column == NONE_ID else state.current(column) for column in result.columns]
    confidence, guess = result.scores.max(1)
    is_own = torch.tensor([column == label for column in now])[guess]
    rows = torch.nonzero(is_own).squeeze(1)
    rows = rows[confidence[rows].argsort(descending=is_descending, stable=True)]
    numbers = result.embedded.rows[rows].tolist()
    return [number for number in numbers if not session.label_of(number, result)[2]]


def suspects(session: Session, result: Result | None) -> list[int]:
    """Answers that the labels of the most similar pictures contradict, the most clearly contradicted first."""
    if result is None or len(result.columns) < 2:
        return []
    W, state = result.embedded.W_normalized, session.state
    votes = W @ result.scores
    votes = votes / votes.sum(1, keepdim=True).clamp(min=1e-12)
    column_of = {label: column for column, label in enumerate(result.columns)}
    found = []
    for name in state.answers:
        number, target = session.row_of.get(name), state.target(name)
        if number is None or target not in column_of or state.is_kept_back(name) or result.place[number] < 0:
            continue
        own = votes[int(result.place[number])]
        lead = float(own.max() - own[column_of[target]])
        if lead > LEAST_CONTRADICTION:
            found.append((lead, number))
    return [number for _, number in sorted(found, reverse=True)]


def search(session: Session, text: str) -> dict[str, Any]:
    """Pictures whose names contain the text, whatever the case."""
    wanted = text.casefold()
    with session.lock:
        result = session.live.current
        numbers = [number for number, photo in enumerate(session.photos) if wanted in photo.name.casefold()]
        return _listed(session, numbers, result)


def similar(session: Session, number: int) -> dict[str, Any]:
    """The pictures most like one, itself first."""
    with session.lock:
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
            return {"numbers": [], "x": [], "y": [], "classes": [], "given": [], "is_final": False, "seen": 0}
        with self._lock:
            if self._made_for is not result.embedded:
                self._made_for, self._positions = result.embedded, principal_components(result.embedded.points, 2)
                if session.embedding.is_done:
                    threading.Thread(target=self._lay_out, args=(result,), name="review-map", daemon=True).start()
            positions = self._positions
        assert positions is not None
        with session.lock:
            labels = [session.label_of(number, result) for number in result.embedded.rows.tolist()]
            seen = session.state.n
        places = between_zero_and_one(positions)
        return {
            "numbers": result.embedded.rows.tolist(),
            "x": [round(x, 4) for x in places[:, 0].tolist()],
            "y": [round(y, 4) for y in places[:, 1].tolist()],
            "classes": [label for label, _, _ in labels],
            "given": [int(is_given) for _, _, is_given in labels],
            "seen": seen,
        }

    def _lay_out(self, result: Result) -> None:
        positions = map_positions(result.embedded.points, seed=self._session.seed)
        with self._lock:
            if self._made_for is result.embedded:
                self._positions = positions
        self._session.on_change()


def between_zero_and_one(positions: Float[Tensor, "m c"]) -> Float[Tensor, "m 2"]:
    """Both directions by the same factor; a few far-off pictures lie on the border."""
    positions = positions[:, :2]
    low, high = (positions.quantile(q, dim=0) for q in (0.005, 0.995))
    factor = (high - low).amax().clamp(min=1e-9)
    return ((positions - (low + high) / 2) / factor + 0.5).clamp(0.0, 1.0)
