"""Steps that were submitted to a GPU and have not ended: waited for with a deadline if other processes take part.

A message that is replayed from a captured graph has no timeout: torch's watchdog does not see it, and the device waits
for the other process forever. A host that asks the device for a number would wait with it.
"""

import time
from collections import deque
from typing import Protocol, runtime_checkable

import torch

from laplacenet.runtime import LostProcessError

DEADLINE_S = 40.0
POLLED_EVERY_S = 0.0005


@runtime_checkable
class Mark(Protocol):
    def query(self) -> bool: ...


def mark_now() -> Mark:
    """An event behind all that the device has been given so far."""
    event = torch.cuda.Event()  # type: ignore[no-untyped-call]
    event.record()
    return event


class PendingSteps:
    """The steps under way, each by a mark behind it."""

    def __init__(self, *, deadline_s: float = DEADLINE_S) -> None:
        self.deadline_s = deadline_s
        self.marks: deque[Mark] = deque()

    def add(self, mark: Mark) -> None:
        self.marks.append(mark)

    def wait(self, *, at_most: int = 0) -> None:
        """Until no more than so many are under way; refused when none has ended for `deadline_s`."""
        ended_at = time.monotonic()
        while len(self.marks) > at_most:
            if self.marks[0].query():
                self.marks.popleft()
                ended_at = time.monotonic()
            elif time.monotonic() - ended_at > self.deadline_s:
                said = f"no step has ended for {self.deadline_s:.0f} s"
                raise LostProcessError(f"{said}: another process of this run no longer answers")
            else:
                time.sleep(POLLED_EVERY_S)
