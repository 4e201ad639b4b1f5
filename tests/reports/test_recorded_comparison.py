"""A recorded comparison is shown as it is: only tuned, partly run, or with finalists; and what is missing is named."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from references_experiments import outcome

from laplacenet.experiments.compare import ComparedRun, Comparison, Tuning
from laplacenet.experiments.experiment import DataConfig
from laplacenet.experiments.finished_runs import FailedRun, FinishedRun
from laplacenet.experiments.notation import to_json
from laplacenet.experiments.presets import cifar100
from laplacenet.models import ModelConfig
from laplacenet.reports.comparison import comparison_figure, comparison_record, table_rows
from laplacenet.reports.comparison_view import ComparisonView, Grid, time_of, view_comparison
from laplacenet.reports.methods_page import write_methods_pages
from laplacenet.reports.paper_page import write_report
from laplacenet.reports.recorded_comparison import RecordedComparison, read_recorded_comparison
from laplacenet.runtime import InputError, read_json, write_json, write_sealed

METHODS = ("supervised", "uda", "fixmatch", "laplacenet")
RATES = (0.01, 0.1)
BASE = replace(cifar100(), data=DataConfig(name="cifar100", split_file="splits.npz"))
ASKED = Comparison(
    BASE,
    METHODS,
    for_s=300.0,
    seeds=(0, 1),
    tuning=Tuning(60.0, RATES, held_out=400),
    finalists=2,
    split_key="4000/{split:02d}",
    preset="equal",
)
ORIGIN: dict[str, Any] = {
    "commit": "0123456789abcdef",
    "date": "2026-11-16T20:00:00+00:00",
    "hardware": {"device": "cuda", "gpu": "NVIDIA H200"},
    "libraries": {"torch": "2.11.0"},
}
FIRST = {"supervised": 0.50, "uda": 0.42, "fixmatch": 0.44, "laplacenet": 0.40}
"""Test errors on the first split."""


def tuned(method: str, lr: float, error: float | None) -> FinishedRun:
    """None is a run that diverged."""
    return finished(ComparedRun(method, 0, lr, is_tuning=True), error, lr=lr, n_labeled=3600, seconds=60.0)


def final(method: str, seed: int, error: float | None, *, lr: float = 0.1, **origin: str) -> FinishedRun:
    return finished(ComparedRun(method, seed, lr), error, lr=lr, seconds=299.6, origin=ORIGIN | origin)


def finished(
    run: ComparedRun,
    error: float | None,
    *,
    lr: float,
    seconds: float,
    n_labeled: int = 4000,
    origin: dict[str, Any] = ORIGIN,
) -> FinishedRun:
    experiment = ASKED.experiment(run.method, run.seed)
    experiment = replace(experiment, train=replace(experiment.train, lr=lr, steps=80_000 + run.seed))
    came_out = None if error is None else outcome(test_error=error, n_labeled=n_labeled)
    return FinishedRun(run, experiment, came_out, ((100, seconds / 2, 0.9), (200, seconds, error)), seconds, origin)


def all_tuned(methods: Sequence[str] = METHODS) -> list[FinishedRun]:
    """0.1 is the better rate for all but UDA, for which both are equally good."""
    return [tuned(m, lr, 0.6 if m == "uda" or lr == 0.1 else 0.7) for m in methods for lr in RATES]


def first_split(methods: Sequence[str] = METHODS) -> list[FinishedRun]:
    return [final(method, 0, FIRST[method]) for method in methods]


def write(
    folder: Path,
    tuning: Sequence[FinishedRun],
    runs: Sequence[FinishedRun],
    failures: Sequence[FailedRun] = (),
    *,
    asked: Comparison = ASKED,
) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "equal.json"
    content = comparison_record(to_json(asked), tuning, runs, failures)
    write_json(path, {"command": "laplacenet compare …", **ORIGIN, **content})
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "results" / "methods"


def read(folder: Path, tuning: Sequence[FinishedRun], runs: Sequence[FinishedRun], **more: Any) -> RecordedComparison:
    return read_recorded_comparison(write(folder, tuning, runs, **more))


def cells(grid: Grid | None) -> dict[str, dict[str, str]]:
    """By method, then by column."""
    assert grid is not None
    return {row[0]: dict(zip(grid.columns[1:], row[1:], strict=True)) for row in grid.rows}


def texts(view: ComparisonView) -> Iterator[str]:
    yield from (*view.facts, *view.protocol, *view.missing)


def test_with_tuning_alone_the_rates_are_shown_and_all_runs_are_missing(folder: Path) -> None:
    view = view_comparison(read(folder, [*all_tuned(("supervised", "uda")), tuned("fixmatch", 0.01, 0.5)], []))
    assert view.title == "CIFAR-100, 4 000 labels, 5 minutes each"
    assert view.results is None
    shown = cells(view.tuning)
    assert shown["supervised"] == {"rate 0.01": "70.0 %", "rate 0.1": "60.0 %", "steps": "80 000", "chosen": "0.1"}
    assert shown["uda"]["chosen"] == "0.01"  # the first of equally good ones, as in the runs
    assert shown["fixmatch"] == {"rate 0.01": "50.0 %", "rate 0.1": "–", "steps": "80 000", "chosen": "not chosen yet"}
    assert view.missing == (
        "Tuning runs: fixmatch (0.1), laplacenet (all rates).",
        "Runs on split 4000/00: all 4 methods.",
        "Runs on split 4000/01: the two best methods of the first, not known yet.",
    )


def test_the_conditions_and_how_the_choice_was_made_are_said_in_every_state(folder: Path) -> None:
    later = final("laplacenet", 1, 0.41, commit="fedcba9876543210", date="2026-11-18T01:00:00+00:00")
    for runs in ([], first_split(("uda",)), first_split(), [*first_split(), later]):
        view = view_comparison(read(folder, all_tuned(), runs))
        said = " ".join(texts(view))
        for words in ("4 000 labels, network 13-CNN", "preset equal", "One NVIDIA H200, torch 2.11.0", "commit"):
            assert words in said
        assert "length 1 under supervised, laplacenet, as" in said
        assert "the lowest error on 400 of the labels after 1 minute of training" in said
        assert "No test label is used in tuning" in said
        assert "The two methods with the lowest test error on split 4000/00 are run on split 4000/01 too." in said
    assert "2026-11-16 to 2026-11-18, commits 0123456, fedcba9." in said


def test_of_some_final_runs_the_others_are_named(folder: Path) -> None:
    view = view_comparison(read(folder, all_tuned(), first_split(("uda", "supervised"))))
    assert [row[0] for row in view.results.rows] == ["uda", "supervised", "fixmatch", "laplacenet"]  # type: ignore[union-attr]
    shown = cells(view.results)
    assert shown["uda"] == {
        "learning rate (held-out error)": "0.1 (60.0 %)",
        "steps": "80 000",
        "training time": "300 s",
        "test error, split 4000/00": "42.00 %",
        "test error, split 4000/01": "–",
        "mean": "–",
    }
    assert shown["laplacenet"]["learning rate (held-out error)"] == "0.1 (60.0 %)"
    assert shown["laplacenet"]["steps"] == shown["laplacenet"]["test error, split 4000/00"] == "–"
    assert view.missing == (
        "Runs on split 4000/00: fixmatch, laplacenet.",
        "Runs on split 4000/01: the two best methods of the first, not known yet.",
    )


def test_once_the_first_split_is_complete_the_finalists_are_known(folder: Path) -> None:
    record = read(folder, all_tuned(), first_split())
    assert record.advanced == ("laplacenet", "uda")
    assert view_comparison(record).missing == ("Runs on split 4000/01: laplacenet, uda.",)


def test_finalists_have_a_mean_over_both_splits(folder: Path) -> None:
    second = [final("laplacenet", 1, 0.41), final("uda", 1, 0.40)]
    view = view_comparison(read(folder, all_tuned(), [*first_split(), *second]))
    assert view.missing == ()
    assert [row[0] for row in view.results.rows] == ["laplacenet", "uda", "fixmatch", "supervised"]  # type: ignore[union-attr]
    shown = cells(view.results)
    assert shown["laplacenet"]["mean"] == "40.50 %"
    assert shown["laplacenet"]["steps"] == "80 000 / 80 001"
    assert shown["uda"]["test error, split 4000/01"] == "40.00 %"
    assert shown["fixmatch"]["mean"] == "–"


def test_diverged_and_failed_runs_are_called_so(folder: Path) -> None:
    tuning = [tuned("supervised", 0.01, 0.6), tuned("supervised", 0.1, None)]
    failure = FailedRun("uda", 0, 0.01, is_tuning=True, error="RuntimeError: out of memory", failed_at=1.0)
    view = view_comparison(read(folder, tuning, [final("supervised", 0, None)], failures=[failure]))
    assert cells(view.tuning)["supervised"]["rate 0.1"] == "diverged"
    assert cells(view.tuning)["supervised"]["chosen"] == "0.01"
    assert cells(view.results)["supervised"]["test error, split 4000/00"] == "diverged"
    assert "Failed: tuning/uda-0.01 (RuntimeError: out of memory)." in view.missing


def test_many_seeds_are_shown_by_their_mean_and_what_all_share_is_said_once(folder: Path) -> None:
    asked = replace(
        ASKED, methods=("supervised", "uda"), seeds=(0, 1, 2), for_s=None, tuning=None, finalists=None, split_key=None
    )
    runs = [replace_steps(final(m, seed, 0.3 + 0.1 * seed)) for m in asked.methods for seed in asked.seeds]
    view = view_comparison(read(folder, [], runs[:-1], asked=asked))
    assert view.tuning is None
    assert view.title == "CIFAR-100, 4 000 labels, 250 000 steps each"
    assert cells(view.results) == {
        "uda": {"training time": "300 s", "runs": "2", "test error": "35.00 ± 7.07 %"},
        "supervised": {"training time": "300 s", "runs": "3", "test error": "40.00 ± 10.00 %"},
    }
    assert "The same for all: learning rate 0.1, 250 000 steps." in view.facts
    assert view.missing == ("Runs on seed 2: uda.",)


def test_a_method_is_not_ranked_higher_for_missing_a_hard_seed(folder: Path) -> None:
    asked = replace(ASKED, methods=("supervised", "uda"), tuning=None, finalists=None, split_key=None)
    runs = [final("supervised", 0, 0.5), final("uda", 0, 0.4), final("uda", 1, 0.7)]
    record = read(folder, [], runs, asked=asked)
    assert record.by_error == tuple(row[0] for row in table_rows(record.runs)) == ("uda", "supervised")


def test_one_run_each_without_tuning_is_called_so(folder: Path) -> None:
    asked = replace(ASKED, methods=("supervised", "uda"), seeds=(0,), tuning=None, finalists=None, split_key=None)
    view = view_comparison(read(folder, [], [final(method, 0, 0.4) for method in asked.methods], asked=asked))
    untuned, equal_time = view.protocol
    assert untuned == "No learning rate was tuned. There is one run of each method, so small differences mean nothing."
    assert equal_time.startswith("Each method trains for 5 minutes with all labels.")
    assert "The same for all: learning rate 0.1, 80 000 steps." in view.facts


def test_a_tuned_comparison_says_what_came_first(folder: Path) -> None:
    tuned_first, equal_time, _ = view_comparison(read(folder, all_tuned(), first_split())).protocol
    assert tuned_first.startswith("Each method's learning rate (0.01 or 0.1) is the one with the lowest error")
    assert equal_time.startswith("Then each method trains for 5 minutes")


@pytest.mark.parametrize(("error", "lowest"), [(0.03, 0), (0.149, 0), (0.322, 20), (0.76, 70)])
def test_a_picture_of_high_errors_does_not_begin_at_zero(error: float, lowest: float) -> None:
    (axes,) = comparison_figure([final("uda", 0, error), final("laplacenet", 0, 0.8)], title="").axes
    assert axes.get_ylim()[0] == lowest


def test_a_picture_without_a_finished_curve_begins_at_zero() -> None:
    run = replace(final("uda", 0, None), curve=((100, 1.0, None),))
    (axes,) = comparison_figure([run], title="").axes
    assert axes.get_ylim()[0] == 0


def replace_steps(run: FinishedRun) -> FinishedRun:
    return replace(run, experiment=replace(run.experiment, train=replace(run.experiment.train, steps=250_000)))


@pytest.mark.parametrize("n_final", [0, 2, 4])
def test_pages_and_report_show_the_record_in_each_state(folder: Path, tmp_path: Path, n_final: int) -> None:
    write(folder, all_tuned(), first_split(METHODS[:n_final]))
    write_methods_pages(tmp_path / "docs", folder)
    write_report(folder.parent, tmp_path / "report")
    index = (tmp_path / "docs" / "methods.md").read_text().replace("\u00a0", " ")
    markdown, page = ((tmp_path / "report" / name).read_text() for name in ("report.md", "report.html"))
    for text in (index, markdown):
        assert "# CIFAR-100, 4 000 labels, 5 minutes each\n" in text
        assert ("| supervised | 0.1 (60.0 %) |" in text) == (n_final > 0)
        assert "| supervised | 70.0 % | 60.0 % | 80 000 | 0.1 |" in text
        assert "Not recorded yet:" in text
    assert (tmp_path / "docs" / "methods" / "equal.png").is_file() == (n_final > 0)
    assert '<h3 id="compare-equal">CIFAR-100, 4 000 labels, 5 minutes each</h3>' in page
    assert page.count("<svg") == (n_final > 0)


def test_nothing_in_a_record_breaks_out_of_the_pages(folder: Path, tmp_path: Path) -> None:
    hostile = "<script>alert(1)</script>\n# head"
    run = replace(final("uda", 0, 0.4), origin=ORIGIN | {"commit": "<b>", "hardware": {"gpu": hostile}})
    failure = FailedRun("uda", 1, 0.01, is_tuning=False, error=hostile, failed_at=1.0)
    path = write(folder, all_tuned(), [run], [failure])
    path.rename(folder / 'a"><script>.json')
    write_methods_pages(tmp_path / "docs", folder)
    write_report(folder.parent, tmp_path / "report")
    for text in ((tmp_path / "docs" / "methods.md").read_text(), (tmp_path / "report" / "report.md").read_text()):
        assert "<script>alert" not in text
        assert "\n# head" not in text
    assert "<script" not in (tmp_path / "report" / "report.html").read_text()


def test_another_file_is_refused_by_name(folder: Path) -> None:
    folder.mkdir(parents=True)
    write_json(folder / "other.json", {"runs": []})
    with pytest.raises(InputError, match=r"other\.json: not a record of laplacenet compare \(it has no 'command'\)"):
        read_recorded_comparison(folder / "other.json")


def test_a_record_that_was_changed_is_refused_and_one_from_before_checksums_is_read(folder: Path) -> None:
    path = write(folder, [], [final("uda", 0, 0.4321)])
    content = read_json(path)
    write_sealed(path, content)
    assert read_recorded_comparison(path).runs[0].error == 0.4321
    path.write_text(path.read_text().replace("0.4321", "0.07"))
    with pytest.raises(InputError, match=r"damaged \(its checksum differs from its content's\)"):
        read_recorded_comparison(path)
    write_json(path, content)
    assert read_recorded_comparison(path).runs[0].error == 0.4321


def test_times_are_in_minutes_where_they_are_whole() -> None:
    assert [time_of(s) for s in (60.0, 300.0, 90.0, 30.0)] == ["1 minute", "5 minutes", "90 s", "30 s"]


def test_of_runs_from_before_the_layer_was_a_setting_nothing_is_said(folder: Path) -> None:
    """All of them had it, whatever a method would have now."""
    former = [replace(run, experiment=replace(run.experiment, model=ModelConfig("13-cnn"))) for run in all_tuned()]
    assert "length 1" not in " ".join(texts(view_comparison(read(folder, former, []))))
