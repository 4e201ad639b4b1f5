"""`laplacenet review`: label photos in the browser."""

import getpass
import socket
from pathlib import Path
from typing import Annotated

import typer

from laplacenet.cli.options import Device, existing


def review(
    photos: Annotated[Path, typer.Argument(help="A folder of pictures, or the run folder of an earlier review.")],
    labels: Annotated[
        list[Path] | None,
        typer.Option(
            callback=existing,
            help="A list of known labels (.csv, .tsv, .jsonl); they join the answers. May be repeated.",
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="The run folder; one that exists is continued.  [default: runs/PHOTOS-review]")
    ] = None,
    features: Annotated[
        str | None,
        typer.Option(
            metavar="lite0|lite1|lite2|timm:NAME|FILE.onnx",
            help="The pretrained network that looks at the pictures.  [default: that of the run, or lite0]",
        ),
    ] = None,
    weights: Annotated[Path | None, typer.Option(help="A file of weights for --features timm:NAME.")] = None,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page in the browser.")] = True,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="The port; 0 takes that of the last time, or a free one.")
    ] = 0,
    host: Annotated[
        str, typer.Option(help="The address to serve; any but this machine's own needs --public.")
    ] = "127.0.0.1",
    public: Annotated[
        bool,
        typer.Option("--public", help="Let other machines connect, unencrypted; the address lets everybody in."),
    ] = False,
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
        from laplacenet.review.opening import Source, features_of
        from laplacenet.review.serve import Place, open_review
    except ModuleNotFoundError as error:
        raise InputError(f"review needs {error.name}; install it with: pip install 'laplacenet[photos]'") from error
    from laplacenet.review.pretrained import PretrainedEmbedder

    source, place = Source(photos, out, tuple(labels or ())), Place(host, port, opens_browser=browser, is_public=public)
    name, file = features_of(source, features, weights)
    embedder = PretrainedEmbedder(name, weights=file, device=choose_device(device))
    with open_review(source, embedder, place) as found:
        for note in found.session.journal.notes:
            typer.echo(f"warning: {note}", err=True)
        if public:
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
