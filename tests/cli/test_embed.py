"""`laplacenet embed`, from a folder to an .npz file that others read."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np
import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

from laplacenet.cli.app import app, refuse_several_processes
from laplacenet.data import read_collection
from laplacenet.models.features import FeatureNetwork, embedding
from laplacenet.runtime import Group, InputError
from laplacenet.runtime.launch import VARIABLES

Result = TypeVar("Result")


def tiny_network(*_: object, **__: object) -> FeatureNetwork:
    """The mean of each channel."""
    numbers = (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)
    return FeatureNetwork(
        "tiny", 3, 8, "f" * 64, *numbers, trunk=lambda x: x.mean(dim=(2, 3)), device=torch.device("cpu")
    )


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LAPLACENET_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("laplacenet.models.features.load_features", tiny_network)
    for i, name in enumerate(("cat/a.png", "cat/b.png", "dog/c.png", "unlabeled/d.png")):
        path = tmp_path / "photos" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (9, 8), (10 * i, 20, 30)).save(path)
    (tmp_path / "photos" / "cat" / "broken.jpg").write_bytes(b"no picture")
    return tmp_path / "photos"


def run(*arguments: object) -> str:
    result = CliRunner().invoke(app, ["embed", *map(str, arguments)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output


def test_a_folder_becomes_embeddings_with_paths_and_labels(folder: Path, tmp_path: Path) -> None:
    said = run(folder, "--out", tmp_path / "x.npz", "--device", "cpu")
    assert "cat/broken.jpg: skipped" in said
    with np.load(tmp_path / "x.npz") as arrays:
        assert arrays["embeddings"].tolist() == [[0, 20, 30], [10, 20, 30], [20, 20, 30], [30, 20, 30]]
        assert arrays["paths"].tolist() == ["cat/a.png", "cat/b.png", "dog/c.png", "unlabeled/d.png"]
        assert arrays["labels"].tolist() == [0, 0, 1, -1]
        assert arrays["class_names"].tolist() == ["cat", "dog"]


def test_names_of_files_are_written_out_in_warnings(folder: Path, tmp_path: Path) -> None:
    (folder / "cat" / "x\x1b]0;owned\x07\nwarning: forged.jpg").write_bytes(b"no picture")
    said = run(folder, "--out", tmp_path / "x.npz", "--device", "cpu")
    assert "\x1b" not in said
    assert "\x07" not in said
    assert "\nwarning: forged" not in said
    assert "cat/x\\x1b]0;owned\\x07\\nwarning: forged.jpg: skipped" in said


def test_the_file_names_survive_into_a_labeling(folder: Path, tmp_path: Path) -> None:
    run(folder, "--out", tmp_path / "x.npz", "--device", "cpu", "--no-cache")
    found = read_collection(tmp_path / "x.npz")
    assert found.names == ("cat/a.png", "cat/b.png", "dog/c.png", "unlabeled/d.png")
    assert found.class_names == ("cat", "dog")


def test_a_second_command_embeds_nothing(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(folder, "--out", tmp_path / "x.npz", "--device", "cpu")
    (folder / "cat" / "broken.jpg").unlink()
    monkeypatch.setattr("laplacenet.models.features.embedding.decode", None)
    run(folder, "--out", tmp_path / "y.npz", "--device", "cpu")
    assert (tmp_path / "x.npz").read_bytes() == (tmp_path / "y.npz").read_bytes()


def test_invalid_input_is_refused_before_anything_is_embedded(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "x.npz").touch()
    with pytest.raises(InputError, match="exists already"):
        run(folder, "--out", tmp_path / "x.npz")
    with pytest.raises(InputError, match="no such"):
        run(tmp_path / "none", "--out", tmp_path / "y.npz")
    with pytest.raises(InputError, match="ends in"):
        run(folder, "--out", tmp_path / "y.csv")


class OneOfTwo(Group):
    """A process that need not wait for the other."""

    def agree(self, is_so: bool) -> bool:
        return is_so

    def by_first(self, work: Callable[[], Result]) -> Result | None:  # type: ignore[override]
        return work() if self.is_first else None


def test_two_processes_embed_a_share_each_and_the_first_writes_all(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(folder, "--out", tmp_path / "alone.npz", "--device", "cpu", "--no-cache")
    embedded: list[int] = []

    def count(decoder: object, positions: Sequence[int], *others: object) -> object:
        embedded.append(len(positions))
        return stream(decoder, positions, *others)  # type: ignore[arg-type]

    stream = embedding._stream
    monkeypatch.setattr(embedding, "_stream", count)
    for rank in (1, 0):
        group = OneOfTwo(rank, 2, reduces=True)
        monkeypatch.setattr("laplacenet.models.features.folder.current_group", lambda group=group: group)
        monkeypatch.setattr("laplacenet.runtime.start_group", lambda _, group=group: group)
        run(folder, "--out", tmp_path / "shared.npz", "--device", "cpu")
    assert embedded == [2, 3, 1]  # the broken file is tried again by the one that writes
    assert (tmp_path / "shared.npz").read_bytes() == (tmp_path / "alone.npz").read_bytes()
    with pytest.raises(InputError, match="--no-cache"):
        run(folder, "--out", tmp_path / "other.npz", "--device", "cpu", "--no-cache")


def test_prepared_pictures_are_embedded_from_their_file(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(folder, "--out", tmp_path / "before.npz", "--device", "cpu", "--no-cache")
    said = CliRunner().invoke(app, ["data", str(folder), "--prepare", "--size", "8"])
    assert "prepared 5 pictures of 8×8" in said.output
    assert "skipped: 1 files" in said.output
    monkeypatch.setattr("laplacenet.models.features.embedding.decode", None)
    said_now = run(folder, "--out", tmp_path / "after.npz", "--device", "cpu", "--no-cache")
    assert "cat/broken.jpg: skipped (not a picture" in said_now
    assert (tmp_path / "after.npz").read_bytes() == (tmp_path / "before.npz").read_bytes()


def test_what_is_no_folder_cannot_be_prepared(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["data", "digits", "--prepare"])
    assert isinstance(result.exception, InputError)
    assert "not a folder" in str(result.exception)


@pytest.mark.parametrize("command", ["review", "predict", "bench"])
def test_commands_that_take_one_process_refuse_several(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in zip(VARIABLES, ("1", "2", "1", "127.0.0.1", "1"), strict=True):
        monkeypatch.setenv(name, value)
    with pytest.raises(InputError, match=f"{command} takes one process; leave out torchrun"):
        refuse_several_processes([command, "photos"])
    for accepted in ("train", "reproduce", "embed", "label", "compare"):
        refuse_several_processes([accepted, "photos"])
