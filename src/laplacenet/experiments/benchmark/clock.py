"""Measure time and memory: GPU work is captured and synchronized, and medians are reported."""

import contextlib
import gc
import itertools
import resource
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeVar

import torch

Result = TypeVar("Result")
WARM_UP_STEPS = 3


def wait_for(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def time_work(work: Callable[[], Result], device: torch.device) -> tuple[Result, float]:
    """What `work` gives and how long it takes, with nothing left under way on the device at either end."""
    wait_for(device)
    started_at = time.perf_counter()
    result = work()
    wait_for(device)
    return result, time.perf_counter() - started_at


def intervals_ms(steps: Iterable[object], device: torch.device) -> list[float]:
    """Milliseconds from each step's end to the next's, on the device's own clock."""
    if device.type == "cpu":
        moments = [time.perf_counter(), *(time.perf_counter() for _ in steps)]
        return [1000 * (after - before) for before, after in itertools.pairwise(moments)]
    events = [_event(), *(_event() for _ in steps)]
    wait_for(device)
    return [before.elapsed_time(after) for before, after in itertools.pairwise(events)]


def _event() -> torch.cuda.Event:
    event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
    event.record()
    return event


def rounds(n: int, budget_s: float | None) -> Iterator[int]:
    """0, a round to warm up, then 1 to n; where the budget is spent earlier, one measured round is still made."""
    began_at = time.perf_counter()
    for index in range(n + 1):
        is_spent = budget_s is not None and time.perf_counter() - began_at > budget_s
        if index > 1 and is_spent:
            return
        yield index


class Stages:
    """Seconds and peak memory of each named stage of a longer computation; `report` hears of each when it ends."""

    def __init__(self, device: torch.device, *, report: Callable[[str], None] | None = None) -> None:
        self.device, self.report = device, report
        self.seconds: dict[str, float] = {}
        self.peaks: dict[str, int] = {}

    @contextlib.contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        wait_for(self.device)
        if self.report is not None:
            forget_peak(self.device)
        started_at = time.perf_counter()
        yield
        wait_for(self.device)
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - started_at
        if self.report is not None:
            self.peaks[name] = max(self.peaks.get(name, 0), peak_bytes(self.device))
            self.report(f"{name} {self.seconds[name]:.2f} s, {self.peaks[name] / 2**30:.1f} GiB")


def release_memory(device: torch.device) -> None:
    """Give back what earlier measurements held, and let peaks be counted anew."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()
    forget_peak(device)


def forget_peak(device: torch.device) -> None:
    """Count the most memory held from now on."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        return
    with contextlib.suppress(OSError):  # Linux forgets a process's high-water mark for a 5; elsewhere it stays
        Path("/proc/self/clear_refs").write_text("5")


def peak_bytes(device: torch.device) -> int:
    """The most memory held since `forget_peak`: tensors on a GPU, the whole process on a CPU."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    try:
        status = Path("/proc/self/status").read_text()
        return 1024 * next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))
    except (OSError, StopIteration):
        return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def captured(take: Callable[[], None], device: torch.device) -> Callable[[], None]:
    """The step as one graph that is replayed, captured after a few steps that warm up."""
    side = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
    side.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(side):
        for _ in range(WARM_UP_STEPS):
            take()
    torch.cuda.current_stream(device).wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        take()
    return graph.replay
