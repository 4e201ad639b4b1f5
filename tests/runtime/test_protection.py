"""Nothing of the user's is ever deleted or written over."""

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laplacenet.runtime import InputError, RunFolder, read_whole, require_apart, require_no_input, write_whole
from laplacenet.runtime.files import write_named
from laplacenet.runtime.run_folder import RUN_FILES, clear_checkpoint, is_run_folder, read_run_file

CHECKPOINTS = ("checkpoint", "checkpoint.old", "checkpoint.new", "checkpoint.damaged")
OURS = [
    *RUN_FILES,
    *(
        f"{folder}/{name}"
        for folder in CHECKPOINTS
        for name in ("manifest.json", "state-0.safetensors", "epochs.jsonl")
    ),
    *(f"stages/{stage}/{name}" for stage in ("final", "vote-1") for name in ("stage.json", "labels.safetensors")),
    *(f"stages/final/{folder}/manifest.json" for folder in CHECKPOINTS),
    "report.html.tmp",
    "checkpoint/manifest.json.tmp",
]
names = st.text("abcé.- ", min_size=1, max_size=8).filter(lambda name: name.strip(".") and name != ".lock")
theirs = st.lists(
    st.tuples(st.sampled_from(["", "checkpoint", "stages", "stages/final", "stages/final/checkpoint", "mine"]), names),
    min_size=1,
    max_size=6,
)


def begun(path: Path) -> RunFolder:
    """A run with every file that a run can have."""
    folder = RunFolder.create(path)
    for name in OURS:
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text("ours")
    folder.write_experiment({})
    return folder


def files(path: Path) -> set[str]:
    return {str(entry.relative_to(path)) for entry in path.rglob("*") if not entry.is_dir()}


def test_overwriting_removes_all_that_a_run_writes(tmp_path: Path) -> None:
    begun(tmp_path / "run")
    RunFolder.create(tmp_path / "run", overwrite=True)
    assert [entry.name for entry in (tmp_path / "run").iterdir()] == [".lock"]


@settings(max_examples=40)
@given(theirs)
def test_overwriting_leaves_everything_else(
    tmp_path_factory: pytest.TempPathFactory, theirs: list[tuple[str, str]]
) -> None:
    path = tmp_path_factory.mktemp("folder") / "run"
    begun(path)
    kept = set()
    for place, name in theirs:
        file = path / place / name
        if file.is_dir() or file.parent.is_file() or str(file.relative_to(path)) in OURS:
            continue
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("theirs")
        kept.add(str(file.relative_to(path)))
    RunFolder.create(path, overwrite=True)
    assert files(path) == kept | {".lock"}
    assert all((path / name).read_text() == "theirs" for name in kept)


@pytest.mark.parametrize("link", ["checkpoint", "stages", "labels.csv", "stages/final"])
def test_overwriting_never_follows_a_link(tmp_path: Path, link: str) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    for name in ("manifest.json", "stage.json", "labels.csv"):
        (mine / name).write_text("theirs")
    run = RunFolder.create(tmp_path / "run")
    run.write_experiment({})
    (run.path / link).parent.mkdir(exist_ok=True)
    (run.path / link).symlink_to(mine / "labels.csv" if link.endswith(".csv") else mine)
    RunFolder.create(run.path, overwrite=True)
    assert files(mine) == {"manifest.json", "stage.json", "labels.csv"}


def test_a_folder_with_an_experiment_json_of_the_users_own_is_no_run(tmp_path: Path) -> None:
    (tmp_path / "experiment.json").write_text("{}")
    with pytest.raises(InputError, match="not a run folder, so --overwrite leaves it alone"):
        RunFolder.create(tmp_path, overwrite=True)
    assert files(tmp_path) == {"experiment.json"}


def test_a_lock_beside_it_does_not_make_it_one(tmp_path: Path) -> None:
    theirs = {"experiment.json": "{}", ".lock": "", "labels.csv": "a,b", "checkpoint/state-0.safetensors": "weights"}
    for name, content in theirs.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    with pytest.raises(InputError, match="not a run folder, so --overwrite leaves it alone"):
        RunFolder.create(tmp_path, overwrite=True)
    assert files(tmp_path) == set(theirs)
    assert not is_run_folder(tmp_path)


@pytest.mark.parametrize("name", ["experiment.json", "provenance.json"])
def test_a_run_that_is_damaged_can_be_overwritten(tmp_path: Path, name: str) -> None:
    run = RunFolder.create(tmp_path / "run")
    run.write_experiment({})
    run.write_sealed("provenance.json", {})
    (run.path / name).write_text("")
    RunFolder.create(run.path, overwrite=True)
    assert files(run.path) == {".lock"}


def test_what_lies_in_the_folders_of_checkpoints_and_stages_stays(tmp_path: Path) -> None:
    run = begun(tmp_path / "run")
    kept = ("checkpoint/mine.txt", "stages/final/mine.txt", "stages/mine/thesis.txt", "notes.json.tmp")
    for name in kept:
        (run.path / name).parent.mkdir(exist_ok=True)
        (run.path / name).write_text("theirs")
    run.clear_stages()
    run.clear_leftovers()
    clear_checkpoint(run.checkpoint)
    clear_checkpoint(run.checkpoint)
    found = {path.name: path.read_text() for path in run.path.rglob("*") if path.name in map(os.path.basename, kept)}
    assert set(found.values()) == {"theirs"}
    assert files(run.path) >= {"checkpoint.kept-1/mine.txt", *kept[1:]}
    assert not (run.path / "report.html.tmp").exists()
    assert not run.checkpoint.exists()


def test_a_file_that_is_written_under_a_name_of_the_users_takes_no_other_with_it(tmp_path: Path) -> None:
    (tmp_path / "out.csv.tmp").write_text("theirs")
    write_named(tmp_path / "out.csv", b"ours")
    write_named(tmp_path / "out.csv", lambda file: file.writelines([b"again"]))
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"out.csv": "again", "out.csv.tmp": "theirs"}


def test_a_folder_in_the_place_of_a_file_is_named_and_stays(tmp_path: Path) -> None:
    (tmp_path / "labels.csv").mkdir()
    with pytest.raises(InputError, match=r"labels\.csv: is a folder, but a file must be written there; move it away"):
        write_whole(tmp_path / "labels.csv", b"")
    assert [path.name for path in tmp_path.iterdir()] == ["labels.csv"]


def test_a_file_that_memory_has_no_room_for_is_refused_unread(tmp_path: Path) -> None:
    with (tmp_path / "final.json").open("wb") as file:
        file.truncate(1 << 43)
    with pytest.raises(InputError, match=r"final\.json: damaged, or too large: 8796093022208 bytes"):
        read_whole(tmp_path / "final.json")


def test_a_folder_that_holds_an_input_or_lies_in_one_is_refused(tmp_path: Path) -> None:
    pictures, run = tmp_path / "pictures", tmp_path / "run"
    pictures.mkdir()
    run.mkdir()
    (run / "labels.csv").touch()
    (tmp_path / "link").symlink_to(run)
    require_apart(run, [pictures, None, "", tmp_path / "no-such-file"])
    for out, read in [
        (run, run / "labels.csv"),
        (run, tmp_path / "link" / "labels.csv"),
        (run, str(run)),
        (pictures / "run", pictures),
        (tmp_path / "link" / "new", run),
        (tmp_path, pictures),
    ]:
        with pytest.raises(InputError, match=r"choose another|choose one outside"):
            require_apart(out, [None, read])


def test_the_refusal_of_a_folder_says_how_it_meets_the_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    photos, labels = Path("photos"), Path("photos/labels.csv")
    photos.mkdir()
    labels.touch()
    Path("link").symlink_to(photos)

    def refusal(out: str, read: Path, **options: bool) -> str:
        with pytest.raises(InputError) as error:
            require_apart(Path(out), [read], **options)
        return str(error.value)

    assert refusal("photos", photos) == "--out photos: this is the input folder; choose another folder"
    assert refusal("link", photos) == "--out link: this is the input folder; choose another folder"
    assert refusal(str(labels), labels) == f"--out {labels}: this is the input file; choose another folder"
    assert refusal("photos", labels).startswith(f"{labels}: lies inside the folder to write to, photos, ")
    assert refusal("photos/run", photos).startswith("--out photos/run: lies inside photos, which is read; choose")
    assert refusal("photos/run", photos, is_default=True) == (
        "the run folder photos/run lies inside photos, which is read; give one outside of it with --out"
    )


def test_a_file_that_is_an_input_or_part_of_a_run_is_not_written(tmp_path: Path) -> None:
    labels = tmp_path / "labels.csv"
    labels.touch()
    (tmp_path / "link.csv").symlink_to(labels)
    os.link(labels, tmp_path / "other-name.csv")
    require_no_input(tmp_path / "new.csv", [labels])
    for name in ("labels.csv", "link.csv", "other-name.csv"):
        with pytest.raises(InputError, match="is one of the inputs"):
            require_no_input(tmp_path / name, [None, labels])
    RunFolder.create(tmp_path / "run").write_experiment({})
    require_no_input(tmp_path / "run" / "next.csv", [])
    require_no_input(tmp_path / "run" / "model.onnx", [])
    with pytest.raises(InputError, match="belongs to the run"):
        require_no_input(tmp_path / "run" / "labels.csv", [])


@pytest.mark.parametrize("name", ["experiment.json", "epochs.jsonl", ".lock"])
def test_a_pipe_in_place_of_a_file_is_refused_and_not_waited_for(tmp_path: Path, name: str) -> None:
    folder = RunFolder(tmp_path)
    os.mkfifo(tmp_path / name)
    for work in (
        lambda: read_whole(tmp_path / name),
        lambda: (
            folder.append_epoch({"step": 1}) or folder.epochs()
            if name == "epochs.jsonl"
            else read_run_file(tmp_path / name)
        ),
        lambda: folder.locked().__enter__() if name == ".lock" else read_whole(tmp_path / name),
    ):
        with pytest.raises(InputError, match="not a regular file"):
            work()
    with pytest.raises(InputError, match="not a regular file"):
        read_whole(Path("/dev/zero"))


def test_a_lock_that_is_a_link_is_not_written_through(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / ".lock").symlink_to(tmp_path / "thesis.tex")
    with pytest.raises(InputError, match="not a regular file"), RunFolder(tmp_path / "run").locked():
        pass
    assert (tmp_path / "thesis.tex").read_text() == "years of work"
