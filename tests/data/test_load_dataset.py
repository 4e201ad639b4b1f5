"""Names and paths lead to data sets; anything else to one line that says what is accepted."""

from pathlib import Path

import numpy as np
import pytest
import torch
from references_data import cifar100_files, write_files
from sklearn.datasets import load_digits

from laplacenet.data import DATASET_NAMES, VectorSet, load_dataset, require_images, two_moons
from laplacenet.runtime import InputError


def test_digits_are_1297_to_train_and_500_to_test_on() -> None:
    train, test = require_images(load_dataset("digits"))
    assert test is not None
    assert train.images.shape == (1297, 1, 8, 8)
    assert torch.bincount(test.labels).tolist() == [50] * 10


def test_digits_are_scikit_learn_s_each_once_in_white_255() -> None:
    train, test = require_images(load_dataset("digits"))
    assert test is not None
    bunch = load_digits()
    ours = torch.cat([train.images, test.images]).flatten(1).numpy()
    labels = torch.cat([train.labels, test.labels]).numpy()
    theirs = np.rint(bunch.data * 255 / 16).astype(np.uint8)
    assert sorted(map(bytes, np.c_[ours, labels.astype(np.uint8)])) == sorted(
        map(bytes, np.c_[theirs, bunch.target.astype(np.uint8)])
    )
    assert ours.max() == 255


def test_digits_are_the_same_every_time() -> None:
    first, second = (require_images(load_dataset("digits"))[0] for _ in range(2))
    assert torch.equal(first.images, second.images)


def test_two_moons_lie_on_their_half_circles() -> None:
    moons = two_moons(200, 0.0, 3)
    upper = moons.vectors[moons.labels == 0]
    lower = moons.vectors[moons.labels == 1]
    assert len(upper) == len(lower) == 100
    torch.testing.assert_close(upper.norm(dim=1), torch.ones(100))
    torch.testing.assert_close((lower - torch.tensor([1.0, 0.5])).norm(dim=1), torch.ones(100))


def test_two_moons_follow_their_seed() -> None:
    assert torch.equal(two_moons(20, 0.1, 1).vectors, two_moons(20, 0.1, 1).vectors)
    assert not torch.equal(two_moons(20, 0.1, 1).vectors, two_moons(20, 0.1, 2).vectors)


@pytest.mark.parametrize(("n", "noise"), [(1, 0.1), (10, -0.1), (10, float("nan"))])
def test_moons_that_cannot_be_are_refused(n: int, noise: float) -> None:
    with pytest.raises(InputError):
        two_moons(n, noise, 0)


def test_two_moons_come_with_other_points_to_test_on() -> None:
    dataset = load_dataset("two-moons")
    assert isinstance(dataset.train, VectorSet)
    assert isinstance(dataset.test, VectorSet)
    assert not torch.equal(dataset.train.vectors, dataset.test.vectors)


def test_named_sets_are_looked_for_where_the_environment_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_files(tmp_path / "cifar-100-python", cifar100_files())
    monkeypatch.setenv("LAPLACENET_DATA", str(tmp_path))
    assert len(load_dataset("cifar100").train) == 4


def test_named_sets_are_looked_for_in_data_below_the_current_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_files(tmp_path / "data" / "cifar-100-python", cifar100_files())
    monkeypatch.delenv("LAPLACENET_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    assert len(load_dataset("cifar100").train) == 4


def test_an_unknown_name_lists_what_is_accepted() -> None:
    with pytest.raises(InputError, match="called 'cifar-10'; choose one of cifar10, cifar100, mini-imagenet") as error:
        load_dataset("cifar-10")
    assert all(name in str(error.value) for name in DATASET_NAMES)
    assert ".npz" in str(error.value)


def test_a_file_of_another_kind_lists_what_is_accepted(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(InputError, match=r"notes\.txt: not a data set that can be read; choose one of"):
        load_dataset(tmp_path / "notes.txt")


@pytest.mark.parametrize("name", ["digits", "cifar10", "two-moons"])
def test_a_size_is_only_for_folders(name: str) -> None:
    with pytest.raises(InputError, match=f"size 20 given for {name}"):
        load_dataset(name, size=20)
