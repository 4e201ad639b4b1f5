"""Label files as people collect them: several, joined end to end, filled in, or exported from Label Studio."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from laplacenet.data import Collection, ImageSet, VectorSet, load_dataset, read_collection, read_labels
from laplacenet.data.label_files import labels_by_name, predicted_notes
from laplacenet.runtime import InputError
from laplacenet.runtime.csv_files import write_csv

NAMES = ("a.jpg", "cats/b.jpg", "cats/c.jpg", "dogs/d e.jpg", "=x.jpg")
IMAGES = ImageSet(torch.zeros(5, 1, 2, 2, dtype=torch.uint8), torch.full((5,), -1), (), NAMES)


def written(folder: Path, **texts: str) -> list[Path]:
    """Files called `one_csv` and the like."""
    paths = [folder / name.replace("_", ".") for name in texts]
    for path, text in zip(paths, texts.values(), strict=True):
        path.write_text(text, encoding="utf-8")
    return paths


def labels_of(paths: Path | list[Path], **options: object) -> dict[str, str]:
    given = read_labels(paths, IMAGES, **options)
    numbered = zip(NAMES, given.labels.tolist(), strict=True)
    return {name: given.class_names[label] for name, label in numbered if label >= 0}


def labeled(collection: Collection) -> dict[str, str]:
    pairs = zip(collection.names, collection.labels.tolist(), strict=True)
    return {name: collection.class_names[label] for name, label in pairs if label >= 0}


# several


def test_label_files_add_up_and_may_repeat_one_another(tmp_path: Path) -> None:
    paths = written(tmp_path, one_csv="a.jpg,dog\nb.jpg,cat\n", two_tsv="file\tlabel\na.jpg\tdog\nc.jpg\tcat\n")
    assert labels_of(paths) == {"a.jpg": "dog", "cats/b.jpg": "cat", "cats/c.jpg": "cat"}


def test_a_contradiction_between_files_names_both_rows(tmp_path: Path) -> None:
    paths = written(tmp_path, one_csv="path,label\nb.jpg,cat\na.jpg,dog\n", two_csv="c.jpg,cat\n\n./a.jpg,cat\n")
    with pytest.raises(InputError) as error:
        labels_of(paths)
    one, two = paths
    assert str(error.value) == f"{two}, line 3: ./a.jpg is 'cat' here and 'dog' in {one}, line 3"


def test_a_file_without_labels_yet_may_stand_beside_others(tmp_path: Path) -> None:
    paths = written(tmp_path, one_csv="a.jpg,dog\n", next_csv="path,label,guess\nb.jpg,,cat\n")
    assert labels_of(paths) == {"a.jpg": "dog"}
    with pytest.raises(InputError, match="no labels; expected lines such as"):
        labels_of(paths[1:])


def test_numbers_agree_however_they_are_spelled(tmp_path: Path) -> None:
    paths = written(tmp_path, one_csv="a.jpg,1.0\nb.jpg,-1\n", two_csv="a.jpg,1\nb.jpg,2\n")
    assert labels_of(paths) == {"a.jpg": "1", "cats/b.jpg": "2"}


def test_files_joined_end_to_end_are_read_part_by_part(tmp_path: Path) -> None:
    (path,) = written(
        tmp_path,
        all_csv="a.jpg,dog\nPath,Label\nb.jpg,cat\nlabel,confidence,path\ncat,0.9,c.jpg\npath,label\nd e.jpg,dog\n",
    )
    assert labels_of(path) == {"a.jpg": "dog", "cats/b.jpg": "cat", "cats/c.jpg": "cat", "dogs/d e.jpg": "dog"}


def test_a_class_called_like_a_heading_is_a_class(tmp_path: Path) -> None:
    (path,) = written(tmp_path, l_csv="path,label\na.jpg,class\nb.jpg,label\n")
    assert labels_of(path) == {"a.jpg": "class", "cats/b.jpg": "label"}


def test_the_table_of_what_to_label_next_is_read_as_it_is(tmp_path: Path) -> None:
    text = "path,label,guess,confidence,why\na.jpg,dog,cat,0.5100,unsure\nb.jpg,,cat,0.4000,unsure\n"
    (path,) = written(tmp_path, next_csv=text)
    assert labels_of(path) == {"a.jpg": "dog"}


LABELS_CSV = """path,label,confidence,margin,source,suspect
a.jpg,dog,1.0000,1.0000,given,false
cats/b.jpg,cat,0.9312,0.8840,graph,false
cats/c.jpg,cat,0.5512,0.1040,network,false
"""
PREDICTED = '{"path": "a.jpg", "label": "dog", "confidence": 0.6, "margin": 0.2}\n'


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("labels.csv", LABELS_CSV, "2 of 3 (source graph or network)"),
        ("labels.tsv", LABELS_CSV.replace(",", "\t"), "2 of 3 (source graph or network)"),
        ("both.csv", f"d e.jpg,dog\n{LABELS_CSV}", "2 of 4 (source graph or network)"),
        ("new.csv", "path,label,confidence,margin\na.jpg,dog,0.6,0.2\n", "1 of 1"),
        ("new.jsonl", PREDICTED, "1 of 1"),
        ("new.json", f"[{PREDICTED}]", "1 of 1"),
    ],
)
def test_labels_that_a_run_predicted_count_with_a_warning(tmp_path: Path, name: str, text: str, said: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    given = labels_by_name([path], NAMES, root=None)
    assert predicted_notes(given) == [
        f"{path}: labels that a run predicted count as given here: {said}; delete the rows that you have not checked"
    ]
    assert labels_of(path)["a.jpg"] == "dog"


@pytest.mark.parametrize(
    "text",
    [
        "path,label,source\na.jpg,dog,the network of cameras\n",
        "path,label,guess,confidence,why\na.jpg,dog,cat,0.5100,unsure\n",
        LABELS_CSV.partition("cats/b")[0],
    ],
)
def test_labels_that_a_person_gave_count_without_a_warning(tmp_path: Path, text: str) -> None:
    (path,) = written(tmp_path, l_csv=text)
    assert predicted_notes(labels_by_name([path], NAMES, root=None)) == []


def test_the_labels_of_a_run_given_back_are_noted_for_pictures_and_for_arrays(tmp_path: Path) -> None:
    for seed, name in enumerate(("a.png", "b.png")):
        Image.new("L", (8, 8), 90 * seed).save(tmp_path / name)
    np.savez(tmp_path / "x.npz", embeddings=np.eye(2))
    heading = "path,label,confidence,margin,source,suspect\n"
    (path,) = written(tmp_path, l_csv=f"{heading}a.png,cat,1,1,given,false\nb.png,dog,0.5,0.1,graph,false\n")
    (rows,) = written(tmp_path, r_csv=f"{heading}row 0,cat,1,1,given,false\nrow 1,dog,0.5,0.1,graph,false\n")
    for pictures, labels in ((tmp_path, path), (tmp_path / "x.npz", rows)):
        note = read_collection(pictures, labels=labels).notes[0]
        assert note.startswith(f"{labels}: labels that a run predicted count as given here: 1 of 2 ")


def test_what_was_escaped_for_spreadsheets_comes_back(tmp_path: Path) -> None:
    rows = [("=x.jpg", '=HYPERLINK("x")', 0.5), ("a.jpg", "-rf", 0.25), ("b.jpg", "'=x", 1.0)]
    write_csv(tmp_path / "labels.csv", ("path", "label", "confidence"), rows)
    assert labels_of(tmp_path / "labels.csv") == {"=x.jpg": '=HYPERLINK("x")', "a.jpg": "-rf", "cats/b.jpg": "'=x"}


# Label Studio

ADDRESSES = (
    "/data/local-files/?d=photos/cats/b.jpg",
    "/data/local-files/?d=photos/dogs/d%20e.jpg",
    "http://localhost:8080/data/local-files/?d=photos/a.jpg",
)
UPLOADED = ("/data/upload/1/0f3a9c2e-b.jpg", "/data/upload/12/12345678-d%20e.jpg", "a.jpg")
CHOICES = ("cat", "dog", "dog")
EXPECTED = {"cats/b.jpg": "cat", "dogs/d e.jpg": "dog", "a.jpg": "dog"}


@pytest.mark.parametrize("addresses", [ADDRESSES, UPLOADED])
@pytest.mark.parametrize("heading", ["choice", "label"])
def test_label_studio_s_csv_is_read(tmp_path: Path, addresses: tuple[str, ...], heading: str) -> None:
    lines = [f"annotation_id,annotator,{heading},created_at,id,image,lead_time,updated_at"]
    lines += [
        f"{i},1,{choice},2026-01-01T00:00:00Z,{i},{address},2.5,2026-01-01T00:00:00Z"
        for i, (choice, address) in enumerate(zip(CHOICES, addresses, strict=True))
    ]
    (path,) = written(tmp_path, export_csv="\n".join(lines))
    assert labels_of(path) == EXPECTED


@pytest.mark.parametrize("addresses", [ADDRESSES, UPLOADED])
def test_label_studio_s_json_and_json_min_are_read(tmp_path: Path, addresses: tuple[str, ...]) -> None:
    pairs = list(zip(CHOICES, addresses, strict=True))
    full = [task(address, choice) for choice, address in pairs]
    full += [task("a.jpg"), task("a.jpg", "cat", cancelled=True)]
    short = [{"image": address, "id": 3, "choice": choice, "annotator": 1} for choice, address in pairs]
    for content in (full, short):
        (path,) = written(tmp_path, export_json=json.dumps(content))
        assert labels_of(path) == EXPECTED


def task(address: str, *choices: str, cancelled: bool = False) -> dict:
    results = [
        {"value": {"choices": [choice]}, "type": "choices", "from_name": "choice", "to_name": "image"}
        for choice in choices
    ]
    annotations = [{"id": 1, "result": results, "was_cancelled": cancelled}] if choices else []
    return {"id": 7, "annotations": annotations, "data": {"image": address}, "predictions": [], "project": 1}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ([task("a.jpg", "cat", "dog")], "item 1: 2 choices in an annotation; expected one class for each picture"),
        ([task("a.jpg", "cat"), task("a.jpg", "dog")], "item 2: a.jpg is 'dog' here and 'cat' in item 1"),
        ([{"id": 1, "annotations": [{"result": 3}], "data": {"image": "a.jpg"}}], "an annotation without a result"),
        ({"a.jpg": "cat"}, "a JSON dict; expected a list of objects"),
        ([[1]], "item 1: a JSON list"),
    ],
)
def test_an_export_that_gives_no_single_class_is_refused(tmp_path: Path, content: object, said: str) -> None:
    (path,) = written(tmp_path, export_json=json.dumps(content))
    with pytest.raises(InputError) as error:
        labels_of(path)
    assert said in str(error.value)


# arrays


def test_labels_inside_and_in_files_add_up_and_never_replace_one_another(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", embeddings=np.eye(4), labels=np.array(["cat", "", "dog", ""]))
    one, two = written(tmp_path, one_csv="row,label\n1,dog\n2,dog\n", two_csv="row,label\n0,dog\n")
    assert labeled(read_collection(tmp_path / "x.npz", labels=one)) == {"row 0": "cat", "row 1": "dog", "row 2": "dog"}
    with pytest.raises(InputError) as error:
        read_collection(tmp_path / "x.npz", labels=[one, two])
    assert str(error.value) == f"{two}, line 2: 0 is 'dog' here and 'cat' in {tmp_path / 'x.npz'}, row 0"


def test_class_names_serve_numbers_inside_and_names_in_files(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", X=np.eye(4), y=np.array([1, -1, -1, 0]), class_names=["owl", "cat"])
    (path,) = written(tmp_path, l_csv="row,label\n1,owl\n0,cat\n")
    collection = read_collection(tmp_path / "x.npz", labels=path)
    assert labeled(collection) == {"row 0": "cat", "row 1": "owl", "row 3": "owl"}
    assert collection.class_names == ("owl", "cat")


def test_paths_in_an_array_file_name_its_rows(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", embeddings=np.eye(3), paths=["cats/a.jpg", "dogs/b.jpg", "c.jpg"])
    for text in ("a.jpg,cat\nb,dog\n", "photos/cats/a.jpg,cat\nphotos/dogs/b.jpg,dog\n", "row,label\n0,cat\n1,dog\n"):
        (path,) = written(tmp_path, l_csv=text)
        collection = read_collection(tmp_path / "x.npz", labels=path)
        assert labeled(collection) == {"cats/a.jpg": "cat", "dogs/b.jpg": "dog"}
        assert collection.names[2] == "c.jpg"
    (path,) = written(tmp_path, l_csv="a.jpg,cat\nghost.jpg,dog\n")
    with pytest.raises(InputError, match=r"line 2: 'ghost\.jpg' is not among the 3 images"):
        read_collection(tmp_path / "x.npz", labels=path)
    np.savez(tmp_path / "x.npz", embeddings=np.eye(2), paths=["a.jpg", "a.jpg"], labels=[0, 1])
    with pytest.raises(InputError, match="its paths must differ"):
        read_collection(tmp_path / "x.npz")


@pytest.mark.parametrize("label_key", ["labels", "y", "Y_train"])
@pytest.mark.parametrize("data_key", ["images", "X", "data"])
def test_train_and_label_read_the_same_file_alike(tmp_path: Path, data_key: str, label_key: str) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (4, 5, 6, 3), dtype=np.uint8)
    np.savez(tmp_path / "a.npz", **{data_key: pixels, label_key: np.array(["b", "", "a", "b"])})
    rows, train = read_collection(tmp_path / "a.npz").rows, load_dataset(tmp_path / "a.npz").train
    assert isinstance(rows, ImageSet)
    assert isinstance(train, ImageSet)
    assert torch.equal(rows.images, train.images)
    assert torch.equal(rows.labels, train.labels)
    assert rows.class_names == train.class_names == ("a", "b")


def test_train_reads_embeddings_too(tmp_path: Path) -> None:
    np.savez(
        tmp_path / "a.npz", embeddings=np.eye(4), labels=[0, 1, 0, 1], test_embeddings=np.eye(4), test_labels=[2] * 4
    )
    dataset = load_dataset(tmp_path / "a.npz")
    assert isinstance(dataset.train, VectorSet)
    assert dataset.test is not None
    assert dataset.test.labels.tolist() == [2, 2, 2, 2]
    assert dataset.train.class_names == ("0", "1", "2")


def test_train_and_label_read_the_same_folder_alike(tmp_path: Path) -> None:
    names = ("train/cat/1.png", "train/dog/2.png", "train/3.png", "extra/4.png", "val/cat/5.png", "Test/cat/6.png")
    for seed, name in enumerate(names):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        pixels = np.random.default_rng(seed).integers(0, 256, (20 + seed, 30, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(tmp_path / name)
    dataset, rows = load_dataset(tmp_path), read_collection(tmp_path).rows
    assert isinstance(rows, ImageSet)
    assert isinstance(dataset.train, ImageSet)
    assert rows.names == dataset.train.names == ("extra/4.png", "train/3.png", "train/cat/1.png", "train/dog/2.png")
    assert torch.equal(rows.images, dataset.train.images)
    assert rows.labels.tolist() == dataset.train.labels.tolist() == [-1, -1, 0, 1]
    assert isinstance(dataset.test, ImageSet)
    assert dataset.test.names == ("Test/cat/6.png",)


@pytest.mark.parametrize("dtype", [np.uint64, np.uint32, np.uint16])
def test_an_unsigned_minus_one_is_refused(tmp_path: Path, dtype: type) -> None:
    np.savez(tmp_path / "x.npz", X=np.eye(3), y=np.array([0, -1, 1]).astype(dtype))
    with pytest.raises(InputError, match=r"x\.npz: row 1 has label [0-9]+; -1 as an unsigned number; save int64"):
        read_collection(tmp_path / "x.npz")
    np.savez(tmp_path / "x.npz", X=np.eye(3), y=np.array([0, 255, 1], np.uint8))
    assert read_collection(tmp_path / "x.npz").class_names == ("0", "1", "255")


@pytest.mark.parametrize("vector", [np.array([0, -2, 1]), np.array([0.0, -2.0, np.nan])])
def test_labels_below_minus_one_are_refused(tmp_path: Path, vector: np.ndarray) -> None:
    np.savez(tmp_path / "x.npz", X=np.eye(3), y=vector)
    with pytest.raises(InputError, match=r"x\.npz: row 1 has label -2(\.0)?; numbers are 0 and above, -1 for unknown"):
        read_collection(tmp_path / "x.npz")


# classes that may be one


def test_classes_that_differ_in_case_spaces_or_accents_are_told_and_kept_apart(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", X=np.eye(7), y=["koala", "Koala", "koala", "sea lion", "Sealion", "Émeu", "emeu"])
    collection = read_collection(tmp_path / "x.npz")
    assert len(collection.class_names) == 6
    said = [note for note in collection.notes if "differ only in case, spaces or accents" in note]
    assert said[0].startswith("'koala' (2) and 'Koala' (1) differ")
    assert len(said) == 3


def test_similar_classes_are_merged_when_asked_under_the_most_frequent_name(tmp_path: Path) -> None:
    vector = ["koala", "Koala", "koala", "emu", "Ému", "", "Ému"]
    np.savez(tmp_path / "x.npz", X=np.eye(7), y=vector)
    collection = read_collection(tmp_path / "x.npz", merge_similar_classes=True)
    assert collection.class_names == ("koala", "Ému")
    assert collection.labels.tolist() == [0, 0, 0, 1, 1, -1, 1]
    one, two = written(tmp_path, one_csv="a.jpg,Koala\nb.jpg,koala\n", two_csv="a.jpg,koala\n")
    assert labels_of([one, two], merge_similar_classes=True) == {"a.jpg": "koala", "cats/b.jpg": "koala"}
    with pytest.raises(InputError, match=r"a\.jpg is 'koala' here and 'Koala' in"):
        labels_of([one, two])


def test_folders_of_similar_names_are_merged_when_asked(tmp_path: Path) -> None:
    for name in ("Koala/1.png", "koala/1.png", "koala/2.png", "emu/1.png"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        Image.new("L", (8, 8)).save(tmp_path / name)
    assert read_collection(tmp_path).class_names == ("Koala", "emu", "koala")
    assert read_collection(tmp_path, merge_similar_classes=True).labels.tolist() == [1, 0, 1, 1]


# a million rows

MILLION = """
import sys, time
from pathlib import Path
from laplacenet.data.label_files import labels_by_name, numbered_labels

path, form = Path(sys.argv[1]), sys.argv[2]
names = [f"class{i % 7}/picture{i}.jpg" for i in range(1_000_000)]
lines = (form.format(folder=f"class{i % 7}", name=f"picture{i}") for i in range(1_000_000))
path.write_text("path,label\\n" + "".join(f"{line},class{i % 7}\\n" for i, line in enumerate(lines)))
started_at = time.process_time()
labels, _ = numbered_labels(labels_by_name([path], names, root=path.parent), len(names), where="here")
assert labels.tolist() == [i % 7 for i in range(1_000_000)]
print(time.process_time() - started_at)
"""


@pytest.mark.long
@pytest.mark.parametrize(
    "form", ["{folder}/{name}.jpg", "/mnt/x/{folder}/{name}.jpg", "x\\\\{folder}\\\\{name}.jpg", "{name}.jpg", "{name}"]
)
def test_a_million_rows_take_seconds(tmp_path: Path, form: str) -> None:
    """In a process of its own, without the checks of types that the tests switch on: less than 3 s each when idle."""
    command = [sys.executable, "-c", MILLION, str(tmp_path / "l.csv"), form]
    said = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout
    assert float(said) < 6
