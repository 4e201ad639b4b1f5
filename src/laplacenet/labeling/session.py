"""One session of a labeling: read the inputs, choose settings, then train or ask the graph, and write the labels."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from signal import Signals

import torch

from laplacenet.data import SKIPPED
from laplacenet.data.names import in_one_line
from laplacenet.labeling.choices import FeatureChoice, choose_features, chosen_size, settings_for
from laplacenet.labeling.embeddings import graph_choices, run_on_embeddings
from laplacenet.labeling.features import TimedMonitor, feature_choices, features_of, read_feature_job, run_on_features
from laplacenet.labeling.job import Job, begin, input_changes_of, read_job, require_same_inputs
from laplacenet.labeling.picture_run import picture_run, require_trainable
from laplacenet.labeling.pictures import StageProgress
from laplacenet.labeling.settings import SCRATCH, LabelingSettings, read_settings
from laplacenet.labeling.stage_plan import plan_steps, use_threads
from laplacenet.labeling.stages import LabelingContext, StageEpoch
from laplacenet.models.features import FeatureNetwork
from laplacenet.runtime import Interruption, Monitor, NullMonitor, RunFolder
from laplacenet.training import Execution

DEFAULT_LIMIT_S = 240.0
"""For training on pictures, where neither time nor steps were asked for."""
CHOOSING_SHARE = 0.4
"""Of the time: what --features auto may take to judge a pretrained network; a network is trained in the rest."""


class Progress:
    """Hears how a labeling goes on; this one says nothing."""

    @contextlib.contextmanager
    def reading(self, name: str) -> Iterator[Monitor]:
        """While the inputs are read; the monitor counts them."""
        yield NullMonitor()

    def warn(self, text: str) -> None:
        pass

    def chose(self, sentences: Sequence[str]) -> None:
        pass

    @contextlib.contextmanager
    def training(self, ends_at: float | None) -> Iterator[Callable[[StageEpoch], None]]:
        """While stages are trained; what it yields is called after each epoch. `ends_at` is by `time.monotonic`."""
        yield lambda record: None


@dataclass(frozen=True)
class LabelingSession:
    """Where a labeling runs and who watches it; `started_at` is by `time.monotonic`."""

    execution: Execution
    progress: Progress
    started_at: float

    def timed(self, monitor: Monitor, settings: LabelingSettings, *, share: float = 1.0) -> TimedMonitor:
        """The monitor, with this share of the time that the settings allow."""
        limit_s = settings.time.limit_s
        return TimedMonitor(monitor, None if limit_s is None else self.started_at + share * limit_s)

    def read_features(self, settings: LabelingSettings, network: FeatureNetwork) -> Job:
        with self.progress.reading(settings.collection.pictures) as monitor:
            return read_feature_job(settings, network, self.timed(monitor, settings))

    def read(self, settings: LabelingSettings) -> Job:
        with self.progress.reading(settings.collection.pictures) as monitor:
            return read_job(settings, monitor)


@dataclass(frozen=True)
class SessionEnd:
    """How a session ended; `stages` is empty for embeddings, which the graph labels at once."""

    folder: RunFolder
    stages: tuple[StageProgress, ...] = ()
    is_out_of_time: bool = False
    signal: Signals | None = None


def start(
    settings: LabelingSettings, texts: Sequence[str], new_folder: Callable[[], RunFolder], session: LabelingSession
) -> SessionEnd:
    """Label what the settings name, with `section.field=value` texts above them.

    `new_folder` makes the run folder; it is called when all that can be refused has been.
    """
    with session.progress.reading(settings.collection.pictures) as monitor:
        timed = session.timed(monitor, settings, share=CHOOSING_SHARE)
        choice = choose_features(settings, device=session.execution.device, monitor=timed)
    settings = choice.settings
    if settings.collection.features != SCRATCH:
        return start_with_features(choice, texts, new_folder, session)
    size = chosen_size(settings.collection, session.execution.device)
    job = session.read(replace(settings, collection=replace(settings.collection, size=size)))
    settings = settings_for(job, texts, session.execution.device)
    if job.are_pictures and settings.time.limit_s is None and settings.time.steps is None:
        settings = replace(settings, time=replace(settings.time, limit_s=DEFAULT_LIMIT_S))
    job = replace(job, settings=settings)
    if job.are_pictures:
        require_trainable(job, session.execution)
    folder = new_folder()
    for note in notes_on(job):
        session.progress.warn(note)
    with folder.locked():
        if job.are_pictures:
            return train_pictures(job, folder, session, is_new=True, why=choice.why)
        return spread(job, folder, session)


def start_with_features(
    choice: FeatureChoice, texts: Sequence[str], new_folder: Callable[[], RunFolder], session: LabelingSession
) -> SessionEnd:
    """Label pictures that a pretrained network looks at."""
    settings = choice.settings
    network = features_of(settings, session.execution.device)
    job = session.read_features(settings, network)
    job = replace(job, settings=settings_for(job, texts, session.execution.device))
    folder = new_folder()
    for note in notes_on(job):
        session.progress.warn(note)
    with folder.locked():
        return label_by_features(job, folder, session, network, why=choice.why)


def label_by_features(
    job: Job, folder: RunFolder, session: LabelingSession, network: FeatureNetwork, *, why: tuple[str, ...] = ()
) -> SessionEnd:
    """Seconds, and always from the start."""
    begin(job, folder, session.execution)
    choices = (*why, *feature_choices(job, network))
    session.progress.chose(choices)
    run_on_features(job, folder, network, choices=choices, execution=session.execution, started_at=session.started_at)
    return SessionEnd(folder)


def resume(folder: RunFolder, limit_s: float | None, session: LabelingSession) -> SessionEnd:
    """Go on with the labeling in this folder; `limit_s` is the time for this session, None for that of the run."""
    settings = read_settings(folder)
    if limit_s is not None:
        settings = replace(settings, time=replace(settings.time, limit_s=limit_s))
    if settings.collection.features != SCRATCH:
        network = features_of(settings, session.execution.device)
        job = session.read_features(settings, network)
        with folder.locked():
            warn_of_changes(job, folder, session)
            return label_by_features(job, folder, session, network)
    job = session.read(settings)
    with folder.locked():
        if job.are_pictures:
            require_same_inputs(job, folder)
            return train_pictures(job, folder, session, is_new=False)
        warn_of_changes(job, folder, session)
        return spread(job, folder, session)


def warn_of_changes(job: Job, folder: RunFolder, session: LabelingSession) -> None:
    """Where nothing was trained, other inputs are no reason to refuse: what is there now is labeled."""
    if changes := input_changes_of(job, folder):
        session.progress.warn(f"the inputs have changed ({changes}); all rows are labeled anew")
    for note in notes_on(job):
        session.progress.warn(note)


def spread(job: Job, folder: RunFolder, session: LabelingSession) -> SessionEnd:
    """Label embeddings: seconds, and always from the start."""
    begin(job, folder, session.execution)
    session.progress.chose(graph_choices(job))
    run_on_embeddings(job, folder, execution=session.execution, started_at=session.started_at)
    return SessionEnd(folder)


def train_pictures(
    job: Job, folder: RunFolder, session: LabelingSession, *, is_new: bool, why: tuple[str, ...] = ()
) -> SessionEnd:
    """Train and label in stages, until they are done or a signal or the time says stop; `why` a network is trained."""
    watch = SignalMonitor()
    context, step_s = plan_steps(LabelingContext(job, folder, session.execution, watch, session.started_at))
    if is_new:
        begin(context.job, folder, session.execution)
    with use_threads(context.job.settings.threads or torch.get_num_threads()):
        run = picture_run(context, step_s=step_s, why=why)
        run.stages.passes()  # what earlier sessions left is read before anything is added to it
        session.progress.chose(run.choices)
        with watch, session.progress.training(run.ends_at) as show:
            for record in run.epochs():
                show(record)
    stages = run.stages
    is_late = stages.is_out_of_time and not stages.are_done
    return SessionEnd(folder, tuple(stages.progress()), is_late, watch.signal)


class SignalMonitor:
    """Stops the work at its next step when a signal came; only the main thread hears of signals."""

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
        notes.insert(0, f"{len(skipped)} files were skipped and are listed in {SKIPPED}; the first, {first}")
    return notes


def new_session(execution: Execution, progress: Progress | None = None) -> LabelingSession:
    return LabelingSession(execution, progress or Progress(), time.monotonic())
