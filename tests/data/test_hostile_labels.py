"""Label files as the world has them: read right, or refused in one line; nothing is ever made of a misread file."""

import json
import unicodedata
from pathlib import Path

import pytest
import torch

from laplacenet.data import ImageSet, holds_row_numbers, label_notes, read_labels, read_split
from laplacenet.runtime import InputError

NAMES = ("a.jpg", "cats/b.jpg", "cats/c.jpg", "dogs/c.jpg", "dogs/é, x;.jpg", "dogs/two\nlines.jpg")
EXPECTED = {"a.jpg": "dog", "cats/c.jpg": "cat"}


def labels_of(path: Path, content: str | bytes, **options: object) -> dict[str, str]:
    """The labels that a file gives, in words."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    n = len(NAMES)
    images = ImageSet(torch.zeros(n, 1, 2, 2, dtype=torch.uint8), torch.full((n,), -1), (), NAMES)
    given = read_labels(path, images, **options)
    numbered = zip(NAMES, given.labels.tolist(), strict=True)
    return {name: given.class_names[label] for name, label in numbered if label >= 0}


def refusal(path: Path, content: str | bytes, **options: object) -> str:
    with pytest.raises(InputError) as error:
        labels_of(path, content, **options)
    message = str(error.value)
    assert path.name in message
    assert message.isprintable(), message
    return message


def test_an_apostrophe_in_the_name_of_a_file_is_not_taken_for_a_spreadsheets(tmp_path: Path) -> None:
    path = tmp_path / "l.csv"
    path.write_text("'=1.jpg,dog\n'-2.jpg,cat\n")
    for names, expected in (
        (("'=1.jpg", "'-2.jpg"), ["dog", "cat"]),
        (("=1.jpg", "-2.jpg"), ["dog", "cat"]),
        (("=1.jpg", "'-2.jpg"), ["dog", "cat"]),
    ):
        images = ImageSet(torch.zeros(2, 1, 2, 2, dtype=torch.uint8), torch.full((2,), -1), (), names)
        given = read_labels(path, images)
        assert [given.class_names[label] for label in given.labels.tolist()] == expected


ITEM = '{"path": "a.jpg", "label": "dog"}'


@pytest.mark.parametrize(
    "text",
    [
        *(f"[{ITEM}", f"[{ITEM},", f"[{ITEM},]", f"[{ITEM} {ITEM}]", f"[,{ITEM}]", f"[{ITEM}]]", f"[{ITEM}],", "["),
        *(f"[{ITEM}]\n{ITEM}", f"[{ITEM};{ITEM}]", ITEM[:-2], f"[{ITEM}\u00a0]", "[" * 100_000, f"[{ITEM}, nothing]"),
    ],
)
def test_a_list_that_is_not_json_is_refused(tmp_path: Path, text: str) -> None:
    assert "not a list of JSON objects, nor an export of Label Studio" in refusal(tmp_path / "l.json", text)


def test_a_list_is_read_whatever_its_spaces(tmp_path: Path) -> None:
    other = ITEM.replace("a.jpg", "cats/c.jpg").replace("dog", "cat")
    for text in (f"[{ITEM},{other}]", f" \n[\t{ITEM}\r\n ,\n{other} ] \n"):
        assert labels_of(tmp_path / "l.json", text) == EXPECTED
    assert "no labels" in refusal(tmp_path / "l.json", " [ ] ")


# how they are written

PLAIN = "file,label\na.jpg,dog\ncats/c.jpg,cat\n"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("l.tsv", "a.jpg\tdog\ncats/c.jpg\tcat\n"),
        ("l.tsv", "path\tlabel\na.jpg\tdog\ncats/c.jpg\tcat\n"),
        ("l.csv", "a.jpg\tdog\ncats/c.jpg\tcat\n"),  # a TSV in all but its name
        ("l.tsv", PLAIN),
        ("l.csv", "a.jpg;dog\r\ncats/c.jpg;cat\r\n"),
        ("l.csv", "label,path\ndog,a.jpg\ncat,cats/c.jpg\n"),
        ("l.csv", "a.jpg,dog,\ncats/c.jpg,cat,\n"),
        ("l.csv", "file_name,width,category\na.jpg,3,dog\ncats/c.jpg,3,cat\n"),
        ("l.csv", "a.jpg,dog\rcats/c.jpg,cat\r"),
        ("l.csv", "\n\n  a.jpg , dog \n\n\ncats/c.jpg,cat"),
        ("l.csv", "a,dog\ncats/c.jpg,cat\n"),  # the name without its suffix
        ("l.csv", "a.jpg,dog\ncats/c.jpg,cat\ncats/b.jpg,\ncats/b.jpg,NaN\n"),
        ("l.jsonl", '{"path": "a.jpg", "label": "dog"}\n{"path": "cats/c.jpg", "label": "cat"}\n'),
        ("l.ndjson", '{"File": "a.jpg", "Class": "dog"}\r\n\r\n{"x": 1, "file": "cats/c.jpg", "class": "cat"}'),
        ("l.csv", '{"image":"a.jpg","label":"dog"}\n{"image":"cats/c.jpg","label":"cat"}\n'),
        (
            "l.jsonl",
            '{"path":"a.jpg","label":"dog"}\n{"path":"cats/c.jpg","label":"cat"}\n{"path":"ghost.jpg","label":null}',
        ),
    ],
)
def test_csv_tsv_and_json_lines_with_a_heading_or_none_are_read(tmp_path: Path, name: str, text: str) -> None:
    assert labels_of(tmp_path / name, text) == EXPECTED


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_a_byte_order_mark_says_the_encoding(tmp_path: Path, encoding: str) -> None:
    content = 'file,label\n"dogs/é, x;.jpg",Žluťoučký\n'.encode(encoding)
    assert labels_of(tmp_path / "l.csv", content) == {"dogs/é, x;.jpg": "Žluťoučký"}


@pytest.mark.parametrize(
    "content",
    [
        "file,label\ndogs/é.jpg,chien\n".encode("latin-1"),
        PLAIN.encode("utf-16-le"),
        b"PK\x03\x04\x14\x00\x06\x00\x08\x00",  # a spreadsheet that was not saved as CSV
        b"\xff\xfea",
    ],
)
def test_another_encoding_is_refused_with_those_that_are_accepted(tmp_path: Path, content: bytes) -> None:
    said = refusal(tmp_path / "l.csv", content)
    assert "not a text in UTF-8, nor in UTF-16 or UTF-32 with a byte order mark; save it as UTF-8" in said


@pytest.mark.parametrize("text", ["a.jpg dog\ncats/c.jpg cat\n", "a.jpg|dog\ncats/c.jpg|cat\n", "a.jpg\ncats/c.jpg\n"])
def test_a_wrong_separator_or_one_column_is_refused(tmp_path: Path, text: str) -> None:
    assert "expected a file name and a label, with a comma, semicolon or tab between" in refusal(
        tmp_path / "l.csv", text
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a.jpg,dog,cat\n", "line 1: 3 cells where 2 are expected; name the columns"),
        ("file,label\na.jpg,dog,cat\n", "line 2: 3 cells where 2 are expected; quote what holds a separator"),
        ("file,x,y2\na.jpg,dog,cat\n", "its columns are file, x, y2; call one of them path and one label"),
        ('"a.jpg,dog\ncats/c.jpg,cat\n', "not a row of a table"),
        ('{"path": "a.jpg", "label": "dog"', "line 1: not a JSON object such as"),
        ('{"path": "a.jpg", "label": ["dog"]}', "line 1: its label is a JSON list"),
        ('{"picture_of": "a.jpg", "label": "dog"}', "line 1: no path; its keys are picture_of, label"),
        ('{"path": "a.jpg", "label": "dog"}\n[1]', "line 2: a JSON list"),
        (
            '{"file":"a.jpg","lable":"dog"}\n{"path":"cats/c.jpg","label":"cat"}',
            "line 1: its keys are file, lable; call one of them path and one label (null where there is none)",
        ),
        ('{"file":"a.jpg","animal":"dog"}\n{"path":"cats/c.jpg","animal":"cat"}', "line 1: its keys are file, animal;"),
        ('{"file":"a.jpg"}', "l.csv: no labels; expected lines such as a.jpg,cat"),
        ('{"path": ' + "[" * 100_000, "not a JSON object"),
        ('{"path": "a.jpg", "label": ' + "9" * 5000 + "}", "not a JSON object"),
    ],
)
def test_cells_that_do_not_fit_are_refused_not_guessed(tmp_path: Path, text: str, said: str) -> None:
    assert said in refusal(tmp_path / "l.csv", text)


def test_objects_may_leave_their_label_out(tmp_path: Path) -> None:
    labeled = [{"path": "a.jpg", "width": 4, "label": "dog"}, {"File": "cats/c.jpg", "label": "cat"}]
    others = [{"path": "cats/b.jpg"}, {"width": 3, "image": "dogs/c.jpg"}, {"path": "cats/b.jpg", "label": ""}]
    task = {"id": 5, "annotations": [], "predictions": [], "data": {"image": "cats/b.jpg"}}
    for some in (others, [task], [*others, task]):
        assert labels_of(tmp_path / "l.json", json.dumps([*some, *labeled])) == EXPECTED
        lines = "\n".join(map(json.dumps, [*labeled, *some]))
        assert labels_of(tmp_path / "l.jsonl", lines) == EXPECTED
    said = refusal(tmp_path / "l.jsonl", "\n".join(map(json.dumps, others[::2])))
    assert 'l.jsonl: no labels; expected objects such as {"path": "a.jpg", "label": "cat"}' in said


def test_a_separator_may_stand_in_a_name_or_a_label(tmp_path: Path) -> None:
    assert labels_of(tmp_path / "l.tsv", "dogs/é, x;.jpg\tdog\na.jpg\tcat, tame\n") == {
        "dogs/é, x;.jpg": "dog",
        "a.jpg": "cat, tame",
    }
    assert labels_of(tmp_path / "l.csv", "a.jpg,cat;tame\ncats/b.jpg,cat;wild\n")["a.jpg"] == "cat;tame"


def test_a_quoted_name_may_hold_a_newline(tmp_path: Path) -> None:
    assert labels_of(tmp_path / "l.csv", 'file,label\n"dogs/two\nlines.jpg",dog\n') == {"dogs/two\nlines.jpg": "dog"}


def test_a_first_line_that_gives_a_label_is_no_heading(tmp_path: Path) -> None:
    assert "line 1: 'img001' is not among" in refusal(tmp_path / "l.csv", "img001,cat\na.jpg,cat\n")


def test_accents_may_be_written_in_one_character_or_two(tmp_path: Path) -> None:
    text = unicodedata.normalize("NFD", '"dogs/é, x;.jpg",dog\n')
    assert text != '"dogs/é, x;.jpg",dog\n'
    assert labels_of(tmp_path / "l.csv", text) == {"dogs/é, x;.jpg": "dog"}


# what they name


def test_paths_may_begin_at_the_pictures_at_the_list_or_at_the_root(tmp_path: Path) -> None:
    photos = tmp_path / "photos"
    for folder, names in (
        (tmp_path, ("a.jpg", "cats/c.jpg")),
        (tmp_path, ("photos/a.jpg", "photos/cats/c.jpg")),
        (tmp_path / "lists", ("../photos/a.jpg", "../photos/cats/c.jpg")),
        (photos / "cats", ("../a.jpg", "c.jpg")),
        (tmp_path, (f"{photos}/a.jpg", f"{photos}/cats/c.jpg")),
        (tmp_path, (f"{photos}/x/../a.jpg", "./cats/c.jpg")),
        (tmp_path, ("/mnt/other/photos/a.jpg", "/mnt/other/photos/cats/c.jpg")),
        (tmp_path, ("C:\\photos\\a.jpg", "C:\\photos\\cats\\c.jpg")),
    ):
        text = f"{names[0]},dog\n{names[1]},cat\n"
        assert labels_of(folder / "l.csv", text, root=photos) == EXPECTED, names


def test_a_root_behind_a_link_is_the_same_root(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    for one, other in (("real", "link"), ("link", "real")):
        text = f"{tmp_path / one}/a.jpg,dog\n{tmp_path / one}/cats/c.jpg,cat\n"
        assert labels_of(tmp_path / "l.csv", text, root=tmp_path / other) == EXPECTED


def test_an_ambiguous_name_is_refused_with_its_candidates(tmp_path: Path) -> None:
    assert "2 images are called 'c.jpg' (cats/c.jpg, dogs/c.jpg)" in refusal(tmp_path / "l.csv", "c.jpg,cat\n")


def test_a_name_that_means_two_pictures_from_two_folders_is_refused(tmp_path: Path) -> None:
    names = ("b.jpg", "cats/b.jpg")
    images = ImageSet(torch.zeros(2, 1, 2, 2, dtype=torch.uint8), torch.full((2,), -1), (), names)
    (tmp_path / "cats").mkdir()
    (tmp_path / "cats" / "l.csv").write_text("./b.jpg,cat\n")
    with pytest.raises(InputError, match=r"2 images are called '\./b\.jpg' \(b\.jpg, cats/b\.jpg\)"):
        read_labels(tmp_path / "cats" / "l.csv", images, root=tmp_path)


def test_another_folder_s_picture_of_the_same_name_is_not_taken(tmp_path: Path) -> None:
    assert "do not begin alike" in refusal(tmp_path / "l.csv", "cats/b.jpg,cat\nbirds/a.jpg,bird\n")
    assert "do not begin alike" in refusal(tmp_path / "l.csv", "/x/a.jpg,cat\n/y/cats/b.jpg,cat\n")


def test_an_unknown_path_is_refused_with_the_number_of_others(tmp_path: Path) -> None:
    said = refusal(tmp_path / "l.csv", "a.jpg,cat\ng1.jpg,cat\ng2.jpg,cat\n")
    assert "line 2: 'g1.jpg' is not among the 6 images (a.jpg, cats/b.jpg, cats/c.jpg, …); 1 more is not" in said
    said = refusal(tmp_path / "l.csv", "a.jpg,cat\ng1.jpg,cat\ng2.jpg,cat\ng3.jpg,cat\n")
    assert said.endswith("…); 2 more are not")


def test_a_list_for_one_image_or_few_is_refused_without_an_ellipsis(tmp_path: Path) -> None:
    for names, among in ((NAMES[:1], "is not among the images (a.jpg)"), (NAMES[:2], "is not among the 2")):
        images = ImageSet(torch.zeros(len(names), 1, 2, 2, dtype=torch.uint8), torch.full((len(names),), -1), (), names)
        (tmp_path / "l.csv").write_text("g.jpg,cat\n")
        with pytest.raises(InputError) as error:
            read_labels(tmp_path / "l.csv", images)
        assert f"'g.jpg' {among}" in str(error.value)
        assert "…" not in str(error.value)


def test_a_list_of_other_pictures_is_refused_with_what_names_look_like(tmp_path: Path) -> None:
    said = refusal(tmp_path / "l.csv", "file,label\nx/1.jpg,cat\nx/2.jpg,cat\n")
    assert "none of the 2 names in it is among the 6 images; line 2 has 'x/1.jpg', an image is called 'a.jpg'" in said


def test_hostile_names_are_refused_in_one_line(tmp_path: Path) -> None:
    for name in ("\x1b[2J\n.jpg", "a" * 5000 + ".jpg", "../../../etc/passwd", "/", "..", ".", "\u202egpj.jpg"):
        line = json.dumps({"path": name, "label": "cat"})
        assert "is not among" in refusal(tmp_path / "l.jsonl", line, root=tmp_path)


def test_a_row_may_be_repeated_but_not_contradicted(tmp_path: Path) -> None:
    assert labels_of(tmp_path / "l.csv", "a.jpg,cat\n./a.jpg,cat\n") == {"a.jpg": "cat"}
    said = refusal(tmp_path / "l.csv", "file,label\na.jpg,cat\ncats/b.jpg,cat\na.jpg,dog\n")
    assert "line 4: a.jpg is 'dog' here and 'cat' in line 2" in said


def test_a_file_that_could_not_be_read_may_be_named(tmp_path: Path) -> None:
    assert labels_of(tmp_path / "l.csv", "a.jpg,cat\ntorn.jpg,dog\n", skipped=["torn.jpg"]) == {"a.jpg": "cat"}


# what they say


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (("10", "9"), ("9", "10")),
        (("1.0", "0.0"), ("0", "1")),
        (("1", "-1"), ("1",)),
        (("10", "b"), ("10", "b")),
        (("1.5", "0.5"), ("0.5", "1.5")),
        (("007", "12"), ("007", "12")),
        (("None", "none"), ("None", "none")),
    ],
)
def test_numbers_are_ordered_by_value_and_names_by_letters(tmp_path: Path, cells: tuple, expected: tuple) -> None:
    found = labels_of(tmp_path / "l.csv", f"a.jpg,{cells[0]}\ncats/b.jpg,{cells[1]}\n")
    assert tuple(sorted(found.values(), key=expected.index)) == expected


def test_a_class_seen_once_is_allowed_and_reported() -> None:
    assert label_notes(torch.tensor([0, 1, 1, -1]), ("cat", "dog")) == ["only one label is given for class 'cat'"]
    assert label_notes(torch.tensor([0, 0, 1, 1]), ("cat", "dog")) == []
    assert label_notes(torch.tensor([0, 0]), ("a\nb", "c", "d")) == [
        "there are fewer labels (2) than classes (3)",
        "no label is given for class 'c' and 1 other class; no input will be assigned to them",
    ]
    assert label_notes(torch.tensor([0, 0]), ("a\nb",)) == [
        r"there is one class only, 'a\nb'; nothing can be told apart"
    ]


# row numbers


@pytest.mark.parametrize(
    ("text", "is_split"),
    [
        ("index\n3\n", True),
        ("1\n2\n", True),
        ("index,label\n3,cat\n", True),
        ("index,file,label\n0,a.jpg,cat\n", False),
        ("a.jpg,cat\n", False),
        ('{"path":"a.jpg","label":"cat"}\n', False),
        ("", False),
    ],
)
def test_a_list_of_row_numbers_is_told_from_a_list_of_labels(tmp_path: Path, text: str, is_split: bool) -> None:
    (tmp_path / "l.csv").write_text(text)
    assert holds_row_numbers(tmp_path / "l.csv") is is_split


@pytest.mark.parametrize("text", ["9" * 5000, "9" * 19, "-" * 3, "1e3", "²", "0x10", "1\n1\n"])
def test_numbers_that_are_none_are_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "l.txt").write_text(text)
    with pytest.raises(InputError) as error:
        read_split(tmp_path / "l.txt", n=5)
    assert len(str(error.value)) < 400
