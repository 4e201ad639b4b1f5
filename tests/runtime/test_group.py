"""One process of several: what it does by itself, whom it misses, and which run is its own after a restart."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch.distributed import HashStore  # type: ignore[attr-defined]

from laplacenet import LaplaceNetClassifier
from laplacenet.runtime import Group, InputError, Launch, RunFolder, current_group, start_group
from laplacenet.runtime import group as groups
from laplacenet.runtime.group import alone, pause_watch
from laplacenet.runtime.launch import LAUNCH, NO_ID, RESTARTS, RUN_ID, VARIABLES, launch_id
from laplacenet.runtime.peers import PeerWatch
from laplacenet.runtime.run_folder import PROVENANCE, is_ours_after_restart


class First(Group):
    """The first of two processes, whose other one takes whatever is sent; any other exchange fails."""

    def _send(self, content: Any) -> bytes:
        return b""


@pytest.fixture
def of_two(monkeypatch: pytest.MonkeyPatch) -> Group:
    first = First(0, 2, reduces=True)
    monkeypatch.setattr(groups, "_current", first)
    return first


def test_what_the_first_process_makes_for_all_it_makes_by_itself(of_two: Group) -> None:
    """Training inside would wait for processes that wait for its end."""
    assert of_two.by_first(current_group) == Group()
    assert current_group() is of_two


def test_the_group_is_there_again_after_an_error(of_two: Group) -> None:
    with pytest.raises(ZeroDivisionError), alone():
        _ = 1 // (current_group().size - 1)
    assert current_group() is of_two


def test_two_threads_may_be_alone_at_once(of_two: Group) -> None:
    """The first may end before the second: each fits a classifier, say."""
    one, other = alone(), alone()
    one.__enter__()
    other.__enter__()
    one.__exit__(None, None, None)
    assert current_group() == Group()
    other.__exit__(None, None, None)
    assert current_group() is of_two


def fitted() -> np.ndarray:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 3)) + np.repeat([[0.0], [4.0]], 20, axis=0), np.full(40, -1)
    y[[0, 1, 20, 21]] = 0, 0, 1, 1
    found: np.ndarray = (
        LaplaceNetClassifier(steps=6, n_neighbors=5, device="cpu", random_state=0).fit(X, y).predict_proba(X)
    )
    return found


def test_a_classifier_is_fitted_by_its_own_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each may have other data: gradients that were summed over all would be wrong, and nobody would notice."""
    expected = fitted()
    monkeypatch.setattr(groups, "_current", First(1, 2, reduces=True))
    assert np.array_equal(fitted(), expected)


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> PeerWatch:
    watch = PeerWatch(Launch(0, 2, 0), HashStore(), silence_s=60.0)
    monkeypatch.setattr(groups, "_watch", watch)
    return watch


def test_others_are_missed_only_while_work_is_shared(watch: PeerWatch) -> None:
    assert watch.is_needed.is_set()
    pause_watch()
    assert not watch.is_needed.is_set()
    with groups.lost_processes():
        assert watch.is_needed.is_set()


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    def launch(**variables: str) -> None:
        for name, value in zip(VARIABLES, ("0", "2", "0", "127.0.0.1", "1"), strict=True):
            monkeypatch.setenv(name, value)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)

    return launch


def test_a_process_group_of_the_user_is_refused(launched: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    launched()
    monkeypatch.setattr(dist, "is_initialized", lambda: True)
    with pytest.raises(InputError, match=r"torch\.distributed is in use already"):
        start_group(torch.device("cpu"))


def test_processes_that_met_on_cpus_do_not_go_on_on_gpus(of_two: Group, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dist, "get_backend_config", lambda: "cpu:gloo,cuda:gloo")
    assert start_group(torch.device("cpu")) is of_two
    with pytest.raises(InputError, match="--device cuda"):
        start_group(torch.device("cuda"))
    monkeypatch.setattr(dist, "get_backend_config", lambda: "cpu:gloo,cuda:nccl")
    assert start_group(torch.device("cuda")) is of_two


def begun(path: Path, launch: str | None) -> Path:
    """A run folder that was begun by this launcher."""
    folder = RunFolder.create(path)
    folder.write_sealed(PROVENANCE, {} if launch is None else {LAUNCH: launch})
    folder.write_experiment({})
    return folder.path


@pytest.mark.parametrize("number", ["some-job", NO_ID])
def test_a_restart_finds_the_run_that_it_began_and_no_other(
    number: str, launched: Callable[..., None], tmp_path: Path
) -> None:
    """The folder may hold an older run, which the first attempt refused to write over."""
    launched(**{RUN_ID: number, RESTARTS: "0"})
    own, others, older = (
        begun(tmp_path / name, key) for name, key in zip("abc", (launch_id(), "other", None), strict=True)
    )
    assert not is_ours_after_restart(own)  # nothing has been restarted
    launched(**{RESTARTS: "1"})
    assert is_ours_after_restart(own)
    assert not is_ours_after_restart(others)
    assert not is_ours_after_restart(older)
    assert not is_ours_after_restart(tmp_path / "nothing")


def test_a_launcher_without_a_number_is_known_by_its_process(
    launched: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    def with_parent(pid: int) -> str | None:
        monkeypatch.setattr(os, "getppid", lambda: pid)
        return launch_id()

    here = os.getpid()
    launched(**{RUN_ID: NO_ID})
    assert with_parent(here) == with_parent(here) != with_parent(1)
    launched(**{RUN_ID: "job 7"})
    assert with_parent(here) == with_parent(1)  # it may have moved to another machine
    monkeypatch.delenv(RUN_ID)
    assert launch_id() is None
