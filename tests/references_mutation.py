"""Inputs that no one would write by hand: any bytes, and good files with a few of theirs changed."""

import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

LONGEST_CPU_S = 5.0
LONGEST_S = 900.0  # by the clock
EXTREMES = (
    b"\0\0\0\0",
    b"\xff\xff\xff\xff",
    b"\x7f\xff\xff\xff",
    b"\xff\xff\xff\x7f",
    b"\x80\0\0\0",
    b"\0\1",
    b"-1",
    b"9" * 30,
)


@st.composite
def mutated(draw: st.DrawFn, seeds: Sequence[bytes]) -> bytes:
    """One of the seeds with a few of its bytes changed, taken out, put in, repeated or put elsewhere."""
    content = draw(st.sampled_from(seeds))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(content)))
        end = min(len(content), start + draw(st.integers(0, 8)))
        new = draw(st.one_of(st.binary(max_size=8), st.sampled_from(EXTREMES), st.just(content[start:end] * 2)))
        content = content[:start] + new + content[end:]
    return content[: draw(st.integers(0, len(content)))] if draw(st.booleans()) else content


def anything(seeds: Sequence[bytes]) -> st.SearchStrategy[bytes]:
    """Mostly damaged good files: of any bytes at all, most readers look at the first few only."""
    return st.one_of(mutated(seeds), mutated(seeds), mutated(seeds), st.binary(max_size=300))


def hunt(strategy: st.SearchStrategy[bytes], bears: Callable[[bytes], None], *, n: int | None = None) -> None:
    """Put examples before `bears`, each within its time: as many as the profile says, or `n` that are drawn anew."""
    usual = settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
    chosen = usual if n is None else settings(usual, max_examples=n, derandomize=False)

    @chosen
    @given(content=strategy)
    def each(content: bytes) -> None:
        with time_limit(LONGEST_CPU_S):
            bears(content)

    each()


@contextmanager
def time_limit(cpu_s: float, limit_s: float = LONGEST_S) -> Iterator[None]:
    """Fails what computes for longer, whatever else the machine does, or waits for ever."""

    def stop(number: int, frame: FrameType | None) -> None:
        kind, limit = ("computing", cpu_s) if number == signal.SIGPROF else ("running", limit_s)
        raise AssertionError(f"still {kind} after {limit} s")

    before = {number: signal.signal(number, stop) for number in (signal.SIGALRM, signal.SIGPROF)}
    started_at, cpu_before_s = time.monotonic(), time.process_time()
    signal.setitimer(signal.ITIMER_REAL, limit_s)
    signal.setitimer(signal.ITIMER_PROF, cpu_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.setitimer(signal.ITIMER_PROF, 0)
        for number, handler in before.items():
            signal.signal(number, handler)
    assert time.monotonic() - started_at < limit_s, f"took longer than {limit_s} s"
    assert time.process_time() - cpu_before_s < cpu_s, f"computed for longer than {cpu_s} s"
