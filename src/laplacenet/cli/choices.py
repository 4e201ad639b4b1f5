"""From the options of a command to an experiment."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from laplacenet.data import DATASET_NAMES, LIST_SUFFIXES, holds_published_lists, holds_row_numbers
from laplacenet.experiments import DataConfig, Experiment, override
from laplacenet.experiments.experiment import with_method
from laplacenet.experiments.presets import preset_for, with_method_preset, with_preset
from laplacenet.models import ModelConfig
from laplacenet.runtime import InputError
from laplacenet.training.methods.presets import METHOD_PRESETS

FIXED = {"method.name": "--method"}
"""The method decides the defaults of its settings; --set comes after them."""


@dataclass(frozen=True)
class ExperimentOptions:
    """The options that decide the settings of a new run."""

    data: str | None
    labels: Sequence[str] | None
    split_key: str | None
    method: str | None
    model: str | None
    pretrained: bool
    preset: str | None
    settings: Sequence[str] | None
    seed: int | None
    data_dir: Path | None


def new_experiment(options: ExperimentOptions) -> Experiment:
    """The settings of a new run: data set, preset, method and network, and --set over all of them."""
    experiment = chosen_experiment(
        options.data,
        options.preset,
        labels=options.labels,
        split_key=options.split_key,
        model=options.model,
        seed=options.seed,
    )
    experiment = with_chosen_method(experiment, options.method, preset=options.preset, model=options.model)
    experiment = from_pretrained(experiment) if options.pretrained else experiment
    return override(in_folder(experiment, options.data_dir), options.settings or [], fixed=FIXED)


def chosen_experiment(
    data: str | None,
    preset: str | None,
    *,
    labels: Sequence[str] | None,
    split_key: str | None,
    model: str | None,
    seed: int | None,
) -> Experiment:
    """The preset of the data set, overridden by a named preset, then by the options."""
    experiment = preset_for(located(data or "digits"))
    if data is not None and data not in DATASET_NAMES:
        experiment = replace(experiment, name=Path(data).absolute().stem)
    if preset is not None and preset not in METHOD_PRESETS:
        experiment = with_preset(experiment, preset)
    if labels:
        experiment = replace(experiment, data=with_labels(experiment.data, labels, split_key))
    elif split_key is not None:
        raise InputError(f"--split-key {split_key} names an entry of a split file; give the file with --labels")
    if model is not None:
        experiment = replace(experiment, model=ModelConfig(model))
    return experiment if seed is None else replace(experiment, seed=seed)


def from_pretrained(experiment: Experiment) -> Experiment:
    """The experiment with its network started from published weights; refused if there are none."""
    return replace(experiment, model=replace(experiment.model, pretrained=True))


def with_chosen_method(
    experiment: Experiment, method: str | None, *, preset: str | None, model: str | None
) -> Experiment:
    """The experiment with the method, and the method's preset if one is named; a network given by --model is kept."""
    if method is not None:
        experiment = with_method(experiment, method)
    if preset in METHOD_PRESETS:
        chosen = experiment.model
        experiment = with_method_preset(experiment, preset)
        experiment = experiment if model is None else replace(experiment, model=chosen)
    return experiment


def with_labels(data: DataConfig, labels: Sequence[str], split_key: str | None) -> DataConfig:
    """One or several `--labels`; several must be files of names and labels, which are combined."""
    first, *others = [with_label_source(data, given, split_key) for given in labels]
    if others and any(config.label_file is None for config in (first, *others)):
        refused = next(given for given, config in zip(labels, (first, *others), strict=True) if not config.label_file)
        raise InputError(f"--labels {refused}: several --labels must be files of names and labels (.csv, .tsv, .jsonl)")
    return replace(first, label_file=tuple(map(located, labels))) if others else first


def with_label_source(data: DataConfig, labels: str, split_key: str | None) -> DataConfig:
    """A count, row numbers (`.npz`, `.txt`, `.csv`, published lists) or files and labels (`.csv`, `.tsv`, `.jsonl`)."""
    bare = replace(data, n_labeled=None, split_file=None, split_key=None, label_file=None)
    if labels.lstrip("-").isdecimal():
        if split_key is not None:
            raise InputError(f"--split-key {split_key} names an entry of a split file, but --labels is a number")
        if int(labels) < 1:
            raise InputError(f"--labels {labels}: give at least one label for each class")
        return replace(bare, n_labeled=int(labels))
    path = Path(labels).expanduser()
    if not path.is_file() and not holds_published_lists(path):
        raise InputError(
            f"--labels {labels}: no such file; give a number of labels, a .npz or .txt split, a folder of published"
            " lists such as 4000_balanced_labels/00.txt, or a .csv, .tsv or .jsonl list"
        )
    if path.suffix.lower() in LIST_SUFFIXES and not holds_row_numbers(path):
        return replace(bare, label_file=str(path.resolve()))
    return replace(bare, split_file=str(path.resolve()), split_key=split_key)


def located(data: str) -> str:
    """A path made absolute, so that the run folder finds its data from anywhere; the name of a data set unchanged."""
    path = Path(data).expanduser()
    return str(path.resolve()) if data not in DATASET_NAMES and path.exists() else data


def in_folder(experiment: Experiment, data_dir: Path | None) -> Experiment:
    if data_dir is None:
        return experiment
    if not data_dir.is_dir():
        raise InputError(f"--data-dir {data_dir}: no such folder")
    return replace(experiment, data=replace(experiment.data, folder=str(data_dir.resolve())))
