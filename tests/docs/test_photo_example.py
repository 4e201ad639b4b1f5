"""The README's photo example on real photographs: a folder made of CIFAR-10, as a user's might be."""

import csv
import os
import shlex
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from references_cli import Shell
from references_docs import ROOT, snippets

from laplacenet.data.load import load_dataset
from laplacenet.models.features import installed_lite
from laplacenet.runtime import InputError

N_CLASSES, N_EACH, N_GIVEN = 5, 22, 5
SUFFIXES = ("jpg", "png", "webp", "JPEG")
UPSIDE_DOWN = {0x0112: 3}  # EXIF's orientation


@pytest.fixture
def photos(tmp_path: Path) -> dict[str, str]:
    """Write `photos`, `new_photos` and `labels.csv`: mixed sizes and formats, nested folders, some turned by EXIF.

    Gives the class of every picture.
    """
    if "LAPLACENET_DATA" not in os.environ or not installed_lite():
        pytest.skip("needs CIFAR-10 in LAPLACENET_DATA and the extra: photos")
    try:
        train = load_dataset("cifar10").train
    except InputError as error:
        pytest.skip(str(error))
    rng, truth, given = np.random.default_rng(3), {}, [("file", "label")]
    for number in range(N_CLASSES):
        for place, row in enumerate(torch.nonzero(train.labels == number).flatten()[:N_EACH].tolist()):
            side = int(rng.integers(48, 200))
            image = Image.fromarray(train.images[row].permute(1, 2, 0).contiguous().numpy())
            image = image.resize((side, int(side * rng.uniform(0.8, 1.25))), Image.Resampling.BICUBIC)
            folder = "new_photos" if place == N_EACH - 1 else "photos"
            name = f"{('', 'trip/', 'trip/day 2/')[place % 3]}IMG_{row}.{SUFFIXES[place % 4]}"
            path = tmp_path / folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            exif = Image.Exif()
            if place % 5 == 0:
                image, exif[0x0112] = image.rotate(180), UPSIDE_DOWN[0x0112]
            image.save(path, exif=exif)
            truth[f"{folder}/{name}"] = train.class_names[number]
            if place < N_GIVEN:
                given.append((name, train.class_names[number]))
    with (tmp_path / "labels.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(given)
    return truth


def photo_commands() -> list[list[str]]:
    """The commands of README's section on photos, in order; review waits for a browser."""
    found = [command for snippet in snippets(ROOT / "README.md") for command in snippet.commands()]
    words = [shlex.split(command.split(" --steps")[0]) for command in found if "photos" in command]
    return [some[1:] for some in words if some[:2] != ["laplacenet", "review"]]


def test_the_photo_example_works_from_the_readme_alone(
    photos: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LAPLACENET_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("laplacenet.labeling.choices.installed_lite", lambda: installed_lite()[:1])
    shell = Shell(tmp_path, monkeypatch, capsys)
    commands = {command[0]: command for command in photo_commands()}
    assert "look like photographs" in shell.succeeds(*commands["label"]).err
    with (tmp_path / "runs/photos/labels.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert {f"photos/{row['path']}" for row in rows} == {name for name in photos if name.startswith("photos/")}
    found = [row["label"] == photos[f"photos/{row['path']}"] for row in rows if row["source"] != "given"]
    assert len(found) == N_CLASSES * (N_EACH - 1 - N_GIVEN)
    assert np.mean(found) > 0.7  # 20 % by chance
    predicted = list(csv.DictReader(shell.succeeds(*commands["predict"]).out.splitlines()))
    assert len(predicted) == N_CLASSES
    assert len(shell.succeeds(*commands["next"]).out.splitlines()) >= 10
