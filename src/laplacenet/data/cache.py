"""Image sets that stay on disk: one raw uint8 file that the system maps into memory page by page."""

import json
import math
import shutil
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch

from laplacenet.data.images import ChannelStatistics, ImageSet
from laplacenet.data.npz import read_npy
from laplacenet.runtime import InputError

IMAGES_FILE, LABELS_FILE, HEADER_FILE = "images.u8", "labels.npy", "header.json"
BLOCK = 1024


@dataclass(frozen=True)
class MemoryMappedImages:
    """A folder that holds an image set in a form that can be used without being loaded."""

    folder: Path

    def write(self, image_set: ImageSet) -> None:
        """Fill the folder, which must not exist yet; it appears under its name only when it is complete."""
        if self.folder.exists():
            raise InputError(f"{self.folder}: exists already; delete it to write the cache anew")
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        unfinished = Path(tempfile.mkdtemp(dir=self.folder.parent, prefix=f".{self.folder.name}-"))
        try:
            _write_files(image_set, unfinished)
            unfinished.rename(self.folder)
        except BaseException:  # an interrupt, too, must leave nothing behind
            shutil.rmtree(unfinished)
            raise

    def open(self) -> ImageSet:
        """The image set over the mapped file. Mapping is private: writing to the tensor never reaches the file."""
        try:
            header = json.loads((self.folder / HEADER_FILE).read_text(encoding="utf-8"))
            shape = tuple(int(length) for length in header["shape"])
            statistics = ChannelStatistics(tuple(header["statistics"]["mean"]), tuple(header["statistics"]["std"]))
            class_names, names = tuple(header["class_names"]), header["names"]
            labels = torch.from_numpy(read_npy(self.folder / LABELS_FILE))
            n_bytes = (self.folder / IMAGES_FILE).stat().st_size
        except (OSError, ValueError, KeyError, TypeError, RecursionError, InputError) as error:
            raise InputError(f"{self.folder}: not a complete image cache; delete it and write it again") from error
        if n_bytes != math.prod(shape) or any(length < 1 for length in shape):
            raise InputError(f"{self.folder / IMAGES_FILE}: {n_bytes} bytes, its header says {math.prod(shape)}")
        images = torch.from_file(str(self.folder / IMAGES_FILE), shared=False, size=n_bytes, dtype=torch.uint8)
        return ImageSet(images.reshape(shape), labels, class_names, None if names is None else tuple(names), statistics)


def _write_files(image_set: ImageSet, folder: Path) -> None:
    with (folder / IMAGES_FILE).open("wb") as file:
        for start in range(0, len(image_set), BLOCK):
            file.write(image_set.images[start : start + BLOCK].cpu().contiguous().numpy().data)
    np.save(folder / LABELS_FILE, image_set.labels.cpu().numpy())
    header = {
        "shape": list(image_set.images.shape),
        "class_names": image_set.class_names,
        "names": image_set.names,
        "statistics": asdict(image_set.statistics),
    }
    (folder / HEADER_FILE).write_text(json.dumps(header), encoding="utf-8")
