"""The command line called as a user calls it, but inside the test's own process."""

import contextlib
import os
import pty
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from laplacenet.cli import main


@dataclass(frozen=True)
class Said:
    """How a command ended and what it wrote."""

    code: int
    out: str
    err: str


class Clock:
    """Stands in for `time.monotonic`; a test sets the time."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


class Shell:
    """Runs `laplacenet …` in a folder of its own."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self.monkeypatch, self.capsys = folder, monkeypatch, capsys
        monkeypatch.chdir(folder)
        monkeypatch.delenv("LAPLACENET_DATA", raising=False)

    def __call__(self, *arguments: str | Path) -> Said:
        self.monkeypatch.setattr(sys, "argv", ["laplacenet", *map(str, arguments)])
        self.capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        written = self.capsys.readouterr()
        return Said(int(ended.value.code or 0), written.out, written.err)

    def succeeds(self, *arguments: str | Path) -> Said:
        said = self(*arguments)
        assert said.code == 0, said.err
        return said

    def runs_out_of_time(self, *arguments: str | Path) -> Said:
        """Ended by --for before its goal."""
        said = self(*arguments)
        assert said.code == 3, (said.code, said.err)
        return said

    def fails(self, *arguments: str | Path) -> str:
        """The one line that the user is told; exit code 2, no traceback."""
        said = self(*arguments)
        assert said.code == 2, (said.code, said.err)
        lines = said.err.strip().splitlines()
        assert len(lines) == 1, said.err
        assert lines[0].startswith("error: ")
        return lines[0]


def on_a_terminal(folder: Path, *arguments: str, is_piped: bool = False) -> tuple[str, str]:
    """What is seen on a terminal of its own, in a process of its own, and what went to a pipe in place of it."""
    terminal, inner = pty.openpty()
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "120", "OMP_NUM_THREADS": "1"}
    out = subprocess.PIPE if is_piped else inner
    command = [sys.executable, "-m", "laplacenet", *arguments]
    with subprocess.Popen(command, cwd=folder, stdout=out, stderr=inner, env=environment) as process:
        os.close(inner)
        seen = b""
        with contextlib.suppress(OSError):  # Linux answers so when the other end is closed
            while block := os.read(terminal, 1 << 16):
                seen += block
        os.close(terminal)
        piped = b"" if process.stdout is None else process.stdout.read()
    assert process.returncode == 0, seen
    return seen.decode().replace("\r\n", "\n"), piped.decode()
