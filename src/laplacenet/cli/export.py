"""`laplacenet export`: a run's network as one file for other programs."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from laplacenet.cli.options import one_of, written_run
from laplacenet.cli.out_files import OverwriteFile, require_free
from laplacenet.cli.output import say

if TYPE_CHECKING:
    from laplacenet.models import ModelDescription, Network

FORMATS = {"torch-export": "model.pt2", "onnx": "model.onnx"}
"""As in `models.export`, which imports torch."""


def export(
    run: Annotated[
        Path, typer.Argument(callback=written_run, help="The folder of a finished run of train, label or review.")
    ],
    form: Annotated[
        str,
        typer.Option(
            "--format",
            metavar="|".join(FORMATS),
            callback=one_of(tuple(FORMATS), what="format"),
            help="For torch alone, or for ONNX Runtime and others.",
        ),
    ] = "torch-export",
    out: Annotated[
        Path | None, typer.Option(help="The .pt2 or .onnx file.  [default: model.pt2 or model.onnx in the run]")
    ] = None,
    overwrite: OverwriteFile = False,
) -> None:
    """Write the network with its normalization and calibration, and check that the file agrees with the run.

    It takes uint8 pictures (n, channels, height, width) of the network's size, any number at once, and returns the
    probabilities of the classes, whose names are in the file's metadata. ONNX needs the extra `export`.

    \b
    Examples:
      laplacenet export runs/digits-0 --out digits.pt2
      laplacenet export runs/photos-labels --format onnx
    """
    from laplacenet.models.export import export_model, is_large
    from laplacenet.runtime import InputError, RunFolder

    path = RunFolder.open(run).path
    out = path / FORMATS[form] if out is None else out
    require_free(out, suffixes=(Path(FORMATS[form]).suffix,), overwrite=overwrite)
    if not out.parent.is_dir():
        raise InputError(f"--out {out}: cannot be written (there is no folder {out.parent})")
    network, description = network_of(path)
    shape = "×".join(map(str, description.input_shape))
    if is_large(description.input_shape):
        typer.echo(
            f"exporting, then comparing the file with the network on pictures of {shape}; this takes a while …",
            err=True,
        )
    difference = export_model(network, description, out, form=form)
    say(f"{out}  takes uint8 n×{shape}, returns {len(description.class_names)} probabilities")
    typer.echo(f"checked: its probabilities agree with the network's (largest difference {difference:.1g})")


def network_of(run: Path) -> "tuple[Network, ModelDescription]":
    """The run's network, with a pretrained one if it has a head on one."""
    from laplacenet.labeling.beside.joined_model import load_any_network
    from laplacenet.labeling.embeddings import holds_graph_model
    from laplacenet.labeling.feature_model import feature_network, holds_feature_model
    from laplacenet.runtime import InputError

    if holds_graph_model(run):
        raise InputError(f"{run}: labeled embeddings by a graph; there is no network to export, use laplacenet predict")
    return feature_network(run) if holds_feature_model(run) else load_any_network(run)
