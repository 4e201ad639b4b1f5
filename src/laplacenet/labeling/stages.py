"""A stage of a labeling: one training with some of the given labels, in a folder of its own that can be resumed."""

import os
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from laplacenet.data import ChannelStatistics, ImageSet, data_hash
from laplacenet.graph.guided import GuidedConfig
from laplacenet.labeling.beside.joined_training import JoinedLaplaceNet
from laplacenet.labeling.evidence import class_shares
from laplacenet.labeling.job import Job
from laplacenet.labeling.label_pass import LabelPass, label_all, load_pass, save_pass
from laplacenet.labeling.settings import ESTIMATED
from laplacenet.models import Inference, ModelDescription, Network, learn_patches
from laplacenet.runtime import InputError, Monitor, RunFolder, current_group, read_sealed, stream_seed, write_sealed
from laplacenet.runtime.decoding import decode
from laplacenet.runtime.settings import to_json
from laplacenet.training import (
    Epoch,
    Execution,
    ImageViews,
    LabelReport,
    LaplaceNet,
    Position,
    Problem,
    Run,
    Session,
    Times,
    TrainConfig,
    load_checkpoint,
)
from laplacenet.training.checkpoint import checkpoint_identity, require_sound


@dataclass(frozen=True)
class StageEpoch:
    """One epoch, or a piece of one.

    `steps` are all of the stage's. `class_shares` are those of the pseudo-labels among rows without a label, None in an
    epoch without pseudo-labels. `elapsed_s` counts the training of all stages so far.
    """

    stage: str
    epoch: int
    phase: str
    step: int
    steps: int
    is_complete: bool
    loss: float
    lr: float
    n_unreachable: int | None
    is_converged: bool | None
    class_shares: list[float] | None
    elapsed_s: float

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def read_curves(folder: Path) -> list[dict[str, Any]]:
    """The epochs of all stages in the order in which they were run; none where nothing was trained."""
    return RunFolder(folder).epochs()


STAGES = "stages"
PLAN, PASS = "stage.json", "labels.safetensors"


class Deadline:
    """Stops a stage when its time is up or when the whole is to stop."""

    def __init__(self, monitor: Monitor, ends_at: float | None) -> None:
        self.monitor, self.ends_at = monitor, ends_at

    @property
    def is_late(self) -> bool:
        return self.ends_at is not None and time.monotonic() >= self.ends_at

    @property
    def should_stop(self) -> bool:
        return self.is_late or self.monitor.should_stop

    def advance(self, n: int) -> None:
        self.monitor.advance(n)


@dataclass(frozen=True, eq=False)
class LabelingContext:
    """What all stages share: the pictures, the device, and the run folder.

    `frozen` are the pictures' vectors by a pretrained network, if it contributes to the pseudo-labels.
    """

    job: Job
    folder: RunFolder
    execution: Execution
    monitor: Monitor
    started_at: float
    frozen: Float[Tensor, "n d"] | None = None

    @property
    def rows(self) -> ImageSet:
        rows = self.job.collection.rows
        assert isinstance(rows, ImageSet)
        return rows

    @property
    def views(self) -> ImageViews:
        height, width = self.rows.images.shape[2:]
        return ImageViews(self.job.settings.augment, self.statistics, height=height, width=width)

    @property
    def statistics(self) -> ChannelStatistics:
        """The statistics for normalization: the pictures' own, or those a pretrained network expects."""
        return self.job.settings.model.input_statistics(self.rows.statistics)

    def description(self, temperature: float = 1.0) -> ModelDescription:
        shape = tuple(self.rows.images.shape[1:])
        return ModelDescription(self.job.settings.model, shape, self.job.class_names, self.statistics, temperature)

    def fresh_network(self, stage: str) -> Network:
        """Always the same for the same seed and stage; networks that are to vote should differ from the start.

        Filters learned from patches see no label.
        """
        seed = stream_seed(self.job.settings.seed, f"labeling/network/{stage}")
        network = self.description().build(seed=seed)
        learn_patches(network, self.rows.images, self.views.plain, seed=seed)
        return network

    def path(self, stage: str) -> Path:
        return self.folder.path / STAGES / stage


@dataclass(frozen=True, eq=False)
class Stage:
    """`seen` are the labels that it trains with, −1 for all others; `begins_with` the stage whose network it takes."""

    name: str
    seen: Int64[Tensor, " n"]
    config: TrainConfig
    begins_with: str | None = None


class StageRun:
    """One running stage: its network and its progress."""

    def __init__(self, context: LabelingContext, stage: Stage) -> None:
        self.context, self.stage = context, stage
        self.path = context.path(stage.name)
        network = context.fresh_network(stage.name).to(context.execution.device)
        self.run = Run.of(method_of(context, stage), network, context.rows.images, context.execution)
        checkpoint, known = self.path / "checkpoint", self._identity()
        self.session = Session(self.run, context.folder, checkpoint, known, self._record, self._with_later_settings)

    @property
    def network(self) -> Network:
        return self.run.network

    def epochs(self, deadline: Deadline) -> Iterator[StageEpoch]:
        """Train from the checkpoint, or from the start; a checkpoint is left whenever it stops."""
        with self.session.saved():
            for _, record in self.session.epochs(self._begin(), deadline):
                yield record

    def label(self) -> LabelPass:
        """Label all rows with the network as it is, and keep that: a stage with a label pass is done."""
        found = self.look()
        current_group().by_first(lambda: save_pass(self.path / PASS, found, run=self.context.folder.path))
        return found

    def look(self) -> LabelPass:
        """By all processes together."""
        job = self.context.job
        return label_all(
            Inference(self.network, self.context.views.plain, group=current_group()),
            self.context.rows.images,
            self.stage.seen,
            job.settings.graph,
            prior=job.settings.prior,
            n_classes=len(job.class_names),
        )

    def _begin(self) -> Position:
        """Of several processes the first reads and writes; the others are given the learner when training begins."""
        group = current_group()
        if group.by_first((self.path / PLAN).is_file):
            return self.session.resume()
        group.by_first(self._prepare)
        start = self.session.begin()
        plan = {"config": to_json(self.stage.config), "begins_with": self.stage.begins_with}
        group.by_first(lambda: write_sealed(self.path / PLAN, plan))  # last: what has begun can be resumed
        return start

    def _prepare(self) -> None:
        if self.stage.begins_with is not None:
            begin_with(self.context, self.stage.begins_with, self.run.learner)
        self.path.mkdir(parents=True, exist_ok=True)

    def _record(self, epoch: Epoch, times: Times) -> StageEpoch:
        found = epoch.report.pseudo_labels if isinstance(epoch.report, LabelReport) else None
        shares = None
        if found is not None:
            labels = found.labels.cpu()[self.stage.seen < 0]
            counts = torch.bincount(labels, minlength=len(self.context.job.class_names))
            shares = (counts / max(1, len(labels))).tolist()
        return StageEpoch(
            stage=self.stage.name,
            epoch=epoch.index,
            phase=epoch.phase,
            step=epoch.step,
            steps=self.stage.config.steps,
            is_complete=epoch.is_complete,
            loss=epoch.loss,
            lr=epoch.lr,
            n_unreachable=None if found is None else int(found.unreachable.sum()),
            is_converged=None if found is None else found.is_converged,
            class_shares=shares,
            elapsed_s=times.elapsed_s,
        )

    def _identity(self) -> dict[str, Any]:
        """What a checkpoint must match: the stage's settings, pictures and visible labels."""
        settings = self.context.job.settings
        seen = replace(self.context.rows, labels=self.stage.seen)
        return {
            "stage": self.stage.name,
            **{name: to_json(part) for name, part in self._sections().items()},
            "prior": settings.prior,
            "seed": settings.seed,
            "hash of inputs and given labels": data_hash(seen),
        }

    def _sections(self) -> dict[str, Any]:
        settings = self.context.job.settings
        names = ("method", "model", "augment", "graph")
        return {"train": self.stage.config, **{name: getattr(settings, name) for name in names}}

    def _with_later_settings(self, found: dict[str, Any]) -> dict[str, Any]:
        """A checkpoint's identity as it is written now: settings that are newer than it have their defaults."""
        source = str(self.path / "checkpoint")
        sections = {name: (type(part), found[name]) for name, part in self._sections().items() if name in found}
        return found | {
            name: to_json(decode(kind, content, source=f"{source}: {name}"))
            for name, (kind, content) in sections.items()
        }


def method_of(context: LabelingContext, stage: Stage) -> LaplaceNet:
    """How the stage is trained."""
    settings, n_classes = context.job.settings, len(context.job.class_names)
    problem = Problem(stage.seen, n_classes, context.views, stream_seed(settings.seed, f"labeling/{stage.name}"))
    graph = replace(settings.graph, prior=class_shares(settings.prior, stage.seen, n_classes))
    # a network that continues another has had its supervised start
    method = settings.method if stage.begins_with is None else replace(settings.method, supervised_passes=0)
    if context.frozen is None:
        return LaplaceNet(problem, stage.config, method, graph)
    prior = None if settings.prior == ESTIMATED else graph.prior
    guided = GuidedConfig(prior=prior, n_folds=0, seed=settings.seed)
    return JoinedLaplaceNet(problem, stage.config, method, graph, context.frozen, guided)


def trained_network(context: LabelingContext, name: str) -> Network:
    """The network that gave the labels of a finished stage; with `method.ema_decay` that is the teacher."""
    # only the settings of the method decide what its learner consists of: any labels and steps will do
    method = method_of(context, Stage(name, context.job.given, context.job.settings.train))
    learner = method.learner(context.description().build())
    begin_with(context, name, learner)
    return method.judged(learner)


def begin_with(context: LabelingContext, name: str, learner: nn.Module) -> None:
    """Put the weights with which a finished stage ended into the learner."""
    folder = context.path(name) / "checkpoint"
    load_checkpoint(folder, learner, identity=checkpoint_identity(folder) or {})


def finished_pass(context: LabelingContext, name: str) -> LabelPass | None:
    """What a stage found, if it is done."""
    path = context.path(name) / PASS
    if not os.path.lexists(path):
        return None
    try:  # its step says how much the stage counts
        require_sound(path.parent / "checkpoint")
    except InputError as error:
        raise InputError(f"{error}; delete {path.parent}, and a resumed run trains that stage again") from error
    return load_pass(path, run=context.folder.path)


def planned_config(context: LabelingContext, name: str) -> dict[str, Any] | None:
    """The training settings with which a stage began, if it has."""
    path = context.path(name) / PLAN
    return dict(read_sealed(path)["config"]) if path.is_file() else None
