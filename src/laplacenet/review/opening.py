"""Open the run folder of a review, new or with its earlier answers."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from laplacenet.data.label_files import labels_by_name, numbered_labels, predicted_notes
from laplacenet.labeling.result import SUMMARY, load_labeling
from laplacenet.labeling.settings import KIND, SCRATCH, CollectionConfig, LabelingSettings
from laplacenet.models.features.load import located_features
from laplacenet.review.embedding import Embedder
from laplacenet.review.journal import Journal
from laplacenet.review.photos import find_photos
from laplacenet.review.pretrained import PretrainedEmbedder
from laplacenet.review.session import Session
from laplacenet.review.state import FILE
from laplacenet.runtime import InputError, RunFolder
from laplacenet.runtime.run_folder import ANSWERS, EXPERIMENT
from laplacenet.runtime.settings import from_json, to_json

FEATURES = "lite0"


@dataclass(frozen=True)
class Source:
    """`photos` is a folder of pictures, or the run folder of a review or of `label`; `labels` are files of answers."""

    photos: Path
    out: Path | None = None
    labels: tuple[Path, ...] = ()
    seed: int = 0

    @property
    def is_run(self) -> bool:
        return self.out is None and (self.photos / EXPERIMENT).is_file()

    @property
    def run(self) -> Path:
        if self.out is not None:
            return self.out
        return self.photos if self.is_run else Path("runs") / f"{self.photos.resolve().name}-review"

    @property
    def pictures(self) -> Path:
        return Path(settings_of(self.photos).collection.pictures) if self.is_run else self.photos


@dataclass(frozen=True, eq=False)
class Opened:
    folder: RunFolder
    photos: Path
    session: Session


@contextlib.contextmanager
def open_session(source: Source, embedder: Embedder) -> Iterator[Opened]:
    """Locked against other processes until the end of the block."""
    photos = source.pictures
    found = find_photos(photos, leave_out=source.run)
    folder, settings = run_folder(source.run, photos, seed=source.seed)
    with folder.locked():
        folder.write_experiment(to_json(with_network(settings, embedder)))
        with contextlib.closing(Journal(folder.path / ANSWERS)) as journal:
            session = Session(found, journal, embedder, seed=source.seed)
            if holds_only_files(journal):
                join_earlier_labels(session, folder.path)
            for file in source.labels:
                join_labels(session, file, photos)
            yield Opened(folder, photos, session)


def holds_only_files(journal: Journal) -> bool:
    """Whether nobody has answered yet, so that labels may be joined again: a start may have failed halfway."""
    return all(entry.kind == "class" or entry.content.get("via") == FILE for entry in journal.entries)


def features_of(source: Source, features: str | None, weights: Path | None) -> tuple[str, Path | None]:
    """The network that embeds the pictures: the one given, else the one of the run, else `lite0`."""
    file = None if weights is None else weights.expanduser().resolve()
    if features is not None:
        return located_features(features), file
    if (source.run / EXPERIMENT).is_file():
        before = settings_of(source.run).collection
        if before.features not in (SCRATCH, "auto"):
            kept = None if before.weights is None else Path(before.weights)
            if file is not None and (kept is None or kept.resolve() != file):
                raise InputError(
                    f"--weights {weights}: the run {source.run} uses {before.features} already; add --features with the"
                    " network of these weights, or leave --weights out"
                )
            return before.features, kept
    return FEATURES, file


def settings_of(run: Path) -> LabelingSettings:
    content = RunFolder.open(run).read_experiment()
    if content.get("kind") != KIND:
        raise InputError(f"{run}: not a run of review or label; give one, or a folder of pictures")
    return from_json(LabelingSettings(), content, source=str(run / EXPERIMENT))


def run_folder(out: Path, photos: Path, *, seed: int) -> tuple[RunFolder, LabelingSettings]:
    """A new one, or that of a run of the same pictures."""
    if (out / EXPERIMENT).is_file():
        settings = settings_of(out)
        before = Path(settings.collection.pictures)
        if before.resolve() != photos.resolve():
            raise InputError(f"{out}: a run of {before}, not of {photos}; choose another --out")
        return RunFolder.open(out), settings
    settings = LabelingSettings(name=photos.resolve().name, seed=seed)
    return RunFolder.create(out), replace(settings, collection=CollectionConfig(pictures=str(photos.resolve())))


def with_network(settings: LabelingSettings, embedder: Embedder) -> LabelingSettings:
    """The settings with the network that embeds the pictures, so that the run folder records it."""
    if not isinstance(embedder, PretrainedEmbedder):
        return settings
    weights = None if embedder.weights is None else str(embedder.weights)
    return replace(settings, collection=replace(settings.collection, features=embedder.name, weights=weights))


def join_earlier_labels(session: Session, run: Path) -> None:
    """The labels that a run of `label` was given, by files or by sub-folders, are the first answers."""
    if not (run / SUMMARY).is_file():
        for file in settings_of(run).collection.labels:
            if Path(file).is_file():
                join_labels(session, Path(file), Path(settings_of(run).collection.pictures))
        return
    labeling = load_labeling(run)
    names = labeling.summary.class_names
    given = {
        session.row_of[name]: names[label]
        for name, label in zip(labeling.names, labeling.given.tolist(), strict=True)
        if label >= 0 and name in session.row_of
    }
    session.add_labels("label", given)


def join_labels(session: Session, labels: Path, photos: Path) -> int:
    """Add the labels of a file to the journal; returns how many were new."""
    names = tuple(photo.name for photo in session.photos)
    found = labels_by_name([labels], names, root=photos)
    session.journal.notes.extend(predicted_notes(found))
    numbers, class_names = numbered_labels(found, len(names), where=str(labels))
    given = {row: class_names[label] for row, label in enumerate(numbers.tolist()) if label >= 0}
    return session.add_labels(f"file {labels.name}"[:40], given)
