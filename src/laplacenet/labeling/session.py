"""One session of a labeling: read the inputs, choose settings, compute the labels and write them."""

import contextlib
import shlex
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from signal import Signals

import torch

from laplacenet.data import SKIPPED
from laplacenet.data.names import in_one_line
from laplacenet.labeling.beside.contest import judging_folds
from laplacenet.labeling.beside.run import BesideRun, FrozenRun, same_pictures
from laplacenet.labeling.choices import (
    FeatureChoice,
    choose_features,
    chosen_size,
    settings_for,
    size_beside,
    training_graph,
    unused_notes,
    with_training_beside,
)
from laplacenet.labeling.features import (
    feature_choices,
    features_of,
    labels_of,
    pixels_for_time,
    read_feature_job,
    write_feature_labels,
)
from laplacenet.labeling.job import (
    Job,
    begin,
    input_changes_of,
    read_job,
    require_same_inputs,
    require_same_inputs_in_all,
)
from laplacenet.labeling.picture_run import picture_run, require_trainable_job
from laplacenet.labeling.pictures import PictureStages, StageProgress, describe_progress
from laplacenet.labeling.result import load_labeling, save_labeling
from laplacenet.labeling.settings import PRETRAINED, SCRATCH, LabelingSettings, read_settings
from laplacenet.labeling.stage_plan import FINAL, plan_steps, use_threads
from laplacenet.labeling.stages import PASS, STAGES, LabelingContext, StageEpoch
from laplacenet.models.features import FeatureNetwork
from laplacenet.runtime import (
    Interruption,
    Monitor,
    NullMonitor,
    RunFolder,
    TimedMonitor,
    TimeLimitError,
    current_group,
    entered_by_first,
)
from laplacenet.runtime.launch import program
from laplacenet.runtime.monitor import reading_ends_at
from laplacenet.runtime.peers import advising
from laplacenet.runtime.run_folder import EXPERIMENT, PROVENANCE
from laplacenet.training import DivergedError, Execution

DEFAULT_LIMIT_S = 240.0
"""For training on pictures, if neither a time limit nor a number of steps is given."""
LEAST_BESIDE_S = 30.0
"""Least time left for which a network is trained in addition to pretrained features."""
CHOOSING_SHARE = 0.4
"""The part of the time that --features auto may spend on testing a pretrained network; the rest is for training."""
EMBEDDED = "have been embedded and are in the cache; go on with: the same command, or with a longer --for"
READ = "have been read, no network has been trained; go on with: the same command and a longer --for"


class Progress:
    """Is told of the progress of a labeling; this one ignores it."""

    @contextlib.contextmanager
    def reading(self, name: str) -> Iterator[Monitor]:
        """While the inputs are read; the monitor counts them."""
        yield NullMonitor()

    def embedding(self, name: str) -> AbstractContextManager[Monitor]:
        """While a pretrained network embeds the pictures; the monitor counts them."""
        return self.reading(name)

    def warn(self, text: str) -> None:
        pass

    def chose(self, sentences: Sequence[str]) -> None:
        pass

    @contextlib.contextmanager
    def training(self, ends_at: float | None) -> Iterator[Callable[[StageEpoch], None]]:
        """While stages are trained; yields a function to call after each epoch. `ends_at` is by `time.monotonic`."""
        yield lambda record: None


@dataclass(frozen=True)
class LabelingSession:
    """The device and the observer of a labeling; `started_at` is by `time.monotonic`."""

    execution: Execution
    progress: Progress
    started_at: float

    def timed(self, monitor: Monitor, settings: LabelingSettings, *, share: float = 1.0) -> TimedMonitor:
        """The monitor, with a deadline after this share of the time limit."""
        limit_s = settings.time.limit_s
        ends_at = None if limit_s is None else self.started_at + share * limit_s
        return TimedMonitor(monitor, ends_at, what_then=EMBEDDED)

    def read_features(self, settings: LabelingSettings, network: FeatureNetwork) -> Job:
        with self.progress.embedding(settings.collection.pictures) as monitor:
            return read_feature_job(settings, network, self.timed(monitor, settings))

    def fit_to_time(
        self, settings: LabelingSettings, network: FeatureNetwork
    ) -> tuple[LabelingSettings, tuple[str, ...]]:
        """The settings with fewer pixels if the time limit requires it, and the reason."""
        if settings.time.limit_s is None:
            return settings, ()
        left_s = self.started_at + settings.time.limit_s - time.monotonic()
        pixels, why = current_group().by_first(lambda: pixels_for_time(settings, network, left_s=left_s))
        if pixels is None:
            return settings, ()
        return replace(settings, collection=replace(settings.collection, pixels=pixels)), (why,)

    def read(self, settings: LabelingSettings) -> Job:
        """Read the rows to train on; pictures only until the time is up, since then none is left for training.

        Several processes read to the end: they would not stop at the same picture.
        """
        limit_s = settings.time.limit_s
        if limit_s is None and settings.time.steps is None:
            limit_s = DEFAULT_LIMIT_S
        with self.progress.reading(settings.collection.pictures) as monitor:
            ends_at = None if current_group().reduces else reading_ends_at(limit_s, self.started_at)
            timed = TimedMonitor(monitor, ends_at, what_then=READ)
            return read_job(settings, timed)


@dataclass(frozen=True)
class SessionEnd:
    """How a session ended; `stages` is empty for embeddings, since nothing is trained."""

    folder: RunFolder
    stages: tuple[StageProgress, ...] = ()
    is_out_of_time: bool = False
    signal: Signals | None = None


def start(
    settings: LabelingSettings, texts: Sequence[str], new_folder: Callable[[], RunFolder], session: LabelingSession
) -> SessionEnd:
    """Label what the settings name; `section.field=value` texts override them.

    `new_folder` makes the run folder; it is called after all inputs have been checked.
    """
    with session.progress.reading(settings.collection.pictures) as monitor:
        timed = session.timed(monitor, settings, share=CHOOSING_SHARE)
        found = choose_features(settings, device=session.execution.device, monitor=timed)
    choice = current_group().by_first(lambda: found)
    settings = choice.settings
    if settings.collection.features != SCRATCH:
        return start_with_features(choice, texts, new_folder, session)
    size = chosen_size(settings.collection, session.execution.device)
    job = session.read(replace(settings, collection=replace(settings.collection, size=size)))
    settings = settings_for(job, texts, session.execution.device)
    if job.are_pictures and settings.time.limit_s is None and settings.time.steps is None:
        settings = replace(settings, time=replace(settings.time, limit_s=DEFAULT_LIMIT_S))
    job = replace(job, settings=settings, setting_notes=() if job.are_pictures else unused_notes(texts, settings))
    if job.are_pictures:
        require_trainable_job(job, session.execution)
    folder = create_folder(new_folder)
    for note in notes_on(job):
        session.progress.warn(note)
    with locked_run(folder):
        if job.are_pictures:
            return train_pictures(job, folder, session, is_new=True, why=choice.why)
        return label_by_features(job, folder, session, None)


def create_folder(new_folder: Callable[[], RunFolder]) -> RunFolder:
    return RunFolder(current_group().by_first(lambda: new_folder().path))


@contextlib.contextmanager
def locked_run(folder: RunFolder) -> Iterator[None]:
    """Lock the folder, in the first process; if another process is lost, say how to go on."""
    with entered_by_first(folder.locked()), advising(lambda: how_to_go_on(folder)):
        yield


def how_to_go_on(folder: RunFolder) -> str:
    if not folder.has(EXPERIMENT):
        return "the labeling has not begun; go on with: the same command"
    return f"go on with: {program()} label --resume {shlex.quote(str(folder.path))}"


def start_with_features(
    choice: FeatureChoice, texts: Sequence[str], new_folder: Callable[[], RunFolder], session: LabelingSession
) -> SessionEnd:
    """Label pictures by the vectors of a pretrained network."""
    settings = with_training_beside(choice.settings)
    if settings.beside:
        size = size_beside(settings, session.execution.device)
        limit_s = settings.time.limit_s or DEFAULT_LIMIT_S
        settings = replace(settings, time=replace(settings.time, limit_s=limit_s))
        settings = replace(settings, collection=replace(settings.collection, size=size))
    network = features_of(settings, session.execution.device)
    settings, why = session.fit_to_time(settings, network)
    network = features_of(settings, session.execution.device) if why else network
    job = session.read_features(settings, network)
    settings = settings_for(job, texts, session.execution.device)
    job = replace(job, settings=settings, setting_notes=unused_notes(texts, settings))
    folder = create_folder(new_folder)
    for note in notes_on(job):
        session.progress.warn(note)
    with locked_run(folder):
        return label_by_features(job, folder, session, network, why=(*choice.why, *why))


def label_by_features(
    job: Job, folder: RunFolder, session: LabelingSession, network: FeatureNetwork | None, *, why: tuple[str, ...] = ()
) -> SessionEnd:
    """Label by features and graph, which takes seconds; then train a network as well, if the settings say so.

    `network` is None for embeddings. The labels are written at once, unless an earlier session has written better ones.
    """
    group = current_group()
    require_same_inputs_in_all(job)
    has_changed = group.by_first(lambda: folder.has(PROVENANCE) and input_changes_of(job, folder) is not None)
    group.by_first(lambda: begin(job, folder, session.execution))
    choices = (*why, *feature_choices(job, network))
    session.progress.chose(choices)
    found = labels_of(job, session.execution.device)

    def write() -> None:
        if has_changed:
            folder.clear_stages()
            folder.restore_epoch_lines(b"")
        if not (folder.path / STAGES / FINAL / PASS).is_file():
            write_feature_labels(job, folder, network, found, choices=choices, started_at=session.started_at)

    group.by_first(write)
    if network is None or not job.settings.beside:
        return SessionEnd(folder)
    return train_beside(FrozenRun(job, network, found, choices), folder, session)


def keep_frozen(folder: RunFolder, choices: tuple[str, ...], session: LabelingSession) -> None:
    """Keep the labels of the frozen features; only the sentences about them change."""
    labeling = load_labeling(folder.path)
    elapsed_s = time.monotonic() - session.started_at
    save_labeling(
        folder.path, replace(labeling, summary=replace(labeling.summary, choices=choices, elapsed_s=elapsed_s))
    )


def train_beside(frozen: FrozenRun, folder: RunFolder, session: LabelingSession) -> SessionEnd:
    """Train a network in the time left; its labels replace those of the features if they are better."""
    settings, group = frozen.job.settings, current_group()
    folds = judging_folds(frozen.job.given, seed=settings.seed)
    left_s = session.started_at + (settings.time.limit_s or DEFAULT_LIMIT_S) - time.monotonic()
    if folds is None or group.agree(left_s < LEAST_BESIDE_S):
        why = "there are too few labels to test it" if folds is None else "the time is used up"
        session.progress.chose((f"No network is trained in addition: {why}.",))
        return SessionEnd(folder)
    try:
        images = session.read(replace(settings, graph=training_graph(frozen.job)))
    except TimeLimitError:
        session.progress.chose(("No network is trained in addition: the time is used up.",))
        return SessionEnd(folder)
    if group.agree(not same_pictures(frozen.job, images)):
        session.progress.warn("the pictures changed while they were read, so no network is trained on them")
        return SessionEnd(folder)
    watch = SignalMonitor()
    # pretrained features help a network that is fine-tuned from them, and may mislead one trained on other pictures
    X = frozen.labels.land.X if settings.beside == PRETRAINED else None
    context = LabelingContext(images, folder, session.execution, watch, session.started_at, frozen=X)
    run = BesideRun(frozen, context, folds)
    if not run.is_worthwhile:
        session.progress.chose(("No network is trained in addition: only a few steps would fit into the time.",))
        return SessionEnd(folder)
    # with several processes, one that runs out of memory ends all of them
    survived = DivergedError if group.reduces else (DivergedError, torch.OutOfMemoryError)
    with use_threads(run.context.job.settings.threads or torch.get_num_threads()):
        try:
            with watch, session.progress.training(run.ends_at) as show:
                for record in run.epochs():
                    show(record)
        except survived as error:
            session.progress.warn(
                f"training a network failed ({error}); the labels of the pretrained features are kept"
            )
            return SessionEnd(folder, progress_of(run.stages), signal=agreed_signal(watch))
        signal, stages = agreed_signal(watch), progress_of(run.stages)
        if signal is None and not group.by_first(lambda: run.is_decided):
            session.progress.warn(
                f"the time was up before the additional network was trained ({describe_progress(stages)}), so the"
                f" labels of the pretrained features are kept; {how_to_go_on(folder)}"
            )
        else:
            session.progress.chose(group.by_first(run.sentences))
        group.by_first(lambda: write_beside(run, session))
    return SessionEnd(folder, stages, signal=signal)


def write_beside(run: BesideRun, session: LabelingSession) -> None:
    """Write the labels of the winner, or keep those of the frozen features with new sentences about them."""
    if run.write() is None:
        keep_frozen(run.context.folder, (*run.frozen.choices, *run.sentences()), session)


def progress_of(stages: PictureStages) -> tuple[StageProgress, ...]:
    return current_group().by_first(lambda: tuple(stages.progress()))


def agreed_signal(watch: "SignalMonitor") -> Signals | None:
    """The signal that ended the session, even if only another process received it."""
    if not current_group().agree(watch.signal is not None):
        return None
    return watch.signal or Signals.SIGTERM


def resume(folder: RunFolder, limit_s: float | None, session: LabelingSession) -> SessionEnd:
    """Resume the labeling in this folder; `limit_s` is the time for this session, None for that of the run."""
    settings = current_group().by_first(lambda: read_settings(folder))
    if limit_s is not None:
        settings = replace(settings, time=replace(settings.time, limit_s=limit_s))
    if settings.collection.features != SCRATCH:
        network = features_of(settings, session.execution.device)
        job = session.read_features(settings, network)
        with locked_run(folder):
            warn_of_changes(job, folder, session)
            return label_by_features(job, folder, session, network)
    job = session.read(settings)
    with locked_run(folder):
        if job.are_pictures:
            current_group().by_first(lambda: require_same_inputs(job, folder))
            return train_pictures(job, folder, session, is_new=False)
        warn_of_changes(job, folder, session)
        return label_by_features(job, folder, session, None)


def warn_of_changes(job: Job, folder: RunFolder, session: LabelingSession) -> None:
    """Changed inputs are accepted if nothing was trained: the labels are computed from the current ones."""
    if changes := current_group().by_first(lambda: input_changes_of(job, folder)):
        session.progress.warn(f"the inputs have changed ({changes}); all rows are labeled again")
    for note in notes_on(job):
        session.progress.warn(note)


def train_pictures(
    job: Job, folder: RunFolder, session: LabelingSession, *, is_new: bool, why: tuple[str, ...] = ()
) -> SessionEnd:
    """Train and label in stages until done, out of time or stopped by a signal; `why` says why a network is trained."""
    watch, group = SignalMonitor(), current_group()
    require_same_inputs_in_all(job)
    context, step_s = plan_steps(LabelingContext(job, folder, session.execution, watch, session.started_at))
    if is_new:
        group.by_first(lambda: begin(context.job, folder, session.execution))
    with use_threads(context.job.settings.threads or torch.get_num_threads()):
        run = picture_run(context, step_s=step_s, why=why)
        group.by_first(lambda: run.stages.has_sound_passes)  # read before anything is added to them
        session.progress.chose(run.choices)
        with watch, session.progress.training(run.ends_at) as show:
            for record in run.epochs():
                show(record)
    stages = run.stages
    is_late = group.by_first(lambda: stages.is_out_of_time and not stages.are_done)
    return SessionEnd(folder, progress_of(stages), is_late, agreed_signal(watch))


class SignalMonitor:
    """Stops the work at its next step after a signal; only the main thread receives signals."""

    def __init__(self) -> None:
        is_main = threading.current_thread() is threading.main_thread()
        self.interruption = Interruption() if is_main else None

    def __enter__(self) -> None:
        if self.interruption is not None:
            self.interruption.__enter__()

    def __exit__(self, *error: object) -> None:
        if self.interruption is not None:
            self.interruption.__exit__(None, None, None)

    @property
    def signal(self) -> Signals | None:
        return None if self.interruption is None else self.interruption.signal

    @property
    def should_stop(self) -> bool:
        return self.signal is not None

    def advance(self, n: int) -> None:
        pass


def notes_on(job: Job) -> list[str]:
    notes, skipped = list(job.notes), job.collection.skipped
    if skipped:
        first = f"{in_one_line(skipped[0].path)}: {in_one_line(skipped[0].reason)}"
        n = "1 file was skipped and is" if len(skipped) == 1 else f"{len(skipped)} files were skipped and are"
        notes.insert(0, f"{n} listed in {SKIPPED}; {'' if len(skipped) == 1 else 'the first, '}{first}")
    return notes


def new_session(
    execution: Execution, progress: Progress | None = None, *, started_at: float | None = None
) -> LabelingSession:
    """The time limit counts from `started_at`, by `time.monotonic`; from now if it is None."""
    return LabelingSession(execution, progress or Progress(), time.monotonic() if started_at is None else started_at)
