"""`laplacenet label --features`: a folder of pictures through a pretrained network, in seconds."""

import os
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from references_cli import Shell

import laplacenet
from laplacenet.models.features import installed_lite
from laplacenet.models.features.embedding import Embeddings, embed_pictures

pytestmark = pytest.mark.skipif("lite0" not in installed_lite(), reason="needs the extra: photos")
CLASSES = ("disk", "stripes")


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    monkeypatch.setenv("LAPLACENET_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("laplacenet.labeling.outcome.N_ITERATIONS", 250)
    rng = np.random.default_rng(0)
    y, x = np.mgrid[:48, :48]
    (tmp_path / "photos").mkdir()
    lines = []
    for row in range(36):
        is_disk = row % 2 == 0
        shape = (
            (x - 24) ** 2 + (y - 24) ** 2 < rng.integers(100, 300) if is_disk else (x // rng.integers(4, 8)) % 2 == 0
        )
        pixels = np.where(shape[..., None], rng.integers(150, 255, 3), rng.integers(0, 90, 3))
        Image.fromarray(pixels.astype(np.uint8)).save(tmp_path / "photos" / f"{row:02d}.png")
        lines.append(f"{row:02d}.png,{CLASSES[row % 2]}\n")
    (tmp_path / "labels.csv").write_text("".join(lines[:16]))
    (tmp_path / "truth.csv").write_text("".join(lines))
    return Shell(tmp_path, monkeypatch, capsys)


def test_a_folder_is_labeled_through_a_pretrained_network_and_serves_every_command(shell: Shell) -> None:
    said = shell.succeeds("label", "photos", "--labels", "labels.csv", "--out", "run", "--features", "lite0")
    assert "lite0 turns each picture" in said.err
    run = laplacenet.LabelingRun(shell.folder / "run")
    assert run.is_complete
    assert run.evaluate(shell.folder / "truth.csv").accuracy.value > 0.9
    assert [one.label for one in run.predict(shell.folder / "photos" / "00.png")] == ["disk"]
    assert "00.png,disk" in shell.succeeds("predict", "run", "photos/00.png").out
    assert len(shell.succeeds("next", "run", "-n", "4").out.splitlines()) == 5
    assert "of 20 new labels" in shell.succeeds("evaluate", "run", "--truth", "truth.csv").out
    assert (shell.folder / "run" / "gallery.safetensors").is_file()
    before = (shell.folder / "run" / "labels.csv").read_bytes()
    assert "have changed" not in shell.succeeds("label", "--resume", "run").err
    assert (shell.folder / "run" / "labels.csv").read_bytes() == before


def test_options_of_training_train_from_scratch(shell: Shell) -> None:
    said = shell.succeeds("label", "photos", "--labels", "labels.csv", "--out", "run", "--steps", "2", "--batch", "8")
    assert "pretrained" not in said.err


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (
            "label photos --labels labels.csv --features lite9",
            "unknown features 'lite9'; choose auto, scratch, lite0, lite1",
        ),
        ("label photos --labels labels.csv --features lite0 --weights nowhere.pth", "nowhere.pth"),
        ("label photos --labels labels.csv --set collection.features=scratch", "cannot be set this way"),
        (
            "label photos --labels labels.csv --features lite0 --model wrn-28-2 --size 16 --steps 5 --batch 4",
            "--model, --size, --steps, --batch: --features lite0 trains no network without --for",
        ),
        (
            "label photos --labels labels.csv --features lite0 --batch 4 --steps 5 --for 300s",
            "error: --steps: --features lite0 trains as many steps as fit into --for; leave out --steps",
        ),
    ],
)
def test_a_mistake_is_answered_before_a_folder_is_begun(shell: Shell, arguments: str, expected: str) -> None:
    assert expected in shell.fails(*arguments.split(), "--out", "run")
    assert not (shell.folder / "run").exists()


def exchange(folder: Path) -> None:
    """Each takes the other's name."""
    a, b = (folder / "photos" / name for name in ("30.png", "31.png"))
    a.rename(folder / "c")
    b.rename(a)
    (folder / "c").rename(b)


def test_a_resumed_run_labels_what_is_there_now_and_says_what_changed(shell: Shell) -> None:
    pictures = [shell.folder / "photos" / name for name in ("30.png", "31.png")]
    for path in pictures:  # of one size and time, as an archive may hold them
        path.write_bytes(path.read_bytes().ljust(2000, b"\0"))
        os.utime(path, ns=(0, 0))
    shell.succeeds("label", "photos", "--labels", "labels.csv", "--out", "run", "--features", "lite0")
    before = dict(zip(*(getattr(laplacenet.LabelingRun("run"), name) for name in ("paths", "labels")), strict=True))
    exchange(shell.folder)
    (shell.folder / "photos" / "29.png").unlink()
    (shell.folder / "labels.csv").write_text((shell.folder / "labels.csv").read_text() + "20.png,disk\n")
    said = shell.succeeds("label", "--resume", "run").err
    assert (
        "the inputs have changed (1 removed: 29.png; 2 changed: 30.png, 31.png; 1 with another label: 20.png)" in said
    )
    run = laplacenet.LabelingRun("run")
    now = dict(zip(run.paths, run.labels, strict=True))
    assert (now["30.png"], now["31.png"]) == (before["31.png"], before["30.png"])
    assert before["30.png"] != before["31.png"]
    assert "29.png" not in now
    assert run.is_given[run.paths.index("20.png")]


def test_similar_classes_are_merged_where_asked_and_label_files_add_up(shell: Shell) -> None:
    labels = shell.folder / "labels.csv"
    (shell.folder / "more.csv").write_text("20.png,Disk\n21.png, STRIPES\n")
    both = ("photos", "--labels", labels, "--labels", "more.csv", "--features", "lite0")
    said = shell.succeeds("label", *both, "--out", "apart").err
    assert "'disk' (8) and 'Disk' (1) differ only in case, spaces or accents; they are two classes" in said
    assert "unless --merge-classes makes them one" in said
    assert len(laplacenet.LabelingRun("apart").class_names) == 4
    (shell.folder / "truth.csv").write_text("30.png,DISK\n31.png,Stripes\n")
    shell.succeeds("label", *both, "--out", "merged", "--merge-classes", "--test", "truth.csv")
    run = laplacenet.LabelingRun("merged")
    assert run.class_names == ("disk", "stripes")
    assert int(run.is_given.sum()) == 18
    assert run.estimate.n_test == 2
    assert "of 2 new labels" in shell.succeeds("evaluate", "merged", "--truth", "truth.csv").out


def test_a_time_limit_ends_the_embedding_and_the_next_call_goes_on_from_there(shell: Shell) -> None:
    command = ("label", "photos", "--labels", "labels.csv", "--out", "run", "--features", "lite0")
    shell.monkeypatch.setattr("laplacenet.labeling.features.FEWER_PIXELS", 224)  # as many with and without a limit
    line = shell.runs_out_of_time(*command, "--for", "0.001s").err.splitlines()[-1]
    n_done = int(re.search(r"time is up; (\d+) pictures have been embedded and are in the cache", line)[1])
    assert 0 < n_done <= 36
    assert not (shell.folder / "run").exists()
    found: list[int] = []
    shell.monkeypatch.setattr("laplacenet.models.features.folder.embed_pictures", counting(found))
    shell.succeeds(*command)
    assert found == [n_done]


def counting(found: list[int]) -> Callable[..., Embeddings]:
    """`embed_pictures`, which notes how many vectors were in the cache."""

    def embed(*arguments: object, **options: object) -> Embeddings:
        embeddings = embed_pictures(*arguments, **options)  # type: ignore[arg-type]
        found.append(embeddings.n_cached)
        return embeddings

    return embed


def test_where_there_is_no_time_to_judge_a_pretrained_network_one_is_trained(shell: Shell) -> None:
    shell.monkeypatch.setattr("laplacenet.labeling.choices.installed_lite", lambda: ("lite0",))
    said = shell.runs_out_of_time("label", "photos", "--labels", "labels.csv", "--out", "run", "--for", "0.001s")
    assert "there is no time to test" in said.err
    assert "go on with: laplacenet label --resume run" in said.err


def test_settings_of_training_have_no_effect_with_pretrained_features_and_no_time_limit(shell: Shell) -> None:
    words = ["label", "photos", "--labels", "labels.csv", "--features", "lite0", "--no-flip", "--set", "train.lr=0.5"]
    said = shell.succeeds(*words, "--out", "run").err
    assert "so these settings have no effect: augment.flip (--flip), train.lr\n" in said
    assert "have no effect" not in shell(*words, "--for", "2s", "--out", "longer").err
