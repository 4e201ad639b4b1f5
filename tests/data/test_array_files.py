"""Image data sets in `.npz` files."""

from pathlib import Path

import numpy as np
import pytest

from laplacenet.data import Dataset, ImageSet, load_dataset
from laplacenet.runtime import InputError


def write(path: Path, **arrays: object) -> Path:
    np.savez(path, **arrays)
    return path


def pictures(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)


def image_sets(dataset: Dataset) -> tuple[ImageSet, ImageSet | None]:
    assert isinstance(dataset.train, ImageSet)
    assert dataset.test is None or isinstance(dataset.test, ImageSet)
    return dataset.train, dataset.test


@pytest.mark.parametrize(
    ("shape", "axes"),
    [((4, 6, 5), None), ((4, 6, 5, 3), (0, 3, 1, 2)), ((4, 6, 5, 1), (0, 3, 1, 2)), ((4, 3, 6, 5), (0, 1, 2, 3))],
)
def test_channels_may_come_first_last_or_not_at_all(tmp_path: Path, shape: tuple, axes: tuple | None) -> None:
    array = pictures(*shape)
    train, test = image_sets(load_dataset(write(tmp_path / "a.npz", images=array, labels=np.array([0, 1, 2, -1]))))
    expected = array[:, None] if axes is None else array.transpose(axes)
    np.testing.assert_array_equal(train.images.numpy(), expected)
    assert train.labels.tolist() == [0, 1, 2, -1]
    assert train.class_names == ("0", "1", "2")
    assert test is None


def test_keras_names_and_column_labels_are_read(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.npz",
        x_train=pictures(4, 5, 5, 3),
        y_train=np.array([[0], [1], [0], [1]], np.uint8),
        x_test=pictures(2, 5, 5, 3),
        y_test=np.array([[2], [0]], np.uint8),
    )
    train, test = image_sets(load_dataset(str(path)))
    assert train.labels.tolist() == [0, 1, 0, 1]
    assert test is not None
    assert test.labels.tolist() == [2, 0]
    assert train.n_classes == test.n_classes == 3


def test_class_names_are_taken_from_the_file(tmp_path: Path) -> None:
    path = write(tmp_path / "a.npz", images=pictures(2, 5, 5), labels=np.array([0, 1]), class_names=["cat", "dog"])
    assert image_sets(load_dataset(path))[0].class_names == ("cat", "dog")


def test_images_without_labels_are_all_unknown(tmp_path: Path) -> None:
    train = image_sets(load_dataset(write(tmp_path / "a.npz", images=pictures(2, 5, 5))))[0]
    assert train.labels.tolist() == [-1, -1]
    assert train.class_names == ()


@pytest.mark.parametrize(
    ("arrays", "complaint"),
    [
        ({"one": pictures(2, 5, 5), "two": pictures(2, 5, 5)}, "expected an array called images, x_train, embeddings"),
        ({"images": pictures(2, 5, 5) - 128.0}, "must lie between 0 and 255, or 0 and 1; got "),
        ({"images": np.full((2, 5, 5), np.nan)}, "got nan to nan"),
        ({"images": np.full((2, 5, 5), "x")}, "images must be numbers, best uint8; got <U1"),
        ({"images": pictures(2, 5, 5, 1, 1)}, r"with 1 or 3 channels; got \(2, 5, 5, 1, 1\)"),
        ({"images": pictures(2, 5, 5, 4)}, r"got \(2, 5, 5, 4\)"),
        ({"images": pictures(0, 5, 5)}, "holds no rows"),
        ({"embeddings": np.linspace(-2, 2, 9)}, r"embeddings are \(n, d\), images .* but its array is float64 \(9,\)"),
        ({"images": pictures(2, 5, 5), "labels": np.array([0])}, "expected 2 labels, one for each row"),
        ({"images": pictures(2, 5, 5), "labels": np.array([0.5, 1])}, "row 0 has label 0.5; expected whole numbers"),
        ({"images": pictures(2, 5, 5), "labels": np.array([0, -5])}, "row 1 has label -5; numbers are 0 and above"),
        (
            {"images": pictures(2, 5, 5), "labels": np.array([0, 1]), "class_names": ["a"]},
            "label '1' is none of the 1 ",
        ),
        ({"images": pictures(2, 5, 5), "labels": np.array([0, 1]), "class_names": [1, 2]}, "list of texts"),
        ({"images": pictures(2, 5, 5), "labels": np.array([object(), 1])}, "not a readable .npz file of plain arrays"),
        ({"images": pictures(2, 5, 5), "test_images": pictures(2, 6, 6)}, "test rows"),
    ],
)
def test_wrong_arrays_are_refused_with_a_reason(tmp_path: Path, arrays: dict, complaint: str) -> None:
    with pytest.raises(InputError, match=complaint) as error:
        load_dataset(write(tmp_path / "a.npz", **arrays))
    assert "a.npz" in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("content", [b"", b"not a zip file", b"PK\x03\x04 cut"])
def test_a_damaged_file_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.npz").write_bytes(content)
    with pytest.raises(InputError, match=r"a\.npz: not a readable"):
        load_dataset(tmp_path / "a.npz")


def test_a_cut_or_changed_file_is_named(tmp_path: Path) -> None:
    path = write(tmp_path / "a.npz", images=pictures(4, 5, 5), labels=np.zeros(4, int))
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match=r"a\.npz: not a readable"):
        load_dataset(path)
    path.write_bytes(whole[:200] + bytes(20) + whole[220:])
    with pytest.raises(InputError, match=r"a\.npz: not a readable"):
        load_dataset(path)


def test_a_single_array_under_the_wrong_name_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", pictures(2, 5, 5))
    (tmp_path / "a.npy").rename(tmp_path / "a.npz")
    with pytest.raises(InputError, match="single array"):
        load_dataset(tmp_path / "a.npz")
