"""Every command and snippet of the documentation runs, in the order in which it stands on its page."""

import re
import shlex
from pathlib import Path

import pytest
from references_cli import Shell
from references_docs import PAGES, ROOT, TEXT_ONLY, Snippet, furnish, snippets
from references_experiments import shorten_figure_two
from references_labeling import make_quick


@pytest.mark.parametrize("page", [page for page in PAGES if snippets(page)], ids=lambda page: page.stem)
def test_what_a_page_says_to_type_can_be_typed(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    furnish(tmp_path)
    make_quick(monkeypatch)
    shorten_figure_two(monkeypatch)  # the command has no option for it that the page could add
    shell, names = Shell(tmp_path, monkeypatch, capsys), {}
    for snippet in snippets(page):
        if snippet.kind == "python":
            exec(compile(snippet.body, f"{page.name}, a python snippet", "exec"), names)
        elif snippet.kind == "console":
            run_commands(snippet, shell)


def run_commands(snippet: Snippet, shell: Shell) -> None:
    for command in snippet.commands():
        program, *arguments = shlex.split(command)
        if program == "make":  # the whole tests cannot run inside themselves; what must pass runs both
            assert command in (ROOT / ".ci/run").read_text(encoding="utf-8"), command
        else:
            assert program == "laplacenet", f"{command!r}: only laplacenet and make are typed in the documentation"
            shell.succeeds(*arguments)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_nothing_that_could_be_run_hides_from_the_tests(page: Path) -> None:
    for snippet in snippets(page):
        assert snippet.kind in ("python", "console", *TEXT_ONLY), f"a fence of kind {snippet.kind!r} is never run"
        if snippet.kind == "console":
            assert all(line.startswith("$ ") for line in snippet.body.splitlines()), snippet.body
        elif snippet.kind != "python":
            assert not re.search(r"^\s*(\$|laplacenet) ", snippet.body, re.M), snippet.body
    indented = re.findall(r"^ {4,}(?:\$ )?(?:laplacenet|make|python3?) .*$", page.read_text(encoding="utf-8"), re.M)
    assert not indented
