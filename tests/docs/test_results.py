"""The README's numbers on the paper are those of the records beside it."""

import pytest
from references_docs import ROOT

from laplacenet.experiments.benchmark import read_side_by_side
from laplacenet.experiments.benchmark.epochs import BASELINE
from laplacenet.experiments.records import Record, read_records
from laplacenet.reports.paper_page import headline

README = (ROOT / "README.md").read_text(encoding="utf-8")
RECORDS = read_records(ROOT / "results")
SHORT_STEPS = 50_000
ROWS = {
    "one view": "laplacenet-views-1",
    "three views": "laplacenet",
    "five views": "laplacenet-views-5",
    "one view, three times the batch": "laplacenet-views-1-batch-x3",
    "one view without RandAugment": "laplacenet-views-1-no-randaugment",
    "… without alignment": "laplacenet-views-1-no-alignment",
    "… without alignment, with the loss weighting of Iscen et al.": "laplacenet-views-1-no-alignment-class-weighting",
    "… without alignment, the network's own pseudo-labels in place of the graph's": "laplacenet-views-1-network-labels",
    "… without MixUp": "laplacenet-views-1-no-mixup",
}


def recorded(name: str) -> Record:
    key = (f"cifar100-4000/13-cnn/{name}", 0, SHORT_STEPS)
    (found,) = (one for one in RECORDS if (one.key.name, one.key.split, one.key.base_steps) == key)
    return found


def test_the_headline_is_the_reports() -> None:
    assert headline(RECORDS) in README


@pytest.mark.parametrize("row", ROWS)
def test_the_shortened_runs_are_the_recorded_ones(row: str) -> None:
    outcome = recorded(ROWS[row]).outcome
    (line,) = (line for line in README.splitlines() if line.startswith(f"| {row} |"))
    error, invariance = (cell.strip() for cell in line.split("|")[2:4])
    assert error == f"{100 * outcome.test_error:.2f}"
    assert invariance in ("", f"{100 * outcome.test_invariance:.2f}, {100 * outcome.train_invariance:.2f}")


def test_the_epochs_are_those_that_were_measured_side_by_side() -> None:
    measured = read_side_by_side(ROOT / "results")
    assert measured is not None
    text = " ".join(README.split())
    for row in measured.rows:
        shown = row.variant.replace("distribution ", "").replace("graph propagation", "the graph")
        if row.variant != BASELINE:
            assert f"{shown} {measured.relative(row.variant):.2f} ({row.published_ratio:.2f})" in text
