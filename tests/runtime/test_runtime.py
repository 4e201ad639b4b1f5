"""Streams, devices, whole files, run folders, interruptions, provenance."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from laplacenet.runtime import (
    InputError,
    Interruption,
    RunFolder,
    choose_device,
    compute_dtype,
    monitor,
    provenance,
    read_json,
    stream,
    stream_seed,
    write_json,
    write_whole,
)
from laplacenet.runtime.device import convolution_trials, wake_up
from laplacenet.runtime.errors import first_line


@given(seed=st.integers(0, 2**63), name=st.text(max_size=8), index=st.integers(0, 10**6))
def test_a_stream_is_a_function_of_seed_name_and_index(seed: int, name: str, index: int) -> None:
    assert stream(seed, name, index).random() == stream(seed, name, index).random()
    assert stream(seed, name, index).random() != stream(seed, name, index + 1).random()
    assert stream(seed, name, index).random() != stream(seed + 1, name, index).random()
    assert 0 <= stream_seed(seed, name, index) < 2**63


def test_streams_of_other_names_are_unrelated() -> None:
    draws = {stream(0, name).integers(2**62) for name in ("views", "mixup", "labeled", "unlabeled", "supervised")}
    assert len(draws) == 5


def test_a_stream_never_changes_between_versions() -> None:
    """A resumed run draws again: what a stream gives is part of the checkpoint format."""
    assert stream(0, "views", 3).integers(10**6, size=3).tolist() == [153970, 62993, 106071]


def test_devices_are_chosen_by_name() -> None:
    assert choose_device("cpu") == torch.device("cpu")
    assert choose_device("cpu:0") == torch.device("cpu:0")
    assert choose_device("auto").type in ("cpu", "cuda")
    for name in ("gpu", "tpu:0", "meta", ""):
        with pytest.raises(InputError, match="choose auto, cpu, cuda or cuda:N"):
            choose_device(name)


def test_a_gpu_that_is_named_becomes_the_current_one(monkeypatch: pytest.MonkeyPatch) -> None:
    current: list[torch.device] = []
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    monkeypatch.setattr("torch.cuda.set_device", current.append)
    assert choose_device("cuda") == torch.device("cuda")
    assert not current
    assert choose_device("cuda:1") == torch.device("cuda:1")
    assert current == [torch.device("cuda:1")]
    with pytest.raises(InputError, match="there are 2 CUDA devices"):
        choose_device("cuda:2")


@pytest.mark.skipif(torch.cuda.is_available(), reason="says what happens without a GPU")
def test_a_missing_gpu_is_said_in_one_line() -> None:
    with pytest.raises(InputError, match="this machine has no CUDA device"):
        choose_device("cuda")


def test_a_cpu_needs_no_waking() -> None:
    before = threading.active_count()
    wake_up(torch.device("cpu"))
    assert threading.active_count() == before


def test_trials_of_convolutions_are_put_back_as_they_were() -> None:
    before = torch.backends.cudnn.benchmark
    with convolution_trials(not before):
        assert torch.backends.cudnn.benchmark is not before
    assert torch.backends.cudnn.benchmark is before


def test_a_file_is_written_whole_and_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_json(path, {"a": 1})
    write_json(path, {"a": "ä"})
    assert read_json(path) == {"a": "ä"}
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.json"]


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.bin"
    write_whole(path, b"old")

    def no_space(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", no_space)
    with pytest.raises(OSError, match="No space") as caught:
        write_whole(path, b"new")
    assert caught.value.filename == str(path)  # writing to an open file knows no name
    assert path.read_bytes() == b"old"


def test_json_that_is_not_json_names_the_file(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"a": ')
    with pytest.raises(InputError, match=r"a\.json: not the JSON"):
        read_json(tmp_path / "a.json")
    with pytest.raises(InputError, match=r"b\.json: cannot be read"):
        read_json(tmp_path / "b.json")


@given(text=st.text())
def test_what_is_said_of_hostile_names_is_one_line_that_no_terminal_obeys(text: str) -> None:
    said = str(InputError(f"no such file: {text}"))
    assert len(said.splitlines()) == 1
    assert not any(ord(c) < 32 or 0x7F <= ord(c) < 0xA0 for c in said)
    said.encode()
    assert str(InputError("Grüße, 東京 …")) == "Grüße, 東京 …"


def test_a_run_folder_is_never_overwritten_unless_told_to(tmp_path: Path) -> None:
    path = tmp_path / "run"
    folder = RunFolder.create(path)
    folder.write_experiment({})
    with pytest.raises(InputError, match="exists already; choose another --out"):
        RunFolder.create(path)
    assert folder.has("experiment.json")
    assert not RunFolder.create(path, overwrite=True).has("experiment.json")


def test_what_is_no_run_folder_is_left_alone_even_with_overwrite(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(InputError, match="not a run folder, so --overwrite leaves it alone"):
        RunFolder.create(tmp_path, overwrite=True)
    with pytest.raises(InputError, match="is a file"):
        RunFolder.create(tmp_path / "thesis.tex")
    with pytest.raises(InputError, match="not a run folder"):
        RunFolder.open(tmp_path)
    assert (tmp_path / "thesis.tex").read_text() == "years of work"


def test_two_processes_cannot_work_on_one_run(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "run")
    attempt = (
        "import sys; from pathlib import Path; from laplacenet.runtime import RunFolder, InputError\n"
        "try:\n"
        "    with RunFolder(Path(sys.argv[1])).locked(): print('got it')\n"
        "except InputError as error: print(error)"
    )
    command = [sys.executable, "-c", attempt, str(folder.path)]
    with folder.locked():
        refused = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    granted = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "another process is working on this run" in refused
    assert granted == "got it\n"


def test_an_epoch_line_that_a_crash_cut_short_is_left_out(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "run")
    folder.append_epoch({"step": 1})
    folder.append_epoch({"step": 2})
    with (folder.path / "epochs.jsonl").open("a") as file:
        file.write('{"step": 3, "lo')
    assert [epoch["step"] for epoch in folder.epochs()] == [1, 2]
    assert [epoch["step"] for epoch in folder.epochs(up_to_step=1)] == [1]


def test_an_interruption_is_noted_and_the_handlers_come_back() -> None:
    before = signal.getsignal(signal.SIGINT)
    with Interruption() as interruption:
        assert interruption.exit_code == 0
        os.kill(os.getpid(), signal.SIGTERM)
        assert interruption.signal == signal.SIGTERM
        assert interruption.exit_code == 143
    assert signal.getsignal(signal.SIGINT) is before


def test_a_second_signal_has_its_usual_effect() -> None:
    with Interruption() as interruption:
        os.kill(os.getpid(), signal.SIGINT)
        assert interruption.exit_code == 130
        time.sleep(monitor.SAME_S)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


def test_a_signal_that_is_forwarded_at_once_is_the_same_one() -> None:
    with Interruption() as interruption:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
        assert interruption.exit_code == 130


def test_reading_counts_against_the_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(monitor, "time", SimpleNamespace(monotonic=lambda: now))
    assert monitor.reading_ends_at(20.0, now) == 120.0
    assert monitor.reading_ends_at(1.0, now) == 100.0 + monitor.LEAST_READING_S
    assert monitor.reading_ends_at(None, now) is monitor.time_left(None, now) is None
    assert monitor.time_left(20.0, now) == 20.0
    assert monitor.time_left(20.0, now - 2) == 18.0
    assert monitor.time_left(20.0, now - 60) == 0.0


def test_provenance_says_what_ran_where(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        sys, "argv", ["/bin/laplacenet", "reproduce", "--data", "/home/me/data", "--split-file", "c=/home/me/s.npz"]
    )
    found = provenance(torch.device("cpu"))
    assert torch.__version__.startswith(found["libraries"]["torch"])  # "+cu130" may be missing
    assert found["hardware"]["device"] == "cpu"
    assert found["command"] == "laplacenet reproduce --data data --split-file c=s.npz"
    assert found["commit"]


@pytest.mark.parametrize(("capability", "expected"), [((7, 5), torch.float32), ((8, 0), torch.bfloat16)])
def test_a_gpu_without_bf16_computes_in_single_precision(
    monkeypatch: pytest.MonkeyPatch, capability: tuple[int, int], expected: torch.dtype
) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    assert compute_dtype(torch.device("cuda")) is expected
    assert compute_dtype(torch.device("cpu")) is torch.float32


def test_paths_and_settings_are_checked_without_torch_and_on_any_system() -> None:
    code = (
        "import sys; sys.modules['fcntl'] = None\n"
        "import laplacenet.runtime, laplacenet.runtime.settings\n"
        "print(sorted({'torch', 'numpy'} & set(sys.modules)))"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said == "[]\n"


def test_an_error_is_quoted_by_its_first_line_or_its_kind() -> None:
    assert first_line(RuntimeError("two keys\nare missing")) == "two keys"
    assert first_line(ValueError()) == "ValueError"
