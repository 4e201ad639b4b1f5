"""The documentation as a site: it builds without a warning, all pages are in it, and its pictures are the code's."""

import runpy
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from references_docs import METHOD_PAGES, PAGES, ROOT


def test_the_site_builds_without_a_warning_and_asks_nothing_of_the_network(tmp_path: Path) -> None:
    for name in ("docs", "results"):
        shutil.copytree(ROOT / name, tmp_path / name)
    shutil.copy(ROOT / "zensical.toml", tmp_path)
    built = subprocess.run(
        [sys.executable, "-m", "zensical", "build", "--strict"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    pages = list((tmp_path / "site").rglob("*.html"))
    assert len(pages) > len(PAGES) + len(METHOD_PAGES) - 1
    for page in pages:
        assert "fonts.googleapis" not in page.read_text(encoding="utf-8"), page


def test_every_page_is_in_the_navigation() -> None:
    navigation = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))["project"]["nav"]
    pages = [page for page in (*PAGES, *METHOD_PAGES) if page.name != "README.md"]
    assert sorted(pages_in(navigation)) == sorted(page.relative_to(ROOT / "docs").as_posix() for page in pages)


def pages_in(navigation: list[dict[str, Any]]) -> Iterator[str]:
    """Sections may hold sections."""
    for entry in navigation:
        for content in entry.values():
            yield from [content] if isinstance(content, str) else pages_in(content)


def test_the_methods_pictures_are_what_the_code_draws(tmp_path: Path) -> None:
    runpy.run_path(str(ROOT / "docs/pictures.py"))["main"](tmp_path)
    drawn = sorted(path.name for path in tmp_path.iterdir())
    assert drawn == sorted(path.name for path in (ROOT / "docs/pictures").iterdir())
    for name in drawn:
        ours, shown = (
            np.asarray(Image.open(folder / name), dtype=float) for folder in (tmp_path, ROOT / "docs/pictures")
        )
        assert ours.shape == shown.shape
        assert abs(ours - shown).mean() < 1, f"{name}: run python docs/pictures.py docs/pictures"  # fonts may differ
