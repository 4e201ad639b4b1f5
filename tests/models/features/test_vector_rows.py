"""Rows of vectors that become known one after another, in memory or in a file."""

import os
import tempfile
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from laplacenet.models.features import vector_rows
from laplacenet.models.features.vector_rows import VectorRows


@given(st.permutations(range(12)), st.integers(0, 12), st.booleans(), st.integers(1, 5))
def test_what_was_put_is_there_in_order(order: list[int], n_known: int, in_file: bool, block: int) -> None:
    values = torch.arange(36.0).view(12, 3)
    rows = VectorRows(12, 3, largest_in_memory=0 if in_file else 10**9)
    assert (rows._file is not None) == in_file
    for start in range(0, n_known, block):
        positions = order[start : min(n_known, start + block)]
        rows.put(positions, values[positions])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vector_rows, "BLOCK", 2)
        assert torch.equal(rows.compact(), values[sorted(order[:n_known])])


def test_the_file_lies_in_the_folder_without_a_name(tmp_path: Path) -> None:
    rows = VectorRows(4, 2, folder=tmp_path / "cache", largest_in_memory=0)
    rows.put(range(4), torch.ones(4, 2))
    assert list((tmp_path / "cache").iterdir()) == []
    assert torch.equal(rows.compact(), torch.ones(4, 2))


def test_on_a_full_disk_rows_are_held_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.posix_fallocate", refuse)
    rows = VectorRows(2, 2, largest_in_memory=0)
    rows.put([0, 1], torch.ones(2, 2))
    assert torch.equal(rows.compact(), torch.ones(2, 2))


def test_the_whole_of_a_file_is_reserved() -> None:
    file = vector_rows.unnamed_file(1 << 20, Path(tempfile.gettempdir()))
    assert file is not None
    assert os.fstat(file).st_size == 1 << 20
    os.close(file)
