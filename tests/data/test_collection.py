"""One's own pictures and embeddings with a few labels, in every form in which people have them."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from laplacenet.data import Collection, ImageSet, VectorSet, read_collection, read_judges
from laplacenet.runtime import InputError


def picture(path: Path, seed: int = 0, *, side: int = 12, mode: str = "RGB") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 256, (side, side, 3), dtype=np.uint8)
    Image.fromarray(pixels).convert(mode).save(path)
    return path


def labeled(collection: Collection) -> dict[str, str]:
    """The given labels by name, in words."""
    pairs = zip(collection.names, collection.labels.tolist(), strict=True)
    return {name: collection.class_names[label] for name, label in pairs if label >= 0}


def embeddings(n: int = 6, d: int = 3) -> np.ndarray:
    return np.random.default_rng(1).normal(size=(n, d))


# folders


def test_sub_folders_are_classes_and_pictures_elsewhere_are_unknown(tmp_path: Path) -> None:
    known = {"cat/1.png": "cat", "cat/deep/2.png": "cat", "dog/1.png": "dog"}
    unknown = ["loose.png", "Unlabelled/a.png", "_UNLABELED_/b.png", "to label/x/c.png", "dog/unsorted/d.png"]
    for seed, name in enumerate([*known, *unknown]):
        picture(tmp_path / name, seed)
    collection = read_collection(tmp_path)
    assert set(collection.names) == {*known, *unknown}
    assert labeled(collection) == known
    assert collection.class_names == ("cat", "dog")
    assert collection.root == tmp_path
    assert isinstance(collection.rows, ImageSet)
    assert collection.rows.names == collection.names
    assert collection.notes == ("only one label is given for class 'dog'",)


def test_folders_named_by_numbers_are_ordered_by_value(tmp_path: Path) -> None:
    for name in ("10", "9", "-1"):
        picture(tmp_path / name / "a.png")
    assert read_collection(tmp_path).class_names == ("9", "10")


def test_train_and_test_folders_are_no_classes(tmp_path: Path) -> None:
    for name in ("train/cat/1.png", "train/dog/1.png", "unlabeled/1.png", "test/cat/9.png", "val/dog/8.png"):
        picture(tmp_path / name)
    collection = read_collection(tmp_path)
    assert labeled(collection) == {"train/cat/1.png": "cat", "train/dog/1.png": "dog"}
    assert len(collection) == 3
    assert "2 pictures in test, val" in collection.notes[0]


def test_a_folder_can_be_left_out(tmp_path: Path) -> None:
    for name in ("cat/1.png", "dog/1.png", "held/cat/1.png"):
        picture(tmp_path / name)
    assert read_collection(tmp_path, leave_out=tmp_path / "held").class_names == ("cat", "dog")


def test_with_a_list_sub_folders_are_no_classes(tmp_path: Path) -> None:
    for seed, name in enumerate(("2023/a.png", "2024/b.png", "c.png")):
        picture(tmp_path / "photos" / name, seed)
    (tmp_path / "labels.jsonl").write_text(
        '{"path": "photos/2023/a.png", "label": "cat"}\n{"path": "c.png", "label": 7}\n'
    )
    collection = read_collection(tmp_path / "photos", labels=tmp_path / "labels.jsonl", size=8)
    assert labeled(collection) == {"2023/a.png": "cat", "c.png": "7"}
    assert isinstance(collection.rows, ImageSet)
    assert collection.rows.images.shape == (3, 3, 8, 8)


def test_a_label_of_a_picture_that_cannot_be_read_is_lost_and_told(tmp_path: Path) -> None:
    picture(tmp_path / "a.png")
    (tmp_path / "b.png").write_bytes(b"torn")
    (tmp_path / "c.heic").write_bytes(b"unknown")
    (tmp_path / "labels.csv").write_text("a.png,cat\nb.png,dog\nc.heic,owl\n")
    collection = read_collection(tmp_path, labels=tmp_path / "labels.csv")
    assert labeled(collection) == {"a.png": "cat"}
    assert {file.path for file in collection.skipped} == {"b.png", "c.heic"}
    assert "1 label is of a picture that could not be read" in collection.notes


def test_a_wrong_list_is_refused_before_any_picture_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    picture(tmp_path / "a.png")
    (tmp_path / "labels.csv").write_text("a.png,cat\nghost.png,cat\n")
    monkeypatch.setattr("laplacenet.data.collection.decode_all", pytest.fail)
    with pytest.raises(InputError, match=r"labels\.csv, line 2: 'ghost\.png' is not among"):
        read_collection(tmp_path, labels=tmp_path / "labels.csv")


def test_reading_is_counted_and_can_be_stopped(tmp_path: Path) -> None:
    class Counter:
        n, should_stop = 0, False

        def advance(self, n: int) -> None:
            self.n += n
            self.should_stop = self.stops

        def __init__(self, *, stops: bool) -> None:
            self.stops = stops

    for name in ("cat/1.png", "cat/2.png", "dog/1.png"):
        picture(tmp_path / name)
    patient = Counter(stops=False)
    read_collection(tmp_path, monitor=patient)
    assert patient.n == 3
    with pytest.raises(KeyboardInterrupt):
        read_collection(tmp_path, monitor=Counter(stops=True))


def test_what_is_neither_folder_nor_arrays_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(InputError, match=r"notes\.txt: not something that can be labeled; give a folder of pictures"):
        read_collection(tmp_path / "notes.txt")
    with pytest.raises(InputError, match="no such folder or file"):
        read_collection(tmp_path / "nothing")
    picture(tmp_path / "a.png")
    with pytest.raises(InputError, match="no labels; name a label file with --labels, put some pictures of each class"):
        read_collection(tmp_path)
    np.save(tmp_path / "y.npy", np.array([1]))
    with pytest.raises(InputError, match=r"give a \.csv, \.tsv, \.json or \.jsonl"):
        read_collection(tmp_path, labels=tmp_path / "y.npy")


# arrays


@pytest.mark.parametrize(
    ("vector", "known"),
    [
        (np.array([0, 1, -1, -1, 10, 2]), {0: "0", 1: "1", 4: "10", 5: "2"}),
        (np.array([[0], [1], [-1], [-1], [10], [2]]), {0: "0", 1: "1", 4: "10", 5: "2"}),
        (np.array([0.0, np.nan, 1.0, -1.0, np.nan, np.nan]), {0: "0", 2: "1"}),
        (np.array(["cat", "", "dog", "None", "nan", "cat"]), {0: "cat", 2: "dog", 5: "cat"}),
        (np.array(["3.0", "", "10", "-1", "", "3"]), {0: "3", 2: "10", 5: "3"}),
    ],
)
def test_a_vector_in_the_file_labels_its_rows(tmp_path: Path, vector: np.ndarray, known: dict) -> None:
    points = embeddings()
    np.savez(tmp_path / "a.npz", embeddings=points, labels=vector)
    np.save(tmp_path / "x.npy", points)
    np.save(tmp_path / "y.npy", vector)
    for collection in (
        read_collection(tmp_path / "a.npz"),
        read_collection(tmp_path / "x.npy", labels=tmp_path / "y.npy"),
    ):
        assert labeled(collection) == {f"row {row}": name for row, name in known.items()}
        assert isinstance(collection.rows, VectorSet)
        np.testing.assert_array_equal(collection.rows.vectors.numpy(), points.astype(np.float32))
        numeric = all(name.isdecimal() for name in known.values())
        assert collection.class_names == tuple(sorted(set(known.values()), key=int if numeric else None))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("y.csv", "cat\n\ndog\nNone\nNaN\n\n"),
        ("y.txt", "label\ncat\n\ndog\n\n\n\n"),
        ("y.csv", "0,cat\n2,dog\n"),
        ("y.tsv", "index\tlabel\n2\tdog\n0\tcat\n3\t\n4\tNone\n"),
        ("y.csv", ",label\n0,cat\n2,dog\n"),
        ("y.csv", "path,label,confidence\nrow 0,cat,1.0\nrow 2,dog,0.5\n"),
        ("y.jsonl", '{"row": 0, "label": "cat"}\n{"row": 2, "label": "dog"}\n{"row": 3, "label": null}\n'),
    ],
)
def test_texts_label_rows_line_by_line_or_by_number(tmp_path: Path, name: str, text: str) -> None:
    np.save(tmp_path / "x.npy", embeddings())
    (tmp_path / name).write_text(text)
    assert labeled(read_collection(tmp_path / "x.npy", labels=tmp_path / name)) == {"row 0": "cat", "row 2": "dog"}


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        ("y.csv", "cat\ndog\n", "2 lines for 6 rows; give one label a line"),
        ("y.csv", "0,cat\n6,dog\n", "line 2: '6' is not a row number; rows are 0 to 5"),
        ("y.csv", "0,cat\n-1,dog\n", "line 2: '-1' is not a row number"),
        ("y.csv", "0,cat\n0,dog\n", "line 2: 0 is 'dog' here and 'cat' in line 1"),
        ("y.csv", "0,-7\n1,2\n", "label -7; numbers are 0 and above, -1 for unknown"),
        ("y.csv", "a.jpg,cat\n", "'a.jpg' is not a row number"),
        ("y.doc", "cat", "labels are read from .npy .npz .csv"),
    ],
)
def test_texts_that_do_not_fit_the_rows_are_refused(tmp_path: Path, name: str, text: str, complaint: str) -> None:
    np.save(tmp_path / "x.npy", embeddings())
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=complaint.replace(".", r"\.")):
        read_collection(tmp_path / "x.npy", labels=tmp_path / name)


@pytest.mark.parametrize(
    ("vector", "complaint"),
    [
        (np.array([0, 1]), r"expected 6 labels, one for each row; got int64 \(2,\)"),
        (np.eye(6), r"expected 6 labels, one for each row; got float64 \(6, 6\)"),
        (np.array([0.5] * 6), "row 0 has label 0.5; expected whole numbers"),
        (np.array([np.inf] * 6), "row 0 has label inf"),
        (np.array([1j] * 6), "labels are whole numbers or texts; got complex128"),
        (np.array([None] * 6), "holds Python objects, which are never loaded"),
        (np.full(6, -1), "no labels; name a label file with --labels$"),
    ],
)
def test_vectors_that_cannot_be_labels_are_refused(tmp_path: Path, vector: np.ndarray, complaint: str) -> None:
    np.savez(tmp_path / "a.npz", x=embeddings(), y=vector)
    with pytest.raises(InputError, match=complaint) as error:
        read_collection(tmp_path / "a.npz")
    assert "a.npz" in str(error.value)


@pytest.mark.parametrize("dtype", [np.uint8, np.int64, np.float32, np.float16])
@pytest.mark.parametrize("white", [1, 255])
def test_images_may_be_bytes_numbers_or_shares_of_white(tmp_path: Path, dtype: type, white: int) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (4, 5, 6), dtype=np.uint8)
    is_share = white == 1 and np.issubdtype(dtype, np.floating)
    array = (pixels / 255 if is_share else pixels).astype(dtype)
    np.savez(tmp_path / "a.npz", images=array, y=np.array(["a", "b", "", ""]))
    rows = read_collection(tmp_path / "a.npz").rows
    assert isinstance(rows, ImageSet)
    assert rows.images.shape == (4, 1, 5, 6)
    np.testing.assert_array_equal(rows.images[:, 0].numpy(), pixels)


def test_named_classes_are_positions_of_numbers(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", X=embeddings(), y=np.array([2, -1, 0, 0, 2, 2]), class_names=["owl", "cat", "dog"])
    collection = read_collection(tmp_path / "a.npz")
    assert collection.class_names == ("owl", "cat", "dog")
    assert collection.labels.tolist() == [2, -1, 0, 0, 2, 2]
    assert collection.notes == ("no label is given for class 'cat'; no input will be assigned to it",)
    np.savez(tmp_path / "b.npz", X=embeddings(), y=np.array([3, 0, 0, 0, 0, 0]), class_names=["owl", "cat", "dog"])
    with pytest.raises(InputError, match="label '3' is none of the 3 class_names"):
        read_collection(tmp_path / "b.npz")


def test_embeddings_that_are_not_finite_are_named_by_row(tmp_path: Path) -> None:
    points = embeddings()
    points[4, 1] = np.inf
    np.savez(tmp_path / "a.npz", points=points, labels=np.zeros(6, int))
    with pytest.raises(InputError, match=r"a\.npz: row 4 of the embeddings holds NaN or infinity; 1 do"):
        read_collection(tmp_path / "a.npz")


def test_arrays_that_are_neither_images_nor_embeddings_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", one=embeddings(), two=embeddings())
    with pytest.raises(InputError, match="no images or embeddings; expected an array called images, x_train, emb"):
        read_collection(tmp_path / "a.npz")
    for array in (np.zeros(5), np.zeros(()), np.zeros((0, 3)), np.zeros((3, 2, 2, 2, 2)), np.array([["a"]])):
        np.save(tmp_path / "x.npy", array)
        (tmp_path / "y.txt").write_text("1\n" * max(1, array.shape[0] if array.shape else 1))
        with pytest.raises(InputError, match=r"x\.npy") as error:
            read_collection(tmp_path / "x.npy", labels=tmp_path / "y.txt")
        assert "\n" not in str(error.value)
    with pytest.raises(InputError, match="size 8 given for"):
        read_collection(tmp_path / "x.npy", size=8)


# judges


@pytest.fixture
def photos(tmp_path: Path) -> Collection:
    for seed, name in enumerate(("cat/1.png", "dog/2.png", "loose/x.png", "unlabeled/y.png")):
        picture(tmp_path / "photos" / name, seed, mode="L")
    (tmp_path / "given.csv").write_text("cat/1.png,cat\ndog/2.png,dog\n")
    return read_collection(tmp_path / "photos", labels=tmp_path / "given.csv", size=10)


def test_a_test_folder_takes_size_channels_classes_and_statistics(photos: Collection, tmp_path: Path) -> None:
    for name in ("dog/1.png", "dog/2.png", "unlabeled/3.png"):
        picture(tmp_path / "test" / name, side=30)
    judges = read_judges(tmp_path / "test", photos)
    assert isinstance(judges.rows, ImageSet)
    assert isinstance(photos.rows, ImageSet)
    assert judges.rows.images.shape == (2, 1, 10, 10)
    assert judges.labels.tolist() == [1, 1]
    assert judges.class_names == photos.class_names
    assert judges.rows.statistics == photos.rows.statistics
    assert judges.notes == ("1 of 3 pictures to test with has no label and is left out",)
    expected = Image.open(tmp_path / "test" / "dog" / "1.png").resize((10, 10), Image.Resampling.BICUBIC).convert("L")
    difference = judges.rows.images[0, 0].numpy().astype(int) - np.asarray(expected)
    assert abs(difference).max() <= 1


def test_pictures_of_a_class_that_no_label_names_count_as_wrong(photos: Collection, tmp_path: Path) -> None:
    for name in ("owl/1.png", "owl/2.png", "emu/1.png", "dog/1.png"):
        picture(tmp_path / "test" / name)
    judges = read_judges(tmp_path / "test", photos)
    assert labeled(judges) == {"dog/1.png": "dog", "emu/1.png": "emu", "owl/1.png": "owl", "owl/2.png": "owl"}
    assert judges.class_names == ("cat", "dog", "emu", "owl")
    assert judges.notes == (
        "3 pictures to test with are of a class that no label names, and count as wrong ('emu': 1, 'owl': 2)",
    )
    (tmp_path / "truth.csv").write_text("loose/x.png,dog\nunlabeled/y.png,owl\n")
    note = read_judges(tmp_path / "truth.csv", photos).notes[-1]
    assert note == "1 picture to test with is of a class that no label names, and counts as wrong ('owl': 1)"


def test_a_test_set_of_other_classes_only_is_refused(photos: Collection, tmp_path: Path) -> None:
    picture(tmp_path / "test" / "owl" / "1.png")
    said = r"test: none of its classes \(owl\) is among those that have labels \(cat, dog\)"
    with pytest.raises(InputError, match=said):
        read_judges(tmp_path / "test", photos)
    np.savez(tmp_path / "few.npz", embeddings=np.eye(3), labels=np.array(["a", "b", ""]))
    np.savez(tmp_path / "t.npz", embeddings=np.eye(3), labels=[0, 0, 0], class_names=["a", "never"])
    assert read_judges(tmp_path / "t.npz", read_collection(tmp_path / "few.npz")).notes == ()


def test_predictions_that_serve_as_truth_are_noted(photos: Collection, tmp_path: Path) -> None:
    (tmp_path / "truth.csv").write_text("path,label,source\nloose/x.png,dog,graph\n")
    note = read_judges(tmp_path / "truth.csv", photos).notes[0]
    assert note.startswith(f"{tmp_path / 'truth.csv'}: labels that a run predicted count as true here: 1 of 1;")


def test_a_list_judges_the_rows_that_were_not_given(photos: Collection, tmp_path: Path) -> None:
    (tmp_path / "truth.csv").write_text("file,label\nloose/x.png,dog\nunlabeled/y.png,cat\ncat/1.png,cat\n")
    judges = read_judges(tmp_path / "truth.csv", photos)
    assert labeled(judges) == {"loose/x.png": "dog", "unlabeled/y.png": "cat"}
    assert isinstance(judges.rows, ImageSet)
    assert isinstance(photos.rows, ImageSet)
    assert torch.equal(judges.rows.images, photos.rows.images[2:])
    assert judges.notes[-1] == "1 picture to test with is left out: its label was given"
    (tmp_path / "truth.csv").write_text("cat/1.png,cat\n")
    with pytest.raises(InputError, match="nothing to test with"):
        read_judges(tmp_path / "truth.csv", photos)


def test_a_picture_whose_label_was_given_is_no_judge_by_another_path(photos: Collection, tmp_path: Path) -> None:
    (tmp_path / "test").mkdir()
    (tmp_path / "test" / "cat").symlink_to(tmp_path / "photos" / "cat")
    picture(tmp_path / "test" / "dog" / "new.png")
    assert labeled(read_judges(tmp_path / "test", photos)) == {"dog/new.png": "dog"}


def test_a_vector_of_labels_judges_the_rows_of_the_embeddings_themselves(tmp_path: Path) -> None:
    np.savez(tmp_path / "some.npz", embeddings=np.eye(4, dtype=np.float32), labels=np.array([0, 1, -1, -1]))
    np.save(tmp_path / "truth.npy", np.array([0, 1, 1, 0]))
    judges = read_judges(tmp_path / "truth.npy", read_collection(tmp_path / "some.npz"))
    assert judges.names == ("row 2", "row 3")
    assert judges.labels.tolist() == [1, 0]


def test_arrays_judge_arrays(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x_train=embeddings(), y_train=np.array(["b", "a", "", "", "", ""]))
    np.savez(tmp_path / "test.npz", x_test=embeddings(2), y_test=np.array(["b", "b"]))
    collection = read_collection(tmp_path / "a.npz")
    assert read_judges(tmp_path / "test.npz", collection).labels.tolist() == [1, 1]
    np.savez(tmp_path / "wide.npz", x_test=embeddings(2, 9), y_test=np.array(["b", "b"]))
    with pytest.raises(InputError, match=r"its rows have shape \(9,\); those to be judged have \(3,\)"):
        read_judges(tmp_path / "wide.npz", collection)
    (tmp_path / "truth.csv").write_text("row,label\n5,a\n")
    assert labeled(read_judges(tmp_path / "truth.csv", collection)) == {"row 5": "a"}
    with pytest.raises(InputError, match="pictures cannot judge embeddings"):
        read_judges(tmp_path, collection)


@pytest.mark.parametrize("shape", [(2, 10, 10), (2, 20, 20, 3), (2, 3, 10, 10)])
def test_image_arrays_are_brought_to_the_size_and_channels(photos: Collection, tmp_path: Path, shape: tuple) -> None:
    np.savez(tmp_path / "t.npz", images=np.full(shape, 77, np.uint8), labels=np.array(["cat", "dog"]))
    rows = read_judges(tmp_path / "t.npz", photos).rows
    assert isinstance(rows, ImageSet)
    assert rows.images.shape == (2, 1, 10, 10)
    assert (rows.images == 77).all()


def test_names_survive_a_trip_through_json(tmp_path: Path) -> None:
    picture(tmp_path / "cat" / "new\nline é.png")
    assert json.loads(json.dumps(read_collection(tmp_path).names)) == ["cat/new\nline é.png"]
