"""Network pseudo-labels: the paper's comparison, LaplaceNet's training without its graph.

Before each epoch the network labels every image with the class of its largest output, and then trains on these labels
as LaplaceNet does on those of the graph. Nothing but the given labels corrects its mistakes. The difference to
LaplaceNet is what the graph, with its alignment, contributes.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from laplacenet.graph import PseudoLabels
from laplacenet.models import Inference
from laplacenet.training.methods.laplacenet import PseudoLabelConfig, PseudoLabeling


@dataclass(frozen=True)
class NetworkLabelsConfig(PseudoLabelConfig):
    """LaplaceNet's settings, without those of the graph."""

    name: str = "network-labels"


@dataclass(frozen=True, eq=False)
class NetworkLabels(PseudoLabeling):
    """LaplaceNet's L_ssl with ŷ_i = argmax f(x_i), computed before each epoch; given labels are kept.

    Kept between steps: the pseudo-labels, which are computed anew before each epoch. With an `ema_decay` also an
    average of the weights, which then labels and is tested.
    """

    config: NetworkLabelsConfig

    divides_rows: ClassVar[bool] = True
    summary: ClassVar[str] = "LaplaceNet's training with the network's own argmax as pseudo-labels"
    source: ClassVar[str] = "The comparison in LaplaceNet's Figure 3; Lee, Pseudo-Label, 2013"

    @torch.no_grad()
    def label(self, inference: Inference, features: Float[Tensor, "n d"]) -> PseudoLabels:
        scores = inference.network.head(features).softmax(dim=1)
        return PseudoLabels.by_scores(scores, self.problem.labels)
