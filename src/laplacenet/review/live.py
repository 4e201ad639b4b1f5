"""Propagate answers in the background: a thread that works on the newest answers, and the last result.

If a full result takes long, a quick one comes first, followed by the full one unless there is a newer answer.
"""

import copy
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int64
from threadpoolctl import threadpool_limits
from torch import Tensor

from laplacenet.review.embedding import work_behind
from laplacenet.review.propagation import Embedded, Propagation, never
from laplacenet.review.questions import Ranking, rank, regions

LONG_S = 0.08
"""A quick result comes first if full results take longer than this."""
FADING = 0.9
"""How fast earlier times are forgotten: a result after a new class takes longer than those that follow."""
N_KEPT, MOST_KEPT = 4, 20_000_000
"""Full results that are kept, so that undoing the last answers gives the labels of before, and at once; and the scores
that they may have together, of which each result keeps three tables."""


@dataclass(frozen=True, eq=False)
class Given:
    """What the model may learn from: the classes of the pictures that have one, as of journal entry `n`.

    `is_open` are pictures that may be asked for: without an answer, or with one that is kept back. `starts_afresh` asks
    for what these answers alone lead to, in whatever order they were given and whatever was undone in between.
    """

    n: int
    targets: dict[int, int]
    rejected: dict[int, set[int]]
    is_open: Bool[Tensor, " pictures"]
    starts_afresh: bool = False

    def teaches_the_same(self, other: "Given") -> bool:
        """Whether nothing but the number of the entry differs: a class was named, or an answer is kept back."""
        is_same = self.targets == other.targets and self.rejected == other.rejected
        return is_same and torch.equal(self.is_open, other.is_open)

    def adds_to(self, other: "Given") -> bool:
        """Whether all answers of the other one still hold: none was undone, changed or moved to another class."""
        return other.targets.items() <= self.targets.items()


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
    is_full: bool = True
    """No better one is on its way."""
    is_fresh: bool = False
    """The answers alone have led to it, not the results before."""


class Live:
    """`current` is replaced as a whole, so readers need no lock."""

    def __init__(self, n_pictures: int, *, seed: int, on_result: Callable[[], None]) -> None:
        self.current: Result | None = None
        self._n_pictures, self._seed, self._on_result = n_pictures, seed, on_result
        self._given: Given | None = None
        self._embedded: Embedded | None = None
        self._wakeup = threading.Condition()
        self._is_closed = False
        self._is_alone = threading.Event()
        self._thread = threading.Thread(target=self._work, name="review-propagation", daemon=True)

    def start(self) -> None:
        n_threads = torch.get_num_threads()
        self._thread.start()
        self._is_alone.wait()
        torch.set_num_threads(n_threads)  # the last number set anywhere is what later threads begin with

    def close(self) -> None:
        with self._wakeup:
            self._is_closed = True
            self._wakeup.notify_all()
        if self._thread.is_alive():
            self._thread.join(timeout=30)

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    @property
    def is_settled(self) -> bool:
        """Whether all answers have been propagated; without embeddings there is nothing to do."""
        with self._wakeup:
            given, current = self._given, self.current
            if given is None or self._embedded is None:
                return True
            if current is None or current.n != given.n or current.embedded is not self._embedded:
                return False
            return current.is_full and (current.is_fresh or not given.starts_afresh)

    def give(self, given: Given) -> None:
        with self._wakeup:
            self._given = given
            self._wakeup.notify_all()

    def start_afresh(self) -> None:
        """Have the next result come from the answers alone, as it would after a restart."""
        with self._wakeup:
            if self._given is not None:
                self.give(replace(self._given, starts_afresh=True))

    def embed(self, embedded: Embedded) -> None:
        with self._wakeup:
            self._embedded = embedded
            self._wakeup.notify_all()

    def _work(self) -> None:
        work_behind()
        torch.set_num_threads(1)  # threads that share short operations wait for each other on a busy machine
        self._is_alone.set()
        with threadpool_limits(1, user_api="blas"):
            self._work_alone()

    def _work_alone(self) -> None:
        spreader: Spreader | None = None
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
            if spreader is None or spreader.embedded is not embedded:
                spreader = Spreader(embedded, n_pictures=self._n_pictures, seed=self._seed)
            try:
                self._spread(spreader, given)
            except (
                Exception
            ):  # the answers are safe in the journal: report the error, and start again with the next one
                traceback.print_exc()
                spreader = None

    def _spread(self, spreader: "Spreader", given: Given) -> None:
        is_long = (spreader.elapsed_s > LONG_S or spreader.must_start_afresh(given)) and not spreader.has_spread(given)
        if is_long and not self._has_full_result(given, spreader.embedded):
            self._publish(spreader.spread_quickly(given))
        full = spreader.spread(given, is_stale=(lambda: self._given is not given) if is_long else never)
        if full is not None:
            self._publish(full)

    def _has_full_result(self, given: Given, embedded: Embedded) -> bool:
        """Whether these answers have one, be it one that earlier answers led to: a quick one would be worse."""
        current = self.current
        return current is not None and current.is_full and current.n == given.n and current.embedded is embedded

    def _publish(self, result: Result) -> None:
        self.current = result
        self._on_result()

    def _is_ready(self) -> bool:
        return self._given is not None and self._embedded is not None


class Spreader:
    """From answers to labels of all embedded pictures and to the next questions."""

    def __init__(self, embedded: Embedded, *, n_pictures: int, seed: int) -> None:
        self.embedded = embedded
        self.elapsed_s = 0.0
        """What a full result may take, by the last ones."""
        self._kept: deque[_Kept] = deque()
        self._taught: Given | None = None
        """What the propagation has learned from, be it in part."""
        self._propagation, self._regions = Propagation(embedded), regions(embedded, seed=seed)
        self._place = torch.full((n_pictures,), -1)
        self._place[embedded.rows] = torch.arange(len(embedded))

    @torch.no_grad()
    def spread(self, given: Given, *, is_stale: Callable[[], bool] = never) -> Result | None:
        """None where `is_stale` said, on the way, that there is something newer."""
        kept = self._find(given)
        if kept is not None:
            self._propagation, self._taught = copy.copy(kept.propagation), kept.given
            return replace(kept.result, n=given.n)
        started_at = time.monotonic()
        is_fresh = self._taught is None or self.must_start_afresh(given)
        if is_fresh:
            self._propagation = Propagation(self.embedded)
        self._taught = given
        y, columns = self._labels(given)
        scores = self._propagation.scores(y, columns, is_stale=is_stale) if columns else self._nothing()
        if scores is None:
            return None
        found = replace(self._result(given, columns, scores), is_fresh=is_fresh)
        self.elapsed_s = max(time.monotonic() - started_at, FADING * self.elapsed_s)
        self._kept.append(_Kept(given, found, copy.copy(self._propagation)))
        n_kept = max(1, min(N_KEPT, MOST_KEPT // max(1, scores.numel())))
        while len(self._kept) > n_kept:
            self._kept.popleft()
        return found

    def has_spread(self, given: Given) -> bool:
        """Whether one of the last full results has these answers: nothing is new, or the last ones were undone."""
        return self._find(given) is not None

    def must_start_afresh(self, given: Given) -> bool:
        """Whether an answer that was learned from no longer holds: its traces would stay in all that follows."""
        return given.starts_afresh or (self._taught is not None and not given.adds_to(self._taught))

    def _find(self, given: Given) -> "_Kept | None":
        fitting = (kept for kept in reversed(self._kept) if kept.result.is_fresh or not given.starts_afresh)
        return next((kept for kept in fitting if given.teaches_the_same(kept.given)), None)

    @torch.no_grad()
    def spread_quickly(self, given: Given) -> Result:
        y, columns = self._labels(given)
        scores = self._propagation.quick_scores(y, columns) if columns else self._nothing()
        return replace(self._result(given, columns, scores), is_full=False)

    def _labels(self, given: Given) -> tuple[Int64[Tensor, " m"], list[int]]:
        """The answers as places among the classes that have some, −1 elsewhere, and these classes."""
        pictures, targets = (
            torch.tensor(list(part), dtype=torch.int64) for part in (given.targets, given.targets.values())
        )
        rows = self._place[pictures]
        columns, places = torch.unique(targets[rows >= 0], return_inverse=True)
        y = torch.full((len(self.embedded),), -1)
        y[rows[rows >= 0]] = places
        return y, columns.tolist()

    def _nothing(self) -> Float[Tensor, "m 0"]:
        return torch.zeros(len(self.embedded), 0)

    def _result(self, given: Given, columns: list[int], scores: Float[Tensor, "m C"]) -> Result:
        reject(scores, self._place, given.rejected, columns)
        ranking = rank(self.embedded, scores, given.is_open[self.embedded.rows])
        return Result(given.n, self.embedded, tuple(columns), scores, ranking, self._regions, self._place)


@dataclass(frozen=True, eq=False)
class _Kept:
    """A full result, and the propagation that led to it, from which the next answer goes on."""

    given: Given
    result: Result
    propagation: Propagation


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
