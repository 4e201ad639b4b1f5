"""A labeling trains several networks, stage after stage; a crash at the beginning of any stage loses nothing."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from references_cli import Shell
from references_labeling import make_quick
from references_runs import bars

from laplacenet.runtime import Monitor, RunFolder
from laplacenet.training.loop import Position
from laplacenet.training.session import Session

N_LABELED = 45
TINY = ("--features", "scratch", "--steps", "6", "--batch", "12", "--set", "graph.k=5", "--device", "cpu")


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    images, labels = bars(60, np.random.default_rng(0))
    (tmp_path / "photos").mkdir()
    for i, image in enumerate(images):
        Image.fromarray(image).save(tmp_path / f"photos/{i:02}.png")
    lines = [f"{i:02}.png,{labels[i]}\n" for i in range(N_LABELED)]
    (tmp_path / "labels.csv").write_text("".join(["file,label\n", *lines]))
    make_quick(monkeypatch)
    return Shell(tmp_path, monkeypatch, capsys)


def crash_when_a_stage_begins(patch: pytest.MonkeyPatch, number: int) -> None:
    """Its first checkpoint is there, and nothing else of it."""
    whole, begun = Session.epochs, list[Path]()

    def epochs(session: Session[Any], start: Position, monitor: Monitor) -> Iterator[Any]:
        begun.append(session.checkpoint)
        if len(begun) == number:
            raise KeyboardInterrupt
        return whole(session, start, monitor)

    patch.setattr(Session, "epochs", epochs)


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_crash_when_a_stage_begins_loses_nothing(shell: Shell, number: int) -> None:
    command = ("label", "photos", "--labels", "labels.csv", *TINY)
    shell.succeeds(*command, "--out", "unbroken")
    with pytest.MonkeyPatch.context() as patch:
        crash_when_a_stage_begins(patch, number)
        assert shell(*command, "--out", "again").code != 0
    before = RunFolder.open(shell.folder / "again").epoch_lines()
    shell.succeeds("label", "--resume", "again")
    read = [(shell.folder / name / "labels.csv").read_bytes() for name in ("unbroken", "again")]
    assert read[0] == read[1]
    assert RunFolder.open(shell.folder / "again").epoch_lines().startswith(before)
    assert (number > 1) == bool(before)


def test_a_crash_before_the_labels_are_written_trains_no_further_network(shell: Shell) -> None:
    command = ("label", "photos", "--labels", "labels.csv", *TINY)
    shell.succeeds(*command, "--out", "unbroken")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("laplacenet.labeling.picture_run.labeling_of", interrupted)
        assert shell(*command, "--out", "again").code != 0
    shell.succeeds("label", "--resume", "again")
    read = [(shell.folder / name / "labels.csv").read_bytes() for name in ("unbroken", "again")]
    assert read[0] == read[1]
    assert not (shell.folder / "again/stages/vote-1").exists()
    shell.succeeds("label", "--resume", "again")  # what was complete before gets one more
    assert (shell.folder / "again/stages/vote-1").exists()


def interrupted(*_: object, **__: object) -> None:
    raise KeyboardInterrupt
