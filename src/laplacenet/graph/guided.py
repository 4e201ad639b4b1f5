"""Labels for every point from good features and a few labels: a classifier's probabilities, smoothed by the graph.

On features of a pretrained network the paper's graph alone is less accurate than logistic regression. So every node
starts from the classifier's probabilities (given labels are kept), a little diffusion smooths them over neighbors, and
Algorithm 1 aligns them to the class prior. The prior is estimated from the given labels and from the scores themselves,
never assumed to be uniform.
"""

from dataclasses import dataclass, field, replace

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64, Int, Int64, Num, Shaped
from threadpoolctl import threadpool_limits
from torch import Tensor

from laplacenet.graph.alignment import align_to_prior
from laplacenet.graph.arrays import Array, as_tensor
from laplacenet.graph.config import GraphConfig
from laplacenet.graph.estimated_prior import estimated_shares
from laplacenet.graph.logistic import LogisticModel, fit_logistic, span_basis
from laplacenet.graph.pseudo_labels import (
    Graph,
    checked_features,
    checked_labels,
    connect,
    hard_labels,
    one_hot,
)
from laplacenet.graph.solver import Solution, solve
from laplacenet.graph.temperature import SMALLEST, finite, fit_temperature, log_loss, tempered
from laplacenet.graph.transform import RowTransform, fit_row_transform
from laplacenet.runtime import stream
from laplacenet.runtime.group import ALONE, Group
from laplacenet.runtime.threads import by_pieces

PENALTIES = (1.0, 10.0, 100.0, 1000.0)  # candidates for C, for rows of length 1
USUAL_PENALTY = 100.0
ENOUGH_TO_CHOOSE = 5  # labels a class, on average, from which C is chosen by cross-validation
FOLDS_TO_CHOOSE = 5
FEW = 3  # labels a class, on average, below which the graph's own opinion counts as much as the classifier's
MOST_TO_COMPARE = 100_000  # up to so many points the graph alone is cross-validated, too, to see whether it is better
GRAPH_ALONE_MU = 0.01  # the paper's
LABELS_OF_MU = 2  # labels a class up to which `mu` is what the configuration says
ALIGNMENT_STRENGTH = 0.75  # full alignment finds more of the rare classes, but costs accuracy where classes overlap
SEARCH_TOL, FINAL_TOL = 1e-2, 1e-3
FEWEST_TO_CALIBRATE = 10
NEVER = -1


@dataclass(frozen=True)
class GuidedConfig:
    """`graph.mu` gives γ = 1/(1 + µ), here 0.85 for up to two labels a class, and less diffusion for more labels.

    `prior` None: the classes' shares are estimated.

    `C` None: chosen by cross-validation where there are labels enough. `n_folds` folds of the given labels are hidden
    in turn to calibrate the scores and to judge them; 0 for neither.
    """

    graph: GraphConfig = field(default_factory=lambda: GraphConfig(k=10, mu=0.18))
    C: float | None = None
    prior: tuple[float, ...] | None = None
    n_folds: int = 10
    seed: int = 0


@dataclass(frozen=True, eq=False)
class GuidedLabels:
    """The result of classifier and graph for every point.

    `scores` are calibrated with `temperature` and sum to 1 in each row; `labels` are their largest entries, a given
    label is kept. Row i of `unseen` holds the scores of a labeled point while its label was held out, calibrated too;
    NaN elsewhere. `folds` are the labels that were held out together, −1 for rows never held out.
    """

    labels: Int[Tensor, " n"]
    scores: Float[Tensor, "n C"]
    unseen: Float[Tensor, "n C"]
    folds: Int64[Tensor, " n"]
    temperature: float
    prior: Float[Tensor, " C"]
    C: float
    gamma: float
    classifier: "Classifier"
    n_iterations: int
    is_converged: bool


@dataclass(frozen=True, eq=False)
class Classifier:
    """Logistic regression on transformed rows; logits are divided by `temperature`."""

    transform: RowTransform
    weights: Float[Tensor, "d C"]
    offsets: Float[Tensor, " C"]
    temperature: float

    def probabilities(self, features: Float[Tensor, "n d"]) -> Float[Tensor, "n C"]:
        return ((self.transform(features) @ self.weights + self.offsets) / self.temperature).softmax(dim=1)


@dataclass(frozen=True, eq=False)
class Landscape:
    """What does not depend on labels: the transformed rows and the graph over them."""

    transform: RowTransform
    X: Float[Tensor, "n d"]
    graph: Graph


@torch.no_grad()
def landscape(features: Num[Array, "n d"], config: GuidedConfig, group: Group = ALONE) -> Landscape:
    """The processes of a group have the same features and share the search for neighbors."""
    found = checked_features(features)
    transform = fit_row_transform(found)
    X = transform(found)
    return Landscape(transform, X, connect(X, config.graph, group))


def guided_labels(
    features: Num[Array, "n d"],
    labels: Shaped[Array, "..."],
    *,
    n_classes: int | None = None,
    config: GuidedConfig | None = None,
) -> GuidedLabels:
    """A label for every point from the few that are given; −1 marks a hidden label."""
    config = config or GuidedConfig()
    return label_landscape(landscape(features, config), labels, n_classes=n_classes, config=config)


@torch.no_grad()
def label_landscape(
    land: Landscape, labels: Shaped[Array, "..."], *, n_classes: int | None, config: GuidedConfig
) -> GuidedLabels:
    """As `guided_labels`; a landscape can be used for any number of labelings."""
    y = checked_labels(as_tensor(labels, what="labels").to(land.X.device), len(land.X), n_classes)
    # a step of the classifier takes milliseconds; on a busy machine threads that share it took ten times as long
    with threadpool_limits(1, user_api="blas"):
        guide = Guide(land, y, n_classes or int(y.max()) + 1, config)
        answer = guide.ask(y)
        unseen, folds = guide.cross_fit()
    is_judged = (folds != NEVER).to(y.device)
    temperature = 1.0
    if int(is_judged.sum()) >= FEWEST_TO_CALIBRATE:
        judged = unseen[is_judged].double().cpu().numpy()
        temperature = fit_temperature(np.log(np.maximum(judged, SMALLEST)), y[is_judged].cpu().numpy())
    return GuidedLabels(
        labels=hard_labels(answer.scores, y),
        scores=tempered(answer.scores, temperature),
        unseen=tempered(unseen, temperature),
        folds=folds,
        temperature=temperature,
        prior=answer.prior,
        C=guide.C,
        gamma=1 / (1 + guide.mu),
        classifier=guide.classifier(answer.model),
        n_iterations=answer.n_iterations,
        is_converged=answer.is_converged,
    )


@dataclass(frozen=True, eq=False)
class _Answer:
    scores: Float[Tensor, "n C"]
    prior: Float[Tensor, " C"]
    model: LogisticModel
    n_iterations: int
    is_converged: bool


class Guide:
    """Classifier and graph for one set of given labels: all of them, or all but a held-out fold."""

    def __init__(self, land: Landscape, y: Int[Tensor, " n"], n_classes: int, config: GuidedConfig) -> None:
        self.land, self.y, self.n_classes, self.config = land, y, n_classes, config
        self.labeled = torch.nonzero(y >= 0).flatten()
        rows = land.X[self.labeled].double().cpu().numpy()
        self.basis = span_basis(rows)
        self.rows, self.classes = rows @ self.basis, y[self.labeled].cpu().numpy()
        self.counts = np.bincount(self.classes, minlength=n_classes)
        self.hears_graph = len(self.classes) < FEW * int((self.counts > 0).sum())
        self.C, self.temperature = self._choose()

    def _choose(self) -> tuple[float, float]:
        """C and the temperature of the classifier's probabilities, by log-loss on labels that it has not seen."""
        n_present = len(np.unique(self.classes))
        is_enough = len(self.classes) >= ENOUGH_TO_CHOOSE * n_present and n_present > 1
        if self.config.C is not None or not is_enough:
            return self.config.C or USUAL_PENALTY, 1.0
        folds = stratified_folds(self.classes, FOLDS_TO_CHOOSE, seed=self.config.seed)
        logits = {C: np.zeros((len(folds), self.n_classes)) for C in PENALTIES}
        for fold in range(folds.max() + 1):
            model = None
            for C in PENALTIES:
                is_seen = folds != fold
                model = self._fit(is_seen, C=C, tol=SEARCH_TOL, start=model)
                logits[C][~is_seen] = model.logits(self.rows[~is_seen])
        is_judged = folds != NEVER
        judged = self.classes[is_judged]
        found = {C: fit_temperature(finite(logits[C][is_judged]), judged) for C in PENALTIES}
        losses = {C: log_loss(finite(logits[C][is_judged]) / T, judged) for C, T in found.items()}
        best = min(losses, key=lambda C: losses[C])
        n_right = int((logits[best][is_judged].argmax(axis=1) == judged).sum())
        if len(self.y) <= MOST_TO_COMPARE:
            self.hears_graph |= self._n_found_by_graph(folds) > n_right
        return best, found[best]

    def _n_found_by_graph(self, folds: Int64[np.ndarray, " m"]) -> int:
        """The cross-validated accuracy of the graph alone."""

        def count(fold: int) -> int:
            hidden = self.labeled[torch.from_numpy(folds == fold).to(self.y.device)]
            seen = self.y.clone()
            seen[hidden] = -1
            return int((self._spread(seen).F[hidden].argmax(dim=1) == self.y[hidden]).sum())

        return sum(by_pieces(count, range(folds.max() + 1)))

    def _fit(
        self, is_seen: Bool[np.ndarray, " m"], *, C: float, tol: float, start: LogisticModel | None
    ) -> LogisticModel:
        """On some of the labels; a class counts as if all of its own were there: hiding one must not make it rarer."""
        seen = self.classes[is_seen]
        left = np.bincount(seen, minlength=self.n_classes)
        weights = (self.counts / np.maximum(left, 1))[seen]
        rows = self.rows[is_seen]
        return fit_logistic(rows, seen, n_classes=self.n_classes, C=C, tol=tol, weights=weights, start=start)

    def classifier(self, model: LogisticModel) -> Classifier:
        X = self.land.X
        weights = torch.from_numpy(self.basis @ model.weights).to(X)
        offsets = torch.from_numpy(np.nan_to_num(model.offsets, neginf=-1e4)).to(X)
        return Classifier(self.land.transform, weights, offsets, self.temperature)

    def ask(self, seen: Int[Tensor, " n"]) -> _Answer:
        """The scores of every point from these labels only."""
        is_seen = (seen[self.labeled] >= 0).cpu().numpy()
        # not from the solution for more labels: separable ones are fitted by it already, the hidden ones among them
        model = self._fit(is_seen, C=self.C, tol=FINAL_TOL, start=None)
        classifier = self.classifier(model)
        P = ((self.land.X @ classifier.weights + classifier.offsets) / self.temperature).softmax(dim=1)
        is_labeled = seen >= 0
        P = with_given(P, seen)
        diffused = self._diffuse(P, 1 / (1 + self.mu))
        F, is_converged = diffused.F, diffused.is_converged
        if self.hears_graph:
            F, is_converged = self._with_graph_alone(F, P, seen, is_converged)
        prior = self._prior(F[self.y < 0])
        aligned = align_to_prior(F, is_labeled, prior, iterations=self.config.graph.alignment_iterations)
        strength = ALIGNMENT_STRENGTH if self.config.prior is None else 1.0  # a given prior is used as it is
        scores = partly_aligned(F, aligned, strength=strength)
        n_iterations = diffused.n_iterations
        return _Answer(scores, torch.from_numpy(prior).to(scores), model, n_iterations, is_converged)

    @property
    def mu(self) -> float:
        """µ: the more labels a class has, the more the classifier is trusted relative to the neighbors."""
        n_each = len(self.classes) / int((self.counts > 0).sum())
        growth: float = max(1.0, n_each / LABELS_OF_MU) ** (2 / 3)
        return self.config.graph.mu * growth

    def _diffuse(self, Y: Float[Tensor, "n C"], gamma: float) -> Solution:
        return diffuse(self.land.graph.W_normalized, Y, gamma=gamma, config=self.config.graph)

    def _with_graph_alone(
        self, F: Float[Tensor, "n C"], P: Float[Tensor, "n C"], seen: Int[Tensor, " n"], is_converged: bool
    ) -> tuple[Float[Tensor, "n C"], bool]:
        """The geometric mean with the labels spread far, each class relative to its mean; P where no label comes."""
        found = self._spread(seen)
        spread = found.F
        spread = torch.where(spread.amax(dim=1, keepdim=True) > 0, spread, P)
        together = (F * spread).sqrt()
        together = torch.where(together.amax(dim=1, keepdim=True) > 0, together, F)
        return together, is_converged and found.is_converged

    def _spread(self, seen: Int[Tensor, " n"]) -> Solution:
        """The labels spread far by the graph alone, each class relative to its mean."""
        found = self._diffuse(one_hot(seen, self.n_classes).to(self.land.X.dtype), 1 / (1 + GRAPH_ALONE_MU))
        unlabeled = found.F[seen < 0]
        means = (unlabeled if len(unlabeled) else found.F).mean(dim=0).clamp(min=SMALLEST)
        return replace(found, F=found.F / means)

    def _prior(self, F: Float[Tensor, "n_unlabeled C"]) -> Float64[np.ndarray, " C"]:
        if self.config.prior is not None:
            return np.array(self.config.prior) / sum(self.config.prior)
        found = np.bincount(F.argmax(dim=1).cpu().numpy(), minlength=self.n_classes)
        return estimated_shares(self.counts, found)

    def cross_fit(self) -> tuple[Float[Tensor, "n C"], Int64[Tensor, " n"]]:
        """Scores of the labeled points, each with its fold's labels hidden, and the folds; NaN and −1 elsewhere."""
        unseen = torch.full((len(self.y), self.n_classes), torch.nan, dtype=self.land.X.dtype, device=self.y.device)
        folds = torch.full((len(self.y),), NEVER)
        if self.config.n_folds < 2:
            return unseen, folds
        folds[self.labeled.cpu()] = torch.from_numpy(
            stratified_folds(self.classes, self.config.n_folds, seed=self.config.seed)
        )

        def judge(fold: int) -> None:
            is_hidden = (folds == fold).to(self.y.device)
            unseen[is_hidden] = self.ask(torch.where(is_hidden, -1, self.y)).scores[is_hidden].to(unseen.dtype)

        by_pieces(judge, range(int(folds.max()) + 1))
        return unseen, folds


def with_given(P: Float[Tensor, "n C"], y: Int[Tensor, " n"]) -> Float[Tensor, "n C"]:
    """The classifier's probabilities; one-hot rows for labeled points."""
    return torch.where((y >= 0)[:, None], one_hot(y, P.shape[1]).to(P.dtype), P)


def diffuse(
    W_normalized: Float[Tensor, "n n"],
    Y: Float[Tensor, "n C"],
    *,
    gamma: float,
    config: GraphConfig,
    start: Float[Tensor, "n C"] | None = None,
) -> Solution:
    """(I − γ𝒲)⁻¹Y with nothing negative in it, to within `config.tol`; solves for what `start` still lacks."""
    if start is None:
        found = solve(W_normalized, Y, gamma=gamma, tol=config.tol, max_iterations=config.max_iterations)
        return replace(found, F=found.F.clamp(min=0))
    missing = Y - (start - gamma * (W_normalized @ start))
    ratio = float((missing.norm(dim=0) / Y.norm(dim=0).clamp(min=SMALLEST)).max())
    tol = min(1.0, config.tol / max(ratio, SMALLEST))  # of what is missing, so that it is `config.tol` of the whole
    found = solve(W_normalized, missing, gamma=gamma, tol=tol, max_iterations=config.max_iterations)
    return replace(found, F=(start + found.F).clamp(min=0))


def partly_aligned(F: Float[Tensor, "n C"], aligned: Float[Tensor, "n C"], *, strength: float) -> Float[Tensor, "n C"]:
    """Partial alignment: each class is multiplied by a power of its weight in Algorithm 1; 1 aligns fully, 0 not."""
    shares = F / F.sum(dim=1, keepdim=True).clamp(min=torch.finfo(F.dtype).tiny)
    mixed = shares ** (1 - strength) * aligned**strength
    total = mixed.sum(dim=1, keepdim=True)
    return torch.where(total > 0, mixed / total, aligned)


def stratified_folds(classes: Int64[np.ndarray, " m"], n_folds: int, *, seed: int) -> Int64[np.ndarray, " m"]:
    """The fold of every label, of at most `n_folds`; the only label of a class is in none (−1).

    There are no more folds than the median class has labels, so that a fold takes a label of most classes at once: a
    class that alone had fewer labels than the others would seem harder than it is.
    """
    counts = np.bincount(classes)
    folds, n_dealt = np.full(len(classes), NEVER), 0
    n_folds = max(2, min(n_folds, int(np.median(counts[counts > 0]))))
    for number in np.unique(classes):
        members = np.flatnonzero(classes == number)
        if len(members) < 2:
            continue
        dealt = np.arange(n_dealt, n_dealt + len(members)) % n_folds
        folds[stream(seed, "guided/folds", int(number)).permutation(members)] = dealt
        n_dealt += len(members)
    return folds
