"""Mistakes in a method of one's own are answered in one line that names the method and what it must give."""

import sys
from collections.abc import Iterator
from pathlib import Path

import jaxtyping
import pytest
from references_cli import Shell
from references_docs import ROOT, snippets
from references_runs import write_bars

from laplacenet.training import method_class

EXAMPLE = next(one.body for one in snippets(ROOT / "docs/add-a-method.md") if "class PseudoLabel(" in one.body)
METHOD = "own_method:PseudoLabel"
ROWS = '{"alpha": (self.config.weight * steps / self.steps).astype(np.float32)}'
GUESSED = 'return supervised + batch.draws["alpha"] * functional.cross_entropy(logits[n:], guesses)'


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Shell]:
    write_bars(tmp_path / "bars.npz")
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # as in use: only tests check types
    yield Shell(tmp_path, monkeypatch, capsys)
    sys.modules.pop("own_method", None)


def write_method(folder: Path, old: str, new: str) -> list[str]:
    """The example of the documentation with one mistake, and the command that trains with it."""
    assert EXAMPLE.count(old) == 1
    (folder / "own_method.py").write_text(EXAMPLE.replace(old, new), encoding="utf-8")
    settings = ("train.steps=4", "train.batch_size=24", "train.labeled_batch_size=4", "model.name=small-cnn")
    words = ["train", "bars.npz", "--labels", "9", "--method", METHOD, "--out", "run"]
    return [*words, *(word for setting in settings for word in ("--set", setting))]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("    config: PseudoLabelConfig\n", "", f"{METHOD} does not name its settings; write config:"),
        ("config: PseudoLabelConfig\n", "config: 'Missing'\n", "name 'Missing' is not defined"),
        ("def draw_views(", "def draw_view(", f"{METHOD} has no draw_views;"),
        ("def loss(", "def losses(", f"{METHOD} has no loss;"),
    ],
)
def test_what_its_class_lacks_is_said_before_there_is_a_run(shell: Shell, old: str, new: str, said: str) -> None:
    assert said in shell.fails(*write_method(shell.folder, old, new))
    assert not (shell.folder / "run").exists()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"weak"', '"week"', "unknown strength 'week'; choose one of weak, labeled, unlabeled"),
        (GUESSED, "pass", "PseudoLabel.loss returned NoneType; it must return a tensor with one number"),
        (
            GUESSED,
            'return functional.cross_entropy(logits[n:], guesses, reduction="none")',
            "PseudoLabel.loss has shape (20,); it must give one number",
        ),
        (GUESSED, "return supervised.detach()", "does not depend on the network's weights"),
        (f"return {ROWS}", "pass", "draw_numbers returned NoneType; it must return a dict of arrays"),
        (ROWS, '{"alpha": 1.0}', "draw_numbers: alpha must be an array with one row per step, not float"),
        (ROWS, '{"alpha": np.ones(1, np.float32)}', "draw_numbers: alpha has 1 row, not "),
    ],
)
def test_what_it_must_not_give_is_said_at_the_first_step(shell: Shell, old: str, new: str, said: str) -> None:
    assert said in shell.fails(*write_method(shell.folder, old, new))


def test_a_method_that_draws_everything_itself_needs_no_draw_views(shell: Shell) -> None:
    write_method(shell.folder, "def draw_views(self, n_steps, n_labeled, n_unlabeled, rng)", "def draw(self, *which)")
    assert method_class(METHOD).__name__ == "PseudoLabel"
