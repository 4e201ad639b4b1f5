"""`laplacenet evaluate`: judge a finished run again, from its folder alone."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from laplacenet.cli.label import share
from laplacenet.cli.options import DataDir, Device, existing, written_run
from laplacenet.cli.output import say

if TYPE_CHECKING:
    from torch import Tensor

    from laplacenet.labeling.result import Calibration, ClassEstimate
    from laplacenet.runtime import Monitor


def evaluate(
    run: Annotated[
        Path, typer.Argument(callback=written_run, help="The folder of a finished run of train, label or review.")
    ],
    truth: Annotated[
        Path | None,
        typer.Option(callback=existing, help="True labels of the pictures of a run of label, as --labels takes them."),
    ] = None,
    data_dir: DataDir = None,
    device: Device = "auto",
) -> None:
    """Evaluate a finished run of train, label or review.

    For a run of train: the test error, that of each class, and the augmentation invariance of its last network. For a
    run of label: the accuracy of the new labels and how well their confidences are calibrated, measured by --truth or
    else estimated from the given labels that were held out.

    \b
    Examples:
      laplacenet evaluate runs/digits-0
      laplacenet evaluate runs/photos-labels --truth truth.csv
    """
    from laplacenet.runtime import InputError, RunFolder

    content = RunFolder.open(run).read_experiment()
    if "kind" in content:  # experiments have none
        lines = labeling_lines(run, truth)
    elif truth is not None:
        raise InputError(
            f"--truth {truth}: is for runs of label; {run} is a run of train, whose data set has its own test labels"
        )
    else:
        lines = training_lines(run, data_dir, device)
    say(*lines)


def labeling_lines(run: Path, truth: Path | None) -> list[str]:
    """The accuracy with its confidence interval, that of each class, and the calibration."""
    from laplacenet.api import LabelingRun

    labeling = LabelingRun(run)
    if truth is not None:
        found = labeling.evaluate(truth)
        lines = [f"accuracy     {share(found.accuracy)} of {found.n} new labels"]
        lines += [f"calibration  off by {100 * found.calibration_error:.1f} points on average"]
        return [*lines, *class_lines(found.classes), *(f"note         {note}" for note in found.notes)]
    estimate = labeling.estimate
    if estimate.accuracy is None:
        lines = [f"accuracy     unknown. {estimate.method} Give --truth to measure it."]
    else:
        lines = [
            f"accuracy     {share(estimate.accuracy)}, estimated from {estimate.n} given labels that were held out"
        ]
    if estimate.test_accuracy is not None:
        lines.append(f"test         {share(estimate.test_accuracy)} of {estimate.n_test} test labels")
    lines += calibration_lines(labeling.data.summary.calibration)
    return [*lines, *class_lines(estimate.classes)]


def calibration_lines(calibration: "Calibration | None") -> list[str]:
    if calibration is None:
        return []
    return [f"calibration  off by {100 * calibration.error:.1f} points on average, on {calibration.n} labels held out"]


def class_lines(classes: "tuple[ClassEstimate, ...]") -> list[str]:
    width = max(len(entry.name) for entry in classes)
    return [
        f"  {entry.name:{width}}  {'–' if entry.accuracy is None else share(entry.accuracy)}, n = {entry.n}"
        for entry in classes
    ]


def training_lines(run: Path, data_dir: Path | None, device: str) -> list[str]:
    from laplacenet.cli.progress import counter
    from laplacenet.cli.session import read_task
    from laplacenet.cli.wording import invariance_lines, percent
    from laplacenet.experiments import read_experiment
    from laplacenet.experiments.judging import Judge
    from laplacenet.experiments.run import require_unchanged, warn_of_other_test_set
    from laplacenet.models import Inference, load_model
    from laplacenet.runtime import RunFolder, choose_device
    from laplacenet.runtime.run_folder import PROVENANCE

    chosen_device = choose_device(device)
    folder = RunFolder.open(run)
    network, _ = load_model(folder.path)
    task = read_task(read_experiment(folder), data_folder=data_dir)
    require_unchanged(task, folder)
    warn_of_other_test_set(task, folder.read_sealed(PROVENANCE))
    with counter("evaluating") as tally:
        judge = Judge(task, Inference(network.to(chosen_device), counted(task.views.plain, tally)))
        lines = [f"test error     {percent(judge.test_error)}", *invariance_lines(judge)]
        errors = judge.test_errors_by_class
    width = max(len(name) for name in task.class_names)
    named = zip(task.class_names, errors, strict=False)
    return lines + [f"  {name:{width}}  {percent(error):>9}" for name, error in named]


def counted(prepare: "Callable[[Tensor], Tensor]", monitor: "Monitor") -> "Callable[[Tensor], Tensor]":
    """The same function, which also counts the inputs: a large network takes long on a CPU."""

    def prepare_and_count(inputs: "Tensor") -> "Tensor":
        monitor.advance(len(inputs))
        return prepare(inputs)

    return prepare_and_count
