"""What `laplacenet label` must reach on two cores; recorded where LAPLACENET_RECORDS names a folder.

LAPLACENET_DATA=data LAPLACENET_RECORDS=results/labeling pytest -m slow tests/labeling/test_labeling_records.py
"""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from references_labeling_records import grey_embeddings, measured, raw_pixel_accuracy, write_jpegs, write_record

from laplacenet.data import ImageSet, load_dataset
from laplacenet.runtime import InputError

pytestmark = pytest.mark.slow


def record(name: str, what: str, **content: Any) -> None:
    folder = os.environ.get("LAPLACENET_RECORDS")
    if folder:
        write_record(Path(folder) / name, what, **content)


def test_ten_thousand_embeddings_are_labeled_within_thirty_seconds(tmp_path: Path) -> None:
    rows, truth = grey_embeddings(10_000, seed=0)
    given = np.full(10_000, -1)
    for digit in range(10):
        given[np.flatnonzero(truth == digit)[:10]] = digit
    np.savez(tmp_path / "embeddings.npz", embeddings=rows.astype(np.float32), labels=given)
    (tmp_path / "truth.csv").write_text("".join(f"{row},{digit}\n" for row, digit in enumerate(truth)))
    found = measured(tmp_path / "run", [str(tmp_path / "embeddings.npz"), "--test", str(tmp_path / "truth.csv")])
    record("embeddings.json", "10 000 grey 28×28 pictures as embeddings, 10 labels a class", run=found)
    assert found["cpu_seconds"] < 2 * 30  # on two cores that do nothing else; beside other tests the clock says little
    assert found["estimate"]["low"] <= found["accuracy"]["value"] <= found["estimate"]["high"]


@pytest.fixture(scope="module")
def jpegs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path]:
    """2 000 CIFAR-10 test pictures, 200 of each class, as JPEGs, a list of 100 labels and one of all."""
    try:
        test = load_dataset("cifar10").test
    except InputError as error:
        pytest.skip(str(error))
    assert isinstance(test, ImageSet)
    rng = np.random.default_rng(0)
    members = [rng.permutation(np.flatnonzero(test.labels.numpy() == number))[:200] for number in range(10)]
    rows = torch.from_numpy(rng.permutation(np.concatenate(members)))
    folder = tmp_path_factory.mktemp("jpegs") / "pictures"
    labels, truth = write_jpegs(folder, test.images[rows], test.labels[rows], test.class_names, seed=0)
    return folder, labels, truth


@pytest.mark.parametrize(("time", "most_s"), [("4m", 300), ("15m", 960)])
def test_two_thousand_jpegs_are_labeled_far_better_than_by_their_pixels(
    jpegs: tuple[Path, Path, Path], tmp_path: Path, time: str, most_s: float
) -> None:
    folder, labels, truth = jpegs
    arguments = [str(folder), "--labels", str(labels), "--test", str(truth), "--for", time]
    found = measured(tmp_path / "run", arguments)
    by_pixels = raw_pixel_accuracy(folder, labels, truth)
    what = f"2 000 JPEGs of mixed sizes (CIFAR-10 test pictures), 10 labels a class, --for {time}"
    record(f"pictures-{time}.json", what, run=found, raw_pixel_accuracy=by_pixels)
    assert found["seconds"] < most_s
    assert found["accuracy"]["value"] > by_pixels + 0.10
    assert found["estimate"]["low"] <= found["accuracy"]["value"] <= found["estimate"]["high"]
