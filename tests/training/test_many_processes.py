"""Several processes on one run, against one process: the same numbers, labels, errors and ends."""

import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import references_kills as kills
import references_own_folders as folders_of_their_own
import references_processes as shared
import torch
from references_experiments import TINY, TINY_SPLIT, write_tiny_data
from references_runs import write_bars
from torch import Tensor

from laplacenet.experiments import read_outcome
from laplacenet.runtime import Group, RunFolder, read_launch
from laplacenet.runtime.launch import VARIABLES
from laplacenet.training import METHODS, TrainConfig, config_class, method_class
from laplacenet.training.method import row_divider
from laplacenet.training.methods.network_labels import NetworkLabels

DEADLINE_S = 300  # of a whole test, on however loaded a machine
TRAIN = (
    "-m laplacenet train bars.npz --labels 9 --seed 3 --out run --set train.steps=4 --set train.batch_size=24"
    " --set train.labeled_batch_size=4"
)


def computed_by(n: int, folder: Path, n_steps: int = shared.STEPS) -> list[dict[str, Any]]:
    """The results of every process of n."""
    script = str(Path(shared.__file__).resolve())
    processes = shared.start_processes(n, [script, str(folder), str(n_steps)], folder=folder)
    for code, _, errors in finished(processes):
        assert code == 0, errors
    return [torch.load(folder / f"results-{n}-{rank}.pt") for rank in range(n)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("processes")


@pytest.fixture(scope="module")
def by_two(folder: Path) -> list[dict[str, Any]]:
    return computed_by(2, folder)


@pytest.fixture(scope="module")
def alone(folder: Path) -> dict[str, Tensor]:
    return shared.trajectory(folder / "checkpoint-1")


def farthest(one: dict[str, Tensor], other: dict[str, Tensor]) -> float:
    """The largest difference of any tensor, relative to its largest entry."""
    assert one.keys() == other.keys()
    return max(
        float((one[name] - other[name]).abs().max() / one[name].abs().max().clamp(min=1e-30))
        for name in one
        if one[name].is_floating_point()
    )


def test_two_processes_compute_what_one_does(by_two: list[dict[str, Any]], alone: dict[str, Tensor]) -> None:
    assert farthest(alone, by_two[0]["trajectory"]) < 1e-9


def test_all_processes_have_the_same_weights(by_two: list[dict[str, Any]]) -> None:
    assert farthest(by_two[0]["trajectory"], by_two[1]["trajectory"]) == 0


def test_one_process_goes_on_from_the_checkpoint_of_two(
    by_two: list[dict[str, Any]], alone: dict[str, Tensor], folder: Path
) -> None:
    resumed = shared.second_part(folder / "checkpoint-2", [])
    kept = {name: value for name, value in alone.items() if not name.startswith("first.") and name != "losses"}
    assert farthest(kept, {name: resumed[name] for name in kept}) < 1e-9


@pytest.mark.long
def test_one_two_and_four_processes_over_fifty_steps(tmp_path: Path) -> None:
    expected = shared.trajectory(tmp_path / "checkpoint-1", 50)
    for n in (2, 4):
        for results in computed_by(n, tmp_path, 50):
            assert farthest(expected, results["trajectory"]) < 1e-9
    resumed = shared.second_part(tmp_path / "checkpoint-4", [], 50)
    kept = {name: value for name, value in expected.items() if not name.startswith("first.") and name != "losses"}
    assert farthest(kept, {name: resumed[name] for name in kept}) < 1e-9


def test_gradients_of_a_step_in_fp32(by_two: list[dict[str, Any]]) -> None:
    assert farthest(shared.one_step_gradients(), by_two[0]["gradients"]) < 1e-5


def test_pseudo_labels_are_identical(by_two: list[dict[str, Any]]) -> None:
    expected = shared.pseudo_labels()
    assert len(torch.unique(expected)) == 3
    assert all(torch.equal(expected, results["labels"]) for results in by_two)


def test_a_shared_search_finds_the_neighbors_and_labels_of_one_process(by_two: list[dict[str, Any]]) -> None:
    expected = shared.searched()
    for results in by_two:
        assert farthest(expected, results["searched"]) < 1e-5
        assert torch.equal(expected["labels"], results["searched"]["labels"])


def test_batch_norm_by_the_statistics_of_all(by_two: list[dict[str, Any]]) -> None:
    """7 rows shared by two; the reference is torch's own batch normalization of all of them."""
    assert farthest(shared.normalized(*shared.norm_inputs()), by_two[0]["norm"]) < 1e-12


def test_what_processes_exchange(by_two: list[dict[str, Any]]) -> None:
    for results in by_two:
        assert results["gathered"].tolist() == [0, 1, 1]
        assert results["error"] == "the first process says no"
        assert results["agreed"] == [False, True]


def test_work_that_one_process_does_alone_may_take_days(by_two: list[dict[str, Any]]) -> None:
    """torch gives up after half an hour by default; processes that are lost are found in another way."""
    assert all(results["patience_s"] > 7 * 24 * 3600 for results in by_two)


def test_a_process_that_ends_is_not_waited_for(by_two: list[dict[str, Any]], folder: Path) -> None:
    assert "another process" in (folder / "lost-2-0").read_text()


@pytest.mark.parametrize("size", [1, 2, 3, 7])
@pytest.mark.parametrize("n", [0, 1, 6, 7, 100])
def test_parts_are_all_of_it_in_order(n: int, size: int) -> None:
    parts = [Group(rank, size).part(n) for rank in range(size)]
    assert [i for part in parts for i in part] == list(range(n))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_alone_nothing_is_exchanged() -> None:
    x = torch.ones(3)
    group = Group()
    assert group.sum_(x) is x
    assert group.gather(x) is x
    assert group.agree(True)
    assert not group.agree(False)
    assert group.by_first(lambda: 5) == 5


def test_processes_are_several_only_where_torchrun_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("WORLD_SIZE", "8")
    monkeypatch.setenv("RANK", "3")
    assert read_launch().size == 1
    for name, value in zip(VARIABLES, ("3", "8", "1", "127.0.0.1", "1"), strict=True):
        monkeypatch.setenv(name, value)
    assert (read_launch().rank, read_launch().size, read_launch().local_rank) == (3, 8, 1)


def test_methods_with_a_mean_over_rows_divide_these_and_no_derived_one_does() -> None:
    made = {name: method_class(name)(shared.problem(), TrainConfig(), config_class(name)()) for name in METHODS}
    dividing = [name for name, method in made.items() if row_divider(method) is method]
    assert sorted(dividing) == ["laplacenet", "network-labels", "supervised"]
    assert isinstance(made["pl-mixup"], NetworkLabels)


def finished(processes: list["subprocess.Popen[str]"]) -> list[tuple[int, str, str]]:
    """Exit code, output and messages of each."""
    try:
        said = [process.communicate(timeout=DEADLINE_S) for process in processes]
    finally:
        for process in processes:
            process.kill()
    return [(process.returncode, *texts) for process, texts in zip(processes, said, strict=True)]


@pytest.mark.long
def test_the_first_process_alone_writes_and_speaks(tmp_path: Path) -> None:
    write_bars(tmp_path / "bars.npz")
    ended = finished(shared.start_processes(2, TRAIN.split(), folder=tmp_path))
    assert [code for code, _, _ in ended] == [0, 0], ended
    assert "test error" in ended[0][1]
    assert ended[1][1:] == ("", "")
    folder = RunFolder.open(tmp_path / "run")
    assert read_outcome(folder).steps == 4
    assert folder.read_sealed("provenance.json")["processes"] == 2


@pytest.mark.long
@pytest.mark.parametrize(
    "case", ["the file is missing", "the data differ", "all lack the file"], ids=lambda case: case.replace(" ", "-")
)
def test_an_error_in_one_process_is_said_once(case: str, tmp_path: Path) -> None:
    """It was lost: only the first process spoke, and that one knew no more than that another had ended."""
    folders = [tmp_path / "first", tmp_path / "second"]
    for folder in folders:
        folder.mkdir()
    if case != "all lack the file":
        write_bars(folders[0] / "bars.npz")
    if case == "the data differ":
        write_bars(folders[1] / "bars.npz", labels=np.arange(60)[::-1] % 3)
    script = str(Path(folders_of_their_own.__file__).resolve())
    launcher = shared.start_torchrun(2, [script, ",".join(map(str, folders)), *TRAIN.split()[2:]], folder=tmp_path)
    try:
        assert launcher.wait(timeout=DEADLINE_S) == 1
    finally:
        launcher.kill()
        launcher.wait()
    log = (tmp_path / "torchrun.log").read_text()
    said = [line for line in log.splitlines() if line.startswith("error:") and "interrupted" not in line]
    expected = "process 1 of 2" if case == "the data differ" else "no data set, folder or file called 'bars.npz'"
    assert len(said) == 1, log
    assert expected in said[0]
    assert re.search(r"exitcode\s*: 2", log)


@pytest.mark.long
def test_a_cell_of_a_table_is_reproduced_under_torchrun(tmp_path: Path) -> None:
    data = write_tiny_data(tmp_path / "data")
    settings = " ".join(f"--set {setting}" for setting in (*TINY, TINY_SPLIT))
    cell = "table-3 --column cifar100/4000 --row LaplaceNet --steps 2 --device cpu"
    command = f"-m laplacenet reproduce {cell} {settings} --data-dir {data} --split-file {data}/cifar100_splits.npz"
    launcher = shared.start_torchrun(2, command.split(), folder=tmp_path)
    try:
        assert launcher.wait(timeout=DEADLINE_S) == 0, (tmp_path / "torchrun.log").read_text()
    finally:
        launcher.kill()
    assert len(list((tmp_path / "results").rglob("*.json"))) == 1


@pytest.mark.long
def test_two_then_four_processes_then_one_take_turns_at_a_run(tmp_path: Path) -> None:
    """In float64, 50 steps: 26 by two, then up to 40 by four, the rest by one."""
    expected = shared.in_turns(tmp_path / "alone", until=50)
    script = str(Path(shared.__file__).resolve())
    for n, until in ((2, 26), (4, 40)):
        processes = shared.start_processes(n, [script, str(tmp_path), str(until), "in-turns"], folder=tmp_path)
        for code, _, errors in finished(processes):
            assert code == 0, errors
    assert farthest(expected, shared.in_turns(tmp_path / "turns", until=50)) < 1e-9


@pytest.mark.long
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a stalled process is looked up in /proc")
@pytest.mark.parametrize("stalled", [0, 1])
def test_a_process_that_stalls_ends_the_run_with_the_command_that_resumes(stalled: int, tmp_path: Path) -> None:
    """Neither gloo nor the first process's store says anything: the other one has to notice by itself."""
    write_bars(tmp_path / "bars.npz")
    command = f"{TRAIN} --checkpoint-every 1".replace("train.steps=4", "train.steps=20000").split()
    processes = shared.start_processes(2, command, folder=tmp_path)
    try:
        while not (tmp_path / "run" / "experiment.json").exists() and processes[0].poll() is None:
            time.sleep(0.1)
        time.sleep(3)
        processes[stalled].send_signal(signal.SIGSTOP)
        stopped_at = time.monotonic()
        said = processes[1 - stalled].communicate(timeout=DEADLINE_S)
        processes[stalled].communicate(timeout=DEADLINE_S)
    finally:
        for process in processes:
            process.kill()
    assert processes[stalled].returncode == -signal.SIGKILL
    assert time.monotonic() - stopped_at < 45
    assert processes[1 - stalled].returncode == 1
    assert "no longer answers; the run can be resumed" in said[1]
    assert "train --resume" in said[1]


@pytest.mark.long
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="processes are found in /proc")
@pytest.mark.parametrize("number", range(20), ids="kill-{:02}".format)
def test_a_process_killed_at_a_random_moment_ends_the_run_within_45_s_and_it_goes_on(
    number: int, tmp_path: Path
) -> None:
    """Shard it with `-k "kill-00 or kill-01"`."""
    found = kills.kill_once(number, tmp_path)
    assert kills.is_right(found), (found, (tmp_path / "torchrun.log").read_text()[-2000:])
