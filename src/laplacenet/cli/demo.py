"""`laplacenet demo`: LaplaceNet on digits, beside the labels alone, in minutes."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from laplacenet.cli.options import CheckpointEvery, Compile, Device, Overwrite, Settings
from laplacenet.cli.out_files import require_place

if TYPE_CHECKING:
    from laplacenet.experiments import Experiment, Outcome
    from laplacenet.experiments.demo import PairOutcome
    from laplacenet.runtime import RunFolder
    from laplacenet.training import Execution


PICTURE = "demo.png"
RUNS = ("laplacenet-", "supervised-")  # what the names of run folders begin with


def demo(
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds, from 0.")] = 1,
    out: Annotated[Path, typer.Option(help="The folder for the runs and the picture.")] = Path("runs/demo"),
    record: Annotated[Path | None, typer.Option(help="A .json file for the numbers of all seeds.")] = None,
    settings: Settings = None,
    overwrite: Overwrite = False,
    checkpoint_every: CheckpointEvery = 60.0,
    device: Device = "auto",
    compile_loss: Compile = False,
) -> None:
    """Train on 1 297 handwritten digits of which 40 are labeled: LaplaceNet, and for comparison the 40 labels alone.

    Nothing is downloaded. Finished runs are kept, and interrupted ones are resumed.

    \b
    Examples:
      laplacenet demo
      laplacenet demo --seeds 5 --record results/digits.json
    """
    from laplacenet.experiments.demo import PairOutcome, demo_pair, demo_record
    from laplacenet.runtime import choose_device, provenance, require_no_input
    from laplacenet.runtime.files import json_bytes, write_named
    from laplacenet.training import Execution

    require_own_picture(out)
    if record is not None:
        require_no_input(record, (), option="--record")
        require_own_record(record, out)
        require_place(record, option="--record")
    execution = Execution(choose_device(device), compile=compile_loss, checkpoint_every_s=checkpoint_every)
    outcomes = []
    for seed in range(seeds):
        pair = demo_pair(seed, settings or [])
        laplacenet = run_to_end(pair.laplacenet, out / f"laplacenet-{seed}", execution=execution, overwrite=overwrite)
        supervised = run_to_end(pair.supervised, out / f"supervised-{seed}", execution=execution, overwrite=overwrite)
        outcomes.append(PairOutcome(seed, laplacenet, supervised))
    say(outcomes)
    typer.echo(f"runs     {out}/laplacenet-*, {out}/supervised-*")
    typer.echo(f"picture  {draw(out)}")
    if record is not None:
        record.parent.mkdir(parents=True, exist_ok=True)
        content = demo_record(outcomes, settings=settings or [], provenance=provenance(execution.device))
        write_named(record, json_bytes(content))
        typer.echo(f"record   {record}")


def require_own_picture(out: Path) -> None:
    """Refuse to overwrite a picture that has no run of this command beside it."""
    from laplacenet.runtime import InputError
    from laplacenet.runtime.run_folder import looks_like_run

    has_runs = any(looks_like_run(path) for name in RUNS for path in out.glob(f"{name}*"))
    if os.path.lexists(out / PICTURE) and not has_runs:
        raise InputError(f"{out / PICTURE}: there is no run of demo beside it; move it away or choose another --out")


def require_own_record(record: Path, out: Path) -> None:
    """Refuse to overwrite a file that is not a record of this command, or to write into its run folders."""
    from laplacenet.experiments.demo import KIND
    from laplacenet.runtime import InputError, read_json

    runs = out.resolve()
    if any(folder.parent == runs and folder.name.startswith(RUNS) for folder in record.resolve().parents):
        raise InputError(f"--record {record}: lies in a run folder of this command; choose another place")
    if record.is_file():
        try:
            found = read_json(record)
            is_own = isinstance(found, dict) and found.get("kind") == KIND
        except InputError:
            is_own = False
        if not is_own:
            raise InputError(
                f"--record {record}: is not a record of demo, so it is not overwritten; choose another name"
            )


def run_to_end(experiment: "Experiment", path: Path, *, execution: "Execution", overwrite: bool) -> "Outcome":
    """The outcome of the experiment in this folder, which is started or resumed if needed."""
    from laplacenet.cli.session import draw_curves, run_session
    from laplacenet.experiments import prepare, read_outcome
    from laplacenet.experiments.run_records import FINAL

    folder = folder_for(experiment, path, overwrite=overwrite)
    if folder.has(FINAL):
        return read_outcome(folder)
    goes_on_with = "the same command, without --overwrite" if overwrite else "the same command"
    outcome = run_session(prepare(experiment), folder, execution=execution, goes_on_with=goes_on_with)
    draw_curves(folder, title=experiment.name)
    return outcome


def folder_for(experiment: "Experiment", path: Path, *, overwrite: bool) -> "RunFolder":
    from laplacenet.experiments import read_experiment
    from laplacenet.runtime import InputError, RunFolder
    from laplacenet.runtime.run_folder import EXPERIMENT

    if overwrite or not (path / EXPERIMENT).is_file():
        return RunFolder.create(path, overwrite=overwrite)
    folder = RunFolder.open(path)
    if read_experiment(folder) != experiment:
        raise InputError(f"{path}: holds a run with other settings; choose another --out or --overwrite")
    return folder


def say(outcomes: "list[PairOutcome]") -> None:
    from laplacenet.cli.wording import percent
    from laplacenet.experiments.demo import means

    found = means(outcomes)
    (error, error_std), (alone, alone_std) = found["laplacenet_test_error"], found["supervised_test_error"]
    right, _ = found["pseudo_label_accuracy"]
    over = "" if len(outcomes) == 1 else f", mean of {len(outcomes)} seeds"
    typer.echo(f"test error from {outcomes[0].laplacenet.n_labeled} labels{over}")
    typer.echo(f"  LaplaceNet              {spread(error, error_std)}   (pseudo-labels {percent(right)} right)")
    typer.echo(f"  the given labels alone  {spread(alone, alone_std)}")


def spread(mean: float, std: float | None) -> str:
    return f"{100 * mean:5.2f} %" if std is None else f"{100 * mean:5.2f} ± {100 * std:.2f} %"


def draw(out: Path) -> Path:
    """The picture of the first seed."""
    from laplacenet.experiments import prepare, read_epochs, read_experiment
    from laplacenet.experiments.demo import labels_found
    from laplacenet.models import load_model
    from laplacenet.reports.curves import draw_demo
    from laplacenet.runtime import RunFolder

    ours, alone = (RunFolder.open(out / f"{name}-0") for name in ("laplacenet", "supervised"))
    task = prepare(read_experiment(ours))
    network, _ = load_model(ours.path)
    picture = out / PICTURE
    found = labels_found(task, network)
    draw_demo(picture, task, found, laplacenet=read_epochs(ours), supervised=read_epochs(alone))
    return picture
