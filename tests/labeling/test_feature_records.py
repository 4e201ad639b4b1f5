"""The records of pretrained features beside logistic regression reach their goals; how they are made."""

import json
from pathlib import Path

import numpy as np
import pytest
from references_feature_records import LABELS_A_CLASS, RESULTS, SETS, draw_labels, goals, long_tail, main

RECORDED = [name.replace(":", "-") for name in SETS]


@pytest.mark.parametrize("name", RECORDED)
def test_the_records_reach_the_goals(name: str) -> None:
    record = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    missed = {goal: pair for goal, pair in goals(record).items() if pair[0] < pair[1]}
    assert not missed
    assert all(row["n_seeds"] >= 6 for row in record["means"])


def small_set(folder: Path) -> None:
    """Vectors of three classes, as `embed` would write them."""
    rng = np.random.default_rng(0)
    classes = np.arange(240) % 3
    vectors = 2 * rng.random((3, 12))[classes] + rng.random((240, 12))
    np.savez(
        folder / "small-net.npz",
        embeddings=vectors.astype(np.float32),
        paths=np.array([f"{row}.jpg" for row in range(240)]),
        classes=classes,
        features="net",
        fingerprint="0",
    )


def test_shards_make_one_record_together_and_go_on_where_they_stopped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small_set(tmp_path)
    options = ("--sets", "small:net", "--seeds", "1", "--results", str(tmp_path / "results"))
    for shard in ("0/2", "1/2", "1/2"):
        main(["run", str(tmp_path), str(tmp_path / "shards"), "--shard", shard, *options])
    assert len(capsys.readouterr().out.splitlines()) == 3  # the last shard had nothing left to do
    main(["merge", str(tmp_path), str(tmp_path / "shards"), *options])
    record = json.loads((tmp_path / "results" / "small-net.json").read_text())
    assert len(record["runs"]) == 3 * len(LABELS_A_CLASS)
    assert {row["n_seeds"] for row in record["means"]} == {1}
    assert "smallest gain over the best C" in capsys.readouterr().out
    main(["table", *options])
    assert len(capsys.readouterr().out.splitlines()) == 3 + 3 * len(LABELS_A_CLASS)


def test_the_largest_class_of_a_long_tail_is_ten_times_the_smallest() -> None:
    classes = np.repeat(np.arange(5), 100)
    rows = long_tail(classes, np.random.default_rng(0))
    sizes = np.bincount(classes[rows])
    assert (sizes.max(), sizes.min()) == (100, 10)


@pytest.mark.parametrize("how", ["equal", "random"])
def test_every_class_is_given_a_label(how: str) -> None:
    classes = np.repeat(np.arange(5), (100, 50, 30, 20, 10))
    given = draw_labels(classes, 4, how, np.random.default_rng(0))
    assert (given >= 0).sum() == 20
    assert (np.bincount(given[given >= 0]) >= 1).all()
    assert (given[given >= 0] == classes[given >= 0]).all()
