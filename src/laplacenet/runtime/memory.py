"""How much memory is free."""

import contextlib
import os
from pathlib import Path

MEMORY_FILE = Path("/proc/meminfo")


def free_memory() -> int:
    """Bytes that can be had without swapping, where the system says; else all that the machine has."""
    with contextlib.suppress(OSError, ValueError, IndexError, StopIteration):
        lines = MEMORY_FILE.read_text(encoding="ascii").splitlines()
        return 1024 * int(next(line for line in lines if line.startswith("MemAvailable:")).split()[1])
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
