"""Memory that a step frees is kept for the next one.

On a CPU torch takes its tensors from the C library, and glibc gives free memory back to the system again and again.
The next step asks for it anew, and the system has to clear every page: a quarter of a small network's step.
"""

import ctypes

# From glibc's malloc.h: how much free memory may lie on top, and from which size on a block is the system's own.
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
MOST_FREE_BYTES = 2**31 - 1
# The largest value that glibc would come to by itself. Larger blocks, kept too, would split its memory up: before
# glibc 2.38 an aligned block cannot take the place of an equal one.
LARGEST_KEPT_BYTES = 1 << 25


def keep_freed_memory() -> None:
    """For the rest of this process; where the C library is another one, nothing happens."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(M_MMAP_THRESHOLD, LARGEST_KEPT_BYTES)
        mallopt(M_TRIM_THRESHOLD, MOST_FREE_BYTES)
