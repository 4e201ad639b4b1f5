"""From a name or a path to a data set."""

import os
from pathlib import Path

from laplacenet.data.arrays import read_arrays
from laplacenet.data.cifar import CIFAR10, CIFAR100, CifarLayout, load_cifar, read_cifar
from laplacenet.data.dataset import Dataset
from laplacenet.data.embedded import digits, two_moons_dataset
from laplacenet.data.folders import read_image_folder, read_mini_imagenet
from laplacenet.data.pictures import SILENCE
from laplacenet.runtime import InputError, Monitor

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
    monitor: Monitor = SILENCE,
) -> Dataset:
    """A named data set, a folder of pictures or an `.npz` file.

    Named sets are looked for in `folder`, which defaults to the environment variable LAPLACENET_DATA or else to `data`
    below the current directory; `download` fetches CIFAR if it is not there. `size` is the side in pixels to which the
    pictures of a folder are brought; the monitor hears of each that is read.
    """
    name, path = str(name_or_path), Path(name_or_path).expanduser()
    home = Path(folder if folder is not None else os.environ.get(FOLDER_VARIABLE) or "data").expanduser()
    is_picture_folder = name not in DATASET_NAMES and path.is_dir() and _cifar_layout(path) is None
    if is_picture_folder:
        return read_image_folder(path, size=size, monitor=monitor)
    if size is not None:
        raise InputError(f"size {size} given for {name}; only the images of a folder can be brought to another size")
    if name in EMBEDDED:
        return EMBEDDED[name]()
    if name in CIFAR:
        return load_cifar(CIFAR[name], home, fetch=download)
    if name == MINI_IMAGENET:
        return read_mini_imagenet(home if (home / "train").is_dir() else home / MINI_IMAGENET, monitor=monitor)
    return _load_path(path)


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
    if path.suffix.lower() != ".npz":
        raise InputError(f"{path}: not a data set that can be read; {accepted}")
    return read_arrays(path)
