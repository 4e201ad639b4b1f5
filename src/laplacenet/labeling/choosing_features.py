"""`--features auto`: who looks at the pictures, a pretrained network or one that is trained on them alone.

A pretrained network has seen photographs. Where the pictures are photographs, the best one that is installed is taken.
Other pictures (grey, tiny, drawings) are judged by the given labels: how many of them are found while they are hidden,
from the network's vectors and from the pictures' own pixels.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float32, UInt8
from torch import Tensor

from laplacenet.data import VectorSet
from laplacenet.data.decoding import decode, image_size
from laplacenet.data.pictures import decode_all
from laplacenet.data.walking import PictureFile, find_pictures
from laplacenet.labeling.features import label_features, read_feature_job
from laplacenet.labeling.job import Job
from laplacenet.labeling.settings import SCRATCH, LabelingSettings
from laplacenet.models.features import installed_lite, load_features
from laplacenet.runtime import Monitor, TimeLimitError

AUTO = "auto"
N_SAMPLED = 48
SMALLEST_PHOTO = 32  # pixels of the shorter side
FEWEST_COLORS = 512  # distinct ones in a photograph of 64 by 64 pixels; drawings and diagrams have far fewer
SAMPLE_SIDE = 64
PIXEL_SIDE = 16  # of the pictures' own pixels, which stand for what a network trained on them alone could see
FEWEST_JUDGED = 10


@dataclass(frozen=True)
class FeatureChoice:
    """The settings with `collection.features` decided, and why, in sentences."""

    settings: LabelingSettings
    why: tuple[str, ...]


def choose_features(
    settings: LabelingSettings, *, device: torch.device, monitor: Monitor | None = None
) -> FeatureChoice:
    """Decide `auto`; anything else is left as it is."""
    config = settings.collection
    folder = Path(config.pictures).expanduser()
    if config.features != AUTO:
        return FeatureChoice(settings, ())
    if not folder.is_dir():
        return with_features(settings, SCRATCH)
    if not (installed := installed_lite()):
        how = "pip install 'laplacenet[photos]'"
        return with_features(settings, SCRATCH, f"No pretrained network is installed ({how}): one is trained.")
    best = installed[-1]
    files, _ = find_pictures(folder, leave_out=None if config.test is None else Path(config.test))
    looks = describe(files)
    if looks.are_photographs:
        return with_features(settings, best, f"The pictures look like photographs ({looks}): {best} sees them.")
    chosen = replace(settings, collection=replace(config, features=best))
    try:
        job = read_feature_job(chosen, load_features(best, device=device), monitor)
    except TimeLimitError:
        why = f"The pictures are no photographs ({looks}), and there is no time to judge {best}: a network is trained."
        return with_features(settings, SCRATCH, why)
    return judged_choice(chosen, job, str(looks), device=device)


def with_features(settings: LabelingSettings, features: str, *why: str) -> FeatureChoice:
    return FeatureChoice(replace(settings, collection=replace(settings.collection, features=features)), why)


@dataclass(frozen=True)
class Looks:
    """What a sample of the pictures looks like: medians, and the share that has colors."""

    shorter_side: int
    n_colors: int
    colored: float

    @property
    def are_photographs(self) -> bool:
        return self.shorter_side >= SMALLEST_PHOTO and self.n_colors >= FEWEST_COLORS and self.colored >= 0.5

    def __str__(self) -> str:
        return f"{self.shorter_side} pixels, {100 * self.colored:.0f} % in color, {self.n_colors} colors each"


def describe(files: Sequence[PictureFile]) -> Looks:
    """From a sample spread evenly over the files; what cannot be read is passed over."""
    step = max(1, len(files) // N_SAMPLED)
    sides, colors, colored = [], [], []
    for file in files[::step][:N_SAMPLED]:
        try:
            side, picture = min(image_size(file.path)), decode(file.path, size=SAMPLE_SIDE)
        except Exception:
            continue
        sides.append(side)
        colors.append(n_colors(picture))
        colored.append(bool((picture.max(axis=2).astype(int) - picture.min(axis=2) > 8).mean() > 0.02))
    if not sides:
        return Looks(0, 0, 0.0)
    return Looks(int(np.median(sides)), int(np.median(colors)), float(np.mean(colored)))


def n_colors(picture: UInt8[np.ndarray, "h w 3"]) -> int:
    """Distinct colors in steps of 4 of 256: JPEG's noise around a flat color counts for little."""
    levels = (picture // 4).astype(np.int64)
    return len(np.unique(levels @ np.array([1, 64, 4096])))


def judged_choice(settings: LabelingSettings, job: Job, looks: str, *, device: torch.device) -> FeatureChoice:
    """By the share of hidden labels that is found again; pixels win only if they find more."""
    rows, best = job.collection.rows, settings.collection.features
    assert isinstance(rows, VectorSet)
    shares = [share_found(job, vectors, device) for vectors in (rows.vectors, own_pixels(job))]
    if any(share is None for share in shares):
        why = (
            f"The pictures are no photographs ({looks}), and too few labels are given to judge {best}: one is trained."
        )
        return with_features(settings, SCRATCH, why)
    network, pixels = (float(share or 0) for share in shares)
    told = f"of hidden labels {best} finds {100 * network:.0f} %, the pixels alone {100 * pixels:.0f} %"
    if pixels > network:
        why = f"The pictures are no photographs ({looks}), and {told}: a network is trained on them."
        return with_features(settings, SCRATCH, why)
    return FeatureChoice(settings, (f"The pictures are no photographs ({looks}), but {told}: {best} sees them.",))


def share_found(job: Job, vectors: Float32[Tensor, "n d"], device: torch.device) -> float | None:
    """Of the given labels, hidden a fold at a time; None where too few can be hidden."""
    settings, given = job.settings, job.given
    unseen = label_features(vectors, given, settings, class_names=job.class_names, device=device).guided.unseen.cpu()
    is_judged = ~unseen.isnan().any(dim=1)
    if int(is_judged.sum()) < FEWEST_JUDGED:
        return None
    return float((unseen[is_judged].argmax(dim=1) == given[is_judged]).float().mean())


def own_pixels(job: Job) -> Float32[Tensor, "n d"]:
    """The pictures at 16 by 16 pixels, row by row."""
    collection = job.collection
    files = [PictureFile(collection.root / name, name) for name in collection.names]
    images, kept, _ = decode_all(files, size=PIXEL_SIDE)
    vectors = torch.zeros(len(files), images[0].numel() if len(images) else 1)
    vectors[kept] = images.flatten(1).float()
    return vectors
