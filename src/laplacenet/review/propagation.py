"""Propagate answers over the graph repeatedly: `graph.guided`, started from the last solution.

Besides warm starts, three things differ from `label`. The classifier also learns a little from its own earlier
predictions for pictures without an answer. All classes have the same weight, since questions are chosen and a grid
shows one class. And the temperature is fitted to what the scores predicted for pictures just before they were answered,
in place of cross-validation.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64, Int64
from sklearn.utils.extmath import randomized_svd
from torch import Tensor

from laplacenet.graph import GraphConfig, align_to_prior
from laplacenet.graph.estimated_prior import doubted_shares
from laplacenet.graph.guided import FINAL_TOL, USUAL_PENALTY, GuidedConfig, Landscape, diffuse, landscape, with_given
from laplacenet.graph.logistic import LogisticModel, Stop, fit_soft_logistic
from laplacenet.graph.pseudo_labels import one_hot
from laplacenet.graph.temperature import fit_temperature, tempered

GRAPH = GraphConfig(k=10, mu=3 / 7, tol=1e-3, max_iterations=50)
N_DIRECTIONS = 256
"""Principal components of the embeddings for the classifier: as good as all 1 280 dimensions, and five times faster."""
MOST_FOR_DIRECTIONS = 10_000
MOST_ITERATIONS = 15
"""Iterations of the classifier's fit: with one more answer the last weights are nearly right."""
QUICK_ITERATIONS = 3
DOUBT = 5.0
"""Answers a class from which on the shares of the labels found count as much as equal shares."""
COUNT_OF_GUESS, MOST_GUESSES = 0.02, 4_000
"""The weight of a prediction in the classifier's training set, relative to an answer."""
GUESS_TEMPERATURE = 0.5
FIRST_ROUNDS, MOST_ROUNDS = 3, 10
"""Of classifier and graph where there are no guesses yet; with each answer there is one more. A start with many answers
has as many rounds as answers, up to ten: with three, labels after 75 answers were 5 points worse than one by one."""
USUAL_TEMPERATURE = 0.5
"""Of the scores after diffusion, which makes them less sure than they are right."""
FEWEST_TO_CALIBRATE = 20
MOST_TO_CALIBRATE = 200
SMALLEST = 1e-9


@dataclass(frozen=True, eq=False)
class Embedded:
    """Embeddings of pictures and the graph over them, which do not depend on the answers; `rows` are the pictures.

    `lengths` are those that its rows had before they were brought to length 1; `reduced` are the rows by their leading
    directions.
    """

    rows: Int64[Tensor, " m"]
    land: Landscape
    lengths: Float[Tensor, " m"]
    reduced: Float[Tensor, "m r"]

    @property
    def points(self) -> Float[Tensor, "m d"]:
        return self.land.X

    def vectors(self) -> Float[Tensor, "m d"]:
        """The embeddings as they were."""
        return self.land.transform.undo(self.points * self.lengths[:, None])

    def __len__(self) -> int:
        return len(self.rows)


@torch.no_grad()
def join(rows: Int64[Tensor, " m"], vectors: Float[Tensor, "m d"]) -> Embedded:
    land = landscape(vectors, GuidedConfig(graph=GRAPH))
    lengths = torch.linalg.vector_norm(land.transform.centered(vectors), dim=1)
    return Embedded(rows, land, lengths, leading_directions(land.X))


@torch.no_grad()
def leading_directions(points: Float[Tensor, "m d"]) -> Float[Tensor, "m r"]:
    """Coordinates of the points along the directions of their largest variance, at most `N_DIRECTIONS` of them."""
    mean = points.mean(0)
    some = points[:: -(-len(points) // MOST_FOR_DIRECTIONS)] - mean
    n_directions = min(N_DIRECTIONS, *some.shape)
    # torch's own starts from its global random numbers, which this thread shares with all others
    _, _, directions = randomized_svd(
        some.numpy(), n_directions, n_oversamples=20, n_iter=3, power_iteration_normalizer="LU", random_state=0
    )
    return (points - mean) @ torch.from_numpy(directions).T


def never() -> bool:
    return False


class Propagation:
    """Scores of all embedded pictures, updated as answers come in; not thread-safe.

    What earlier answers taught is in it, so an answer cannot be taken back: that takes a new one, or an earlier copy.
    Everything in it is replaced as a whole, never changed, so that `copy.copy` is enough.
    """

    def __init__(self, embedded: Embedded) -> None:
        self.embedded = embedded
        self.temperature = USUAL_TEMPERATURE
        self._weights: dict[int, Float64[np.ndarray, " r1"]] = {}
        self._solution: dict[int, Float[Tensor, " m"]] = {}
        self._last: _Said | None = None
        self._judged: list[tuple[Float[Tensor, " c"], int]] = []

    @torch.no_grad()
    def scores(
        self, y: Int64[Tensor, " m"], columns: list[int], *, is_stale: Callable[[], bool] = never
    ) -> Float[Tensor, "m C"] | None:
        """Rows that sum to 1; `y` is a place in `columns` (which name the classes), −1 where there is no answer.

        None if `is_stale` returned true meanwhile.
        """
        if len(columns) == 1:
            return self.embedded.points.new_ones(len(y), 1)
        n_rounds = min(max(FIRST_ROUNDS, int((y >= 0).sum())), MOST_ROUNDS) if self._last is None else 1
        self._judge(y, columns)
        for _ in range(n_rounds):
            model = self._fit(y, columns, Stop(FINAL_TOL, MOST_ITERATIONS, is_stale))
            if is_stale():
                return None
            scores = self._spread(model, y, columns)
            self._last = _Said(scores, y >= 0, columns)
        return tempered(scores, self.temperature)

    @torch.no_grad()
    def quick_scores(self, y: Int64[Tensor, " m"], columns: list[int]) -> Float[Tensor, "m C"]:
        """As `scores`, with a classifier that has only begun to learn from what is new."""
        if len(columns) == 1:
            return self.embedded.points.new_ones(len(y), 1)
        self._judge(y, columns)
        model = self._fit(y, columns, Stop(FINAL_TOL, QUICK_ITERATIONS))
        return tempered(self._spread(model, y, columns), self.temperature)

    def _judge(self, y: Int64[Tensor, " m"], columns: list[int]) -> None:
        """Record the last scores of the pictures answered since, and fit the temperature to them."""
        given = torch.nonzero(y >= 0).squeeze(1)
        if self._last is None and len(given) >= 2 * FEWEST_TO_CALIBRATE:
            # many answers at once, from a file or an earlier day: half of them are judged by the other half
            half = y.clone()
            half[given[1::2]] = -1
            model = self._fit(half, columns, Stop(FINAL_TOL, MOST_ITERATIONS))
            self._last = _Said(self._spread(model, half, columns), half >= 0, columns)
        last = self._last
        if last is None:
            return
        judged = list(self._judged)
        for row in torch.nonzero((y >= 0) & ~last.is_given).squeeze(1).tolist():
            label = columns[int(y[row])]
            if label in last.columns:  # a class that was not known could not be predicted
                judged.append((last.scores[row].clamp(min=SMALLEST).log(), last.columns.index(label)))
        self._last = replace(last, is_given=y >= 0)
        self._judged = judged[-MOST_TO_CALIBRATE:]
        if len(self._judged) >= FEWEST_TO_CALIBRATE:
            width = max(len(said) for said, _ in self._judged)
            logits = np.full((len(self._judged), width), -1e4)
            for place, (said, _) in enumerate(self._judged):
                logits[place, : len(said)] = said.numpy()
            self.temperature = fit_temperature(logits, np.array([target for _, target in self._judged]))

    def _spread(self, model: LogisticModel, y: Int64[Tensor, " m"], columns: list[int]) -> Float[Tensor, "m C"]:
        """The classifier's probabilities, smoothed by the graph and aligned as in `graph.guided`; answers are kept."""
        weights, offsets = (torch.from_numpy(part).float() for part in (model.weights, model.offsets))
        P = (self.embedded.reduced @ weights + offsets).softmax(1)
        seeds, is_given = with_given(P, y), y >= 0
        F = self._diffuse(seeds, columns)
        found = torch.bincount(F[~is_given].argmax(1), minlength=len(columns)).double().numpy()
        # frequencies of answers say nothing about the classes: questions are chosen, and a grid shows one class
        prior = doubted_shares(found / max(1.0, found.sum()), n_given=int(is_given.sum()), doubt=DOUBT)
        aligned = align_to_prior(F, is_given, prior, iterations=GRAPH.alignment_iterations)
        return with_given(aligned, y)

    def _fit(self, y: Int64[Tensor, " m"], columns: list[int], stop: Stop) -> LogisticModel:
        """Logistic regression on answers and guesses, from the last weights on."""
        rows = torch.nonzero(y >= 0).squeeze(1)
        targets = one_hot(y[rows], len(columns)).float()
        counts = even_counts(y[rows])
        if (
            self._last is not None and self._last.columns == columns
        ):  # else earlier predictions would count against a new class
            others = torch.nonzero(y < 0).squeeze(1)
            others = others[:: max(1, -(-len(others) // MOST_GUESSES))]
            guesses = tempered(self._last.scores[others], GUESS_TEMPERATURE)
            rows, targets = torch.cat([rows, others]), torch.cat([targets, guesses])
            counts = torch.cat([counts, torch.full((len(others),), COUNT_OF_GUESS)])
        X = self.embedded.reduced[rows].numpy()
        zeros = np.zeros(X.shape[1] + 1)
        table = np.stack([self._weights.get(column, zeros) for column in columns], axis=1)
        start = LogisticModel(table[:-1], table[-1], 0)
        model = fit_soft_logistic(X, targets.numpy(), counts.numpy(), C=USUAL_PENALTY, start=start, stop=stop)
        table = np.concatenate([model.weights, model.offsets[None]])
        self._weights = {column: table[:, place] for place, column in enumerate(columns)}
        return model

    def _diffuse(self, seeds: Float[Tensor, "m C"], columns: list[int]) -> Float[Tensor, "m C"]:
        W, guess = self.embedded.land.graph.W_normalized, seeds / (1 - GRAPH.gamma)
        first = [self._solution.get(column, guess[:, place]) for place, column in enumerate(columns)]
        F = diffuse(W, seeds, gamma=GRAPH.gamma, config=GRAPH, start=torch.stack(first, dim=1)).F
        self._solution = {column: F[:, place] for place, column in enumerate(columns)}
        return F


@dataclass(frozen=True, eq=False)
class _Said:
    """Scores before the next answer, and the pictures whose answers they had seen, or have been judged by."""

    scores: Float[Tensor, "m C"]
    is_given: Bool[Tensor, " m"]
    columns: list[int]


def even_counts(y: Int64[Tensor, " m"]) -> Float[Tensor, " m"]:
    """The weight of each row, so that all classes weigh the same: a grid of 20 would make its class seem frequent."""
    counts = torch.bincount(y)
    return len(y) / ((counts > 0).sum() * counts[y])
