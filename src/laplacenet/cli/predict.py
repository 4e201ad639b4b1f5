"""`laplacenet predict`: the class of pictures that were not there in training."""

import csv
import io
import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from laplacenet.cli.options import Device

if TYPE_CHECKING:
    from laplacenet.data import Skipped
    from laplacenet.experiments.predictions import Prediction


def predict(
    run: Annotated[Path, typer.Argument(help="The folder of a finished run.")],
    pictures: Annotated[list[Path], typer.Argument(help="Picture files, folders of them, or .npz files.")],
    out: Annotated[
        Path | None, typer.Option(help="A .csv or .jsonl file to write in place of CSV on standard output.")
    ] = None,
    device: Device = "auto",
) -> None:
    """Label pictures with a run's last network: one line each, with the label and how sure the network is.

    Pictures are brought to the size that the network was trained on, as in training.

    \b
    Example:
      laplacenet predict runs/digits-0 photos/ --out labels.csv
    """
    from laplacenet.experiments.predictions import predictions
    from laplacenet.models import load_model
    from laplacenet.runtime import InputError, RunFolder, choose_device, write_whole

    chosen_device = choose_device(device)
    if out is not None and out.suffix.lower() not in (".csv", ".jsonl"):
        raise InputError(f"--out {out}: give a name that ends in .csv or .jsonl")
    network, description = load_model(RunFolder.open(run).path)
    found = told_of_skipped(predictions(network.to(chosen_device), description, pictures))
    lines = json_lines(found) if out is not None and out.suffix.lower() == ".jsonl" else csv_lines(found)
    if out is None:
        sys.stdout.writelines(lines)
        return
    content = "".join(lines).encode()
    try:
        write_whole(out, content)
    except OSError as error:
        raise InputError(f"--out {out}: cannot be written ({error.strerror})") from error


def told_of_skipped(entries: "Iterable[Prediction | Skipped]") -> "Iterator[Prediction]":
    from laplacenet.data import Skipped

    for entry in entries:
        if isinstance(entry, Skipped):
            typer.echo(f"warning: {entry.path}: skipped ({entry.reason})", err=True)
        else:
            yield entry


def csv_lines(found: "Iterable[Prediction]") -> Iterator[str]:
    yield csv_line("file", "label", "confidence")
    for prediction in found:
        yield csv_line(prediction.name, prediction.label, f"{prediction.confidence:.4f}")


def csv_line(*cells: str) -> str:
    line = io.StringIO(newline="")
    csv.writer(line, lineterminator="\n").writerow(cells)
    return line.getvalue()


def json_lines(found: "Iterable[Prediction]") -> Iterator[str]:
    for prediction in found:
        confidence = round(prediction.confidence, 4)
        line = {"file": prediction.name, "label": prediction.label, "confidence": confidence}
        yield json.dumps(line, ensure_ascii=False) + "\n"
