"""CIFAR in its official format: folder, parent, archive; damage and malice give one line."""

import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from references_data import archive_of, cifar10_files, cifar100_files, python2_pickle, write_archive, write_files

from laplacenet.data import load_dataset, require_images
from laplacenet.data.cifar import CIFAR10, CIFAR100, read_cifar
from laplacenet.data.pickles import read_array_pickle
from laplacenet.runtime import InputError


def test_the_reference_pickle_is_what_the_standard_library_reads() -> None:
    content = {"labels": [1, 2], "data": np.arange(6, dtype=np.uint8).reshape(2, 3)}
    found = read_array_pickle(python2_pickle(content), where="here")
    assert found["labels"] == [1, 2]
    np.testing.assert_array_equal(found["data"], content["data"])


@pytest.mark.parametrize("below", ["", "cifar-10-batches-py"])
def test_cifar10_is_read_from_its_folder_or_from_the_parent(tmp_path: Path, below: str) -> None:
    files = cifar10_files()
    write_files(tmp_path / "cifar-10-batches-py", files)
    dataset = load_dataset("cifar10", folder=tmp_path / below)
    train, test = require_images(dataset)
    assert test is not None
    rows = np.concatenate([files[f"data_batch_{number}"]["data"] for number in range(1, 6)])
    np.testing.assert_array_equal(train.images.numpy().reshape(20, 3072), rows)
    assert train.images.shape == (20, 3, 32, 32)
    assert train.labels.tolist() == [label for b in range(1, 6) for label in files[f"data_batch_{b}"]["labels"]]
    assert test.labels.tolist() == files["test_batch"]["labels"]
    assert train.class_names == tuple(f"kind{k}" for k in range(10))
    assert test.statistics == train.statistics


def test_cifar100_is_read_with_its_fine_labels(tmp_path: Path) -> None:
    write_files(tmp_path / "cifar-100-python", cifar100_files())
    train, test = require_images(load_dataset("cifar100", folder=str(tmp_path)))
    assert test is not None
    assert train.labels.tolist() == [0, 1, 2, 3]
    assert test.labels.tolist() == [3, 2, 1, 0]
    assert train.n_classes == 100


def test_the_archive_gives_the_same_as_the_folder_and_nothing_is_unpacked(tmp_path: Path) -> None:
    folder = write_files(tmp_path / "unpacked", cifar10_files())
    home = tmp_path / "home"
    home.mkdir()
    strange = {"../outside": b"no", "cifar-10-batches-py/readme.html": b"<html>"}
    archive = write_archive(home / CIFAR10.archive, strange | archive_of(CIFAR10.folder, cifar10_files()))
    for found in (load_dataset("cifar10", folder=home), load_dataset("cifar10", folder=archive), load_dataset(archive)):
        train = require_images(found)[0]
        assert torch.equal(train.images, require_images(read_cifar(CIFAR10, folder))[0].images)
    assert [path.name for path in home.iterdir()] == [CIFAR10.archive]
    assert not (tmp_path / "outside").exists()


def test_a_cifar_folder_given_as_a_path_is_recognised(tmp_path: Path) -> None:
    folder = write_files(tmp_path / "cifar-100-python", cifar100_files())
    assert load_dataset(folder).name == "cifar100"


@pytest.mark.parametrize("protocol", [2, 3, 4])
def test_files_pickled_again_by_python_3_are_read(tmp_path: Path, protocol: int) -> None:
    folder = tmp_path / "cifar-100-python"
    folder.mkdir()
    for name, content in cifar100_files().items():
        as_bytes = {key.encode(): value for key, value in content.items()}
        (folder / name).write_bytes(pickle.dumps(as_bytes, protocol=protocol))
    assert require_images(read_cifar(CIFAR100, folder))[0].labels.tolist() == [0, 1, 2, 3]


class _Malice:
    def __init__(self, function: object, *arguments: object) -> None:
        self.call = (function, arguments)

    def __reduce__(self) -> tuple:
        return self.call


@pytest.mark.parametrize(
    ("function", "argument", "asked"),
    [(eval, "1/0", "builtins.eval"), (exec, "raise SystemExit", "builtins.exec"), (Path, "x", "pathlib")],
)
def test_a_pickle_that_would_call_anything_is_refused(
    tmp_path: Path, function: object, argument: str, asked: str
) -> None:
    folder = write_files(tmp_path / "cifar-100-python", cifar100_files())
    (folder / "train").write_bytes(pickle.dumps({"data": _Malice(function, argument)}))
    with pytest.raises(InputError, match=rf"train: refused, its pickle asks for {asked}"):
        load_dataset("cifar100", folder=tmp_path)


def test_only_latin_1_is_encoded_while_a_pickle_is_read() -> None:
    import codecs

    with pytest.raises(InputError, match="damaged"):
        read_array_pickle(pickle.dumps({"data": _Malice(codecs.encode, "x", "rot13")}), where="here")


@pytest.mark.parametrize("n_bytes", [0, 1, 100, 5000])
def test_a_file_cut_off_anywhere_is_named(tmp_path: Path, n_bytes: int) -> None:
    folder = write_files(tmp_path / "cifar-100-python", cifar100_files())
    (folder / "train").write_bytes((folder / "train").read_bytes()[:n_bytes])
    with pytest.raises(InputError, match=r"cifar-100-python/train: damaged or cut off"):
        load_dataset("cifar100", folder=tmp_path)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9])
def test_an_archive_cut_off_anywhere_is_named(tmp_path: Path, share: float) -> None:
    archive = write_archive(tmp_path / CIFAR100.archive, archive_of(CIFAR100.folder, cifar100_files()))
    whole = archive.read_bytes()
    archive.write_bytes(whole[: int(len(whole) * share)])
    with pytest.raises(InputError, match=r"cifar-100-python\.tar\.gz.*(damaged or cut off)") as error:
        load_dataset("cifar100", folder=tmp_path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("name", "change", "complaint"),
    [
        (
            "train",
            {"data": np.zeros((4, 3000), np.uint8)},
            r"train: 'data' must be uint8 rows of 3072; got uint8 \(4, 3",
        ),
        ("train", {"data": [1, 2]}, "got list"),
        ("train", {"fine_labels": [0, 1]}, "4 images but 2 labels"),
        ("train", {"fine_labels": [0, 1, 2, 100]}, "outside 0 to 99"),
        ("test", {"fine_labels": None}, "test: no list of integers under 'fine_labels'; is it cifar100"),
        ("meta", {"fine_label_names": 3}, "meta: no list of names under 'fine_label_names'"),
    ],
)
def test_wrong_contents_are_named(tmp_path: Path, name: str, change: dict, complaint: str) -> None:
    files = cifar100_files()
    files[name] |= change
    write_files(tmp_path / "cifar-100-python", files)
    with pytest.raises(InputError, match=complaint):
        load_dataset("cifar100", folder=tmp_path)


def test_a_pickle_of_something_else_is_refused() -> None:
    with pytest.raises(InputError, match="here: holds a list"):
        read_array_pickle(pickle.dumps([1]), where="here")


def test_a_missing_batch_is_named(tmp_path: Path) -> None:
    folder = write_files(tmp_path / "cifar-10-batches-py", cifar10_files())
    (folder / "data_batch_3").unlink()
    with pytest.raises(InputError, match="data_batch_3 missing"):
        load_dataset("cifar10", folder=tmp_path)


def test_a_missing_data_set_says_where_it_was_looked_for_and_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cifar-10-batches-py/ and .*cifar-10-python\.tar\.gz.*--download"):
        load_dataset("cifar10", folder=tmp_path)
