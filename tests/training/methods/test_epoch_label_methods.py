"""LP, MT-LP, TSSDL and DAG: stages, labels and weights against literal references."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from references_losses import BATCH, N_LABELED, TRAIN, C, N, small_learner, small_method, small_problem
from torch import Tensor

from laplacenet.graph import GraphConfig, Neighbors
from laplacenet.training import config_class, method_class
from laplacenet.training.methods.dag import aggregate, ascend, path_ends
from laplacenet.training.schedule import learning_rates

STAGED = ("lp", "mt-lp", "tssdl", "dag")


@pytest.fixture(scope="module")
def points() -> Tensor:
    generator = torch.Generator().manual_seed(0)
    centers = 3 * torch.eye(C, 5)
    return centers[torch.arange(N) % C] + 0.7 * torch.randn(N, 5, generator=generator)


def propagated(features: np.ndarray, labels: np.ndarray, k: int, mu: float) -> np.ndarray:
    """Cosine neighbors, the third power, the larger direction, normalization, a dense solve, rows that sum to 1."""
    X = features / np.linalg.norm(features, axis=1, keepdims=True)
    S = X @ X.T
    np.fill_diagonal(S, -np.inf)
    W = np.zeros((N, N))
    for i in range(N):
        for j in np.argsort(-S[i])[:k]:
            W[i, j] = W[j, i] = max(S[i, j], 0) ** 3
    D = np.diag(W.sum(1) ** -0.5)
    Y = np.zeros((N, C))
    Y[labels >= 0, labels[labels >= 0]] = 1
    Z = np.linalg.solve(np.eye(N) - D @ W @ D / (1 + mu), Y).clip(0)
    return Z / Z.sum(1, keepdims=True)


@pytest.mark.parametrize("name", ["lp", "mt-lp"])
def test_labels_and_weights_of_lp_are_their_formulas(points: Tensor, name: str) -> None:
    graph = GraphConfig(k=5, tol=1e-8, max_iterations=1000)
    method = method_class(name)(small_problem(), TRAIN, config_class(name)(), graph)
    learner = small_learner(method)
    plan = method.plan_epoch(3, 30, learner=learner, inputs=points)
    given = method.problem.labels.numpy()
    student = learner if name == "lp" else learner.student
    Z = propagated(student.embed(points).detach().double().numpy(), given, 5, 0.01)
    labels = np.where(given >= 0, given, Z.argmax(1))
    entropy = -(Z * np.log(np.maximum(Z, 1e-300))).sum(1)
    omega = 1 - entropy / np.log(C)
    omega = np.where(given >= 0, 1, omega / omega.max())
    counts = np.bincount(labels, minlength=C)
    assert plan.tables["targets"].tolist() == labels.tolist()
    np.testing.assert_allclose(plan.tables["weights"], omega * N / (C * counts[labels]), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", STAGED)
def test_the_first_stage_uses_given_labels_only_and_the_second_every_input(points: Tensor, name: str) -> None:
    method = small_method(name, first_stage=0.5)
    learner = small_learner(method)
    first = method.plan_epoch(0, 0, learner=learner, inputs=points)
    assert torch.equal(first.tables["targets"], method.problem.labels)
    assert first.tables["weights"].tolist() == [1.0] * 9 + [0.0] * 21
    assert len(first.order) == (21 if name == "mt-lp" else 0)
    second = method.plan_epoch(9, 20, learner=learner, inputs=points)
    assert sorted(second.order.tolist()) == list(range(9, N))
    assert torch.equal(second.tables["targets"][:9], method.problem.labels[:9])
    assert int(second.tables["targets"].min()) >= 0
    assert float(second.tables["weights"].min()) >= 0
    last = method.plan_epoch(8, 19, learner=learner, inputs=points)
    assert last.end_step == 20


@pytest.mark.parametrize("name", ["lp", "mt-lp"])
def test_the_learning_rate_starts_again_with_the_second_stage(points: Tensor, name: str) -> None:
    method = small_method(name, first_stage=0.25)
    learner = small_learner(method)
    plans = [method.plan_epoch(0, step, learner=learner, inputs=points) for step in (0, 10)]
    rates = [method.draw(plan, plan.first_step, 2).draws["lr"].tolist() for plan in plans]
    assert rates[0] == learning_rates(replace(TRAIN, steps=10), 0, 2).tolist()
    assert rates[1] == learning_rates(replace(TRAIN, steps=30), 0, 2).tolist()


def test_the_rise_of_mt_lps_consistency_starts_again_with_the_second_stage(points: Tensor) -> None:
    method = small_method("mt-lp", first_stage=0.5, ramp_up=0.1, consistency=3.0)
    learner = small_learner(method)
    plans = [method.plan_epoch(0, step, learner=learner, inputs=points) for step in (0, 4, 20)]
    weights = [method.draw(plan, plan.first_step, 1).draws["consistency"].tolist() for plan in plans]
    assert weights[0] == weights[2] == pytest.approx([3 * np.exp(-5)])
    assert weights[1] == [3.0]


def test_mt_lps_teacher_begins_the_second_stage_as_a_copy_of_the_student(points: Tensor) -> None:
    method = small_method("mt-lp", first_stage=0.5)
    learner = small_learner(method)
    method.plan_epoch(3, 10, learner=learner, inputs=points)
    assert not torch.equal(learner.teacher.head.weight, learner.student.head.weight)
    method.plan_epoch(9, 20, learner=learner, inputs=points)
    assert torch.equal(learner.teacher.head.weight, learner.student.head.weight)


def test_tssdls_confidence_falls_with_the_distance_to_the_nearest_features(points: Tensor) -> None:
    method = small_method("tssdl", n_neighbors=4)
    learner = small_learner(method)
    plan = method.plan_epoch(9, 20, learner=learner, inputs=points)
    z = learner.embed(points).detach().numpy()
    z /= np.linalg.norm(z, axis=1, keepdims=True)
    d = np.array([sorted(np.linalg.norm(z[i] - z[j]) for j in range(N) if j != i)[:4] for i in range(N)]).sum(1)
    expected = np.where(method.problem.labels.numpy() >= 0, 1, 1 - d / d.max())
    np.testing.assert_allclose(plan.tables["weights"], expected, rtol=1e-3, atol=1e-3)
    assert plan.tables["targets"][9:].tolist() == learner(points)[9:].argmax(dim=1).tolist()


def random_neighbors(n: int, k: int, seed: int) -> tuple[Neighbors, Tensor]:
    rng = np.random.default_rng(seed)
    indices = np.stack([rng.permutation(np.delete(np.arange(n), i))[:k] for i in range(n)])
    similarities = -np.sort(-rng.random((n, k)), axis=1)
    neighbors = Neighbors(torch.from_numpy(indices), torch.from_numpy(similarities))
    return neighbors, neighbors.similarities.sum(dim=1)


@pytest.mark.parametrize("seed", range(5))
def test_paths_of_dag_climb_to_the_most_similar_denser_neighbor_until_a_label_or_a_peak(seed: int) -> None:
    neighbors, density = random_neighbors(40, 4, seed)
    is_end = torch.arange(40) % 9 == 0
    ends = path_ends(ascend(neighbors, density, is_end=is_end))
    for node in range(40):
        here = node
        while not is_end[here]:
            denser = [j for j in neighbors.indices[here].tolist() if density[j] > density[here]]
            if not denser:
                break
            here = denser[0]  # neighbors come in the order of their similarity
        assert int(ends[node]) == here


def test_aggregation_is_a_softmax_weighted_mean_of_denser_neighbors() -> None:
    neighbors, density = random_neighbors(20, 4, 0)
    X = torch.randn(20, 6, dtype=torch.float64)
    total = aggregate(X, neighbors, density, temperature=0.5)
    for i in range(20):
        pairs = zip(neighbors.indices[i].tolist(), neighbors.similarities[i].tolist(), strict=True)
        weights = {j: np.exp(similarity / 0.5) for j, similarity in pairs if density[j] > density[i]}
        expected = sum((weight / sum(weights.values()) * X[j] for j, weight in weights.items()), torch.zeros(6))
        torch.testing.assert_close(total[i], expected.double())


def test_dag_labels_separate_groups_right(points: Tensor) -> None:
    method = small_method("dag")
    plan = method.plan_epoch(9, 20, learner=small_learner(method), inputs=points)
    is_right = plan.tables["targets"] == torch.arange(N) % C
    assert float(is_right.float().mean()) > 0.8


@pytest.mark.parametrize("name", STAGED)
def test_with_every_label_given_there_is_only_the_first_stage(points: Tensor, name: str) -> None:
    problem = small_problem(n_labeled=N)
    method = method_class(name)(problem, TRAIN, config_class(name)(), GraphConfig(k=5))
    learner = small_learner(method)
    plan = method.plan_epoch(5, 39, learner=learner, inputs=points)
    block = method.draw(plan, 39, 1)
    assert plan.n_steps == 1
    assert block.n_labeled == BATCH > N_LABELED
