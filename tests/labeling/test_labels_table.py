"""`labels.csv`: one line a row, read back by anyone's CSV reader, whatever the names."""

import csv
from dataclasses import replace
from pathlib import Path

import torch
from references_labeling_pages import HOSTILE, made_up_labeling

from laplacenet.labeling.result import HEADING, SOURCES, write_labels
from laplacenet.runtime.csv_files import unescaped


def read(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_every_row_has_its_label_and_how_sure_it_is(tmp_path: Path) -> None:
    labeling = made_up_labeling(50)
    rows = read(write_labels(tmp_path, labeling))
    assert tuple(rows[0]) == HEADING
    assert [row["path"] for row in rows] == list(labeling.names)
    classes = labeling.summary.class_names
    assert [row["label"] for row in rows] == [classes[label] for label in labeling.labels.tolist()]
    assert torch.allclose(torch.tensor([float(row["confidence"]) for row in rows]), labeling.confidence, atol=1e-4)
    assert torch.allclose(torch.tensor([float(row["margin"]) for row in rows]), labeling.margin, atol=1e-4)
    assert [row["source"] for row in rows] == [SOURCES[source] for source in labeling.sources.tolist()]
    assert [row["suspect"] == "true" for row in rows] == labeling.is_suspect.tolist()


def test_names_from_strangers_come_back_as_they_are(tmp_path: Path) -> None:
    labeling = made_up_labeling(len(HOSTILE), n_given=4)
    rows = read(write_labels(tmp_path, replace(labeling, names=HOSTILE)))
    assert [row["path"] for row in rows] == list(HOSTILE)


def test_no_path_is_a_formula_to_a_spreadsheet_and_each_still_leads_to_its_file(tmp_path: Path) -> None:
    names = ("=1+1.png", "+a.png", "-b.png", "@c.png", "d.png")
    labeling = replace(made_up_labeling(5, n_given=4), names=names)
    paths = [row["path"] for row in read(write_labels(tmp_path, labeling))]
    assert not any(path.startswith(("=", "+", "-", "@")) for path in paths)
    assert [Path(path) for path in paths] == [Path(name) for name in names]


def test_a_class_called_like_a_formula_is_text_to_a_spreadsheet_and_read_back_as_it_is(tmp_path: Path) -> None:
    labeling = made_up_labeling(6, 3, n_given=3)
    names = ("=HYPERLINK(1)", "+b", "plain")
    labeling = replace(labeling, summary=replace(labeling.summary, class_names=names))
    cells = [row["label"] for row in read(write_labels(tmp_path, labeling))]
    assert not any(cell.startswith(("=", "+")) for cell in cells)
    assert [unescaped(cell) for cell in cells] == [names[label] for label in labeling.labels.tolist()]
