"""Many random cases against the command line: each ends in its time with a result or with one line; all are counted.

A campaign can be cut into shards by ranges of its cases; `campaigns.py` runs and merges them.
"""

import contextlib
import io
import json
import os
import random
import resource
import shutil
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import torch
from references_mutation import time_limit
from references_reliability import Faults, die, forked

from laplacenet.cli import main
from laplacenet.runtime.files import CHECKSUM, checksum

LONGEST_CPU_S = 60.0
INTERRUPTED = (130, 143)
REFUSED, DONE = "refused", "done"


@dataclass(frozen=True)
class Ended:
    """How a command ended and what it wrote; `fault` is a traceback, or why the command was stopped."""

    code: int
    out: str
    err: str
    fault: str = ""

    @property
    def is_refusal(self) -> bool:
        last = self.err.strip().splitlines()[-1:] or [""]
        return self.code == 2 and last[0].startswith("error: ") and self.err.count("error: ") >= 1


def run_command(*words: str | Path) -> Ended:
    """The command in this process."""
    out, err, argv = io.StringIO(), io.StringIO(), sys.argv
    sys.argv = ["laplacenet", *map(str, words)]
    code, fault = 0, ""
    try:
        with (
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
            time_limit(LONGEST_CPU_S),
            memory_limit(),
        ):
            main()
    except SystemExit as ended:
        code = int(ended.code or 0)
    except Exception:
        code, fault = 1, traceback.format_exc()
    finally:
        sys.argv = argv
    if code in INTERRUPTED:
        raise KeyboardInterrupt  # the signal was meant for the campaign
    return Ended(code, out.getvalue(), err.getvalue(), fault)


def run_until_killed(*words: str | Path, below: Path, at: int) -> int:
    """The exit code of the command in another process, killed at its n-th touch of a file below this folder: −9."""
    child = forked(_die_at_touch, Path.cwd(), tuple(map(str, words)), below, at)
    child.join()
    assert child.exitcode is not None
    return child.exitcode


def _die_at_touch(place: Path, words: tuple[str, ...], below: Path, at: int) -> None:
    torch.set_num_threads(1)
    os.chdir(place)
    Faults().arm(below, die, at=at)
    sys.exit(run_command(*words).code)


@contextlib.contextmanager
def memory_limit(n_bytes: int = 2 << 30) -> Iterator[None]:
    """So much more than now: what reads without end fails, and does not take the machine with it."""
    now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (now + n_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


@dataclass
class Campaign:
    """`outcomes` counts the cases by how they ended; `failures` tells of those that should not have ended so."""

    name: str
    seed: int
    outcomes: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    def run(
        self, case: Callable[[random.Random], str], *, cases: range, after_each: Callable[[], None] = lambda: None
    ) -> None:
        """Each case has a generator of its own and says how it ended, or fails by an AssertionError."""
        for number in cases:
            try:
                self.outcomes[case(random.Random(f"{self.seed}/{number}"))] += 1
            except Exception as failure:
                said = str(failure) if isinstance(failure, AssertionError) else traceback.format_exc()
                self.outcomes["failed"] += 1
                self.failures.append(f"case {number} of seed {self.seed}: {said}")
            after_each()

    def counts(self) -> dict[str, object]:
        counts = {"seed": self.seed, "cases": sum(self.outcomes.values()), **dict(sorted(self.outcomes.items()))}
        return counts | ({"failures": self.failures} if self.failures else {})


def damage(path: Path, rng: random.Random, twin: Path | None = None) -> str:
    """Do something to a file that no command ever does; gives what. `twin` is the same file of another run."""
    content = path.read_bytes()
    kinds = {
        "bit": lambda: path.write_bytes(flipped(content, rng)),
        "bytes": lambda: path.write_bytes(overwritten(content, rng)),
        "cut": lambda: path.write_bytes(content[: rng.randrange(len(content) + 1)]),
        "longer": lambda: path.write_bytes(content + rng.randbytes(rng.randrange(1, 50))),
        "empty": lambda: path.write_bytes(b""),
        "noise": lambda: path.write_bytes(rng.randbytes(len(content))),
        "gone": path.unlink,
        "pipe": lambda: replaced(path, lambda: os.mkfifo(path)),
        "folder": lambda: replaced(path, path.mkdir),
        "endless": lambda: replaced(path, lambda: path.symlink_to("/dev/zero")),
        "loop": lambda: replaced(path, lambda: path.symlink_to(path)),
    }
    if content.count(b"\n") > 1:
        kinds["cut at a line's end"] = lambda: path.write_bytes(b"".join(some_lines(content, rng, at_end=True)))
        kinds["line gone"] = lambda: path.write_bytes(b"".join(some_lines(content, rng, at_end=False)))
    if twin is not None and twin.is_file() and twin.read_bytes() != content:
        kinds["of another run"] = kinds["of that other run"] = lambda: path.write_bytes(twin.read_bytes())
    if path.suffix == ".json":
        kinds["value"] = kinds["another value"] = lambda: path.write_bytes(another_value(content, rng))
    kind = rng.choice(sorted(kinds))
    kinds[kind]()
    return kind


def some_lines(content: bytes, rng: random.Random, *, at_end: bool) -> list[bytes]:
    lines = content.splitlines(keepends=True)
    place = rng.randrange(len(lines))
    return lines[:place] if at_end else lines[:place] + lines[place + 1 :]


def flipped(content: bytes, rng: random.Random) -> bytes:
    if not content:
        return b"\0"
    place = rng.randrange(len(content))
    return content[:place] + bytes([content[place] ^ (1 << rng.randrange(8))]) + content[place + 1 :]


def overwritten(content: bytes, rng: random.Random) -> bytes:
    place = rng.randrange(len(content) + 1)
    new = rng.choice([rng.randbytes(4), b"\xff" * 8, b"9" * 30, b"NaN", b"-1", b"\0\0\0\0", b'"', b"["])
    return content[:place] + new + content[place + len(new) :]


def replaced(path: Path, make: Callable[[], object]) -> None:
    path.unlink()
    make()


def another_value(content: bytes, rng: random.Random) -> bytes:
    """JSON with one value exchanged or gone, under a right checksum where it has one."""
    found = json.loads(content)
    is_sealed = isinstance(found, dict) and found.pop(CHECKSUM, None) is not None
    places = list(_places(found))
    if places:
        holder, key = rng.choice(places)
        if rng.random() < 0.2:
            del holder[key]
        else:
            holder[key] = rng.choice([None, True, -1, 0, 10**30, 1e300, float("nan"), "", "x" * 300, [], {}, [[1]]])
    if is_sealed:
        found[CHECKSUM] = checksum(found)
    return json.dumps(found).encode()


def _places(found: object) -> Iterator[tuple[object, object]]:
    entries = found.items() if isinstance(found, dict) else enumerate(found) if isinstance(found, list) else ()
    for key, value in entries:
        yield found, key
        yield from _places(value)


def empty(folder: Path) -> None:
    """Take everything out of it."""
    for entry in folder.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()


@contextlib.contextmanager
def working_in(folder: Path) -> Iterator[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    with contextlib.chdir(folder):
        yield folder


def fresh_copy(folder: Path, into: Path, *, without: str = "") -> Path:
    """`without` names what is not copied."""
    shutil.rmtree(into, ignore_errors=True)
    shutil.copytree(folder, into, symlinks=True, ignore=shutil.ignore_patterns(without))
    return into
