"""Full disks, short writes, folders that cannot be written to: one line, and the run goes on once there is room."""

import contextlib
import errno
import os
import random
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from references_cli import Shell
from references_reliability import Faults, Result, go, result_of

from laplacenet.runtime import InputError, RunFolder, write_whole

TRAIN = (
    "train bars.npz --labels 9 --seed 3 --out run --set train.steps=12 --set train.batch_size=24"
    " --set train.labeled_batch_size=4"
)
CAN_MOUNT = (
    shutil.which("unshare")
    and not subprocess.run(
        ["unshare", "-Urm", "sh", "-c", "mount -t tmpfs tmpfs /mnt"], capture_output=True, check=False
    ).returncode
)
mounts = pytest.mark.skipif(not CAN_MOUNT, reason="no file system can be mounted here")


@pytest.fixture(scope="module")
def faults() -> Faults:
    return Faults()


def no_space() -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def fills_up_at(touch: int, faults: Faults, data: Path, path: Path, unbroken: Result) -> None:
    faults.arm(path, no_space, at=touch)
    try:
        with pytest.raises((OSError, InputError), match="No space"):
            go(data, path)
    finally:
        faults.disarm()
    if not (path / "final.json").is_file():  # the last touch comes after it
        go(data, path)
    assert result_of(RunFolder.open(path)) == unbroken, f"full at touch {touch}"


def test_a_disk_that_is_full_at_the_nth_touch_of_a_file_changes_nothing(
    data: Path, unbroken: Result, faults: Faults, tmp_path: Path
) -> None:
    for touch in random.Random(1).sample(range(1, 360), k=6):
        fills_up_at(touch, faults, data, tmp_path / str(touch), unbroken)


@pytest.mark.long
def test_a_disk_that_is_full_at_any_touch_of_a_file_changes_nothing(
    data: Path, unbroken: Result, faults: Faults, tmp_path: Path, reliability_record
) -> None:
    faults.arm(tmp_path / "counted", lambda: None, at=0)
    go(data, tmp_path / "counted")
    n_touches = faults.n_touches
    for touch in range(1, n_touches + 1):
        fills_up_at(touch, faults, data, tmp_path / str(touch), unbroken)
    reliability_record("full disk at every touch of a file", failures_injected=n_touches, bit_identical_runs=n_touches)


@contextlib.contextmanager
def files_of_at_most(n_bytes: int) -> Iterator[None]:
    """The kernel takes the first n bytes of a file and refuses the others."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_write_cut_short_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    write_whole(path, b"old")
    with files_of_at_most(1000), pytest.raises(OSError, match="File too large"):
        write_whole(path, bytes(2000))
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.bin"]
    assert path.read_bytes() == b"old"


def test_a_short_write_ends_a_run_in_one_line_and_it_can_be_resumed(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A limit between the sizes of a first checkpoint, without momentum, and of a later one."""
    shell = Shell(tmp_path, monkeypatch, capsys)
    shutil.copy(data, tmp_path / "bars.npz")
    with files_of_at_most(700_000):
        said = shell(*TRAIN.split())
    assert said.code == 1
    line = said.err.splitlines()[-1]
    assert "file too large; the run can be resumed from its last good checkpoint (step 0)" in line
    assert line.startswith("error: ")
    assert line.endswith("with: laplacenet train --resume run")
    assert "Traceback" not in said.err
    assert not list((tmp_path / "run").rglob("*.tmp"))
    assert not (tmp_path / "run" / "checkpoint.new").exists()
    shell.succeeds("train", "--resume", "run")
    shell.succeeds(*TRAIN.replace("--out run", "--out unbroken").split())
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("run", "unbroken")]
    assert weights[0] == weights[1]


@mounts
def test_a_full_or_read_only_disk_is_said_in_one_line_and_the_run_goes_on_when_there_is_space(
    data: Path, tmp_path: Path
) -> None:
    """In a shell of its own, whose folder `disk` is a file system of 1 MiB."""
    shutil.copy(data, tmp_path / "bars.npz")
    (tmp_path / "disk").mkdir()
    program = f"{sys.executable} -m laplacenet"
    resume = f"{program} train --resume run; echo code $?"
    script = (
        "mount -t tmpfs -o size=1m tmpfs disk && cp bars.npz disk && cd disk"
        f" && {program} {TRAIN}; echo code $?;"
        f" mount -o remount,ro . ; {resume}; mount -o remount,rw,size=50m . ; {resume}"
    )
    command = ["unshare", "-Urm", "sh", "-c", script]
    done = subprocess.run(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=True
    )
    assert "Traceback" not in done.stdout
    full, read_only, roomy = done.stdout.split("code ")[:3]
    assert "no space left on device; the run can be resumed from its last good checkpoint" in full
    assert full.endswith("with: laplacenet train --resume run\n")
    assert read_only == "1\nerror: run: cannot be written to (Read-only file system); a run needs to\n"
    assert roomy.startswith("2\n")
    assert done.stdout.endswith("code 0\n")


def test_a_run_folder_that_is_a_link_out_is_not_written_through(data: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside.txt"
    outside.write_text("years of work")
    folder = RunFolder.create(tmp_path / "run")
    for name in (".lock", "experiment.json.tmp", "provenance.json.tmp"):
        (folder.path / name).unlink(missing_ok=True)
        (folder.path / name).symlink_to(outside)
    with pytest.raises(InputError):
        go(data, folder.path)
    (folder.path / ".lock").unlink()
    folder.path.joinpath(".lock").touch()
    go(data, folder.path)
    assert outside.read_text() == "years of work"
