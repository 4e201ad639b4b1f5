"""Cases against the journal of a review: written, killed, damaged and opened again, without the server."""

import contextlib
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest import mock

import torch
from references_campaign import DONE
from references_reliability import die, forked

from laplacenet.review.journal import Entry, Journal, read_journal
from laplacenet.review.state import replay
from laplacenet.runtime import InputError, RunFolder
from laplacenet.runtime.run_folder import ANSWERS

Lines = list[bytes]


def new_run(folder: Path) -> Path:
    """A run folder with a number of its own; gives its journal's path."""
    folder.mkdir(parents=True)
    RunFolder(folder).write_experiment({"kind": "labeling"})
    return folder / ANSWERS


def write_some(journal: Journal, rng: random.Random, n: int) -> None:
    for number in range(n):
        kind = rng.choice(["answer", "answer", "answer", "none", "skip", "class", "rename", "merge", "undo", "release"])
        label, picture, by = rng.randrange(4), f"{rng.randrange(9)}.jpg", rng.choice("ab")
        seen = {"via": rng.choice(["queue", "audit", "grid", "file"]), "seen": number}
        contents: dict[str, tuple[str, dict[str, object]]] = {
            "answer": ("answer", {"answer": "label", "class": label, "name": "é\n=1", "pictures": [picture], **seen}),
            "none": ("answer", {"answer": "none", "pictures": [picture], "rejected": ["8.jpg"], **seen}),
            "skip": ("answer", {"answer": "skip", "pictures": [picture], **seen}),
            "class": ("class", {"class": label, "name": f"class {label}"}),
            "rename": ("rename", {"class": label, "name": "\udc80"}),
            "merge": ("merge", {"class": label, "into": (label + 1) % 4}),
            "undo": ("undo", {"of": rng.randrange(1, number + 2)}),
            "release": ("release", {"pictures": [picture]}),
        }
        journal.append(by, *contents[kind])


def flip(content: bytes, rng: random.Random) -> bytes:
    place = rng.randrange(len(content))
    return content[:place] + bytes([content[place] ^ (1 << rng.randrange(8))]) + content[place + 1 :]


def by_lines(change: Callable[[Lines, Lines, random.Random], Lines]) -> Callable[[bytes, bytes, random.Random], bytes]:
    return lambda own, other, rng: b"".join(change(own.splitlines(keepends=True), other.splitlines(keepends=True), rng))


def shuffled(lines: Lines, other: Lines, rng: random.Random) -> Lines:
    return rng.sample(lines, len(lines))


def without_one(lines: Lines, other: Lines, rng: random.Random) -> Lines:
    place = rng.randrange(len(lines))
    return lines[:place] + lines[place + 1 :]


def without_last(lines: Lines, other: Lines, rng: random.Random) -> Lines:
    return lines[: rng.randrange(len(lines))]


def repeated(lines: Lines, other: Lines, rng: random.Random) -> Lines:
    place = rng.randrange(len(lines))
    return lines[:place] + [lines[place]] * 2 + lines[place:]


def exchanged(lines: Lines, other: Lines, rng: random.Random) -> Lines:
    place = rng.randrange(min(len(lines), len(other)))
    return [*lines[:place], other[place], *lines[place + 1 :]]


DAMAGES: dict[str, Callable[[bytes, bytes, random.Random], bytes]] = {
    "nothing": lambda own, other, rng: own,
    "bit": lambda own, other, rng: flip(own, rng),
    "cut": lambda own, other, rng: own[: rng.randrange(len(own))],
    "cut at a line's end": by_lines(without_last),
    "line gone": by_lines(without_one),
    "line twice": by_lines(repeated),
    "shuffled": by_lines(shuffled),
    "line of another run": by_lines(exchanged),
    "journal of another run": lambda own, other, rng: other,
    "both": lambda own, other, rng: own + other,
    "noise": lambda own, other, rng: own + rng.randbytes(40),
    "empty": lambda own, other, rng: b"",
}


class ReviewJournal:
    """One case: a journal is written, perhaps by a process that is killed, damaged, read and gone on with."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.n_cases = folder, 0

    def __call__(self, rng: random.Random) -> str:
        self.n_cases += 1
        own, other = (new_run(self.folder / f"{self.n_cases}-{which}") for which in ("own", "other"))
        written = written_by_killed(own, rng) if rng.random() < 0.1 else written_here(own, rng)
        written_here(other, rng)
        kind = rng.choice(sorted(DAMAGES))
        content = own.read_bytes()
        damaged = DAMAGES[kind](content, other.read_bytes(), rng)
        own.write_bytes(damaged)
        judge(own, written, f"journal damaged ({kind})", is_same=damaged == content)
        return DONE


def written_here(path: Path, rng: random.Random) -> list[Entry]:
    journal = Journal(path)
    write_some(journal, rng, rng.randrange(1, 30))
    if rng.random() < 0.2:
        fail_once(journal, rng)
    journal.close()
    return journal.entries


def fail_once(journal: Journal, rng: random.Random) -> None:
    """The disk is full at one answer, which nobody is told of, and has room again."""
    with mock.patch("os.fsync", side_effect=OSError(28, "No space left on device")), contextlib.suppress(OSError):
        write_some(journal, rng, 1)
    write_some(journal, rng, 2)


def written_by_killed(path: Path, rng: random.Random) -> list[Entry]:
    child = forked(_write_and_die, path, rng.randrange(10**6), rng.randrange(1, 30))
    child.join()
    assert child.exitcode == -9
    return read_journal(path)[0]


def _write_and_die(path: Path, seed: int, n: int) -> None:
    torch.set_num_threads(1)
    write_some(Journal(path), random.Random(seed), n)
    die()


def judge(path: Path, written: list[Entry], said: str, *, is_same: bool) -> None:
    """What was written is there, or a note says that something is not; nothing else is; and it can be gone on with."""
    entries, notes, _ = read_journal(path)
    missing = [entry.n for entry in written if entry not in entries]
    assert all(entry in written for entry in entries), f"{said}: entries that nobody wrote"
    assert notes or not missing, f"{said}: entries {missing} are missing, and nothing says so"
    assert not is_same or not notes, f"{said}: {notes}"
    replay(entries)
    journal = Journal(path)
    before = list(journal.entries)
    write_some(journal, random.Random(1), 3)
    journal.close()
    again, _, _ = read_journal(path)
    assert again == journal.entries, f"{said}: what was added is not what is read"
    assert again[: len(before)] == before, f"{said}: adding changed what was there"


@contextlib.contextmanager
def review_journal(folder: Path) -> Iterator[ReviewJournal]:
    assert os.name == "posix"
    yield ReviewJournal(folder)


def refused(path: Path) -> bool:
    try:
        read_journal(path)
    except InputError:
        return True
    return False
