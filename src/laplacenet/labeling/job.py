"""What a labeling works on: its settings, the rows with their few labels, and the rows that judge it, if any."""

from dataclasses import dataclass, replace
from pathlib import Path

import torch
from jaxtyping import Int64
from torch import Tensor

from laplacenet.data import Collection, ImageSet, read_collection, read_judges, refuse_skipped
from laplacenet.data.judges import labels_own_rows
from laplacenet.labeling.estimate import accuracy_on
from laplacenet.labeling.result import Estimate
from laplacenet.labeling.settings import LabelingSettings
from laplacenet.runtime import Monitor, NullMonitor


@dataclass(frozen=True, eq=False)
class Job:
    settings: LabelingSettings
    collection: Collection
    judges: Collection | None

    @property
    def given(self) -> Int64[Tensor, " n"]:
        return self.collection.labels

    @property
    def class_names(self) -> tuple[str, ...]:
        return self.collection.class_names

    @property
    def are_pictures(self) -> bool:
        return isinstance(self.collection.rows, ImageSet)

    @property
    def notes(self) -> list[str]:
        return [*self.collection.notes, *(self.judges.notes if self.judges is not None else ())]

    @property
    def are_judges_inside(self) -> bool:
        """Whether the test set is a list of true labels for rows of the collection itself."""
        test = self.settings.collection.test
        return test is not None and not Path(test).is_dir() and labels_own_rows(Path(test))

    def tested(
        self, estimate: Estimate, labels: Int64[Tensor, " n"], predicted: Int64[Tensor, " m"] | None
    ) -> Estimate:
        """The estimate with the accuracy on the test set: of the rows' own labels, or of the model's for other rows."""
        if self.judges is None:
            return estimate
        if self.are_judges_inside:
            row_of = {name: row for row, name in enumerate(self.collection.names)}
            predicted = labels[torch.tensor([row_of[name] for name in self.judges.names])]
        assert predicted is not None, "other rows were put before the model"
        n, accuracy = accuracy_on(predicted, self.judges.labels)
        return replace(estimate, n_test=n, test_accuracy=accuracy)


def read_job(settings: LabelingSettings, monitor: Monitor | None = None) -> Job:
    """Read what the settings name."""
    monitor = monitor or NullMonitor()
    config = settings.collection
    test = None if config.test is None else Path(config.test)
    files = [Path(file) for file in config.labels]
    labels = files if len(files) > 1 else (files[0] if files else None)
    collection = read_collection(
        config.pictures,
        labels=labels,
        size=config.size,
        leave_out=test,
        merge_similar_classes=config.merge_classes,
        monitor=monitor,
    )
    if config.strict:
        refuse_skipped(collection.skipped)
    judges = None if test is None else read_judges(test, collection, monitor=monitor)
    return Job(settings, collection, judges)
