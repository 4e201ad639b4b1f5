"""Table IX: an epoch of each of the paper's variants, its pseudo-labels included, one after another in one process."""

import dataclasses
import itertools
import math
import statistics

import torch

from laplacenet.experiments.benchmark.rows import EpochRow
from laplacenet.experiments.benchmark.settings import BenchSettings
from laplacenet.experiments.benchmark.synthetic import CIFAR_STATISTICS, patterned_images
from laplacenet.experiments.experiment import Experiment
from laplacenet.experiments.paper.published import TABLE_9
from laplacenet.experiments.paper.recipes import Cell, find_recipe
from laplacenet.models import build_model
from laplacenet.runtime.timeline import summary, timeline
from laplacenet.training import Execution, ImageViews, LaplaceNetConfig, Problem, Run, method_class, train
from laplacenet.training.methods.network_labels import NetworkLabelsConfig

SIDE = 32
BASELINE = "Baseline (n_a = 1)"


def variants() -> tuple[Cell, ...]:
    """The rows of Table IX, each with its experiment."""
    return find_recipe("table-9").cells


def measure_epochs(variant: Cell, settings: BenchSettings, execution: Execution) -> EpochRow:
    """Training itself, from the graph's first labels on; the first epoch compiles and warms up and is not counted."""
    torch.compiler.reset()
    in_one_piece = dataclasses.replace(execution, checkpoint_every_s=math.inf)
    with timeline() as line:
        epochs = list(train(_training(variant.experiment, settings, in_one_piece)))
    ends = [epoch.elapsed_s for epoch in epochs]
    return EpochRow(
        variant=variant.row,
        model=settings.epoch_model,
        n_images=settings.epoch_images,
        n_steps=epochs[1].n_steps,
        epoch_s=statistics.median(after - before for before, after in itertools.pairwise(ends)),
        label_s=statistics.median(epoch.label_s for epoch in epochs[1:]),
        published_ratio=_published_ratio(variant),
        n_repeats=settings.epoch_repeats,
        parts=summary(line.spans())["epoch"],
    )


def _training(experiment: Experiment, settings: BenchSettings, execution: Execution) -> Run:
    """The variant's run over synthetic images, as many epochs as are measured and one before; no supervised start."""
    images, classes = patterned_images(settings.epoch_images, SIDE, n_classes=settings.n_classes)
    is_labeled = torch.arange(len(images)) < min(settings.n_labeled, len(images) // 2)
    epoch_steps = max(1, int((~is_labeled).sum()) // experiment.train.unlabeled_batch_size)
    steps = epoch_steps * (1 + settings.epoch_repeats)
    config = dataclasses.replace(experiment.train, steps=steps)
    assert isinstance(experiment.method, LaplaceNetConfig | NetworkLabelsConfig)
    views = ImageViews(experiment.augment, CIFAR_STATISTICS, height=SIDE, width=SIDE)
    problem = Problem(torch.where(is_labeled, classes, -1), settings.n_classes, views)
    options = dataclasses.replace(experiment.method, supervised_passes=0)
    method = method_class(options.name)(problem, config, options, experiment.graph)
    return Run.of(method, build_model(settings.epoch_model, n_classes=settings.n_classes), images, execution)


def _published_ratio(variant: Cell) -> float:
    """The paper's hours for so many steps over those of its baseline."""
    hours, base = (TABLE_9.rows[row][variant.column].mean for row in (variant.row, BASELINE))
    return hours / base
