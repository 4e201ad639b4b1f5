"""`laplacenet embed`, from a folder to an .npz file that others read."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

from laplacenet.cli.app import app
from laplacenet.data import read_collection
from laplacenet.models.features import FeatureNetwork
from laplacenet.runtime import InputError


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
    with pytest.raises(InputError, match="no such folder"):
        run(tmp_path / "none", "--out", tmp_path / "y.npz")
    with pytest.raises(InputError, match="ends in"):
        run(folder, "--out", tmp_path / "y.csv")
