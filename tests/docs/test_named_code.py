"""The files and functions that the documentation names exist."""

import re
from pathlib import Path

import pytest
from references_docs import PAGES, ROOT

NAMED = re.compile(r"`(?P<path>[a-z_]+(?:/\w+)+\.py)(?:: (?P<name>[\w.]+))?`")
NOW = [page for page in PAGES if page.name != "notebook.md"]  # the notebook speaks of the code of its day


@pytest.mark.parametrize("page", NOW, ids=lambda page: page.stem)
def test_what_a_page_names_is_in_the_code(page: Path) -> None:
    for found in NAMED.finditer(page.read_text(encoding="utf-8")):
        paths = [path for folder in (ROOT / "src/laplacenet", ROOT) if (path := folder / found["path"]).is_file()]
        assert paths, found["path"]
        if found["name"]:
            defined = found["name"].split(".")[-1]
            assert re.search(rf"^\s*(def|class) {defined}\b", paths[0].read_text(encoding="utf-8"), re.M), found[0]


def test_no_advice_installs_a_package_that_is_on_no_index() -> None:
    """The project itself is installed from a clone."""
    sources = [*(ROOT / "src").rglob("*.py"), ROOT / "README.md", *NOW]
    assert [path for path in sources if "laplacenet[" in path.read_text(encoding="utf-8")] == []
