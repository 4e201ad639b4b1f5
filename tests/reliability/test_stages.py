"""A labeling trains several networks, stage after stage; a crash at the beginning of any stage loses nothing."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from references_campaign import run_command, working_in
from references_cli import Shell
from references_labeling import make_quick
from references_runs import bars

from laplacenet.runtime import Monitor, RunFolder
from laplacenet.training.loop import Position
from laplacenet.training.session import Session

N_LABELED = 45
COMMAND = ("label", "photos", "--labels", "labels.csv")
TINY = ("--features", "scratch", "--steps", "6", "--batch", "12", "--set", "graph.k=5", "--device", "cpu")


def write_inputs(folder: Path) -> None:
    images, labels = bars(60, np.random.default_rng(0))
    (folder / "photos").mkdir()
    for i, image in enumerate(images):
        Image.fromarray(image).save(folder / f"photos/{i:02}.png")
    lines = [f"{i:02}.png,{labels[i]}\n" for i in range(N_LABELED)]
    (folder / "labels.csv").write_text("".join(["file,label\n", *lines]))


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    write_inputs(tmp_path)
    make_quick(monkeypatch)
    return Shell(tmp_path, monkeypatch, capsys)


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The labels of a run that nothing stops."""
    folder = tmp_path_factory.mktemp("unbroken")
    write_inputs(folder)
    with pytest.MonkeyPatch.context() as patch, working_in(folder):
        make_quick(patch)
        patch.setenv("LAPLACENET_CACHE", str(folder / "cache"))
        ended = run_command(*COMMAND, *TINY, "--out", "run")
    assert ended.code == 0, ended
    return (folder / "run/labels.csv").read_bytes()


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
def test_a_crash_when_a_stage_begins_loses_nothing(shell: Shell, unbroken: bytes, number: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        crash_when_a_stage_begins(patch, number)
        assert shell(*COMMAND, *TINY, "--out", "again").code != 0
    before = RunFolder.open(shell.folder / "again").epoch_lines()
    shell.succeeds("label", "--resume", "again")
    assert (shell.folder / "again/labels.csv").read_bytes() == unbroken
    assert RunFolder.open(shell.folder / "again").epoch_lines().startswith(before)
    assert (number > 1) == bool(before)


def test_a_crash_before_the_labels_are_written_trains_no_further_network(shell: Shell, unbroken: bytes) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("laplacenet.labeling.picture_run.labeling_of", interrupted)
        assert shell(*COMMAND, *TINY, "--out", "again").code != 0
    shell.succeeds("label", "--resume", "again")
    assert (shell.folder / "again/labels.csv").read_bytes() == unbroken
    assert not (shell.folder / "again/stages/vote-1").exists()
    shell.succeeds("label", "--resume", "again")  # what was complete before gets one more
    assert (shell.folder / "again/stages/vote-1").exists()


def interrupted(*_: object, **__: object) -> None:
    raise KeyboardInterrupt
