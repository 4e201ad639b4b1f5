"""From an experiment to what is trained: the data loaded, its hidden labels hidden, the network built from the seed."""

from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import Int64
from torch import Tensor

from laplacenet.data import (
    DATASET_NAMES,
    SKIPPED,
    UNKNOWN,
    Dataset,
    GivenLabels,
    ImageSet,
    VectorSet,
    balanced_split,
    hide_labels,
    label_notes,
    load_dataset,
    read_labels,
    read_split,
)
from laplacenet.data.label_files import label_paths
from laplacenet.data.names import in_one_line
from laplacenet.experiments.confidence import confidence_notes
from laplacenet.experiments.experiment import DataConfig, Experiment
from laplacenet.models import ModelDescription, Network, learn_patches
from laplacenet.runtime import InputError, Monitor, NullMonitor, stream_seed
from laplacenet.training import ImageViews, Problem, VectorViews, Views, method_class
from laplacenet.training.guards import require_trainable
from laplacenet.training.methods import BaseMethod


@dataclass(frozen=True, eq=False)
class Task:
    """An experiment with everything it names loaded.

    `given_labels` are all that training sees; `true_labels` and `test_labels` are for evaluation, −1 where unknown.
    """

    experiment: Experiment
    dataset: Dataset
    class_names: tuple[str, ...]
    given_labels: Int64[Tensor, " n"]
    true_labels: Int64[Tensor, " n"]
    test_labels: Int64[Tensor, " n_test"] | None
    views: Views
    file_notes: tuple[str, ...] = ()

    @property
    def inputs(self) -> Tensor:
        return rows_of(self.dataset.train)

    @property
    def test_inputs(self) -> Tensor | None:
        return None if self.dataset.test is None else rows_of(self.dataset.test)

    @property
    def n_labeled(self) -> int:
        return int((self.given_labels >= 0).sum())

    @property
    def description(self) -> ModelDescription:
        train = self.dataset.train
        return ModelDescription(
            model=self.experiment.model,
            input_shape=tuple(self.inputs.shape[1:]),
            class_names=self.class_names,
            statistics=self.experiment.model.input_statistics(train.statistics)
            if isinstance(train, ImageSet)
            else None,
        )

    @property
    def method(self) -> BaseMethod:
        experiment = self.experiment
        problem = Problem(self.given_labels, len(self.class_names), self.views, experiment.seed)
        return method_class(experiment.method.name)(problem, experiment.train, experiment.method, experiment.graph)

    def network(self) -> Network:
        """A fresh network, always the same for the same seed."""
        seed = stream_seed(self.experiment.seed, "network")
        network = self.description.build(seed=seed)
        learn_patches(network, self.inputs, self.views.plain, seed=seed)
        return network

    def notes(self) -> list[str]:
        """Warnings for the user before the first step."""
        notes = list(self.file_notes)
        skipped = self.dataset.skipped
        if skipped:
            first = f"{in_one_line(skipped[0].path)}: {skipped[0].reason}"
            notes.append(f"{len(skipped)} files were skipped and are listed in {SKIPPED}; the first, {first}")
        of_network = confidence_notes(self.experiment, n_classes=len(self.class_names))
        return [*notes, *self.method.notes(), *of_network, *label_notes(self.given_labels, self.class_names)]


def prepare(
    experiment: Experiment, *, data_folder: Path | None = None, download: bool = False, monitor: Monitor | None = None
) -> Task:
    """Load what the experiment names; a network that cannot read the inputs is refused here.

    `data_folder` is where to look for the data instead of where the experiment says. The monitor counts the pictures.
    """
    data = experiment.data
    name = found_in(data_folder, data.name) if data_folder is not None else data.name
    folder = data_folder or data.folder
    dataset = load_dataset(name, folder=folder, size=data.size, download=download, monitor=monitor or NullMonitor())
    return task_on(dataset, experiment, root=Path(name).expanduser())


def task_on(dataset: Dataset, experiment: Experiment, *, root: Path) -> Task:
    """The experiment on data that is loaded; `root` is where label files look for its pictures."""
    given = visible_labels(dataset, experiment.data, root=root, seed=experiment.seed)
    if not given.class_names:
        raise InputError(
            f"{experiment.data.name}: no classes; put the pictures of a class into a folder of its own or give labels"
        )
    test = dataset.test
    task = Task(
        experiment=experiment,
        dataset=dataset,
        class_names=given.class_names,
        given_labels=given.labels,
        file_notes=given.notes,
        true_labels=renumbered(dataset.train.labels, dataset.train.class_names, given.class_names),
        test_labels=None if test is None else renumbered(test.labels, test.class_names, given.class_names),
        views=views_of(dataset.train, experiment),
    )
    example = task.views.plain(task.inputs[:1])
    require_trainable(task.network(), example, experiment.train, name=experiment.model.name)
    _ = task.method  # refuses settings that do not fit the inputs
    return task


def found_in(folder: Path, name: str) -> str:
    """The name of a data set unchanged; a file or folder that was moved, by its name in the folder."""
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder; name the one that holds the data")
    moved = folder / Path(name).name
    return str(moved) if name not in DATASET_NAMES and moved.exists() else name


def visible_labels(dataset: Dataset, data: DataConfig, *, root: Path, seed: int) -> GivenLabels:
    """The labels that training may see."""
    train = dataset.train
    if data.label_file is not None:
        if not isinstance(train, ImageSet):
            first = label_paths(data.label_file)[0]
            raise InputError(f"{first}: labels by file name need a folder of pictures, not {data.name}")
        skipped = [file.path for file in dataset.skipped]
        return read_labels(data.label_file, train, root=root if root.is_dir() else None, skipped=skipped)
    if data.split_file is not None:
        split = read_split(data.split_file, data.split_key, n=len(train), of=train)
    elif data.n_labeled is not None:
        try:
            split = balanced_split(train.labels, data.n_labeled, seed if data.split_seed is None else data.split_seed)
        except InputError as error:
            raise InputError(f"--labels {data.n_labeled}: {error}") from error
    else:
        return GivenLabels(train.labels, train.class_names)
    return GivenLabels(hide_labels(train.labels, split), train.class_names)


def renumbered(
    labels: Int64[Tensor, " n"], names: tuple[str, ...], class_names: tuple[str, ...]
) -> Int64[Tensor, " n"]:
    """The labels as numbers among `class_names`; a class that is not among them becomes unknown."""
    number = [class_names.index(name) if name in class_names else UNKNOWN for name in names]
    return torch.tensor([*number, UNKNOWN])[labels]  # a label of −1 finds the last entry


def views_of(train: ImageSet | VectorSet, experiment: Experiment) -> Views:
    if isinstance(train, VectorSet):
        return VectorViews()
    height, width = train.images.shape[2:]
    experiment.augment.pad_for(height, width)
    statistics = experiment.model.input_statistics(train.statistics)
    return ImageViews(experiment.augment, statistics, height=height, width=width)


def rows_of(part: ImageSet | VectorSet) -> Tensor:
    return part.images if isinstance(part, ImageSet) else part.vectors
