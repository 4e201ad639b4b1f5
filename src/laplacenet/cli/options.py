"""Options that several commands share, and checks that do not need torch."""

import inspect
import json
import re
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from typer.models import ArgumentInfo

from laplacenet.cli.output import say

Options = TypeVar("Options")
Given = TypeVar("Given", Path | None, Sequence[Path])
DEVICES = re.compile(r"auto|cpu|cuda(:\d+)?")
# These names are needed before torch is imported; tests compare them with the real ones.
MODELS = (
    *("13-cnn", "wrn-28-2", "wrn-28-8", "resnet-18", "resnet-50", "small-cnn", "patch-cnn", "mlp"),
    *("lite0", "lite1", "lite2"),
)
PRESETS = (
    *("digits", "cifar10", "cifar100", "mini-imagenet", "two-moons", "pictures", "fast"),
    *("original", "equal"),
)
DATASETS = ("cifar10", "cifar100", "mini-imagenet", "digits", "two-moons")
METHODS = (
    *("laplacenet", "supervised", "network-labels", "pi-model", "temporal-ensembling", "mean-teacher", "vat", "lp"),
    *("mt-lp", "sntg", "fast-swa", "ict", "dual-student", "tssdl", "dag", "pl-mixup", "mixmatch", "uda", "fixmatch"),
    *("flexmatch", "freematch", "softmatch", "adamatch", "simmatch"),
)


def existing(given: Given) -> Given:
    """A callback: files and folders to read must exist."""
    from laplacenet.runtime import InputError

    paths = [given] if isinstance(given, Path) else given or []
    for path in paths:
        if not path.expanduser().exists():
            raise InputError(f"{path}: no such file or folder")
    return given


def existing_run(given: Path | None) -> Path | None:
    """A callback: a run folder must be one."""
    from laplacenet.runtime import RunFolder

    if given is not None:
        RunFolder.open(given)
    return given


def written_run(given: Path) -> Path:
    """A callback: a run folder whose files are read; those of a review may be older than its answers."""
    from laplacenet.runtime import InputError, RunFolder
    from laplacenet.runtime.run_folder import ANSWERS, ENTRIES, PROVENANCE

    existing_run(given)
    answers, labels = given / ANSWERS, given / "labeling.json"
    if not answers.is_file():
        return given
    command = f"laplacenet label --resume {shlex.quote(str(given))}"
    if not labels.is_file():
        raise InputError(f"{given}: a review whose labels were not written yet; write them with: {command}")
    n_read = RunFolder(given).read_sealed(PROVENANCE).get(ENTRIES, 0)
    if isinstance(n_read, int) and last_entry(answers) > n_read:
        say(f"warning: {given} has newer answers than labels; write the labels again with: {command}", err=True)
    return given


def last_entry(answers: Path) -> int:
    """The number of the last answer of a review, 0 if it cannot be read."""
    from laplacenet.runtime import read_whole

    *whole, _ = read_whole(answers).split(b"\n")
    try:
        return int(json.loads(whole[-1])["n"])
    except (IndexError, KeyError, TypeError, ValueError, OverflowError, RecursionError):
        return 0


def data_or_path(given: str | None) -> str | None:
    """A callback: the name of a data set, or an existing path."""
    from laplacenet.runtime import InputError

    if given is not None and given not in DATASETS and not Path(given).expanduser().exists():
        accepted = f"choose one of {', '.join(DATASETS)}, a folder of images or an .npz file"
        raise InputError(f"no data set, folder or file called {given!r}; {accepted}")
    return given


def one_of(names: Sequence[str], *, what: str) -> Callable[[str | None], str | None]:
    """A callback: one of these names, if any."""

    def require_known(given: str | None) -> str | None:
        from laplacenet.runtime import InputError

        if given is not None and given not in names:
            raise InputError(f"unknown {what} {given!r}; choose one of {', '.join(names)}")
        return given

    return require_known


def known_method(given: str | None) -> str | None:
    """A callback: the name of a method, or `module:Class`, which is looked for later."""
    return given if given is not None and ":" in given else one_of(METHODS, what="method")(given)


def known_methods(given: str) -> str:
    """A callback: several of them, or `all`."""
    for name in [] if given == "all" else given.split(","):
        known_method(name.strip() or None)
    return given


def known_device(given: str) -> str:
    """A callback: whether the device exists is known later."""
    from laplacenet.runtime import InputError

    if not DEVICES.fullmatch(given):
        raise InputError(f"unknown device {given!r}; choose auto, cpu, cuda or cuda:N")
    return given


def duration_of(option: str) -> Callable[[str], float]:
    """A parser of durations for this option."""
    from laplacenet.runtime.durations import parse_duration

    return lambda text: parse_duration(text, option=option)


Device = Annotated[str, typer.Option(callback=known_device, help="Where to compute: auto, cpu, cuda or cuda:N.")]
Model = Annotated[
    str | None,
    typer.Option(
        callback=one_of(MODELS, what="model"),
        help=f"The network: {', '.join(MODELS)}.  [default: one that suits the data]",
    ),
]
DataDir = Annotated[
    Path | None, typer.Option(help="The folder that holds named data sets.  [default: $LAPLACENET_DATA or data]")
]
Download = Annotated[bool, typer.Option("--download", help="Download CIFAR if it is missing.")]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="SECTION.FIELD=VALUE", help="Change one setting; may be repeated."),
]
Compile = Annotated[
    bool,
    typer.Option(
        "--compile",
        help="On a GPU, compile the loss, in place of some kernels: 25 s at the start, probably slower for the 13-CNN.",
    ),
]
Preset = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        callback=one_of(PRESETS, what="preset"),
        help=f"Other defaults than those of the data set: {', '.join(PRESETS[:-2])};"
        " original (the method's own paper) or equal (the protocol of LaplaceNet's Table IV).",
    ),
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace the run in --out; all other files stay.")]
TimeLimit = Annotated[
    float | None,
    typer.Option(
        "--for",
        metavar="TIME",
        parser=duration_of("--for"),
        help="Stop after this time (90s, 9m, 2h) with a checkpoint to resume from; the exit code is then 3.",
    ),
]

CheckpointEvery = Annotated[
    float,
    typer.Option(
        metavar="TIME",
        parser=duration_of("--checkpoint-every"),
        show_default=False,
        help="Save a checkpoint this often (90s, 9m, 2h): a crash loses no more. The result does not change."
        "  [default: 60s]",
    ),
]
JudgeEvery = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=1,
        help="Test after every N-th epoch and after the last. The result does not change."
        "  [default: 1; with --preset fast 10; train --resume: as the run began]",
    ),
]


def options_as(kind: Callable[..., Options], asked: dict[str, Any]) -> Options:
    """A command's arguments as a dataclass whose fields have their names; `asked` are the command's locals."""
    return kind(**{name: asked[name] for name in inspect.signature(kind).parameters})


def typed_options(command: Callable[..., None], asked: dict[str, Any]) -> dict[str, str]:
    """Arguments that differ from their defaults: their names, and how the command line writes them."""
    parameters = inspect.signature(command).parameters
    return {
        name: option_name(name, parameter.annotation)
        for name, parameter in parameters.items()
        if asked[name] != parameter.default
    }


def option_name(name: str, annotation: Any) -> str:
    """`--no-flip` for an argument `flip` that was declared as `--flip/--no-flip`."""
    (info,) = annotation.__metadata__
    if isinstance(info, ArgumentInfo):
        return name
    # the first declaration stands where a default would, if there were no Annotated
    declared = [word for word in (info.default, *(info.param_decls or ())) if isinstance(word, str)]
    return declared[0].rpartition("/")[2] if declared else f"--{name.replace('_', '-')}"


def refuse_beside_resume(typed: dict[str, str], *allowed: str) -> None:
    """Refuse all options but these, by name: a resumed run would ignore them."""
    from laplacenet.runtime import InputError

    refused = [option for name, option in typed.items() if name not in ("resume", *allowed)]
    if refused:
        raise InputError(f"--resume takes all settings from its run folder; leave out {', '.join(refused)}")
