"""The results in the run folder: the labels, and the pictures and map for the report."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Int64, UInt8
from sklearn.manifold import TSNE
from torch import Tensor

from laplacenet.data import ImageSet
from laplacenet.labeling.acquisition import select_next, suspects
from laplacenet.labeling.estimate import WRONG_SHARE, suspect_labels
from laplacenet.labeling.evidence import Evidence
from laplacenet.labeling.job import Job
from laplacenet.labeling.result import SOURCES, Labeling, Summary, save_labeling, write_labels
from laplacenet.runtime import InputError, RunFolder, stream, stream_seed
from laplacenet.runtime.sealed_tensors import read_sealed_tensors, write_sealed_tensors


@dataclass(frozen=True, eq=False)
class Findings:
    """Scores of every row with all labels known, and held-out scores of the given rows.

    `unseen` are probabilities, NaN where there are none; `finders` are indices into SOURCES: what produced each label.
    """

    evidence: Evidence
    temperature: float
    unseen: Float[Tensor, "n C"]
    finders: UInt8[Tensor, " n"]
    features: Float[Tensor, "n d"]
    suspect_ratio: float = (1 - WRONG_SHARE) / WRONG_SHARE


def labeling_of(
    findings: Findings,
    summary: Summary,
    positions: Float[Tensor, "n 2"],
    *,
    names: tuple[str, ...],
    given: Int64[Tensor, " n"],
) -> Labeling:
    """Given labels are kept; a suspect one gets the held-out scores that contradict it."""
    is_suspect = suspect_labels(findings.unseen, given, least_ratio=findings.suspect_ratio)
    scores = findings.evidence.at(findings.temperature)
    scores = torch.where(is_suspect[:, None], findings.unseen, scores)
    return Labeling(
        summary=summary,
        names=names,
        given=given,
        labels=torch.where(given >= 0, given, scores.argmax(dim=1)),
        scores=scores,
        sources=torch.where(given >= 0, SOURCES.index("given"), findings.finders).to(torch.uint8),
        unseen_scores=findings.unseen,
        is_suspect=is_suspect,
        features=findings.features,
        positions=positions,
    )


def write_outcome(folder: RunFolder, labeling: Labeling, job: Job) -> None:
    """Write the pictures for the report, the labeling for other commands, and last labels.csv."""
    rows = job.collection.rows
    if isinstance(rows, ImageSet):
        shown = shown_rows(labeling)
        save_gallery(folder.path, shown, rows.images[shown])
    save_labeling(folder.path, labeling)
    write_labels(folder.path, labeling)


GALLERY = "gallery.safetensors"
LARGEST_SIDE = 96
PER_CLASS, FOR_CLASSES, N_SUSPECTS, N_NEXT = 8, 480, 24, 24


def shown_rows(labeling: Labeling) -> Int64[Tensor, " m"]:
    """The most and least confident rows of each class, the suspects, and what to label next; each row once."""
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
    """The pictures of these rows, reduced to at most 96 pixels a side."""
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


N_ANCHORS = 2_000  # rows laid out by t-SNE, which takes four seconds on one core; the others are placed among them
N_COMPONENTS = 30
N_ITERATIONS = 500
PERPLEXITY = 30.0
N_NEAREST = 3
BLOCK = 4096


@torch.no_grad()
def map_positions(features: Float[Tensor, "n d"], *, seed: int) -> Float[Tensor, "n 2"]:
    """t-SNE of at most 2 000 rows; every other row is placed at the mean of its three nearest."""
    features = features.float().cpu()
    n = len(features)
    if n < 4:
        return torch.stack([torch.arange(n), torch.zeros(n)], dim=1).float()
    anchors = torch.from_numpy(np.sort(stream(seed, "labeling/map").permutation(n)[:N_ANCHORS]))
    reduced = principal_components(features[anchors], N_COMPONENTS)
    layout = TSNE(
        init=reduced[:, :2].numpy() / max(float(reduced[:, 0].std()), 1e-12) * 1e-4,
        learning_rate="auto",
        perplexity=min(PERPLEXITY, (len(anchors) - 1) / 3),
        max_iter=N_ITERATIONS,
        random_state=stream_seed(seed, "labeling/map") % 2**32,
    )
    places = torch.from_numpy(layout.fit_transform(reduced.numpy()))
    if n == len(anchors):
        return places
    nearest = [(rows @ features[anchors].T).topk(N_NEAREST, dim=1).indices for rows in torch.split(features, BLOCK)]
    positions = places[torch.cat(nearest)].mean(dim=1)
    positions[anchors] = places
    return positions


def principal_components(X: Float[Tensor, "m d"], n_components: int) -> Float[Tensor, "m c"]:
    """Coordinates along the directions of largest variance, at least two of them."""
    U, S, _ = torch.linalg.svd(X - X.mean(dim=0), full_matrices=False)
    coordinates = (U * S)[:, :n_components]
    return torch.nn.functional.pad(coordinates, (0, max(0, 2 - coordinates.shape[1])))
