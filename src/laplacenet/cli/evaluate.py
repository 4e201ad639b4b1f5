"""`laplacenet evaluate`: judge a finished run again, from its folder alone."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from laplacenet.cli.options import DataDir, Device

if TYPE_CHECKING:
    from torch import Tensor

    from laplacenet.runtime import Monitor


def evaluate(
    run: Annotated[Path, typer.Argument(help="The folder of a finished run.")],
    data_dir: DataDir = None,
    device: Device = "auto",
) -> None:
    """Test error, the error of each class, and augmentation invariance of a run's last network.

    \b
    Example:
      laplacenet evaluate runs/digits-0
    """
    from rich.console import Console

    from laplacenet.cli.progress import Tally
    from laplacenet.cli.sitting import read_task
    from laplacenet.cli.wording import invariance_lines, percent
    from laplacenet.evaluation import errors_by_class
    from laplacenet.experiments import read_experiment
    from laplacenet.experiments.run import (
        error_on_test,
        invariance_on_test,
        invariance_on_test_as_labeled,
        invariance_on_train,
        require_unchanged,
    )
    from laplacenet.models import Inference, load_model
    from laplacenet.runtime import RunFolder, choose_device

    chosen_device = choose_device(device)
    folder = RunFolder.open(run)
    network, _ = load_model(folder.path)
    task = read_task(read_experiment(folder), data_folder=data_dir)
    require_unchanged(task, folder)
    with Tally(Console(stderr=True), "evaluate") as tally:
        inference = Inference(network.to(chosen_device), counted(task.views.plain, tally))
        test_error = error_on_test(task, inference)
        typer.echo(f"test error     {percent(test_error)}")
        weaker = invariance_on_test_as_labeled(task, inference)
        for line in invariance_lines(invariance_on_train(task, inference), invariance_on_test(task, inference)):
            typer.echo(line + ("" if weaker is None else f" ({100 * weaker:.2f} % under the weaker views)"))
        if test_error is None or task.test_inputs is None or task.test_labels is None:
            return
        errors = errors_by_class(inference, task.test_inputs, task.test_labels, n_classes=len(task.class_names))
    width = max(len(name) for name in task.class_names)
    for name, error in zip(task.class_names, errors, strict=True):
        typer.echo(f"  {name:{width}}  {percent(error):>9}")


def counted(prepare: "Callable[[Tensor], Tensor]", monitor: "Monitor") -> "Callable[[Tensor], Tensor]":
    """The same, and the monitor hears of every input: on a CPU a large network takes its time."""

    def prepare_and_count(inputs: "Tensor") -> "Tensor":
        monitor.advance(len(inputs))
        return prepare(inputs)

    return prepare_and_count
