"""The numbers on the page of results, and those that the README repeats, are those of the records."""

import json
import re

import numpy as np
import pytest
from references_docs import ROOT
from references_review_page import cell

from laplacenet.experiments.benchmark import LoopRow, Row, StepRow, read_bench_records, read_side_by_side
from laplacenet.experiments.benchmark.epochs import BASELINE
from laplacenet.experiments.paper.moons_record import read_moons
from laplacenet.experiments.paper.plan import SHORT_STEPS
from laplacenet.experiments.paper.records import Record, read_records
from laplacenet.experiments.paper.series import RecordBook
from laplacenet.reports.paper_page import headline, report_content

README, RESULTS = ((ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "docs/results.md"))
RECORDS = read_records(ROOT / "results")
UNALIGNED = "one view, without alignment"
ROWS = {
    "one view": "laplacenet-views-1",
    "three views": "laplacenet",
    "five views": "laplacenet-views-5",
    "one view, three times the batch": "laplacenet-views-1-batch-x3",
    "one view, without RandAugment": "laplacenet-views-1-no-randaugment",
    UNALIGNED: "laplacenet-views-1-no-alignment",
    f"{UNALIGNED}, with the loss weighting of Iscen et al.": "laplacenet-views-1-no-alignment-class-weighting",
    f"{UNALIGNED}, the network's own pseudo-labels in place of the graph's": "laplacenet-views-1-network-labels",
    "one view, without MixUp": "laplacenet-views-1-no-mixup",
}
WITH_INVARIANCE = ("one view", "three views", "five views", "one view, three times the batch")


def recorded(name: str, *, data: str = "cifar100-4000") -> Record:
    key = (f"{data}/13-cnn/{name}", 0, SHORT_STEPS)
    (found,) = (one for one in RECORDS if (one.key.name, one.key.split, one.key.base_steps) == key)
    return found


def test_the_headline_is_the_reports() -> None:
    assert headline(RecordBook(RECORDS)) in RESULTS


def test_the_readme_repeats_the_headline() -> None:
    text = " ".join(README.split())
    for data, labels, published in (
        ("cifar100-4000", "4 000", "31.64 ± 0.02"),
        ("cifar100-10000", "10 000", "26.60 ± 0.23"),
    ):
        errors = [
            100 * one.outcome.test_error
            for one in RECORDS
            if one.key.name == f"{data}/13-cnn/laplacenet" and one.key.is_full
        ]
        spread = f" ± {np.std(errors, ddof=1):.2f}" if len(errors) > 1 else ""
        (shown,) = re.findall(
            rf"([^ ]+(?: ± [^ ]+)?) % with {labels} labels \((\d) (?:published )?splits?; paper: (.+?) %\)", text
        )
        assert shown == (f"{np.mean(errors):.2f}{spread}", str(len(errors)), published)


def test_the_page_counts_the_verdicts_as_the_report_does() -> None:
    book = RecordBook(RECORDS, moons=read_moons(ROOT / "results"), epochs=read_side_by_side(ROOT / "results"))
    counts = {verdict: n for verdict, _, n in report_content(book)["counts"]}
    shown = re.findall(
        r"(\d+) are reproduced, (\d+) confirmed in direction on a shorter schedule,"
        r" (\d+) contradicted and (\d+) not yet run",
        " ".join(RESULTS.split()),
    )
    order = ("reproduced", "direction confirmed at a shortened schedule", "contradicted", "not yet run")
    assert shown == [tuple(str(counts[verdict]) for verdict in order)]


def test_the_two_moons_are_the_recorded_ones() -> None:
    moons = read_moons(ROOT / "results")
    assert moons is not None
    graph, network, supervised = (f"{moons.spread(method)[0]:.1f} %" for method in ("graph", "network", "supervised"))
    assert f"| **{graph}** | {network} | {supervised} |" in RESULTS
    assert (ROOT / "docs/figure-2.png").read_bytes() == (ROOT / "results/figure-2/figure-2.png").read_bytes()


@pytest.mark.parametrize("row", ROWS)
def test_the_shortened_runs_are_the_recorded_ones(row: str) -> None:
    outcome = recorded(ROWS[row]).outcome
    (line,) = (line for line in RESULTS.splitlines() if line.startswith(f"| {row} |"))
    invariance = f"{100 * outcome.test_invariance:.2f}, {100 * outcome.train_invariance:.2f}"
    shown = invariance if row in WITH_INVARIANCE else ""
    assert [cell.strip() for cell in line.split("|")[2:4]] == [f"{100 * outcome.test_error:.2f}", shown]


def test_the_graph_and_the_network_with_more_labels_are_the_recorded_ones() -> None:
    network, graph = (
        recorded(f"laplacenet-views-1-{what}", data="cifar100-10000") for what in ("network-labels", "no-alignment")
    )
    errors = [f"{100 * one.outcome.test_error:.2f} %" for one in (network, graph)]
    assert f"the network's own pseudo-labels give {errors[0]}, the graph's {errors[1]}" in " ".join(RESULTS.split())


def newest_on_a_gpu(section: str) -> tuple[Row, ...]:
    """Of the records in the order of their names, which end with their dates."""
    records = [one for one in read_bench_records(ROOT / "results/bench") if "gpu" in one.provenance["hardware"]]
    return next(one.rows[section] for one in reversed(records) if section in one.rows)


def test_the_steps_on_a_gpu_are_those_of_the_newest_record() -> None:
    named = {"13-cnn": "13-CNN", "wrn-28-2": "WRN-28-2", "wrn-28-8": "WRN-28-8"}
    for row in newest_on_a_gpu("steps"):
        assert isinstance(row, StepRow)
        what = f"| step, {named[row.model]}, b = {row.batch_size}, {row.n_views} views"
        (line,) = (line for line in RESULTS.splitlines() if line.startswith(what))
        assert line.endswith(f"| {row.step_ms:.2f} ms | bare {row.bare_ms:.2f} ms |")


def test_fixmatch_beside_a_plain_loop_is_that_of_the_newest_record() -> None:
    (row,) = newest_on_a_gpu("loop")
    assert isinstance(row, LoopRow)
    (line,) = (line for line in RESULTS.splitlines() if line.startswith("| FixMatch, WRN-28-2, 64 + 448 images |"))
    assert f"| {row.ours_per_s:.0f} steps/s |" in line
    assert f"{row.n_workers} workers, amp: {row.plain_per_s:.1f} steps/s" in line


def test_the_epochs_are_those_that_were_measured_side_by_side() -> None:
    measured = read_side_by_side(ROOT / "results")
    assert measured is not None
    text = " ".join(RESULTS.split())
    for row in measured.rows:
        shown = row.variant.replace("distribution ", "").replace("graph propagation", "the graph")
        if row.variant != BASELINE:
            assert f"{shown} {measured.relative(row.variant):.2f} ({row.published_ratio:.2f})" in text


@pytest.mark.parametrize("name", ["cifar10", "cifar100"])
def test_the_answers_of_the_review_and_of_other_orders_are_the_recorded_ones(name: str) -> None:
    page = (ROOT / "docs/review.md").read_text(encoding="utf-8")
    orders = json.loads((ROOT / f"results/review/{name}.json").read_text(encoding="utf-8"))["orders"]
    assert len(orders) >= 3
    for order in orders.values():
        cells = " | ".join(cell(order[goal]) for goal in ("80%", "90%", "95%"))
        assert f"| {cells} |" in page, order["name"]
        assert len(order["seeds"]) == 6


def test_the_graphs_at_scale_are_the_recorded_ones() -> None:
    record = json.loads((ROOT / "results/bench/cuda-nvidia-h200-2026-11-16T1643.json").read_text(encoding="utf-8"))
    million, ten = record["rows"]["scale"]
    assert f"a million points | {million['total_s']:.1f} s, {million['peak_bytes'] / 2**30:.1f} GiB" in RESULTS
    assert f"{ten['recall']:.3f} | {ten['total_s']:.1f} s, {ten['peak_bytes'] / 2**30:.0f} GiB" in RESULTS
    record = json.loads((ROOT / "results/bench/cuda-nvidia-h200-2026-11-16T1644.json").read_text(encoding="utf-8"))
    ratios = [row["step_ms"] / row["bare_ms"] for row in record["rows"]["methods"]]
    assert f"the {len(ratios)} methods | | {min(ratios):.2f} to {max(ratios):.2f} of their bare passes" in RESULTS


def test_the_comparisons_that_the_page_points_to_are_on_the_page_of_methods() -> None:
    index = (ROOT / "docs/methods.md").read_text(encoding="utf-8")
    slugs = {re.sub(r"[^\w-]", "", title.lower().replace(" ", "-")) for title in re.findall(r"^## (.*)$", index, re.M)}
    pointed = re.findall(r"\(methods\.md#([^)]*)\)", RESULTS)
    assert pointed
    assert set(pointed) <= slugs
