"""The run folder of a review: what the other commands make of it, and how it is continued."""

import csv
import socket
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from references_cli import Shell
from references_review import color_embedder, make_photos, open_session, settled, wait_until

from laplacenet.models.features import installed_lite
from laplacenet.review.journal import Journal
from laplacenet.review.opening import Source, features_of, settings_of
from laplacenet.review.opening import open_session as open_run
from laplacenet.review.outputs import write_outputs
from laplacenet.review.serve import Place, open_review
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


def test_weights_without_a_network_are_refused_where_the_run_has_another(tmp_path, truth, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with open_run(Source(tmp_path / "photos", tmp_path / "run"), color_embedder):
        pass
    source, weights = Source(tmp_path / "run"), Path("weights.pt")
    look_by(tmp_path / "run", "lite1")
    with pytest.raises(InputError, match=r"--weights weights\.pt: .* lite1 already; add --features"):
        features_of(source, None, weights)
    assert features_of(source, "lite0", weights) == ("lite0", tmp_path / "weights.pt")
    look_by(tmp_path / "run", "lite1", weights=str(tmp_path / "weights.pt"))
    assert features_of(source, None, weights) == ("lite1", tmp_path / "weights.pt"), "the same command goes on"
    assert features_of(Source(tmp_path / "photos"), None, weights) == ("lite0", tmp_path / "weights.pt")


def run_of_label(tmp_path, lines):
    """A run folder as `label` leaves it when it was given a file of labels."""
    with open_run(Source(tmp_path / "photos", tmp_path / "run"), color_embedder):
        pass
    (tmp_path / "run" / ANSWERS).unlink()
    (tmp_path / "labels.csv").write_text("path,label\n" + "".join(f"{name},{label}\n" for name, label in lines))
    settings = settings_of(tmp_path / "run")
    collection = replace(settings.collection, labels=(str(tmp_path / "labels.csv"),))
    RunFolder.open(tmp_path / "run").write_experiment(to_json(replace(settings, collection=collection)))
    return Source(tmp_path / "run")


def test_labels_that_are_refused_are_refused_again_at_the_next_start(tmp_path, truth):
    names = list(truth)[:3]
    source = run_of_label(tmp_path, [(names[0], "red"), (names[1], "x" * 81)])
    for _ in range(2):
        with pytest.raises(InputError, match=r"'x+\.\.\.x+': a class's name"), open_run(source, color_embedder):
            pass
    (tmp_path / "labels.csv").write_text("".join(f"{name},{truth[name]}\n" for name in names))
    with open_run(source, color_embedder) as opened:
        assert list(opened.session.state.answers) == names


@pytest.mark.parametrize("n_written", [0, 1, 3, 4])
def test_labels_whose_joining_was_cut_off_are_joined_at_the_next_start(tmp_path, truth, monkeypatch, n_written):
    names = list(truth)[:9]
    source = run_of_label(tmp_path, [(name, truth[name]) for name in names])
    append = Journal.append

    def append_some(journal, *content):
        if len(journal.entries) == n_written:
            raise KeyboardInterrupt
        return append(journal, *content)

    with monkeypatch.context() as patched:
        patched.setattr(Journal, "append", append_some)
        with pytest.raises(KeyboardInterrupt), open_run(source, color_embedder):
            pass
    for _ in range(2):
        with open_run(source, color_embedder) as opened:
            state = opened.session.state
            assert {name: state.classes[state.target(name)] for name in state.answers} == {k: truth[k] for k in names}
            assert all(len(answers) == 1 for answers in state.answers.values())


def is_open_file(path):
    return path in [link.readlink() for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]


@pytest.mark.skipif(sys.platform != "linux", reason="lists open files by /proc")
def test_the_journal_is_closed_when_a_review_cannot_begin(tmp_path, truth):
    journal = tmp_path / "run" / ANSWERS
    with open_run(Source(tmp_path / "photos", tmp_path / "run"), color_embedder):
        assert is_open_file(journal)
    assert not is_open_file(journal)
    bad = Source(tmp_path / "photos", tmp_path / "run", (tmp_path / "nowhere.csv",))
    with pytest.raises(InputError, match="nowhere"), open_run(bad, color_embedder):
        pass
    assert not is_open_file(journal)
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        place = Place(port=other.getsockname()[1], opens_browser=False)
        with pytest.raises(InputError, match="--port"), open_review(Source(tmp_path / "run"), color_embedder, place):
            pass
    assert not is_open_file(journal)


def test_two_programs_do_not_review_one_run(tmp_path, truth):
    source = Source(tmp_path / "photos", tmp_path / "run")
    with (
        open_run(source, color_embedder),
        pytest.raises(InputError, match="another process"),
        open_run(source, color_embedder),
    ):
        pass
