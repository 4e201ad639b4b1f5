"""`laplacenet review`: label photos in the browser."""

import getpass
import socket
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from laplacenet.cli.options import Device, existing
from laplacenet.cli.output import say
from laplacenet.runtime.wording import counted

if TYPE_CHECKING:
    from laplacenet.review.serve import Review


Photos = Annotated[
    Path, typer.Argument(callback=existing, help="A folder of pictures, or the run folder of an earlier review.")
]
Labels = Annotated[
    list[Path] | None,
    typer.Option(
        callback=existing,
        help="A list of known labels (.csv, .tsv, .jsonl); they are added to the answers. May be repeated.",
    ),
]
Out = Annotated[
    Path | None, typer.Option(help="The run folder; one that exists is continued.  [default: runs/PHOTOS-review]")
]
Features = Annotated[
    str | None,
    typer.Option(
        metavar="lite0|lite1|lite2|timm:NAME|FILE.onnx",
        help="The pretrained network that embeds the pictures.  [default: that of the run, or lite0]",
    ),
]
Weights = Annotated[Path | None, typer.Option(help="A file of weights for --features timm:NAME.")]
Browser = Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page in the browser.")]
Port = Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 for the one used last, or a free one.")]
Host = Annotated[str, typer.Option(help="The address to listen on; any but this machine's own needs --public.")]
Public = Annotated[
    bool,
    typer.Option("--public", help="Let other machines connect, unencrypted; anybody who has the address can enter."),
]


def review(
    photos: Photos,
    labels: Labels = None,
    out: Out = None,
    features: Features = None,
    weights: Weights = None,
    browser: Browser = True,
    port: Port = 0,
    host: Host = "127.0.0.1",
    public: Public = False,
    device: Device = "auto",
) -> None:
    """Look at photos in the browser, label a few, and watch all the others follow.

    No labels are needed to begin. Every answer is saved before it is acknowledged; Ctrl-C ends the review and writes
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
        raise InputError(f"review needs {error.name}; install it with: pip install starlette uvicorn") from error
    from laplacenet.review.pretrained import PretrainedEmbedder

    source, place = Source(photos, out, tuple(labels or ())), Place(host, port, opens_browser=browser, is_public=public)
    name, file = features_of(source, features, weights)
    embedder = PretrainedEmbedder(name, weights=file, device=choose_device(device))
    with warnings.catch_warnings(), open_review(source, embedder, place) as found:
        warnings.filterwarnings("ignore", module=r"PIL\.")  # of damaged metadata: the picture itself is read
        announce(found, is_public=public, is_alone=not browser)
        found.open_browser()
        found.serve(lambda: typer.echo("stopped     writing labels, report and model …"))
        write(found)


def announce(found: "Review", *, is_public: bool, is_alone: bool) -> None:
    """Say where the review is; where no browser is opened, also how to reach it from another machine."""
    for note in found.session.journal.notes:
        say(f"warning: {note}", err=True)
    if is_public:
        typer.echo(
            "warning: --public lets other machines connect, unencrypted; anybody who has the address below can see all"
            " pictures and answer",
            err=True,
        )
    typer.echo(f"review      {counted(len(found.session.photos), 'picture file')}; stop with Ctrl-C")
    typer.echo(f"address     {found.address}")
    if is_alone:
        machine = f"{getpass.getuser()}@{socket.gethostname()}"
        typer.echo(f"remotely    ssh -L {found.port}:127.0.0.1:{found.port} {machine}")


def write(found: "Review") -> None:
    """Write the labels, or say why there are none."""
    from laplacenet.runtime import InputError, RunError

    files = "answers.jsonl, labels.csv, report.html, model.safetensors"
    try:
        written = found.write()
    except InputError as error:
        say(f"labels      {error}")
        files = "answers.jsonl"
    except RunError as error:
        raise RunError(f"{error}; start it again to write the files") from error
    else:
        typer.echo(f"labels      {written['n_labels']} written, {written['n_given']} of them given")
    say(f"run folder  {found.folder.path}  ({files})")
