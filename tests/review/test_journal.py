"""The journal and what its replay gives."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laplacenet.review.journal import Entry, Journal, checksum, read_journal
from laplacenet.review.state import History, State, replay
from laplacenet.runtime import InputError
from laplacenet.runtime.run_folder import ANSWERS


def label(journal, picture, number, *, by="a", via="queue", seen=0):
    content = {"answer": "label", "class": number, "pictures": [picture], "via": via, "seen": seen}
    return journal.append(by, "answer", content)


def new_class(journal, number, name, *, by="a"):
    return journal.append(by, "class", {"class": number, "name": name})


@pytest.fixture
def journal(tmp_path):
    return Journal(tmp_path / ANSWERS)


def test_what_was_appended_is_read_back(journal):
    new_class(journal, 0, "kö=ala\n\udc80")
    label(journal, "a.jpg", 0)
    entries, notes, n_bytes = read_journal(journal.path)
    assert entries == journal.entries
    assert notes == []
    assert n_bytes == journal.path.stat().st_size


@pytest.mark.parametrize("n_cut", [1, 2, 30])
def test_a_torn_last_line_is_dropped_with_a_note_and_appending_goes_on(journal, n_cut):
    new_class(journal, 0, "cat")
    label(journal, "a.jpg", 0)
    journal.close()
    content = journal.path.read_bytes()
    journal.path.write_bytes(content[:-n_cut])
    again = Journal(journal.path)
    assert [entry.n for entry in again.entries] == [1]
    assert any("cut short" in note for note in again.notes)
    label(again, "b.jpg", 0)
    entries, notes, _ = read_journal(journal.path)
    assert [entry.n for entry in entries] == [1, 2]
    assert notes == []


def test_an_altered_line_is_noticed_and_the_others_count(journal):
    new_class(journal, 0, "cat")
    label(journal, "a.jpg", 0)
    label(journal, "b.jpg", 0)
    journal.path.write_bytes(journal.path.read_bytes().replace(b"a.jpg", b"c.jpg"))
    entries, notes, _ = read_journal(journal.path)
    assert [entry.n for entry in entries] == [1, 3]
    assert len(notes) == 1
    assert "line 2" in notes[0]


def test_a_line_that_was_taken_out_is_noticed(journal):
    for number in range(4):
        label(journal, f"{number}.jpg", 0)
    lines = journal.path.read_bytes().splitlines(keepends=True)
    journal.path.write_bytes(b"".join(lines[:1] + lines[2:]))
    entries, notes, _ = read_journal(journal.path)
    assert [entry.n for entry in entries] == [1, 3, 4]
    assert "missing" in notes[0]


def test_a_line_that_was_copied_counts_once(journal):
    label(journal, "a.jpg", 0)
    journal.path.write_bytes(2 * journal.path.read_bytes())
    entries, notes, _ = read_journal(journal.path)
    assert len(entries) == len(notes) == 1


@settings(max_examples=40)
@given(st.binary(max_size=300))
def test_no_bytes_crash_the_reader(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("journal") / ANSWERS
    path.write_bytes(content)
    entries, _, n_bytes = read_journal(path)
    assert entries == []
    assert n_bytes <= len(content)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 10**20) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=5,
)
FIELDS = ("n", "at", "by", "kind", "answer", "pictures", "class", "name", "into", "of", "via", "seen", "rejected")
KINDS = st.sampled_from(["answer", "class", "rename", "merge", "remove", "undo", "redo", "release", "estimate", "?"])


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(KINDS, st.dictionaries(st.sampled_from(FIELDS), VALUES)), max_size=5))
def test_entries_of_any_content_are_replayed_or_left_out(tmp_path_factory, contents):
    """Even where the checksum is right: somebody's script may have written it."""
    path = tmp_path_factory.getbasetemp() / "any.jsonl"
    lines = []
    for number, (kind, content) in enumerate(contents, 1):
        words = {"n": number, "at": "", "by": "a", "kind": kind, "answer": "label", "pictures": ["a.jpg"]} | content
        lines.append(json.dumps({**words, "sum": checksum(words)}))
    path.write_text("".join(line + "\n" for line in lines))
    entries, _, _ = read_journal(path)
    state, _ = replay(entries)
    state.disagreements()
    assert all(state.target(name) is None or isinstance(state.target(name), int) for name in state.answers)


def test_many_faults_are_counted_not_listed(tmp_path):
    (tmp_path / ANSWERS).write_bytes(b"x\n" * 1000)
    entries, notes, _ = read_journal(tmp_path / ANSWERS)
    assert entries == []
    assert len(notes) == 6
    assert "995 more" in notes[-1]


def test_a_link_is_not_written_through(tmp_path):
    (tmp_path / "elsewhere").write_bytes(b"")
    (tmp_path / ANSWERS).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InputError, match="cannot be written"):
        Journal(tmp_path / ANSWERS)


def test_on_a_full_disk_nothing_of_an_answer_stays(journal, monkeypatch):
    label(journal, "a.jpg", 0)
    before = journal.path.read_bytes()
    monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(OSError, match="No space"):
        label(journal, "b.jpg", 0)
    assert journal.path.read_bytes() == before
    assert len(journal.entries) == 1


@pytest.mark.parametrize("written", [[0], [10], [None], [0, 0]], ids=["nothing", "a part", "all", "nothing twice"])
def test_a_full_disk_at_the_first_answer_leaves_a_journal_without_entries(journal, monkeypatch, written):
    """`written` are the bytes that the disk takes of the line, and of what is written after it; None is all."""
    pwrite, limits = os.pwrite, iter(written)

    def write_some(descriptor, content, offset):
        return pwrite(descriptor, content[: next(limits, None)], offset)

    def fail(_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", write_some)
        patched.setattr(os, "fsync", fail)
        with pytest.raises(OSError, match="No space"):
            label(journal, "a.jpg", 0)
    journal.close()
    again = Journal(journal.path)
    assert (again.entries, again.notes) == ([], [])
    label(again, "a.jpg", 0)
    assert len(read_journal(journal.path)[0]) == 1
    again.close()


def test_closing_twice_closes_no_other_file(journal, tmp_path):
    journal.close()
    with (tmp_path / "other").open("w") as other:  # the system gives it the number that is free
        journal.close()
        other.write("still open")
    with pytest.raises(OSError, match="Bad file descriptor"):
        label(journal, "a.jpg", 0)


WRITER = """
import sys
from pathlib import Path
from laplacenet.review.journal import Journal
journal = Journal(Path(sys.argv[1]))
for number in range(1_000_000):
    entry = journal.append("a", "answer", {"answer": "none", "pictures": [f"{number}.jpg"], "via": "queue", "seen": 0})
    print(entry.n, flush=True)
"""


def test_kill_9_loses_no_acknowledged_answer(tmp_path):
    path = tmp_path / ANSWERS
    with subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True) as process:
        acknowledged = [int(process.stdout.readline()) for _ in range(20)]
        process.send_signal(signal.SIGKILL)
        rest = process.stdout.read().split("\n")
    acknowledged += [int(line) for line in rest[:-1] if line]
    entries, _, _ = read_journal(path)
    assert {entry.n for entry in entries} >= set(acknowledged)


# Replay

ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(["answer", "none", "skip", "class", "rename", "merge", "undo", "redo", "release"]),
        st.sampled_from(["a", "b"]),
        st.integers(0, 4),
        st.integers(0, 4),
    ),
    max_size=30,
)


def entries_of(actions):
    """A journal as a session would write it: undo and redo only of what can be."""
    entries, history = [], History()
    for kind, by, one, other in actions:
        n = len(entries) + 1
        content = {
            "answer": {"answer": "label", "class": one, "pictures": [f"{other}.jpg"], "via": "audit", "seen": n - 1},
            "none": {"answer": "none", "pictures": [f"{other}.jpg"], "via": "queue", "seen": max(0, n - 2)},
            "skip": {"answer": "skip", "pictures": [f"{other}.jpg"], "via": "queue", "seen": 0},
            "class": {"class": one, "name": f"class {one}"},
            "rename": {"class": one, "name": f"renamed {other}"},
            "merge": {"class": one, "into": other},
            "release": {"pictures": [f"{other}.jpg"]},
        }.get(kind)
        if kind in ("undo", "redo"):
            stack = (history.done if kind == "undo" else history.undone).get(by)
            if not stack:
                continue
            content = {"of": stack[-1]}
        entry = Entry(n, "", by, "answer" if kind in ("none", "skip") else kind, content)
        entries.append(entry)
        history.note(entry)
    return entries


@given(ACTIONS)
def test_undoing_everything_leaves_no_answer_and_redoing_brings_all_back(actions):
    entries = [entry for entry in entries_of(actions) if entry.kind not in ("undo", "redo", "release")]
    full, history = replay(entries)
    n = len(entries)
    undone = list(entries)
    for by, stack in history.done.items():
        for of in reversed(stack):
            n += 1
            undone.append(Entry(n, "", by, "undo", {"of": of}))
    empty, history = replay(undone)
    assert empty.answers == {}
    assert empty.classes == {}
    for by, stack in history.undone.items():
        for of in reversed(stack):
            n += 1
            undone.append(Entry(n, "", by, "redo", {"of": of}))
    again, _ = replay(undone)
    assert (again.answers, again.classes, again.merged) == (full.answers, full.classes, full.merged)


@given(ACTIONS)
def test_taking_in_entries_one_by_one_is_the_same_as_replaying_them(actions):
    entries = [entry for entry in entries_of(actions) if entry.kind not in ("undo", "redo")]
    state = State()
    for entry in entries:
        state.apply(entry)
    assert state == replay(entries)[0]


@given(ACTIONS)
def test_a_merged_class_never_leads_in_a_circle(actions):
    state, _ = replay(entries_of(actions))
    for number in range(5):
        assert state.current(number) not in state.merged


def test_the_key_of_a_class_does_not_move_when_another_is_undone(journal):
    new_class(journal, 0, "cat")
    new_class(journal, 1, "dog", by="b")
    journal.append("a", "undo", {"of": 1})
    state, _ = replay(journal.entries)
    assert state.classes == {1: "dog"}
    assert state.next_class() == 2


def test_an_answer_by_somebody_who_had_not_seen_the_other_is_a_disagreement(journal):
    new_class(journal, 0, "cat")
    new_class(journal, 1, "dog")
    first = label(journal, "a.jpg", 0, by="a", seen=2)
    label(journal, "a.jpg", 1, by="b", seen=2)
    state, _ = replay(journal.entries)
    assert list(state.disagreements()) == ["a.jpg"]
    assert state.target("a.jpg") == 1
    label(journal, "a.jpg", 0, by="b", seen=4)
    state, _ = replay(journal.entries)
    assert state.disagreements() == {}
    assert first.n == 3


def test_a_correction_is_no_disagreement(journal):
    new_class(journal, 0, "cat")
    new_class(journal, 1, "dog")
    label(journal, "a.jpg", 0, by="a", seen=2)
    label(journal, "a.jpg", 1, by="b", seen=3)
    assert replay(journal.entries)[0].disagreements() == {}


def test_merging_ends_a_disagreement_over_two_names_of_one_class(journal):
    new_class(journal, 0, "cat")
    new_class(journal, 1, "kitten")
    label(journal, "a.jpg", 0, by="a")
    label(journal, "a.jpg", 1, by="b")
    journal.append("a", "merge", {"class": 1, "into": 0})
    state, _ = replay(journal.entries)
    assert state.disagreements() == {}
    assert state.target("a.jpg") == 0


def test_lines_are_plain_json(journal):
    new_class(journal, 0, "cat")
    words = json.loads(journal.path.read_text())
    assert words["n"] == 1
    assert words["name"] == "cat"
    assert time.strptime(words["at"][:19], "%Y-%m-%dT%H:%M:%S")
