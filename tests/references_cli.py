"""The command line called as a user calls it, but inside the test's own process."""

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

    def fails(self, *arguments: str | Path) -> str:
        """The one line that the user is told; exit code 2, no traceback."""
        said = self(*arguments)
        assert said.code == 2, (said.code, said.err)
        lines = said.err.strip().splitlines()
        assert len(lines) == 1, said.err
        assert lines[0].startswith("error: ")
        return lines[0]
