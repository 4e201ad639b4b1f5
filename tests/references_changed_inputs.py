"""Pictures and labels that change between a kill and the resumption of the labeling: what is there now is labeled
rightly, or it is refused; never are labels attached to other pictures."""

import contextlib
import csv
import json
import os
import random
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import numpy as np
from PIL import Image
from references_campaign import DONE, REFUSED, Ended, fresh_copy, run_command, run_until_killed, working_in
from references_labeling import striped

from laplacenet.data.label_files import labels_by_name, numbered_labels
from laplacenet.models.features import installed_lite
from laplacenet.runtime import InputError

CLASSES = ("flat", "slanting", "steep")
N, N_GIVEN = 36, 24
TRAINING = ("--steps", "6", "--batch", "20", "--no-suspects", "--no-flip", "--set", "graph.k=8")
PRETRAINED = ("--features", "lite0")
WAYS = {"training": TRAINING, "pretrained": PRETRAINED} if "lite0" in installed_lite() else {"training": TRAINING}
CHANGED = "the inputs have changed"
SURE = 0.02
"""Labels whose margin is smaller may turn with the last digit of a sum."""


def write_pictures(folder: Path) -> None:
    folder.mkdir()
    pixels, truth = striped(N, 3, side=32)
    for row in range(N):
        save_picture(pixels[row], folder / f"{row:03d}.png")
    lines = [f"{row:03d}.png,{CLASSES[truth[row]]}\n" for row in range(N)]
    (folder.parent / "labels.csv").write_text("".join(lines[:N_GIVEN]))


def save_picture(pixels: np.ndarray, path: Path) -> None:
    """All of one size and time, as an archive may hold them: only their content tells them apart."""
    Image.fromarray(pixels).save(path)
    path.write_bytes(path.read_bytes().ljust(2000, b"\0"))
    os.utime(path, ns=(0, 0))


@dataclass(frozen=True)
class Inputs:
    """What one random change is made to."""

    folder: Path
    rng: random.Random

    @property
    def photos(self) -> Path:
        return self.folder / "photos"

    @property
    def labels(self) -> Path:
        return self.folder / "labels.csv"

    @property
    def lines(self) -> list[str]:
        return self.labels.read_text(errors="replace").splitlines() if self.labels.is_file() else []

    def write_lines(self, lines: list[str]) -> None:
        self.labels.write_text("".join(f"{line}\n" for line in lines))

    def some(self, n: int = 1) -> list[Path]:
        files = sorted(path for path in self.photos.rglob("*.png") if path.is_file()) if self.photos.is_dir() else []
        return self.rng.sample(files, min(n, len(files)))


def exchange(inputs: Inputs) -> None:
    pictures = inputs.some(2)
    if len(pictures) == 2:
        first, second = pictures
        between = inputs.folder / "between"
        first.rename(between)
        second.rename(first)
        between.rename(second)


def exchange_contents(inputs: Inputs) -> None:
    """In place, with size and time as before."""
    pictures = inputs.some(inputs.rng.choice([2, 3, N]))
    contents = [path.read_bytes() for path in pictures]
    for path, content in zip(pictures, contents[1:] + contents[:1], strict=True):
        path.write_bytes(content)
        os.utime(path, ns=(0, 0))


def remove(inputs: Inputs) -> None:
    for path in inputs.some(inputs.rng.choice([1, 2, 10, N])):
        path.unlink()


def add(inputs: Inputs) -> None:
    inputs.photos.mkdir(exist_ok=True)
    for number in range(inputs.rng.choice([1, 2, 8])):
        pixels = striped(3, 3, side=32, seed=inputs.rng.randrange(1000))[0][number % 3]
        save_picture(pixels, inputs.photos / f"{inputs.rng.choice('0z')}new{number}.png")


def redraw(inputs: Inputs) -> None:
    for path in inputs.some():
        pixels = np.random.default_rng(inputs.rng.randrange(1000)).integers(0, 256, (32, 32)).astype(np.uint8)
        save_picture(pixels, path)


def rename(inputs: Inputs) -> None:
    for path in inputs.some():
        path.rename(path.with_name(f"{inputs.rng.choice('0z')}{path.name}"))


def move(inputs: Inputs) -> None:
    (inputs.photos / "inner").mkdir(parents=True, exist_ok=True)
    for path in inputs.some(2):
        path.rename(inputs.photos / "inner" / path.name)


def spoil(inputs: Inputs) -> None:
    for path in inputs.some():
        path.write_bytes(inputs.rng.choice([b"", path.read_bytes()[:80], b"no picture"]))


def link(inputs: Inputs) -> None:
    """One picture's name leads to another picture, to itself, nowhere, or to no file at all."""
    pictures = inputs.some(2)
    if len(pictures) == 2:
        first, second = pictures
        first.unlink()
        first.symlink_to(inputs.rng.choice([second, first, Path("/nowhere.png"), Path("/dev/zero")]))


def pipe(inputs: Inputs) -> None:
    for path in inputs.some():
        path.unlink()
        os.mkfifo(path)


def unrelated_file(inputs: Inputs) -> None:
    inputs.photos.mkdir(exist_ok=True)
    (inputs.photos / "notes.txt").write_text("not a picture")


def touch(inputs: Inputs) -> None:
    for path in inputs.some(5):
        os.utime(path)


def save_again(inputs: Inputs) -> None:
    """The same pixels in another file."""
    for path in inputs.some(3):
        with Image.open(path) as picture:
            pixels = np.array(picture)
        Image.fromarray(pixels).save(path, compress_level=1)


def add_rows(inputs: Inputs) -> None:
    new = [f"{row:03d}.png,{inputs.rng.choice(CLASSES)}" for row in inputs.rng.sample(range(N_GIVEN, N), 3)]
    inputs.write_lines([*inputs.lines, *new])


def remove_rows(inputs: Inputs) -> None:
    lines = inputs.lines
    inputs.write_lines(inputs.rng.sample(lines, len(lines) - min(len(lines), inputs.rng.choice([1, 5, N]))))


def change_rows(inputs: Inputs) -> None:
    lines = inputs.lines
    for position in inputs.rng.sample(range(len(lines)), min(2, len(lines))):
        name = lines[position].split(",")[0]
        lines[position] = f"{name},{inputs.rng.choice([*CLASSES, 'another', 'Flat', '=1+1'])}"
    inputs.write_lines(lines)


def rename_class(inputs: Inputs) -> None:
    inputs.write_lines([line.replace("flat", inputs.rng.choice(["zebra", "level"])) for line in inputs.lines])


def exchange_classes(inputs: Inputs) -> None:
    """The same rows under the same names, but each means the other."""
    swap = {"flat": "steep", "steep": "flat"}
    parts = [line.split(",") for line in inputs.lines]
    inputs.write_lines([",".join([*cells[:-1], swap.get(cells[-1], cells[-1])]) for cells in parts])


def contradict(inputs: Inputs) -> None:
    inputs.write_lines([*inputs.lines, "000.png,steep", "000.png,flat"])


def reorder_rows(inputs: Inputs) -> None:
    lines = inputs.lines
    inputs.write_lines(inputs.rng.sample(lines, len(lines)))


def other_line_ends(inputs: Inputs) -> None:
    inputs.labels.write_bytes("".join(f"{line}\r\n" for line in inputs.lines).encode())


def spoil_labels(inputs: Inputs) -> None:
    inputs.labels.write_bytes(inputs.rng.choice([b"", b"\0\xff", inputs.rng.randbytes(300), b"a,b,c\n", b'"000.png']))


def lose_labels(inputs: Inputs) -> None:
    inputs.labels.unlink(missing_ok=True)
    if inputs.rng.random() < 0.5:
        inputs.labels.mkdir()


def lose_pictures(inputs: Inputs) -> None:
    shutil.rmtree(inputs.photos, ignore_errors=True)
    if inputs.rng.random() < 0.5 and not inputs.photos.exists():
        inputs.photos.write_text("a file")


CHANGES: tuple[Callable[[Inputs], None], ...] = (
    *(exchange, exchange_contents, remove, add, redraw, rename, move, spoil, link, pipe, unrelated_file, touch),
    *(save_again, add_rows, remove_rows, change_rows, rename_class, exchange_classes, contradict, reorder_rows),
    *(other_line_ends, spoil_labels, lose_labels, lose_pictures),
)


Table = dict[str, dict[str, str]]


class ChangedInputs:
    """Cases for a campaign: a labeling that was killed, one to three changes, and what resuming it makes of them."""

    def __init__(self, place: Path, work: Path) -> None:
        """`place` holds, for each way of labeling, folders with inputs and a killed run that is resumed in `work`."""
        self.place, self.work = place, work
        self.unchanged: dict[Path, Table | None] = {}

    def __call__(self, rng: random.Random) -> str:
        way = rng.choice(sorted(WAYS))
        state = rng.choice(sorted(path.name for path in (self.place / way).iterdir()))
        expected = self.resumed(self.place / way / state)
        self.restore(self.place / way / state)
        if way == "pretrained":  # the copies are other files than those that the cache knows
            again = run_command("label", "--resume", "run")
            assert again.code == 0, f"{way}, killed at {state}, with unchanged inputs: {again}"
        before = table(Path("run"))
        seen = picture_contents(Path("photos"))
        rows = given_rows()
        changes = [rng.choice(CHANGES) for _ in range(rng.choice([1, 1, 2, 3]))]
        for change in changes:
            if Path("photos").is_dir() and Path("labels.csv").is_file():
                change(Inputs(self.work, rng))
        said = f"{way}, killed at {state}: {', '.join(change.__name__ for change in changes)}"
        ended = run_command("label", "--resume", "run")
        assert not ended.fault, f"{said}:\n{ended.fault}"
        assert ended.is_refusal or ended.code == 0, f"{said}: exit code {ended.code}: {ended.err}"
        if ended.is_refusal:
            assert table(Path("run")) == before, f"{said}: refused, but other labels were written"
        else:
            is_same = seen == picture_contents(Path("photos")) and rows == given_rows()
            judge(ended, said, way, expected, is_same=is_same)
        return f"{way}: {REFUSED if ended.is_refusal else DONE}"

    def resumed(self, state: Path) -> Table | None:
        """What resuming comes to with the inputs as they were."""
        if state not in self.unchanged:
            self.restore(state)
            ended = run_command("label", "--resume", "run")
            assert ended.code == 0, f"{state.name} with unchanged inputs: {ended}"
            assert CHANGED not in ended.err, f"{state.name} with unchanged inputs: {ended.err}"
            self.unchanged[state] = table(Path("run"))
        return self.unchanged[state]

    def restore(self, state: Path) -> None:
        for name in ("photos", "labels.csv", "run", "fresh", "between"):
            path = self.work / name
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        fresh_copy(state, self.work / "copy")
        for entry in (self.work / "copy").iterdir():
            entry.rename(self.work / entry.name)
        (self.work / "copy").rmdir()


def judge(ended: Ended, said: str, way: str, expected: Table | None, *, is_same: bool) -> None:
    """Training goes on only with the same inputs, to the same labels; without training, what is there is labeled as a
    new run labels it, and what changed is said."""
    found = table(Path("run"))
    assert found is not None, f"{said}: no labels"
    if way == "training":
        assert is_same, f"{said}: trained on with other inputs"
        assert found == expected, f"{said}: other labels than with unchanged inputs"
        return
    assert is_same or CHANGED in ended.err, f"{said}: other inputs, and nothing was said: {ended.err}"
    fresh = run_command("label", "photos", "--labels", "labels.csv", "--out", "fresh", *WAYS[way])
    assert fresh.code == 0, f"{said}: resumed, but a new run is refused: {fresh.err}{fresh.fault}"
    assert alike(found, table(Path("fresh"))), f"{said}: other labels than those of a new run"


def table(run: Path) -> Table | None:
    """The rows of labels.csv by path; None where there is no such file."""
    path = run / "labels.csv"
    if not path.is_file():
        return None
    with path.open(newline="", encoding="utf-8") as file:
        return {row["path"]: row for row in csv.DictReader(file)}


def alike(found: Table, expected: Table | None) -> bool:
    """The same rows, of the same sources, with the same labels where these are clear."""
    if expected is None or list(found) != list(expected):
        return False
    return all(
        row["source"] == expected[path]["source"]
        and (row["label"] == expected[path]["label"] or float(row["margin"]) < SURE)
        for path, row in found.items()
    )


def picture_contents(folder: Path) -> dict[str, bytes]:
    """The pixels of every picture that can be read, by path: found without the code under test."""
    found = {}
    for path in sorted(folder.rglob("*.png")) if folder.is_dir() else []:
        if path.is_file():
            try:
                with Image.open(path) as picture:
                    found[str(path.relative_to(folder))] = np.array(picture).tobytes()
            except (OSError, SyntaxError):
                continue
    return found


def given_rows() -> set[tuple[str, str]] | None:
    """Which picture is given which label; None where it cannot be told."""
    path = Path("labels.csv")
    if not path.is_file():
        return None
    names = sorted(picture_contents(Path("photos")))
    try:
        given = labels_by_name([path], names, root=Path("photos"))
        numbers, classes = numbered_labels(given, len(names), where=str(path))
    except InputError:
        return None
    return {(names[row], classes[label]) for row, label in enumerate(numbers.tolist()) if label >= 0}


def killed_states(work: Path, into: Path, way: str, touches: list[int]) -> None:
    """An unbroken run and runs that were killed at these touches of a file, where they can be resumed."""
    out = str(work / "run")  # a full path: by it touches are counted
    words = ("label", "photos", "--labels", "labels.csv", "--out", out, *WAYS[way])
    write_pictures(work / "photos")
    ended = run_command(*words, *(("--checkpoint-every", "0.001s") if way == "training" else ()))
    assert ended.code == 0, ended
    keep(work, into / "whole")
    for at in touches:
        shutil.rmtree(work / "run")
        code = run_until_killed(*words, "--checkpoint-every", "0.001s", below=work / "run", at=at)
        assert code == -9, f"{way}: not killed at touch {at}"
        if is_resumable(work / "run"):
            keep(work, into / str(at))


def is_resumable(run: Path) -> bool:
    return (run / "experiment.json").is_file() and json.loads((run / "experiment.json").read_text()) != {}


def keep(work: Path, state: Path) -> None:
    state.mkdir(parents=True)
    shutil.copytree(work / "photos", state / "photos")
    shutil.copytree(work / "run", state / "run", symlinks=True)
    shutil.copy2(work / "labels.csv", state / "labels.csv")


TOUCHES = {"training": [12, 20, 30, 45, 60, 80, 100], "pretrained": [10, 14, 18]}


@contextlib.contextmanager
def changed_inputs(place: Path, touches: dict[str, list[int]] = TOUCHES) -> Iterator[ChangedInputs]:
    """The cases, with runs that were killed at these touches of a file, by the way of labeling."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch.dict(os.environ, LAPLACENET_CACHE=str(place / "cache")))
        stack.enter_context(mock.patch("laplacenet.models.patches.N_PATCHES", 2_000))
        stack.enter_context(mock.patch("laplacenet.labeling.outcome.N_ITERATIONS", 250))
        stack.enter_context(mock.patch("laplacenet.labeling.choices.installed_lite", tuple))
        work = stack.enter_context(working_in(place / "work"))
        for way in WAYS:
            killed_states(work, place / "states" / way, way, touches.get(way, []))
            shutil.rmtree(work / "photos")
            shutil.rmtree(work / "run", ignore_errors=True)
        yield ChangedInputs(place / "states", work)
