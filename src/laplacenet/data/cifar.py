"""CIFAR-10 and CIFAR-100 in their official Python format, from the unpacked folder or straight from the archive."""

import shlex
import tarfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import UInt8

from laplacenet.data.dataset import Dataset
from laplacenet.data.download import download
from laplacenet.data.files import open_regular, read_regular
from laplacenet.data.images import ImageSet
from laplacenet.data.pickles import read_array_pickle
from laplacenet.runtime import InputError

N_PIXELS = 3 * 32 * 32
LARGEST_FILE = 1 << 29  # the largest real one has 155 million bytes


@dataclass(frozen=True)
class CifarLayout:
    """File names inside the official archive."""

    name: str
    folder: str
    archive: str
    checksum: str
    train_files: tuple[str, ...]
    test_file: str
    meta_file: str
    labels_key: str
    class_names_key: str

    @property
    def files(self) -> tuple[str, ...]:
        """The members that are read; all others are ignored."""
        return (self.meta_file, *self.train_files, self.test_file)

    @property
    def url(self) -> str:
        """The authors' download address."""
        return f"https://www.cs.toronto.edu/~kriz/{self.archive}"


CIFAR10 = CifarLayout(
    name="cifar10",
    folder="cifar-10-batches-py",
    archive="cifar-10-python.tar.gz",
    checksum="md5:c58f30108f718f92721af3b95e74349a",
    train_files=tuple(f"data_batch_{number}" for number in range(1, 6)),
    test_file="test_batch",
    meta_file="batches.meta",
    labels_key="labels",
    class_names_key="label_names",
)
CIFAR100 = CifarLayout(
    name="cifar100",
    folder="cifar-100-python",
    archive="cifar-100-python.tar.gz",
    checksum="md5:eb9058c3a382ffc7106e4002c42a8d85",
    train_files=("train",),
    test_file="test",
    meta_file="meta",
    labels_key="fine_labels",
    class_names_key="fine_label_names",
)


def find_cifar(layout: CifarLayout, location: Path) -> Path | None:
    """The unpacked folder or the archive at `location`, which is either of them or the folder that holds one."""
    if location.is_file():
        return location
    for folder in (location, location / layout.folder):
        if any((folder / name).is_file() for name in layout.files):
            return folder
    archive = location / layout.archive
    return archive if archive.is_file() else None


def load_cifar(layout: CifarLayout, location: Path, *, fetch: bool = False) -> Dataset:
    """The data set found at `location`; with `fetch` a missing archive is downloaded there first."""
    source = find_cifar(layout, location)
    if source is None and fetch:
        source = download(layout.url, location / layout.archive, checksum=layout.checksum)
    if source is None:
        command = f"laplacenet data {layout.name} --download --data-dir {shlex.quote(str(location))}"
        raise InputError(
            f"{layout.name} not found: looked for {location / layout.folder}/ and {location / layout.archive};"
            f" name the folder that holds it with --data-dir, or fetch it with: {command}"
        )
    return read_cifar(layout, source)


def read_cifar(layout: CifarLayout, source: Path) -> Dataset:
    """The data set in the unpacked folder or `.tar.gz` archive `source`."""
    read_files = _read_folder if source.is_dir() else _read_archive
    contents = dict(read_files(layout, source))
    missing = [name for name in layout.files if name not in contents]
    if missing:
        raise InputError(f"{source}: {', '.join(missing)} missing; {layout.name} has {', '.join(layout.files)}")
    class_names = _class_names(layout, contents[layout.meta_file], where=f"{source}/{layout.meta_file}")
    train = _image_set(layout, {name: contents[name] for name in layout.train_files}, class_names, where=source)
    test = _image_set(layout, {layout.test_file: contents[layout.test_file]}, class_names, where=source)
    return Dataset(train, test, layout.name)


def _read_folder(layout: CifarLayout, folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    for name in layout.files:
        path = folder / name
        if path.is_file():
            yield name, read_array_pickle(read_regular(path, largest=LARGEST_FILE), where=str(path))


def _read_archive(layout: CifarLayout, archive: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Members are read one after another as the archive streams by; nothing is written to disk."""
    wanted = {f"{layout.folder}/{name}": name for name in layout.files}
    try:
        with open_regular(archive) as file, tarfile.open(fileobj=file, mode="r:gz") as tar:
            for member in tar:
                if member.size > LARGEST_FILE:
                    raise InputError(f"{archive}/{member.name}: {member.size} bytes; at most {LARGEST_FILE} are read")
                content = tar.extractfile(member) if member.isreg() and member.name in wanted else None
                if content is not None:
                    with content:
                        pickled = content.read()
                    yield wanted[member.name], read_array_pickle(pickled, where=f"{archive}/{member.name}")
    except (tarfile.TarError, EOFError, OSError, ValueError, zlib.error) as error:
        raise InputError(f"{archive}: damaged or cut off ({error}); delete it and fetch it again") from error


def _class_names(layout: CifarLayout, meta: dict[str, Any], *, where: str) -> tuple[str, ...]:
    names = meta.get(layout.class_names_key)
    if not isinstance(names, list) or not all(isinstance(name, str | bytes) for name in names):
        raise InputError(f"{where}: no list of names under {layout.class_names_key!r}; is it {layout.name}?")
    return tuple(name.decode("utf-8", "replace") if isinstance(name, bytes) else name for name in names)


def _image_set(
    layout: CifarLayout, batches: dict[str, dict[str, Any]], class_names: tuple[str, ...], *, where: Path
) -> ImageSet:
    rows, labels = [], []
    for name, batch in batches.items():
        rows.append(_rows(batch, where=f"{where}/{name}"))
        labels.append(_labels(layout, batch, n=len(rows[-1]), where=f"{where}/{name}"))
        if not all(0 <= label < len(class_names) for label in labels[-1]):
            raise InputError(f"{where}/{name}: a label lies outside 0 to {len(class_names) - 1}")
    images = torch.from_numpy(np.concatenate(rows) if len(rows) > 1 else rows[0]).reshape(-1, 3, 32, 32)
    return ImageSet(images, torch.tensor([label for batch in labels for label in batch]), class_names)


def _rows(batch: dict[str, Any], *, where: str) -> UInt8[np.ndarray, "n 3072"]:
    data = batch.get("data")
    if not isinstance(data, np.ndarray) or data.dtype != np.uint8 or data.ndim != 2 or data.shape[1] != N_PIXELS:
        found = f"{data.dtype} {data.shape}" if isinstance(data, np.ndarray) else type(data).__name__
        raise InputError(f"{where}: 'data' must be uint8 rows of {N_PIXELS}; got {found}")
    return data


def _labels(layout: CifarLayout, batch: dict[str, Any], *, n: int, where: str) -> list[int]:
    labels = batch.get(layout.labels_key)
    if not isinstance(labels, list) or not all(isinstance(label, int) for label in labels):
        raise InputError(f"{where}: no list of integers under {layout.labels_key!r}; is it {layout.name}?")
    if len(labels) != n:
        raise InputError(f"{where}: {n} images but {len(labels)} labels")
    return labels
