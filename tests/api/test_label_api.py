"""`laplacenet.label` in Python: what the command does, as an object."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from references_labeling import clusters, drawn_evenly, some_given

import laplacenet
from laplacenet.api.checks import as_integer, label_files
from laplacenet.runtime import InputError


@pytest.fixture
def embeddings(tmp_path: Path) -> Path:
    X, truth = clusters(300, 4, noise=1.2)
    given = some_given(truth, drawn_evenly(truth, 8, seed=0))
    np.savez(tmp_path / "mine.npz", embeddings=X.numpy(), labels=given.numpy())
    (tmp_path / "truth.csv").write_text("".join(f"{row},{label}\n" for row, label in enumerate(truth.tolist())))
    np.save(tmp_path / "more.npy", X.numpy()[:5])
    return tmp_path / "mine.npz"


def test_a_labeling_has_labels_an_estimate_and_what_follows_from_them(embeddings: Path, tmp_path: Path) -> None:
    run = laplacenet.label(embeddings, out=tmp_path / "run")
    assert run.is_complete
    assert not run.is_out_of_time
    assert len(run.labels) == len(run.paths) == len(run.confidence) == 300
    assert set(run.labels) <= set(run.class_names)
    accuracy = run.estimate.accuracy
    assert accuracy is not None
    assert accuracy.low <= accuracy.value <= accuracy.high
    assert [one.path for one in run.next(5)] == [one.path for one in run.next(9)][:5]
    assert all(one.guess in run.class_names for one in run.next(5))
    assert [one.label for one in run.predict(tmp_path / "more.npy")] == run.labels[:5]
    assert run.report() == tmp_path / "run" / "report.html"
    assert (tmp_path / "run" / "labels.csv").is_file()


def test_a_labeling_is_evaluated_by_true_labels(embeddings: Path, tmp_path: Path) -> None:
    run = laplacenet.label(embeddings, out=tmp_path / "run")
    found = run.evaluate(tmp_path / "truth.csv")
    truth = [line.split(",")[1] for line in (tmp_path / "truth.csv").read_text().split()]
    is_right = [a == b for a, b, given in zip(run.labels, truth, run.is_given, strict=True) if not given]
    assert found.n == len(is_right)
    assert found.accuracy.value == pytest.approx(np.mean(is_right))
    assert sum(one.n for one in found.classes) == found.n
    assert 0 <= found.calibration_error <= 1


def test_a_run_is_opened_again_and_resumed(embeddings: Path, tmp_path: Path) -> None:
    labels = laplacenet.label(embeddings, out=tmp_path / "run").labels
    assert laplacenet.LabelingRun(tmp_path / "run").labels == labels
    assert laplacenet.label(resume=tmp_path / "run").labels == labels


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"pictures": None}, "nothing to label"),
        ({"pictures": "nowhere"}, "no such file or folder"),
        ({"labels": ["nowhere.csv"]}, "nowhere.csv: no such file or folder"),
        ({"test": "nowhere.csv"}, "nowhere.csv: no such file or folder"),
        ({"time_limit": "soon"}, "give a time such as"),
        ({"time_limit": -1.0}, "give a time such as"),
        ({"steps": 0}, "--steps 0: give an integer of at least 1"),
        ({"size": -4}, "--size -4: give an integer"),
        ({"batch_size": 1}, "--batch 1: give an integer of at least 2"),
        ({"steps": "2"}, "--steps '2': give an integer"),
        ({"seed": 1.5}, "--seed 1.5: give an integer"),
        ({"seed": None}, "--seed None: give an integer"),
        ({"features": None}, "features: give text, not None"),
        ({"device": None}, "device: give text, not None"),
        ({"settings": [3]}, "settings: give text, not 3"),
        ({"pictures": np.zeros((3, 2))}, "pictures: give the path of a file or folder, not ndarray"),
        ({"weights": 3}, "weights: give the path of a file or folder, not int"),
        ({"weights": __file__}, "no pretrained network is used here; leave it out"),
        ({"prior": "flat"}, "choose shrunk, labeled, equal"),
        ({"prior": [0.5, 0.0]}, "choose shrunk, labeled, equal"),
        ({"settings": ["collection.pictures=/etc"]}, "cannot be set this way"),
        ({"settings": ["train.steps=5"]}, "use --steps"),
        ({"prior": "1,2"}, "4 positive numbers"),
        ({"resume": "nowhere"}, "not a run folder"),
    ],
)
def test_what_the_command_refuses_is_refused_before_a_folder_is_begun(
    embeddings: Path, tmp_path: Path, changes: dict[str, object], expected: str
) -> None:
    arguments: dict[str, object] = {"pictures": embeddings, "out": tmp_path / "run"} | changes
    with pytest.raises(InputError, match=expected):
        laplacenet.label(**arguments)  # type: ignore[arg-type]
    assert not (tmp_path / "run").exists()


def test_what_a_resumed_run_would_pass_over_is_refused(embeddings: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    laplacenet.label(embeddings, out=run)
    arguments = {"pictures": "other", "labels": "labels.npy", "steps": 5, "flip": False, "settings": ["graph.k=5"]}
    for name, value in arguments.items():
        with pytest.raises(InputError, match=f"takes all settings from its run folder; leave out {name}"):
            laplacenet.label(resume=run, **{name: value})  # type: ignore[arg-type]
    assert laplacenet.label(resume=run, settings=[], flip=True, time_limit="9m").has_labels


@pytest.mark.parametrize("number", [1.5, float("nan"), "many", True, 0, -4])
def test_numbers_of_steps_are_whole_and_positive(number: object) -> None:
    with pytest.raises(InputError, match=r"--steps .*: give an integer of at least 1"):
        as_integer(number, name="--steps")
    assert type(as_integer(np.int64(5), name="--steps")) is int


def test_integers_of_numpy_and_a_single_setting_are_arguments_like_any_others(embeddings: Path, tmp_path: Path) -> None:
    expected = laplacenet.label(embeddings, out=tmp_path / "plain", seed=3, settings=["graph.k=9"])
    run = laplacenet.label(embeddings, out=tmp_path / "run", seed=np.int64(3), settings="graph.k=9")
    assert run.labels == expected.labels
    assert len(run.next(np.int64(4))) == 4


def test_a_path_may_begin_with_the_home_folder(
    embeddings: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    run = laplacenet.label("~/mine.npz", out="~/run")
    assert run.path == tmp_path / "run"
    assert laplacenet.LabelingRun("~/run").labels == run.labels
    assert len(run.predict("~/more.npy")) == len(run.predict(["~/more.npy"])) == 5
    assert run.evaluate("~/truth.csv").n > 0
    assert laplacenet.label(resume="~/run").labels == run.labels


@pytest.mark.parametrize("given", [None, 3, np.zeros((2, 2)), [np.zeros(2)]])
def test_what_is_no_path_is_refused_in_one_line(embeddings: Path, tmp_path: Path, given: object) -> None:
    run = laplacenet.label(embeddings, out=tmp_path / "run")
    with pytest.raises(InputError, match=r"pictures: give the path of a file or folder, not \w+"):
        run.predict(given)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"truth: give the path of a file or folder, not \w+"):
        run.evaluate(given)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"-n 1\.5: give an integer"):
        run.next(1.5)  # type: ignore[arg-type]


def test_no_rows_cannot_be_asked_for(embeddings: Path, tmp_path: Path) -> None:
    run = laplacenet.label(embeddings, out=tmp_path / "run")
    for ask in (run.next, run.suspects):
        for n in (0, -1):
            with pytest.raises(InputError, match="at least one row"):
                ask(n)


def test_importing_and_refusing_need_no_torch() -> None:
    program = (
        "import sys, laplacenet\n"
        "assert 'label' in dir(laplacenet)\n"
        "try: laplacenet.label('nowhere')\n"
        "except Exception as error: print(type(error).__name__)\n"
        "print('torch' in sys.modules, 'numpy' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["InputError", "False", "False"]


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'lable'"):
        laplacenet.lable  # noqa: B018


@pytest.mark.parametrize("labels", [np.zeros(3), {"a.png": "cat"}, [1, 2], 5])
def test_labels_that_are_no_files_are_refused(labels: object) -> None:
    with pytest.raises(InputError, match="labels: give a label file"):
        label_files(labels)


def test_the_time_limit_counts_from_the_call_also_while_modules_are_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    moments: list[float] = []

    def session_on(*_: object, started_at: float) -> None:
        moments.append(started_at)
        raise InterruptedError

    np.savez(tmp_path / "mine.npz", embeddings=np.eye(4, dtype=np.float32), labels=np.array([0, 1, -1, -1]))
    monkeypatch.setattr("laplacenet.labeling.session.new_session", session_on)
    monkeypatch.setattr("laplacenet.api.labeling.monotonic", lambda: 5.0)
    with pytest.raises(InterruptedError):
        laplacenet.label(tmp_path / "mine.npz", out=tmp_path / "run")
    assert moments == [5.0]
