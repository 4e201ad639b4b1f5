"""Splits drawn and read: balanced, ascending, inside the data set; hidden labels are −1."""

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from laplacenet.data import Split, VectorSet, balanced_split, hide_labels, holds_published_lists, read_split
from laplacenet.runtime import InputError


@given(st.integers(1, 5), st.integers(1, 4), st.integers(0, 3), st.integers(0, 2**40))
def test_every_class_gets_as_many_labels(n_classes: int, per_class: int, spare: int, seed: int) -> None:
    labels = torch.arange(n_classes).repeat(per_class + spare)
    split = balanced_split(labels, n_classes * per_class, seed)
    assert torch.bincount(labels[split.labeled], minlength=n_classes).tolist() == [per_class] * n_classes
    assert split.labeled.tolist() == sorted(set(split.labeled.tolist()))


def test_a_split_follows_its_seed_and_larger_ones_contain_smaller_ones() -> None:
    labels = torch.arange(10).repeat(50)
    assert torch.equal(balanced_split(labels, 100, 7).labeled, balanced_split(labels, 100, 7).labeled)
    assert not torch.equal(balanced_split(labels, 100, 7).labeled, balanced_split(labels, 100, 8).labeled)
    assert set(balanced_split(labels, 40, 7).labeled.tolist()) < set(balanced_split(labels, 100, 7).labeled.tolist())


def test_rows_without_a_label_are_never_drawn() -> None:
    labels = torch.tensor([-1, 0, -1, 1, -1, 0, 1])
    assert balanced_split(labels, 4, 0).labeled.tolist() == [1, 3, 5, 6]


@pytest.mark.parametrize(
    ("n_labeled", "complaint"),
    [
        (5, "5 labels cannot be shared equally by 3 classes; choose a multiple of 3"),
        (0, "0 labels"),
        (-3, "-3 labels"),
        (9, "9 labels are 3 for each class, but class 2 has 2 rows; choose at most 6"),
    ],
)
def test_a_split_that_cannot_be_is_refused_in_numbers(n_labeled: int, complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        balanced_split(torch.tensor([0, 0, 0, 1, 1, 1, 2, 2]), n_labeled, 0)


def test_nothing_can_be_drawn_where_nothing_is_known() -> None:
    with pytest.raises(InputError, match="no row has a known label"):
        balanced_split(torch.tensor([-1, -1]), 2, 0)


@given(st.lists(st.integers(-1, 3), min_size=1, max_size=20), st.data())
def test_hidden_labels_show_the_split_and_nothing_else(values: list, data: st.DataObject) -> None:
    rows = sorted(data.draw(st.sets(st.integers(0, len(values) - 1), min_size=1)))
    labels = torch.tensor(values)
    hidden = hide_labels(labels, Split(torch.tensor(rows), len(values)))
    assert hidden.tolist() == [value if row in rows else -1 for row, value in enumerate(values)]
    assert labels.tolist() == values


def test_a_split_of_another_data_set_is_refused() -> None:
    with pytest.raises(InputError, match="the split is of 3 rows, the labels are 2"):
        hide_labels(torch.tensor([0, 1]), Split(torch.tensor([0]), 3))


@pytest.mark.parametrize(
    ("rows", "complaint"),
    [
        ([], "at least one"),
        ([1, 0], "ascend"),
        ([0, 0], "ascend"),
        ([0, 5], "names row 5; there are rows 0 to 4"),
        ([-1, 2], "names row -1"),
    ],
)
def test_a_wrong_split_is_refused(rows: list, complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        Split(torch.tensor(rows, dtype=torch.int64), 5)


def test_a_split_is_read_from_npz_by_its_key(tmp_path: Path) -> None:
    path = tmp_path / "splits.npz"
    np.savez(path, **{"40/00": np.array([3, 1, 2], np.uint16), "40/01": np.array([0], np.uint16)})
    split = read_split(path, "40/00", n=5)
    assert split.labeled.tolist() == [1, 2, 3]
    assert split.n == 5
    assert len(read_split(str(path), "40/01", n=5)) == 1


def test_one_array_needs_no_key(tmp_path: Path) -> None:
    np.savez(tmp_path / "split.npz", rows=np.array([4, 0]))
    assert read_split(tmp_path / "split.npz", n=5).labeled.tolist() == [0, 4]


def test_a_missing_key_lists_a_few(tmp_path: Path) -> None:
    np.savez(tmp_path / "s.npz", **{f"40/{number:02}": np.array([number]) for number in range(20)})
    with pytest.raises(InputError, match="no split '41/00'; its 20 keys are 40/00, 40/01, 40/02, 40/03, 40/04, …"):
        read_split(tmp_path / "s.npz", "41/00", n=50)
    with pytest.raises(InputError, match="holds several splits; name one; its 20 keys"):
        read_split(tmp_path / "s.npz", n=50)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.txt", "3\n1\n\n 2 \n"),
        ("a.csv", "3\n1\n2\n"),
        ("a.csv", "\ufeffindex\n3\n1\n2\n"),
        ("a.csv", "label,Index\n9,3\n9,1\n9,2\n"),
        ("a.csv", "row;label\n3;9\n1;9\n2;9\n"),
        ("a.csv", "3,cat\n1,dog\n2,cat\n"),
    ],
)
def test_a_split_is_read_from_text(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    assert read_split(tmp_path / name, n=5).labeled.tolist() == [1, 2, 3]


def published_lists(folder: Path) -> Path:
    """As in the folder `data-local/labels/cifar10` of the code of Iscen et al., with some lines of its first list."""
    for name, text in (
        (
            "500_balanced_labels/00.txt",
            "40733_airplane.png airplane\n29173_airplane.png airplane\n308_airplane.png airplane\n",
        ),
        ("500_balanced_labels/01.txt", "7_pickup_truck.png pickup_truck\n"),
        ("4000_balanced_labels/00.txt", "3_bird.png bird\n2_cat.png cat\n"),
    ):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    return folder


def test_published_lists_name_rows_by_the_names_of_their_pictures(tmp_path: Path) -> None:
    folder = published_lists(tmp_path)
    assert read_split(folder, "500/00", n=50_000).labeled.tolist() == [308, 29173, 40733]
    assert read_split(folder, "500/01", n=50_000).labeled.tolist() == [7]
    assert read_split(folder, "4000/00", n=4).labeled.tolist() == [2, 3]
    assert read_split(folder / "4000_balanced_labels" / "00.txt", n=4).labeled.tolist() == [2, 3]
    assert holds_published_lists(folder)
    assert not holds_published_lists(folder / "4000_balanced_labels")


def test_a_folder_of_published_lists_is_asked_by_their_keys(tmp_path: Path) -> None:
    folder = published_lists(tmp_path)
    with pytest.raises(InputError, match="no split '4000/07'; its 3 keys are 4000/00, 500/00, 500/01"):
        read_split(folder, "4000/07", n=5)
    with pytest.raises(InputError, match="holds several splits; name one"):
        read_split(folder, n=5)
    with pytest.raises(InputError, match=r"500_balanced_labels/00\.txt: the split names row 40733"):
        read_split(folder, "500/00", n=40_000)


def rows_named(*names: str) -> VectorSet:
    """A row of each of these classes; without a label where the name is empty."""
    class_names = tuple(dict.fromkeys(name for name in names if name))
    labels = torch.tensor([class_names.index(name) if name else -1 for name in names])
    return VectorSet(torch.zeros(len(names), 2), labels, class_names)


@pytest.mark.parametrize("line", ["2_nosuch.png nosuch", "2_bird.png bird", "2_cat.png bird", "2_nosuch.png"])
def test_a_published_list_whose_classes_contradict_the_data_is_refused(tmp_path: Path, line: str) -> None:
    (tmp_path / "00.txt").write_text(f"1_bird.png bird\n{line}\n")
    with pytest.raises(
        InputError, match=r"00\.txt, line 2: the list says that row 2 is '\w+', but in this data set it is 'cat'"
    ):
        read_split(tmp_path / "00.txt", n=3, of=rows_named("cat", "bird", "cat"))


def test_where_classes_are_numbers_in_the_data_a_name_must_go_with_one_of_them(tmp_path: Path) -> None:
    data = rows_named("0", "1", "0")
    (tmp_path / "00.txt").write_text("0_cat.png cat\n1_bird.png bird\n2_cat.png cat\n")
    assert len(read_split(tmp_path / "00.txt", n=3, of=data).labeled) == 3
    (tmp_path / "01.txt").write_text("0_cat.png cat\n1_cat.png cat\n")
    with pytest.raises(InputError, match=r"line 2: the list says that row 1 is 'cat', but in this data set it is '1'"):
        read_split(tmp_path / "01.txt", n=3, of=data)


def test_a_published_list_may_name_classes_without_their_spaces_and_rows_without_a_label(tmp_path: Path) -> None:
    (tmp_path / "00.txt").write_text("1_pickup_truck.png pickup_truck\n2_cat.png\n0\n")
    split = read_split(tmp_path / "00.txt", n=3, of=rows_named("bird", "pickup truck", ""))
    assert split.labeled.tolist() == [0, 1, 2]


@pytest.mark.parametrize("line", ["8_cat.jpg cat", "cat_8.png cat", "8_cat.png cat extra", "8.png"])
def test_a_line_that_is_not_quite_a_published_one_is_refused(tmp_path: Path, line: str) -> None:
    (tmp_path / "a.txt").write_text(f"7_cat.png cat\n{line}\n")
    with pytest.raises(InputError, match=r"a\.txt, line 2: .* is not a row number"):
        read_split(tmp_path / "a.txt", n=50)


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        ("a.txt", "1\nx\n", r"a\.txt, line 2: 'x' is not a row number"),
        ("a.txt", "1\n1\n", r"a\.txt: row 1 is in the split twice"),
        ("a.txt", "1\n5\n", r"a\.txt: the split names row 5"),
        ("a.txt", "-1\n", "names row -1"),
        ("a.txt", "", "at least one"),
        ("a.csv", "", "at least one"),
        ("a.csv", "file,label\ncat/1.png,cat\n", r"a\.csv, line 2: 'cat/1\.png' is not a row number"),
        ("a.json", "[1]", r"a\.json: a split is read from a \.npz, \.txt or \.csv file"),
    ],
)
def test_a_wrong_split_file_is_named(tmp_path: Path, name: str, text: str, complaint: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=complaint):
        read_split(tmp_path / name, n=5)


def test_files_that_are_missing_or_no_text_are_named(tmp_path: Path) -> None:
    for name in ("a.npz", "a.txt", "a.csv"):
        with pytest.raises(InputError, match=f"{name}: no such file"):
            read_split(tmp_path / name, n=5)
    (tmp_path / "b.txt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match=r"b\.txt: not a text in UTF-8, nor in UTF-16"):
        read_split(tmp_path / "b.txt", n=5)
    (tmp_path / "folder.txt").mkdir()
    with pytest.raises(InputError, match=r"folder\.txt: cannot be read"):
        read_split(tmp_path / "folder.txt", n=5)


def test_a_key_is_only_for_npz_and_only_integers_are_rows(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("1\n")
    with pytest.raises(InputError, match="key 'x' given, but only"):
        read_split(tmp_path / "a.txt", "x", n=5)
    np.savez(tmp_path / "a.npz", rows=np.array([0.5]))
    with pytest.raises(InputError, match="rows must be a list of integers; got float64"):
        read_split(tmp_path / "a.npz", n=5)
