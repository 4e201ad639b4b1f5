"""`laplacenet predict`: labels for new pictures or embeddings."""

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from laplacenet.cli.options import Device, existing, written_run
from laplacenet.cli.out_files import OverwriteFile, require_free, write_out
from laplacenet.cli.output import say, write_data

if TYPE_CHECKING:
    import torch

    from laplacenet.data import Skipped
    from laplacenet.labeling.predictions import Prediction, Source
    from laplacenet.runtime import Monitor


def predict(
    run: Annotated[
        Path, typer.Argument(callback=written_run, help="The folder of a finished run of train, label or review.")
    ],
    pictures: Annotated[
        list[Path],
        typer.Argument(
            callback=existing,
            help="Picture files, folders of them, or .npy and .npz files (of embeddings, if the run had them).",
        ),
    ],
    out: Annotated[
        Path | None, typer.Option(help="A .csv or .jsonl file to write in place of CSV on standard output.")
    ] = None,
    overwrite: OverwriteFile = False,
    device: Device = "auto",
) -> None:
    """Label new pictures with what a run has learned: one line each, with the label and its confidence.

    Pictures are resized as in training. Confidences of a run of `label` are calibrated. The margin is the difference
    between the two highest confidences. Paths are relative to the folder, as in labels.csv; if several folders are
    given, they begin with it. Progress is shown on standard error.

    \b
    Examples:
      laplacenet predict runs/digits-0 photos/ --out labels.csv
      laplacenet predict runs/digits-0 photos/cat/a.jpg photos/dog/b.jpg
    """
    if out is not None:
        require_free(out, suffixes=(".csv", ".jsonl"), overwrite=overwrite, inputs=pictures)

    from laplacenet.cli.progress import counter
    from laplacenet.labeling.predictions import sources_of
    from laplacenet.runtime import choose_device

    judge = loaded_judge(run, choose_device(device))
    sources = sources_of(pictures)
    write_lines = json_lines if out is not None and out.suffix.lower() == ".jsonl" else csv_lines
    is_live = out is not None or not sys.stdout.isatty()
    with counter("predicting", n=sum(map(len, sources)), is_live=is_live) as tally:
        lines = write_lines(without_skipped(judge(sources, tally)))
        if out is None:
            write_data(lines)
            return
        content = "".join(lines).encode()
    write_out(out, content)


def loaded_judge(
    run: Path, device: "torch.device"
) -> "Callable[[list[Source], Monitor], Iterable[Prediction | Skipped]]":
    """The run's network, its head over a pretrained one or, where it labeled embeddings, its graph."""
    from laplacenet.labeling.beside.joined_model import load_any_network
    from laplacenet.labeling.embeddings import graph_predictions, holds_graph_model, load_graph_model
    from laplacenet.labeling.feature_model import feature_predictions, holds_feature_model, load_feature_model
    from laplacenet.labeling.predictions import predictions

    if holds_graph_model(run):
        model = load_graph_model(run)
        return lambda sources, monitor: graph_predictions(model, sources, monitor=monitor)
    if holds_feature_model(run):
        head = load_feature_model(run)
        return lambda sources, monitor: feature_predictions(head, sources, device=device, monitor=monitor)
    network, description = load_any_network(run)
    network = network.to(device)
    return lambda sources, monitor: predictions(network, description, sources, monitor=monitor)


def without_skipped(entries: "Iterable[Prediction | Skipped]") -> "Iterator[Prediction]":
    """The predictions; skipped files are reported."""
    from laplacenet.data import Skipped

    for entry in entries:
        if isinstance(entry, Skipped):
            say(f"warning: {entry.path}: skipped ({entry.reason})", err=True)
        else:
            yield entry


def csv_lines(found: "Iterable[Prediction]") -> Iterator[str]:
    from laplacenet.labeling.result import path_cell
    from laplacenet.runtime.csv_files import csv_line

    yield csv_line(("path", "label", "confidence", "margin"))
    for one in found:
        yield csv_line((path_cell(one.name), one.label, f"{one.confidence:.4f}", f"{one.margin:.4f}"))


def json_lines(found: "Iterable[Prediction]") -> Iterator[str]:
    for one in found:
        numbers = {"confidence": round(one.confidence, 4), "margin": round(one.margin, 4)}
        yield json.dumps({"path": one.name, "label": one.label, **numbers}, ensure_ascii=False) + "\n"
