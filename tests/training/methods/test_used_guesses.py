"""Methods that leave guesses out of their loss say how many they use: a threshold out of reach is else seen nowhere."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from references_methods import batch_of, learner_of, make_method
from references_runs import StopAfter, tiny_experiment, write_bars

from laplacenet.experiments import prepare, resume_run, run_experiment
from laplacenet.experiments.run_records import read_epochs, read_outcome
from laplacenet.runtime import RunFolder
from laplacenet.training import METHODS, Execution
from laplacenet.training.method import leaves_guesses_out

CPU = Execution(torch.device("cpu"))
LEAVE_OUT = {"uda", "fixmatch", "flexmatch", "freematch", "softmatch", "adamatch", "simmatch"}


def test_these_methods_leave_guesses_out() -> None:
    assert {name for name in METHODS if leaves_guesses_out(make_method(name))} == LEAVE_OUT


@pytest.mark.parametrize("threshold", [0.0, 0.5, 0.6, 0.7, 0.999])
@pytest.mark.parametrize("name", ["fixmatch", "uda"])
def test_the_share_of_confident_guesses_is_added_to_what_was_noted_before(name: str, threshold: float) -> None:
    method, batch = make_method(name, threshold=threshold), batch_of(seed=3)
    noted = replace(batch, used_guesses=torch.tensor(2.0))
    loss = method.loss(learner_of(method), noted)
    confidence = batch.views[4:12].softmax(dim=1).numpy().max(axis=1)
    assert noted.used_guesses is not None
    assert float(noted.used_guesses) == pytest.approx(2 + np.mean(confidence >= threshold))
    assert loss == method.loss(learner_of(method), batch)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_bars(tmp_path_factory.mktemp("data") / "bars.npz")


@pytest.mark.parametrize("name", sorted(LEAVE_OUT))
def test_every_epoch_and_the_outcome_have_the_share(name: str, data: Path, tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "run")
    run_experiment(tiny_experiment(data, method=name), folder, execution=CPU)
    shares = [record.used_guesses for record in read_epochs(folder)]
    assert all(share is not None and 0 <= share <= 1 for share in shares)
    assert read_outcome(folder).used_guesses == shares[-1]


def test_all_guesses_or_none_are_used_at_the_ends_of_the_scale(data: Path, tmp_path: Path) -> None:
    for threshold, share in ((0.0, 1.0), (1.0, 0.0)):
        folder = RunFolder.create(tmp_path / str(threshold))
        run_experiment(tiny_experiment(data, method="fixmatch", threshold=threshold), folder, execution=CPU)
        assert {record.used_guesses for record in read_epochs(folder)} == {share}


def test_an_epoch_that_was_interrupted_has_the_share_of_all_its_steps(data: Path, tmp_path: Path) -> None:
    experiment = tiny_experiment(data, method="fixmatch", threshold=0.6, steps=6, batch_size=12)
    unbroken, folder = RunFolder.create(tmp_path / "unbroken"), RunFolder.create(tmp_path / "run")
    run_experiment(experiment, unbroken, execution=CPU)
    run_experiment(experiment, folder, execution=CPU, monitor=StopAfter(4))
    for _ in resume_run(prepare(experiment), folder, execution=CPU):
        pass
    assert [record.n_steps for record in read_epochs(folder)] == [4, 2]
    share = read_outcome(unbroken).used_guesses
    assert share is not None
    assert 0 < share < 1
    assert read_outcome(folder).used_guesses == share


def test_other_methods_have_no_such_share(data: Path, tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "run")
    run_experiment(tiny_experiment(data), folder, execution=CPU)
    assert {record.used_guesses for record in read_epochs(folder)} == {None}
    assert read_outcome(folder).used_guesses is None
