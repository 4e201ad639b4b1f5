"""A train set, the test set that belongs to it, and what could not be read of them."""

from dataclasses import dataclass, replace

from laplacenet.data.images import ImageSet
from laplacenet.data.vectors import VectorSet
from laplacenet.runtime import InputError


@dataclass(frozen=True)
class Skipped:
    """A file that was left out, and why."""

    path: str
    reason: str


@dataclass(frozen=True, eq=False)
class Dataset:
    """Train and test set under one name.

    Both have the same classes and row shape; the test set takes the train set's channel statistics, because a network
    must see test images on the scale that it was trained on.
    """

    train: ImageSet | VectorSet
    test: ImageSet | VectorSet | None
    name: str
    skipped: tuple[Skipped, ...] = ()

    def __post_init__(self) -> None:
        if self.test is None:
            return
        if row_shape(self.train) != row_shape(self.test):
            raise InputError(
                f"{self.name}: train rows have shape {row_shape(self.train)}, test rows {row_shape(self.test)}"
            )
        if self.train.class_names != self.test.class_names:
            raise InputError(f"{self.name}: the train and test sets must name the same classes in the same order")
        if isinstance(self.train, ImageSet) and isinstance(self.test, ImageSet):
            object.__setattr__(self, "test", replace(self.test, statistics=self.train.statistics))


def row_shape(rows: ImageSet | VectorSet) -> tuple[int, ...]:
    """(c, h, w) of an image set, (d,) of a vector set."""
    return tuple((rows.images if isinstance(rows, ImageSet) else rows.vectors).shape[1:])


def require_images(dataset: Dataset) -> tuple[ImageSet, ImageSet | None]:
    """The train and test images, where only images will do."""
    train, test = dataset.train, dataset.test
    if not isinstance(train, ImageSet) or isinstance(test, VectorSet):
        raise InputError(f"{dataset.name} holds vectors; a data set of images is needed here")
    return train, test
