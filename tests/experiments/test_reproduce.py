"""Reproducing: every cell runs, what is recorded is skipped, what was cut off goes on elsewhere to the same record."""

import operator
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from references_experiments import TINY, record_of, split_files, write_tiny_data
from references_runs import StopAfter

from laplacenet.experiments.experiment import Experiment
from laplacenet.experiments.paper.costs import MEASURED_ON, cost_s
from laplacenet.experiments.paper.plan import SHORT_STEPS, whole_plan
from laplacenet.experiments.paper.recipes import RECIPES, Cell, find_recipe
from laplacenet.experiments.paper.records import Record, read_record, read_records, record_path, write_record
from laplacenet.experiments.paper.reproduce import (
    Places,
    PlannedRun,
    carry_out,
    is_recorded,
    plan_run,
    plan_runs,
    unique,
    unreadable_datasets,
)
from laplacenet.experiments.paper.variants import laplacenet, supervised, with_scaled_batch
from laplacenet.experiments.presets import preset_named
from laplacenet.experiments.task import Task, prepare
from laplacenet.runtime import InputError, NullMonitor
from laplacenet.training import Execution

RESULTS = Path(__file__).parents[2] / "results"

CPU = Execution(torch.device("cpu"))
UNIQUE_CELLS = list({cell.experiment.name: cell for name in RECIPES for cell in find_recipe(name).cells}.values())
HEADLINE = Cell("LaplaceNet", "cifar100/4000", laplacenet("cifar100", 4000, "13-cnn"))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_data(tmp_path_factory.mktemp("data"))


def places(data: Path, work: Path, *, published: bool = True) -> Places:
    files = split_files(data) if published else {}
    return Places(runs=work / "runs", results=work / "results", data=str(data), split_files=files)


def run(planned: PlannedRun, where: Places, n_steps: int | None = None) -> Record | None:
    monitor = NullMonitor() if n_steps is None else StopAfter(n_steps)
    for _ in carry_out(planned, where, execution=CPU, monitor=monitor):
        pass
    return read_record(record_path(where.results, planned.key)) if is_recorded(planned, where.results) else None


@pytest.mark.parametrize("cell", UNIQUE_CELLS, ids=lambda cell: cell.experiment.name)
def test_every_cell_runs_two_steps_and_is_recorded(cell: Cell, data: Path, tmp_path: Path) -> None:
    planned = plan_run(cell, 1, places(data, tmp_path), base_steps=2, overrides=TINY)
    record = run(planned, places(data, tmp_path))
    assert record is not None
    assert record.outcome.steps == planned.experiment.train.steps <= 10
    assert record.outcome.test_error is not None
    accuracy, invariance = 1 - record.outcome.test_error, record.outcome.test_invariance
    assert (invariance is None) == (accuracy == 0)
    assert accuracy == 0 or 0 <= accuracy * invariance <= 1  # the accuracy on augmented images
    assert record.key.split_source == "published"
    assert record.experiment.data.split_key == f"{cell.experiment.data.n_labeled}/01"
    assert record.curve[-1].step == record.outcome.steps


@pytest.mark.parametrize("cell", UNIQUE_CELLS, ids=lambda cell: cell.experiment.name)
def test_under_a_preset_a_cell_keeps_its_network_and_method(cell: Cell) -> None:
    laid = plan_run(cell, 1, Places(), base_steps=400, preset="fast").experiment
    assert (laid.model, laid.method.name) == (cell.experiment.model, cell.experiment.method.name)
    assert laid.train.steps * 250_000 == cell.experiment.train.steps * 400
    assert (laid.name, laid.seed, laid.data.name, laid.data.split_seed) == (cell.experiment.name, 1, cell.dataset, 1)
    assert (laid.train.lr, laid.train.small_share) == (0.2, 0.5)


@pytest.mark.parametrize(
    ("table", "row", "expected"),
    [
        ("table-7", "n_a = 5", {"method.n_views": 5}),
        ("table-8", "without distribution alignment", {"method.n_views": 1, "graph.alignment_iterations": 0}),
        ("table-9", "batch × 3", {"method.n_views": 1, "train.batch_size": 300, "train.labeled_batch_size": 150}),
        ("class-weighting", "weighted by certainty and class", {"method.class_weighting": True}),
        ("table-9", "without strong augmentation", {"augment.n_unlabeled_samples": 0, "augment.cutout": 0.0}),
        ("table-3", "Supervised baseline", {"method.n_views": 3, "method.mixup_alpha": 1.0}),
        ("table-8", "without MixUp", {"method.mixup_alpha": 0.0, "method.cutmix_share": 0.0}),
    ],
)
def test_under_a_preset_a_cell_keeps_what_sets_it_apart(table: str, row: str, expected: dict[str, object]) -> None:
    for column in ("cifar10/4000", "cifar100/4000"):
        cells = [cell for cell in find_recipe(table).cells if (cell.row, cell.column) == (row, column)]
        for cell in cells:
            laid = plan_run(cell, 0, Places(), base_steps=400, preset="fast").experiment
            assert {path: operator.attrgetter(path)(laid) for path in expected} == expected
    assert cells


def test_under_a_preset_with_other_views_a_cell_keeps_its_number_of_them() -> None:
    for cell in find_recipe("table-7").cells:
        laid = plan_run(cell, 0, Places(), base_steps=400, preset="digits").experiment
        assert f"n_a = {laid.method.n_views}" == cell.row


def test_a_preset_of_laplacenet_is_refused_for_other_methods() -> None:
    for recipe, row in (("table-4", "UDA"), ("few-labels", "FlexMatch")):
        for cell in find_recipe(recipe).others:
            if cell.row == row:
                with pytest.raises(InputError, match=f"--preset fast is for LaplaceNet and its baselines; {row} has"):
                    plan_run(cell, 0, Places(), base_steps=400, preset="fast")


@pytest.mark.parametrize("preset", ["original", "equal"])
def test_the_methods_presets_leave_the_papers_own_cells_as_they_are(preset: str) -> None:
    for cell in find_recipe("table-3").cells:
        assert plan_run(cell, 0, Places(), preset=preset) == plan_run(cell, 0, Places())


def test_a_record_of_an_earlier_form_of_the_preset_is_refused(tmp_path: Path) -> None:
    planned = plan_run(HEADLINE, 0, Places(), base_steps=86_000, preset="fast")
    record = record_of(HEADLINE.experiment, base_steps=86_000)
    write_record(tmp_path, replace(record, key=planned.key, experiment=planned.experiment))
    assert is_recorded(planned, tmp_path)
    former = replace(planned.experiment, train=replace(planned.experiment.train, weight_decay=5e-4))
    write_record(tmp_path, replace(record, key=planned.key, experiment=former))
    with pytest.raises(InputError, match="recorded when preset=fast meant other settings; move it away or choose"):
        is_recorded(planned, tmp_path)


def test_under_a_preset_laplacenets_own_cell_is_the_preset() -> None:
    preset = preset_named("fast")
    laid = plan_run(HEADLINE, 0, Places(), base_steps=preset.train.steps, preset="fast").experiment
    assert replace(laid, name=preset.name, data=preset.data) == preset


@pytest.mark.parametrize("preset", ["original", "equal"])
def test_another_methods_cell_runs_a_few_steps_and_is_recorded(preset: str, data: Path, tmp_path: Path) -> None:
    others = find_recipe("table-4").others
    (cell,) = (c for c in others if (c.row, c.column, c.preset) == ("FixMatch (RA)", "cifar100/4000", preset))
    steps = 2 * 250_000 // cell.experiment.train.steps + 1
    planned = plan_run(cell, 0, places(data, tmp_path), base_steps=steps, overrides=TINY)
    record = run(planned, places(data, tmp_path))
    assert record is not None
    assert record.outcome.test_error is not None
    assert record.key.name == f"cifar100-4000/wrn-28-2/fixmatch-{preset}"


@pytest.mark.parametrize(
    "cell", [HEADLINE, *find_recipe("table-4").cells_in("cifar10/500")], ids=["13-cnn", "wrn-28-2"]
)
def test_the_paper_s_own_networks_run_two_steps(cell: Cell, data: Path, tmp_path: Path) -> None:
    planned = plan_run(cell, 0, places(data, tmp_path), base_steps=2, overrides=TINY[1:])
    record = run(planned, places(data, tmp_path))
    assert record is not None
    assert record.experiment.model.name == cell.experiment.model.name


def test_mini_imagenet_is_read_at_84_pixels_and_fits_resnet_18(data: Path, tmp_path: Path) -> None:
    (cell,) = (cell for cell in find_recipe("table-5").cells_in("mini-imagenet/4000") if cell.row == "LaplaceNet")
    planned = plan_run(cell, 0, places(data, tmp_path), base_steps=1, overrides=TINY[1:])
    record = run(planned, places(data, tmp_path))
    assert record is not None
    assert (record.experiment.model.name, record.outcome.n_labeled) == ("resnet-18", 6)


def test_a_run_cut_off_and_continued_elsewhere_leaves_the_record_of_an_unbroken_one(data: Path, tmp_path: Path) -> None:
    whole = places(data, tmp_path / "whole")
    unbroken = run(plan_run(HEADLINE, 0, whole, base_steps=9, overrides=TINY), whole)
    first = places(data, tmp_path / "first")
    assert run(plan_run(HEADLINE, 0, first, base_steps=9, overrides=TINY), first, n_steps=5) is None
    moved = tmp_path / "data elsewhere"
    shutil.copytree(data, moved)
    shutil.copytree(first.runs, tmp_path / "second" / "runs")
    shutil.rmtree(first.runs)
    second = places(moved, tmp_path / "second")
    assert run(plan_run(HEADLINE, 0, second, base_steps=9, overrides=TINY), second, n_steps=2) is None
    continued = run(plan_run(HEADLINE, 0, second, base_steps=9, overrides=TINY), second)
    assert continued is not None
    assert unbroken is not None
    assert len(continued.provenance["resumed"]) == 2
    assert timeless(continued) == timeless(unbroken)
    losses = [[point.loss for point in record.curve] for record in (continued, unbroken)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)


def timeless(record: Record) -> tuple[object, ...]:
    """What may not differ between two sessions; the loss of an epoch in two parts is summed in another order."""
    outcome = replace(record.outcome, total_s=0.0, label_s=0.0, compile_s=0.0, median_step_s=None)
    return record.key, record.experiment, outcome, tuple(replace(point, loss=0.0) for point in record.curve)


def test_no_file_of_a_checkpoint_exceeds_sixteen_mebibytes(data: Path, tmp_path: Path) -> None:
    where = places(data, tmp_path)
    planned = plan_run(HEADLINE, 0, where, base_steps=3, overrides=TINY[1:])
    assert run(planned, where, n_steps=1) is None
    sizes = [path.stat().st_size for path in (where.runs / planned.key.path / "checkpoint").iterdir()]
    assert len(sizes) > 2
    assert max(sizes) <= 16 * 2**20


def test_a_finished_folder_whose_record_was_lost_is_recorded_without_running(data: Path, tmp_path: Path) -> None:
    where = places(data, tmp_path)
    planned = plan_run(HEADLINE, 0, where, base_steps=2, overrides=TINY)
    record = run(planned, where)
    record_path(where.results, planned.key).unlink()
    assert run(planned, where, n_steps=0) == record


@pytest.mark.parametrize("change", [{"train": {"lr": 0.1}}, {"data": {"split_key": "4000/01"}}])
def test_a_finished_folder_of_other_settings_is_not_recorded(
    data: Path, tmp_path: Path, change: dict[str, dict[str, Any]]
) -> None:
    where = places(data, tmp_path)
    planned = plan_run(HEADLINE, 0, where, base_steps=2, overrides=TINY)
    run(planned, where)
    record_path(where.results, planned.key).unlink()
    parts = {name: replace(getattr(planned.experiment, name), **fields) for name, fields in change.items()}
    with pytest.raises(InputError, match="holds a run with other settings"):
        run(replace(planned, experiment=replace(planned.experiment, **parts)), where)
    assert not record_path(where.results, planned.key).exists()


def test_published_rows_of_another_data_set_are_refused_before_training(data: Path, tmp_path: Path) -> None:
    where = replace(places(data, tmp_path), split_files={"cifar100": split_files(data)["cifar10"]})
    planned = plan_run(HEADLINE, 0, where, base_steps=2, overrides=TINY)
    with pytest.raises(InputError, match="its split 4000/00 has 1 to 5 labels per class in cifar100"):
        run(planned, where)
    assert not where.runs.exists()


def test_a_run_that_another_process_began_meanwhile_is_left_to_it(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = places(data, tmp_path)
    planned = plan_run(HEADLINE, 0, where, base_steps=40, overrides=TINY)
    other = carry_out(planned, where, execution=CPU, monitor=NullMonitor())

    def prepare_slowly(experiment: Experiment) -> Task:
        monkeypatch.undo()
        next(other)
        return prepare(experiment)

    monkeypatch.setattr("laplacenet.experiments.paper.reproduce.prepare", prepare_slowly)
    with pytest.raises(InputError, match="another process is working on this run"):
        run(planned, where)
    other.close()


def with_one_label_less(splits: Path) -> None:
    with np.load(splits) as arrays:
        np.savez(splits, **{key: arrays[key][:-1] for key in arrays})


@pytest.mark.parametrize("has_checkpoint", [True, False])
def test_a_finished_folder_with_other_labels_is_not_recorded(
    data: Path, tmp_path: Path, *, has_checkpoint: bool
) -> None:
    shutil.copytree(data, tmp_path / "own")
    where = places(tmp_path / "own", tmp_path)
    planned = plan_run(HEADLINE, 0, where, base_steps=2, overrides=TINY)
    assert run(planned, where) is not None
    record_path(where.results, planned.key).unlink()
    if not has_checkpoint:
        shutil.rmtree(where.runs / planned.key.path / "checkpoint")
    with_one_label_less(tmp_path / "own" / "cifar100_splits.npz")
    with pytest.raises(InputError, match="holds a run with other labels than"):
        run(planned, where)


def test_a_record_with_other_labels_is_not_taken_for_this_run(data: Path, tmp_path: Path) -> None:
    shutil.copytree(data, tmp_path / "own")
    where = places(tmp_path / "own", tmp_path)
    planned = plan_run(HEADLINE, 0, where, base_steps=2, overrides=TINY)
    record = run(planned, where)
    assert record is not None
    assert is_recorded(planned, where.results)
    with_one_label_less(tmp_path / "own" / "cifar100_splits.npz")
    with pytest.raises(InputError, match="recorded with other labels than 4000/00 of"):
        is_recorded(planned, where.results)
    del record.provenance["data"]["labeled rows"]  # as in records of older versions
    write_record(where.results, record)
    assert is_recorded(planned, where.results)


def test_what_is_in_the_place_of_a_record_is_refused(tmp_path: Path) -> None:
    planned = plan_run(HEADLINE, 0, Places())
    record_path(tmp_path, planned.key).mkdir(parents=True)
    with pytest.raises(InputError, match="is not a file; move it away or choose another --results"):
        is_recorded(planned, tmp_path)


def test_a_damaged_outcome_is_refused_with_what_repairs_it(data: Path, tmp_path: Path) -> None:
    where = places(data, tmp_path)
    planned = plan_run(HEADLINE, 0, where, base_steps=2, overrides=TINY)
    assert run(planned, where) is not None
    folder = where.runs / planned.key.path
    record_path(where.results, planned.key).unlink()
    (folder / "final.json").write_text("{}")
    with pytest.raises(InputError, match=rf"final\.json.*; laplacenet train --resume {folder} may repair it, or move"):
        run(planned, where)


def test_a_record_of_an_earlier_form_of_the_recipe_is_refused(tmp_path: Path) -> None:
    planned = plan_run(HEADLINE, 0, Places())
    former = replace(planned.experiment, train=replace(planned.experiment.train, lr=0.1))
    write_record(tmp_path, replace(record_of(HEADLINE.experiment, split=0), key=planned.key, experiment=former))
    with pytest.raises(InputError, match="recorded when this row of the paper meant other settings; move it away or"):
        is_recorded(planned, tmp_path)


def test_a_folder_that_holds_another_run_is_left_alone(data: Path, tmp_path: Path) -> None:
    where = places(data, tmp_path)
    planned = plan_run(HEADLINE, 0, where, base_steps=3, overrides=TINY)
    run(planned, where, n_steps=1)
    other = replace(planned, experiment=replace(planned.experiment, train=replace(planned.experiment.train, lr=0.1)))
    with pytest.raises(InputError, match="holds a run with other settings"):
        run(other, where)


def test_without_a_file_the_split_is_balanced_and_recorded_as_such(data: Path, tmp_path: Path) -> None:
    where = places(data, tmp_path, published=False)
    planned = plan_run(HEADLINE, 2, where, base_steps=2, overrides=(*TINY, "data.n_labeled=8"))
    record = run(planned, where)
    assert record is not None
    assert record.key.split_source == "balanced"
    assert record.experiment.data.split_seed == 2


def test_a_run_whose_loss_is_no_number_is_recorded_as_diverged(data: Path, tmp_path: Path) -> None:
    where = places(data, tmp_path)
    planned = plan_run(HEADLINE, 0, where, base_steps=30, overrides=(*TINY, "train.lr=1e30"))
    record = run(planned, where)
    assert record is not None
    assert record.diverged_at_step is not None
    assert record.diverged_at_step < 30


def test_the_plan_begins_with_the_headline_and_ends_with_every_cell_on_five_splits() -> None:
    runs = plan_runs(whole_plan(), Places(split_files={"cifar100": "f.npz"}))
    assert runs[0].key.name == "cifar100-4000/13-cnn/laplacenet"
    assert (runs[0].key.base_steps, runs[0].key.split_source) == (250_000, "published")
    assert runs[1].key.base_steps == SHORT_STEPS
    full = {(planned.key.name, planned.key.split) for planned in runs if planned.key.is_full}
    assert full == {(cell.experiment.name, split) for cell in UNIQUE_CELLS for split in range(5)}
    assert len(unique(runs)) == len(runs)


def test_a_data_set_that_is_not_there_is_left_out_with_the_reason(data: Path, tmp_path: Path) -> None:
    shutil.copytree(data / "cifar-100-python", tmp_path / "cifar-100-python")
    where = Places(data=str(tmp_path))
    cells = (*find_recipe("table-5").cells, HEADLINE)
    reasons = unreadable_datasets(plan_run(cell, 0, where) for cell in cells)
    assert list(reasons) == ["mini-imagenet"]
    assert "cannot be downloaded" in reasons["mini-imagenet"]


def test_cost_grows_with_views_and_batch_and_is_unknown_for_an_unmeasured_network() -> None:
    headline = cost_s(HEADLINE.experiment)
    larger = cost_s(with_scaled_batch(HEADLINE.experiment, 3))
    alone = cost_s(supervised("cifar100", 4000, "13-cnn"))
    assert headline is not None
    assert larger is not None
    assert alone is not None
    assert alone < headline < larger < 3 * headline
    assert cost_s(laplacenet("mini-imagenet", 4000, "resnet-18")) is None


def test_costs_are_near_the_times_of_the_recorded_runs() -> None:
    on_h200 = [record for record in read_records(RESULTS) if record.provenance["hardware"].get("gpu") in MEASURED_ON]
    records = [record for record in on_h200 if record.key.base_steps >= 50_000]
    assert records
    for record in records:
        assert record.outcome.total_s == pytest.approx(cost_s(record.experiment), rel=0.2), record.key
