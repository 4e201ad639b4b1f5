"""A labeling in its run folder, as an object."""

import signal
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from laplacenet.api.checks import PathLike, as_integer, as_path, require_exists, require_labeling

if TYPE_CHECKING:
    import numpy as np

    from laplacenet.labeling.estimate import Evaluation
    from laplacenet.labeling.pictures import StageProgress
    from laplacenet.labeling.predictions import Prediction
    from laplacenet.labeling.result import Estimate, Labeling
    from laplacenet.runtime import Monitor


@dataclass(frozen=True)
class Suggestion:
    """A row to label next, or a given label to look at again."""

    path: str
    guess: str
    confidence: float
    reason: str


class Interrupted(KeyboardInterrupt):
    """A signal stopped a labeling; all of it is saved, and `label(resume=run.path)` goes on."""

    def __init__(self, run: "LabelingRun", number: signal.Signals) -> None:
        super().__init__(f"{number.name}: go on with laplacenet.label(resume={str(run.path)!r})")
        self.run, self.exit_code = run, 128 + number.value


class LabelingRun:
    """A labeling in its run folder.

    `stages` says how far each stage of training got; `is_out_of_time` is true where the time limit ended the session
    before the labeling was complete. `label(resume=run.path)` goes on.
    """

    def __init__(
        self, path: PathLike, *, stages: "tuple[StageProgress, ...]" = (), is_out_of_time: bool = False
    ) -> None:
        self.path, self.stages, self.is_out_of_time = require_labeling(path), stages, is_out_of_time

    def __repr__(self) -> str:
        return f"LabelingRun({str(self.path)!r})"

    @cached_property
    def data(self) -> "Labeling":
        """All of it, as tensors; refused where a file is damaged."""
        from laplacenet.labeling.result import load_labeling

        return load_labeling(self.path)

    @property
    def has_labels(self) -> bool:
        """False where the time was up, or a signal came, before anything was learned."""
        from laplacenet.labeling.result import SUMMARY

        return (self.path / SUMMARY).is_file()

    @property
    def is_complete(self) -> bool:
        return self.has_labels and self.data.summary.is_complete

    @property
    def paths(self) -> tuple[str, ...]:
        """Below the folder of pictures; `row 17` for arrays."""
        return self.data.names

    @property
    def labels(self) -> list[str]:
        """The class of each row, given or new."""
        names = self.data.summary.class_names
        return [names[label] for label in self.data.labels.tolist()]

    @property
    def confidence(self) -> "np.ndarray[Any, Any]":
        """The calibrated probability of each label."""
        found: np.ndarray[Any, Any] = self.data.confidence.numpy()
        return found

    @property
    def is_given(self) -> "np.ndarray[Any, Any]":
        found: np.ndarray[Any, Any] = self.data.is_given.numpy()
        return found

    @property
    def class_names(self) -> tuple[str, ...]:
        return self.data.summary.class_names

    @property
    def estimate(self) -> "Estimate":
        """How accurate the new labels are.

        `estimate.accuracy` has `value` and its 95 % confidence interval, `low` to `high`; it is None where too few
        labels were given.
        """
        return self.data.summary.estimate

    def next(self, n: int = 50) -> list[Suggestion]:
        """The rows whose labels would help most, best first; a shorter list is the beginning of a longer one."""
        from laplacenet.labeling.acquisition import next_entries

        return self._suggestions(next_entries(self.data, as_integer(n, name="-n", least=None)))

    def suspects(self, n: int = 50) -> list[Suggestion]:
        """Given labels that are most likely wrong; `guess` is what the others say."""
        from laplacenet.labeling.acquisition import suspect_entries

        return self._suggestions(suspect_entries(self.data, as_integer(n, name="-n", least=None)))

    def _suggestions(self, entries: Iterable[tuple[int, int, str]]) -> list[Suggestion]:
        from laplacenet.labeling.acquisition import guess_confidence

        names = self.class_names
        return [
            Suggestion(self.paths[row], names[guess], guess_confidence(self.data, row, guess), reason)
            for row, guess, reason in entries
        ]

    def predict(
        self, pictures: PathLike | Sequence[PathLike], *, device: str = "auto", monitor: "Monitor | None" = None
    ) -> "list[Prediction]":
        """Labels for new pictures, folders of them, or array files; what cannot be read is left out.

        Names are paths below the folder, as in `paths`; if several paths are given, they begin with their own.
        """
        several = pictures if isinstance(pictures, Iterable) and not isinstance(pictures, str) else [pictures]
        paths = [as_path(path, name="pictures") for path in several]
        for path in paths:
            require_exists(path, what="pictures")
        from laplacenet.data import Skipped
        from laplacenet.labeling.beside.joined_model import load_any_network
        from laplacenet.labeling.embeddings import graph_predictions, holds_graph_model, load_graph_model
        from laplacenet.labeling.feature_model import feature_predictions, holds_feature_model, load_feature_model
        from laplacenet.labeling.predictions import predictions, sources_of
        from laplacenet.runtime import choose_device

        sources = sources_of(paths)
        if holds_graph_model(self.path):
            return list(graph_predictions(load_graph_model(self.path), sources, monitor=monitor))
        place = choose_device(device)
        if holds_feature_model(self.path):
            found = feature_predictions(load_feature_model(self.path), sources, device=place, monitor=monitor)
        else:
            network, description = load_any_network(self.path)
            found = predictions(network.to(place), description, sources, monitor=monitor)
        return [one for one in found if not isinstance(one, Skipped)]

    def evaluate(self, truth: PathLike) -> "Evaluation":
        """The accuracy of the new labels, measured by a file of true labels."""
        path = as_path(truth, name="truth")
        require_exists(path, what="truth")
        from laplacenet.labeling.estimate import evaluate_labeling

        return evaluate_labeling(self.path, self.data, path)

    def report(self) -> Path:
        """Write `report.html` into the run folder; returns its path."""
        from laplacenet.reports.labeling_page import write_labeling_page

        return write_labeling_page(self.path)
