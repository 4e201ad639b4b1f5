"""`laplacenet export`: a run's network as one file for other programs."""

from pathlib import Path
from typing import Annotated

import typer

from laplacenet.cli.options import existing_run
from laplacenet.cli.out_files import OverwriteFile, require_free


def export(
    run: Annotated[Path, typer.Argument(callback=existing_run, help="The folder of a finished run of train or label.")],
    form: Annotated[
        str,
        typer.Option("--format", metavar="onnx|torch-export", help="For ONNX Runtime and others, or for torch alone."),
    ] = "onnx",
    out: Annotated[
        Path | None, typer.Option(help="The .onnx or .pt2 file.  [default: model.onnx or model.pt2 in the run]")
    ] = None,
    overwrite: OverwriteFile = False,
) -> None:
    """Write the network with its normalization and calibration, and check that the file says the same as the run.

    It reads uint8 pictures (n, channels, height, width) of the network's size, any number at once, and gives the
    probabilities of the classes, whose names are in the file's metadata. ONNX needs: pip install laplacenet[export]

    \b
    Example:
      laplacenet export runs/digits-0 --format torch-export --out digits.pt2
    """
    from laplacenet.labeling.graph_model import holds_graph_model
    from laplacenet.models import load_model
    from laplacenet.models.export import FORMATS, export_model
    from laplacenet.runtime import InputError, RunFolder

    if form not in FORMATS:
        raise InputError(f"--format {form}: choose one of {', '.join(FORMATS)}")
    path = RunFolder.open(run).path
    out = path / FORMATS[form] if out is None else out
    require_free(out, suffixes=(Path(FORMATS[form]).suffix,), overwrite=overwrite)
    if not out.parent.is_dir():
        raise InputError(f"--out {out}: cannot be written (there is no folder {out.parent})")
    if holds_graph_model(path):
        raise InputError(f"{run}: labeled embeddings by a graph; there is no network to export, use laplacenet predict")
    network, description = load_model(path)
    difference = export_model(network, description, out, form=form)
    shape = "×".join(map(str, description.input_shape))
    typer.echo(f"{out}  reads uint8 n×{shape}, gives {len(description.class_names)} probabilities")
    typer.echo(f"checked  it says what the run's network says (largest difference {difference:.1g})")
