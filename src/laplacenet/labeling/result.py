"""The result of a labeling: each row's label and confidence, and the estimated accuracy.

In a run folder it is `labeling.json` (words and figures) and `labeling.safetensors` (a tensor for each field of rows).
"""

import shlex
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from jaxtyping import Bool, Float, Int64, UInt8
from torch import Tensor

from laplacenet.runtime import InputError
from laplacenet.runtime.csv_files import write_csv
from laplacenet.runtime.decoding import decode
from laplacenet.runtime.run_folder import read_run_file, write_run_file
from laplacenet.runtime.sealed_tensors import read_sealed_tensors, write_sealed_tensors

SUMMARY, TENSORS = "labeling.json", "labeling.safetensors"
KINDS = ("pictures", "embeddings")
SOURCES = ("given", "graph", "network")
DTYPES = {
    "given": torch.int64,
    "labels": torch.int64,
    "scores": torch.float32,
    "sources": torch.uint8,
    "unseen_scores": torch.float32,
    "is_suspect": torch.bool,
    "features": torch.float32,
    "positions": torch.float32,
}
ROW_FIELDS = tuple(DTYPES)
MAY_BE_UNKNOWN = ("unseen_scores", "positions")
"""NaN in rows that have none."""


@dataclass(frozen=True)
class Interval:
    """A share between 0 and 1 with its confidence interval."""

    value: float
    low: float
    high: float

    def __post_init__(self) -> None:
        if not 0 <= self.low <= self.value <= self.high <= 1:
            raise ValueError(f"{self.low} ≤ {self.value} ≤ {self.high} are not the bounds of a share")


@dataclass(frozen=True)
class ClassEstimate:
    """For one class: the number of held-out labels, and the accuracy on them."""

    name: str
    n: int
    accuracy: Interval | None


@dataclass(frozen=True)
class Estimate:
    """How accurate the labels are, from `n` given labels that neither network nor graph had seen.

    `method` says in words how it was estimated. `accuracy` is None where too few labels were given; `test_accuracy` is
    that on a test set, where one was given (`n_test` rows).
    """

    method: str
    level: float
    n: int
    accuracy: Interval | None
    classes: tuple[ClassEstimate, ...]
    n_test: int = 0
    test_accuracy: Interval | None = None

    def __post_init__(self) -> None:
        if min(self.n, self.n_test) < 0 or not 0 < self.level < 1:
            raise ValueError("counts must be 0 or more, the confidence level between 0 and 1")


@dataclass(frozen=True)
class CalibrationBin:
    """Unseen labels whose confidence fell between two bounds: how many, the mean confidence, the share right."""

    n: int
    confidence: float
    accuracy: float

    def __post_init__(self) -> None:
        if self.n < 0 or not (0 <= self.confidence <= 1 and 0 <= self.accuracy <= 1):
            raise ValueError("a bin needs a count of 0 or more and shares between 0 and 1")


@dataclass(frozen=True)
class Calibration:
    """The temperature, fitted on `n` held-out labels, and the calibration with it.

    `error` is the expected calibration error over `bins`, `error_before` that at temperature 1.
    """

    temperature: float
    n: int
    error_before: float
    error: float
    bins: tuple[CalibrationBin, ...]

    def __post_init__(self) -> None:
        if self.n < 0 or not self.temperature > 0 or not (0 <= self.error <= 1 and 0 <= self.error_before <= 1):
            raise ValueError("a calibration needs a positive temperature and errors between 0 and 1")


@dataclass(frozen=True)
class Summary:
    """A labeling apart from its rows; `choices` are sentences that say what was chosen and why."""

    title: str
    kind: str
    class_names: tuple[str, ...]
    prior: tuple[float, ...]
    choices: tuple[str, ...]
    notes: tuple[str, ...]
    estimate: Estimate
    calibration: Calibration | None
    n_skipped: int
    is_complete: bool
    elapsed_s: float

    def __post_init__(self) -> None:
        if not 0 <= self.elapsed_s < float("inf") or self.n_skipped < 0:
            raise ValueError("elapsed_s and n_skipped must be 0 or more")
        if self.kind not in KINDS:
            raise ValueError(f"kind must be one of {', '.join(KINDS)}")


@dataclass(frozen=True, eq=False)
class Labeling:
    """All rows of a collection with their labels.

    `given` is −1 where no label was given; `labels` keeps given labels. `scores` are calibrated and sum to 1. `sources`
    are indices into SOURCES. `unseen_scores` are held-out scores of given rows, NaN elsewhere; `is_suspect` marks given
    labels that they contradict. `features` have length 1; `positions` are places on the map.
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
        """The label's score minus the best of the others."""
        others = self.scores.scatter(1, self.labels[:, None], -1.0)
        return self.confidence - others.amax(1).clamp(min=0)

    @property
    def is_given(self) -> Bool[Tensor, " n"]:
        return self.given >= 0


@dataclass(frozen=True)
class LabelingFile:
    """What `labeling.json` holds; `tensors` is the checksum of the file beside it."""

    names: tuple[str, ...]
    tensors: str
    summary: Summary

    def __post_init__(self) -> None:
        n_classes = len(self.summary.class_names)
        if n_classes == 0 or len(set(self.summary.class_names)) != n_classes:
            raise ValueError("class_names must be one or more different names")
        if len(self.summary.prior) != n_classes or not all(0 < share <= 1 for share in self.summary.prior):
            raise ValueError(f"prior must be {n_classes} shares above 0")
        if [entry.name for entry in self.summary.estimate.classes] != list(self.summary.class_names):
            raise ValueError("estimate.classes must be those of class_names")


def save_labeling(folder: Path, labeling: Labeling) -> None:
    """The tensors first: a summary without tensors would look finished."""
    checksum = write_sealed_tensors(folder / TENSORS, {field: getattr(labeling, field) for field in ROW_FIELDS})
    write_run_file(folder / SUMMARY, asdict(LabelingFile(labeling.names, checksum, labeling.summary)))


def load_labeling(folder: Path) -> Labeling:
    """Refused in one line where a file is damaged or a value is impossible; resuming the run writes both anew."""
    if not (folder / SUMMARY).exists():
        raise InputError(f"{folder}: holds no labeling (it has no {SUMMARY}); laplacenet label makes one")
    try:
        found = read_labeling_file(folder)
        tensors, checksum = read_sealed_tensors(folder / TENSORS, ROW_FIELDS)
        if checksum != found.tensors:
            raise InputError(f"{folder / TENSORS}: belongs to another labeling than {SUMMARY} beside it")  # noqa: TRY301
        if fault := fault_in(tensors, n=len(found.names), n_classes=len(found.summary.class_names)):
            raise InputError(f"{folder / TENSORS}: {fault}")  # noqa: TRY301
    except InputError as error:
        command = f"laplacenet label --resume {shlex.quote(str(folder))}"
        raise InputError(f"{error}; write the labels again with: {command}") from error
    return Labeling(found.summary, found.names, **tensors)


def read_labeling_file(folder: Path) -> LabelingFile:
    return decode(LabelingFile, read_run_file(folder / SUMMARY), source=str(folder / SUMMARY), finite=True)


def fault_in(tensors: dict[str, Tensor], *, n: int, n_classes: int) -> str | None:
    """What is wrong with the rows' tensors; None if they are valid."""
    shapes = dict.fromkeys(ROW_FIELDS, (n,)) | dict.fromkeys(("scores", "unseen_scores"), (n, n_classes))
    shapes |= {"features": (n, tensors["features"].shape[-1]), "positions": (n, 2)}
    ranges = {"given": (-1, n_classes - 1), "labels": (0, n_classes - 1), "sources": (0, len(SOURCES) - 1)}
    for name, tensor in tensors.items():
        if tensor.dtype != DTYPES[name] or tuple(tensor.shape) != shapes[name]:
            return f"{name} is {tensor.dtype} {tuple(tensor.shape)}, not {DTYPES[name]} {shapes[name]}"
        if name in ranges and not bool(((tensor >= ranges[name][0]) & (tensor <= ranges[name][1])).all()):
            return f"{name} must lie between {ranges[name][0]} and {ranges[name][1]}"
        if tensor.is_floating_point() and name not in MAY_BE_UNKNOWN and not bool(tensor.isfinite().all()):
            return f"{name} must be finite"
    for name in ("scores", "unseen_scores"):
        known = tensors[name][~tensors[name].isnan().any(dim=1)]
        if not bool(((known >= 0) & (known <= 1) & ((known.sum(dim=1, keepdim=True) - 1).abs() < 1e-3)).all()):
            return f"{name} must be probabilities"
    return None


LABELS = "labels.csv"
FORMULA_SIGNS = ("=", "+", "-", "@", "\t", "\r")
HEADING = ("path", "label", "confidence", "margin", "source", "suspect")


def write_labels(folder: Path, labeling: Labeling) -> Path:
    """UTF-8; numbers with four digits. No cell is a formula to a spreadsheet."""
    columns = (labeling.labels, labeling.confidence, labeling.margin, labeling.sources, labeling.is_suspect)
    class_names = labeling.summary.class_names
    rows = (
        (
            path_cell(name),
            class_names[label],
            f"{confidence:.4f}",
            f"{margin:.4f}",
            SOURCES[source],
            str(is_suspect).lower(),
        )
        for name, label, confidence, margin, source, is_suspect in zip(
            labeling.names, *(column.tolist() for column in columns), strict=True
        )
    )
    write_csv(folder / LABELS, HEADING, rows)
    return folder / LABELS


def path_cell(name: str) -> str:
    """A path that no spreadsheet takes for a formula and that still names its file."""
    return f"./{name}" if name.startswith(FORMULA_SIGNS) else name
