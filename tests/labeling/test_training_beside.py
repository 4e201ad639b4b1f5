"""Training beside pretrained features: who wins by hidden labels, and what the run folder holds then."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from references_cli import Shell
from references_lite import use_small_lite

import laplacenet
from laplacenet.graph import GraphConfig
from laplacenet.labeling import choices, session
from laplacenet.labeling.beside import contest
from laplacenet.labeling.beside import run as beside_run
from laplacenet.labeling.beside.contest import BOTH, FROZEN, TRAINED, Candidate, choose, judging_folds
from laplacenet.labeling.beside.joined_training import JoinedLaplaceNet
from laplacenet.labeling.result import Calibration
from laplacenet.labeling.settings import read_settings
from laplacenet.models import Inference, build_model
from laplacenet.models.saved import model_kind
from laplacenet.runtime import RunFolder, TimeLimitError
from laplacenet.training import LaplaceNet, LaplaceNetConfig, Problem, TrainConfig, VectorViews

CLASSES = ("disk", "stripes")
FEW_STEPS = ("--set", "train.batch_size=8", "--set", "train.labeled_batch_size=4", "--set", "model.pixels=32")


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    use_small_lite(monkeypatch)
    monkeypatch.setenv("LAPLACENET_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("laplacenet.labeling.outcome.N_ITERATIONS", 250)
    monkeypatch.setattr("laplacenet.labeling.stage_plan.LEAST_CAP", 6)
    monkeypatch.setattr("laplacenet.labeling.stage_plan.MOST_EPOCHS", 1)
    monkeypatch.setattr(beside_run, "FEWEST_STEPS", 6)
    monkeypatch.setattr(contest, "MOST_VOTES", 1)
    rng = np.random.default_rng(0)
    y, x = np.mgrid[:48, :48]
    (tmp_path / "photos").mkdir()
    lines = []
    for row in range(36):
        disk = (x - 24) ** 2 + (y - 24) ** 2 < rng.integers(100, 300)
        shape = disk if row % 2 == 0 else (x // rng.integers(4, 8)) % 2 == 0
        pixels = np.where(shape[..., None], rng.integers(150, 255, 3), rng.integers(0, 90, 3))
        pixels = pixels + rng.normal(0, 12, pixels.shape)
        Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(tmp_path / "photos" / f"{row:02d}.png")
        lines.append(f"{row:02d}.png,{CLASSES[row % 2]}\n")
    (tmp_path / "labels.csv").write_text("".join(lines[:16]))
    (tmp_path / "truth.csv").write_text("".join(lines))
    return Shell(tmp_path, monkeypatch, capsys)


def label(shell: Shell, out: str, *more: str) -> str:
    options = ("--labels", "labels.csv", "--features", "lite0", "--for", "300s", *FEW_STEPS, *more)
    return shell.succeeds("label", "photos", *options, "--out", out).err


def let_win(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Whatever the hidden labels say."""

    def chosen(frozen: Candidate, others: list[Candidate]) -> Candidate:
        return next(one for one in (frozen, *others) if one.name == name)

    monkeypatch.setattr(beside_run, "choose", chosen)


def stop_after(monkeypatch: pytest.MonkeyPatch, n_steps: int) -> None:
    """As if the time were up then."""
    steps: list[int] = []
    monkeypatch.setattr(session.SignalMonitor, "advance", lambda _, n: steps.append(n))
    monkeypatch.setattr(session.SignalMonitor, "should_stop", property(lambda _: sum(steps) >= n_steps))


@pytest.mark.parametrize(("winner", "kind"), [(FROZEN, "features"), (TRAINED, None), (BOTH, "joined")])
def test_every_command_works_whoever_wins(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, winner: str, kind: str | None
) -> None:
    let_win(monkeypatch, winner)
    said = label(shell, "run", "--test", "truth.csv")
    assert "Of 16 given labels, a third hidden at a time, the frozen features" in said
    run = laplacenet.LabelingRun(shell.folder / "run")
    assert run.is_complete
    assert any("hidden at a time" in sentence for sentence in run.data.summary.choices)
    assert model_kind(shell.folder / "run") == kind
    assert (shell.folder / "run/stages/final").exists() == (winner != FROZEN)
    assert len(shell.succeeds("predict", "run", "photos").out.splitlines()) == 37
    assert len(shell.succeeds("next", "run", "-n", "4").out.splitlines()) == 5
    assert "of 20 new labels" in shell.succeeds("evaluate", "run", "--truth", "truth.csv").out
    shell.succeeds("report", "run")
    assert "hidden at a time" in (shell.folder / "run/report.html").read_text()
    shell.succeeds("export", "run")
    assert "difference" in shell.succeeds("export", "run", "--format", "onnx").out


@pytest.mark.parametrize("winner", [TRAINED, BOTH])
def test_a_test_folder_is_judged_by_the_winners_model(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, winner: str
) -> None:
    let_win(monkeypatch, winner)
    for row in range(20, 28):
        target = shell.folder / "test" / CLASSES[row % 2]
        target.mkdir(parents=True, exist_ok=True)
        shutil.copy(shell.folder / f"photos/{row}.png", target)
    tests = sorted((shell.folder / "test").rglob("*.png"))
    (shell.folder / "test/disk/given.png").symlink_to(shell.folder / "photos/00.png")
    label(shell, "run", "--test", "test")
    run = laplacenet.LabelingRun(shell.folder / "run")
    assert run.estimate.n_test == 8
    truth, found = [path.parent.name for path in tests], [one.label for one in run.predict(tests)]
    if winner == TRAINED:  # joined networks see the pictures at the frozen one's size
        right = sum(a == b for a, b in zip(found, truth, strict=True))
        assert run.estimate.test_accuracy is not None
        assert right / 8 == run.estimate.test_accuracy.value


def test_a_network_with_averaged_weights_can_win(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    let_win(monkeypatch, TRAINED)
    label(shell, "run", "--set", "method.ema_decay=0.9")
    assert model_kind(shell.folder / "run") is None
    assert len(shell.succeeds("predict", "run", "photos").out.splitlines()) == 37


def test_the_labels_of_the_frozen_features_come_first_and_survive_an_interruption(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(self: beside_run.BesideRun) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(beside_run.BesideRun, "epochs", interrupted)
        options = ("--labels", "labels.csv", "--features", "lite0", "--for", "300s", *FEW_STEPS)
        shell("label", "photos", *options, "--out", "run")
    first = laplacenet.LabelingRun(shell.folder / "run")
    assert first.is_complete
    assert model_kind(shell.folder / "run") == "features"
    let_win(monkeypatch, TRAINED)
    said = shell.succeeds("label", "--resume", "run").err
    assert "the network trained beside them labels the pictures" in said
    assert model_kind(shell.folder / "run") is None


@pytest.mark.parametrize("winner", [TRAINED, BOTH])
def test_a_resumed_run_ends_like_the_unbroken_one(shell: Shell, monkeypatch: pytest.MonkeyPatch, winner: str) -> None:
    let_win(monkeypatch, winner)
    label(shell, "unbroken")
    settings = read_settings(RunFolder.open(shell.folder / "unbroken"))
    assert settings.beside == "pretrained"
    assert settings.model.pretrained
    assert settings.model.pixels == 32
    with monkeypatch.context() as patch:
        stop_after(patch, 14)
        said = label(shell, "again").splitlines()[-1]
    assert said.startswith("warning: the time was up before the additional network was trained (held-out fold 1 done")
    assert said.endswith("labels of the pretrained features are kept; go on with: laplacenet label --resume again")
    kept = laplacenet.LabelingRun(shell.folder / "again")
    assert kept.is_complete
    assert "is not finished (held-out fold 1 done at step 6 of 6; " in kept.data.summary.choices[-1]
    assert model_kind(shell.folder / "again") == "features"
    shell.succeeds("label", "--resume", "again")
    read = [(shell.folder / name / "labels.csv").read_bytes() for name in ("unbroken", "again")]
    assert read[0] == read[1]


def test_other_labels_begin_the_training_anew(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    let_win(monkeypatch, TRAINED)
    label(shell, "run")
    (shell.folder / "labels.csv").write_text((shell.folder / "labels.csv").read_text() + "20.png,disk\n")
    said = shell.succeeds("label", "--resume", "run").err
    assert "the inputs have changed" in said
    assert "Of 17 given labels" in said


def test_a_time_that_the_features_use_up_leaves_their_labels(shell: Shell) -> None:
    options = ("--labels", "labels.csv", "--features", "lite0", "--for", "20s")
    assert "the time is used up" in shell.succeeds("label", "photos", *options, "--out", "run").err
    assert laplacenet.LabelingRun(shell.folder / "run").is_complete


def test_a_time_that_ends_while_pictures_are_read_for_training_leaves_the_labels_of_the_features(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(*_: object) -> None:
        raise TimeLimitError("time is up")

    monkeypatch.setattr(session, "read_job", slow)
    assert "the time is used up" in label(shell, "run")
    assert laplacenet.LabelingRun(shell.folder / "run").is_complete


def test_without_a_time_nothing_is_trained_beside_photographs(shell: Shell) -> None:
    shell.succeeds("label", "photos", "--labels", "labels.csv", "--features", "lite0", "--out", "run")
    assert not (shell.folder / "run/stages").exists()


def test_pictures_that_pixels_tell_apart_better_are_judged_against_training_from_scratch(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    shares = iter([0.5, 0.9])
    monkeypatch.setattr(choices, "share_predicted", lambda *_: next(shares))
    monkeypatch.setattr(choices, "installed_lite", lambda: ("lite0",))
    monkeypatch.setattr(choices, "SMALLEST_PHOTO", 1000)
    let_win(monkeypatch, BOTH)
    options = ("--labels", "labels.csv", "--for", "300s", *FEW_STEPS[:4])
    said = shell.succeeds("label", "photos", *options, "--out", "run").err
    assert "do not look like photographs" in said
    assert "trained from scratch" in said
    settings = read_settings(RunFolder.open(shell.folder / "run"))
    assert (settings.beside, settings.model.name, settings.collection.features) == ("scratch", "patch-cnn", "lite0")
    assert len(shell.succeeds("predict", "run", "photos/00.png").out.splitlines()) == 2


def candidate(name: str, n_right: int, log_loss: float) -> Candidate:
    return Candidate(name, torch.empty(0, 2), Calibration(1.0, 100, 0.0, 0.0, ()), 100, n_right, log_loss)


@pytest.mark.parametrize(
    ("trained", "both", "winner"),
    [
        ((70, 1.0), (75, 0.9), FROZEN),
        ((80, 0.5), (75, 0.9), FROZEN),
        ((81, 0.5), (75, 0.9), TRAINED),
        ((81, 0.5), (84, 0.6), BOTH),
        ((81, 0.9), (82, 0.9), FROZEN),
        ((82, 0.6), (82, 0.5), BOTH),
    ],
)
def test_another_wins_only_if_it_finds_more_hidden_labels_and_is_surer_of_them(
    trained: tuple[int, float], both: tuple[int, float], winner: str
) -> None:
    frozen = candidate(FROZEN, 80, 0.7)
    assert choose(frozen, [candidate(TRAINED, *trained), candidate(BOTH, *both)]).name == winner


def test_the_winner_never_finds_fewer_hidden_labels_than_the_frozen_features() -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        given = torch.from_numpy(rng.integers(0, 3, 30))
        scores = [torch.from_numpy(rng.dirichlet([1, 1, 1], 30)).float() for _ in range(3)]
        entrants = [Candidate.of(name, one, given) for name, one in zip((FROZEN, TRAINED, BOTH), scores, strict=True)]
        assert choose(entrants[0], entrants[1:]).n_right >= entrants[0].n_right


def test_folds_hide_every_label_once_and_few_labels_cannot_judge() -> None:
    given = torch.full((40,), -1)
    given[:12] = torch.arange(12) % 2
    folds = judging_folds(given, seed=0)
    assert folds is not None
    assert torch.equal(folds >= 0, given >= 0)
    assert folds.max() == 2
    few = torch.where(torch.arange(40) < 6, given, -1)
    assert judging_folds(few, seed=0) is None


def test_hidden_labels_have_no_part_in_what_judges_them(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each fold's network, and each candidate's answer for it, is the same whatever the hidden labels are."""
    seen: list[torch.Tensor] = []
    real = contest.Contest.answers

    def answers(self: contest.Contest, found: object, labels: torch.Tensor) -> object:
        seen.append(labels)
        return real(self, found, labels)  # type: ignore[arg-type]

    monkeypatch.setattr(contest.Contest, "answers", answers)
    label(shell, "run")
    run = laplacenet.LabelingRun(shell.folder / "run")
    folds = judging_folds(run.data.given, seed=0)
    assert folds is not None
    for number, labels in enumerate(seen[:3]):
        assert bool((labels[folds == number] == -1).all())
        assert torch.equal(labels[folds != number], run.data.given[folds != number])


def test_pseudo_labels_of_fine_tuning_come_from_both_networks() -> None:
    """The trained network sees nothing yet; the frozen one tells the classes apart."""
    rng = np.random.default_rng(0)
    truth = torch.from_numpy(rng.integers(0, 2, 60))
    frozen = torch.nn.functional.normalize(
        torch.eye(2)[truth] + 0.1 * torch.from_numpy(rng.normal(size=(60, 2))), dim=1
    )
    given = torch.where(torch.arange(60) < 12, truth, -1)
    problem = Problem(given, 2, VectorViews(), 0)
    features = torch.from_numpy(rng.normal(size=(60, 4))).float()
    method = JoinedLaplaceNet(problem, TrainConfig(), LaplaceNetConfig(), GraphConfig(k=5), frozen.float())
    network = build_model("mlp", n_classes=2, in_channels=4)
    found = method.label(Inference(network, lambda x: x), features)
    assert float((found.labels == truth).float().mean()) > 0.9
    alone = LaplaceNet(problem, TrainConfig(), LaplaceNetConfig(), GraphConfig(k=5))
    assert float((alone.label(Inference(network, lambda x: x), features).labels == truth).float().mean()) < 0.8
