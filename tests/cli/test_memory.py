"""Freed memory is used again without being cleared."""

import platform
import subprocess
import sys

import pytest

PROGRAM = """
import resource
import torch
from laplacenet.cli.memory import keep_freed_memory

keep_freed_memory()

def n_pages_cleared():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    some = [torch.ones(10_000_000, dtype=torch.uint8) for _ in range(10)]
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

print(*(n_pages_cleared() for _ in range(3)))
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc gives memory back so readily")
def test_tensors_find_the_memory_of_those_before_them_as_it_was_left():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    first, *later = map(int, done.stdout.split())
    assert first > 10_000, "fresh memory must be cleared, or this counts nothing"
    assert max(later) < 10_000, done.stdout
