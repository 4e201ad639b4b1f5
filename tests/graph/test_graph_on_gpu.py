"""The same answers on a GPU, at full size, without a change of the caller's precision."""

import numpy as np
import pytest
import torch

from laplacenet.graph import (
    GraphConfig,
    affinity,
    align_to_prior,
    nearest_neighbors,
    normalize,
    propagate,
    pseudo_label,
    solve,
)
from laplacenet.graph.search import half, half_ivf_neighbors
from laplacenet.graph.search.exact import exact_rows
from laplacenet.graph.solver import classes_at_once

pytestmark = pytest.mark.gpu


def clustered(n, d=128, n_classes=100, spread=1.8, n_labeled=4000):
    rng = np.random.default_rng(0)
    truth = rng.integers(n_classes, size=n)
    centers = rng.normal(size=(n_classes, d))
    X = (centers[truth] + spread * rng.normal(size=(n, d))).astype(np.float32)
    labels = np.where(np.arange(n) < n_labeled, truth, -1)
    return torch.from_numpy(X), torch.from_numpy(labels), torch.from_numpy(truth)


def test_neighbors_are_those_of_the_cpu_in_double_precision():
    X = clustered(6000)[0].double()
    on_gpu, on_cpu = nearest_neighbors(X.cuda(), k=50), nearest_neighbors(X, k=50)
    assert torch.equal(on_gpu.indices.cpu(), on_cpu.indices)


def test_products_are_not_rounded_to_tf32_even_where_the_caller_allows_it():
    X = torch.nn.functional.normalize(clustered(6000)[0])
    before = torch.backends.cuda.matmul.fp32_precision
    torch.backends.cuda.matmul.fp32_precision = "tf32"
    try:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            found = nearest_neighbors(X.cuda(), k=50)
        assert torch.backends.cuda.matmul.fp32_precision == "tf32"
    finally:
        torch.backends.cuda.matmul.fp32_precision = before
    exact = nearest_neighbors(X.double(), k=50)
    torch.testing.assert_close(found.similarities.cpu().double(), exact.similarities, rtol=0, atol=2e-6)


def test_duplicates_give_distinct_neighbors_on_the_gpu():
    found = nearest_neighbors(torch.ones(20_000, 8, device="cuda"), k=50)
    assert (found.indices.sort(1).values.diff(dim=1) > 0).all()
    assert not (found.indices == torch.arange(20_000, device="cuda")[:, None]).any()


def test_each_stage_agrees_with_the_cpu_in_double_precision():
    X, labels, _ = clustered(5000, n_classes=10, n_labeled=100)
    X = X.double()
    neighbors = nearest_neighbors(X, k=20), nearest_neighbors(X.cuda(), k=20)
    W, W_gpu = (normalize(affinity(found)) for found in neighbors)
    assert torch.equal(W_gpu.col_indices().cpu(), W.col_indices())
    torch.testing.assert_close(W_gpu.values().cpu(), W.values())
    Y = (labels[:, None] == torch.arange(10)).double()
    F = propagate(W, Y, gamma=1 / 1.01, tol=1e-6, max_iterations=100)
    F_gpu = propagate(W_gpu, Y.cuda(), gamma=1 / 1.01, tol=1e-6, max_iterations=100)
    torch.testing.assert_close(F_gpu.cpu(), F, rtol=1e-6, atol=1e-9)
    prior = np.full(10, 0.1)
    aligned = align_to_prior(F, labels >= 0, prior, iterations=100)
    torch.testing.assert_close(
        align_to_prior(F.cuda(), (labels >= 0).cuda(), prior, iterations=100).cpu(), aligned, rtol=1e-9, atol=1e-12
    )


def test_fifty_thousand_points_are_labeled_on_the_gpu():
    X, labels, truth = clustered(50_000)
    found = pseudo_label(X.cuda(), labels.cuda(), GraphConfig())
    assert found.labels.is_cuda
    assert found.scores.is_cuda
    assert found.unreachable.is_cuda
    assert found.is_converged
    assert (found.labels.cpu() == truth).float().mean() > 0.8
    assert torch.equal(found.labels[:4000].cpu(), labels[:4000])


def test_unreachable_points_are_found_on_the_gpu():
    X, labels, _ = clustered(5000, n_classes=10, n_labeled=100)
    far = torch.zeros(50, 128)
    far[:, 0] = 1
    X = torch.cat([torch.nn.functional.pad(X[:, 1:], (1, 0)), far])
    found = pseudo_label(X.cuda(), torch.cat([labels, torch.full((50,), -1)]).cuda(), GraphConfig(k=10))
    assert torch.equal(found.unreachable.cpu(), torch.arange(5050) >= 5000)


@pytest.mark.parametrize("n", [50_000, 210_000])
def test_half_precision_with_re_ranking_finds_the_exact_neighbors(n):
    X = torch.nn.functional.normalize(clustered(n)[0]).cuda()
    assert half.can_halve(X, 50)
    found = nearest_neighbors(X, k=50)
    rows = torch.arange(0, len(X), 100, device="cuda")
    similarities, indices = exact_rows(X, rows, 50)
    torch.testing.assert_close(found.similarities[rows], similarities, rtol=0, atol=2e-6)
    assert (found.indices[rows] == indices).float().mean() > 0.999


@pytest.mark.parametrize("n", [50_000, 210_000])
def test_collapsed_features_are_searched_in_full_precision_on_the_gpu(n):
    X = torch.nn.functional.normalize(1 + 1e-4 * clustered(n)[0]).cuda()
    found = nearest_neighbors(X, k=50)
    rows = torch.arange(0, len(X), 1000, device="cuda")
    torch.testing.assert_close(found.similarities[rows], exact_rows(X, rows, 50)[0], rtol=0, atol=2e-6)


def test_the_search_by_lists_finds_most_neighbors_on_the_gpu():
    X = torch.nn.functional.normalize(clustered(300_000, n_classes=10)[0]).cuda()
    found = half_ivf_neighbors(X, k=50)
    assert found.recall is not None
    assert found.recall > 0.95
    rows = torch.arange(0, len(X), 300, device="cuda")
    true = exact_rows(X, rows, 50)[1]
    assert (found.indices[rows][:, :, None] == true[:, None, :]).any(2).float().mean() > 0.95
    assert (found.indices.sort(1).values.diff(dim=1) > 0).all()


def test_classes_are_solved_in_blocks_where_memory_is_short(monkeypatch):
    X, labels, _ = clustered(5000, n_classes=10, n_labeled=100)
    W = normalize(affinity(nearest_neighbors(X.cuda(), k=20)))
    Y = (labels[:, None] == torch.arange(10)).float().cuda()
    whole = solve(W, Y, gamma=0.99, tol=1e-6, max_iterations=100)
    monkeypatch.setattr("laplacenet.graph.solver.SMALL_BYTES", 0)
    monkeypatch.setattr("laplacenet.graph.solver.MOST_ENTRIES", 3 * 5000)
    assert classes_at_once(Y) == 3
    torch.testing.assert_close(solve(W, Y, gamma=0.99, tol=1e-6, max_iterations=100).F, whole.F, rtol=1e-4, atol=1e-6)
