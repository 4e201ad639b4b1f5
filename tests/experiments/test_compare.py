"""A comparison of methods: what it runs in which order, how it resumes, and what it refuses."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from laplacenet.cli.app import app
from laplacenet.experiments.compare import ComparedRun, Comparison, Result, Tuning, Workbench, split_name, with_held_out
from laplacenet.experiments.presets import digits
from laplacenet.experiments.run_records import EpochRecord
from laplacenet.experiments.step_times import PhaseTimes, StepTimes, measure_step_times
from laplacenet.experiments.task import prepare
from laplacenet.reports.comparison import draw_comparison, markdown_table
from laplacenet.runtime import InputError, NullMonitor
from laplacenet.training import Execution, TrainConfig

CPU = Execution(torch.device("cpu"))
SHORT = TrainConfig(steps=4, batch_size=24, labeled_batch_size=8, lr=0.05)
BASE = replace(digits(), train=SHORT)


def comparison(**changes: object) -> Comparison:
    return replace(Comparison(BASE, ("supervised", "fixmatch")), **changes)  # type: ignore[arg-type]


def work_through(bench: Workbench) -> list[str]:

    names = []
    while (run := bench.next_run()) is not None:
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


def test_the_phases_of_laplacenet_are_measured_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("laplacenet.experiments.step_times.MEASURED_S", 0.05)
    times = measure_step_times(prepare(replace(BASE, train=replace(SHORT, steps=10**6))), CPU)
    assert times.first is not None
    assert times.first.label_s < times.main.label_s
    assert times.most_first_steps == 100


def test_held_out_labels_are_hidden_and_become_the_test_set() -> None:
    task = prepare(BASE)
    held = with_held_out(task, 20)
    rows = torch.nonzero((task.given_labels >= 0) & (held.given_labels < 0)).flatten()
    assert len(rows) == held.n_labeled == 20
    assert held.given_labels[held.given_labels >= 0].bincount().tolist() == [2] * 10
    assert sorted(held.test_labels.tolist()) == sorted(task.given_labels[rows].tolist())
    assert torch.equal(held.test_inputs.sum(), task.inputs[rows].sum())
    with pytest.raises(InputError, match="--held-out 31: only 30 labels can be held out"):
        with_held_out(task, 31)


def test_tuning_comes_first_then_the_first_seed_then_the_best_on_other_seeds(tmp_path: Path) -> None:
    tuning = Tuning(for_s=1e-6, rates=(0.01, 0.1), held_out=10)
    bench = Workbench(comparison(tuning=tuning, seeds=(0, 1), finalists=1), tmp_path / "out", CPU)
    bench.open()
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
    Workbench(comparison(), tmp_path / "out", CPU).open()
    Workbench(comparison(), tmp_path / "out", CPU).open()
    with pytest.raises(InputError, match="holds a comparison with another seeds; choose another --out"):
        Workbench(comparison(seeds=(0, 1)), tmp_path / "out", CPU).open()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.txt").touch()
    with pytest.raises(InputError, match="holds something else"):
        Workbench(comparison(), tmp_path / "other", CPU).open()


def test_a_run_that_diverges_is_noted_and_the_others_go_on(tmp_path: Path) -> None:
    settings = ("supervised:train.lr=1e30",)
    bench = Workbench(comparison(settings=settings), tmp_path / "out", CPU)
    bench.open()
    assert work_through(bench) == ["runs/supervised-seed-0", "runs/fixmatch-seed-0"]
    assert [result.outcome is None for result in bench.results()] == [True, False]
    assert bench.ranking() == ["fixmatch", "supervised"]
    assert "1 diverged" in markdown_table(bench.results())


def test_settings_may_concern_one_method_alone() -> None:
    compared = comparison(settings=("train.weight_decay=0.001", "fixmatch:method.threshold=0.5"))
    assert compared.experiment("fixmatch", 0).method.threshold == 0.5  # type: ignore[attr-defined]
    assert {compared.experiment(name, 0).train.weight_decay for name in compared.methods} == {0.001}


def test_a_split_key_counts_with_the_seed() -> None:
    assert split_name("4000/{split:02d}", 3) == "4000/03"
    with pytest.raises(InputError, match="write the number as"):
        split_name("4000/{seed}", 3)


def test_time_in_a_curve_is_that_of_training_alone() -> None:

    def epoch(step: int, error: float) -> EpochRecord:
        numbers = {"label_s": 1.0, "step_s": 0.5, "compile_s": 0.25, "elapsed_s": 99.0}
        unknown = dict.fromkeys(("pseudo_label_accuracy", "is_converged", "n_iterations", "n_unreachable", "recall"))
        return EpochRecord(0, "", step, 10, True, 0.0, 0.0, error, **numbers, **unknown)  # type: ignore[arg-type]

    result = Result(ComparedRun("fixmatch", 0), BASE, (epoch(10, 0.5), epoch(20, 0.25)), None)
    assert result.curve == [(10, 6.25, 0.5), (20, 12.5, 0.25)]


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
