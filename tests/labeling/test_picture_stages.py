"""Pictures in stages: hidden labels stay hidden, a stopped labeling goes on as if it had not stopped, time is kept."""

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from references_labeling import make_quick, striped

from laplacenet.data import Collection, ImageSet
from laplacenet.graph import GraphConfig
from laplacenet.labeling.job import Job, begin
from laplacenet.labeling.label_pass import LabelPass
from laplacenet.labeling.picture_run import PictureRun, picture_run, require_trainable_job
from laplacenet.labeling.pictures import LEAST_STEPS, StageProgress, describe_progress
from laplacenet.labeling.result import SOURCES, Labeling, load_labeling
from laplacenet.labeling.settings import LabelingSettings, TimeConfig, read_settings
from laplacenet.labeling.stage_plan import ESTIMATE, FINAL, hidden_folds, plan_steps
from laplacenet.labeling.stages import LabelingContext, finished_pass, read_curves
from laplacenet.models import Inference, ModelConfig, load_model
from laplacenet.runtime import InputError, Monitor, NullMonitor, RunFolder, read_sealed, write_sealed
from laplacenet.training import Execution, LaplaceNetConfig, TrainConfig

N, N_CLASSES, N_GIVEN = 120, 3, 54
TRAIN = TrainConfig(steps=40, batch_size=20, labeled_batch_size=10, lr=0.1)
SETTINGS = LabelingSettings(
    model=ModelConfig("patch-cnn"),
    graph=GraphConfig(k=8),
    train=TRAIN,
    method=LaplaceNetConfig(n_views=1),
    time=TimeConfig(suspects=False),
)


class StopsAfter:
    """A monitor that says stop after so many steps."""

    def __init__(self, n_steps: int) -> None:
        self.n_left = n_steps

    @property
    def should_stop(self) -> bool:
        return self.n_left <= 0

    def advance(self, n: int) -> None:
        self.n_left -= n


def job_of(given: torch.Tensor | None = None, settings: LabelingSettings = SETTINGS) -> Job:
    pixels, truth = striped(N, N_CLASSES)
    labels = torch.full((N,), -1)
    labels[:N_GIVEN] = torch.from_numpy(truth[:N_GIVEN])
    labels = labels if given is None else given
    rows = ImageSet(torch.from_numpy(pixels[:, None]), labels, ("flat", "slanting", "steep"))
    return Job(settings, Collection(rows, tuple(f"{row}.png" for row in range(N)), Path("pictures")), None)


def context_at(path: Path, job: Job, monitor: Monitor | None = None) -> LabelingContext:
    folder = RunFolder(path) if path.exists() else RunFolder.create(path)
    return LabelingContext(job, folder, Execution(torch.device("cpu")), monitor or NullMonitor(), time.monotonic())


def go(context: LabelingContext, step_s: float | None = None) -> PictureRun:
    begin(context.job, context.folder, context.execution)
    run = picture_run(context, step_s=step_s)
    for _ in run.epochs():
        pass
    return run


def accuracy(labeling: Labeling) -> float:
    truth = torch.from_numpy(striped(N, N_CLASSES)[1])
    return float((labeling.labels == truth)[~labeling.is_given].double().mean())


@pytest.fixture(scope="module", autouse=True)
def quick() -> Iterator[None]:
    """Fewer patches and a rougher map: neither is what is tested here."""
    with pytest.MonkeyPatch.context() as patch:
        make_quick(patch)
        yield


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("labeling") / "run"
    settings = replace(SETTINGS, time=TimeConfig(suspects=True))
    go(context_at(path, job_of(settings=settings)))
    return path


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As `finished`, without a look for wrong labels."""
    path = tmp_path_factory.mktemp("labeling") / "run"
    go(context_at(path, job_of()))
    return path


def test_a_finished_labeling_has_labels_a_model_an_estimate_and_curves(finished: Path) -> None:
    labeling = load_labeling(finished)
    assert labeling.summary.is_complete
    assert accuracy(labeling) > 0.8
    estimate = labeling.summary.estimate
    assert estimate.n == 11
    assert estimate.accuracy is not None
    assert estimate.accuracy.low <= accuracy(labeling)
    assert torch.equal(labeling.labels[:N_GIVEN], labeling.given[:N_GIVEN])
    assert set(labeling.sources[N_GIVEN:].tolist()) <= {SOURCES.index("graph"), SOURCES.index("network")}
    network, description = load_model(finished)
    assert description.temperature > 0
    assert network(torch.zeros(1, 1, 16, 16)).shape == (1, 3)
    curves = read_curves(finished)
    assert [*dict.fromkeys(line["stage"] for line in curves)] == [
        ESTIMATE,
        *(f"suspects-{i}" for i in (1, 2, 3, 4)),
        FINAL,
    ]
    assert all(sum(line["class_shares"]) == pytest.approx(1) for line in curves if line["class_shares"])


def test_every_given_label_that_can_be_hidden_has_scores_that_it_had_no_part_in(finished: Path) -> None:
    labeling = load_labeling(finished)
    assert torch.equal(~labeling.unseen_scores.isnan().any(dim=1), labeling.is_given)


def test_scores_sum_to_one_and_features_have_length_one(finished: Path) -> None:
    labeling = load_labeling(finished)
    assert torch.allclose(labeling.scores.sum(dim=1), torch.ones(N), atol=1e-5)
    assert torch.allclose(labeling.features.norm(dim=1), torch.ones(N), atol=1e-5)
    assert labeling.positions.isfinite().all()


def test_hidden_labels_replaced_by_others_change_nothing_in_the_stage_that_hides_them(tmp_path: Path) -> None:
    given = job_of().given
    folds = hidden_folds(given, seed=0)
    assert folds is not None
    found = []
    for name, seen in (("true", given), ("garbled", torch.where(folds == 0, (given + 1) % N_CLASSES, given))):
        # which labels are hidden depends on the labels: the folds are those of the true ones in both
        context = context_at(tmp_path / name, job_of(seen))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("laplacenet.labeling.pictures.hidden_folds", lambda given, seed: folds)
            go(context)
        found.append(finished_pass(context, ESTIMATE))
    true, garbled = found
    assert isinstance(true, LabelPass)
    assert isinstance(garbled, LabelPass)
    assert torch.equal(true.network, garbled.network)
    assert torch.equal(true.graph, garbled.graph)


@pytest.mark.parametrize("n_steps", [3, 30, 50])
def test_a_stopped_labeling_keeps_its_labels_and_goes_on_to_the_same_end(
    n_steps: int, whole: Path, tmp_path: Path
) -> None:
    stopped = context_at(tmp_path / "stopped", job_of(), StopsAfter(n_steps))
    go(stopped)
    kept = load_labeling(stopped.folder.path)
    assert not kept.summary.is_complete
    assert (stopped.folder.path / "labels.csv").is_file()
    settings = read_settings(stopped.folder)
    for _ in picture_run(context_at(stopped.folder.path, job_of(settings=settings)), step_s=None).epochs():
        pass
    there, here = load_labeling(whole), load_labeling(stopped.folder.path)
    assert here.summary.is_complete
    assert torch.equal(there.scores, here.scores)
    lines = [[(line["stage"], line["step"]) for line in read_curves(path)] for path in (whole, tmp_path / "stopped")]
    assert set(lines[0]) <= set(lines[1])


def test_a_labeling_from_before_a_setting_existed_goes_on_to_the_same_end(whole: Path, tmp_path: Path) -> None:
    stopped = context_at(tmp_path / "stopped", job_of(), StopsAfter(3))
    go(stopped)
    content = stopped.folder.read_experiment()
    del content["method"]["label_temperature"]
    stopped.folder.write_experiment(content)
    (manifest,) = stopped.folder.path.glob("stages/*/checkpoint/manifest.json")
    about = read_sealed(manifest)
    del about["identity"]["method"]["label_temperature"]
    write_sealed(manifest, about)
    settings = read_settings(stopped.folder)
    for _ in picture_run(context_at(stopped.folder.path, job_of(settings=settings)), step_s=None).epochs():
        pass
    assert torch.equal(load_labeling(whole).scores, load_labeling(stopped.folder.path).scores)


def test_a_finished_labeling_that_is_given_more_time_trains_on(tmp_path: Path) -> None:
    context = context_at(tmp_path / "run", job_of())
    go(context)
    before = load_labeling(context.folder.path)
    for _ in picture_run(context_at(tmp_path / "run", job_of()), step_s=None).epochs():
        pass
    after = load_labeling(context.folder.path)
    assert after.summary.is_complete
    assert not torch.equal(before.scores, after.scores)
    assert before.summary.estimate.accuracy == after.summary.estimate.accuracy
    assert read_curves(tmp_path / "run")[-1]["stage"] == "vote-1"


def test_with_too_few_labels_all_of_them_teach_and_the_account_says_why_nothing_is_known(tmp_path: Path) -> None:
    given = job_of().given.clone()
    given[12:] = -1
    context = context_at(tmp_path / "run", job_of(given))
    go(context)
    summary = load_labeling(context.folder.path).summary
    assert summary.estimate.accuracy is None
    assert summary.estimate.method.startswith("No estimate: fewer than 10 given labels could be hidden")
    assert summary.calibration is None
    assert [*dict.fromkeys(line["stage"] for line in read_curves(tmp_path / "run"))] == [FINAL]


def test_where_every_label_is_given_nothing_is_left_to_find(tmp_path: Path) -> None:
    context = context_at(tmp_path / "run", job_of(torch.from_numpy(striped(N, N_CLASSES)[1])))
    go(context)
    labeling = load_labeling(context.folder.path)
    assert labeling.summary.is_complete
    assert torch.equal(labeling.labels, labeling.given)


@pytest.fixture
def own_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock counts what this process computes, however busy the machine is."""
    for clock in ("monotonic", "perf_counter"):
        monkeypatch.setattr(time, clock, time.process_time)


def test_steps_are_chosen_to_fit_the_time(own_time: None, tmp_path: Path) -> None:
    settings = replace(SETTINGS, time=TimeConfig(limit_s=8.0, suspects=False))
    context, step_s = plan_steps(context_at(tmp_path / "run", job_of(settings=settings)))
    assert step_s is not None
    steps = context.job.settings.train.steps
    assert 0.2 < steps * step_s < 4.0  # half of the five seconds that reporting leaves
    assert context.job.settings.threads == 1
    started_at = time.monotonic()
    go(context, step_s)
    assert time.monotonic() - started_at < 30
    assert load_labeling(tmp_path / "run").summary.is_complete


def test_steps_that_were_asked_for_remain_the_goal_when_the_time_is_up(own_time: None, tmp_path: Path) -> None:
    settings = replace(SETTINGS, train=replace(TRAIN, steps=100_000), time=TimeConfig(limit_s=6.0, suspects=False))
    run = go(context_at(tmp_path / "run", job_of(settings=settings)))
    summary = load_labeling(tmp_path / "run").summary
    assert run.stages.is_out_of_time
    assert not summary.is_complete
    assert any("unfinished: accuracy estimate at step" in note for note in summary.notes)
    first = run.stages.progress()[0]
    assert 0 < first.step < 100_000
    assert not first.is_done
    again = go(context_at(tmp_path / "run", job_of(settings=settings)))
    assert again.stages.progress()[0].step > first.step


def test_a_stage_whose_steps_were_fitted_may_be_cut_short_but_not_to_nothing(tmp_path: Path) -> None:
    """The plan was made for a machine ten times as fast."""
    settings = replace(SETTINGS, train=replace(TRAIN, steps=60), time=TimeConfig(limit_s=7.0, suspects=False))
    run = go(context_at(tmp_path / "run", job_of(settings=settings)), step_s=0.005)
    stages = {stage.name: stage for stage in run.stages.progress()}
    estimate = stages[ESTIMATE]
    assert estimate.steps is not None
    assert estimate.is_done == (estimate.step >= LEAST_STEPS)


def test_no_time_trains_nothing_and_marks_nothing_as_done(tmp_path: Path) -> None:
    settings = replace(SETTINGS, time=TimeConfig(limit_s=1.0, suspects=False))
    run = go(context_at(tmp_path / "run", job_of(settings=settings)), step_s=0.01)
    assert run.stages.is_out_of_time
    assert not any(stage.step or stage.is_done for stage in run.stages.progress())
    assert not (tmp_path / "run" / "labels.csv").exists()


def test_a_resumed_run_says_the_steps_with_which_it_began_not_those_measured_anew(whole: Path) -> None:
    anew = replace(SETTINGS, train=replace(TRAIN, steps=99))
    said = " ".join(picture_run(context_at(whole, job_of(settings=anew)), step_s=0.1).choices)
    assert "40 steps before the accuracy is estimated" in said
    assert "99 steps" not in said


def test_the_same_seed_gives_the_same_labels(whole: Path, tmp_path: Path) -> None:
    go(context_at(tmp_path / "again", job_of()))
    assert torch.equal(load_labeling(whole).scores, load_labeling(tmp_path / "again").scores)


def test_with_averaged_weights_the_saved_model_is_the_teacher_that_gave_the_labels(tmp_path: Path) -> None:
    settings = replace(SETTINGS, train=replace(TRAIN, steps=20), method=LaplaceNetConfig(n_views=1, ema_decay=0.9))
    context = context_at(tmp_path / "run", job_of(settings=settings))
    go(context)
    network, _ = load_model(tmp_path / "run")
    outputs = Inference(network, context.views.plain).logits(context.rows.images).softmax(dim=1)
    found = finished_pass(context, FINAL)
    assert found is not None
    assert torch.allclose(outputs, found.network, atol=1e-5)


def test_pictures_that_are_too_small_when_shrunk_are_refused() -> None:
    train = replace(TRAIN, small_share=0.5, small_scale=0.1)
    job, execution = job_of(settings=replace(SETTINGS, train=train)), Execution(torch.device("cpu"))
    with pytest.raises(InputError, match=r"patch-cnn cannot .* shape 1×2×2; choose a train.small_scale above"):
        require_trainable_job(job, execution)
    require_trainable_job(replace(job, settings=replace(SETTINGS, train=replace(train, small_share=0.0))), execution)


def test_progress_is_said_in_plain_words_and_what_has_not_begun_is_counted() -> None:
    done, half = StageProgress("estimate", 40, 40, is_done=True), StageProgress("suspects-1", 7, 20, is_done=False)
    late, last = StageProgress("suspects-2", 0, None, is_done=False), StageProgress("final", 0, None, is_done=False)
    assert describe_progress([done, half, late, last]) == (
        "accuracy estimate done at step 40 of 40; label check 1 at step 7 of 20; 2 more stages not begun"
    )
    assert describe_progress([last]) == "1 stage not begun"
