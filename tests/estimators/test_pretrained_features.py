"""A pretrained network in a scikit-learn pipeline."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from sklearn.base import clone
from sklearn.datasets import load_sample_images
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator

from laplacenet.estimators import LaplacePropagation, PretrainedFeatures


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAPLACENET_CACHE", str(tmp_path / "cache"))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_scikit_learns_checks_of_a_transformer_pass() -> None:
    """Those that need no table of numbers: pictures and paths are neither."""
    check_estimator(PretrainedFeatures())


def patches(n: int = 12) -> tuple[np.ndarray, np.ndarray]:
    """Parts of two photographs, and which photograph each is from."""
    china, flower = load_sample_images().images
    rng = np.random.default_rng(0)
    sources = np.arange(n) % 2
    corners = rng.integers(0, 300, (n, 2))
    parts = [(flower if s else china)[r : r + 96, c : c + 96] for s, (r, c) in zip(sources, corners, strict=True)]
    return np.stack(parts), sources


def test_paths_and_arrays_give_the_same_embeddings(tmp_path: Path) -> None:
    pictures, _ = patches(3)
    paths = [tmp_path / f"{i}.png" for i in range(3)]
    for picture, path in zip(pictures, paths, strict=True):
        Image.fromarray(picture).save(path)
    features = PretrainedFeatures().fit(paths)
    expected = features.transform(paths)
    assert expected.shape == (3, features.n_features_out_)
    for same in (pictures, pictures.transpose(0, 3, 1, 2), pictures / 255, [str(path) for path in paths]):
        np.testing.assert_allclose(features.transform(same), expected, atol=1e-5)
    np.testing.assert_array_equal(features.transform(np.array([str(path) for path in paths])), expected)


def test_a_pipeline_labels_pictures_from_a_few_labels() -> None:
    pictures, truth = patches()
    y = np.where(np.arange(len(truth)) < 4, truth, -1)
    pipeline = make_pipeline(PretrainedFeatures(), LaplacePropagation(base="logistic")).fit(pictures, y)
    assert (pipeline[-1].transduction_ == truth).mean() > 0.9
    assert (pipeline.predict(pictures) == truth).mean() > 0.9


def test_grey_pictures_are_read_too() -> None:
    grey = np.random.default_rng(0).integers(0, 256, (2, 9, 9), dtype=np.uint8)
    colored = np.repeat(grey[..., None], 3, axis=3)
    features = PretrainedFeatures().fit(grey)
    np.testing.assert_array_equal(features.transform(grey), features.transform(colored))


@pytest.mark.parametrize(
    "X", [np.zeros((2, 3)), np.zeros((2, 5, 5, 7)), np.full((2, 5, 5), 3.0), np.full((2, 5, 5), np.nan)]
)
def test_what_is_no_picture_is_refused(X: np.ndarray) -> None:
    with pytest.raises(ValueError, match="X has"):
        PretrainedFeatures().fit(X).transform(X)


def test_the_shape_in_a_refusal_is_the_one_given() -> None:
    X = np.zeros((6, 40, 40, 4), dtype=np.uint8)
    with pytest.raises(ValueError, match=r"X has shape \(6, 40, 40, 4\)"):
        PretrainedFeatures().fit_transform(X)


@pytest.mark.parametrize("X", ["x.png", Path("x.png"), [], ["x.png", None], [None, Path("x.png")]])
def test_what_is_no_list_of_paths_is_refused(X: Any) -> None:
    with pytest.raises(ValueError, match="give a list of paths"):
        PretrainedFeatures().fit(X).transform(X)


class Column:
    """A column of a data frame: neither a sequence nor an array, but it can become one."""

    def __init__(self, values: list[Any]) -> None:
        self.values = values

    def __len__(self) -> int:
        return len(self.values)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.values)

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return np.array(self.values, dtype=dtype or object)


@pytest.mark.parametrize("kind", [str, Path])
def test_a_column_of_a_data_frame_may_name_files(tmp_path: Path, kind: type) -> None:
    paths = [tmp_path / f"{i}.png" for i in range(2)]
    for path, picture in zip(paths, patches(2)[0], strict=True):
        Image.fromarray(picture).save(path)
    features = PretrainedFeatures().fit(paths)
    column = Column([kind(path) for path in paths])
    np.testing.assert_array_equal(features.transform(column), features.transform(paths))


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.png").write_bytes(b"no picture")
    with pytest.raises(ValueError, match=r"x\.png: not a picture"):
        PretrainedFeatures().fit_transform([tmp_path / "x.png"])


def test_an_unknown_network_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="unknown features"):
        PretrainedFeatures("nothing").fit([])


def test_parameters_survive_cloning() -> None:
    assert clone(PretrainedFeatures("lite2", cache=False)).get_params()["features"] == "lite2"


def test_an_unknown_base_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown base"):
        LaplacePropagation(base="forest").fit(np.eye(4), [0, 1, -1, -1])
