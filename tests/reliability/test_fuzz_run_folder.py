"""Run folders, checkpoints and settings from anywhere: read, or refused in one line; never another exception."""

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from references_fuzz import JSON, altered, spoiled
from references_reliability import EVERY_STEP, go, result_or_refusal
from references_runs import StopAfter, tiny_experiment
from safetensors.torch import save

from laplacenet.experiments import (
    Experiment,
    Task,
    from_json,
    override,
    prepare,
    read_epochs,
    read_experiment,
    read_outcome,
    run_experiment,
    to_json,
)
from laplacenet.experiments.run import identity
from laplacenet.models import load_model
from laplacenet.runtime import RunFolder, write_sealed
from laplacenet.runtime.run_folder import SUM, sum_of
from laplacenet.training import load_checkpoint
from laplacenet.training.checkpoint import checkpoint_step

FUZZ = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


@pytest.fixture(scope="module")
def fuzzed(data: Path, tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return go(data, tmp_path_factory.mktemp("fuzzed") / "run")


@pytest.fixture(scope="module")
def stopped(data: Path, tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    folder = RunFolder.create(tmp_path_factory.mktemp("fuzzed") / "stopped")
    run_experiment(tiny_experiment(data), folder, execution=EVERY_STEP, monitor=StopAfter(9))
    shutil.rmtree(folder.path / "checkpoint.old")
    return folder


@pytest.fixture(scope="module")
def task(data: Path) -> Task:
    return prepare(tiny_experiment(data))


def with_content(file: Path, content: bytes, read: Callable[[], Any]) -> Any:
    good = file.read_bytes()
    file.write_bytes(content)
    try:
        return result_or_refusal(read)[0]
    finally:
        file.write_bytes(good)


READERS: dict[str, Callable[[RunFolder], Any]] = {
    "experiment.json": read_experiment,
    "final.json": read_outcome,
    "epochs.jsonl": read_epochs,
    "model.json": lambda folder: load_model(folder.path),
    "model.safetensors": lambda folder: load_model(folder.path),
}


@pytest.mark.parametrize("name", READERS)
@FUZZ
@given(draws=st.data())
def test_fuzzed_bytes_of_a_run_folder_are_read_or_refused(name: str, draws: st.DataObject, fuzzed: RunFolder) -> None:
    file = fuzzed.path / name
    content = draws.draw(spoiled(file.read_bytes()))
    with_content(file, content, lambda: READERS[name](fuzzed))


@pytest.mark.parametrize("name", ["final.json", "model.json"])
@FUZZ
@given(draws=st.data())
def test_fuzzed_values_under_a_right_checksum_are_read_or_refused(
    name: str, draws: st.DataObject, fuzzed: RunFolder
) -> None:
    good = json.loads((fuzzed.path / name).read_text())
    del good["checksum"]
    content = draws.draw(altered(good))
    write_sealed(fuzzed.path / "sealed", content if isinstance(content, dict) else {})
    sealed = (fuzzed.path / "sealed").read_bytes()
    with_content(fuzzed.path / name, sealed, lambda: READERS[name](fuzzed))


@FUZZ
@given(draws=st.data())
def test_fuzzed_lines_of_epochs_are_read_or_refused(draws: st.DataObject, stopped: RunFolder) -> None:
    good = [json.loads(line) for line in (stopped.path / "epochs.jsonl").read_text().splitlines()]
    lines, before = b"", ""
    for line in draws.draw(altered(good)):
        if isinstance(line, dict):
            epoch = {key: value for key, value in line.items() if key != SUM}
            before = sum_of(epoch, before)
            line = {**epoch, SUM: before}  # noqa: PLW2901
        lines += (json.dumps(line) + "\n").encode()
    saved = stopped.checkpoint / "epochs.jsonl"  # under a right checksum of each line, and saved like that
    with_content(saved, lines, lambda: with_content(stopped.path / "epochs.jsonl", lines, lambda: read_epochs(stopped)))


@FUZZ
@given(draws=st.data())
def test_a_fuzzed_checkpoint_is_read_or_refused(draws: st.DataObject, stopped: RunFolder, task: Task) -> None:
    file = draws.draw(st.sampled_from(sorted(stopped.checkpoint.iterdir())))
    content = draws.draw(spoiled(file.read_bytes()))
    network, known_as = task.network(), identity(task)
    is_good = content == file.read_bytes()
    found = with_content(file, content, lambda: load_checkpoint(stopped.checkpoint, network, identity=known_as))
    assert found is None or found.step == 9
    assert not is_good or found is not None


@FUZZ
@given(draws=st.data())
def test_a_fuzzed_manifest_under_a_right_checksum_is_read_or_refused(
    draws: st.DataObject, stopped: RunFolder, task: Task
) -> None:
    manifest = stopped.checkpoint / "manifest.json"
    good = json.loads(manifest.read_text())
    del good["checksum"]
    content = draws.draw(altered(good))
    write_sealed(stopped.path / "sealed", content if isinstance(content, dict) else {})
    network = task.network()
    known_as = content.get("identity") if isinstance(content, dict) else None
    known_as = known_as if isinstance(known_as, dict) else {}

    def read() -> None:
        checkpoint_step(stopped.checkpoint)
        load_checkpoint(stopped.checkpoint, network, identity=known_as)

    with_content(manifest, (stopped.path / "sealed").read_bytes(), read)


TENSORS = st.dictionaries(
    st.sampled_from(["network.head.weight", "momentum.head.weight", "targets", "is_candidate", "weights", "x"]),
    st.builds(
        lambda shape, kind: torch.zeros(shape, dtype=kind),
        st.lists(st.integers(0, 4), max_size=3),
        st.sampled_from([torch.float32, torch.int64, torch.bool, torch.float16, torch.uint8, torch.complex64]),
    ),
    max_size=4,
)


@FUZZ
@given(tensors=TENSORS)
def test_fuzzed_tensors_in_a_checkpoint_are_read_or_refused(
    tensors: dict[str, torch.Tensor], stopped: RunFolder, task: Task
) -> None:
    network, known_as = task.network(), identity(task)
    manifest = stopped.checkpoint / "manifest.json"
    content, good = save(tensors), json.loads(manifest.read_text())
    good["files"]["state-00.safetensors"] = hashlib.sha256(content).hexdigest()
    del good["checksum"]
    write_sealed(stopped.path / "sealed", good)

    def read() -> Any:
        return with_content(
            stopped.checkpoint / "state-00.safetensors",
            content,
            lambda: load_checkpoint(stopped.checkpoint, network, identity=known_as),
        )

    assert with_content(manifest, (stopped.path / "sealed").read_bytes(), read) is None


NAMES = st.sampled_from(
    [
        f"{section}.{name}"
        for section, fields in to_json(Experiment()).items()
        if isinstance(fields, dict)
        for name in fields
    ]
    + ["seed", "name", "data", "train", "", ".", "train.", ".steps"]
)
VALUES = (
    st.text(max_size=12)
    | st.integers().map(str)
    | st.floats().map(str)
    | st.sampled_from(["none", "true", "9" * 5000, "1e400", "-0", "nan,nan", "(1,2", "0x10", "1_000", "⅓", "٣"])
)


@FUZZ
@given(given_settings=st.lists(st.tuples(NAMES, VALUES).map("=".join) | st.text(max_size=20), max_size=4))
def test_fuzzed_settings_are_read_or_refused(given_settings: list[str]) -> None:
    found, _ = result_or_refusal(lambda: override(Experiment(), given_settings))
    if found is not None:
        assert from_json(json.loads(json.dumps(to_json(found))), source="again") == found


@FUZZ
@given(content=JSON | altered(to_json(Experiment())))
def test_a_fuzzed_experiment_is_read_or_refused(content: Any) -> None:
    found, _ = result_or_refusal(lambda: from_json(content, source="fuzzed"))
    if found is not None:
        assert from_json(to_json(found), source="again") == found
