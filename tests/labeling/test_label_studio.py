"""Label Studio's import format, checked by its own rules as the documentation states them."""

import json
from collections.abc import Callable
from urllib.parse import unquote
from xml.etree import ElementTree

import pytest
from references_labeling_pages import HOSTILE, hostile_labeling, made_up_labeling

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
    for task in tasks(labeling, next_entries(labeling, 20), prefix="https://pictures.example/"):
        address = task["data"]["image"]
        assert not set('<>" \n#?') & set(address)
        assert unquote(address.removeprefix("https://pictures.example/")) == task["data"]["path"]


def test_a_suspect_comes_with_what_it_looks_like() -> None:
    labeling = made_up_labeling()
    rows = suspect_entries(labeling, 3)
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
