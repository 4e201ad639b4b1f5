"""The records of a run: a line for every epoch, and the outcome."""

import dataclasses
import hashlib
import itertools
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from laplacenet.runtime import InputError, RunFolder
from laplacenet.runtime.decoding import Kind, decode
from laplacenet.runtime.run_folder import EPOCHS

FINAL = "final.json"
HASH_OF_EPOCHS = "hash of " + EPOCHS
COLLAPSED = 0.999  # the mean cosine between embeddings from which they are one and the same


@dataclass(frozen=True)
class EpochRecord:
    """One line of `epochs.jsonl`. An epoch that was interrupted has two: `is_complete` is false in the first.

    `n_steps` and `step_s`, the mean time of a step, are those of the line; `elapsed_s` counts all of the run, with what
    came before a resumption. `loss`, and of methods that leave guesses out `used_guesses`, the share of the network's
    guesses that counted in it, are means since the epoch began: the last line has those of the whole epoch.
    Of an epoch without pseudo-labels (the supervised start, or one resumed in its middle) their fields are None.
    `mean_cosine` is that between embeddings; `missing_class` is the first of the `n_missing_classes` that have labels
    but were given to no unlabeled input.
    """

    epoch: int
    phase: str
    step: int
    n_steps: int
    is_complete: bool
    loss: float
    lr: float
    test_error: float | None
    pseudo_label_accuracy: float | None
    is_converged: bool | None
    n_iterations: int | None
    n_unreachable: int | None
    recall: float | None
    label_s: float
    step_s: float
    compile_s: float
    elapsed_s: float
    mean_cosine: float | None = None
    n_missing_classes: int | None = None
    missing_class: str | None = None
    used_guesses: float | None = None

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


@dataclass(frozen=True)
class Outcome:
    """`final.json`. The result is `test_error`, that of the last network; the best on test is shown beside it only.

    The invariances are those under views of unlabeled images; `test_invariance_as_labeled` is that under the weaker
    views of labeled ones, for the paper does not say which it judges by. `used_guesses` is that of the last epoch.
    Older records have neither.
    """

    steps: int
    n_labeled: int
    test_error: float | None
    best_test_error: float | None
    pseudo_label_accuracy: float | None
    train_invariance: float | None
    test_invariance: float | None
    n_epochs: int
    n_epochs_not_converged: int
    total_s: float
    label_s: float
    compile_s: float
    median_step_s: float | None
    test_invariance_as_labeled: float | None = None
    used_guesses: float | None = None

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


def read_epochs(folder: RunFolder, *, up_to_step: int | None = None) -> list[EpochRecord]:
    """The run's epochs; those of a finished run must be the ones that its outcome was made of."""
    source = folder.path / EPOCHS
    if folder.has(FINAL):
        expected = folder.read_sealed(FINAL).get(HASH_OF_EPOCHS)
        if hash_of_epochs(folder) != expected:
            raise InputError(f"{source}: damaged (its checksum differs from that in {FINAL})")
    return [_read(EpochRecord, content, source=str(source)) for content in folder.epochs(up_to_step=up_to_step)]


def read_outcome(folder: RunFolder) -> Outcome:
    """The outcome of a finished run."""
    if not folder.has(FINAL):
        raise InputError(f"{folder.path}: this run is not finished; continue it with --resume {folder.path}")
    content = folder.read_sealed(FINAL)
    content.pop(HASH_OF_EPOCHS, None)
    return _read(Outcome, content, source=str(folder.path / FINAL))


def write_outcome(folder: RunFolder, outcome: Outcome) -> None:
    """The last file of a run: with it the run is finished."""
    folder.write_sealed(FINAL, {**outcome.to_json(), HASH_OF_EPOCHS: hash_of_epochs(folder)})


def hash_of_epochs(folder: RunFolder) -> str:
    return hashlib.sha256(folder.epoch_lines()).hexdigest()


def outcome_of(records: Sequence[EpochRecord], *, n_labeled: int) -> Outcome:
    """A summary of the epochs; the caller adds the numbers of the last network."""
    last_step = records[-1].step if records else 0
    return Outcome(
        steps=last_step,
        n_labeled=n_labeled,
        test_error=None,
        best_test_error=min((r.test_error for r in records if r.test_error is not None), default=None),
        pseudo_label_accuracy=last_known(records, "pseudo_label_accuracy"),
        used_guesses=last_known(records, "used_guesses"),
        train_invariance=None,
        test_invariance=None,
        n_epochs=sum(record.is_complete for record in records),
        n_epochs_not_converged=sum(record.is_converged is False for record in records),
        total_s=records[-1].elapsed_s if records else 0.0,
        label_s=sum((record.label_s for record in records), 0.0),
        compile_s=sum((record.compile_s for record in records), 0.0),
        median_step_s=median_step_s(records),
    )


def median_step_s(records: Sequence[EpochRecord]) -> float | None:
    """The time of the middle step: the first epochs warm up, and only in a short run do they count.

    Each step is given its line's mean; a line with few steps, such as a piece of an epoch, counts little.
    """
    timed = sorted((record.step_s, record.n_steps) for record in records if record.n_steps)
    if not timed:
        return None
    times, sizes = zip(*timed, strict=True)
    reached, half = list(itertools.accumulate(sizes)), sum(sizes) / 2
    lower, upper = times[bisect_left(reached, half)], times[bisect_right(reached, half)]
    return float(lower + upper) / 2


def last_known(records: Sequence[EpochRecord], field: str) -> Any:
    """The field's last value that is not None."""
    known = [value for record in records if (value := getattr(record, field)) is not None]
    return known[-1] if known else None


def remarks(record: EpochRecord) -> dict[str, str]:
    """Problems of the graph in this epoch, by kind, so that each kind is reported once."""
    found = {}
    if record.is_converged is False:
        found["converged"] = (
            f"epoch {record.epoch}: the conjugate gradients did not converge in {record.n_iterations} iterations;"
            " raise graph.max_iterations or graph.tol"
        )
    if record.n_unreachable:
        found["unreachable"] = (
            f"epoch {record.epoch}: no label reaches {record.n_unreachable} inputs, which are left out;"
            " raise graph.k or give more labels"
        )
    if record.n_missing_classes:
        others = record.n_missing_classes - 1
        found["missing"] = (
            f"epoch {record.epoch}: no unlabeled input is given the class {record.missing_class!r}"
            + (f", nor {others} others" if others else "")
            + "; give more labels of it, or set graph.prior"
        )
    if record.mean_cosine is not None and record.mean_cosine > COLLAPSED:
        found["collapsed"] = (
            f"epoch {record.epoch}: the embeddings have collapsed (their mean cosine is {record.mean_cosine:.5f}),"
            " so neighbors say nothing; lower train.lr or give more labels"
        )
    if record.recall is not None:
        found["recall"] = (
            f"epoch {record.epoch}: neighbors are searched by IVF, which finds {record.recall:.1%} of them"
        )
    return found


def _read(kind: type[Kind], content: Any, *, source: str) -> Kind:
    try:
        return decode(kind, content, source="")
    except InputError as error:
        raise InputError(f"{source}: not what this version writes there ({error})") from error
