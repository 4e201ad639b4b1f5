"""Image sets, vector sets and the pairs they make are right from birth."""

import jaxtyping
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as st_numpy

from laplacenet.data import ChannelStatistics, Dataset, ImageSet, VectorSet, channel_statistics, require_images
from laplacenet.runtime import InputError


def images(n: int = 4, c: int = 3, side: int = 5) -> torch.Tensor:
    return torch.arange(n * c * side * side, dtype=torch.int64).remainder(256).to(torch.uint8).reshape(n, c, side, side)


def labels(*values: int) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int64)


@pytest.fixture
def _shapes_unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a user has it: wrong tensors meet our own checks, not those that the tests put before them."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)


def test_an_image_set_counts_its_images_and_classes() -> None:
    image_set = ImageSet(images(), labels(0, 1, -1, 0), ("cat", "dog", "owl"))
    assert len(image_set) == 4
    assert image_set.n_classes == 3


@given(
    st_numpy.arrays(np.uint8, st.tuples(st.integers(1, 6), st.sampled_from((1, 3)), st.integers(1, 4), st.just(3))),
    st.integers(1, 4),
)
def test_statistics_are_those_of_numpy_whatever_the_block(array: np.ndarray, block: int) -> None:
    found = channel_statistics(torch.from_numpy(array), block=block)
    np.testing.assert_allclose(found.mean, (array / 255).mean(axis=(0, 2, 3)), atol=1e-12)
    np.testing.assert_allclose(found.std, np.maximum((array / 255).std(axis=(0, 2, 3)), 0.5 / 255), atol=1e-12)


def test_a_flat_channel_has_a_deviation_above_zero() -> None:
    flat = ImageSet(torch.full((2, 1, 3, 3), 200, dtype=torch.uint8), labels(0, 0), ("a",))
    assert flat.statistics.std[0] > 0
    assert flat.statistics.mean[0] == pytest.approx(200 / 255)


def test_given_statistics_are_kept() -> None:
    statistics = ChannelStatistics((0.5,) * 3, (0.25,) * 3)
    assert ImageSet(images(), labels(0, 0, 0, 0), ("a",), statistics=statistics).statistics == statistics


@pytest.mark.usefixtures("_shapes_unchecked")
@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"images": torch.zeros(4, 3, 5, 5)}, "uint8 tensor"),
        ({"images": images()[0]}, "uint8 tensor"),
        ({"images": images(c=2)}, "1 or 3 channels; got 2"),
        ({"images": images()[:0], "labels": labels()}, "no images"),
        ({"labels": labels(0, 1, 0)}, "4 rows but 3 labels"),
        ({"labels": labels(0, 1, 0, 0).int()}, "int64"),
        ({"labels": labels(0, 1, 2, 0)}, "got 0 to 2"),
        ({"labels": labels(0, 1, -2, 0)}, "got -2 to 1"),
        ({"class_names": ("cat", "cat")}, "differ"),
        ({"names": ("a.png",)}, "4 images but 1 names"),
        ({"statistics": ChannelStatistics((0.5,), (0.5,))}, "statistics of 1 channels"),
    ],
)
def test_a_wrong_image_set_is_refused_with_a_reason(changes: dict, complaint: str) -> None:
    right = {"images": images(), "labels": labels(0, 1, 0, 1), "class_names": ("cat", "dog")}
    with pytest.raises(InputError, match=complaint):
        ImageSet(**(right | changes))


@pytest.mark.parametrize(
    ("mean", "std", "complaint"),
    [
        ((0.5,), (0.5, 0.5), "as many"),
        ((float("nan"),), (0.5,), "means must be finite"),
        ((0.5,), (0.0,), "above 0"),
    ],
)
def test_wrong_statistics_are_refused(mean: tuple, std: tuple, complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        ChannelStatistics(mean, std)


@pytest.mark.usefixtures("_shapes_unchecked")
@pytest.mark.parametrize(
    ("vectors", "complaint"),
    [
        (torch.zeros(2, 3, dtype=torch.float64), "float32"),
        (torch.zeros(2), "float32 tensor"),
        (torch.zeros(2, 0), "no vectors"),
        (torch.tensor([[1.0], [float("nan")]]), "finite"),
        (torch.zeros(3, 1), "3 rows but 2 labels"),
    ],
)
def test_wrong_vectors_are_refused(vectors: torch.Tensor, complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        VectorSet(vectors, labels(0, 1), ("a", "b"))


def test_the_test_set_takes_the_statistics_of_its_train_set() -> None:
    train = ImageSet(images(), labels(0, 0, 0, 0), ("a",))
    test = ImageSet(255 - images(2), labels(0, 0), ("a",))
    assert test.statistics != train.statistics
    dataset = Dataset(train, test, "pair")
    paired = require_images(dataset)[1]
    assert paired is not None
    assert paired.statistics == train.statistics
    assert torch.equal(paired.images, test.images)


def test_train_and_test_must_fit_one_another() -> None:
    train = ImageSet(images(), labels(0, 0, 0, 0), ("a",))
    with pytest.raises(InputError, match="same classes"):
        Dataset(train, ImageSet(images(1), labels(0), ("b",)), "pair")
    with pytest.raises(InputError, match=r"\(3, 5, 5\), test rows \(3, 6, 6\)"):
        Dataset(train, ImageSet(images(1, side=6), labels(0), ("a",)), "pair")


def test_vectors_are_refused_where_images_are_needed() -> None:
    points = VectorSet(torch.zeros(2, 2), labels(0, 0), ("a",))
    with pytest.raises(InputError, match="points holds vectors"):
        require_images(Dataset(points, None, "points"))
