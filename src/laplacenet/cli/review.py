"""`laplacenet review`: label photos in the browser."""

import getpass
import socket
from pathlib import Path
from typing import Annotated

import typer

from laplacenet.cli.options import Device


def review(
    photos: Annotated[Path, typer.Argument(help="A folder of pictures, or the run folder of an earlier review.")],
    labels: Annotated[
        Path | None, typer.Option(help="A list of known labels (.csv, .tsv, .jsonl); they join the answers.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="The run folder; one that exists is continued.  [default: runs/PHOTOS-review]")
    ] = None,
    features: Annotated[str, typer.Option(help="The pretrained network: lite0, timm:NAME or an .onnx file.")] = "lite0",
    weights: Annotated[Path | None, typer.Option(help="A file of weights for --features timm:NAME.")] = None,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page in the browser.")] = True,
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 takes a free one.")] = 0,
    host: Annotated[
        str, typer.Option(help="The address to serve; any but 127.0.0.1 lets other machines in.")
    ] = "127.0.0.1",
    device: Device = "auto",
) -> None:
    """Look at photos in the browser, label a few, and watch all the others follow.

    Works with no labels at all. Every answer is saved before it is acknowledged; Ctrl-C ends the review and writes
    labels.csv, report.html and the model. The same command continues where it stopped.

    \b
    Examples:
      laplacenet review photos/
      laplacenet review photos/ --labels labels.csv --out runs/photos
      laplacenet review runs/photos --no-browser --port 8000
    """
    from laplacenet.runtime import InputError, choose_device

    try:
        from laplacenet.review.serve import Place, open_review
    except ModuleNotFoundError as error:
        raise InputError(f"review needs {error.name}; install it with: pip install 'laplacenet[photos]'") from error
    from laplacenet.review.pretrained import PretrainedEmbedder

    embedder = PretrainedEmbedder(features, weights=weights, device=choose_device(device))
    place = Place(host, port, opens_browser=browser)
    with open_review(photos, embedder, out=out, labels=labels, place=place) as found:
        for note in found.session.journal.notes:
            typer.echo(f"warning: {note}", err=True)
        if host not in ("127.0.0.1", "localhost", "::1"):
            typer.echo(
                f"warning: --host {host} lets other machines connect, unencrypted; who knows the address below can see"
                " all pictures and answer",
                err=True,
            )
        typer.echo(f"review      {len(found.session.photos)} pictures; stop with Ctrl-C")
        typer.echo(f"address     {found.address}")
        if not browser:
            machine = f"{getpass.getuser()}@{socket.gethostname()}"
            typer.echo(f"from afar   ssh -L {found.port}:127.0.0.1:{found.port} {machine}")
        found.open_browser()
        found.serve()
        try:
            written = found.write()
        except InputError as error:
            typer.echo(f"labels      {error}")
        else:
            typer.echo(f"labels      {written['n_labels']} written, {written['n_given']} of them given")
        typer.echo(f"run folder  {found.folder.path}  (answers.jsonl, labels.csv, report.html, model.safetensors)")
