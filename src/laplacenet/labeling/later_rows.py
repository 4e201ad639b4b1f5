"""Labels for embeddings that came after the graph was made."""

from collections.abc import Iterator, Sequence

from laplacenet.data import VectorSet
from laplacenet.labeling.graph_model import GraphModel
from laplacenet.models.predictions import Prediction, Source, row_names, told
from laplacenet.runtime import InputError


def graph_predictions(model: GraphModel, sources: Sequence[Source]) -> Iterator[Prediction]:
    """One for each row of the array files, in order."""
    for source, rows in [(source, vectors(source)) for source in sources]:
        yield from told(row_names(source.path, len(rows)), model.probabilities(rows.vectors), model.class_names)


def vectors(source: Source) -> VectorSet:
    rows = None if source.rows is None else source.rows.rows
    if not isinstance(rows, VectorSet):
        raise InputError(f"{source.path}: holds no embeddings; this run labeled some, give .npy or .npz files of more")
    return rows
