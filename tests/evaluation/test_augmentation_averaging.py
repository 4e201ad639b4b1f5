"""The paper's argument for several views: the n_a-view loss of an image nears its expectation as n_a grows."""

import math

import pytest
import torch
from torch import Tensor

from laplacenet.augment import AugmentConfig
from laplacenet.data import load_dataset, require_images
from laplacenet.models import Network, build_model
from laplacenet.runtime import stream
from laplacenet.training import ImageViews, multi_view_cross_entropy

N_VIEWS = (1, 4, 16)
N_DRAWS = 400


@pytest.fixture(scope="module")
def losses() -> dict[int, Tensor]:
    """For each n_a, N_DRAWS independent values of one digit's loss averaged over n_a views."""
    train, _ = require_images(load_dataset("digits"))
    views = ImageViews(AugmentConfig(flip=False), train.statistics, height=8, width=8)
    network = build_model("small-cnn", n_classes=10, in_channels=1, seed=0).eval()
    return {n_views: n_view_losses(network, views, train.images[:1], train.labels[:1], n_views) for n_views in N_VIEWS}


def n_view_losses(network: Network, views: ImageViews, image: Tensor, label: Tensor, n_views: int) -> Tensor:
    flat = views.sample(N_DRAWS * n_views, "unlabeled", rng=stream(0, "hoeffding", n_views))
    with torch.no_grad():
        logits = network(views.make(image, torch.zeros(len(flat), dtype=torch.int64), flat))
    draws = logits.reshape(N_DRAWS, n_views, 1, -1)
    return torch.stack([multi_view_cross_entropy(draw, label) for draw in draws])


@pytest.mark.parametrize("n_views", N_VIEWS[1:])
def test_its_deviation_shrinks_with_the_square_root_of_the_number_of_views(
    losses: dict[int, Tensor], n_views: int
) -> None:
    shrunk = float(losses[1].std() / losses[n_views].std())
    assert shrunk == pytest.approx(math.sqrt(n_views), rel=0.2)


@pytest.mark.parametrize("n_views", N_VIEWS)
def test_it_strays_from_its_expectation_no_more_often_than_hoeffding_allows(
    losses: dict[int, Tensor], n_views: int
) -> None:
    single = losses[1]
    spread = float(single.max() - single.min())
    expectation = torch.cat(list(losses.values())).mean()
    for epsilon in (0.1 * spread, 0.25 * spread, 0.5 * spread):
        n_strays = int(((losses[n_views] - expectation).abs() > epsilon).sum())
        assert n_strays / N_DRAWS <= 2 * math.exp(-2 * n_views * epsilon**2 / spread**2)


def test_several_views_do_not_move_the_expectation(losses: dict[int, Tensor]) -> None:
    for n_views in N_VIEWS[1:]:
        error = losses[1].std() * math.sqrt((1 + 1 / n_views) / N_DRAWS)
        assert abs(float(losses[n_views].mean() - losses[1].mean())) < 4 * float(error)
