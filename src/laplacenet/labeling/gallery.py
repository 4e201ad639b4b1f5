"""The pictures that a labeling's page shows, kept small in the run folder so that the page can be made again."""

from pathlib import Path

import torch
from jaxtyping import Int64, UInt8
from torch import Tensor

from laplacenet.labeling.acquisition import select_next, suspects
from laplacenet.labeling.result import Labeling
from laplacenet.labeling.sealed_tensors import read_sealed_tensors, write_sealed_tensors
from laplacenet.runtime import InputError

GALLERY = "gallery.safetensors"
LARGEST_SIDE = 96
PER_CLASS, FOR_CLASSES, N_SUSPECTS, N_NEXT = 8, 480, 24, 24


def shown_rows(labeling: Labeling) -> Int64[Tensor, " m"]:
    """Of each class the surest and the least sure, the suspects, and what to label next; each row once."""
    parts = [part for label in range(len(labeling.summary.class_names)) for part in sure_and_unsure(labeling, label)]
    parts += [suspects(labeling)[:N_SUSPECTS], next_shown(labeling)]
    return torch.tensor(sorted({row for part in parts for row in part.tolist()}), dtype=torch.int64)


def next_shown(labeling: Labeling) -> Int64[Tensor, " m"]:
    return select_next(labeling, N_NEXT).rows


def sure_and_unsure(labeling: Labeling, label: int) -> tuple[Int64[Tensor, " a"], Int64[Tensor, " b"]]:
    """Of the rows that were found to have this label, those with the highest and the lowest confidence; none in both.

    Many classes share a page: each shows fewer, two at the least.
    """
    n_shown = max(2, min(PER_CLASS, FOR_CLASSES // (2 * len(labeling.summary.class_names))))
    rows = torch.nonzero((labeling.labels == label) & ~labeling.is_given).squeeze(1)
    rows = rows[labeling.confidence[rows].argsort(descending=True, stable=True)]
    n_sure = min(n_shown, (len(rows) + 1) // 2)
    return rows[:n_sure], rows[n_sure:].flip(0)[:n_shown]


def save_gallery(folder: Path, rows: Int64[Tensor, " m"], images: UInt8[Tensor, "m c h w"]) -> None:
    """The pictures of these rows, brought down to 96 pixels a side where they are larger."""
    write_sealed_tensors(folder / GALLERY, {"rows": rows, "images": small(images.cpu())})


def small(images: UInt8[Tensor, "m c h w"]) -> UInt8[Tensor, "m c h2 w2"]:
    height, width = images.shape[2:]
    factor = LARGEST_SIDE / max(height, width)
    if factor >= 1:
        return images.contiguous()
    size = (max(1, round(height * factor)), max(1, round(width * factor)))
    smaller = torch.nn.functional.interpolate(images.float(), size, mode="bilinear", antialias=True)
    return smaller.round().clamp(0, 255).to(torch.uint8)


def read_gallery(folder: Path) -> dict[int, UInt8[Tensor, "c h w"]]:
    """The pictures by row; none where a run has no pictures."""
    path = folder / GALLERY
    if not path.exists():
        return {}
    tensors, _ = read_sealed_tensors(path, ("rows", "images"))
    rows, images = tensors["rows"], tensors["images"]
    is_whole = rows.ndim == 1 and images.ndim == 4 and len(rows) == len(images) and images.dtype == torch.uint8
    if not is_whole or images.shape[1] not in (1, 3) or max(images.shape[2:], default=0) > LARGEST_SIDE:
        raise InputError(f"{path}: not the pictures that were written there")
    return dict(zip(rows.tolist(), images, strict=True))
