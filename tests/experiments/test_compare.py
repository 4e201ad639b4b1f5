"""A comparison of methods: what it runs in which order, how it resumes, and what it refuses."""

import contextlib
import hashlib
import json
import re
import shutil
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from references_runs import StopAfter, write_bars
from typer.testing import CliRunner

from laplacenet.cli.app import app
from laplacenet.cli.comparing import why_not, write_record
from laplacenet.experiments.compare import ComparedRun, Comparison, Tuning, Workbench, split_name, with_held_out
from laplacenet.experiments.finished_runs import Curve, FinishedRun, curve_of, read_finished_run
from laplacenet.experiments.notation import override
from laplacenet.experiments.presets import digits, two_moons
from laplacenet.experiments.run_records import EpochRecord
from laplacenet.experiments.step_times import PhaseTimes, StepTimes, measure_step_times
from laplacenet.experiments.task import prepare
from laplacenet.reports.comparison import comparison_record, draw_comparison, markdown_table, table_rows
from laplacenet.runtime import InputError, NullMonitor, RunFolder, read_sealed, write_sealed
from laplacenet.training import Execution, ImageViews, TrainConfig

CPU = Execution(torch.device("cpu"))
SHORT = TrainConfig(steps=4, batch_size=24, labeled_batch_size=8, lr=0.05)
BASE = replace(digits(), train=SHORT)


def comparison(**changes: object) -> Comparison:
    return replace(Comparison(BASE, ("supervised", "fixmatch")), **changes)  # type: ignore[arg-type]


def open_folder(bench: Workbench, record: Path | None = None) -> None:
    """As the command opens its folder, but without the hashes of the data."""
    bench.begin(record)
    bench.keep_data({})
    bench.take_over(record)


def next_run(bench: Workbench) -> ComparedRun | None:
    """None when all is done."""
    return next(iter(bench.due_runs()), None)


def work_through(bench: Workbench) -> list[str]:
    names = []
    while (run := next_run(bench)) is not None:
        names.append(run.name)
        for _ in bench.epochs(run, bench.task(run), NullMonitor()):
            pass
    return names


def test_steps_fit_the_time_with_capture_and_a_label_pass_each_epoch() -> None:
    main = PhaseTimes(label_s=2.0, step_s=0.1, capture_s=5.0, epoch_steps=10)
    times = StepTimes(main)
    assert times.seconds(25) == pytest.approx(2.5 + 3 * 2.0 + 5.0)
    n = times.steps_within(60.0)
    assert times.seconds(n) <= 60.0 < times.seconds(n + 1)
    assert StepTimes(main).steps_within(1.0) == 1


def test_a_supervised_start_is_a_fifth_of_all_steps_at_most() -> None:
    first, main = PhaseTimes(0.0, 0.5, 0.0, 10), PhaseTimes(0.0, 1.0, 0.0, 10)
    times = StepTimes(main, first, first_share=0.2, most_first_steps=10)
    assert times.seconds(20) == pytest.approx(4 * 0.5 + 16 * 1.0)
    assert times.seconds(100) == pytest.approx(10 * 0.5 + 90 * 1.0)


def test_steps_with_small_pictures_take_their_own_time_in_either_phase() -> None:
    first = PhaseTimes(0.0, 0.5, 0.0, 10, small_step_s=0.25)
    main = PhaseTimes(0.0, 1.0, 3.0, 10, small_step_s=0.5, small_capture_s=2.0)
    times = StepTimes(main, first, first_share=0.2, most_first_steps=10, small_share=0.5)
    assert times.seconds(100) == pytest.approx(10 * 0.25 + (40 * 0.5 + 2.0) + (50 * 1.0 + 3.0))
    assert replace(times, small_share=0.05).seconds(100) == pytest.approx(5 * 0.25 + 5 * 0.5 + 90 * 1.0 + 3.0)
    assert replace(times, small_share=1.0).seconds(100) == pytest.approx(10 * 0.25 + 90 * 0.5 + 2.0)
    config = TrainConfig(steps=101, small_share=0.5)
    n_small = sum(config.view_scale(step) < 1 for step in range(101))
    alone = StepTimes(PhaseTimes(0.0, 0.0, 0.0, 10, small_step_s=1.0), small_share=0.5)
    assert alone.seconds(101) == n_small


def test_steps_with_small_pictures_are_measured_where_a_run_has_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("laplacenet.experiments.step_times.MEASURED_S", 0.05)
    train = replace(SHORT, steps=10**6, small_share=0.5, small_scale=0.5)
    times = measure_step_times(prepare(replace(BASE, train=train)), CPU)
    assert times.first is not None
    assert times.small_share == 0.5
    assert min(times.main.small_step_s, times.first.small_step_s) > 0


def test_finalists_are_compared_by_the_seeds_that_all_methods_have(whole_comparison: Path) -> None:
    record = json.loads((whole_comparison / "record.json").read_text())
    made = read_finished_run(record["runs"][0], source="record")
    assert made.outcome is not None

    def run(method: str, seed: int, error: float) -> FinishedRun:
        return replace(
            made, run=replace(made.run, method=method, seed=seed), outcome=replace(made.outcome, test_error=error)
        )

    runs = [run("uda", 0, 0.6), run("fixmatch", 0, 0.5), run("fixmatch", 1, 0.9)]
    assert [row[0] for row in table_rows(runs)] == ["fixmatch", "uda"]
    assert [row[0] for row in table_rows([*runs, run("uda", 1, 0.6)])] == ["uda", "fixmatch"]


def test_two_folders_that_share_a_record_lose_no_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second writes while the first has read the record and not yet written it."""
    record = tmp_path / "shared.json"
    benches = [Workbench(comparison(), tmp_path / name, CPU) for name in ("one", "two")]
    for number, bench in enumerate(benches):
        open_folder(bench)
        run = bench.due_runs()[number]
        for _ in bench.epochs(run, bench.task(run), NullMonitor()):
            pass
    second = threading.Thread(target=write_record, args=(benches[1], record))

    def begin_second(*content: Any) -> dict[str, Any]:
        if not second.ident:
            second.start()
            second.join(timeout=0.5)
        return comparison_record(*content)

    monkeypatch.setattr("laplacenet.cli.comparing.comparison_record", begin_second)
    write_record(benches[0], record)
    second.join()
    assert {run["method"] for run in json.loads(record.read_text())["runs"]} == {"supervised", "fixmatch"}


def test_data_without_a_test_set_is_refused_before_any_run(tmp_path: Path) -> None:
    data = write_bars(tmp_path / "bars.npz", with_test=False)
    base = replace(BASE, data=replace(BASE.data, name=str(data), n_labeled=9))
    with pytest.raises(InputError, match="has no test set to compare methods on; add a folder test"):
        Workbench(replace(comparison(), base=base), tmp_path / "compared", CPU).require_same_data()


def test_the_phases_of_laplacenet_are_measured_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("laplacenet.experiments.step_times.MEASURED_S", 0.05)
    times = measure_step_times(prepare(replace(BASE, train=replace(SHORT, steps=10**6))), CPU)
    assert times.first is not None
    assert times.first.label_s < times.main.label_s
    assert times.most_first_steps == 100


def test_held_out_inputs_leave_training_and_become_the_test_set() -> None:
    task = prepare(BASE)
    held = with_held_out(task, 20)
    assert len(held.inputs) == len(held.given_labels) == len(held.true_labels) == len(task.inputs) - 20
    assert held.n_labeled == len(held.test_labels) == 20
    assert held.given_labels[held.given_labels >= 0].bincount().tolist() == [2] * 10
    assert held.test_labels.bincount().tolist() == [2] * 10
    known = {image.numpy().tobytes(): int(label) for image, label in zip(task.inputs, task.given_labels, strict=True)}
    left = {image.numpy().tobytes() for image in held.inputs}
    for image, label in zip(held.test_inputs, held.test_labels, strict=True):
        assert known[image.numpy().tobytes()] == label
        assert image.numpy().tobytes() not in left
    assert held.description.statistics == task.description.statistics
    with pytest.raises(InputError, match="--held-out 31: only 30 labels can be held out"):
        with_held_out(task, 31)


def test_held_out_vectors_leave_training_too() -> None:
    task = prepare(replace(two_moons(), train=SHORT))
    held = with_held_out(task, 6)
    assert (held.inputs.shape, held.test_inputs.shape) == ((len(task.inputs) - 6, 2), (6, 2))


def test_tuning_comes_first_then_the_first_seed_then_the_best_on_other_seeds(tmp_path: Path) -> None:
    tuning = Tuning(for_s=1e-6, rates=(0.01, 0.1), held_out=10)
    bench = Workbench(comparison(tuning=tuning, seeds=(0, 1), finalists=1), tmp_path / "out", CPU)
    open_folder(bench)
    names = work_through(bench)
    best = bench.ranking()[0]
    assert names == [
        *("tuning/supervised-0.01", "tuning/supervised-0.1", "tuning/fixmatch-0.01", "tuning/fixmatch-0.1"),
        *("runs/supervised-seed-0", "runs/fixmatch-seed-0", f"runs/{best}-seed-1"),
    ]
    results = bench.results()
    assert all(result.run.lr == bench.rate(result.run.method) for result in results)
    assert [result.experiment.train.steps for result in results] == [4, 4, 4]
    draw_comparison(results, tmp_path / "picture.png", title="digits")
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")
    assert markdown_table(results).count("\n") == 2 + 2


def test_another_comparison_does_not_go_on_in_the_same_folder(tmp_path: Path) -> None:
    open_folder(Workbench(comparison(), tmp_path / "out", CPU))
    open_folder(Workbench(comparison(), tmp_path / "out", CPU))
    with pytest.raises(InputError, match=r"holds another comparison \(--seeds is 1, here 2\); choose another --out"):
        open_folder(Workbench(comparison(seeds=(0, 1)), tmp_path / "out", CPU))
    tuned = comparison(methods=("uda",), for_s=90.0, tuning=Tuning(for_s=60.0, rates=(0.1, 0.3), held_out=4))
    assert comparison().differences(tuned) == (
        "--methods is uda, here supervised,fixmatch; --for is 90s, here not given;"
        " --tune is 60s (--rates 0.1,0.3 --held-out 4), here not given"
    )
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.txt").touch()
    with pytest.raises(InputError, match="holds something else"):
        open_folder(Workbench(comparison(), tmp_path / "other", CPU))


def test_a_run_that_diverges_is_noted_and_the_others_go_on(tmp_path: Path) -> None:
    settings = ("supervised:train.lr=1e30",)
    bench = Workbench(comparison(settings=settings), tmp_path / "out", CPU)
    open_folder(bench)
    assert work_through(bench) == ["runs/supervised-seed-0", "runs/fixmatch-seed-0"]
    assert [result.outcome is None for result in bench.results()] == [True, False]
    assert bench.ranking() == ["fixmatch", "supervised"]
    assert "1 diverged" in markdown_table(bench.results())


def broken_method(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:

    def loss(*_: object) -> None:
        raise error

    monkeypatch.setattr("laplacenet.training.methods.fixmatch.FixMatch.unlabeled_loss", loss)


def test_an_error_in_one_method_leaves_the_others_their_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("laplacenet.experiments.step_times.MEASURED_S", 0.01)
    words = ["compare", "digits", "--methods", "fixmatch,supervised", "--for", "0.001s", "--seeds", "2", "--out", "out"]
    words += ["--tune", "0.001s", "--rates", "0.01,0.1", "--held-out", "5", "--finalists", "1", "--device", "cpu"]
    with monkeypatch.context() as patched:
        broken_method(patched, RuntimeError("no such kernel"))
        answer = CliRunner().invoke(app, words)
    assert answer.exit_code == 1
    assert "tuning/fixmatch-0.01 failed (RuntimeError: no such kernel); give the same command again" in answer.stderr
    record = json.loads(Path("out/record.json").read_text())
    assert [(run["method"], run["seed"]) for run in record["runs"]] == [("supervised", 0), ("supervised", 1)]
    assert [(run["method"], run["lr"]) for run in record["failed"]] == [("fixmatch", 0.01), ("fixmatch", 0.1)]
    again = CliRunner().invoke(app, words)
    assert again.exit_code == 0, again.output
    record = json.loads(Path("out/record.json").read_text())
    assert {run["method"] for run in record["runs"]} == {"supervised", "fixmatch"}
    assert record["failed"] == []


def test_the_progress_of_tuning_says_that_its_errors_are_on_held_out_labels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["compare", "digits", "--methods", "supervised", "--steps", "1", "--tune", "0.001s", "--rates", "0.1"]
    said = CliRunner().invoke(app, [*words, "--held-out", "5", "--device", "cpu", "--out", "out"]).stderr
    shown = {
        line.split("/")[0]: line.split("  ")[-1].rstrip(" %.0123456789") for line in said.splitlines() if "loss" in line
    }
    assert shown == {"tuning": "error on held-out labels", "runs": "test error"}


def test_a_failed_run_is_not_tried_by_the_processes_beside_it(tmp_path: Path) -> None:
    first, second = (Workbench(comparison(), tmp_path / "out", CPU) for _ in range(2))
    for bench in (first, second):
        open_folder(bench)
    run = next_run(first)
    assert run is not None
    first.keep_failure(run, RuntimeError())
    later = Workbench(comparison(), tmp_path / "out", CPU)
    open_folder(later)
    assert [next_run(bench) == run for bench in (first, second, later)] == [False, False, True]
    assert [failed.error for failed in second.failures()] == ["RuntimeError: RuntimeError"]


def test_a_lost_device_ends_the_comparison(tmp_path: Path) -> None:
    lost = Execution(torch.device("meta"))  # nothing can be read from it
    bench = Workbench(comparison(), tmp_path / "out", lost)
    with pytest.raises(RuntimeError, match="illegal memory access"):
        bench.keep_failure(ComparedRun("supervised", 0), RuntimeError("illegal memory access"))


def test_a_run_that_was_killed_between_its_outcome_and_its_note_is_noted(tmp_path: Path) -> None:
    bench = Workbench(comparison(methods=("supervised",)), tmp_path / "out", CPU)
    open_folder(bench)
    work_through(bench)
    before = bench.results()
    shutil.rmtree(tmp_path / "out" / "finished")
    open_folder(bench)
    assert work_through(bench) == ["runs/supervised-seed-0"]
    assert [(run.outcome, run.curve) for run in bench.results()] == [(run.outcome, run.curve) for run in before]


def test_a_process_may_come_when_another_has_begun_to_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It saw no comparison there, and before it looked into the folder another process had begun a run."""
    late, early = (Workbench(comparison(), tmp_path / "out", CPU) for _ in range(2))
    begin = Workbench._require_own

    def begin_late(bench: Workbench) -> None:
        if bench is late:
            open_folder(early)
            (early.folder / "runs").mkdir()
        begin(bench)

    monkeypatch.setattr(Workbench, "_require_own", begin_late)
    open_folder(late)
    assert next_run(late) == next_run(early)


@pytest.fixture(scope="module")
def whole_comparison(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished comparison by time, with its record."""
    folder = tmp_path_factory.mktemp("comparison")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("laplacenet.experiments.step_times.MEASURED_S", 0.01)
        bench = Workbench(comparison(methods=("supervised",), for_s=1e-6), folder / "out", CPU)
        open_folder(bench)
        work_through(bench)
        write_record(bench, folder / "record.json")
    return folder


COMPARED_FILES = {
    "out/comparison.json": "choose another --out, and name a copy of its record with --record",
    "out/finished/runs-supervised-seed-0.json": "delete it to make it again from its run",
    "out/step-times/supervised.json": "delete it to measure the steps again",
}


@pytest.mark.parametrize("name", COMPARED_FILES)
def test_a_changed_value_in_a_file_of_a_comparison_is_refused_with_what_to_do(
    whole_comparison: Path, tmp_path: Path, name: str
) -> None:
    shutil.copytree(whole_comparison, tmp_path / "copy")
    path = tmp_path / "copy" / name
    text = path.read_text()
    digits = [place for place, sign in enumerate(text[: text.index('"checksum"')]) if sign in "01234567"]
    for place in digits[:: max(1, len(digits) // 25)]:
        changed = text[:place] + chr(ord(text[place]) ^ 1) + text[place + 1 :]
        with contextlib.suppress(ValueError):
            if json.loads(changed) == json.loads(text):  # the last digit of a number may not matter
                continue
        path.write_text(changed)
        bench = Workbench(comparison(methods=("supervised",), for_s=1e-6), tmp_path / "copy" / "out", CPU)
        with pytest.raises(
            InputError, match=rf"{re.escape(path.name)}: (damaged|not the JSON) .*; {COMPARED_FILES[name]}"
        ):
            use_all(bench, tmp_path / "copy" / "record.json")


def test_a_changed_value_in_a_record_is_refused_with_what_to_do(whole_comparison: Path, tmp_path: Path) -> None:
    shutil.copytree(whole_comparison, tmp_path / "copy")
    path = tmp_path / "copy" / "record.json"
    path.write_text(path.read_text().replace('"test_error": 0.', '"test_error": 1.'))
    bench = Workbench(comparison(methods=("supervised",), for_s=1e-6), tmp_path / "copy" / "out", CPU)
    with pytest.raises(InputError, match=r"record\.json: damaged .*; choose another --record, or delete it"):
        open_folder(bench, path)


def use_all(bench: Workbench, record: Path) -> None:
    open_folder(bench, record)
    bench.results()
    bench.step_times("supervised", bench.task_of_seed(0))


def test_a_finished_run_that_is_deleted_is_made_again_from_its_run(whole_comparison: Path, tmp_path: Path) -> None:
    shutil.copytree(whole_comparison, tmp_path / "copy")
    bench = Workbench(comparison(methods=("supervised",), for_s=1e-6), tmp_path / "copy" / "out", CPU)
    open_folder(bench)
    (before,) = bench.results()
    (tmp_path / "copy/out/finished/runs-supervised-seed-0.json").unlink()
    open_folder(bench)
    assert work_through(bench) == ["runs/supervised-seed-0"]
    (after,) = bench.results()
    assert (after.outcome, after.curve) == (before.outcome, before.curve)


def test_a_run_under_way_keeps_its_steps_where_they_are_measured_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step_s = iter([0.001, 0.1])
    times = iter(StepTimes(PhaseTimes(0.0, seconds, 0.0, 10)) for seconds in step_s)
    monkeypatch.setattr("laplacenet.experiments.compare.workbench.measure_step_times", lambda *_: next(times))
    bench = Workbench(comparison(methods=("supervised",), for_s=0.005), tmp_path / "out", CPU)
    open_folder(bench)
    run = ComparedRun("supervised", 0)
    for _ in bench.epochs(run, bench.task(run), StopAfter(2)):
        pass
    (tmp_path / "out" / "step-times" / "supervised.json").unlink()
    again = Workbench(bench.comparison, tmp_path / "out", CPU)
    open_folder(again)
    assert work_through(again) == ["runs/supervised-seed-0"]
    (result,) = again.results()
    assert result.experiment.train.steps == 5
    assert again.step_times("supervised", again.task_of_seed(0)).main.step_s == 0.1


def test_steps_that_were_measured_on_another_machine_or_with_other_settings_are_measured_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = iter(StepTimes(PhaseTimes(0.0, seconds, 0.0, 10)) for seconds in (1.0, 2.0, 3.0, 4.0))
    monkeypatch.setattr("laplacenet.experiments.compare.workbench.measure_step_times", lambda *_: next(times))
    bench = Workbench(comparison(), tmp_path / "out", CPU)
    open_folder(bench)
    task = bench.task_of_seed(0)
    assert [bench.step_times("supervised", task).main.step_s for _ in range(2)] == [1.0, 1.0]
    path = tmp_path / "out" / "step-times" / "supervised.json"
    content = read_sealed(path)
    content["hardware"]["gpu"] = "another"
    write_sealed(path, content)
    assert [bench.step_times("supervised", task).main.step_s for _ in range(2)] == [2.0, 2.0]
    content = read_sealed(path)
    del content["settings"]  # as older versions wrote it
    write_sealed(path, content)
    assert [bench.step_times("supervised", task).main.step_s for _ in range(2)] == [3.0, 3.0]
    other = replace(task, experiment=override(task.experiment, ["method.n_views=7"]))
    assert [bench.step_times("supervised", other).main.step_s for _ in range(2)] == [4.0, 4.0]


def test_the_time_of_a_resumed_run_counts_all_its_sessions(tmp_path: Path) -> None:
    bench = Workbench(comparison(methods=("supervised",)), tmp_path / "out", CPU)
    open_folder(bench)
    run = ComparedRun("supervised", 0)
    for _ in bench.epochs(run, bench.task(run), StopAfter(2)):
        pass
    folder = RunFolder(tmp_path / "out" / "runs" / "supervised-seed-0")
    (line,) = folder.epochs()
    for path in (folder.path, folder.checkpoint):  # as if the first session had taken 1000 s
        (path / "epochs.jsonl").unlink()
    folder.append_epoch(line | {"elapsed_s": 1000.0})
    manifest = read_sealed(folder.checkpoint / "manifest.json")
    content = folder.epoch_lines()
    (folder.checkpoint / "epochs.jsonl").write_bytes(content)
    manifest["files"]["epochs.jsonl"] = hashlib.sha256(content).hexdigest()
    write_sealed(folder.checkpoint / "manifest.json", manifest)
    assert work_through(bench) == ["runs/supervised-seed-0"]
    (result,) = bench.results()
    assert 1000 < result.wall_s < 1100
    shutil.rmtree(tmp_path / "out" / "finished")
    open_folder(bench)
    work_through(bench)
    assert 1000 < bench.result(run).wall_s < 1100


def test_a_finished_run_stays_finished_where_its_folder_is_deleted(whole_comparison: Path, tmp_path: Path) -> None:
    shutil.copytree(whole_comparison, tmp_path / "copy")
    shutil.rmtree(tmp_path / "copy" / "out" / "runs")
    bench = Workbench(comparison(methods=("supervised",), for_s=1e-6), tmp_path / "copy" / "out", CPU)
    open_folder(bench)
    assert next_run(bench) is None
    assert len(bench.results()) == 1


def test_a_finished_run_of_other_settings_is_not_noted_as_one_of_these(whole_comparison: Path, tmp_path: Path) -> None:
    """It was cut off before it was noted, and what the code does by default has changed since."""
    shutil.copytree(whole_comparison, tmp_path / "copy")
    shutil.rmtree(tmp_path / "copy" / "out" / "finished")
    manifest = tmp_path / "copy/out/runs/supervised-seed-0/checkpoint/manifest.json"
    content = read_sealed(manifest)
    content["identity"]["method.n_views"] = 7
    write_sealed(manifest, content)
    bench = Workbench(comparison(methods=("supervised",), for_s=1e-6), tmp_path / "copy" / "out", CPU)
    open_folder(bench)
    with pytest.raises(InputError, match=r"is of another run: its method\.n_views is 7"):
        work_through(bench)


def test_settings_may_concern_one_method_alone() -> None:
    compared = comparison(settings=("train.weight_decay=0.001", "fixmatch:method.threshold=0.5"))
    assert compared.experiment("fixmatch", 0).method.threshold == 0.5  # type: ignore[attr-defined]
    assert {compared.experiment(name, 0).train.weight_decay for name in compared.methods} == {0.001}
    own = "laplacenet.training.methods.fixmatch:FixMatch"
    compared = comparison(methods=("supervised", own), settings=(f"{own}:method.threshold=0.5",))
    assert compared.experiment(own, 0).method.threshold == 0.5  # type: ignore[attr-defined]


def test_a_split_key_counts_with_the_seed() -> None:
    assert split_name("4000/{split:02d}", 3) == "4000/03"
    for template in ("4000/{seed}", "4000/{split.none}", "4000/{split[0]}", "4000/{split", "{}"):
        with pytest.raises(InputError, match="write the number as"):
            split_name(template, 3)


def test_time_in_a_curve_is_that_of_training_alone() -> None:

    def epoch(step: int, error: float) -> EpochRecord:
        numbers = {"label_s": 1.0, "step_s": 0.5, "compile_s": 0.25, "elapsed_s": 99.0}
        unknown = dict.fromkeys(("pseudo_label_accuracy", "is_converged", "n_iterations", "n_unreachable", "recall"))
        return EpochRecord(0, "", step, 10, True, 0.0, 0.0, error, **numbers, **unknown)  # type: ignore[arg-type]

    assert curve_of([epoch(10, 0.5), epoch(20, 0.25)]) == ((10, 6.25, 0.5), (20, 12.5, 0.25))


def test_the_command_stops_with_code_3_and_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["compare", "digits", "--methods", "supervised,fixmatch", "--steps", "3", "--out", "out"]
    words += ["--record", "record.json", "--device", "cpu"]
    stopped = CliRunner().invoke(app, [*words, "--limit", "0.001s"])
    assert stopped.exit_code == 3
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    record = json.loads(Path("record.json").read_text())
    assert [run["method"] for run in record["runs"]] == ["supervised", "fixmatch"]
    assert {run["steps"] for run in record["runs"]} == {3}
    assert all(run["curve"] for run in record["runs"])
    assert record.keys() >= {"commit", "command", "libraries", "hardware", "date", "comparison", "tuning"}
    assert (tmp_path / "out" / "comparison.png").is_file()
    assert "fixmatch" in (tmp_path / "out" / "comparison.md").read_text()


def finished(run: ComparedRun, *, wall_s: float = 1.0, curve: Curve = ()) -> FinishedRun:
    assert run.lr is not None
    experiment = replace(BASE, train=replace(SHORT, lr=run.lr))
    return FinishedRun(run, experiment, None, curve, wall_s, {"commit": "abc"})


def test_a_finished_run_is_read_back_as_it_was_written() -> None:
    run = finished(ComparedRun("fixmatch", 3, BASE.train.lr), curve=((10, 1.5, None), (20, 3.0, 0.25)))
    assert read_finished_run(json.loads(json.dumps(run.to_json())), source="here") == run
    with pytest.raises(InputError, match="here: not a finished run"):
        read_finished_run({"method": "fixmatch"}, source="here")


def test_no_run_is_begun_that_would_not_end_within_the_limit(tmp_path: Path) -> None:
    tuning = Tuning(for_s=60.0, rates=(0.01, 0.1), held_out=10)
    bench = Workbench(comparison(tuning=tuning, for_s=300.0), tmp_path / "out", CPU)
    open_folder(bench)
    run = next_run(bench)
    assert run is not None
    assert bench.expected_s(run) == pytest.approx(66 + 10)
    assert "needs about 1 min 16 s, but only 1 min 10 s of --limit is left" in why_not(bench, run, left_s=70.0)
    assert why_not(bench, run, left_s=80.0) == why_not(bench, run, left_s=None) == ""
    assert why_not(bench, run, left_s=-1.0) == "time is up"
    record = {"comparison": bench.identity, "tuning": [finished(run, wall_s=62.0).to_json()], "runs": []}
    (tmp_path / "record.json").write_text(json.dumps(record))
    open_folder(bench, tmp_path / "record.json")
    following = next_run(bench)
    assert following is not None
    assert following.lr == 0.1
    assert bench.expected_s(following) == pytest.approx(62 + 10)
    (bench.folder / "step-times").mkdir()
    (bench.folder / "step-times" / "supervised.json").touch()
    assert bench.expected_s(following) == pytest.approx(62)
    assert bench.expected_s(ComparedRun("supervised", 0)) == pytest.approx(330)


def test_by_steps_a_method_is_expected_to_take_as_long_as_before(tmp_path: Path) -> None:
    bench = Workbench(comparison(seeds=(0, 1)), tmp_path / "out", CPU)
    open_folder(bench)
    assert bench.expected_s(ComparedRun("fixmatch", 0)) == 0
    runs = [finished(ComparedRun("supervised", 0, 0.1), wall_s=7.0)]
    record = {"comparison": bench.identity, "tuning": [], "runs": [run.to_json() for run in runs]}
    (tmp_path / "record.json").write_text(json.dumps(record))
    open_folder(bench, tmp_path / "record.json")
    assert [bench.expected_s(ComparedRun(method, 1)) for method in ("supervised", "fixmatch")] == [7.0, 7.0]


def test_a_record_alone_lets_another_machine_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing but the record is carried over, and the paths there are others."""
    rows = {"20/00": np.arange(20), "20/01": np.arange(20, 40)}
    words = ["compare", "digits", "--methods", "supervised,fixmatch", "--tune", "0.001s", "--rates", "0.01,0.1"]
    words += ["--held-out", "5", "--for", "0.001s", "--seeds", "2", "--finalists", "1", "--split-key", "20/{split:02d}"]
    words += ["--labels", "splits.npz", "--out", "out", "--record", "records/equal.json", "--device", "cpu"]
    monkeypatch.setattr("laplacenet.experiments.step_times.MEASURED_S", 0.01)
    claim, n_claims = Workbench.claim, iter(range(100))

    @contextlib.contextmanager
    def interrupted_claim(bench: Workbench) -> Iterator[ComparedRun | None]:
        with claim(bench) as run:
            yield run if next(n_claims) < 3 else None

    for machine in ("first", "second"):
        (tmp_path / machine / "records").mkdir(parents=True)
        monkeypatch.chdir(tmp_path / machine)
        np.savez("splits.npz", **rows)
        if machine == "first":
            monkeypatch.setattr(Workbench, "claim", interrupted_claim)
        else:
            monkeypatch.setattr(Workbench, "claim", claim)
            shutil.copy(tmp_path / "first" / "records" / "equal.json", "records")
        answer = CliRunner().invoke(app, words)
        assert answer.exit_code == 0, answer.output
        assert "table and picture: out; record: records/equal.json\n" in answer.output
    paths = [tmp_path / name / "records" / "equal.json" for name in ("first", "second")]
    before, after = (json.loads(path.read_text()) for path in paths)
    assert len(before["tuning"]) == 3
    assert after["tuning"][:3] == before["tuning"]
    assert len(after["tuning"]) == 4
    assert [run["seed"] for run in after["runs"]] == [0, 0, 1]
    assert {run["split_key"] for run in after["runs"]} == {"20/00", "20/01"}
    for run in [*after["tuning"], *after["runs"]]:
        assert run["origin"].keys() >= {"commit", "date", "hardware", "libraries"}
        assert run["wall_s"] > 0
    assert str(tmp_path) not in json.dumps(after)


def test_a_record_of_another_comparison_is_refused(tmp_path: Path) -> None:
    other = Workbench(comparison(settings=("train.lr=2", "graph.k=9")), tmp_path / "other", CPU)
    (tmp_path / "record.json").write_text(json.dumps({"comparison": other.identity}))
    said = r"holds another comparison \(--set is train.lr=2 graph.k=9, here not given\); choose another --record"
    with pytest.raises(InputError, match=said):
        open_folder(Workbench(comparison(), tmp_path / "out", CPU), tmp_path / "record.json")


def test_a_record_from_before_a_setting_existed_still_belongs_to_the_comparison(tmp_path: Path) -> None:
    bench = Workbench(comparison(), tmp_path / "out", CPU)
    known = bench.identity
    del known["base"]["method"]["label_temperature"], known["base"]["train"]["schedule"]
    (tmp_path / "record.json").write_text(json.dumps({"comparison": known}))
    open_folder(bench, tmp_path / "record.json")
    known["base"]["train"]["lr"] = 0.7
    (tmp_path / "record.json").write_text(json.dumps({"comparison": known}))
    other = r"holds another comparison \(train\.lr is 0\.7, here 0\.05\); choose another --record"
    with pytest.raises(InputError, match=other):
        open_folder(bench, tmp_path / "record.json")
    known["base"]["train"] |= {"lr": 0.05, "warmth": 1}
    (tmp_path / "record.json").write_text(json.dumps({"comparison": known}))
    with pytest.raises(InputError, match="base: train: unknown entry 'warmth'"):
        open_folder(bench, tmp_path / "record.json")


def test_a_record_that_compares_by_something_unknown_is_refused(tmp_path: Path) -> None:
    bench = Workbench(comparison(), tmp_path / "out", CPU)
    (tmp_path / "record.json").write_text(json.dumps({"comparison": bench.identity | {"folds": 5}}))
    with pytest.raises(InputError, match="unknown entry 'folds'"):
        open_folder(bench, tmp_path / "record.json")
    older = {name: value for name, value in bench.identity.items() if name not in ("settings", "finalists")}
    (tmp_path / "record.json").write_text(json.dumps({"comparison": older}))
    open_folder(bench, tmp_path / "record.json")


def test_processes_in_one_folder_take_different_runs(tmp_path: Path) -> None:
    first, second = (Workbench(comparison(seeds=(0, 1)), tmp_path / "out", CPU) for _ in range(2))
    open_folder(first)
    open_folder(second)
    with first.claim() as run, second.claim() as other:
        assert run is not None
        assert other is not None
        assert (run.name, other.name) == ("runs/supervised-seed-0", "runs/fixmatch-seed-0")
    with second.claim() as run:
        assert run is not None
        assert run.name == "runs/supervised-seed-0"


def test_each_method_has_the_views_of_its_own_settings(tmp_path: Path) -> None:
    bench = Workbench(comparison(settings=("fixmatch:augment.pad=0",)), tmp_path / "out", CPU)
    views = [bench.task(ComparedRun(method, 0)).views for method in bench.comparison.methods]
    assert [view.config.pad for view in views if isinstance(view, ImageViews)] == [None, 0]


def test_the_last_network_is_judged_by_its_test_error_alone(tmp_path: Path) -> None:
    """Invariances take a pass over all images each, which a run of a minute would feel."""
    bench = Workbench(comparison(), tmp_path / "out", CPU)
    open_folder(bench)
    run = ComparedRun("supervised", 0)
    for _ in bench.epochs(run, bench.task(run), NullMonitor()):
        pass
    outcome = bench.result(run).outcome
    assert outcome is not None
    assert outcome.test_error is not None
    assert outcome.train_invariance is outcome.test_invariance is None


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--methods", "fixmach", "--steps", "3"], "unknown method 'fixmach'"),
        (["--methods", "fixmatch,fixmatch", "--steps", "3"], "name each method once"),
        (["--methods", "fixmatch"], "give either --for TIME or --steps N"),
        (["--steps", "3", "--for", "1m"], "give either --for TIME or --steps N"),
        (["--steps", "3", "--seeds", "0"], "--seeds 0"),
        (["--steps", "3", "--finalists", "0"], "--finalists 0"),
        (["--steps", "3", "--tune", "1m"], "--rates and --held-out not given"),
        (["--steps", "3", "--tune", "1m", "--rates", "a", "--held-out", "4"], "--rates a: give numbers"),
        (["--steps", "3", "--tune", "1m", "--rates", "-1", "--held-out", "4"], "--rates: give learning rates above 0"),
        (["--steps", "3", "--split-key", "4000/{split}"], "give the file with --labels"),
    ],
)
def test_comparisons_that_make_no_sense_are_refused(words: list[str], said: str, tmp_path: Path) -> None:
    answer = CliRunner().invoke(app, ["compare", "digits", *words, "--out", str(tmp_path / "out")])
    assert isinstance(answer.exception, InputError)
    assert said in str(answer.exception)
