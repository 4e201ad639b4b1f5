"""Answers over the graph: a classifier on the embeddings, its probabilities on every node, little diffusion.

Everything starts from the last solution, so that one more answer costs a few iterations.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from laplacenet.graph import GraphConfig, align_to_prior, solve
from laplacenet.graph.pseudo_labels import connect, unit_rows

K = 10
GAMMA = 0.5
TOL = 1e-3
MAX_ITERATIONS = 50
ALIGNMENT_ITERATIONS = 100
SCALE = 8.0
"""Length that embeddings are brought to before the classifier's weights are penalized by half their square."""
LBFGS_ITERATIONS = 60
WARM_ITERATIONS = 15
"""With one more answer the last weights are nearly right."""
ANSWERS_TO_BELIEVE = 5
"""A class: after so many the shares of the labels found count as much as equal shares."""


@dataclass(frozen=True, eq=False)
class Embedded:
    """Embeddings of pictures, centered and of length 1, and the graph over them; `rows` says which pictures they are.

    The graph is the same whichever answers are given: it is made once for as many pictures as are embedded.
    """

    rows: Int64[Tensor, " m"]
    points: Float[Tensor, "m d"]
    W_normalized: Float[Tensor, "m m"]
    center: Float[Tensor, " d"]
    lengths: Float[Tensor, " m"]

    def vectors(self) -> Float[Tensor, "m d"]:
        """The embeddings as they were before they were centered."""
        return self.points * self.lengths[:, None] + self.center

    def __len__(self) -> int:
        return len(self.rows)


@torch.no_grad()
def join(rows: Int64[Tensor, " m"], vectors: Float[Tensor, "m d"]) -> Embedded:
    center = vectors.mean(0)
    points = unit_rows(vectors - center)
    lengths = torch.linalg.vector_norm(vectors - center, dim=1)
    return Embedded(rows, points, connect(points, GraphConfig(k=K)).W_normalized, center, lengths)


class Propagation:
    """Scores of all embedded pictures, again and again as answers come in; not for two threads at a time."""

    def __init__(self, embedded: Embedded) -> None:
        self.embedded = embedded
        self._weights: dict[int, Float[Tensor, " d1"]] = {}
        self._solution: dict[int, Float[Tensor, " m"]] = {}

    @torch.no_grad()
    def scores(self, y: Int64[Tensor, " m"], columns: list[int]) -> Float[Tensor, "m C"]:
        """Rows that sum to 1; `y` is a place in `columns` (which name the classes), −1 where there is no answer."""
        points, n_classes = self.embedded.points, len(columns)
        if n_classes == 1:
            return points.new_ones(len(points), 1)
        weights = self._fit(y, columns)
        seeds = (SCALE * (points @ weights[:-1]) + weights[-1]).softmax(1)
        is_given = y >= 0
        seeds[is_given] = torch.nn.functional.one_hot(y[is_given], n_classes).to(seeds.dtype)
        F = self._diffuse(seeds, columns)
        found = torch.bincount(F[~is_given].argmax(1), minlength=n_classes)
        prior = believed_shares(found, n_answers=int(is_given.sum()))
        aligned = align_to_prior(F.clamp(min=0), is_given, prior, iterations=ALIGNMENT_ITERATIONS)
        aligned[is_given] = seeds[is_given]
        return aligned.to(points.dtype)

    def _fit(self, y: Int64[Tensor, " m"], columns: list[int]) -> Float[Tensor, "d1 C"]:
        """Multinomial logistic regression on the answered pictures, warm-started; the last row holds the offsets."""
        rows = torch.nonzero(y >= 0).squeeze(1)
        X = SCALE * self.embedded.points[rows]
        start = X.new_zeros(X.shape[1] + 1)
        weights = torch.stack([self._weights.get(column, start) for column in columns], dim=1)
        weights = fit_softmax(X, y[rows], weights, max_iterations=WARM_ITERATIONS)
        self._weights = {column: weights[:, place] for place, column in enumerate(columns)}
        return weights

    def _diffuse(self, seeds: Float[Tensor, "m C"], columns: list[int]) -> Float[Tensor, "m C"]:
        """(1 − γ)(I − γ𝒲)⁻¹ of the seeds: conjugate gradients for what the last solution still lacks."""
        W = self.embedded.W_normalized
        F = torch.stack([self._solution.get(column, seeds[:, place]) for place, column in enumerate(columns)], dim=1)
        missing = (1 - GAMMA) * seeds - (F - GAMMA * (W @ F))
        ratio = float((missing.norm(dim=0) / ((1 - GAMMA) * seeds).norm(dim=0).clamp(min=1e-12)).max())
        if ratio > TOL:
            tol = min(0.5, TOL / ratio)
            F = F + solve(W, missing, gamma=GAMMA, tol=tol, max_iterations=MAX_ITERATIONS).F
        self._solution = {column: F[:, place] for place, column in enumerate(columns)}
        return F


def believed_shares(found: Int64[Tensor, " C"], *, n_answers: int) -> Float[Tensor, " C"]:
    """The classes' shares: those of the labels found, drawn towards equal ones while answers are few.

    How often a class was answered tells nothing: questions are chosen, and a grid is of one class.
    """
    n_classes = len(found)
    doubt = ANSWERS_TO_BELIEVE * n_classes / (ANSWERS_TO_BELIEVE * n_classes + n_answers)
    return doubt / n_classes + (1 - doubt) * found.double() / found.sum().clamp(min=1)


def fit_softmax(
    X: Float[Tensor, "m d"],
    y: Int64[Tensor, " m"],
    weights: Float[Tensor, "d1 C"],
    *,
    max_iterations: int = LBFGS_ITERATIONS,
) -> Float[Tensor, "d1 C"]:
    """argmin Σ cross-entropy + ½ ‖weights without offsets‖², from `weights` on, by L-BFGS."""
    weights = weights.clone()
    one_hot = torch.nn.functional.one_hot(y, weights.shape[1]).to(X.dtype)
    optimizer = torch.optim.LBFGS(
        [weights],
        max_iter=max_iterations,
        history_size=10,
        tolerance_grad=1e-3,
        tolerance_change=1e-6,
        line_search_fn="strong_wolfe",
    )

    def energy() -> Tensor:
        logits = X @ weights[:-1] + weights[-1]
        residual = logits.softmax(1) - one_hot
        weights.grad = torch.cat([X.T @ residual + weights[:-1], residual.sum(0, keepdim=True)])
        loss: Tensor = torch.nn.functional.cross_entropy(logits, y, reduction="sum")
        return loss + weights[:-1].square().sum() / 2

    optimizer.step(energy)  # type: ignore[no-untyped-call]
    return weights.detach()
