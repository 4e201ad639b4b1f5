"""A long run neither fills the memory nor keeps files open."""

import contextlib
import gc
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from references_damaged_reads import quickly, write_striped
from references_many_pictures import write_pictures
from references_processes import environment

import laplacenet
from laplacenet.experiments import DataConfig, Experiment, prepare, start_run
from laplacenet.graph import GraphConfig
from laplacenet.labeling.session import Progress
from laplacenet.labeling.stages import StageEpoch
from laplacenet.models import ModelConfig
from laplacenet.runtime import RunFolder
from laplacenet.training import Execution, LaplaceNetConfig, TrainConfig

PAGE = os.sysconf("SC_PAGE_SIZE")
OFTEN = Execution(torch.device("cpu"), checkpoint_every_s=0.25)


def many_epochs(folder: Path, n_epochs: int) -> Experiment:
    """Two pictures of each of two classes are labeled, two steps an epoch."""
    images = np.random.default_rng(0).integers(0, 255, size=(20, 6, 6), dtype=np.uint8)
    np.savez(folder / "small.npz", images=images, labels=np.arange(20) % 2)
    train = TrainConfig(steps=2 * n_epochs, batch_size=12, labeled_batch_size=4)
    return Experiment(
        name="small",
        data=DataConfig(name=str(folder / "small.npz"), n_labeled=4),
        model=ModelConfig("small-cnn"),
        graph=GraphConfig(k=5, alignment_iterations=5),
        train=train,
        method=LaplaceNetConfig(n_views=1, supervised_passes=2),
    )


def memory_and_handles() -> tuple[int, int]:
    gc.collect()
    resident = int(Path("/proc/self/statm").read_text().split()[1]) * PAGE
    return resident, len(list(Path("/proc/self/fd").iterdir()))


def growth(tmp_path: Path, *, n_epochs: int, settled: int) -> tuple[float, int]:
    """MiB and file handles more at the end than after the first epochs."""
    epochs = start_run(prepare(many_epochs(tmp_path, n_epochs)), RunFolder.create(tmp_path / "run"), execution=OFTEN)
    before = (0, 0)
    for number, _ in enumerate(epochs):
        if number == settled:
            before = memory_and_handles()
        last = number
    assert last >= n_epochs - 1
    after = memory_and_handles()
    return (after[0] - before[0]) / 2**20, after[1] - before[1]


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="counts by Linux's /proc")
def test_memory_and_file_handles_stay_flat_over_a_run_of_many_epochs(tmp_path: Path) -> None:
    grown_mib, n_handles = growth(tmp_path, n_epochs=120, settled=40)
    assert grown_mib < 8
    assert n_handles <= 0


@pytest.mark.long
def test_memory_and_file_handles_stay_flat_over_a_thousand_epochs(tmp_path: Path, reliability_record) -> None:
    grown_mib, n_handles = growth(tmp_path, n_epochs=1_000, settled=200)
    assert grown_mib < 8
    assert n_handles <= 0
    reliability_record("resources", epochs=1_000, grown_mib=round(grown_mib, 2), more_handles=n_handles)


class Memory(Progress):
    """What a labeling holds after every fiftieth epoch, in MiB."""

    def __init__(self) -> None:
        self.n_epochs, self.mib = 0, list[float]()

    @contextlib.contextmanager
    def training(self, ends_at: float | None) -> Iterator[Callable[[StageEpoch], None]]:
        yield self.note

    def note(self, record: StageEpoch) -> None:
        self.n_epochs += 1
        if self.n_epochs % 50 == 0:
            self.mib.append(memory_and_handles()[0] / 2**20)


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="counts by Linux's /proc")
def test_the_memory_of_a_labeling_does_not_grow_with_its_epochs(tmp_path: Path, reliability_record) -> None:
    """What was seen once, 500 MB more at the end, began with some kilobytes an epoch."""
    write_striped(tmp_path)
    memory = Memory()
    with quickly():
        laplacenet.label(
            tmp_path / "striped",
            tmp_path / "given.csv",
            out=tmp_path / "run",
            features="scratch",
            steps=150,
            batch_size=12,
            size=16,
            flip=False,
            suspects=False,
            settings=["graph.k=5"],
            progress=lambda: memory,
        )
    assert memory.n_epochs >= 150
    grown_mib = memory.mib[-1] - memory.mib[0]
    assert grown_mib < 4
    reliability_record("memory of a labeling", epochs=memory.n_epochs, grown_mib=round(grown_mib, 2))


@pytest.mark.long
@pytest.mark.parametrize("features", ["scratch", "lite0"])
def test_a_labeling_of_20_000_small_files_keeps_its_time(features: str, tmp_path: Path, reliability_record) -> None:
    """Seen before: 92 s where 25 were asked for. Ten seconds more than asked are allowed."""
    write_pictures(tmp_path / "pictures", 20_000)
    named = sorted((tmp_path / "pictures").rglob("*.jpg"))[::200]
    rows = (f"{path.relative_to(tmp_path / 'pictures')},class {number % 10}" for number, path in enumerate(named))
    (tmp_path / "given.csv").write_text("\n".join(["file,label", *rows]))
    label = [sys.executable, "-m", "laplacenet", "label", "pictures", "--labels", "given.csv", "--out", "run"]
    surroundings = environment() | {"LAPLACENET_CACHE": str(tmp_path / "cache")}
    started_at = time.monotonic()
    ended = subprocess.run(
        [*label, "--features", features, "--for", "25s"],
        cwd=tmp_path,
        env=surroundings,
        capture_output=True,
        check=False,
    )
    elapsed_s = time.monotonic() - started_at
    assert ended.returncode in (0, 3), ended.stderr
    assert elapsed_s < 35
    reliability_record(f"20 000 files within 25 s, {features}", elapsed_s=round(elapsed_s, 1))
