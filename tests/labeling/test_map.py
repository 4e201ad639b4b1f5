"""The map: what is alike lies together, for a few rows and for more than are laid out."""

import pytest
import torch
from references_labeling import clusters

from laplacenet.labeling import outcome
from laplacenet.labeling.outcome import map_positions


def share_of_near_ones_alike(places: torch.Tensor, truth: torch.Tensor) -> float:
    nearest = torch.cdist(places, places).topk(6, largest=False).indices[:, 1:]
    return float((truth[nearest] == truth[:, None]).double().mean())


@pytest.mark.parametrize("n_anchors", [1000, 150])
def test_rows_of_a_cluster_lie_together_whether_laid_out_or_placed_after(
    n_anchors: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outcome, "N_ANCHORS", n_anchors)
    X, truth = clusters(400, 5, noise=0.7)
    places = map_positions(torch.nn.functional.normalize(X, dim=1), seed=0)
    assert places.shape == (400, 2)
    assert places.isfinite().all()
    assert share_of_near_ones_alike(places, truth) > 0.95


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 12])
def test_a_few_rows_have_places_too(n: int) -> None:
    places = map_positions(torch.nn.functional.normalize(torch.randn(n, 3), dim=1), seed=0)
    assert places.shape == (n, 2)
    assert places.isfinite().all()


def test_rows_that_are_all_the_same_do_no_harm() -> None:
    assert map_positions(torch.ones(30, 4) / 2, seed=0).isfinite().all()


def test_the_same_seed_draws_the_same_map() -> None:
    X, _ = clusters(60, 3, noise=1.0)
    assert torch.equal(map_positions(X, seed=3), map_positions(X, seed=3))
