"""The Python API: what the commands do, as functions that return objects.

    run = laplacenet.label("photos/", labels="labels.csv", time_limit="4m")
    run.labels, run.estimate.accuracy, run.next(20), run.predict(["new/"]), run.report()

Arguments and paths are checked before torch is imported, which takes seconds.
"""

import contextlib
import inspect
import signal
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from numbers import Integral
from pathlib import Path
from time import monotonic
from types import ModuleType
from typing import TYPE_CHECKING, Any

from laplacenet.runtime.durations import parse_duration
from laplacenet.runtime.errors import InputError
from laplacenet.runtime.protection import require_apart
from laplacenet.runtime.run_folder import ANSWERS, EXPERIMENT, RunFolder

if TYPE_CHECKING:
    import numpy as np

    from laplacenet.data import Collection
    from laplacenet.labeling.estimate import Evaluation
    from laplacenet.labeling.pictures import StageProgress
    from laplacenet.labeling.predictions import Prediction
    from laplacenet.labeling.result import Estimate, Labeling
    from laplacenet.labeling.session import LabelingSession, Progress, SessionEnd
    from laplacenet.review.opening import Source
    from laplacenet.review.pretrained import PretrainedEmbedder
    from laplacenet.review.serve import Review
    from laplacenet.runtime import Monitor

PathLike = str | Path
ARRAYS = (".npz", ".npy")
PRIORS = ("shrunk", "labeled", "equal")
"""As in `graph.priors`, which imports NumPy."""


@dataclass(frozen=True)
class Suggestion:
    """A row to label next, or a given label to look at again."""

    path: str
    guess: str
    confidence: float
    reason: str


class Interrupted(KeyboardInterrupt):
    """A signal stopped a labeling; all of it is saved, and `label(resume=run.path)` goes on."""

    def __init__(self, run: "LabelingRun", number: signal.Signals) -> None:
        super().__init__(f"{number.name}: go on with laplacenet.label(resume={str(run.path)!r})")
        self.run, self.exit_code = run, 128 + number.value


class LabelingRun:
    """A labeling in its run folder.

    `stages` says how far each stage of training got; `is_out_of_time` is true where the time limit ended the session
    before the labeling was complete. `label(resume=run.path)` goes on.
    """

    def __init__(
        self, path: PathLike, *, stages: "tuple[StageProgress, ...]" = (), is_out_of_time: bool = False
    ) -> None:
        self.path, self.stages, self.is_out_of_time = require_labeling(path), stages, is_out_of_time

    def __repr__(self) -> str:
        return f"LabelingRun({str(self.path)!r})"

    @cached_property
    def data(self) -> "Labeling":
        """All of it, as tensors; refused where a file is damaged."""
        from laplacenet.labeling.result import load_labeling

        return load_labeling(self.path)

    @property
    def has_labels(self) -> bool:
        """False where the time was up, or a signal came, before anything was learned."""
        from laplacenet.labeling.result import SUMMARY

        return (self.path / SUMMARY).is_file()

    @property
    def is_complete(self) -> bool:
        return self.has_labels and self.data.summary.is_complete

    @property
    def paths(self) -> tuple[str, ...]:
        """Below the folder of pictures; `row 17` for arrays."""
        return self.data.names

    @property
    def labels(self) -> list[str]:
        """The class of each row, given or found."""
        names = self.data.summary.class_names
        return [names[label] for label in self.data.labels.tolist()]

    @property
    def confidence(self) -> "np.ndarray[Any, Any]":
        """The calibrated probability of each label."""
        found: np.ndarray[Any, Any] = self.data.confidence.numpy()
        return found

    @property
    def is_given(self) -> "np.ndarray[Any, Any]":
        found: np.ndarray[Any, Any] = self.data.is_given.numpy()
        return found

    @property
    def class_names(self) -> tuple[str, ...]:
        return self.data.summary.class_names

    @property
    def estimate(self) -> "Estimate":
        """How accurate the new labels are.

        `estimate.accuracy` has `value` and its 95 % confidence interval, `low` to `high`; it is None where too few
        labels were given.
        """
        return self.data.summary.estimate

    def next(self, n: int = 50) -> list[Suggestion]:
        """The rows whose labels would help most, best first; fewer are the beginning of more."""
        from laplacenet.labeling.acquisition import next_entries

        return self._suggestions(next_entries(self.data, n))

    def suspects(self, n: int = 50) -> list[Suggestion]:
        """Given labels that are most likely wrong; `guess` is what the others say."""
        from laplacenet.labeling.acquisition import suspect_entries

        return self._suggestions(suspect_entries(self.data, n))

    def _suggestions(self, entries: Iterable[tuple[int, int, str]]) -> list[Suggestion]:
        from laplacenet.labeling.acquisition import guess_confidence

        names = self.class_names
        return [
            Suggestion(self.paths[row], names[guess], guess_confidence(self.data, row, guess), reason)
            for row, guess, reason in entries
        ]

    def predict(
        self, pictures: PathLike | Sequence[PathLike], *, device: str = "auto", monitor: "Monitor | None" = None
    ) -> "list[Prediction]":
        """Labels for new pictures, folders of them, or array files; what cannot be read is left out.

        Names are paths below the folder, as in `paths`; if several paths are given, they begin with their own.
        """
        paths = [Path(pictures)] if isinstance(pictures, str | Path) else [Path(path) for path in pictures]
        for path in paths:
            require_exists(path, what="pictures")
        from laplacenet.data import Skipped
        from laplacenet.labeling.beside.joined_model import load_any_network
        from laplacenet.labeling.embeddings import graph_predictions, holds_graph_model, load_graph_model
        from laplacenet.labeling.feature_model import feature_predictions, holds_feature_model, load_feature_model
        from laplacenet.labeling.predictions import predictions, sources_of
        from laplacenet.runtime import choose_device

        sources = sources_of(paths)
        if holds_graph_model(self.path):
            return list(graph_predictions(load_graph_model(self.path), sources, monitor=monitor))
        place = choose_device(device)
        if holds_feature_model(self.path):
            found = feature_predictions(load_feature_model(self.path), sources, device=place, monitor=monitor)
        else:
            network, description = load_any_network(self.path)
            found = predictions(network.to(place), description, sources, monitor=monitor)
        return [one for one in found if not isinstance(one, Skipped)]

    def evaluate(self, truth: PathLike) -> "Evaluation":
        """The accuracy of the labels that were found, against a file of true labels."""
        require_exists(Path(truth), what="truth")
        from laplacenet.labeling.estimate import evaluate_labeling

        return evaluate_labeling(self.path, self.data, Path(truth))

    def report(self) -> Path:
        """Write `report.html` into the run folder; gives its path."""
        from laplacenet.reports.labeling_page import write_labeling_page

        return write_labeling_page(self.path)


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
    `steps` are the training steps of the first network and override it. `settings` are texts such as
    "graph.k=20". `features` says which network embeds the pictures of a folder: a pretrained one ("lite0", "lite1",
    "lite2", "timm:NAME", "FILE.onnx", with other weights from the file `weights`), "scratch" for one that is trained on
    them alone, or "auto", which says what it chose and why; options that only training has mean "scratch" then.
    `resume` goes on with a run folder, with `time_limit` alone; without one the run's own applies. The run of a review
    is labeled by its answers, which further `labels` join.

    `progress` makes an object that hears how it goes on. Ctrl-C stops training at the next step, saves, and raises
    `Interrupted`, a KeyboardInterrupt.
    """
    arguments, started_at = dict(locals()), monotonic()  # before torch is imported, which takes its time
    limit_s = None if time_limit is None else parse_duration(time_limit, option="--for")
    saves_every_s = parse_duration(checkpoint_every, option="--checkpoint-every")
    if resume is not None:
        folder = RunFolder.open(require_labeling(resume))
        require_kind(folder)
        is_review = (folder.path / ANSWERS).is_file()
        refuse_beside_resume(arguments, *(["labels"] if is_review else []))
        if is_review:
            hears = new_session(device, saves_every_s, progress, started_at).progress
            return label_by_answers(folder.path, label_files(labels), device, hears)
        return finish(sessions().resume(folder, limit_s, new_session(device, saves_every_s, progress, started_at)))
    named = label_files(labels)
    path, files, truth = require_inputs(pictures, [Path(file) for file in named], None if test is None else Path(test))
    require_numbers(size=size, steps=steps, batch_size=batch_size)
    require_prior(prior)
    require_free(out, [path, *files, truth], overwrite=overwrite)
    session = new_session(device, saves_every_s, progress, started_at)
    from laplacenet.labeling.settings import CollectionConfig, LabelingSettings, TimeConfig

    is_training = any(value is not None for value in (size, model, steps, batch_size))
    collection = CollectionConfig(
        pictures=located(path),
        labels=tuple(map(located, files)),
        test=None if truth is None else located(truth),
        size=size,
        strict=strict,
        features=chosen_features(path, features, is_training=is_training),
        weights=None if weights is None else located(Path(weights)),
        merge_classes=merge_classes,
    )
    shares = prior if isinstance(prior, str) else ",".join(map(str, prior))
    time = TimeConfig(limit_s, steps, suspects)
    asked = LabelingSettings(name=path.resolve().stem, seed=seed, prior=shares, collection=collection, time=time)
    texts = [*setting_texts(model, flip=flip, batch_size=batch_size), *settings]
    folder_of = partial(new_folder, out, f"{asked.name}-labels", inputs=[path, *files, truth], overwrite=overwrite)
    return finish(sessions().start(asked, texts, folder_of, session))


def chosen_features(pictures: Path, features: str, *, is_training: bool) -> str:
    """What `--features` means here; `auto` is decided later, where the pictures have been seen."""
    if features == "auto":
        return "scratch" if is_training or not pictures.is_dir() else features
    if features != "scratch" and not pictures.is_dir():
        raise InputError(f"--features {features}: {pictures} is no folder of pictures; leave --features out")
    from laplacenet.models.features.load import is_features_name, unknown_features

    if features != "scratch" and not is_features_name(features):
        raise unknown_features(features, "auto", "scratch")
    return str(Path(features).expanduser().resolve()) if features.endswith(".onnx") else features


def embed(
    pictures: PathLike,
    *,
    features: str = "lite0",
    weights: PathLike | None = None,
    cache: bool = True,
    device: str = "auto",
    monitor: "Monitor | None" = None,
) -> "Collection":
    """Vectors of a folder's pictures by a pretrained network, with their paths and the labels of its sub-folders.

    `.rows.vectors` has a row for each of `.names`; `.labels` is −1 where no sub-folder names a class.
    """
    require_exists(Path(pictures), what="pictures")
    from laplacenet.models.features import load_features
    from laplacenet.models.features.cache import cache_folder
    from laplacenet.models.features.folder import FolderReading, embed_folder
    from laplacenet.runtime import choose_device

    file = None if weights is None else Path(weights)
    network = load_features(features, weights=file, device=choose_device(device))
    reading = FolderReading(cache=cache_folder() if cache else None)
    return embed_folder(Path(pictures).expanduser(), network, reading, monitor=monitor)


def review(
    photos: PathLike,
    *,
    labels: PathLike | Sequence[PathLike] | None = None,
    out: PathLike | None = None,
    features: str | None = None,
    weights: PathLike | None = None,
    host: str = "127.0.0.1",
    port: int = 0,
    public: bool = False,
    browser: bool = True,
    device: str = "auto",
) -> "Review":
    """Label photos in the browser. `photos` is a folder of pictures, or the run folder of an earlier review.

    Serves until Ctrl-C, then writes labels.csv, the report and the model into the run folder. In a notebook it returns
    at once; the object shows the address, and its `stop` ends the review. `browser` opens the page. `public` lets other
    machines connect to `host`, unencrypted.
    """
    photos = Path(photos)
    require_exists(photos, what="a folder of pictures")
    from laplacenet.review.opening import Source
    from laplacenet.review.serve import Place, open_review

    source = Source(photos, None if out is None else Path(out), label_files(labels))
    is_notebook = "ipykernel" in sys.modules
    place = Place(host, port, opens_browser=browser and not is_notebook, is_public=public)
    with contextlib.ExitStack() as stack:
        found: Review = stack.enter_context(open_review(source, embedder_of(source, features, weights, device), place))
        print(found.address)
        if is_notebook:
            found.closing = stack.pop_all()
            return found.start()
        found.open_browser()
        found.serve()
        with contextlib.suppress(InputError):  # nothing was labeled: nothing is written
            found.write()
        return found


def label_files(labels: object) -> tuple[Path, ...]:
    """One label file, several or none, each of which is there."""
    named = [labels] if isinstance(labels, str | Path) else () if labels is None else labels
    if not isinstance(named, list | tuple) or not all(isinstance(file, str | Path) for file in named):
        raise InputError("labels: give a label file, or a list of them; save labels of arrays with numpy.save")
    files = tuple(Path(file) for file in named)
    for file in files:
        require_exists(file, what="--labels")
    return files


def embedder_of(source: "Source", features: str | None, weights: PathLike | None, device: str) -> "PretrainedEmbedder":
    """The pretrained network asked for, or that of the run."""
    from laplacenet.review.opening import features_of
    from laplacenet.review.pretrained import PretrainedEmbedder
    from laplacenet.runtime import choose_device

    name, file = features_of(source, features, None if weights is None else Path(weights))
    return PretrainedEmbedder(name, weights=file, device=choose_device(device))


def label_by_answers(run: Path, files: tuple[Path, ...], device: str, progress: "Progress") -> LabelingRun:
    """Label the pictures of a review by its answers; label files join them."""
    from laplacenet.review.opening import Source
    from laplacenet.review.serve import write_again
    from laplacenet.runtime import current_group

    def write() -> None:
        source = Source(run, labels=files)
        with progress.reading(str(source.pictures)) as monitor:
            write_again(source, embedder_of(source, None, None, device), on_progress=monitor.advance)

    current_group().by_first(write)
    return LabelingRun(run)


def finish(end: "SessionEnd") -> LabelingRun:
    """The run as it is now, with its page."""
    from laplacenet.runtime import current_group

    run = LabelingRun(end.folder.path, stages=end.stages, is_out_of_time=end.is_out_of_time)
    current_group().by_first(lambda: run.report() if run.has_labels else None)
    if end.signal is not None:
        raise Interrupted(run, end.signal)
    return run


def sessions() -> ModuleType:
    from laplacenet.labeling import session

    return session


def new_session(
    device: str, checkpoint_every_s: float, progress: "Callable[[], Progress] | None", started_at: float
) -> "LabelingSession":
    from laplacenet.labeling.session import new_session as session_on
    from laplacenet.runtime import choose_device, start_group
    from laplacenet.training import Execution

    # each stage has a network of its own, and would spend its time on compiling
    execution = Execution(choose_device(device), compile=False, checkpoint_every_s=checkpoint_every_s)
    start_group(execution.device)
    return session_on(execution, None if progress is None else progress(), started_at=started_at)


def new_folder(out: PathLike | None, name: str, *, inputs: Sequence[Path | None], overwrite: bool) -> RunFolder:
    """The folder asked for, or else the first free one of runs/NAME, runs/NAME-2, …; never one that holds an input."""
    if out is not None:
        require_apart(Path(out), inputs)
        return RunFolder.create(Path(out), overwrite=overwrite)
    path, number = Path("runs") / name, 2
    while not overwrite and path.exists() and any(path.iterdir()):
        path, number = Path("runs") / f"{name}-{number}", number + 1
    require_apart(path, inputs)
    return RunFolder.create(path, overwrite=overwrite)


def setting_texts(model: str | None, *, flip: bool, batch_size: int | None) -> list[str]:
    """The options that are short for settings, as --set takes them."""
    texts = [] if model is None else [f"model.name={model}"]
    texts += [] if flip else ["augment.flip=off"]
    if batch_size is None:
        return texts
    return [*texts, f"train.batch_size={batch_size}", f"train.labeled_batch_size={batch_size // 2}"]


def located(path: Path) -> str:
    """In full, so that the run folder finds its data from anywhere."""
    return str(path.expanduser().resolve())


def require_inputs(
    pictures: PathLike | None, labels: list[Path], test: Path | None
) -> tuple[Path, list[Path], Path | None]:
    """Refuse what is not there before anything is imported that takes time."""
    if pictures is None:
        raise InputError("nothing to label; name a folder of pictures or a file of embeddings, or --resume a run")
    path = Path(pictures).expanduser()
    if not path.is_dir() and path.suffix.lower() not in ARRAYS:
        what = "not something that can be labeled" if path.exists() else "no such file or folder"
        raise InputError(f"{path}: {what}; give a folder of pictures, or an .npz or .npy file of images or embeddings")
    require_exists(path, what="pictures")
    for file in labels:
        require_exists(file, what="--labels")
    if test is not None:
        require_exists(test, what="--test")
    return path, labels, test


def require_exists(path: Path, *, what: str) -> None:
    if not path.expanduser().exists():
        raise InputError(f"{path}: no such file or folder ({what})")


def require_free(out: PathLike | None, inputs: Sequence[Path | None], *, overwrite: bool) -> None:
    """Refuse a folder that holds a run or an input; `RunFolder.create` looks again, more closely."""
    if out is None:
        return
    require_apart(Path(out), inputs)
    if (Path(out) / EXPERIMENT).is_file() and not overwrite:
        raise InputError(f"{out}: exists already; choose another --out, or --overwrite, or --resume it")


def refuse_beside_resume(asked: dict[str, Any], *allowed: str) -> None:
    """Refuse arguments of a fresh run by name, all but these: a resumed one would pass over them."""
    taken = ("resume", "time_limit", "checkpoint_every", "device", "progress", *allowed)
    parameters = inspect.signature(label).parameters
    refused = [name for name, one in parameters.items() if name not in taken and is_set(asked[name], one.default)]
    if refused:
        raise InputError(f"resume takes all settings from its run folder; leave out {', '.join(refused)}")


def is_set(value: object, default: object) -> bool:
    """Whether an argument says something else than its default."""
    if isinstance(value, list | tuple):
        return len(value) > 0
    return type(value) is not type(default) or value != default


def require_numbers(**numbers: object) -> None:
    least = {"batch_size": 2}
    for name, number in numbers.items():
        if number is None:
            continue
        if isinstance(number, bool) or not isinstance(number, Integral) or int(number) < least.get(name, 1):
            raise InputError(f"--{name.removesuffix('_size')} {number}: {name} must be a positive number")


def require_prior(prior: str | Sequence[float]) -> None:
    """Words and numbers; how many numbers there must be is known when the classes are."""
    if isinstance(prior, str) and prior in PRIORS:
        return
    numbers = prior.split(",") if isinstance(prior, str) else prior
    try:
        is_usable = all(0 < float(number) < float("inf") for number in numbers)
    except (TypeError, ValueError):
        is_usable = False
    if not is_usable:
        raise InputError(f"--prior {prior}: choose {', '.join(PRIORS)} or give a positive number for each class")


def require_kind(folder: RunFolder) -> None:
    """Refuse to resume the run of another command that labels."""
    kind = folder.read_experiment().get("kind")
    if kind not in ("labeling", None):
        raise InputError(f"{folder.path}: is a run of {kind}; go on with laplacenet {kind} {folder.path}")


def require_labeling(path: PathLike) -> Path:
    """The folder of a run of `label`; a run of another kind is refused with the commands that know it."""
    if (Path(path) / "labeling.json").exists():
        return Path(path)
    if not (Path(path) / EXPERIMENT).is_file():
        raise InputError(f"{path}: not a run folder, and it holds no labeling; laplacenet label makes one")
    folder = RunFolder.open(Path(path))
    if "kind" not in folder.read_experiment():
        raise InputError(
            f"{path}: is no labeling but a run of training; laplacenet train --resume goes on with it,"
            " laplacenet evaluate judges it, laplacenet report draws its curves"
        )
    return folder.path
