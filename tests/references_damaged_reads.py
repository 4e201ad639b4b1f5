"""Any file that any command reads, damaged in any way: the same result, or one line and exit code 2."""

import contextlib
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image
from references_campaign import DONE, REFUSED, Ended, damage, empty, fresh_copy, run_command, working_in
from references_labeling import clusters, drawn_evenly, some_given
from references_runs import write_bars

from laplacenet.runtime.files import CHECKSUM, checksum

TINY = ("--set", "train.steps=4", "--set", "train.batch_size=24", "--set", "train.labeled_batch_size=4")
TIMES = ("time ", "run folder")


@dataclass(frozen=True)
class Reader:
    """A command and the files, below the place where it runs, that it reads. What is the user's own (`inputs`) may
    change the result; a file of a run may not."""

    words: tuple[str, ...]
    files: tuple[str, ...]
    inputs: tuple[str, ...] = ()


READERS = (
    Reader(("evaluate", "run"), ("run/*.json", "run/model.safetensors"), ("bars.npz",)),
    Reader(("predict", "run", "bars.npz"), ("run/model.json", "run/model.safetensors"), ("bars.npz",)),
    Reader(("report", "run"), ("run/epochs.jsonl", "run/final.json", "run/experiment.json")),
    Reader(("train", "--resume", "stopped"), ("stopped/*.json*", "stopped/checkpoint/*"), ("bars.npz",)),
    Reader(("train", "bars.npz", "--labels", "rows.txt", "--out", "new", *TINY), (), ("bars.npz", "rows.txt")),
    Reader(("next", "labels", "-n", "5"), ("labels/labeling.json", "labels/labeling.safetensors")),
    Reader(("report", "labels"), ("labels/labeling.json", "labels/labeling.safetensors")),
    Reader(("predict", "labels", "mine.npz"), ("labels/model.json", "labels/model.safetensors"), ("mine.npz",)),
    Reader(("label", "mine.npz", "--labels", "given.npy", "--out", "new"), (), ("mine.npz", "given.npy")),
    Reader(("label", "--resume", "labels"), ("labels/*.json",), ("mine.npz",)),
    Reader(("data", "photos"), (), ("photos/a/0.png", "photos/b/1.jpg")),
)


def write_embeddings(path: Path) -> None:
    points, truth = clusters(60, 3, noise=0.5)
    given = some_given(truth, drawn_evenly(truth, 5, seed=0)).numpy()
    np.savez(path / "mine.npz", embeddings=points.numpy(), labels=given)
    np.save(path / "given.npy", given)


def make_place(path: Path) -> Path:
    """A finished run, a stopped one, a labeling, and what they were made from."""
    path.mkdir(parents=True, exist_ok=True)
    write_bars(path / "bars.npz")
    write_embeddings(path)
    (path / "rows.txt").write_text("0\n1\n2\n3\n4\n5\n")
    for name, size in (("a/0.png", (9, 9)), ("b/1.jpg", (12, 9))):
        (path / "photos" / name).parent.mkdir(parents=True)
        Image.effect_noise(size, 60).save(path / "photos" / name)
    with working_in(path):
        for words, code in (
            (("train", "bars.npz", "--labels", "9", "--out", "run", *TINY), 0),
            (("train", "bars.npz", "--labels", "9", "--out", "stopped", "--for", "0.000001s", *TINY), 3),
            (("label", "mine.npz", "--out", "labels"), 0),
        ):
            ended = run_command(*words)
            assert ended.code == code, ended
    return path


def result(ended: Ended, place: Path) -> list[str]:
    """What must not change: what is printed, without times, and the pages and tables that were written."""
    return [line for line in ended.out.splitlines() if not line.startswith(TIMES)]


def files_of(reader: Reader, place: Path) -> list[Path]:
    patterns = (*reader.files, *reader.inputs)
    return sorted({path for pattern in patterns for path in place.glob(pattern) if path.is_file()})


class Damages:
    """Cases for a campaign: one reader, one of its files, one damage."""

    def __init__(self, place: Path, work: Path) -> None:
        self.place, self.work = place, work
        self.good: dict[tuple[str, ...], list[str]] = {}

    def __call__(self, rng: random.Random) -> str:
        reader = rng.choice(READERS)
        if reader.words not in self.good:
            ended = run_command(*reader.words)
            assert ended.code == 0, f"{' '.join(reader.words)} undamaged: {ended}"
            self.good[reader.words] = result(ended, self.work)
            self.restore()
        file = rng.choice(files_of(reader, self.work))
        name = str(file.relative_to(self.work))
        kind = damage(file, rng)
        said = f"{' '.join(reader.words)} with {name} damaged ({kind})"
        try:
            return self.judged(run_command(*reader.words), reader, name, said)
        finally:
            self.restore()

    def judged(self, ended: Ended, reader: Reader, name: str, said: str) -> str:
        assert not ended.fault, f"{said}:\n{ended.fault}"
        if ended.is_refusal:
            return REFUSED
        assert ended.code == 0, f"{said}: exit code {ended.code}: {ended.err}"
        may_change = name in reader.inputs or "value" in said  # a plausible value under a right checksum
        assert may_change or result(ended, self.work) == self.good[reader.words], (
            f"{said} changed the result in silence"
        )
        return DONE

    def restore(self) -> None:
        empty(self.work)
        fresh_copy(self.place, self.work / "copy")
        for entry in (self.work / "copy").iterdir():
            entry.rename(self.work / entry.name)
        (self.work / "copy").rmdir()


@contextlib.contextmanager
def damages(place: Path, work: Path) -> Iterator[Damages]:
    """The cases on copies of `place`, in `work`."""
    with working_in(work):
        cases = Damages(place, work)
        cases.restore()
        yield cases


@contextlib.contextmanager
def damaged_reads(folder: Path) -> Iterator[Damages]:
    with damages(make_place(folder / "place"), folder / "work") as cases:
        yield cases


def with_value(path: Path, **values: object) -> None:
    """Another value under a right checksum."""
    found = json.loads(path.read_text()) | values
    found.pop(CHECKSUM)
    path.write_text(json.dumps(found | {CHECKSUM: checksum(found)}))


def with_method_name(path: Path, name: object) -> None:
    with_value(path, method={"name": name})
