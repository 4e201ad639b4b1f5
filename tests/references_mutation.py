"""Inputs that no one would write by hand: any bytes, and good files with a few of theirs changed."""

import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

LONGEST_S = 5.0
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
        with time_limit(LONGEST_S):
            bears(content)

    each()


@contextmanager
def time_limit(limit_s: float) -> Iterator[None]:
    def stop(number: int, frame: FrameType | None) -> None:
        raise AssertionError(f"still reading after {limit_s} s")

    previous, started_at = signal.signal(signal.SIGALRM, stop), time.monotonic()
    signal.setitimer(signal.ITIMER_REAL, limit_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    assert time.monotonic() - started_at < limit_s
