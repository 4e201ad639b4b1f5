"""Where the time of a run goes: named marks along the way, without waiting for the device.

A mark on a GPU is an event in its stream: the time between two of them is the device's own, waiting included.
"""

import contextlib
import itertools
import os
import statistics
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

EPOCH, FEATURES, LOADING, STEPS = "between epochs", "features", "loading", "steps"
CAPTURING, AFTER_EPOCH, JUDGING, SAVING = "capturing", "after the epoch", "judging", "saving"
FIRST_BLOCK, OTHER_BLOCKS = "first block", "other blocks"

_open: "list[Timeline]" = []


def mark(name: str) -> None:
    """Mark the end of the part called `name`; does nothing unless a timeline is on."""
    for line in _open:
        line.mark(name)


class Timeline:
    """The marks of a process, from its start on."""

    def __init__(self) -> None:
        self.began_at = time.perf_counter() - process_age_s()
        self.marks: list[tuple[str, float, Any]] = []

    def mark(self, name: str) -> None:
        self.marks.append((name, time.perf_counter(), _event()))

    def spans(self) -> list[tuple[str, float]]:
        """Every mark's name with the seconds since the mark before; the device is waited for."""
        last, now = _event(), 0.0
        if last is not None:
            last.synchronize()
            now = time.perf_counter()
        moments = [at if event is None else now - event.elapsed_time(last) / 1000 for _, at, event in self.marks]
        names = [name for name, _, _ in self.marks]
        pairs = itertools.pairwise([self.began_at, *moments])
        return [(name, after - before) for name, (before, after) in zip(names, pairs, strict=True)]


@contextlib.contextmanager
def timeline(*, is_on: bool = True) -> Iterator[Timeline]:
    """Record the marks made in this context."""
    line = Timeline()
    if is_on:
        _open.append(line)
    try:
        yield line
    finally:
        if is_on:
            _open.remove(line)


def summary(spans: Sequence[tuple[str, float]]) -> dict[str, Any]:
    """Seconds by name: before the first epoch, of a usual epoch, after the last one, and in all.

    A usual epoch has the median of each part over all epochs but those that compile; `saving`, which few epochs do, is
    their mean.
    """
    start, *epochs = split_epochs(spans)
    last = epochs.pop() if epochs else []
    n_last = max((i + 1 for i, (name, _) in enumerate(last) if name in (STEPS, JUDGING, SAVING)), default=0)
    epochs, end = [*epochs, last[:n_last]], last[n_last:]
    parts = [by_name(named_blocks(epoch)) for epoch in epochs]
    usual = [part for part in parts if CAPTURING not in part and FEATURES in part] or parts
    names = dict.fromkeys(name for part in usual for name in part)
    median = {name: statistics.median(part.get(name, 0.0) for part in usual) for name in names}
    median[SAVING] = sum(part.get(SAVING, 0.0) for part in parts) / len(parts)
    return {
        "start": by_name(start),
        "compiling": sum(part.get(CAPTURING, 0.0) for part in parts),
        "n_epochs": len(parts),
        "n_usual_epochs": len(usual),
        "epoch": median,
        "beside_steps_s": sum(seconds for name, seconds in median.items() if name != STEPS),
        "end": by_name(end),
        "total_s": sum(seconds for _, seconds in spans),
    }


def split_epochs(spans: Sequence[tuple[str, float]]) -> list[list[tuple[str, float]]]:
    """What comes before the first epoch, then each epoch, the last one with all that follows it."""
    pieces: list[list[tuple[str, float]]] = [[]]
    for span in spans:
        if span[0] == EPOCH:
            pieces.append([])
        pieces[-1].append(span)
    return pieces


def named_blocks(epoch: Sequence[tuple[str, float]]) -> list[tuple[str, float]]:
    """The device waits for an epoch's first block to be drawn; later blocks are drawn while it is busy."""
    names = itertools.chain([FIRST_BLOCK], itertools.repeat(OTHER_BLOCKS))
    return [(next(names) if name == LOADING else name, seconds) for name, seconds in epoch]


def by_name(spans: Sequence[tuple[str, float]]) -> dict[str, float]:
    totals: dict[str, float] = {}
    for name, seconds in spans:
        totals[name] = totals.get(name, 0.0) + seconds
    return totals


def process_age_s() -> float:
    """How long this process has run: Linux says since when; elsewhere the interpreter's start is not counted."""
    try:
        started = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
        return time.clock_gettime(time.CLOCK_BOOTTIME) - started / os.sysconf("SC_CLK_TCK")
    except (OSError, AttributeError, IndexError, ValueError):
        return 0.0


def _event() -> Any:
    """An event that the device passes when it has done all that was asked of it so far; None without a GPU in use."""
    import torch  # noqa: PLC0415 - the time before torch is imported is of interest too

    if not torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        return None
    event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
    event.record()
    return event
