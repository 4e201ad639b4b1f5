"""`laplacenet.label`: from its arguments to a labeling, new or resumed."""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import monotonic
from types import ModuleType
from typing import TYPE_CHECKING

from laplacenet.api.checks import (
    PathLike,
    checked_arguments,
    label_files,
    require_free,
    require_inputs,
    require_kind,
    require_labeling,
    require_prior,
)
from laplacenet.api.pictures import embedder_of
from laplacenet.api.runs import Interrupted, LabelingRun
from laplacenet.runtime.durations import parse_duration
from laplacenet.runtime.errors import InputError
from laplacenet.runtime.protection import require_apart
from laplacenet.runtime.run_folder import ANSWERS, RunFolder

if TYPE_CHECKING:
    from laplacenet.labeling.session import LabelingSession, Progress, SessionEnd
    from laplacenet.labeling.settings import LabelingSettings

BESIDE_RESUME = ("resume", "time_limit", "checkpoint_every", "device", "progress")
"""Arguments that may be given with `resume`; all others are settings of the run, which its folder has."""


def label(
    pictures: PathLike | None = None,
    labels: PathLike | Sequence[PathLike] | None = None,
    *,
    out: PathLike | None = None,
    time_limit: str | float | None = None,
    test: PathLike | None = None,
    features: str = "auto",
    weights: PathLike | None = None,
    merge_classes: bool = False,
    size: int | None = None,
    model: str | None = None,
    flip: bool = True,
    steps: int | None = None,
    batch_size: int | None = None,
    prior: str | Sequence[float] = "shrunk",
    suspects: bool = True,
    settings: Sequence[str] = (),
    seed: int = 0,
    strict: bool = False,
    overwrite: bool = False,
    device: str = "auto",
    checkpoint_every: str | float = "60s",
    resume: PathLike | None = None,
    progress: "Callable[[], Progress] | None" = None,
) -> LabelingRun:
    """Label every picture of a folder, or every row of a file of arrays, from the few labels that are known.

    `pictures` is a folder, or an .npz or .npy file of images or embeddings. `labels` are one or several label files;
    without, sub-folders are the classes. `merge_classes` makes one class of names that differ only in case, spaces or
    accents. `time_limit` ("15m", or seconds) is for everything, by default four minutes where a network is trained;
    `steps` are the training steps of the first network and override it. `settings` are texts such as "graph.k=20".
    `features` says which network embeds the pictures of a folder: a pretrained one ("lite0", "lite1", "lite2",
    "timm:NAME", "FILE.onnx", with other weights from the file `weights`), "scratch" for one that is trained on them
    alone, or "auto", which says what it chose and why; options that only training has mean "scratch" then. `resume`
    continues the run in this folder; of the other arguments only `time_limit` may be given, by default that of the run.
    A review is labeled by its answers and further `labels`.

    `progress` makes an object that is told of the progress. Ctrl-C stops training at the next step, saves, and raises
    `Interrupted`, a KeyboardInterrupt.
    """
    arguments, started_at = locals(), monotonic()  # before torch is imported, which takes seconds
    options = LabelOptions(**checked_arguments(arguments))
    return label_by(options, started_at=started_at)


@dataclass(frozen=True)
class LabelOptions:
    """The arguments of `label`, as `checked_arguments` leaves them."""

    pictures: PathLike | None
    labels: PathLike | Sequence[PathLike] | None
    out: Path | None
    time_limit: str | float | None
    test: Path | None
    features: str
    weights: Path | None
    merge_classes: bool
    size: int | None
    model: str | None
    flip: bool
    steps: int | None
    batch_size: int | None
    prior: str | Sequence[float]
    suspects: bool
    settings: Sequence[str]
    seed: int
    strict: bool
    overwrite: bool
    device: str
    checkpoint_every: str | float
    resume: Path | None
    progress: "Callable[[], Progress] | None"

    @property
    def limit_s(self) -> float | None:
        return None if self.time_limit is None else parse_duration(self.time_limit, option="--for")

    def session(self, started_at: float) -> "LabelingSession":
        """Where to compute and who watches; this imports torch."""
        from laplacenet.labeling.session import new_session
        from laplacenet.runtime import choose_device, start_group
        from laplacenet.training import Execution

        # each stage has a network of its own, so that compiling would take longer than it saves
        checkpoint_every_s = parse_duration(self.checkpoint_every, option="--checkpoint-every")
        execution = Execution(choose_device(self.device), compile=False, checkpoint_every_s=checkpoint_every_s)
        start_group(execution.device)
        return new_session(execution, None if self.progress is None else self.progress(), started_at=started_at)


@dataclass(frozen=True)
class Inputs:
    """What a labeling reads: each path exists."""

    pictures: Path
    labels: list[Path]
    test: Path | None

    @property
    def all(self) -> list[Path | None]:
        return [self.pictures, *self.labels, self.test]


def label_by(options: LabelOptions, *, started_at: float) -> LabelingRun:
    """Check what can be checked without torch, then label; `started_at` is by `time.monotonic`."""
    limit_s = options.limit_s
    parse_duration(options.checkpoint_every, option="--checkpoint-every")
    if options.resume is not None:
        return resume_labeling(options, options.resume, limit_s, started_at)
    named = label_files(options.labels)
    inputs = Inputs(*require_inputs(options.pictures, list(named), options.test))
    require_prior(options.prior)
    require_free(options.out, inputs.all, overwrite=options.overwrite)
    session = options.session(started_at)
    settings = labeling_settings(options, inputs, limit_s)
    texts = [*setting_texts(options.model, flip=options.flip, batch_size=options.batch_size), *options.settings]
    make_folder = partial(
        new_folder, options.out, f"{settings.name}-labels", inputs=inputs.all, overwrite=options.overwrite
    )
    return finish(sessions().start(settings, texts, make_folder, session))


def resume_labeling(options: LabelOptions, run: Path, limit_s: float | None, started_at: float) -> LabelingRun:
    """Go on with a labeling; a review is labeled by its answers."""
    folder = RunFolder.open(require_labeling(run))
    require_kind(folder)
    is_review = (folder.path / ANSWERS).is_file()
    refuse_beside_resume(options, *(["labels"] if is_review else []))
    session = options.session(started_at)
    if is_review:
        return label_by_answers(folder.path, label_files(options.labels), options.device, session.progress)
    return finish(sessions().resume(folder, limit_s, session))


def labeling_settings(options: LabelOptions, inputs: Inputs, limit_s: float | None) -> "LabelingSettings":
    from laplacenet.labeling.settings import CollectionConfig, LabelingSettings, TimeConfig

    training = training_options(options)
    features = chosen_features(inputs.pictures, options.features, is_training=bool(training))
    if options.weights is not None and features == "scratch":
        raise InputError(f"--weights {options.weights}: no pretrained network is used here; leave it out")
    if options.features not in ("auto", "scratch"):
        refuse_training_options(options.features, training, leaves_time=limit_s is not None)
    collection = CollectionConfig(
        pictures=located(inputs.pictures),
        labels=tuple(map(located, inputs.labels)),
        test=None if inputs.test is None else located(inputs.test),
        size=options.size,
        strict=options.strict,
        features=features,
        weights=None if options.weights is None else located(options.weights),
        merge_classes=options.merge_classes,
    )
    return LabelingSettings(
        name=inputs.pictures.resolve().stem,
        seed=options.seed,
        prior=options.prior if isinstance(options.prior, str) else ",".join(map(str, options.prior)),
        collection=collection,
        time=TimeConfig(limit_s, options.steps, options.suspects),
    )


def chosen_features(pictures: Path, features: str, *, is_training: bool) -> str:
    """What `--features` means here; `auto` is decided later, where the pictures have been seen."""
    if features == "auto":
        return "scratch" if is_training or not pictures.is_dir() else features
    if features != "scratch" and not pictures.is_dir():
        raise InputError(f"--features {features}: {pictures} is not a folder of pictures; leave --features out")
    from laplacenet.models.features.load import is_features_name, located_features, unknown_features

    if features != "scratch" and not is_features_name(features):
        raise unknown_features(features, "auto", "scratch")
    return located_features(features)


def training_options(options: LabelOptions) -> list[str]:
    """The options given that are about training, as the command calls them."""
    names = {"model": "--model", "size": "--size", "steps": "--steps", "batch_size": "--batch"}
    return [name for field, name in names.items() if getattr(options, field) is not None]


def refuse_training_options(features: str, given: Sequence[str], *, leaves_time: bool) -> None:
    """Refuse those that would be ignored: only in the time that --for leaves is a network trained in addition, for as
    many steps as fit.
    """
    ignored = ", ".join(name for name in given if name == "--steps" or not leaves_time)
    if ignored:
        trains = "trains as many steps as fit into --for" if leaves_time else "trains no network without --for"
        raise InputError(f"{ignored}: --features {features} {trains}; leave out {ignored}, or give --features scratch")


def label_by_answers(run: Path, files: tuple[Path, ...], device: str, progress: "Progress") -> LabelingRun:
    """Label the pictures of a review by its answers and by label files."""
    from laplacenet.review.opening import Source
    from laplacenet.review.serve import write_again
    from laplacenet.runtime.group import current_group, pause_watch

    def write() -> None:
        source = Source(run, labels=files)
        with progress.reading(str(source.pictures)) as monitor:
            notes = write_again(source, embedder_of(source, None, None, device), on_progress=monitor.advance)
        for note in notes:
            progress.warn(note)

    current_group().by_first(write)
    pause_watch()
    return LabelingRun(run)


def finish(end: "SessionEnd") -> LabelingRun:
    """The run in its present state, with its report."""
    from laplacenet.runtime.group import current_group, pause_watch
    from laplacenet.runtime.peers import advising

    run = LabelingRun(end.folder.path, stages=end.stages, is_out_of_time=end.is_out_of_time)
    with advising(lambda: str(sessions().how_to_go_on(end.folder))):
        current_group().by_first(lambda: run.report() if run.has_labels else None)
    pause_watch()
    if end.signal is not None:
        raise Interrupted(run, end.signal)
    return run


def sessions() -> ModuleType:
    from laplacenet.labeling import session

    return session


def new_folder(out: PathLike | None, name: str, *, inputs: Sequence[Path | None], overwrite: bool) -> RunFolder:
    """The given folder, or the first free one of runs/NAME, runs/NAME-2, …; never one that holds an input."""
    if out is not None:
        require_apart(Path(out), inputs)
        return RunFolder.create(Path(out), overwrite=overwrite)
    path, number = Path("runs") / name, 2
    while not overwrite and path.exists() and any(path.iterdir()):
        path, number = Path("runs") / f"{name}-{number}", number + 1
    require_apart(path, inputs, is_default=True)
    return RunFolder.create(path, overwrite=overwrite)


def setting_texts(model: str | None, *, flip: bool, batch_size: int | None) -> list[str]:
    """The options that are short for settings, as --set takes them."""
    texts = [] if model is None else [f"model.name={model}"]
    texts += [] if flip else ["augment.flip=off"]
    if batch_size is None:
        return texts
    return [*texts, f"train.batch_size={batch_size}", f"train.labeled_batch_size={batch_size // 2}"]


def located(path: Path) -> str:
    """The absolute path, so that the run folder finds its data from anywhere."""
    return str(path.expanduser().resolve())


def refuse_beside_resume(options: LabelOptions, *allowed: str) -> None:
    """Refuse all arguments but these: a resumed labeling would ignore them."""
    parameters = inspect.signature(label).parameters
    refused = [
        name
        for name, parameter in parameters.items()
        if name not in (*BESIDE_RESUME, *allowed) and is_set(getattr(options, name), parameter.default)
    ]
    if refused:
        raise InputError(f"resume takes all settings from its run folder; leave out {', '.join(refused)}")


def is_set(value: object, default: object) -> bool:
    """Whether an argument differs from its default."""
    if isinstance(value, list | tuple):
        return len(value) > 0
    return type(value) is not type(default) or value != default
