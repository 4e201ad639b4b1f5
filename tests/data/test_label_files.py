"""Label lists by file name: with and without a heading, with paths as people write them."""

from pathlib import Path

import pytest
import torch

from laplacenet.data import ImageSet, read_labels
from laplacenet.runtime import InputError

NAMES = ("a.jpg", "cats/b.jpg", "cats/c.jpg", "dogs/c.jpg")


def image_set(class_names: tuple[str, ...] = (), names: tuple[str, ...] | None = NAMES) -> ImageSet:
    return ImageSet(torch.zeros(4, 1, 2, 2, dtype=torch.uint8), torch.full((4,), -1), class_names, names)


def labels_of(folder: Path, text: str, images: ImageSet | None = None) -> tuple[list[int], tuple[str, ...]]:
    (folder / "labels.csv").write_text(text, encoding="utf-8")
    given = read_labels(folder / "labels.csv", images or image_set())
    assert given.labels.dtype == torch.int64
    return given.labels.tolist(), given.class_names


@pytest.mark.parametrize(
    "text",
    [
        "a.jpg,dog\ncats/c.jpg,cat\n",
        "file,label\na.jpg,dog\ncats/c.jpg,cat\n",
        "\ufeffFilename;Class\r\na.jpg;dog\r\ncats/c.jpg;cat\r\n",
        "what,which\na.jpg,dog\ncats/c.jpg,cat\n",
        "label,confidence,file\ndog,0.5,a.jpg\ncat,0.9,cats/c.jpg\n",
        './a.jpg,dog\n\n"/home/me/photos/cats/c.jpg", cat\n',
        "photos\\a.jpg,dog\nphotos\\cats\\c.jpg,cat\ncats/b.jpg,\n",
    ],
)
def test_labels_are_found_however_the_list_is_written(tmp_path: Path, text: str) -> None:
    assert labels_of(tmp_path, text) == ([1, -1, 0, -1], ("cat", "dog"))


def test_a_bare_name_is_enough_where_it_is_unique(tmp_path: Path) -> None:
    assert labels_of(tmp_path, "b.jpg,cat\n")[0] == [-1, 0, -1, -1]
    with pytest.raises(InputError, match=r"line 1: 2 images are called 'c\.jpg' \(cats/c\.jpg, dogs/c\.jpg\)"):
        labels_of(tmp_path, "c.jpg,cat\n")


def test_a_name_without_suffix_of_an_image_format_is_no_heading(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"line 1: 'z\.jpg' is not among the 4 images \(a\.jpg, "):
        labels_of(tmp_path, "z.jpg,cat\na.jpg,cat\n")


def test_the_image_set_s_own_classes_are_kept_when_they_include_the_labels(tmp_path: Path) -> None:
    assert labels_of(tmp_path, "a.jpg,dog\n", image_set(("cat", "dog", "owl"))) == (
        [1, -1, -1, -1],
        ("cat", "dog", "owl"),
    )
    assert labels_of(tmp_path, "a.jpg,wolf\n", image_set(("cat", "dog"))) == ([0, -1, -1, -1], ("wolf",))


def test_numbers_are_ordered_as_numbers(tmp_path: Path) -> None:
    assert labels_of(tmp_path, "a.jpg,10\nb.jpg,9\n") == ([1, 0, -1, -1], ("9", "10"))


def test_a_file_may_stand_twice_but_not_in_two_classes(tmp_path: Path) -> None:
    assert labels_of(tmp_path, "a.jpg,cat\na.jpg,cat\n")[0] == [0, -1, -1, -1]
    with pytest.raises(InputError, match=r"line 2: \./a\.jpg is 'dog' here and 'cat' in line 1"):
        labels_of(tmp_path, "a.jpg,cat\n./a.jpg,dog\n")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", r"no labels; expected lines such as a\.jpg,cat"),
        ("file,label\n", "no labels"),
        ("a.jpg,\n", "no labels"),
        ("a.jpg\n", r"line 1: expected a file name and a label, with a comma, semicolon or tab between; got 'a"),
        ("a.jpg,cat\nghost.jpg,cat\n", r"labels\.csv, line 2: 'ghost\.jpg' is not among"),
        ("a.jpg,cat\nbirds/c.jpg,cat\n", "is not among"),
    ],
)
def test_a_wrong_list_is_named_with_its_line(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        labels_of(tmp_path, text)


def test_a_missing_list_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.csv: no such file"):
        read_labels(tmp_path / "none.csv", image_set())


def test_images_that_never_were_files_cannot_be_labeled_by_name(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="need images that came from files"):
        labels_of(tmp_path, "a.jpg,cat\n", image_set(names=None))
