"""What scores say of a row beyond what they say of every row.

Labels travel far over the graph, so the scores of a row are nearly those of all rows: what tells rows apart is how far
a row's score for a class stands above that class's mean. The mean itself tells how many labels a class was given, not
how many rows it has, and is replaced by the prior. Where labels were given equally to unequal classes, or at random,
this labels more rows rightly than the scores themselves, and a temperature can make probabilities of it.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

SMALLEST = 1e-6


@dataclass(frozen=True, eq=False)
class Evidence:
    """`softmax(logits / T + offset)` are the probabilities of the classes at temperature T."""

    logits: Float[Tensor, "n C"]
    offset: Float[Tensor, "n C"]

    def at(self, temperature: float) -> Float[Tensor, "n C"]:
        return (self.logits.double() / temperature + self.offset.double()).softmax(dim=1).float()

    def rows(self, chosen: Bool[Tensor, " n"]) -> "Evidence":
        return Evidence(self.logits[chosen], self.offset[chosen])

    def to(self, chosen: Bool[Tensor, " n"], others: "Evidence") -> "Evidence":
        """The evidence of the others in the chosen rows."""
        pairs = ((self.logits, others.logits), (self.offset, others.offset))
        return Evidence(*(torch.where(chosen[:, None], new, old) for old, new in pairs))


def class_masses(scores: Float[Tensor, "n C"], is_labeled: Bool[Tensor, " n"]) -> Float[Tensor, " C"]:
    """The mean score of each class among the rows without a label; among all where every row has one."""
    counted = scores if bool(is_labeled.all()) else scores[~is_labeled]
    return counted.double().mean(dim=0)


def graph_evidence(scores: Float[Tensor, "n C"], masses: Float[Tensor, " C"], prior: tuple[float, ...]) -> Evidence:
    """How far each score stands above its class's mean; a class that no label speaks for has none."""
    relative = scores.double() / masses.clamp(min=SMALLEST)
    logits = torch.where(masses > 0, relative, 0).clamp(min=SMALLEST).log()
    return Evidence(logits, torch.tensor(prior, dtype=torch.float64).log().expand_as(logits))


def score_evidence(scores: Float[Tensor, "n C"]) -> Evidence:
    """Scores that are probabilities already: at temperature 1 they come out as they are."""
    logits = scores.double().clamp(min=SMALLEST).log()
    return Evidence(logits, torch.zeros_like(logits))


def no_evidence(n: int, n_classes: int) -> Evidence:
    nothing = torch.full((n, n_classes), torch.nan, dtype=torch.float64)
    return Evidence(nothing, nothing.clone())
