"""The pictures of the page: which rows, how large, and the same after being written and read."""

from pathlib import Path

import pytest
import torch
from references_labeling_pages import made_up_labeling, made_up_pictures

from laplacenet.labeling.acquisition import select_next, suspects
from laplacenet.labeling.outcome import GALLERY, read_gallery, save_gallery, shown_rows, sure_and_unsure
from laplacenet.runtime import InputError


def test_the_surest_and_the_least_sure_of_a_class_are_those_a_sort_finds() -> None:
    labeling = made_up_labeling()
    surest, least_sure = sure_and_unsure(labeling, 2)
    own = [row for row in range(len(labeling)) if labeling.labels[row] == 2 and labeling.given[row] < 0]
    ordered = sorted(own, key=lambda row: -float(labeling.scores[row, 2]))
    assert surest.tolist() == ordered[:8]
    assert least_sure.tolist() == ordered[::-1][:8]


def test_a_row_is_never_among_both_the_surest_and_the_least_sure() -> None:
    labeling = made_up_labeling(24, 4, n_given=4)
    for label in range(4):
        surest, least_sure = sure_and_unsure(labeling, label)
        assert not set(surest.tolist()) & set(least_sure.tolist())


def test_all_that_the_page_shows_is_in_the_gallery_once() -> None:
    labeling = made_up_labeling()
    rows = shown_rows(labeling).tolist()
    assert len(rows) == len(set(rows))
    assert set(suspects(labeling).tolist()) <= set(rows)
    assert set(select_next(labeling, 24).rows.tolist()) <= set(rows)


def test_a_hundred_classes_share_the_page() -> None:
    assert len(shown_rows(made_up_labeling(8000, 100, n_given=500))) <= 100 * 4 + 48


def test_pictures_come_back_as_they_were_written(tmp_path: Path) -> None:
    labeling = made_up_labeling()
    rows = torch.tensor([3, 1, 7])
    images = made_up_pictures(labeling, rows)
    save_gallery(tmp_path, rows, images)
    found = read_gallery(tmp_path)
    assert list(found) == [3, 1, 7]
    assert torch.equal(found[1], images[1])


def test_large_pictures_are_brought_down_and_keep_their_shape(tmp_path: Path) -> None:
    save_gallery(tmp_path, torch.tensor([0]), torch.full((1, 3, 300, 150), 77, dtype=torch.uint8))
    image = read_gallery(tmp_path)[0]
    assert image.shape == (3, 96, 48)
    assert bool((image == 77).all())


def test_without_pictures_the_gallery_is_empty_and_a_damaged_one_is_refused(tmp_path: Path) -> None:
    assert read_gallery(tmp_path) == {}
    (tmp_path / GALLERY).write_bytes(b"no tensors")
    with pytest.raises(InputError, match=GALLERY):
        read_gallery(tmp_path)
