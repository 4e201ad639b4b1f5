"""A graph over embeddings as a model for new rows; `laplacenet review` saves one."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from jaxtyping import Float
from torch import Tensor

from laplacenet.graph.induction import neighbor_means
from laplacenet.graph.pseudo_labels import unit_rows
from laplacenet.labeling.evidence import graph_evidence
from laplacenet.labeling.predictions import Prediction, Source, vector_predictions
from laplacenet.models.saved import DESCRIPTION, model_kind, read_model_files, usable_temperature, write_model_files
from laplacenet.runtime import InputError, Monitor

KIND = "graph"


@dataclass(frozen=True, eq=False)
class GraphModel:
    """Unit vectors with their scores (zero where no label reached), and what turns scores into probabilities."""

    points: Float[Tensor, "n d"]
    scores: Float[Tensor, "n C"]
    masses: Float[Tensor, " C"]
    prior: tuple[float, ...]
    class_names: tuple[str, ...]
    k: int
    temperature: float

    def __post_init__(self) -> None:
        (n, n_classes), names = self.scores.shape, self.class_names
        if len(self.points) != n or self.masses.shape != (n_classes,):
            raise ValueError(f"points, scores and masses do not fit one another ({n} rows, {n_classes} classes)")
        if len(set(names)) != n_classes or len(names) != n_classes:
            raise ValueError(f"class_names must be {n_classes} different names")
        if len(self.prior) != n_classes or not all(0 < share <= 1 for share in self.prior):
            raise ValueError(f"prior must be {n_classes} shares above 0")
        if self.k < 1:
            raise ValueError(f"k = {self.k}; it must be at least 1")
        usable_temperature(self.temperature)

    def probabilities(self, vectors: Float[Tensor, "m d"]) -> Float[Tensor, "m C"]:
        """F = γ𝒲F + Y holds at the labeled rows' neighbors; for a row without a label it is the mean of its own."""
        if vectors.shape[1] != self.points.shape[1]:
            raise InputError(f"embeddings of {vectors.shape[1]} numbers; this model reads {self.points.shape[1]}")
        queries, otherwise = unit_rows(vectors.float()), self.masses.double() / self.masses.double().sum()
        means = neighbor_means(queries, self.points, self.scores.double(), k=self.k, otherwise=otherwise)
        return graph_evidence(means, self.masses, self.prior).at(self.temperature)


def save_graph_model(folder: Path, model: GraphModel) -> None:
    tensors = {"points": model.points, "scores": model.scores.float(), "masses": model.masses.double()}
    description = {
        "kind": KIND,
        "class_names": model.class_names,
        "prior": model.prior,
        "k": model.k,
        "temperature": model.temperature,
    }
    write_model_files(folder, description, tensors)


def holds_graph_model(folder: Path) -> bool:
    """Whether the folder's model is a graph over embeddings, not a network."""
    return model_kind(folder) == KIND


def load_graph_model(folder: Path) -> GraphModel:
    found, tensors = read_model_files(folder)
    try:
        return GraphModel(
            points=tensors["points"],
            scores=tensors["scores"],
            masses=tensors["masses"],
            prior=tuple(float(share) for share in found["prior"]),
            class_names=tuple(str(name) for name in found["class_names"]),
            k=int(found["k"]),
            temperature=float(found["temperature"]),
        )
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise InputError(f"{folder / DESCRIPTION}: not the description of a graph over embeddings ({error})") from error


def graph_predictions(
    model: GraphModel, sources: Sequence[Source], *, monitor: Monitor | None = None
) -> Iterator[Prediction]:
    """One for each row of the array files, in order."""
    return vector_predictions(model.probabilities, model.class_names, sources, monitor=monitor)
