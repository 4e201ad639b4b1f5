"""Any file that any command reads, damaged in any way: the same result, or one line and exit code 2."""

import contextlib
import json
import os
import random
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import numpy as np
from PIL import Image
from references_campaign import (
    DONE,
    REFUSED,
    Ended,
    damage,
    empty,
    fresh_copy,
    run_command,
    run_until_killed,
    working_in,
)
from references_labeling import clusters, drawn_evenly, some_given, striped
from references_runs import write_bars

from laplacenet.models.features import installed_lite
from laplacenet.runtime.files import CHECKSUM, checksum

EMBEDDED = (
    (("label", "striped", "--labels", "given.csv", "--features", "lite0", "--out", "seen"), 0),
    (("label", "striped", "--labels", "given.csv", "--features", "lite0", "--seed", "1", "--out", "seen-twin"), 0),
    (("embed", "KEPT", "--out", "gone.npz"), 0),
)
TINY = ("--set", "train.steps=4", "--set", "train.batch_size=24", "--set", "train.labeled_batch_size=4")
TIMES = ("time ", "run folder", "runs/")  # the last: a run of a comparison that was noted again


PICTURES = ("label", "striped", "--labels", "given.csv", "--features", "scratch", "--no-flip", "--no-suspects")
PICTURES += ("--steps", "4", "--batch", "12", "--size", "16", "--set", "graph.k=5")
COMPARE = ("compare", "digits", "--methods", "supervised,fixmatch", "--labels", "20", "--steps", "2")
COMPARE += ("--set", "train.batch_size=24", "--set", "train.labeled_batch_size=4", "--out", "compared")
RESUME_PICS, RESUME_CUT = ("label", "--resume", "pics"), ("label", "--resume", "cut")
N_PICTURES, N_GIVEN = 24, 18
KEPT = "KEPT"
"""Stands for pictures that are never copied: a cache knows them by their files."""
CACHE = "cache"
RESULTS = Path(__file__).parents[1] / "results"
SOME_RESULTS = ("figure-2/record.json", "cifar100-4000/*.json", "bench/*.json")


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
    Reader(("report", "pics"), ("pics/*.json", "pics/*.safetensors", "pics/epochs.jsonl")),
    Reader(("next", "pics", "-n", "4"), ("pics/labeling.*", "pics/gallery.safetensors")),
    Reader(("predict", "pics", "striped"), ("pics/model.*",), ("striped/003.png",)),
    Reader(("evaluate", "pics"), ("pics/*.json", "pics/*.safetensors")),
    Reader(("export", "pics", "--format", "torch-export", "--out", "new.pt2"), ("pics/model.*",)),
    Reader(COMPARE, ("compared/*.json", "compared/finished/*.json"), ("compared/record.json",)),
    Reader(("train", "bars.npz", "--labels", "split.csv", "--out", "new", *TINY), (), ("split.csv",)),
    Reader(("data", KEPT), ("cache/pictures/*/*.json", "cache/pictures/*/*/*")),
    Reader(("data", KEPT, "--prepare"), ("cache/pictures/*/*.json", "cache/pictures/*/*/*")),
    Reader((*COMPARE, "--record", "copy.json"), ("compared/*.json",), ("copy.json",)),
    Reader(("report", "--results", "results", "--out", "page"), (), ("results/*/*.json",)),
    Reader(RESUME_PICS, ("pics/*.json*", "pics/*.safetensors", "pics/stages/*/*", "pics/stages/*/checkpoint/*")),
    Reader(RESUME_CUT, ("cut/*.json*", "cut/stages/*/*", "cut/stages/*/checkpoint/*")),
)
if "lite0" in installed_lite():
    READERS += (
        Reader(("embed", KEPT, "--out", "new.npz"), ("cache/features/*/*",)),
        Reader(("predict", "seen", "striped"), ("seen/model.*",), ("striped/003.png",)),
        Reader(("label", "--resume", "seen"), ("seen/*.json", "seen/*.safetensors"), ("given.csv",)),
    )


def write_embeddings(path: Path) -> None:
    points, truth = clusters(60, 3, noise=0.5)
    given = some_given(truth, drawn_evenly(truth, 5, seed=0)).numpy()
    np.savez(path / "mine.npz", embeddings=points.numpy(), labels=given)
    np.save(path / "given.npy", given)


def write_striped(path: Path) -> None:
    pixels, truth = striped(N_PICTURES, 3, side=16)
    for name in ("striped", KEPT):
        (path / name).mkdir()
        for row in range(N_PICTURES):
            Image.fromarray(pixels[row]).save(path / name / f"{row:03d}.png")
    (path / "given.csv").write_text("".join(f"{row:03d}.png,kind{truth[row]}\n" for row in range(N_GIVEN)))


def make_place(path: Path) -> Path:
    """Finished runs, stopped ones, labelings, each with a twin of another seed, and what they were made from."""
    path.mkdir(parents=True, exist_ok=True)
    write_bars(path / "bars.npz")
    write_embeddings(path)
    write_striped(path)
    (path / "rows.txt").write_text("0\n1\n2\n3\n4\n5\n")
    (path / "split.csv").write_text("".join(f"{row}\n" for row in range(9)))
    for name, size in (("a/0.png", (9, 9)), ("b/1.jpg", (12, 9))):
        (path / "photos" / name).parent.mkdir(parents=True)
        Image.effect_noise(size, 60).save(path / "photos" / name)
    write_results(path / "results")
    with working_in(path), quickly():
        for words, code in (
            (("train", "bars.npz", "--labels", "9", "--out", "run", *TINY), 0),
            (("train", "bars.npz", "--labels", "9", "--seed", "1", "--out", "run-twin", *TINY), 0),
            (("train", "bars.npz", "--labels", "9", "--out", "stopped", "--for", "0.000001s", *TINY), 3),
            (("label", "mine.npz", "--out", "labels"), 0),
            (("label", "mine.npz", "--seed", "1", "--out", "labels-twin"), 0),
            (COMPARE, 0),
            ((*PICTURES, "--out", "pics"), 0),
            ((*PICTURES, "--seed", "1", "--out", "pics-twin"), 0),
            (("data", KEPT, "--prepare"), 0),
            *(EMBEDDED if "lite0" in installed_lite() else ()),
        ):
            ended = run_command(*words)
            assert ended.code == code, ended
        out = ("--out", path / "cut", "--checkpoint-every", "0.001s")  # a full path: by it touches are counted
        assert run_until_killed(*PICTURES, *out, below=path / "cut", at=60) == -9
        shutil.copy(path / "compared" / "record.json", path / "copy.json")
    return path


def write_results(folder: Path) -> None:
    """A few of the records that come with the project."""
    for pattern in SOME_RESULTS:
        for record in sorted(RESULTS.glob(pattern))[:2]:
            (folder / record.relative_to(RESULTS)).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(record, folder / record.relative_to(RESULTS))


def result(ended: Ended, place: Path) -> list[str]:
    """What must not change: what is printed, without times, and the labels and vectors that were written."""
    said = [line for line in ended.out.splitlines() if not line.startswith(TIMES)]
    if (place / "new.npz").is_file():
        said.append(str(np.load(place / "new.npz")["embeddings"].tolist()))
    return [*said, *(path.read_text() for path in sorted(place.glob("*/labels.csv")) if path.is_file())]


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
            ended = self.run(reader)
            assert ended.code == 0, f"{' '.join(reader.words)} undamaged: {ended}"
            self.good[reader.words] = result(ended, self.work)
            self.restore()
        file = rng.choice(files_of(reader, self.work))
        name = str(file.relative_to(self.work))
        kind = damage(file, rng, twin=self.twin_of(name))
        said = f"{' '.join(reader.words)} with {name} damaged ({kind})"
        try:
            return self.judged(self.run(reader), reader, name, said)
        finally:
            self.restore()

    def run(self, reader: Reader) -> Ended:
        return run_command(*(str(self.place / KEPT) if word == KEPT else word for word in reader.words))

    def twin_of(self, name: str) -> Path:
        run, _, rest = name.partition("/")
        run = {"stopped": "run", "cut": "pics"}.get(run, f"{run}-twin")
        return self.work / run / rest

    def judged(self, ended: Ended, reader: Reader, name: str, said: str) -> str:
        assert not ended.fault, f"{said}:\n{ended.fault}"
        if ended.is_refusal:
            return REFUSED
        assert ended.code == 0, f"{said}: exit code {ended.code}: {ended.err}"
        is_said = "going on from the checkpoint before it" in ended.err
        may_change = name in reader.inputs or is_said or "value" in said  # a plausible one under a right checksum
        assert may_change or result(ended, self.work) == self.good[reader.words], (
            f"{said} changed the result in silence: {ended.err}"
        )
        return DONE

    def restore(self) -> None:
        empty(self.work)
        fresh_copy(self.place, self.work / "copy", without=KEPT)
        for entry in (self.work / "copy").iterdir():
            entry.rename(self.work / entry.name)
        (self.work / "copy").rmdir()


@contextlib.contextmanager
def quickly() -> Iterator[None]:
    """Less of what takes long in a labeling of pictures and is not read again; a cache in the folder where it runs."""
    with (
        mock.patch.dict(os.environ, LAPLACENET_CACHE=CACHE),
        mock.patch("laplacenet.models.patches.N_PATCHES", 2_000),
        mock.patch("laplacenet.labeling.outcome.N_ITERATIONS", 250),
    ):
        yield


@contextlib.contextmanager
def damages(place: Path, work: Path) -> Iterator[Damages]:
    """The cases on copies of `place`, in `work`."""
    with working_in(work), quickly():
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
