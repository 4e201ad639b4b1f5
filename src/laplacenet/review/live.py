"""Answers spread in the background: a thread that always works on the newest answers, and the last result."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from laplacenet.review.embedding import work_behind
from laplacenet.review.propagation import Embedded, Propagation
from laplacenet.review.questions import Ranking, rank, regions


@dataclass(frozen=True, eq=False)
class Given:
    """What the model may learn from: of each picture its class's number or None, as of journal entry `n`.

    `is_open` are pictures that may be asked for: without an answer, or with one that is kept back.
    """

    n: int
    targets: dict[int, int]
    rejected: dict[int, set[int]]
    is_open: Bool[Tensor, " pictures"]


@dataclass(frozen=True, eq=False)
class Result:
    """Scores of the embedded pictures as of journal entry `n`; `columns` are the classes' numbers."""

    n: int
    embedded: Embedded
    columns: tuple[int, ...]
    scores: Float[Tensor, "m C"]
    ranking: Ranking
    regions: list[list[list[int]]]
    place: Int64[Tensor, " pictures"]
    """Each picture's row among the embedded ones, −1 where it has none."""
    elapsed_s: float


class Live:
    """`current` is replaced as a whole, so readers need no lock."""

    def __init__(self, n_pictures: int, *, seed: int, on_result: Callable[[], None]) -> None:
        self.current: Result | None = None
        self._n_pictures, self._seed, self._on_result = n_pictures, seed, on_result
        self._given: Given | None = None
        self._embedded: Embedded | None = None
        self._wakeup = threading.Condition()
        self._is_closed = False
        self._thread = threading.Thread(target=self._work, name="review-propagation", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        with self._wakeup:
            self._is_closed = True
            self._wakeup.notify_all()
        if self._thread.is_alive():
            self._thread.join(timeout=30)

    @property
    def is_settled(self) -> bool:
        """Nothing is waiting to be spread; without embeddings nothing can be."""
        with self._wakeup:
            given, current = self._given, self.current
            if given is None or self._embedded is None:
                return True
            return current is not None and current.n == given.n and current.embedded is self._embedded

    def give(self, given: Given) -> None:
        with self._wakeup:
            self._given = given
            self._wakeup.notify_all()

    def embed(self, embedded: Embedded) -> None:
        with self._wakeup:
            self._embedded = embedded
            self._wakeup.notify_all()

    def _work(self) -> None:
        work_behind()
        propagation: Propagation | None = None
        levels: list[list[list[int]]] = []
        done: tuple[Given | None, Embedded | None] = (None, None)
        while True:
            with self._wakeup:
                while not self._is_closed and ((self._given, self._embedded) == done or not self._is_ready()):
                    self._wakeup.wait()
                if self._is_closed:
                    return
                given, embedded = done = self._given, self._embedded
            assert given is not None
            assert embedded is not None
            if propagation is None or propagation.embedded is not embedded:
                propagation, levels = Propagation(embedded), regions(embedded, seed=self._seed)
            self.current = compute(propagation, given, levels, n_pictures=self._n_pictures)
            self._on_result()

    def _is_ready(self) -> bool:
        return self._given is not None and self._embedded is not None


@torch.no_grad()
def compute(propagation: Propagation, given: Given, levels: list[list[list[int]]], *, n_pictures: int) -> Result:
    """From answers to scores of all embedded pictures and to the next questions."""
    started_at = time.monotonic()
    embedded = propagation.embedded
    place = torch.full((n_pictures,), -1)
    place[embedded.rows] = torch.arange(len(embedded))
    known = {int(place[picture]): target for picture, target in given.targets.items() if place[picture] >= 0}
    columns = sorted(set(known.values()))
    y = torch.full((len(embedded),), -1)
    if known:
        column_of = {label: column for column, label in enumerate(columns)}
        y[torch.tensor(list(known))] = torch.tensor([column_of[target] for target in known.values()])
    scores = propagation.scores(y, columns) if columns else torch.zeros(len(embedded), 0)
    reject(scores, place, given.rejected, columns)
    ranking = rank(embedded, scores, given.is_open[embedded.rows])
    elapsed_s = time.monotonic() - started_at
    return Result(given.n, embedded, tuple(columns), scores, ranking, levels, place, elapsed_s)


def reject(
    scores: Float[Tensor, "m C"], place: Int64[Tensor, " pictures"], rejected: dict[int, set[int]], columns: list[int]
) -> None:
    """In place: a class that a person has ruled out has no score, unless it is the only one."""
    for picture, labels in rejected.items():
        row = int(place[picture])
        out = [column for column, label in enumerate(columns) if label in labels]
        if row < 0 or not out:
            continue
        kept = scores[row].clone()
        kept[out] = 0
        if float(kept.sum()) > 0:
            scores[row] = kept / kept.sum()
