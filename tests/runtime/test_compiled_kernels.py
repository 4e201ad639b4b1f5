"""Kernels are compiled for GPUs that are not there."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from references_kernels import has_triton, kernel_names

ROOT = Path(__file__).parents[2]
# name, compute capability, bytes of shared memory that one program may have
GPUS = [
    ("T4", 75, 65_536),
    ("A100", 80, 166_912),
    ("RTX 4090", 89, 101_376),
    ("H200", 90, 232_448),
    ("RTX 5090", 120, 101_376),
]


@has_triton
@pytest.mark.parametrize(("gpu", "capability", "shared_bytes"), GPUS)
def test_every_kernel_is_compiled_and_fits(gpu: str, capability: int, shared_bytes: int, tmp_path: Path) -> None:
    kernels = kernel_names()
    assert len(kernels) > 20
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    done = subprocess.run(
        [sys.executable, ROOT / "tests/references_compiled_kernels.py", str(capability), str(shared_bytes)],
        env={**environment, "TRITON_CACHE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert set(done.stdout.split()) == kernels
