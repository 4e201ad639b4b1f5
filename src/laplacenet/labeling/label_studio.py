"""What to label next, as tasks for Label Studio, each with a guess as its prediction, and the labeling interface."""

import re
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote
from xml.sax.saxutils import quoteattr

import laplacenet
from laplacenet.labeling.result import Labeling
from laplacenet.runtime import InputError

LOCAL_FILES = "/data/local-files/?d="
"""Where Label Studio serves files below LABEL_STUDIO_LOCAL_FILES_DOCUMENT_ROOT."""

NOT_IN_XML = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
LABEL, IMAGE = "label", "image"
"""What control and picture are called: the first heads a column of Label Studio's CSV and is a key of its JSON-MIN."""


def tasks(labeling: Labeling, rows: Sequence[tuple[int, int, str]], *, prefix: str) -> list[dict[str, Any]]:
    """One for each row, guess and reason; pictures are found at `prefix` and their name, as a URL writes it."""
    if labeling.summary.kind != "pictures":
        raise InputError("Label Studio shows pictures and this run labeled embeddings; leave out --format for CSV")
    return [_task(labeling, row, guess, why, prefix=prefix) for row, guess, why in rows]


def _task(labeling: Labeling, row: int, guess: int, why: str, *, prefix: str) -> dict[str, Any]:
    name = labeling.names[row]
    result = {
        "id": f"row-{row}",
        "type": "choices",
        "from_name": LABEL,
        "to_name": IMAGE,
        "value": {"choices": [xml_text(labeling.summary.class_names[guess])]},
    }
    scores = labeling.unseen_scores if labeling.is_given[row] else labeling.scores
    return {
        "data": {IMAGE: prefix + quote(name, safe="/", errors="replace"), "path": name, "why": why},
        "predictions": [
            {
                "model_version": f"laplacenet {laplacenet.__version__}",
                "score": round(float(scores[row, guess]), 4),
                "result": [result],
            }
        ],
    }


def labeling_config(class_names: Sequence[str]) -> str:
    """The labeling interface that shows the tasks' predictions."""
    choices = "".join(f"    <Choice value={quoteattr(xml_text(name))}/>\n" for name in class_names)
    head = f'  <Choices name="{LABEL}" toName="{IMAGE}" choice="single" showInline="true">\n'
    return f'<View>\n  <Image name="{IMAGE}" value="${IMAGE}"/>\n{head}{choices}  </Choices>\n</View>\n'


def xml_text(name: str) -> str:
    """A class's name as XML can hold it."""
    return NOT_IN_XML.sub("\ufffd", name)
