"""Every file of a run carries a checksum and says of which run it is; a journal that was cut is noticed."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from campaigns import row_of
from references_campaign import Campaign
from references_review_journal import ReviewJournal

from laplacenet.review.journal import Journal, read_journal
from laplacenet.runtime import InputError, RunFolder, read_whole
from laplacenet.runtime.run_folder import ANSWERS, read_run_file, write_run_file
from laplacenet.runtime.sealed_tensors import read_sealed_tensors, write_sealed_tensors

FILES = ("experiment.json", "provenance.json", "final.json")


def begun(path: Path) -> RunFolder:
    path.mkdir()
    folder = RunFolder(path)
    folder.write_sealed("provenance.json", {"seed": 0})
    folder.write_experiment({"name": "bars"})
    folder.write_sealed("final.json", {"steps": 3})
    write_sealed_tensors(path / "gallery.safetensors", {"rows": torch.arange(3)})
    return folder


@pytest.fixture
def two(tmp_path: Path) -> tuple[RunFolder, RunFolder]:
    return begun(tmp_path / "one"), begun(tmp_path / "other")


@pytest.mark.parametrize("name", FILES)
def test_a_file_of_another_run_is_refused(two: tuple[RunFolder, RunFolder], name: str) -> None:
    shutil.copy(two[1].path / name, two[0].path / name)
    reader = "final.json" if name == "provenance.json" else name
    if name == "provenance.json":
        with pytest.raises(InputError, match=r"experiment\.json: of another run than provenance\.json"):
            two[0].read_experiment()
    else:
        with pytest.raises(InputError, match="of another run"):
            two[0].read_sealed(reader)


def test_tensors_of_another_run_are_refused(two: tuple[RunFolder, RunFolder]) -> None:
    path = two[0].path / "gallery.safetensors"
    assert read_sealed_tensors(path, ("rows",))
    shutil.copy(two[1].path / "gallery.safetensors", path)
    with pytest.raises(InputError, match="of another run"):
        read_sealed_tensors(path, ("rows",))


def test_any_flipped_bit_of_the_settings_is_found(two: tuple[RunFolder, RunFolder]) -> None:
    path = two[0].path / "experiment.json"
    content = path.read_bytes()
    for place in range(len(content)):
        path.write_bytes(content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :])
        with pytest.raises(InputError, match=r"experiment\.json"):
            two[0].read_experiment()


def test_settings_without_a_checksum_are_refused(two: tuple[RunFolder, RunFolder]) -> None:
    (two[0].path / "experiment.json").write_text(json.dumps({"name": "bars"}))
    with pytest.raises(InputError, match="written by an older version"):
        two[0].read_experiment()


def test_a_run_that_is_written_anew_keeps_its_number(two: tuple[RunFolder, RunFolder]) -> None:
    two[0].write_sealed("provenance.json", {"seed": 1})
    two[0].write_experiment({"name": "dots"})
    assert two[0].read_experiment() == {"name": "dots"}
    assert two[0].read_sealed("final.json") == {"steps": 3}


def test_a_model_that_left_its_run_is_read(two: tuple[RunFolder, RunFolder], tmp_path: Path) -> None:
    write_run_file(two[0].path / "model.json", {"k": 1})
    (tmp_path / "elsewhere").mkdir()
    shutil.copy(two[0].path / "model.json", tmp_path / "elsewhere")
    assert read_run_file(tmp_path / "elsewhere" / "model.json") == {"k": 1}


def with_epochs(folder: RunFolder, n: int) -> list[bytes]:
    for step in range(n):
        folder.append_epoch({"step": step, "loss": 0.5})
    return (folder.path / "epochs.jsonl").read_bytes().splitlines(keepends=True)


@pytest.mark.parametrize("change", ["gone", "twice", "exchanged", "altered"])
def test_lines_of_epochs_that_changed_are_refused(two: tuple[RunFolder, RunFolder], change: str) -> None:
    folder, path = two[0], two[0].path / "epochs.jsonl"
    lines = with_epochs(folder, 5)
    changed = {
        "gone": lines[:1] + lines[2:],
        "twice": lines[:2] + lines[1:],
        "exchanged": [lines[0], lines[2], lines[1], *lines[3:]],
        "altered": [lines[0].replace(b"0.5", b"0.4"), *lines[1:]],
    }
    assert [epoch["step"] for epoch in folder.epochs()] == [0, 1, 2, 3, 4]
    path.write_bytes(b"".join(changed[change]))
    with pytest.raises(InputError, match=r"epochs\.jsonl, line"):
        folder.epochs()


@pytest.mark.parametrize("checkpoint", ["checkpoint", "stages/final/checkpoint"])
def test_epochs_cut_at_the_end_of_a_line_are_missed(two: tuple[RunFolder, RunFolder], checkpoint: str) -> None:
    folder, path = two[0], two[0].path / "epochs.jsonl"
    lines = with_epochs(folder, 4)
    (folder.path / checkpoint).mkdir(parents=True)
    (folder.path / checkpoint / "epochs.jsonl").write_bytes(b"".join(lines[:3]))
    path.write_bytes(b"".join(lines[:3]))
    assert len(folder.epochs()) == 3  # what came after the checkpoint would be made again
    path.write_bytes(b"".join(lines[:2]))
    with pytest.raises(InputError, match="does not begin with the records in"):
        folder.epochs()


def test_a_run_that_goes_on_while_its_epochs_are_read_is_not_called_damaged(
    two: tuple[RunFolder, RunFolder], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, checkpoint = two[0], two[0].path / "checkpoint"
    checkpoint.mkdir(exist_ok=True)
    (checkpoint / "epochs.jsonl").write_bytes(b"".join(with_epochs(folder, 2)))
    n_reads = 0

    def read_slowly(path: Path) -> bytes:
        nonlocal n_reads
        content, n_reads = read_whole(path), n_reads + 1
        if n_reads == 1:  # meanwhile the run records an epoch and saves
            folder.append_epoch({"step": 9})
            (checkpoint / "epochs.jsonl").write_bytes((folder.path / "epochs.jsonl").read_bytes())
        return content

    monkeypatch.setattr("laplacenet.runtime.run_folder.read_whole", read_slowly)
    assert [epoch["step"] for epoch in RunFolder(folder.path).epochs()] == [0, 1, 9]


def test_a_line_that_a_crash_cut_short_is_written_over(two: tuple[RunFolder, RunFolder]) -> None:
    path = two[0].path / "epochs.jsonl"
    lines = with_epochs(two[0], 3)
    path.write_bytes(b"".join(lines)[:-5])
    again = RunFolder(two[0].path)
    again.append_epoch({"step": 9})
    assert [epoch["step"] for epoch in again.epochs()] == [0, 1, 9]


def test_a_review_journal_is_written_damaged_and_gone_on_with(tmp_path: Path) -> None:
    campaign = Campaign("review journal", seed=5)
    campaign.run(ReviewJournal(tmp_path), cases=range(60))
    assert not campaign.failures, "\n\n".join(campaign.failures)


def test_entries_that_no_review_writes_are_not_counted(tmp_path: Path) -> None:
    journal = Journal(tmp_path / ANSWERS)
    for kind, content in (
        ("answer", {"answer": "label", "class": 0}),
        ("answer", {"answer": "label", "class": "0", "pictures": ["a"]}),
        ("answer", {"answer": "perhaps", "pictures": ["a"]}),
        ("answer", {"answer": "none", "pictures": [1]}),
        ("class", {"class": 1.5, "name": "cat"}),
        ("merge", {"class": 1}),
        ("undo", {"of": None}),
        ("estimate", {"value": "x"}),
        ("unknown", {}),
    ):
        journal.append("a", kind, content)
    entries, notes, _ = read_journal(journal.path)
    assert entries == []
    assert notes


def test_shards_are_added_up_and_keep_what_failures_said() -> None:
    made_by = {"date": "today", "commit": "c", "python": "3", "libraries": {}, "hardware": {}}
    shards = [
        {"first": 0, "stop": 2, "outcomes": {"done": 2}, "failures": []},
        {"first": 2, "stop": 4, "outcomes": {"done": 1, "failed": 1}, "failures": ["case 3\nwith all of its text"]},
    ]
    shards = [{**shard, "seed": 7, "elapsed_s": 1.5, "made_by": made_by} for shard in shards]
    row = row_of("picture-bombs", shards)
    assert (row["cases"], row["done"], row["failed"], row["shards"]) == (4, 3, 1, 2)
    assert row["failures"] == ["case 3\nwith all of its text"]
    with pytest.raises(SystemExit):
        row_of("picture-bombs", [shards[0], shards[0]])
