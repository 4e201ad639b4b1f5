"""A trained network on pictures from outside: files, folders and `.npz` arrays, in the size it was trained on."""

import itertools
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from jaxtyping import UInt8
from torch import Tensor

from laplacenet.augment import normalized
from laplacenet.data import Skipped, load_dataset, require_images
from laplacenet.data.decoding import SUFFIXES, decode
from laplacenet.models import Inference, ModelDescription, Network
from laplacenet.runtime import InputError

BLOCK = 500  # pictures decoded and judged at once
LUMA = (19595, 38470, 7471)  # Pillow's weights of red, green and blue, in 65 536ths


@dataclass(frozen=True)
class Prediction:
    """The most likely class of a picture and the network's probability for it."""

    name: str
    label: str
    confidence: float


def predictions(
    network: Network, description: ModelDescription, paths: Sequence[Path]
) -> Iterator[Prediction | Skipped]:
    """One for each picture, in order; a file in a folder that cannot be read is skipped and named."""
    if len(description.input_shape) != 3 or description.statistics is None:
        raise InputError("this network reads vectors; pictures cannot be put before it")
    inference = Inference(network, partial(normalized, statistics=description.statistics))
    found = pictures(paths, description.input_shape)
    while named := list(itertools.islice(found, BLOCK)):
        yield from (entry for entry in named if isinstance(entry, Skipped))
        images = [entry for entry in named if not isinstance(entry, Skipped)]
        if images:
            yield from judged(inference, images, description)


def judged(
    inference: Inference, images: Sequence[tuple[str, UInt8[Tensor, "c h w"]]], description: ModelDescription
) -> Iterator[Prediction]:
    logits = inference.logits(torch.stack([image for _, image in images]))
    scores = (logits / description.temperature).softmax(dim=1)
    confidences, labels = scores.max(dim=1)
    for (name, _), label, confidence in zip(images, labels.tolist(), confidences.tolist(), strict=True):
        yield Prediction(name, description.class_names[label], confidence)


def pictures(paths: Iterable[Path], shape: tuple[int, ...]) -> Iterator[tuple[str, UInt8[Tensor, "c h w"]] | Skipped]:
    """Every picture by name, as the network's input; all paths are looked for before the first is read."""
    paths = list(paths)
    for path in paths:
        if not path.exists():
            raise InputError(f"{path}: no such file or folder; give pictures, folders of them or .npz files")
    for path in paths:
        if path.suffix.lower() == ".npz":
            yield from array_pictures(path, shape)
        elif path.is_dir():
            files = sorted(file for file in path.rglob("*") if file.suffix.lower() in SUFFIXES)
            if not files:
                raise InputError(f"{path}: no pictures; expected {' '.join(SUFFIXES)} files")
            for file in files:
                yield read_or_skip(file, shape)
        elif isinstance(picture := read_or_skip(path, shape), Skipped):
            raise InputError(f"{path}: not a picture that can be read ({picture.reason})")
        else:
            yield picture


def array_pictures(path: Path, shape: tuple[int, ...]) -> Iterator[tuple[str, UInt8[Tensor, "c h w"]]]:
    images, _ = require_images(load_dataset(path))
    if tuple(images.images.shape[1:]) != shape:
        found, wanted = ("×".join(map(str, sides)) for sides in (images.images.shape[1:], shape))
        raise InputError(f"{path}: its images are {found}; this network reads {wanted} (channels×height×width)")
    for row, image in enumerate(images.images):
        yield f"{path}#{row}", image


def read_or_skip(path: Path, shape: tuple[int, ...]) -> tuple[str, UInt8[Tensor, "c h w"]] | Skipped:
    channels, height, width = shape
    if height != width:
        raise InputError(f"this network reads images of {width}×{height}; only .npz arrays of that size can be given")
    try:
        with warnings.catch_warnings():  # about odd metadata
            warnings.simplefilter("ignore")
            image = torch.from_numpy(decode(path, size=height)).permute(2, 0, 1)
    except Exception as error:  # decoders of damaged files fail in many ways; each is the file's fault
        return Skipped(str(path), " ".join(str(error).split()) or type(error).__name__)
    return str(path), image if channels == 3 else grey(image)


def grey(image: UInt8[Tensor, "3 h w"]) -> UInt8[Tensor, "1 h w"]:
    """Pillow's luma; of a picture that is grey already, its grey."""
    weighted = (torch.tensor(LUMA)[:, None, None] * image).sum(dim=0, keepdim=True)
    return ((weighted + (1 << 15)) >> 16).to(torch.uint8)
