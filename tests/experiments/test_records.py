"""Records: what goes in comes out, nothing else is taken for one, and only like is averaged with like."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from references_experiments import outcome, record_of

from laplacenet.experiments.experiment import Experiment
from laplacenet.experiments.paper.records import (
    MAX_POINTS,
    CurvePoint,
    RunKey,
    make_record,
    read_record,
    read_records,
    record_path,
    thin_curve,
    write_record,
)
from laplacenet.experiments.paper.series import RecordBook, last_error, schedule
from laplacenet.experiments.paper.variants import laplacenet, with_views
from laplacenet.experiments.run_records import EpochRecord
from laplacenet.runtime import InputError

HEADLINE = laplacenet("cifar100", 4000, "13-cnn")


def epoch(number: int, **values: Any) -> EpochRecord:
    usual: dict[str, Any] = {
        "epoch": number,
        "phase": "semi-supervised",
        "step": 10 * (number + 1),
        "n_steps": 10,
        "is_complete": True,
        "loss": 1.0,
        "lr": 0.03,
        "test_error": 0.5,
        "pseudo_label_accuracy": 0.6,
        "is_converged": True,
        "n_iterations": 9,
        "n_unreachable": 0,
        "recall": None,
        "label_s": 0.1,
        "step_s": 0.01,
        "compile_s": 0.0,
        "elapsed_s": 1.0,
    }
    return EpochRecord(**(usual | values))


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    record = record_of(HEADLINE, split=3, test_error=0.3164)
    path = write_record(tmp_path, record)
    assert path == tmp_path / "cifar100-4000/13-cnn/laplacenet/published-split03-steps250000.json"
    assert read_records(tmp_path) == [record]


@pytest.mark.parametrize("split", [0, 99, 100, 1234])
def test_a_record_of_any_split_is_found(tmp_path: Path, split: int) -> None:
    record = record_of(HEADLINE, split=split, test_error=0.3)
    write_record(tmp_path, record)
    assert read_records(tmp_path) == [record]


def test_every_schedule_split_and_setting_has_a_file_of_its_own() -> None:
    keys = [
        RunKey("a", 0, "published", 250_000),
        RunKey("a", 0, "published", 25_000),
        RunKey("a", 1, "published", 250_000),
        RunKey("a", 0, "balanced", 250_000),
        RunKey("a", 0, "published", 250_000, ("train.lr=0.1",)),
        RunKey("a", 0, "published", 250_000, ("train.lr=0.2",)),
    ]
    assert len({record_path(Path(), key) for key in keys}) == len(keys)


def test_a_record_names_files_but_not_where_they_lie() -> None:
    data = replace(
        HEADLINE.data, n_labeled=None, folder="/home/me/data", split_file="/home/me/s.npz", split_key="4000/00"
    )
    experiment = replace(HEADLINE, data=data)
    made = make_record(
        RunKey(HEADLINE.name, 0, "published", 250_000),
        experiment,
        outcome(),
        epochs=[epoch(0)],
        provenance={},
    )
    assert made.experiment.data.folder is None
    assert made.experiment.data.split_file == "s.npz"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda c: c.update(format=2), "not a record of format 1"),
        (lambda c: c.pop("curve"), "no 'curve'"),
        (lambda c: c["outcome"].update(test_error=31.64), "between 0 and 1"),
        (lambda c: c["outcome"].update(test_error="low"), "test_error is 'low'"),
        (lambda c: c["outcome"].pop("total_s"), "'total_s' is missing"),
        (lambda c: c["outcome"].update(more=1), "outcome: unknown entry 'more'"),
        (lambda c: c["key"].update(split_source="own"), "must be one of published, balanced"),
        (lambda c: c["key"].update(split=True), "split is True"),
        (lambda c: c["experiment"]["train"].update(steps="many"), "steps is 'many'"),
        (lambda c: c.update(curve={}), "curve is {}, not a list"),
        (lambda c: c.update(curve=c["curve"][::-1]), "must ascend"),
        (lambda c: c.update(diverged_at_step="soon"), "diverged_at_step"),
        (lambda c: c.update(provenance=[]), r"provenance is \[\], not an object"),
    ],
)
def test_what_is_no_record_is_refused_by_name(tmp_path: Path, change: Any, said: str) -> None:
    path = write_record(tmp_path, record_of(HEADLINE))
    content = json.loads(path.read_text())
    del content["checksum"]
    change(content)
    path.write_text(json.dumps(content))
    with pytest.raises(InputError, match=said) as caught:
        read_record(path)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


def test_a_changed_record_is_refused_and_one_of_an_older_version_without_a_checksum_is_read(tmp_path: Path) -> None:
    record = record_of(HEADLINE, test_error=0.3164)
    path = write_record(tmp_path, record)
    whole = path.read_text()
    path.write_text(whole.replace("0.3164", "0.3064"))
    with pytest.raises(InputError, match="damaged") as caught:
        read_record(path)
    assert str(caught.value).startswith(str(path))
    content = json.loads(whole)
    del content["checksum"]
    path.write_text(json.dumps(content))
    assert read_record(path) == record


def test_a_missing_folder_of_records_is_said_to_be_missing(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such folder; --results"):
        read_records(tmp_path / "none")


def test_a_long_curve_is_thinned_between_its_ends() -> None:
    points = thin_curve([epoch(number) for number in range(273)])
    assert len(points) == MAX_POINTS
    assert (points[0].step, points[-1].step) == (10, 2730)
    assert len({point.step for point in points}) == MAX_POINTS


def test_a_thinned_curve_keeps_the_epochs_that_were_tested() -> None:
    def curve(n: int, every: int) -> tuple[CurvePoint, ...]:
        return thin_curve([epoch(i, test_error=0.5 if i % every == every - 1 else None) for i in range(n)])

    for n, every in ((95, 10), (61, 2), (200, 4)):
        points = curve(n, every)
        assert len(points) == len({point.step for point in points}) == MAX_POINTS
        assert sum(point.test_error is not None for point in points) == n // every
        assert (points[0].step, points[-1].step) == (10, 10 * n)
    assert len(curve(200, 2)) == MAX_POINTS


def test_an_interrupted_epoch_is_one_point() -> None:
    first = epoch(0, step=4, n_steps=4, is_complete=False, loss=2.0, test_error=None)
    second = epoch(0, step=10, n_steps=6, loss=1.4, pseudo_label_accuracy=None)
    (point,) = thin_curve([first, second])
    assert (point.step, point.loss, point.test_error, point.pseudo_label_accuracy) == (10, 1.4, 0.5, 0.6)


def test_full_and_shortened_schedules_are_never_averaged() -> None:
    full = [record_of(HEADLINE, split=split, test_error=0.31 + 0.01 * split) for split in range(2)]
    short = [record_of(HEADLINE, split=0, base_steps=25_000, test_error=0.44)]
    found = RecordBook([*short, *full]).series(HEADLINE)
    assert [(series.base_steps, len(series.records)) for series in found] == [(250_000, 2), (25_000, 1)]
    spread = found[0].spread(last_error)
    assert spread is not None
    assert (spread.mean, spread.n) == (pytest.approx(31.5), 2)
    assert spread.std == pytest.approx(0.5**0.5)
    assert str(found[1].spread(last_error)) == "44.00"


def test_published_and_balanced_splits_are_never_averaged() -> None:
    records = [record_of(HEADLINE, split=0), record_of(HEADLINE, split=1, source="balanced")]
    assert [series.split_source for series in RecordBook(records).series(HEADLINE)] == ["published", "balanced"]


def test_a_record_with_other_settings_under_the_same_name_does_not_count() -> None:
    record = record_of(HEADLINE)
    changed: Experiment = replace(record.experiment, train=replace(record.experiment.train, lr=0.1))
    other = replace(record, experiment=changed)
    overridden = replace(record, key=replace(record.key, overrides=("train.lr=0.1",)))
    assert RecordBook([other, overridden]).series(HEADLINE) == []
    assert RecordBook([record]).series(with_views(HEADLINE, 1)) == []


def test_a_record_with_another_number_of_labels_than_its_cell_does_not_count() -> None:
    """As of a list that was cut short."""
    cut = record_of(HEADLINE, n_labeled=100)
    fast = replace(record_of(HEADLINE, split=1), key=replace(cut.key, split=1, overrides=("preset=fast",)))
    cut_fast = replace(cut, key=replace(cut.key, overrides=("preset=fast",)))
    book = RecordBook([cut, fast, cut_fast])
    assert book.series(HEADLINE) == []
    assert [series.records for series in book.with_other_settings()] == [(fast,)]


def test_experiments_are_compared_on_the_splits_and_schedule_that_both_have() -> None:
    one = with_views(HEADLINE, 1)
    records = [
        record_of(HEADLINE, split=0),
        *(record_of(HEADLINE, split=split, base_steps=25_000) for split in (0, 1, 2)),
        *(record_of(one, split=split, base_steps=25_000) for split in (1, 2, 3)),
    ]
    (pair,) = RecordBook(records).together([HEADLINE, one])
    assert pair is not None
    assert [series.base_steps for series in pair] == [25_000, 25_000]
    assert [series.splits for series in pair] == [{1, 2}, {1, 2}]
    assert RecordBook(records[:1]).together([HEADLINE, one]) == []


def test_a_diverged_run_has_no_error_to_average() -> None:
    records = [record_of(HEADLINE, split=0, test_error=0.3), record_of(HEADLINE, split=1, diverged_at_step=50)]
    (series,) = RecordBook(records).series(HEADLINE)
    spread = series.spread(last_error)
    assert spread is not None
    assert (spread.n, series.n_diverged) == (1, 1)
    assert schedule(series) == "n = 1 of 2, 250 000 steps"
