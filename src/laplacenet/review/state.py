"""The state that the entries of a journal lead to: answers, classes and disagreements.

A pure function of the entries: replaying the same journal gives the same state.
"""

import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, field

from laplacenet.review.journal import Entry

LABEL, NONE, CANNOT_TELL, SKIP = "label", "none", "cannot tell", "skip"
ANSWERS = (LABEL, NONE, CANNOT_TELL, SKIP)
AUDIT, FILE = "audit", "file"
NONE_ID = -1
"""Stands for "none of these" where classes are numbers."""
UNDOABLE = ("answer", "class", "rename", "merge", "remove")


@dataclass(frozen=True)
class Answer:
    """One person's answer for one picture; `seen` is the last entry that the person's page had shown by then."""

    n: int
    by: str
    seen: int
    kind: str
    label: int | None
    via: str

    @property
    def target(self) -> int | None:
        """The class, `NONE_ID`, or nothing to learn from."""
        return NONE_ID if self.kind == NONE else self.label


@dataclass
class State:
    """`classes` maps a class's number to its name; numbers are never reused, so that keys never change."""

    n: int = 0
    classes: dict[int, str] = field(default_factory=dict)
    known_names: dict[str, int] = field(default_factory=dict)
    merged: dict[int, int] = field(default_factory=dict)
    answers: dict[str, list[Answer]] = field(default_factory=dict)
    rejected: dict[str, set[int]] = field(default_factory=dict)
    released: set[str] = field(default_factory=set)
    skipped: dict[str, int] = field(default_factory=dict)
    n_questions: int = 0
    n_audits: int = 0
    n_corrections: int = 0
    """Questions about pictures that a grid had shown under a wrong name."""
    curve: list[dict[str, float]] = field(default_factory=list)

    def answer(self, picture: str) -> Answer | None:
        """The last answer that says something of the picture."""
        given = self.answers.get(picture)
        return given[-1] if given else None

    def target(self, picture: str) -> int | None:
        answer = self.answer(picture)
        return None if answer is None or answer.target is None else self.current(answer.target)

    def current(self, label: int) -> int:
        """The class that a class has become by merging."""
        while label in self.merged:
            label = self.merged[label]
        return label

    def is_kept_back(self, picture: str) -> bool:
        """An audit that the model must not see yet."""
        answer = self.answer(picture)
        return answer is not None and answer.via == AUDIT and picture not in self.released

    def class_called(self, name: str) -> int | None:
        return next((label for label, other in self.classes.items() if folded(other) == folded(name)), None)

    def next_class(self) -> int:
        return max([-1, *self.known_names.values(), *self.classes, *self.merged]) + 1

    def disagreements(self) -> dict[str, list[Answer]]:
        """Pictures of which two people said different things, the later one without having seen the earlier answer."""
        found = {}
        for picture, given in self.answers.items():
            if len(given) == 1:
                continue
            last = given[-1]
            others = [one for one in given[:-1] if one.by != last.by and one.n > last.seen and self._differ(one, last)]
            if others:
                found[picture] = [*others, last]
        return found

    def _differ(self, one: Answer, other: Answer) -> bool:
        if one.target is None or other.target is None:
            return one.kind != other.kind
        return self.current(one.target) != self.current(other.target)

    def apply(self, entry: Entry) -> None:
        """Apply one entry that is not undone."""
        self.n = max(self.n, entry.n)
        content = entry.content
        if entry.kind == "answer":
            self._apply_answer(entry)
        elif entry.kind in ("class", "rename"):
            self.classes[content["class"]] = content["name"]
            self.known_names.setdefault(folded(content["name"]), content["class"])
        elif entry.kind == "merge":
            self._merge(content["class"], content["into"])
        elif entry.kind == "remove":
            self.classes.pop(content["class"], None)
        elif entry.kind == "release":
            self.released.update(content["pictures"])
        elif entry.kind == "estimate":
            self.curve.append({key: float(value) for key, value in content.items()})

    def _merge(self, label: int, into: int) -> None:
        label, into = self.current(label), self.current(into)
        if label != into:
            self.merged[label] = into
            self.classes.pop(label, None)

    def _apply_answer(self, entry: Entry) -> None:
        content = entry.content
        kind, via = content["answer"], content.get("via", "queue")
        if via in ("queue", "grid", AUDIT):
            self.n_questions += 1
            self.n_audits += via == AUDIT
            self.n_corrections += via == "queue" and all(picture in self.rejected for picture in content["pictures"])
        label = content.get("class")
        if label is not None and self.current(label) not in self.classes:  # whoever made the class has undone it
            self.classes[self.current(label)] = content.get("name", f"class {label}")
        answer = Answer(entry.n, entry.by, content.get("seen", 0), kind, label, via)
        for picture in content["pictures"]:
            if kind == SKIP:
                self.skipped[picture] = self.n_questions
            else:
                self.answers.setdefault(picture, []).append(answer)
                self.released.discard(picture) if via == AUDIT else None
        for picture in content.get("rejected", ()):
            self.rejected.setdefault(picture, set()).add(label if label is not None else NONE_ID)


@dataclass
class History:
    """For each person what can be undone and redone, the latest last."""

    done: dict[str, list[int]] = field(default_factory=dict)
    undone: dict[str, list[int]] = field(default_factory=dict)

    def note(self, entry: Entry) -> None:
        done, undone = self.done.setdefault(entry.by, []), self.undone.setdefault(entry.by, [])
        of = entry.content.get("of")
        if entry.kind == "undo" and of in done:
            done.remove(of)
            undone.append(of)
        elif entry.kind == "redo" and of in undone:
            undone.remove(of)
            done.append(of)
        elif entry.kind in UNDOABLE and entry.content.get("via") != FILE:
            done.append(entry.n)
            undone.clear()


def replay(entries: Iterable[Entry]) -> tuple[State, History]:
    """All entries in their order; what was undone, and not done again, does not count."""
    entries = list(entries)
    history, is_undone = History(), set[int]()
    for entry in entries:
        history.note(entry)
        if entry.kind == "undo":
            is_undone.add(entry.content["of"])
        elif entry.kind == "redo":
            is_undone.discard(entry.content["of"])
    state = State()
    for entry in entries:
        state.n = max(state.n, entry.n)
        if entry.kind == "class":  # the number stays taken, whoever undoes it
            state.known_names.setdefault(folded(entry.content["name"]), entry.content["class"])
        if entry.n not in is_undone:
            state.apply(entry)
    return state, history


def folded(name: str) -> str:
    """A key that is equal for names that look alike."""
    return unicodedata.normalize("NFC", name).strip().casefold()
