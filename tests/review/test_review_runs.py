"""The run folder of a review: what the other commands make of it, and how it is continued."""

import csv
from dataclasses import replace

import pytest
from references_cli import Shell
from references_review import color_embedder, make_photos, open_session, settled, wait_until

from laplacenet.models.features import installed_lite
from laplacenet.review.opening import Source, features_of, settings_of
from laplacenet.review.opening import open_session as open_run
from laplacenet.review.outputs import write_outputs
from laplacenet.runtime import InputError, RunFolder
from laplacenet.runtime.run_folder import ANSWERS
from laplacenet.runtime.settings import to_json

needs_lite = pytest.mark.skipif(not installed_lite(), reason="no pretrained weights are installed")


@pytest.fixture
def shell(tmp_path, monkeypatch, capsys):
    return Shell(tmp_path, monkeypatch, capsys)


@pytest.fixture
def truth(tmp_path):
    return make_photos(tmp_path / "photos", 24, side=40)


def answers_of(tmp_path, truth, n):
    """A journal as a review that was killed leaves it: answers, and nothing computed from them."""
    session = open_session(tmp_path / "photos", tmp_path / "run")
    for number, photo in list(enumerate(session.photos))[:n]:
        label = session.new_class("tab", truth[photo.name])
        session.answer("tab", {"answer": "label", "class": label, "via": "queue", "seen": 0}, [number])
    session.answer("tab", {"answer": "none", "via": "queue", "seen": 0}, [n])
    session.journal.close()
    return session.photos[n].name


def look_by(run, features, *, weights=None):
    """As if this network had looked at the pictures."""
    settings = settings_of(run)
    collection = replace(settings.collection, features=features, weights=weights)
    RunFolder.open(run).write_experiment(to_json(replace(settings, collection=collection)))


def labels_in(run):
    with (run / "labels.csv").open() as file:
        return {line["path"]: line["label"] for line in csv.DictReader(file)}


@needs_lite
@pytest.mark.slow
def test_every_command_works_on_the_run_of_a_review(shell, tmp_path, truth):
    with open_run(Source(tmp_path / "photos", tmp_path / "run"), color_embedder):
        pass  # the folder is made
    look_by(tmp_path / "run", "lite0")
    outsider = answers_of(tmp_path, truth, 12)
    assert "label --resume" in shell.fails("next", "run")
    more = tmp_path / "more.csv"
    more.write_text("path,label\n" + "".join(f"{name},{truth[name]}\n" for name in list(truth)[14:17]))

    shell.succeeds("label", "--resume", "run", "--labels", "more.csv")
    labels = labels_in(tmp_path / "run")
    assert set(labels) == set(truth)
    assert labels[outsider] == "none"
    assert {labels[name] for name in list(truth)[14:17]} == {truth[name] for name in list(truth)[14:17]}
    assert "file more.csv" in (tmp_path / "run" / ANSWERS).read_text()
    (tmp_path / "truth.csv").write_text("path,label\n" + "".join(f"{name},{color}\n" for name, color in truth.items()))
    said = shell.succeeds("next", "run", "-n", "3")
    assert (len(said.out.splitlines()), said.err) == (4, "")
    assert "accuracy" in shell.succeeds("evaluate", "run", "--truth", "truth.csv").out
    assert shell.succeeds("predict", "run", "photos/photo_020.png").out.splitlines()[0].startswith("path,label")
    assert "report.html" in shell.succeeds("report", "run").out
    assert "agree with the network" in shell.succeeds("export", "run").out
    answers_of(tmp_path, truth, 2)
    assert "label --resume" in shell.succeeds("next", "run").err


def test_answers_that_are_damaged_are_said_when_labels_are_written_without_them(shell, tmp_path, truth, monkeypatch):
    with open_run(Source(tmp_path / "photos", tmp_path / "run"), color_embedder):
        pass  # the folder is made
    answers_of(tmp_path, truth, 12)
    journal = tmp_path / "run" / ANSWERS
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join([*lines[:3], lines[3].replace(b"photo", b"phota"), *lines[4:]]))
    monkeypatch.setattr("laplacenet.api.labeling.embedder_of", lambda *_: color_embedder)
    assert "warning: answers.jsonl, line 4: damaged" in shell.succeeds("label", "--resume", "run").err


def test_a_review_that_has_written_no_labels_says_how_to_write_them(shell, tmp_path, truth):
    with open_run(Source(tmp_path / "photos", tmp_path / "run"), color_embedder):
        pass
    for command in (["next", "run"], ["predict", "run", "photos"], ["evaluate", "run"], ["export", "run"]):
        assert "laplacenet label --resume run" in shell.fails(*command)


@needs_lite
def test_answers_are_never_overwritten(shell, tmp_path, truth):
    with open_run(Source(tmp_path / "photos", tmp_path / "run"), color_embedder):
        pass
    answers_of(tmp_path, truth, 3)
    before = (tmp_path / "run" / ANSWERS).read_bytes()
    (tmp_path / "labels.csv").write_text("path,label\nphoto_000.png,red\nphoto_001.png,blue\n")
    fails = shell.fails(
        "label", "photos", "--labels", "labels.csv", "--out", "run", "--overwrite", "--features", "lite0"
    )
    assert "answers" in fails
    assert (tmp_path / "run" / ANSWERS).read_bytes() == before


def test_the_run_of_label_is_reviewed_with_the_labels_it_was_given(tmp_path, truth):
    """They are the first answers, once: a correction is not overridden when the review is opened again."""
    source = Source(tmp_path / "photos", tmp_path / "run")
    with open_run(source, color_embedder) as opened:
        session = opened.session
        session.start()
        wait_until(lambda: session.embedding.is_finished)
        session.add_labels("file", {number: truth[photo.name] for number, photo in enumerate(session.photos[:9])})
        settled(session)
        session.close()
        write_outputs(session, tmp_path / "run", title="photos", started_at=0.0)
    (tmp_path / "run" / ANSWERS).unlink()  # what is left is what a run of label leaves
    with open_run(Source(tmp_path / "run"), color_embedder) as opened:
        session = opened.session
        names = [photo.name for photo in session.photos[:9]]
        assert [session.state.classes[session.state.target(name)] for name in names] == [truth[name] for name in names]
        other = session.new_class("tab", "another")
        session.answer("tab", {"answer": "label", "class": other, "via": "class", "seen": session.state.n}, [0])
        session.journal.close()
    with open_run(Source(tmp_path / "run"), color_embedder) as opened:
        assert opened.session.state.target(names[0]) == other
        opened.session.journal.close()


def test_the_network_of_the_run_is_taken_again(tmp_path, truth):
    with open_run(Source(tmp_path / "photos", tmp_path / "run"), color_embedder):
        pass
    look_by(tmp_path / "run", "timm:resnet18", weights="weights.pt")
    source = Source(tmp_path / "run")
    assert settings_of(source.run).collection.features == "timm:resnet18"
    assert [str(word) for word in features_of(source, None, None)] == ["timm:resnet18", "weights.pt"]
    assert features_of(source, "lite1", None) == ("lite1", None)
    assert features_of(Source(tmp_path / "photos"), None, None) == ("lite0", None)


def test_two_programs_do_not_review_one_run(tmp_path, truth):
    source = Source(tmp_path / "photos", tmp_path / "run")
    with (
        open_run(source, color_embedder),
        pytest.raises(InputError, match="another process"),
        open_run(source, color_embedder),
    ):
        pass
