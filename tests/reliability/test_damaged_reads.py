"""Any file that any command reads, damaged in any way: the same result, or one line and exit code 2."""

import json
import os
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from references_campaign import DONE, REFUSED, Campaign, Ended, damage, fresh_copy, recorded, replaced, run_command
from references_labeling import clusters, drawn_evenly, some_given

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


def write_bars(path: Path) -> None:
    from references_runs import write_bars as write

    write(path)


def write_embeddings(path: Path) -> None:
    points, truth = clusters(60, 3, noise=0.5)
    given = some_given(truth, drawn_evenly(truth, 5, seed=0)).numpy()
    np.savez(path / "mine.npz", embeddings=points.numpy(), labels=given)
    np.save(path / "given.npy", given)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run, a stopped one, a labeling, and what they were made from."""
    path = tmp_path_factory.mktemp("place")
    write_bars(path / "bars.npz")
    write_embeddings(path)
    (path / "rows.txt").write_text("0\n1\n2\n3\n4\n5\n")
    for name, size in (("a/0.png", (9, 9)), ("b/1.jpg", (12, 9))):
        (path / "photos" / name).parent.mkdir(parents=True)
        Image.effect_noise(size, 60).save(path / "photos" / name)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(path)
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
        for entry in self.work.iterdir():
            if entry.is_dir() and not entry.is_symlink():
                import shutil

                shutil.rmtree(entry)
            else:
                entry.unlink()
        fresh_copy(self.place, self.work / "copy")
        for entry in (self.work / "copy").iterdir():
            entry.rename(self.work / entry.name)
        (self.work / "copy").rmdir()


def damages(place: Path, work: Path, patch: pytest.MonkeyPatch) -> Damages:
    patch.chdir(work)
    cases = Damages(place, work)
    cases.restore()
    return cases


def with_value(path: Path, **values: object) -> None:
    """Another value under a right checksum."""
    found = json.loads(path.read_text()) | values
    found.pop(CHECKSUM)
    path.write_text(json.dumps(found | {CHECKSUM: checksum(found)}))


@pytest.mark.parametrize(
    ("words", "change"),
    [
        ("report run", lambda: Path("run/experiment.json").unlink()),
        ("report run", lambda: replaced(Path("run/experiment.json"), Path("run/experiment.json").mkdir)),
        ("report run", lambda: replaced(Path("run/epochs.jsonl"), lambda: os.mkfifo("run/epochs.jsonl"))),
        (
            "report run",
            lambda: replaced(Path("run/epochs.jsonl"), lambda: Path("run/epochs.jsonl").symlink_to("/dev/zero")),
        ),
        ("predict labels mine.npz", lambda: with_value(Path("labels/model.json"), prior=[0.5, 0.5])),
        ("predict labels mine.npz", lambda: with_value(Path("labels/model.json"), class_names=["a", "b"])),
        ("predict labels mine.npz", lambda: with_value(Path("labels/model.json"), class_names=["a", "b", "b"])),
        ("predict labels mine.npz", lambda: with_value(Path("labels/model.json"), temperature=1e-320)),
        ("predict labels mine.npz", lambda: with_value(Path("labels/model.json"), k=0)),
        ("predict labels mine.npz", lambda: with_value(Path("labels/model.json"), k=1e400)),
    ],
)
def test_what_random_damage_found_is_refused(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str, change: Callable[[], object]
) -> None:
    damages(place, tmp_path, monkeypatch)
    change()
    ended = run_command(*words.split())
    assert ended.is_refusal, ended


@pytest.mark.parametrize("values", [{"libraries": True}, {"hardware": 1.5}, {"resumed": {}}])
def test_a_run_whose_history_makes_no_sense_goes_on_and_says_so(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, values: dict[str, object]
) -> None:
    damages(place, tmp_path, monkeypatch)
    with_value(Path("stopped/provenance.json"), **values)
    ended = run_command("train", "--resume", "stopped")
    assert ended.code == 0, ended
    assert "what ran before is no longer known" in ended.err


def test_damaged_files_are_refused_or_do_no_harm(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    campaign = Campaign("damaged reads", seed=0)
    campaign.run(damages(place, tmp_path, monkeypatch), n=30)
    assert not campaign.failures, "\n\n".join(campaign.failures)
    assert campaign.outcomes[REFUSED] > 5


@pytest.mark.long
def test_a_thousand_damaged_files_are_refused_or_do_no_harm(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reliability_record
) -> None:
    with recorded(Campaign("damaged reads", seed=time.time_ns() % 2**32), reliability_record) as campaign:
        campaign.run(damages(place, tmp_path, monkeypatch), n=1000)
