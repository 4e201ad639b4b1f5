"""Every method, trained by several processes and by one: the same losses, weights, buffers and labels."""

from pathlib import Path

import pytest
import references_processes as processes
import references_shared_methods as shared
import torch
from torch import Tensor

from laplacenet.training import METHODS

DEADLINE_S = 300
Results = list[dict[str, dict[str, Tensor]]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("methods")


def trained_by(n: int, folder: Path) -> Results:
    """The results of every process of n."""
    started = processes.start_processes(n, [str(Path(shared.__file__).resolve()), str(folder)], folder=folder)
    processes.wait_for_all(started, timeout_s=DEADLINE_S)
    return [torch.load(folder / f"methods-{n}-{rank}.pt") for rank in range(n)]


@pytest.fixture(scope="module")
def by_two(folder: Path) -> Results:
    return trained_by(2, folder)


@pytest.fixture(scope="module")
def by_three(folder: Path) -> Results:
    return trained_by(3, folder)


def require_same(expected: dict[str, Tensor], found: dict[str, Tensor]) -> None:
    """What is counted or chosen is equal; other numbers agree to 1e-11 of the largest, the loss as fp32 adds it up."""
    assert expected.keys() == found.keys()
    for name, value in expected.items():
        if not value.is_floating_point():
            assert torch.equal(value, found[name]), name
            continue
        difference = float((value - found[name]).abs().max() / value.abs().max().clamp(min=1e-30))
        assert difference < (1e-6 if name == "loss" else 1e-11), (name, difference)


def test_every_method_is_compared() -> None:
    assert {name for name, _ in shared.CASES.values()} == set(METHODS)


@pytest.mark.parametrize("case", shared.CASES)
def test_two_processes_train_a_method_as_one_does(case: str, by_two: Results) -> None:
    expected = shared.trained(case)
    assert expected["loss"] > 0
    for results in by_two:
        require_same(expected, results[case])


@pytest.mark.parametrize("case", shared.UNEVEN)
def test_three_processes_that_cannot_share_evenly_train_a_method_as_one_does(case: str, by_three: Results) -> None:
    expected = shared.trained(case, n_labeled=2)
    for results in by_three:
        require_same(expected, results[case])


def test_all_processes_have_the_gradients_of_every_input(by_two: Results) -> None:
    for results in by_two:
        require_same(shared.input_gradients(), results["input gradients"])


def test_one_process_goes_on_with_the_thresholds_of_two(by_two: Results, folder: Path) -> None:
    found, expected = shared.resumed("flexmatch", folder / "flexmatch"), shared.trained("flexmatch")
    assert len(expected["latest"].unique()) > 2  # classes guessed with confidence, and images without such a guess
    require_same(expected, found)
