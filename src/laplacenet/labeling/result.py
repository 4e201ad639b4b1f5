"""What a labeling comes to: each row's label and how sure it is, and what the given labels tell of the others.

In a run folder it is `labeling.json` (words and figures) and `labeling.safetensors` (a tensor for each field of rows).
"""

import csv
import io
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from jaxtyping import Bool, Float, Int64, UInt8
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor

from laplacenet.runtime import InputError, read_json, write_json, write_whole

SUMMARY, TENSORS = "labeling.json", "labeling.safetensors"
SOURCES = ("given", "graph", "network")
ROW_FIELDS = ("given", "labels", "scores", "sources", "unseen_scores", "is_suspect", "features", "positions")


@dataclass(frozen=True)
class Interval:
    """A share between 0 and 1, and the bounds between which it lies with the probability said beside it."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class ClassEstimate:
    """Of one class: how many given labels were judged unseen, and the share that came out right."""

    name: str
    n: int
    accuracy: Interval | None


@dataclass(frozen=True)
class Estimate:
    """How accurate the labels are, from `n` given labels that neither network nor graph had seen.

    `method` says in a sentence which labels were kept from what. `accuracy` is None where too few labels were given;
    `test_accuracy` is that on a test set, where one was given (`n_test` rows).
    """

    method: str
    level: float
    n: int
    accuracy: Interval | None
    classes: tuple[ClassEstimate, ...]
    n_test: int = 0
    test_accuracy: Interval | None = None


@dataclass(frozen=True)
class CalibrationBin:
    """Unseen labels whose confidence fell between two bounds: how many, the mean confidence, the share right."""

    n: int
    confidence: float
    accuracy: float


@dataclass(frozen=True)
class Calibration:
    """The temperature that confidences were divided by, fitted on `n` unseen labels, and how well they fit then.

    `error` is the expected calibration error over `bins`, `error_before` that at temperature 1.
    """

    temperature: float
    n: int
    error_before: float
    error: float
    bins: tuple[CalibrationBin, ...]


@dataclass(frozen=True)
class Summary:
    """The words and figures of a labeling: `choices` are sentences that say what was chosen and why."""

    title: str
    kind: str  # "pictures" or "embeddings"
    class_names: tuple[str, ...]
    prior: tuple[float, ...]
    choices: tuple[str, ...]
    notes: tuple[str, ...]
    estimate: Estimate
    calibration: Calibration | None
    n_skipped: int
    is_complete: bool
    elapsed_s: float


@dataclass(frozen=True, eq=False)
class Labeling:
    """All rows of a collection with their labels.

    `given` is −1 where no label was given; `labels` keeps given labels. `scores` are calibrated and sum to 1.
    `sources` are places in SOURCES. `unseen_scores` are those that a given row's label had no part in, NaN where there
    are none; `is_suspect` marks given labels that they contradict. `features` have length 1; `positions` are places on
    the map.
    """

    summary: Summary
    names: tuple[str, ...]
    given: Int64[Tensor, " n"]
    labels: Int64[Tensor, " n"]
    scores: Float[Tensor, "n C"]
    sources: UInt8[Tensor, " n"]
    unseen_scores: Float[Tensor, "n C"]
    is_suspect: Bool[Tensor, " n"]
    features: Float[Tensor, "n d"]
    positions: Float[Tensor, "n 2"]

    def __post_init__(self) -> None:
        for field in ROW_FIELDS:
            if len(getattr(self, field)) != len(self.names):
                raise ValueError(f"{len(self.names)} names, but {field} has {len(getattr(self, field))} rows")

    def __len__(self) -> int:
        return len(self.names)

    @property
    def confidence(self) -> Float[Tensor, " n"]:
        """The score of the label that the row has."""
        return self.scores.gather(1, self.labels[:, None]).squeeze(1)

    @property
    def margin(self) -> Float[Tensor, " n"]:
        """How far the label's score stands above the best of the others."""
        others = self.scores.scatter(1, self.labels[:, None], -1.0)
        return self.confidence - others.amax(1).clamp(min=0)

    @property
    def is_given(self) -> Bool[Tensor, " n"]:
        return self.given >= 0


def save_labeling(folder: Path, labeling: Labeling) -> None:
    """The tensors first: words without tensors would look finished."""
    tensors = {field: getattr(labeling, field).cpu().contiguous() for field in ROW_FIELDS}
    write_whole(folder / TENSORS, save_tensors(tensors))
    write_json(folder / SUMMARY, {"names": labeling.names, **asdict(labeling.summary)})


def load_labeling(folder: Path) -> Labeling:
    if not (folder / SUMMARY).is_file():
        raise InputError(f"{folder}: holds no labeling (it has no {SUMMARY}); laplacenet label makes one")
    words = read_json(folder / SUMMARY)
    try:
        tensors = load_tensors((folder / TENSORS).read_bytes())
        names = tuple(str(name) for name in words.pop("names"))
        return Labeling(summary_from(words), names, **{field: tensors[field] for field in ROW_FIELDS})
    except OSError as error:
        raise InputError(f"{folder / TENSORS}: cannot be read ({error.strerror})") from error
    except (SafetensorError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"{folder / SUMMARY}: does not fit {TENSORS} beside it ({error})") from error


def summary_from(words: dict[str, Any]) -> Summary:
    calibration = words["calibration"]
    parts: dict[str, Any] = {
        "estimate": estimate_from(words["estimate"]),
        "calibration": calibration and calibration_from(calibration),
    }
    lists = {name: tuple(value) for name, value in words.items() if isinstance(value, list)}
    return Summary(**(words | lists | parts))


def estimate_from(words: dict[str, Any]) -> Estimate:
    classes = tuple(ClassEstimate(entry["name"], entry["n"], interval(entry["accuracy"])) for entry in words["classes"])
    bounds = {name: interval(words[name]) for name in ("accuracy", "test_accuracy")}
    return Estimate(**(words | bounds | {"classes": classes}))


def calibration_from(words: dict[str, Any]) -> Calibration:
    return Calibration(**(words | {"bins": tuple(CalibrationBin(**entry) for entry in words["bins"])}))


def interval(bounds: dict[str, float] | None) -> Interval | None:
    return None if bounds is None else Interval(**bounds)


LABELS = "labels.csv"
HEADING = ("path", "label", "confidence", "margin", "source", "suspect")
FORMULA_SIGNS = ("=", "+", "-", "@", "\t", "\r")


def write_labels(folder: Path, labeling: Labeling) -> Path:
    """UTF-8, cells quoted where they must be; numbers with four digits."""
    text = io.StringIO(newline="")
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(HEADING)
    columns = (labeling.labels, labeling.confidence, labeling.margin, labeling.sources, labeling.is_suspect)
    for name, label, confidence, margin, source, is_suspect in zip(
        labeling.names, *(column.tolist() for column in columns), strict=True
    ):
        class_name = labeling.summary.class_names[label]
        suspect = "true" if is_suspect else "false"
        lines.writerow([no_formula(name), class_name, f"{confidence:.4f}", f"{margin:.4f}", SOURCES[source], suspect])
    path = folder / LABELS
    write_whole(path, text.getvalue().encode())
    return path


def no_formula(name: str) -> str:
    """A spreadsheet computes a cell that begins with =, +, − or @; the same path can be written without."""
    return f"./{name}" if name.startswith(FORMULA_SIGNS) else name
