"""Settings that are newer than a run: it is read, judged and resumed as if it had their defaults."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from references_runs import StopAfter, tiny_experiment, write_bars

from laplacenet.experiments import (
    Experiment,
    prepare,
    read_epochs,
    read_experiment,
    read_outcome,
    resume_run,
    run_experiment,
    start_run,
)
from laplacenet.experiments.run import identity, identity_as_written_now, require_unchanged
from laplacenet.runtime import InputError, RunFolder, read_sealed, write_sealed
from laplacenet.runtime.decoding import former_values, later_setting
from laplacenet.training import METHODS, Execution, LaplaceNetConfig

CPU = Execution(torch.device("cpu"))
Change = Callable[[dict[str, Any]], Any]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_bars(tmp_path_factory.mktemp("data") / "bars.npz")


def stopped_run(experiment: Experiment, path: Path) -> RunFolder:
    folder = RunFolder.create(path)
    for _ in start_run(prepare(experiment), folder, execution=CPU, monitor=StopAfter(5)):
        pass
    return folder


def rewrite(folder: RunFolder, *, settings: Change = lambda _: None, known: Change = lambda _: None) -> None:
    """Change the settings and the checkpoint's identity, and make their checksums right."""
    experiment, manifest = folder.path / "experiment.json", folder.checkpoint / "manifest.json"
    content, about = read_sealed(experiment), read_sealed(manifest)
    settings(content)
    known(about["identity"])
    write_sealed(experiment, content)
    write_sealed(manifest, about)


def without(folder: RunFolder, section: str, name: str) -> None:
    """As if the run had begun before this setting existed."""
    rewrite(folder, settings=lambda it: it[section].pop(name), known=lambda it: it.pop(f"{section}.{name}"))


@pytest.mark.parametrize(
    ("method", "section", "names"),
    [
        ("dual-student", "method", ("labeled_loss_over", "n_heads", "head_distance")),
        ("simmatch", "method", ("teacher", "bank_momentum")),
        ("laplacenet", "train", ("schedule",)),
    ],
)
def test_a_run_from_before_a_setting_existed_goes_on_bit_for_bit(
    method: str, section: str, names: tuple[str, ...], data: Path, tmp_path: Path
) -> None:
    """Where a default has changed since, the run has what was done before."""
    experiment = tiny_experiment(data, method=method)
    experiment = replace(experiment, method=replace(experiment.method, **former_values(type(experiment.method))))
    unbroken = RunFolder.create(tmp_path / "unbroken")
    run_experiment(experiment, unbroken, execution=CPU)
    older = stopped_run(experiment, tmp_path / "older")
    for name in names:
        without(older, section, name)
    for _ in resume_run(prepare(read_experiment(older)), older, execution=CPU):
        pass
    weights = [(folder.path / "model.safetensors").read_bytes() for folder in (unbroken, older)]
    assert weights[0] == weights[1]
    losses = [[record.loss for record in read_epochs(folder)] for folder in (unbroken, older)]
    assert losses[1][-1] == losses[0][-1]
    assert read_outcome(older).test_error == read_outcome(unbroken).test_error
    require_unchanged(prepare(read_experiment(older)), older)


@pytest.mark.parametrize("method", METHODS)
def test_any_setting_of_any_method_may_be_newer_than_a_checkpoint(method: str, data: Path) -> None:
    kind = type(tiny_experiment(data, method=method).method)
    experiment = replace(Experiment(), method=kind(name=method))
    known = identity(replace(prepare(tiny_experiment(data)), experiment=experiment))
    for name in known.keys() - {"method.name"}:
        if name.partition(".")[0] in ("train", "method", "model", "graph", "augment"):
            older = {key: value for key, value in known.items() if key != name}
            expected = {**known, name: former_values(kind).get(name.removeprefix("method."), known[name])}
            assert identity_as_written_now(older, source="here") == expected, name


def test_a_checkpoint_with_another_value_or_an_unknown_setting_is_refused_by_name(data: Path, tmp_path: Path) -> None:
    folder = stopped_run(tiny_experiment(data), tmp_path / "run")
    task = prepare(read_experiment(folder))
    rewrite(folder, known=lambda it: it.update({"method.label_temperature": 0.5}))
    for refuse in (lambda: require_unchanged(task, folder), lambda: list(resume_run(task, folder, execution=CPU))):
        with pytest.raises(
            InputError, match=r"is of another run: its method\.label_temperature is 0\.5, this run's is 0"
        ):
            refuse()
    rewrite(folder, known=lambda it: it.update({"method.label_temperature": 0.0, "method.sharpness": 2}))
    for refuse in (lambda: require_unchanged(task, folder), lambda: list(resume_run(task, folder, execution=CPU))):
        with pytest.raises(InputError, match="checkpoint: method: unknown entry 'sharpness'"):
            refuse()


@dataclass(frozen=True)
class GentlerConfig(LaplaceNetConfig):
    """`warmth` came later: today it is 2, and what was done without it is called 1."""

    name: str = "gentler"
    warmth: float = later_setting(2.0, before=1.0)


def test_a_later_setting_whose_default_is_new_has_the_former_value_in_older_runs(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("laplacenet.experiments.notation.config_class", lambda _: GentlerConfig)
    experiment = tiny_experiment(data)
    folder = stopped_run(experiment, tmp_path / "run")
    assert GentlerConfig().warmth == 2.0
    older = read_experiment(folder)
    assert older.method == GentlerConfig(**vars(experiment.method), warmth=1.0)
    require_unchanged(replace(prepare(experiment), experiment=older), folder)
    newer = replace(older, method=GentlerConfig(**vars(experiment.method)))
    with pytest.raises(InputError, match=r"its method\.warmth is 1\.0, this run's is 2\.0"):
        require_unchanged(replace(prepare(experiment), experiment=newer), folder)
