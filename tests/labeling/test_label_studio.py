"""Label Studio's import format, checked by its own rules as the documentation states them."""

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from xml.etree import ElementTree

import pytest
import torch
from references_labeling_pages import HOSTILE, hostile_labeling, made_up_labeling

from laplacenet.data import ImageSet
from laplacenet.data.label_files import read_labels
from laplacenet.labeling.acquisition import next_entries, suspect_entries
from laplacenet.labeling.label_studio import LOCAL_FILES, labeling_config, tasks
from laplacenet.labeling.result import Labeling
from laplacenet.runtime import InputError


def require_importable(task: dict, config: str) -> None:
    """What Label Studio asks of a task with predictions: data for every object tag, results that name control and
    object by the names in the configuration, and choices that the configuration offers."""
    view = ElementTree.fromstring(config)
    (image,), (choices,) = view.findall("Image"), view.findall("Choices")
    offered = {choice.attrib["value"] for choice in choices.findall("Choice")}
    assert choices.attrib["toName"] == image.attrib["name"]
    assert isinstance(task["data"][image.attrib["value"].removeprefix("$")], str)
    for prediction in task["predictions"]:
        assert isinstance(prediction["model_version"], str)
        assert 0 <= prediction["score"] <= 1
        for result in prediction["result"]:
            assert (result["from_name"], result["to_name"]) == (choices.attrib["name"], image.attrib["name"])
            assert result["type"] == "choices"
            assert isinstance(result["id"], str)
            (chosen,) = result["value"]["choices"]
            assert chosen in offered


@pytest.mark.parametrize("made", [made_up_labeling, hostile_labeling])
def test_every_task_can_be_imported(made: Callable[[], Labeling]) -> None:
    labeling = made()
    config = labeling_config(labeling.summary.class_names)
    found = tasks(labeling, next_entries(labeling, 20), prefix=LOCAL_FILES)
    assert len(found) == 20
    for task in json.loads(json.dumps(found)):
        require_importable(task, config)
    assert len({task["predictions"][0]["result"][0]["id"] for task in found}) == 20


def test_a_picture_is_found_below_the_prefix_whatever_it_is_called() -> None:
    labeling = hostile_labeling()
    found = tasks(labeling, next_entries(labeling, 20), prefix="https://pictures.example/")
    assert len(found) == 20
    for task in found:
        address = task["data"]["image"]
        assert not set('<>" \n#?') & set(address)
        assert unquote(address.removeprefix("https://pictures.example/")) == task["data"]["path"]


def test_a_suspect_comes_with_what_it_looks_like() -> None:
    labeling = made_up_labeling()
    rows = suspect_entries(labeling, 3)
    assert len(rows) == 3
    for (row, guess, _), task in zip(rows, tasks(labeling, rows, prefix=""), strict=True):
        (prediction,) = task["predictions"]
        assert prediction["result"][0]["value"]["choices"] == [labeling.summary.class_names[guess]]
        assert prediction["score"] == pytest.approx(float(labeling.unseen_scores[row, guess]), abs=1e-4)
        assert guess != int(labeling.given[row])


def test_the_view_offers_every_class_by_its_name() -> None:
    names = [name for name in HOSTILE if "\x00" not in name]
    view = ElementTree.fromstring(labeling_config(names))
    assert [choice.attrib["value"] for choice in view.iter("Choice")] == names


def test_embeddings_have_no_pictures_to_show() -> None:
    labeling = made_up_labeling(kind="embeddings")
    with pytest.raises(InputError, match="shows pictures"):
        tasks(labeling, next_entries(labeling, 3), prefix="")


def annotated(task: dict[str, Any], number: int) -> dict[str, Any]:
    """The task as Label Studio exports it, once someone has accepted its prediction."""
    (prediction,) = task["predictions"]
    annotation = {"id": number, "result": prediction["result"], "was_cancelled": False, "lead_time": 1.5}
    return {"id": number, "data": task["data"], "annotations": [annotation]}


def in_columns(task: dict[str, Any], control: str, number: int) -> dict[str, Any]:
    """The same as a row of its CSV, or an object of its JSON-MIN: data beside what the control was answered with."""
    (result,) = task["predictions"][0]["result"]
    ours = {control: result["value"]["choices"][0]}
    dates = {"created_at": "2026-11-16T10:00:00Z", "updated_at": "2026-11-16T10:00:00Z", "lead_time": 1.5}
    return {"annotation_id": number, "annotator": 1, "id": number, **task["data"], **ours, **dates}


@pytest.mark.parametrize("export", ["csv", "json", "json-min"])
def test_what_label_studio_exports_is_read_back(export: str, tmp_path: Path) -> None:
    labeling = made_up_labeling()
    entries = next_entries(labeling, 8)
    found = tasks(labeling, entries, prefix=LOCAL_FILES + "photos/")
    (choices,) = ElementTree.fromstring(labeling_config(labeling.summary.class_names)).iter("Choices")
    rows = [in_columns(task, choices.attrib["name"], number) for number, task in enumerate(found, start=1)]
    path = tmp_path / f"export.{'csv' if export == 'csv' else 'json'}"
    if export == "csv":
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    else:
        exported = rows if export == "json-min" else [annotated(task, number) for number, task in enumerate(found)]
        path.write_text(json.dumps(exported))
    n, class_names = len(labeling), labeling.summary.class_names
    pictures = ImageSet(torch.zeros(n, 1, 2, 2, dtype=torch.uint8), torch.full((n,), -1), class_names, labeling.names)
    given = read_labels(path, pictures)
    assert {row: given.class_names[given.labels[row]] for row in (given.labels >= 0).nonzero().flatten().tolist()} == {
        row: class_names[guess] for row, guess, _ in entries
    }
