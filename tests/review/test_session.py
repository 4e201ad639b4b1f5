"""A session: answers in, labels of all pictures and the next question out."""

import re
import threading
from dataclasses import replace

import numpy as np
import pytest
import torch
from references_review import color_embedder, make_photos, open_session, served, settled, wait_until

from laplacenet.review import live, propagation, views
from laplacenet.review.known import current_columns
from laplacenet.review.opening import join_labels
from laplacenet.review.outputs import current_labeling, snapshot, write_outputs
from laplacenet.review.propagation import Propagation, join, leading_directions
from laplacenet.review.state import NONE_ID
from laplacenet.runtime import InputError

N = 60


@pytest.fixture
def photos(tmp_path):
    make_photos(tmp_path / "photos", N)
    return tmp_path / "photos"


@pytest.fixture
def truth(tmp_path, photos):
    return make_photos(tmp_path / "photos", N)


@pytest.fixture
def session(photos, tmp_path):
    session = open_session(photos, tmp_path / "run")
    session.start()
    yield settled(session)
    session.close()


def give(session, number, name, *, by="a", via="queue", seen=None):
    label = session.new_class(by, name)
    content = {"answer": "label", "class": label, "via": via, "seen": session.state.n if seen is None else seen}
    return session.answer(by, content, [number])


def play(session, truth, n, *, mode="single"):
    """A person who answers from the truth; gives how many questions were audits."""
    n_audits = 0
    for _ in range(n):
        question = session.next_question("a", mode=mode)
        if question["kind"] == "done":
            break
        names = [session.photos[number].name for number in question["numbers"]]
        if question["kind"] == "grid":
            shown = session.state.classes[question["class"]]
            right = [k for k, name in zip(question["numbers"], names, strict=True) if truth[name] == shown]
            wrong = [k for k in question["numbers"] if k not in right]
            content = {"answer": "label", "class": question["class"], "via": "grid", "seen": session.state.n}
            session.answer("a", content, right, wrong)
        else:
            give(session, question["numbers"][0], truth[names[0]], via=question["via"])
        n_audits += question["via"] == "audit"
        settled(session)
    return n_audits


def share_right(session, truth):
    labels = [session.label_of(number, session.live.current)[0] for number in range(N)]
    names = [session.state.classes.get(label) for label in labels]
    return np.mean([name == truth[photo.name] for name, photo in zip(names, session.photos, strict=True)])


def test_a_few_answers_label_all_pictures(session, truth):
    play(session, truth, 15)
    assert share_right(session, truth) > 0.9


def test_the_first_questions_meet_all_classes_without_any_label(session, truth):
    asked = set()
    for _ in range(8):
        question = session.next_question("a", mode="single")
        name = session.photos[question["numbers"][0]].name
        asked.add(truth[name])
        give(session, question["numbers"][0], truth[name], via=question["via"])
        settled(session)
    assert asked == {"red", "green", "blue"}


def test_a_fifth_of_the_questions_is_drawn_at_random(session, truth):
    assert play(session, truth, 25) == 5


def test_a_grid_with_its_corrections_is_one_question(session, truth):
    play(session, truth, 40, mode="grid")
    state = session.state
    n_grids = sum(entry.content.get("via") == "grid" for entry in session.journal.entries)
    assert n_grids > 0
    assert abs(5 * state.n_audits - (state.n_questions - state.n_corrections)) <= 5


def test_the_model_does_not_see_what_is_kept_back(session, truth):
    play(session, truth, 25)
    kept_back = [name for name in session.state.answers if session.state.is_kept_back(name)]
    targets = session._given().targets
    assert kept_back
    assert not {session.row_of[name] for name in kept_back} & set(targets)


def test_labels_kept_back_change_no_score(session, truth):
    """Replacing every kept-back answer by garbage leaves the scores as they are."""
    play(session, truth, 20)
    before = session.live.current.scores
    for name in [name for name in session.state.answers if session.state.is_kept_back(name)]:
        wrong = next(label for label in session.state.classes if label != session.state.target(name))
        content = {"answer": "label", "class": wrong, "via": "audit", "seen": session.state.n}
        session.answer("a", content, [session.row_of[name]])
    settled(session)
    assert torch.allclose(session.live.current.scores, before, atol=1e-3)


def test_the_queue_asks_nobody_again_for_what_was_kept_back(session, truth):
    asked = []
    for _ in range(2 * N):
        question = session.next_question("a", mode="single")
        if question["kind"] == "done":
            break
        number = question["numbers"][0]
        asked.append(number)
        give(session, number, truth[session.photos[number].name], via=question["via"])
    assert sorted(asked) == sorted(set(asked))
    assert len(asked) == N
    assert question["kind"] == "done"


def test_two_people_are_asked_different_questions(session):
    one = session.next_question("a", mode="single")["numbers"]
    two = session.next_question("b", mode="single")["numbers"]
    assert one != two
    assert session.next_question("a", mode="single")["numbers"] == one


def test_a_grid_costs_one_question_and_wrong_pictures_are_asked_for_next(session, truth):
    play(session, truth, 20)
    question = next(q for q in (session.next_question(f"tab{k}", mode="grid") for k in range(4)) if q["kind"] == "grid")
    assert 4 <= len(question["numbers"]) <= 20
    before = session.state.n_questions
    wrong = question["numbers"][:1]
    content = {"answer": "label", "class": question["class"], "via": "grid", "seen": session.state.n}
    session.answer("a", content, question["numbers"][1:], wrong)
    settled(session)
    assert session.state.n_questions == before + 1
    following = [session.next_question(f"new{k}", mode="grid")["numbers"] for k in range(2)]
    assert wrong in following  # the other one may be an audit
    guesses = session.guesses(wrong[0])
    assert all(guess["class"] != question["class"] or guess["p"] == 0 for guess in guesses)


def test_undo_takes_an_answer_back_and_redo_gives_it_again(session):
    give(session, 3, "cat")
    via, pictures = session.undo("a")
    assert (via, pictures) == ("queue", [3])
    assert session.state.answers == {}
    session.undo("a", is_redo=True)
    assert session.state.target(session.photos[3].name) == 0
    with pytest.raises(InputError, match="nothing to redo"):
        session.undo("a", is_redo=True)


def test_a_picture_that_an_undo_brought_back_is_not_asked_for_beside_it(session, truth):
    for _ in range(4):
        question = session.next_question("a", mode="single")
        number = question["numbers"][0]
        give(session, number, truth[session.photos[number].name], via=question["via"])
        settled(session)
        session.undo("a")
        settled(session)
        assert session.next_question("a", mode="single", holding=[number])["numbers"] != [number]
        session.undo("a", is_redo=True)


def test_undo_is_each_person_s_own(session):
    give(session, 3, "cat", by="a")
    give(session, 4, "cat", by="b")
    assert session.undo("a")[1] == [3]


def test_class_names_that_differ_in_case_are_one_class(session):
    assert session.new_class("a", "Koala") == session.new_class("b", " koala ")
    assert len(session.state.classes) == 1


@pytest.mark.parametrize("name", ["", "  ", "None", "none of these", "x" * 81, "a\u202eb", "a\x00b"])
def test_names_that_no_class_may_have_are_refused(session, name):
    with pytest.raises(InputError):
        session.new_class("a", name)


@pytest.mark.parametrize("name", ["", "  ", "\u200d"])
def test_a_name_of_nothing_but_spaces_is_asked_for_again(session, name):
    label = session.new_class("a", "cat")
    with pytest.raises(InputError, match=r"^type a name of 1 to 80 printable characters$"):
        session.rename("a", label, name)


def test_none_of_these_is_no_class_and_is_written_as_such(session, truth, tmp_path):
    play(session, truth, 15)
    number = next(k for k in range(N) if session.photos[k].name not in session.state.answers)
    session.answer("a", {"answer": "none", "via": "queue", "seen": session.state.n}, [number])
    settled(session)
    assert NONE_ID not in session.state.classes
    write_outputs(session, tmp_path / "run", title="photos", started_at=0.0)
    lines = (tmp_path / "run" / "labels.csv").read_text().splitlines()
    line = next(line for line in lines if line.startswith(session.photos[number].name))
    assert line.split(",")[1] == "none"


def test_everything_is_written_and_can_be_read_by_other_commands(session, truth, tmp_path):
    from laplacenet.labeling.result import load_labeling

    play(session, truth, 15)
    written = write_outputs(session, tmp_path / "run", title="photos", started_at=0.0)
    labeling = load_labeling(tmp_path / "run")
    assert written["n_labels"] == len(labeling) == N
    assert (tmp_path / "run" / "report.html").is_file()
    assert (tmp_path / "run" / "model.safetensors").is_file()
    given = {name for name in session.state.answers if session.state.target(name) is not None}
    assert {name for name, is_given in zip(labeling.names, labeling.is_given, strict=True) if is_given} == given


def test_nothing_is_written_before_the_first_label(session, tmp_path):
    with pytest.raises(InputError, match="no picture has been labeled"):
        write_outputs(session, tmp_path / "run", title="photos", started_at=0.0)


def test_labels_from_a_file_join_the_journal_once(session, truth, photos, tmp_path):
    names = list(truth)[:5]
    list_file = tmp_path / "labels.csv"
    list_file.write_text("path,label\n" + "".join(f"{name},{truth[name]}\n" for name in names))
    assert join_labels(session, list_file, photos) == 5
    assert join_labels(session, list_file, photos) == 0
    assert [session.state.classes[session.state.target(name)] for name in names] == [truth[name] for name in names]


def test_labels_from_a_file_that_a_run_predicted_join_with_a_note(session, truth, photos, tmp_path):
    one, two = list(truth)[:2]
    (tmp_path / "labels.csv").write_text(f"path,label,source\n{one},red,given\n{two},red,graph\n")
    assert join_labels(session, tmp_path / "labels.csv", photos) == 2
    (note,) = session.journal.notes
    assert "labels that a run predicted count as given here: 1 of 2 (source graph or network)" in note


def test_a_file_that_is_read_again_overrides_no_correction(session, truth, photos, tmp_path):
    name = next(iter(truth))
    (tmp_path / "labels.csv").write_text(f"path,label\n{name},red\n")
    join_labels(session, tmp_path / "labels.csv", photos)
    give(session, session.row_of[name], "green")
    assert join_labels(session, tmp_path / "labels.csv", photos) == 0
    assert session.state.classes[session.state.target(name)] == "green"


def test_a_file_with_a_name_that_no_class_may_have_leaves_nothing(session, truth, photos, tmp_path):
    one, two = list(truth)[:2]
    (tmp_path / "labels.csv").write_text(f"path,label\n{one},red\n{two},{'x' * 81}\n")
    with pytest.raises(InputError, match=r"'x+\.\.\.x+': a class's name has 1 to 80 printable characters"):
        join_labels(session, tmp_path / "labels.csv", photos)
    assert session.state.classes == {}


def test_a_restart_gives_the_same_state(session, truth, photos, tmp_path):
    play(session, truth, 12)
    again = open_session(photos, tmp_path / "run")
    assert again.state == session.state
    again.journal.close()


def test_merging_classes_moves_their_pictures(session):
    give(session, 1, "cat")
    give(session, 2, "kitten")
    session.merge("a", 1, 0)
    settled(session)
    assert session.state.target(session.photos[2].name) == 0
    assert [one["name"] for one in views.summary(session)["classes"]] == ["cat"]
    session.undo("a")
    assert session.state.target(session.photos[2].name) == 1


def scores_of(session):
    """For each picture its label and how sure, whichever columns the result has."""
    return [session.label_of(number, session.live.current)[:2] for number in range(N)]


def test_a_merge_that_is_undone_leaves_all_labels_as_they_were(session, truth):
    play(session, truth, 18)
    before = scores_of(session)
    session.merge("a", session.state.class_called("green"), session.state.class_called("blue"))
    assert scores_of(settled(session)) != before
    session.undo("a")
    assert scores_of(settled(session)) == before


def test_answers_that_are_undone_one_after_another_leave_all_labels_as_they_were(session, truth):
    play(session, truth, 9)
    before = scores_of(session)
    open_ones = [k for k, photo in enumerate(session.photos) if photo.name not in session.state.answers]
    for number in open_ones[:3]:
        give(session, number, "red" if truth[session.photos[number].name] != "red" else "blue")
        settled(session)
    for _ in range(3):
        session.undo("a")
        settled(session)
    assert scores_of(session) == before


def test_nothing_is_left_of_an_answer_that_was_undone_long_after(photos, truth, tmp_path):
    """Both sessions have the same answers in the end; in one of them there were wrong ones in between."""
    found = []
    for n_wrong in (0, 9):
        session = open_session(photos, tmp_path / f"run{n_wrong}")
        session.start()
        for number in range(6):
            give(settled(session), number, truth[session.photos[number].name])
        for number in range(20, 20 + n_wrong):
            give(settled(session), number, "red")
        for _ in range(n_wrong):
            session.undo("a")
        settled(session)
        if n_wrong == 0:  # labels that have followed answer by answer may differ a little
            assert session.settle(60)
        found.append(scores_of(session))
        session.close()
    assert found[0] == found[1]


def test_the_files_of_the_same_answers_are_the_same_after_a_restart(tmp_path, truth):
    """Labels on the page follow each answer from where they were; those in the files come from the answers alone."""
    labels = []
    with served(tmp_path / "photos", tmp_path / "run") as review:
        play(review.session, truth, 12)
        review.write()
        labels.append((tmp_path / "run" / "labels.csv").read_text())
        assert review.session.live.current.is_fresh, "the page shows what was written"
        label = review.session.state.class_called("green")
        review.session.merge("a", label, review.session.state.class_called("blue"))
        settled(review.session)
        review.session.undo("a")
    labels.append((tmp_path / "run" / "labels.csv").read_text())
    with served(tmp_path / "photos", tmp_path / "run"):
        pass
    labels.append((tmp_path / "run" / "labels.csv").read_text())
    assert labels[0] == labels[1] == labels[2]


def test_a_class_with_pictures_is_not_removed(session):
    give(session, 1, "cat")
    with pytest.raises(InputError, match="merge it"):
        session.remove("a", 0)
    empty = session.new_class("a", "dog")
    session.remove("a", empty)
    assert list(session.state.classes.values()) == ["cat"]
    assert session.new_class("a", "bird") == 2, "the number of a removed class stays taken"


def test_a_wrong_answer_amid_many_right_ones_is_a_suspect(session, truth, tmp_path):
    for number, photo in enumerate(session.photos[:30]):
        give(session, number, truth[photo.name])
    wrong = next(k for k in range(30) if truth[session.photos[k].name] == "red")
    give(session, wrong, "green")
    settled(session)
    result = session.live.current
    assert wrong in views.suspects(session.known, result, current_columns(result, session.state))
    label = session.state.class_called("green")
    tiles = views.class_tiles(session, label, order="suspects", offset=0)["pictures"]
    others = next(tile["others"] for tile in tiles if tile["number"] == wrong)
    assert session.state.classes[others] == "red"
    write_outputs(session, tmp_path / "run", title="photos", started_at=0.0)
    assert not re.search(r"nan\s*%", (tmp_path / "run" / "report.html").read_text())


def test_right_after_a_merge_the_two_columns_count_as_one_class(session, truth, monkeypatch):
    for number, photo in enumerate(session.photos[:30]):
        give(session, number, truth[photo.name])
    settled(session)
    monkeypatch.setattr(session.live, "give", lambda given: None)  # the result of the merge is not there yet
    green, blue = session.state.class_called("green"), session.state.class_called("blue")
    session.merge("a", green, blue)
    assert green in session.live.current.columns
    assert views.class_tiles(session, blue, order="suspects", offset=0)["total"] == 0
    for number in range(N):
        guesses = session.guesses(number)
        assert {guess["class"] for guess in guesses} == set(session.state.classes)
        assert len(guesses) == 2
        assert sum(guess["p"] for guess in guesses) == pytest.approx(1, abs=1e-3)


def test_when_a_merge_leaves_one_class_nothing_is_guessed(session, monkeypatch):
    give(session, 1, "cat")
    give(session, 2, "kitten")
    settled(session)
    assert len(session.guesses(5)) == 2
    monkeypatch.setattr(session.live, "give", lambda given: None)
    session.merge("a", 1, 0)
    assert session.guesses(5) == []
    assert views.class_tiles(session, 0, order="suspects", offset=0)["total"] == 0


def test_answers_after_a_snapshot_change_nothing_that_is_written_from_it(session, truth):
    for number, photo in enumerate(session.photos[:30]):
        give(session, number, truth[photo.name])
    wrong = next(k for k in range(30) if truth[session.photos[k].name] == "red")
    give(session, wrong, "green")
    now = snapshot(settled(session))
    give(session, wrong, "red")
    session.merge("a", session.state.class_called("green"), session.state.class_called("blue"))
    labeling = current_labeling(session, now, title="photos", elapsed_s=0.0)
    assert bool(labeling.is_suspect[wrong])
    assert labeling.summary.class_names[labeling.given[wrong]] == "green"


def test_directions_are_the_same_whatever_was_drawn_before_and_draw_nothing_from_torch():
    """No direction of these points stands out, so that they are hard to find."""
    points = torch.randn(200, 64, generator=torch.Generator().manual_seed(0))
    found = []
    for seed in range(3):
        torch.manual_seed(seed)
        before = torch.get_rng_state()
        found.append(leading_directions(points))
        assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])


def test_the_map_begins_with_the_two_directions_of_largest_variance(session):
    points = session.live.current.embedded.points
    U, S, _ = torch.linalg.svd(points - points.mean(0), full_matrices=False)
    found = views.first_directions(session.live.current.embedded)
    assert torch.allclose(found.abs(), (U * S)[:, :2].abs(), atol=1e-4)


def test_the_map_has_the_same_entries_before_anything_is_embedded(session, photos, tmp_path, monkeypatch):
    monkeypatch.setattr(views.Map, "_lay_out", lambda self, result: None)
    other = open_session(photos, tmp_path / "other")
    assert views.Map(other).content().keys() == views.Map(session).content().keys()
    other.close()


def embedder_that_waits_for(event):
    def embed(paths):
        event.wait(60)
        yield from color_embedder(paths)

    return embed


def test_a_map_that_was_opened_early_hears_of_the_pictures_and_of_their_layout(photos, tmp_path):
    """The page asks again when one of these numbers has changed; nobody has answered anything."""
    may_embed = threading.Event()
    session = open_session(photos, tmp_path / "run", embedder=embedder_that_waits_for(may_embed))
    session.start()
    try:
        map_ = views.Map(session)
        before = views.summary(session)
        assert map_.content()["numbers"] == []
        may_embed.set()
        after = views.summary(settled(session))
        assert (before["joined"], after["joined"]) == (0, len(session.photos))
        assert map_.content()["layouts"] == 0
        wait_until(lambda: views.summary(session)["layouts"] == 1)
        assert map_.content()["layouts"] == 1
    finally:
        session.close()


def test_deleted_and_changed_photos_are_marked(session, photos):
    session.photos[0].file.path.unlink()
    session.photos[1].file.path.write_bytes(session.photos[2].file.path.read_bytes() + b" ")
    assert views.picture(session, 0)["status"] == "gone"
    assert views.picture(session, 1)["status"] == "changed"
    assert views.picture(session, 2)["status"] == "ok"


def test_files_that_are_no_pictures_are_set_aside(photos, tmp_path):
    (photos / "broken.jpg").write_bytes(b"no picture")
    session = open_session(photos, tmp_path / "run")
    session.start()
    try:
        settled(session)
        summary = views.summary(session)
        assert (summary["files"], summary["pictures"], summary["unreadable"]) == (N + 1, N, 1)
        assert len(session.live.current.embedded) == N
    finally:
        session.close()


def test_when_every_picture_has_an_answer_there_is_nothing_to_estimate(photos, truth, tmp_path):
    (photos / "broken.jpg").write_bytes(b"no picture")
    session = open_session(photos, tmp_path / "run")
    session.start()
    try:
        for number, photo in enumerate(settled(session).photos):
            if photo.name in truth:
                give(session, number, truth[photo.name])
        summary = views.summary(settled(session))
        assert (summary["answered"], summary["pictures"], summary["goals"]) == (N, N, {})
        broken = session.row_of["broken.jpg"]
        session.answer("a", {"answer": "cannot tell", "via": "queue", "seen": 0}, [broken])
        assert views.summary(session)["answered"] == N
        give(session, broken, "red")  # it has a line in labels.csv
        summary = views.summary(session)
        assert (summary["answered"], summary["pictures"]) == (N + 1, N + 1)
        write_outputs(settled(session), tmp_path / "run", title="photos", started_at=0.0)
        assert "nothing to estimate" in (tmp_path / "run" / "report.html").read_text()
    finally:
        session.close()


def test_there_is_a_question_before_anything_is_embedded(photos, tmp_path):
    may_go_on = threading.Event()
    session = open_session(photos, tmp_path / "run", embedder=embedder_that_waits_for(may_go_on))
    session.start()
    try:
        question = session.next_question("a", mode="single")
        assert question["kind"] == "single"
        give(session, question["numbers"][0], "red", via=question["via"])
        may_go_on.set()
        wait_until(lambda: session.live.current is not None)
    finally:
        may_go_on.set()
        session.close()


# Propagation


def embedded_blobs(n=150, seed=0):
    rng = np.random.default_rng(seed)
    centers = rng.normal(0, 1, (3, 8))
    truth = rng.integers(0, 3, n)
    vectors = centers[truth] + rng.normal(0, 0.6, (n, 8))
    return join(torch.arange(n), torch.from_numpy(vectors).float()), torch.from_numpy(truth)


@pytest.fixture
def exact(monkeypatch):
    """Classifier and graph are solved to the end: rounding, which depends on the machine, decides nothing."""
    monkeypatch.setattr(propagation, "FINAL_TOL", 1e-7)
    monkeypatch.setattr(propagation, "MOST_ITERATIONS", 1000)
    monkeypatch.setattr(propagation, "GRAPH", replace(propagation.GRAPH, tol=1e-6, max_iterations=1000))


def test_a_warm_start_ends_where_a_cold_one_does():
    embedded, truth = embedded_blobs()
    y = torch.full((150,), -1)
    warm = Propagation(embedded)
    for row in range(20):
        y[row] = truth[row]
        columns = sorted(set(y[y >= 0].tolist()))
        places = {label: place for place, label in enumerate(columns)}
        placed = torch.tensor([places.get(int(label), -1) for label in y])
        scores = warm.scores(placed, columns)
    cold = Propagation(embedded).scores(placed, columns)
    assert float((scores - cold).abs().mean()) < 0.02  # guesses have gone through more rounds, and calibration
    assert float((scores.argmax(1) == cold.argmax(1)).float().mean()) > 0.98


def test_a_start_with_many_answers_labels_about_as_well_as_they_did_one_by_one():
    """With three rounds of guesses, as many as a start with the first answers has, it is seven points worse."""
    rng, n, columns = np.random.default_rng(1), 1500, list(range(6))
    truth = rng.integers(0, 6, n)
    vectors = rng.normal(0, 1, (6, 64))[truth] * 0.3 + rng.normal(0, 1, (n, 64))
    embedded, truth = join(torch.arange(n), torch.from_numpy(vectors).float()), torch.from_numpy(truth)
    one_by_one = Propagation(embedded)
    for n_answers in range(15, 36):
        y = torch.where(torch.arange(n) < n_answers, truth, -1)
        scores = one_by_one.scores(y, columns)
    at_once = Propagation(embedded).scores(y, columns)
    warm, cold = (float((found.argmax(1) == truth).float().mean()) for found in (scores, at_once))
    assert cold > warm - 0.03


def test_a_quick_pass_does_not_change_where_the_full_one_ends(exact):
    embedded, truth = embedded_blobs()
    y = torch.full((150,), -1)
    plain, hurried = Propagation(embedded), Propagation(embedded)
    for row in range(30):
        y[row] = truth[row]
        columns = sorted(set(y[y >= 0].tolist()))
        placed = torch.tensor([columns.index(label) if label >= 0 else -1 for label in y.tolist()])
        hurried.quick_scores(placed, columns)
        expected, found = plain.scores(placed, columns), hurried.scores(placed, columns)
    assert hurried.temperature == pytest.approx(plain.temperature, rel=1e-3)
    assert float((expected - found).abs().max()) < 1e-3


def test_scores_that_nobody_waits_for_are_dropped_and_teach_nothing(exact):
    embedded, truth = embedded_blobs()
    y = torch.where(torch.arange(150) < 9, truth, -1)
    hurried = Propagation(embedded)
    assert hurried.scores(y, [0, 1, 2], is_stale=lambda: True) is None
    expected = Propagation(embedded).scores(y, [0, 1, 2])
    assert float((hurried.scores(y, [0, 1, 2]) - expected).abs().max()) < 1e-4


def test_a_quick_result_is_followed_by_the_full_one(photos, truth, tmp_path, monkeypatch):
    monkeypatch.setattr(live, "LONG_S", -1.0)
    published = []
    publish = live.Live._publish
    monkeypatch.setattr(live.Live, "_publish", lambda self, result: (published.append(result), publish(self, result)))
    session = open_session(photos, tmp_path / "run")
    session.start()
    try:
        play(settled(session), truth, 12)
    finally:
        session.close()
    quick = [place for place, result in enumerate(published) if not result.is_full]
    assert len(quick) >= 9  # of twelve answers two or three are kept back, which teaches nothing
    assert all(published[place + 1].n >= published[place].n for place in quick)
    assert published[quick[-1] + 1].is_full
    assert published[-1].n == session.state.n


def test_the_thread_that_spreads_answers_leaves_torch_s_threads_to_others(photos, tmp_path):
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    session = open_session(photos, tmp_path / "run")
    try:
        session.start()
        assert torch.get_num_threads() == 3
        found = []
        other = threading.Thread(target=lambda: found.append(torch.get_num_threads()))
        other.start()
        other.join()
        assert found == [3]
    finally:
        session.close()
        torch.set_num_threads(before)


def test_labels_go_on_after_a_fault_of_the_thread_that_computes_them(session, truth, monkeypatch, capfd):
    play(settled(session), truth, 6)
    is_said, say = threading.Event(), live.traceback.print_exc
    with monkeypatch.context() as patched:
        patched.setattr(live.Live, "_spread", lambda self, spreader, given: 1 / 0)
        patched.setattr(live.traceback, "print_exc", lambda: (say(), is_said.set()))
        (number,) = session.next_question("a", mode="single")["numbers"]
        give(session, number, truth[session.photos[number].name])
        wait_until(is_said.is_set)
    assert "ZeroDivisionError" in capfd.readouterr().err
    play(session, truth, 2)
    assert settled(session).live.current.n == session.state.n


def test_naming_a_class_computes_nothing(session, truth):
    play(session, truth, 6)
    before = session.live.current
    session.new_class("a", "violet")
    assert settled(session).live.current.n == session.state.n
    assert session.live.current.scores is before.scores


@pytest.mark.parametrize("n_others", [0, 1, 2])
def test_the_rest_of_a_grid_is_asked_for_when_some_of_it_was_kept_back(session, truth, monkeypatch, n_others):
    """If it went back into the queue, the pictures that are not kept back would be harder than those that are."""
    kept_back, *rest = range(4)
    give(settled(session), kept_back, "red", via="audit")
    grids = iter([(kept_back, *rest[:n_others]), (rest[2],)])

    def ask(result, mode, taken):
        return {"kind": "grid", "via": "grid", "class": 0, "numbers": list(next(grids))}

    monkeypatch.setattr(session, "_audit_is_due", lambda: False)
    monkeypatch.setattr(session, "_choose_from_queue", ask)
    question = session.next_question("a", mode="grid")
    assert question["numbers"] == (rest[:n_others] or [rest[2]])
    assert question["kind"] == ("single" if n_others == 1 else "grid")
    assert not session.state.is_kept_back(session.photos[kept_back].name)


def keys_of(session):
    return {one["name"]: one["key"] for one in views.summary(session)["classes"]}


def test_a_class_called_by_a_digit_has_that_key_or_none(session):
    for name in ("7", "cat", "0", "1", "3", "dog"):
        session.new_class("a", name)
    assert keys_of(session) == {"7": 7, "cat": 1, "0": None, "1": None, "3": 3, "dog": 2}


def test_no_key_ever_moves(session):
    labels = [session.new_class("a", f"class {'abcdefghijkl'[number]}") for number in range(12)]
    before = keys_of(session)
    assert sorted(key for key in before.values() if key is not None) == list(range(1, 10))
    session.merge("a", labels[0], labels[1])
    session.remove("a", labels[4])
    session.rename("a", labels[2], "9")
    session.new_class("a", "another")
    after = keys_of(session)
    assert after.pop("9") == before["class c"]
    assert after.pop("another") is None
    assert after == {name: before[name] for name in after}


def test_names_may_hold_what_joins_emoji_and_letters_but_nothing_else_that_is_invisible(session):
    family, persian = "\U0001f468\u200d\U0001f469\u200d\U0001f467", "می\u200cخواهم"
    for name in (family, persian):
        assert session.state.classes[session.new_class("a", name)] == name
    assert session.new_class("a", f"{persian}\u200c") == session.new_class("a", persian)
    for name in ("\u200d", "a\u202eb", "a\x00b", "a\ufeffb"):
        with pytest.raises(InputError, match="printable"):
            session.new_class("a", name)


def test_a_full_disk_stops_the_curve_but_not_the_labels(session, truth, monkeypatch):
    append = session.journal.append

    def append_unless_estimate(by, kind, content):
        if kind == "estimate":
            raise OSError(28, "No space left on device")
        return append(by, kind, content)

    monkeypatch.setattr(session.journal, "append", append_unless_estimate)
    play(session, truth, 14)
    assert session.state.curve == []
    monkeypatch.undo()
    play(session, truth, 2)
    assert session.live.current.n >= session.state.n - 1
    assert len(session.state.curve) == 1
