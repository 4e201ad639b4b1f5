"""`laplacenet evaluate`: judge a finished run again, from its folder alone."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from laplacenet.cli.options import DataDir, Device, existing_run

if TYPE_CHECKING:
    from torch import Tensor

    from laplacenet.runtime import Monitor


def evaluate(
    run: Annotated[Path, typer.Argument(callback=existing_run, help="The folder of a finished run.")],
    data_dir: DataDir = None,
    device: Device = "auto",
) -> None:
    """Test error, the error of each class, and augmentation invariance of a run's last network.

    \b
    Example:
      laplacenet evaluate runs/digits-0
    """
    from laplacenet.cli.output import say
    from laplacenet.cli.progress import counter
    from laplacenet.cli.session import read_task
    from laplacenet.cli.wording import invariance_lines, percent
    from laplacenet.experiments import read_experiment
    from laplacenet.experiments.judging import Judge
    from laplacenet.experiments.run import require_unchanged
    from laplacenet.models import Inference, load_model
    from laplacenet.runtime import RunFolder, choose_device

    chosen_device = choose_device(device)
    folder = RunFolder.open(run)
    network, _ = load_model(folder.path)
    task = read_task(read_experiment(folder), data_folder=data_dir)
    require_unchanged(task, folder)
    with counter("evaluate") as tally:
        judge = Judge(task, Inference(network.to(chosen_device), counted(task.views.plain, tally)))
        lines = [f"test error     {percent(judge.test_error)}", *invariance_lines(judge)]
        errors = judge.test_errors_by_class
    width = max(len(name) for name in task.class_names)
    lines += [f"  {name:{width}}  {percent(error):>9}" for name, error in zip(task.class_names, errors, strict=False)]
    say(*lines)


def counted(prepare: "Callable[[Tensor], Tensor]", monitor: "Monitor") -> "Callable[[Tensor], Tensor]":
    """The same, and the monitor hears of every input: on a CPU a large network takes its time."""

    def prepare_and_count(inputs: "Tensor") -> "Tensor":
        monitor.advance(len(inputs))
        return prepare(inputs)

    return prepare_and_count
