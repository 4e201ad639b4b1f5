"""Answers over the graph: a classifier on the embeddings, its probabilities on every node, little diffusion.

Everything starts from the last solution, so that one more answer costs a few iterations. What the scores said of a
picture just before its answer came tells how far they can be believed: that sets their temperature.
"""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from laplacenet.graph import GraphConfig, align_to_prior, solve
from laplacenet.graph.guided import fit_temperature, tempered
from laplacenet.graph.pseudo_labels import connect, unit_rows

K = 10
GAMMA = 0.7
TOL = 1e-3
MAX_ITERATIONS = 50
ALIGNMENT_ITERATIONS = 100
N_DIRECTIONS = 256
"""Leading directions of the embeddings, which the classifier sees: as good as all 1 280, and five times faster."""
MOST_FOR_DIRECTIONS = 10_000
SCALE = 10.0
"""Length that embeddings are brought to before the classifier's weights are penalized by half their square."""
LBFGS_ITERATIONS = 60
WARM_ITERATIONS = 15
"""With one more answer the last weights are nearly right."""
ANSWERS_TO_BELIEVE = 5
"""A class: after so many the shares of the labels found count as much as equal shares."""
COUNT_OF_GUESS, MOST_GUESSES = 0.02, 4_000
"""What was said of a picture without an answer teaches the classifier too, as this part of an answer."""
GUESS_TEMPERATURE = 0.5
FIRST_ROUNDS = 3
"""Of classifier and graph where there are no guesses yet; with each answer there is one more."""
USUAL_TEMPERATURE = 0.5
"""Of the scores after diffusion, which makes them less sure than they are right."""
FEWEST_TO_CALIBRATE = 20
MOST_TO_CALIBRATE = 200
SMALLEST = 1e-9


@dataclass(frozen=True, eq=False)
class Embedded:
    """Embeddings of pictures, centered and of length 1, and the graph over them; `rows` says which pictures they are.

    The graph is the same whichever answers are given: it is made once for as many pictures as are embedded. `reduced`
    are the points by their leading directions.
    """

    rows: Int64[Tensor, " m"]
    points: Float[Tensor, "m d"]
    W_normalized: Float[Tensor, "m m"]
    center: Float[Tensor, " d"]
    lengths: Float[Tensor, " m"]
    reduced: Float[Tensor, "m r"]

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
    W_normalized = connect(points, GraphConfig(k=K)).W_normalized
    return Embedded(rows, points, W_normalized, center, lengths, leading_directions(points))


@torch.no_grad()
def leading_directions(points: Float[Tensor, "m d"]) -> Float[Tensor, "m r"]:
    """Coordinates of the points along the directions of their largest variance, at most `N_DIRECTIONS` of them."""
    mean = points.mean(0)
    some = points[:: -(-len(points) // MOST_FOR_DIRECTIONS)] - mean
    n_directions = min(N_DIRECTIONS, *some.shape)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)  # the search begins at random; the same points shall give the same directions
        _, _, V = torch.svd_lowrank(some, q=min(n_directions + 20, *some.shape), niter=3)
    return (points - mean) @ V[:, :n_directions]


class Propagation:
    """Scores of all embedded pictures, again and again as answers come in; not for two threads at a time."""

    def __init__(self, embedded: Embedded) -> None:
        self.embedded = embedded
        self.temperature = USUAL_TEMPERATURE
        self._weights: dict[int, Float[Tensor, " r1"]] = {}
        self._solution: dict[int, Float[Tensor, " m"]] = {}
        self._last: _Said | None = None
        self._judged: list[tuple[Float[Tensor, " c"], int]] = []

    @torch.no_grad()
    def scores(self, y: Int64[Tensor, " m"], columns: list[int]) -> Float[Tensor, "m C"]:
        """Rows that sum to 1; `y` is a place in `columns` (which name the classes), −1 where there is no answer."""
        if len(columns) == 1:
            return self.embedded.points.new_ones(len(y), 1)
        given, n_rounds = torch.nonzero(y >= 0).squeeze(1), FIRST_ROUNDS if self._last is None else 1
        if self._last is None and len(given) >= 2 * FEWEST_TO_CALIBRATE:
            # many answers at once, from a file or an earlier day: half of them are judged by the other half
            half = y.clone()
            half[given[1::2]] = -1
            self._last = _Said(self._spread(half, columns), half >= 0, columns)
        self._judge(y, columns)
        for _ in range(n_rounds):
            scores = self._spread(y, columns)
            self._last = _Said(scores, y >= 0, columns)
        return tempered(scores, self.temperature)

    def _judge(self, y: Int64[Tensor, " m"], columns: list[int]) -> None:
        """Note what the last scores said of the pictures answered since, and fit the temperature to it."""
        last = self._last
        if last is None:
            return
        for row in torch.nonzero((y >= 0) & ~last.is_given).squeeze(1).tolist():
            label = columns[int(y[row])]
            if label in last.columns:  # of a class that was not known nothing could be said
                self._judged.append((last.scores[row].clamp(min=SMALLEST).log(), last.columns.index(label)))
        self._judged = self._judged[-MOST_TO_CALIBRATE:]
        if len(self._judged) >= FEWEST_TO_CALIBRATE:
            width = max(len(said) for said, _ in self._judged)
            logits = np.full((len(self._judged), width), -1e4)
            for place, (said, _) in enumerate(self._judged):
                logits[place, : len(said)] = said.numpy()
            self.temperature = fit_temperature(logits, np.array([target for _, target in self._judged]))

    def _spread(self, y: Int64[Tensor, " m"], columns: list[int]) -> Float[Tensor, "m C"]:
        points, n_classes = self.embedded.reduced, len(columns)
        weights = self._fit(y, columns)
        seeds = (SCALE * (points @ weights[:-1]) + weights[-1]).softmax(1)
        is_given = y >= 0
        seeds[is_given] = torch.nn.functional.one_hot(y[is_given], n_classes).to(seeds.dtype)
        F = self._diffuse(seeds, columns).clamp(min=0)
        found = torch.bincount(F[~is_given].argmax(1), minlength=n_classes)
        prior = believed_shares(found, n_answers=int(is_given.sum()))
        aligned = align_to_prior(F, is_given, prior, iterations=ALIGNMENT_ITERATIONS)
        aligned[is_given] = seeds[is_given]
        return aligned.to(points.dtype)

    def _fit(self, y: Int64[Tensor, " m"], columns: list[int]) -> Float[Tensor, "r1 C"]:
        """Multinomial logistic regression on answers and guesses, warm-started; the last row holds the offsets."""
        rows = torch.nonzero(y >= 0).squeeze(1)
        targets = torch.nn.functional.one_hot(y[rows], len(columns)).to(self.embedded.reduced.dtype)
        counts = even_counts(y[rows])
        if self._last is not None and self._last.columns == columns:  # else guesses would speak against a new class
            others = torch.nonzero(y < 0).squeeze(1)
            others = others[:: max(1, -(-len(others) // MOST_GUESSES))]
            guesses = tempered(self._last.scores[others], GUESS_TEMPERATURE)
            rows, targets = torch.cat([rows, others]), torch.cat([targets, guesses])
            counts = torch.cat([counts, torch.full((len(others),), COUNT_OF_GUESS)])
        X = SCALE * self.embedded.reduced[rows]
        start = X.new_zeros(X.shape[1] + 1)
        weights = torch.stack([self._weights.get(column, start) for column in columns], dim=1)
        weights = fit_softmax(X, targets, weights, counts=counts, max_iterations=WARM_ITERATIONS)
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


@dataclass(frozen=True, eq=False)
class _Said:
    """Scores before the next answer, and the pictures that they had seen the answers of."""

    scores: Float[Tensor, "m C"]
    is_given: Bool[Tensor, " m"]
    columns: list[int]


def believed_shares(found: Int64[Tensor, " C"], *, n_answers: int) -> Float[Tensor, " C"]:
    """The classes' shares: those of the labels found, drawn towards equal ones while answers are few.

    How often a class was answered tells nothing: questions are chosen, and a grid is of one class.
    """
    n_classes = len(found)
    doubt = ANSWERS_TO_BELIEVE * n_classes / (ANSWERS_TO_BELIEVE * n_classes + n_answers)
    return doubt / n_classes + (1 - doubt) * found.double() / found.sum().clamp(min=1)


def even_counts(y: Int64[Tensor, " m"]) -> Float[Tensor, " m"]:
    """How often each row counts so that all classes count the same: a grid of 20 would make its class seem frequent."""
    counts = torch.bincount(y)
    return len(y) / ((counts > 0).sum() * counts[y])


def fit_softmax(
    X: Float[Tensor, "m d"],
    targets: Float[Tensor, "m C"],
    weights: Float[Tensor, "d1 C"],
    *,
    counts: Float[Tensor, " m"] | None = None,
    max_iterations: int = LBFGS_ITERATIONS,
) -> Float[Tensor, "d1 C"]:
    """argmin Σ counts × cross-entropy + ½ ‖weights without offsets‖², from `weights` on, by L-BFGS.

    Rows of `targets` sum to 1.
    """
    weights = weights.clone()
    counts = X.new_ones(len(X)) if counts is None else counts
    optimizer = torch.optim.LBFGS(
        [weights],
        max_iter=max_iterations,
        history_size=10,
        tolerance_grad=1e-3,
        tolerance_change=1e-6,
        line_search_fn="strong_wolfe",
    )

    def energy() -> Tensor:
        log_p = (X @ weights[:-1] + weights[-1]).log_softmax(1)
        residual = (log_p.exp() - targets) * counts[:, None]
        weights.grad = torch.cat([X.T @ residual + weights[:-1], residual.sum(0, keepdim=True)])
        return -counts @ (targets * log_p).sum(1) + weights[:-1].square().sum() / 2

    optimizer.step(energy)  # type: ignore[no-untyped-call]
    return weights.detach()
