"""A folder of pictures as vectors, with the labels that its sub-folders or label files give."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from jaxtyping import UInt8
from torch import Tensor

from laplacenet.data import Collection, Skipped, VectorSet
from laplacenet.data.classes import label_notes
from laplacenet.data.collection import ReadingOptions, collected_labels, names_of
from laplacenet.data.prepared import find_prepared
from laplacenet.data.walking import FolderParts, find_pictures, nothing_found, parted
from laplacenet.models.features.embedding import Decoder, embed_pictures
from laplacenet.models.features.network import FeatureNetwork
from laplacenet.runtime import InputError, Monitor, NullMonitor, TimeLimitError, current_group
from laplacenet.runtime.monitor import expect


@dataclass(frozen=True)
class FolderReading:
    """Which pictures and labels are read, and the folder of the cache (None: none)."""

    label_files: Sequence[Path] = ()
    options: ReadingOptions = field(default_factory=ReadingOptions)
    cache: Path | None = None


def picture_files(folder: Path, reading: FolderReading) -> tuple[FolderParts, list[Skipped]]:
    """The pictures to embed, found before the network is loaded, and the files that were skipped."""
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder; give a folder of pictures")
    files, skipped = find_pictures(folder, leave_out=reading.options.leave_out)
    parts = FolderParts(tuple(files), (), 0, 0) if reading.label_files else parted(folder, files)
    if not parts.train:
        raise InputError(nothing_found(folder, skipped))
    return parts, skipped


def embed_folder(
    folder: Path, features: FeatureNetwork, reading: FolderReading | None = None, *, monitor: Monitor | None = None
) -> Collection:
    """A row for each picture that can be read, under its path below the folder; the others are in `skipped`."""
    reading, monitor = reading or FolderReading(), monitor or NullMonitor()
    parts, skipped = picture_files(folder, reading)
    labels, class_names, warnings = collected_labels(
        parts, folder, reading.label_files, skipped=skipped, options=reading.options
    )
    paths = [file.path for file in parts.train]
    expect(monitor, len(paths))
    found = embed_pictures(
        paths, features, cache=reading.cache, monitor=monitor, decode_file=prepared_decoder(parts, features.pixels)
    )
    skipped += [Skipped(parts.train[position].name, reason) for position, reason in found.failures.items()]
    if not found.kept:
        raise InputError(nothing_found(folder, skipped))
    kept = list(found.kept)
    names = names_of(parts.train, kept)
    rows = VectorSet(found.vectors, labels[kept], class_names)
    notes = (*warnings, *label_notes(rows.labels, class_names))
    return Collection(rows, names, folder, tuple(skipped), notes)


def embed_share(parts: FolderParts, features: FeatureNetwork, reading: FolderReading, *, monitor: Monitor) -> None:
    """Of several processes each puts its share of the vectors into the cache; when one returns, all are there.

    Shares are every n-th file: what an interrupted run has left to do is then spread over all.
    """
    group = current_group()
    if not group.reduces:
        return
    late: TimeLimitError | None = None
    if reading.cache is None:
        raise InputError("--no-cache: several processes exchange vectors through the cache; leave it out")
    own = range(group.rank, len(parts.train), group.size)
    decode_file = prepared_decoder(parts, features.pixels)
    expect(monitor, len(parts.train))
    try:
        monitor.advance(len(parts.train) - len(own))
        embed_pictures(
            [parts.train[position].path for position in own],
            features,
            cache=reading.cache,
            monitor=monitor,
            decode_file=None if decode_file is None else lambda place, pixels: decode_file(own[place], pixels),
        )
    except TimeLimitError as error:
        late = error
    if group.agree(late is not None):  # one process that is late ends all
        raise late or TimeLimitError("time is up; the vectors so far are in the cache; go on with: the same command")


def embed_together(
    folder: Path, features: FeatureNetwork, reading: FolderReading, *, monitor: Monitor | None = None
) -> Collection:
    """`embed_folder` by all processes: each embeds its share, then all have the vectors of all."""
    monitor = monitor or NullMonitor()
    if current_group().reduces:
        parts, _ = picture_files(folder, reading)
        embed_share(parts, features, reading, monitor=monitor)
        monitor = NullMonitor()  # these have been counted
    return embed_folder(folder, features, reading, monitor=monitor)


def prepared_decoder(parts: FolderParts, pixels: int) -> Decoder | None:
    """Pictures from the file in which they were prepared at this size, if they were."""
    found = find_prepared(parts.train, pixels)
    if found is None:
        return None
    rows = {position: row for row, position in enumerate(found.kept)}
    reasons = {file.path: file.reason for file in found.skipped}

    def decode_file(position: int, _: int) -> UInt8[Tensor, "3 h w"]:
        if position not in rows:
            raise ValueError(reasons[parts.train[position].name])
        found.require_whole(rows[position], rows[position] + 1)
        return found.images[rows[position]]

    return decode_file
