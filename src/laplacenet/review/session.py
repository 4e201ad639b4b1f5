"""One review: the pictures, the journal with its state, and the live result, consistent for every tab and person."""

import contextlib
import reprlib
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch

from laplacenet.review.audits import FEWEST, AccuracyEstimate, answers_to_goals, estimate_accuracy
from laplacenet.review.embedding import Embedder, Embedding
from laplacenet.review.journal import Entry, Journal
from laplacenet.review.known import UNKNOWN, best_guess, current_columns, given_rows, is_open, known_of, merged_columns
from laplacenet.review.live import Given, Live, Result
from laplacenet.review.photos import Photo
from laplacenet.review.propagation import Embedded
from laplacenet.review.questions import LEAST_IN_GRID, first_questions
from laplacenet.review.state import AUDIT, FILE, LABEL, NONE, NONE_ID, History, State, folded, replay
from laplacenet.runtime import InputError, stream

LONGEST_NAME = 80
JOINERS = "\u200c\u200d"
"""Invisible, but parts of emoji and of words in Persian and Hindi."""
RESERVED = ("none", "none of these")
LEASE_S = 120.0
SKIP_FOR = 20
"""Questions until a skipped picture may come again."""
QUESTIONS_PER_AUDIT = 5
"""A grid is one question, with the answers for what was wrong in it."""
QUESTIONS_PER_POINT = 10
"""Of the curve of the estimate."""
ANSWERS_BEFORE_GRIDS = 2
"""A class: before that, answers to unlike pictures teach more than answers to many alike."""
N_GUESSES = 5


class Session:
    """All methods may be called from any thread. Pictures are numbers; the journal has their names."""

    def __init__(self, photos: list[Photo], journal: Journal, embedder: Embedder, *, seed: int) -> None:
        self.photos, self.journal, self.seed = photos, journal, seed
        self.row_of = {photo.name: row for row, photo in enumerate(photos)}
        self.state: State
        self.history: History
        self.state, self.history = replay(journal.entries)
        self.known = known_of(self.state, self.row_of)
        self.lock = threading.RLock()
        self.on_change: Callable[[], None] = lambda: None
        self.n_layouts = 0  # of the map, by t-SNE
        self.embedding = Embedding(photos, embedder, seed=seed)
        self.live = Live(len(photos), seed=seed, on_result=self._note_result)
        self._audit_order = stream(seed, "review/audits").permutation(len(photos)).tolist()
        self._leases: dict[int, tuple[str, float, str]] = {}

    def start(self) -> None:
        self.live.give(self._given())
        self.live.start()
        self.embedding.start(self._note_graph, self._note_progress)

    def close(self) -> None:
        self.embedding.close()
        self.live.close()
        self.journal.close()

    def settle(self, timeout_s: float) -> bool:
        """Wait until the labels are what the answers alone lead to, as after a restart; whether it was in time."""
        until = time.monotonic() + timeout_s
        while self.live.is_running and time.monotonic() < until:
            if self.live.is_settled:
                current = self.live.current
                if current is None or current.is_fresh:
                    return True
                self.live.start_afresh()
            time.sleep(0.01)
        return False

    def _note_progress(self) -> None:
        self.on_change()

    # What people do

    def answer(self, by: str, content: dict[str, Any], pictures: Iterable[int], rejected: Iterable[int] = ()) -> Entry:
        """`content` holds answer, class, via and seen."""
        with self.lock:
            label = content.get("class")
            if content["answer"] == LABEL:
                if label not in self.state.classes:
                    raise InputError(f"class {label}: there is none with this number (it may have been merged)")
                content = {**content, "name": self.state.classes[label]}
            names = [self.photos[number].name for number in pictures]
            wrong = [self.photos[number].name for number in rejected]
            content = {**content, "pictures": names} | ({"rejected": wrong} if wrong else {})
            for number in (*pictures, *rejected):
                self._leases.pop(number, None)
            return self._append(by, "answer", content)

    def new_class(self, by: str, name: str) -> int:
        """The number of the class with this name, an old one where there is one."""
        with self.lock:
            name = checked_name(name)
            label = self.state.class_called(name)
            if label is None:
                label = self.state.known_names.get(folded(name))
                if label is None or label in self.state.classes or label in self.state.merged:
                    label = self.state.next_class()
                self._append(by, "class", {"class": label, "name": name})
            return label

    def rename(self, by: str, label: int, name: str) -> None:
        """To a name that is free; a taken one needs a merge, which is asked for by that name."""
        with self.lock:
            name, other = checked_name(name), self.state.class_called(name)
            self._require_class(label)
            if other is not None and other != label:
                raise InputError(f"there is a class called {name!r} already; merge the two instead")
            self._append(by, "rename", {"class": label, "name": name})

    def merge(self, by: str, label: int, into: int) -> None:
        with self.lock:
            self._require_class(label)
            self._require_class(into)
            if label == into:
                raise InputError("a class cannot be merged with itself")
            self._append(by, "merge", {"class": label, "into": into})

    def remove(self, by: str, label: int) -> None:
        with self.lock:
            self._require_class(label)
            if any(self.state.target(picture) == label for picture in self.state.answers):
                raise InputError("pictures have been given this class; merge it into another instead")
            self._append(by, "remove", {"class": label})

    def undo(self, by: str, *, is_redo: bool = False) -> tuple[str, list[int]]:
        """Where this person's last action was asked for, and the pictures that it was about."""
        with self.lock:
            stack = (self.history.undone if is_redo else self.history.done).get(by)
            if not stack:
                raise InputError(f"nothing to {'redo' if is_redo else 'undo'}")
            of = stack[-1]
            self._append(by, "redo" if is_redo else "undo", {"of": of})
            entry = next(entry for entry in self.journal.entries if entry.n == of)
            names = [*entry.content.get("pictures", ()), *entry.content.get("rejected", ())]
            return entry.content.get("via", ""), [self.row_of[name] for name in names if name in self.row_of]

    def add_labels(self, source: str, labels: dict[int, str]) -> int:
        """Labels from a file; what a file has said before is left out, so that it overrides no later correction.

        Gives how many were new.
        """
        with self.lock:
            for name in {name for name in labels.values() if folded(name) not in RESERVED}:
                checked_name(name)  # before anything of the file is taken
            by_class: dict[int, list[int]] = {}
            for number, name in labels.items():
                label = NONE_ID if folded(name) in RESERVED else self.new_class(source, name)
                if not self._has_said(self.photos[number].name, label):
                    by_class.setdefault(label, []).append(number)
            for label, numbers in by_class.items():
                what = {"answer": NONE} if label == NONE_ID else {"answer": LABEL, "class": label}
                self.answer(source, {**what, "via": FILE, "seen": self.state.n}, numbers)
            return sum(map(len, by_class.values()))

    def _has_said(self, picture: str, label: int) -> bool:
        """Whether the picture has this label, or a file gave it before."""
        if self.state.target(picture) == label:
            return True
        targets = [answer.target for answer in self.state.answers.get(picture, ()) if answer.via == FILE]
        return label in [self._current(target) for target in targets if target is not None]

    def _require_class(self, label: int) -> None:
        if label not in self.state.classes:
            raise InputError(f"class {label}: there is none with this number (it may have been merged)")

    def _append(self, by: str, kind: str, content: dict[str, Any]) -> Entry:
        entry = self.journal.append(by, kind, content)
        if kind in ("undo", "redo"):
            self.state, self.history = replay(self.journal.entries)
        else:
            self.state.apply(entry)
            self.history.note(entry)
        if kind in ("answer", "release"):
            self.known = self.known.updated(self.state, self.row_of, content["pictures"])
        elif kind in ("undo", "redo", "merge"):
            self.known = known_of(self.state, self.row_of)
        if kind != "estimate":
            self.live.give(self._given())
        self.on_change()
        return entry

    # What the model sees

    def _given(self) -> Given:
        """Answers that are not held out, for pictures that still exist."""
        state, targets = self.state, given_rows(self.known)
        rejected = {
            self.row_of[name]: {label if label == NONE_ID else state.current(label) for label in labels}
            for name, labels in state.rejected.items()
            if name in self.row_of and self.row_of[name] not in targets
        }
        return Given(state.n, targets, rejected, is_open(self.known, self.embedding.is_readable))

    def _note_graph(self, embedded: Embedded) -> None:
        with self.lock:
            self.live.give(self._given())
        self.live.embed(embedded)

    def _note_result(self) -> None:
        """Record a point of the accuracy curve now and then, so that the curve survives a restart."""
        with self.lock:
            state = self.state
            last = state.curve[-1]["questions"] if state.curve else 0
            estimate = self.estimate()
            is_due = state.n_questions >= last + QUESTIONS_PER_POINT and estimate.n_audits > 0
            if is_due and self.embedding.is_done:
                middle = (estimate.low + estimate.high) / 2
                value = estimate.value if estimate.value is not None else middle
                point = {"questions": state.n_questions, "audits": estimate.n_audits, "value": value}
                with contextlib.suppress(OSError):  # the disk is full: the curve waits, labels go on
                    self._append("estimate", "estimate", point | {"low": estimate.low, "high": estimate.high})
        self.on_change()

    # Questions

    def next_question(self, by: str, *, mode: str, holding: Iterable[int] = ()) -> dict[str, Any]:
        """What this person should be asked now; `holding` are pictures that the page has already."""
        with self.lock:
            held = set(holding)  # after an undo the page shows a picture that nobody asked for
            self._drop_leases(by, held)
            question = self._choose(mode, held | set(self._leases))
            until = time.monotonic() + LEASE_S
            for number in question.get("numbers", ()):
                self._leases[number] = (by, until, question["via"])
            return question

    def _drop_leases(self, by: str, holding: set[int]) -> None:
        now = time.monotonic()
        kept = {n: lease for n, lease in self._leases.items() if lease[1] > now and (lease[0] != by or n in holding)}
        self._leases = kept

    def _choose(self, mode: str, taken: set[int]) -> dict[str, Any]:
        result = self.live.current
        if result is None or self._audit_is_due():
            number = self._next_audit(taken)
            if number is not None:
                return {"kind": "single", "via": AUDIT, "numbers": [number]}
        if result is None:
            return {"kind": "wait"}
        while True:
            question = self._choose_from_queue(result, mode, taken)
            kept_back = [n for n in question.get("numbers", ()) if self.state.is_kept_back(self.photos[n].name)]
            if not kept_back:
                return question
            # the queue asks for them now, so what was answered is no longer kept from the model
            self._append("queue", "release", {"pictures": [self.photos[number].name for number in kept_back]})
            # the rest of a grid is asked for in any case: if it went back, what is not kept back would be harder
            others = [number for number in question["numbers"] if number not in kept_back]
            if len(others) == 1:
                return {"kind": "single", "via": "queue", "numbers": others}
            if others:
                return {**question, "numbers": others}

    def _audit_is_due(self) -> bool:
        vias = [lease[2] for lease in self._leases.values()]
        n_audits, n_others = vias.count(AUDIT), vias.count("queue") + ("grid" in vias)
        n_questions = self.state.n_questions - self.state.n_corrections + n_audits + n_others
        return QUESTIONS_PER_AUDIT * (self.state.n_audits + n_audits) < n_questions

    def _next_audit(self, taken: set[int]) -> int | None:
        return next((number for number in self._audit_order if self._may_ask(number, taken, is_audit=True)), None)

    def _may_ask(self, number: int, taken: set[int], *, is_audit: bool = False) -> bool:
        name, state = self.photos[number].name, self.state
        if number in taken or not self.embedding.is_readable[number]:
            return False
        if name in state.skipped and state.n_questions < state.skipped[name] + SKIP_FOR:
            return False
        return name not in state.answers or (not is_audit and state.is_kept_back(name))

    def _choose_from_queue(self, result: Result, mode: str, taken: set[int]) -> dict[str, Any]:
        for name in self.state.rejected:
            number = self.row_of.get(name)
            if number is not None and self._may_ask(number, taken):
                return {"kind": "single", "via": "queue", "numbers": [number]}
        pictures = result.embedded.rows
        if self._is_cold(result):
            place = result.place
            answered = np.flatnonzero(self.known.is_answered & ~self.known.is_kept_back).tolist()
            rows = [int(place[n]) for n in [*answered, *taken] if place[n] >= 0]
            for row in first_questions(result.regions, rows):
                if self._may_ask(int(pictures[row]), taken):
                    return {"kind": "single", "via": "queue", "numbers": [int(pictures[row])]}
        if mode == "grid" and self._n_learned() >= ANSWERS_BEFORE_GRIDS * len(result.columns):
            for grid in result.ranking.grids:
                numbers = [int(pictures[row]) for row in grid.rows]
                numbers = [number for number in numbers if self._may_ask(number, taken)]
                label = result.columns[grid.column]
                if len(numbers) >= LEAST_IN_GRID and (label == NONE_ID or label in self.state.classes):
                    return {"kind": "grid", "via": "grid", "class": label, "numbers": numbers}
        for row in result.ranking.singles:
            if self._may_ask(int(pictures[row]), taken):
                return {"kind": "single", "via": "queue", "numbers": [int(pictures[row])]}
        return self._any_left(taken)

    def _is_cold(self, result: Result) -> bool:
        """Until every region has an answer, and each class that is known two."""
        n_answers = self._n_learned()
        n_regions = len(result.regions[0]) if result.regions else 0
        return len(result.columns) < 2 or n_answers < max(n_regions, ANSWERS_BEFORE_GRIDS * len(self.state.classes))

    def _n_learned(self) -> int:
        """Answers that are not kept back."""
        return int((self.known.is_answered & ~self.known.is_kept_back).sum())

    def _any_left(self, taken: set[int]) -> dict[str, Any]:
        for number in range(len(self.photos)):
            if self._may_ask(number, taken):
                return {"kind": "single", "via": "queue", "numbers": [number]}
        is_all = all(photo.name in self.state.answers for photo in self.photos)
        return {"kind": "done" if is_all or self.embedding.is_done else "wait"}

    # What is known

    def label_of(self, number: int, result: Result | None) -> tuple[int | None, float, bool]:
        """A picture's class (or `NONE_ID`), how sure, and whether a person gave it.

        An answer that is kept back is shown as the model's label: a person who picks pictures from a view must not
        see which are kept back, or the sample would be spoiled.
        """
        known = self.known
        if known.targets[number] != UNKNOWN and not known.is_kept_back[number]:
            return int(known.targets[number]), 1.0, True
        row = -1 if result is None else int(result.place[number])
        if result is None or row < 0 or not result.columns:
            return None, 0.0, False
        confidence, column = result.scores[row].max(0)
        return self._current(result.columns[int(column)]), float(confidence), False

    def _current(self, label: int) -> int:
        return label if label == NONE_ID else self.state.current(label)

    def guesses(self, number: int) -> list[dict[str, Any]]:
        """The most likely classes of a picture with their probabilities."""
        result = self.live.current
        row = -1 if result is None else int(result.place[number])
        if result is None or row < 0:
            return []
        scores, classes = merged_columns(result.scores[[row]], current_columns(result, self.state))
        if len(classes) < 2:  # of one class alone nothing can be told apart
            return []
        best = scores[0].topk(min(N_GUESSES, len(classes)))
        pairs = zip(best.values.tolist(), best.indices.tolist(), strict=True)
        return [{"class": int(classes[column]), "p": round(p, 4)} for p, column in pairs]

    def audits(self) -> tuple[int, int, int, int]:
        """Of the embedded pictures: audits still kept back, how many are right, those with a person's label, all."""
        result, known = self.live.current, self.known
        if result is None:
            return 0, 0, 0, 0
        rows = result.embedded.rows.numpy()
        targets = known.targets[rows]
        # of a picture that nobody can tell there is nothing to be right about: it is no part of what is estimated
        n_untold = int((known.is_answered[rows] & (targets == UNKNOWN)).sum())
        kept_back = np.flatnonzero(known.is_kept_back[rows] & (targets != UNKNOWN))
        n_right = 0
        if len(kept_back) and result.columns:
            guess = current_columns(result, self.state)[result.scores[torch.from_numpy(kept_back)].argmax(1).numpy()]
            n_right = int((guess == targets[kept_back]).sum())
        return len(kept_back), n_right, int((targets != UNKNOWN).sum()), len(rows) - n_untold

    def estimate(self) -> AccuracyEstimate:
        n_audits, n_right, n_known, n_pictures = self.audits()
        return estimate_accuracy(n_right, n_audits, n_known=n_known, n_pictures=n_pictures)

    def goals(self, estimate: AccuracyEstimate) -> dict[str, int | None]:
        result = self.live.current
        if result is None or estimate.n_audits < FEWEST or not result.columns:
            return {}
        is_unanswered = torch.from_numpy(~self.known.is_answered)[result.embedded.rows]
        doubts = 1 - best_guess(result)[0][is_unanswered]
        curve = [(point["questions"], point["value"]) for point in self.state.curve if point["audits"] >= FEWEST]
        needed = answers_to_goals(estimate, doubts.double().numpy(), n_pictures=len(result.embedded), curve=curve)
        return {f"{goal:.0%}": n for goal, n in needed.items()}


def checked_name(name: str) -> str:
    """The name of a class as it is stored: one line of limited length."""
    name = " ".join(name.split()).strip(JOINERS)
    if not name:
        raise InputError(f"type a name of 1 to {LONGEST_NAME} printable characters")
    if len(name) > LONGEST_NAME or not name.translate(dict.fromkeys(map(ord, JOINERS))).isprintable():
        raise InputError(f"class {reprlib.repr(name)}: a class's name has 1 to {LONGEST_NAME} printable characters")
    if folded(name) in RESERVED:
        raise InputError(f"{name!r} means that a picture belongs to no class; choose another name, or press 0")
    return name
