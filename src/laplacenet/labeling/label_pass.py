"""Label all rows with a trained network: by the graph over its embeddings, by its outputs, and by both."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from jaxtyping import Float, Int64, UInt8
from torch import Tensor

from laplacenet.graph import GraphConfig
from laplacenet.graph.pseudo_labels import connect, unit_rows
from laplacenet.labeling.evidence import Evidence, graph_scores, score_evidence
from laplacenet.labeling.result import SOURCES
from laplacenet.models import Inference
from laplacenet.runtime import InputError
from laplacenet.runtime.sealed_tensors import read_sealed_tensors, write_sealed_tensors

GRAPH_TEMPERATURE = 0.5
"""The temperature at which the graph is as confident as the network, tuned on other pictures."""


@dataclass(frozen=True, eq=False)
class LabelPass:
    """The probabilities of the graph and of the network for every row, and the embeddings, of length 1."""

    graph: Float[Tensor, "n C"]
    network: Float[Tensor, "n C"]
    features: Float[Tensor, "n d"]
    prior: Float[Tensor, " C"]
    unreachable: Tensor

    @property
    def evidence(self) -> Evidence:
        """The mean of both: the graph is more accurate on clustered embeddings, the network on others."""
        return score_evidence((self.graph + self.network) / 2)

    @property
    def finders(self) -> UInt8[Tensor, " n"]:
        """The graph where it agrees with the mean, else the network."""
        is_graphs = self.evidence.logits.argmax(dim=1) == self.graph.argmax(dim=1)
        return torch.where(is_graphs, SOURCES.index("graph"), SOURCES.index("network")).to(torch.uint8)


def label_all(
    inference: Inference, inputs: Tensor, seen: Int64[Tensor, " n"], config: GraphConfig, *, prior: str, n_classes: int
) -> LabelPass:
    """`seen` are the labels that the network was trained with; the graph uses no others.

    The processes of the inference's group share the work; each gets the whole result.
    """
    features = inference.embed(inputs)
    with torch.no_grad():
        outputs = inference.network.head(features).float().softmax(dim=1).cpu()
    points = unit_rows(features)
    by_graph = graph_scores(connect(points, config, inference.group), seen, config, prior=prior, n_classes=n_classes)
    return LabelPass(
        graph=by_graph.evidence.at(GRAPH_TEMPERATURE),
        network=outputs,
        features=points.float().cpu(),
        prior=torch.tensor(by_graph.prior),
        unreachable=by_graph.unreachable,
    )


FIELDS = ("graph", "network", "features", "prior", "unreachable")


def save_pass(path: Path, found: LabelPass, *, run: Path) -> None:
    write_sealed_tensors(path, {name: getattr(found, name) for name in FIELDS}, run=run)


def load_pass(path: Path, *, run: Path) -> LabelPass:
    try:
        tensors, _ = read_sealed_tensors(path, FIELDS, run=run)
    except InputError as error:
        raise InputError(f"{error}; delete it, and the resumed run labels that stage again") from error
    return LabelPass(**tensors)


def vote(passes: Sequence[LabelPass]) -> LabelPass:
    """The mean of several networks; embeddings, prior and reach are those of the first."""
    graph, network = (torch.stack([getattr(found, name) for found in passes]).mean(dim=0) for name in FIELDS[:2])
    return replace(passes[0], graph=graph, network=network)
