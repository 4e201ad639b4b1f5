"""From a name or a path to a data set."""

import os
from pathlib import Path

import numpy as np
import torch

from laplacenet.data.arrays import ARRAY_SUFFIXES, read_arrays
from laplacenet.data.cifar import CIFAR10, CIFAR100, CifarLayout, load_cifar, read_cifar
from laplacenet.data.collection import ReadingOptions, read_picture_folder
from laplacenet.data.dataset import Dataset
from laplacenet.data.images import ImageSet, VectorSet
from laplacenet.data.pictures import NO_MONITOR, require_size
from laplacenet.data.walking import TEST, TRAIN
from laplacenet.runtime import InputError, Monitor, stream, stream_seed

N_DIGITS_TEST_PER_CLASS = 50
N_MOONS = 1000
MOONS_NOISE = 0.1
MINI_IMAGENET_SIZE = 84


def digits() -> Dataset:
    """1 797 handwritten digits of 8×8 pixels: 1 297 to train on, 500 to test on, fifty of each.

    The split is always the same, whatever the seed of the run.
    """
    from sklearn.datasets import load_digits  # noqa: PLC0415 - takes a second to import, for two small sets only

    bunch = load_digits()
    images = torch.from_numpy(np.rint(bunch.images * (255 / 16)).astype(np.uint8)[:, None])
    labels = torch.from_numpy(bunch.target.astype(np.int64))
    is_test = torch.zeros(len(labels), dtype=torch.bool)
    for digit in range(10):
        members = np.flatnonzero(bunch.target == digit)
        is_test[stream(0, "digits-test-set", digit).permutation(members)[:N_DIGITS_TEST_PER_CLASS]] = True
    names = tuple("0123456789")
    train = ImageSet(images[~is_test], labels[~is_test], names)
    return Dataset(train, ImageSet(images[is_test], labels[is_test], names), "digits")


def two_moons(n: int, noise: float, seed: int) -> VectorSet:
    """Two interleaved half circles of `n` points in all, with Gaussian `noise`."""
    if n < 2:
        raise InputError(f"two moons need at least 2 points; got n={n}")
    if not 0 <= noise < float("inf"):
        raise InputError(f"noise must be a finite number, 0 or above; got {noise}")
    from sklearn.datasets import make_moons  # noqa: PLC0415 - as above

    vectors, labels = make_moons(n, noise=noise, random_state=stream_seed(seed, "two-moons") & 0xFFFFFFFF)
    return VectorSet(
        torch.from_numpy(vectors.astype(np.float32)), torch.from_numpy(labels.astype(np.int64)), ("upper", "lower")
    )


def two_moons_dataset() -> Dataset:
    """A thousand points to train on and a thousand others to test on."""
    return Dataset(two_moons(N_MOONS, MOONS_NOISE, 0), two_moons(N_MOONS, MOONS_NOISE, 1), "two-moons")


CIFAR = {layout.name: layout for layout in (CIFAR10, CIFAR100)}
EMBEDDED = {"digits": digits, "two-moons": two_moons_dataset}
MINI_IMAGENET = "mini-imagenet"
DATASET_NAMES = (*CIFAR, MINI_IMAGENET, *EMBEDDED)
FOLDER_VARIABLE = "LAPLACENET_DATA"


def load_dataset(
    name_or_path: str | Path,
    *,
    folder: str | Path | None = None,
    size: int | None = None,
    download: bool = False,
    monitor: Monitor = NO_MONITOR,
) -> Dataset:
    """A named data set, a folder of pictures or an `.npz` file.

    Named sets are looked for in `folder`, which defaults to the environment variable LAPLACENET_DATA or else to `data`
    below the current directory; `download` fetches CIFAR if it is not there. `size` is the side in pixels to which the
    pictures of a folder are resized; the monitor counts them.
    """
    name, path = str(name_or_path), Path(name_or_path).expanduser()
    home = Path(folder if folder is not None else os.environ.get(FOLDER_VARIABLE) or "data").expanduser()
    is_picture_folder = name not in DATASET_NAMES and path.is_dir() and _cifar_layout(path) is None
    if is_picture_folder:
        return _load_folder(path, size=size, monitor=monitor)
    if size is not None:
        raise InputError(f"size {size} given for {name}; only the images of a folder can be resized")
    if name in EMBEDDED:
        return EMBEDDED[name]()
    if name in CIFAR:
        return load_cifar(CIFAR[name], home, fetch=download)
    if name == MINI_IMAGENET:
        return _load_mini_imagenet(home if (home / TRAIN).is_dir() else home / MINI_IMAGENET, monitor=monitor)
    return _load_path(path)


def _load_folder(folder: Path, *, size: int | None, name: str | None = None, monitor: Monitor) -> Dataset:
    require_size(size)
    train, test = read_picture_folder(folder, (), ReadingOptions(size), with_test=True, monitor=monitor)
    return Dataset(train.rows, test, name or folder.resolve().name, train.skipped)


def _load_mini_imagenet(folder: Path, *, monitor: Monitor) -> Dataset:
    """`train/<class>/` and `test/<class>/` folders of images, 84 pixels a side."""
    for part in (TRAIN, TEST):
        if not (folder / part).is_dir():
            raise InputError(
                f"mini-imagenet not found: no folder {folder / part}; it cannot be downloaded, put its images into"
                f" train/<class>/ and test/<class>/ below {folder} or set LAPLACENET_DATA to the folder that holds it"
            )
    return _load_folder(folder, size=MINI_IMAGENET_SIZE, name=MINI_IMAGENET, monitor=monitor)


def _cifar_layout(path: Path) -> CifarLayout | None:
    """The layout that `path` follows: an archive by its official name, a folder by the files in it."""
    for layout in CIFAR.values():
        if path.name == layout.archive or all((path / name).is_file() for name in layout.files):
            return layout
    return None


def _load_path(path: Path) -> Dataset:
    accepted = f"choose one of {', '.join(DATASET_NAMES)}, a folder of images or an .npz file"
    if not path.exists():
        raise InputError(f"no data set, folder or file called {str(path)!r}; {accepted}")
    layout = _cifar_layout(path)
    if layout is not None:
        return read_cifar(layout, path)
    if path.suffix.lower() not in ARRAY_SUFFIXES:
        raise InputError(f"{path}: not a data set that can be read; {accepted}")
    try:
        return Dataset(*read_arrays(path), path.stem)
    except InputError as error:
        raise InputError(str(error) if str(path) in str(error) else f"{path}: {error}") from error
