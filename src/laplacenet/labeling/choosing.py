"""Settings from the data, for whatever was not asked for, and the sentences that say why."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch

from laplacenet.data import ImageSet
from laplacenet.data.pictures import default_size
from laplacenet.data.walking import find_pictures
from laplacenet.labeling.evidence import class_shares
from laplacenet.labeling.job import Job
from laplacenet.labeling.settings import FIXED, CollectionConfig, LabelingSettings
from laplacenet.models import ModelConfig
from laplacenet.runtime.settings import override
from laplacenet.training import LaplaceNetConfig, TrainConfig

SAID_OF_PRIORS = {
    "shrunk": "Classes are expected to be as frequent as among the given labels, drawn towards equal shares as far as"
    " so few labels leave room for doubt.",
    "labeled": "Classes are expected to be as frequent as among the given labels.",
    "equal": "All classes are expected to be equally frequent.",
}


def chosen_prior(prior: str) -> str:
    return SAID_OF_PRIORS.get(prior, "Classes are expected to have the shares that were given.")


LARGEST_SIDE = {"cpu": 32, "cuda": 64}
"""Pixels a side that a network can be trained on in minutes."""
LEAST_FOR_PATCHES = 16
"""Pixels a side; below, a patch is half of the picture."""
MANY_FOR_GPU = 10_000
"""Pictures from which a GPU can learn a deep network's filters."""
BATCH_SIZE = 100
LARGEST_K, SMALLEST_K = 50, 5
ROWS_PER_NEIGHBOR = 8  # a row's neighbors should be a small part of its class


def chosen_size(config: CollectionConfig, device: torch.device) -> int | None:
    """The side in pixels for a folder's pictures: theirs where it is small, else what the device can train on."""
    folder = Path(config.pictures).expanduser()
    if config.size is not None or not folder.is_dir():
        return config.size
    files, _ = find_pictures(folder, leave_out=None if config.test is None else Path(config.test))
    return min(LARGEST_SIDE[device.type], default_size(files)) if files else None


def settings_for(job: Job, texts: Sequence[str], device: torch.device) -> LabelingSettings:
    """The job's settings with those that its rows decide, and `section.field=value` texts above all."""
    settings = job.settings
    graph = replace(settings.graph, k=neighbors_for(len(job.collection), len(job.class_names)))
    settings = replace(settings, graph=graph)
    if isinstance(job.collection.rows, ImageSet):
        model, train, method = chosen_network(job.collection.rows, device)
        settings = replace(settings, model=model, train=train, method=method)
    settings = override(settings, texts, fixed=FIXED)
    class_shares(settings.prior, job.given, len(job.class_names))  # refuses what is no prior before anything is done
    return settings


def neighbors_for(n: int, n_classes: int) -> int:
    """k: the paper's 50, fewer where a class has few rows."""
    return min(LARGEST_K, max(SMALLEST_K, n // (ROWS_PER_NEIGHBOR * n_classes)))


def chosen_network(rows: ImageSet, device: torch.device) -> tuple[ModelConfig, TrainConfig, LaplaceNetConfig]:
    """By accuracy in a given time, on pictures other than those that are reported on."""
    side = min(rows.images.shape[2:])
    train = TrainConfig(batch_size=BATCH_SIZE, labeled_batch_size=BATCH_SIZE // 2, lr=0.1)
    if side < LEAST_FOR_PATCHES:
        return ModelConfig("small-cnn"), train, LaplaceNetConfig(n_views=2, mixup_alpha=1.0)
    if device.type == "cuda" and len(rows) >= MANY_FOR_GPU:
        return ModelConfig("13-cnn"), replace(train, lr=0.03), LaplaceNetConfig(n_views=3)
    return ModelConfig("patch-cnn"), train, LaplaceNetConfig(n_views=1)


def picture_choices(job: Job, *, step_s: float | None) -> tuple[str, ...]:
    """What was chosen and why, in sentences."""
    settings, rows = job.settings, job.collection.rows
    assert isinstance(rows, ImageSet)
    channels, height, width = rows.images.shape[1:]
    train, augment, n_views = settings.train, settings.augment, settings.method.n_views
    size = f"{width}×{height} pixels{', grey' if channels == 1 else ''}: {why_size(settings)}."
    network = f"{settings.model.name}: {WHY_NETWORK.get(settings.model.name, 'as asked for')}."
    batch = (
        f"{train.batch_size} pictures a step, {train.labeled_batch_size} of them labeled,"
        f" {n_views} view{'s' if n_views > 1 else ''} of each,"
        f" {'mirrored or not' if augment.flip else 'never mirrored'}; {settings.graph.k} neighbors in the graph."
    )
    time = "" if step_s is None else f", for a step takes {1000 * step_s:.0f} ms here"
    steps = f"{train.steps} steps until the estimate{time}."
    suspects = () if settings.time.suspects else ("Wrong labels among those given are not looked for.",)
    return (size, network, batch, steps, chosen_prior(settings.prior), *suspects)


WHY_NETWORK = {
    "patch-cnn": "its filters come from the pictures themselves, which few labels and little time cannot teach",
    "small-cnn": "the pictures are small",
    "13-cnn": "there is a GPU and there are many pictures",
}


def why_size(settings: LabelingSettings) -> str:
    if settings.collection.size is None:
        return "as the file has them"
    return "more cost time that few labels do not repay; --size takes another"
