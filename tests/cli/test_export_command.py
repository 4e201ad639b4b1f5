"""`laplacenet export` as it is typed, on a run of train."""

from pathlib import Path

import pytest
import torch
from references_cli import Shell
from references_runs import write_bars

from laplacenet.models import load_model

TINY = ("--set", "train.steps=4", "--set", "train.batch_size=24", "--set", "train.labeled_batch_size=4")


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    write_bars(tmp_path / "bars.npz")
    return Shell(tmp_path, monkeypatch, capsys)


def test_a_run_is_exported_checked_and_not_overwritten(shell: Shell) -> None:
    shell.succeeds("train", "bars.npz", "--labels", "9", "--out", "run", *TINY)
    said = shell.succeeds("export", "run")
    assert "takes uint8 n×1×8×8, returns 3 probabilities" in said.out
    assert "its probabilities agree with the network's" in said.out
    found = torch.export.load(shell.folder / "run" / "model.pt2").module()(torch.zeros(4, 1, 8, 8, dtype=torch.uint8))
    assert found.shape == (4, len(load_model(shell.folder / "run")[1].class_names))
    assert "model.pt2: exists already" in shell.fails("export", "run", "--format", "torch-export")
    shell.succeeds("export", "run", "--format", "torch-export", "--overwrite")
    shell.succeeds("report", "run")
    for arguments, message in {
        "export run --format tflite": "choose one of torch-export, onnx",
        "export run --format torch-export --out model.onnx": "ends in .pt2",
        "export run --format torch-export --out no/such/model.pt2": "cannot be written",
        "export nowhere": "nowhere: not a run folder",
    }.items():
        assert message in shell.fails(*arguments.split())
    (shell.folder / "run" / "model.json").write_text('{"kind": "graph"}')
    assert "there is no network to export" in shell.fails("export", "run", "--format", "torch-export", "--overwrite")
