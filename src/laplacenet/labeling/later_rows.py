"""Labels for embeddings that came after the graph was made."""

from collections.abc import Iterator, Sequence

from laplacenet.data import VectorSet
from laplacenet.labeling.graph_model import GraphModel
from laplacenet.labeling.predictions import Prediction, Source, row_names, told
from laplacenet.runtime import InputError, Monitor, Silence

BLOCK = 5_000  # rows judged at once


def graph_predictions(
    model: GraphModel, sources: Sequence[Source], *, monitor: Monitor | None = None
) -> Iterator[Prediction]:
    """One for each row of the array files, in order."""
    for source, rows in [(source, vectors(source)) for source in sources]:
        names = row_names(source.path, len(rows))
        for start in range(0, len(rows), BLOCK):
            some = names[start : start + BLOCK]
            probabilities = model.probabilities(rows.vectors[start : start + BLOCK])
            (monitor or Silence()).advance(len(some))
            yield from told(some, probabilities, model.class_names)


def vectors(source: Source) -> VectorSet:
    rows = None if source.rows is None else source.rows.rows
    if not isinstance(rows, VectorSet):
        raise InputError(f"{source.path}: holds no embeddings; this run labeled some, give .npy or .npz files of more")
    return rows
