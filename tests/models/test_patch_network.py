"""The first layer that is learned from patches: what it computes, and that it needs no labels."""

import numpy as np
import torch
from torch.nn import functional

from laplacenet.models import build_model, learn_patches
from laplacenet.models.patches import SIDE, SMALLEST_CONTRAST, STRIDE, THRESHOLD, PatchLayer, centroids


def striped(n: int, *, side: int, rng: np.random.Generator) -> torch.Tensor:
    """Half of the pictures striped across, half along, at random places."""
    waves = np.sin(np.arange(side) / 2 + rng.uniform(0, 6, size=(n, 1)))[:, None, None, :].repeat(side, axis=2)
    waves[::2] = waves[::2].swapaxes(2, 3)
    return torch.from_numpy(waves + 0.1 * rng.normal(size=waves.shape)).float()


def test_the_layer_compares_each_patch_without_mean_and_contrast() -> None:
    rng = np.random.default_rng(0)
    x = torch.randn(3, 2, 14, 14)
    layer = PatchLayer(2, 5)
    layer.learn(x, rng=rng)
    patches = functional.unfold(x, SIDE, stride=STRIDE).transpose(1, 2)
    patches = patches - patches.mean(dim=2, keepdim=True)
    patches = patches / (patches.square().mean(dim=2, keepdim=True) + SMALLEST_CONTRAST).sqrt()
    likeness = (patches @ layer.weight.flatten(1).T + layer.bias).transpose(1, 2).reshape(3, 5, 5, 5)
    both = torch.cat([(likeness - THRESHOLD).clamp(min=0), (-likeness - THRESHOLD).clamp(min=0)], dim=1)
    assert torch.allclose(layer(x), functional.avg_pool2d(both, 2), atol=1e-4)


def test_learned_filters_tell_pictures_apart_that_random_ones_do_not() -> None:
    rng = np.random.default_rng(0)
    x = striped(200, side=20, rng=rng)
    learned, drawn = (build_model("patch-cnn", n_classes=2, in_channels=1).body[0] for _ in range(2))
    learned.learn(x, rng=rng)
    apart = []
    for layer in (learned, drawn):
        features = layer(x).mean(dim=(2, 3))
        means = torch.stack([features[::2].mean(0), features[1::2].mean(0)])
        within = (features[::2] - means[0]).norm(dim=1).mean() + (features[1::2] - means[1]).norm(dim=1).mean()
        apart.append(float((means[0] - means[1]).norm() / within))
    assert apart[0] > 1.5 * apart[1]


def test_learning_is_the_same_for_the_same_stream_and_leaves_the_rest_of_the_network_alone() -> None:
    x = torch.randn(20, 3, 32, 32)
    networks = [build_model("patch-cnn", n_classes=4) for _ in range(3)]
    for network in networks[:2]:
        learn_patches(network, x, torch.clone, seed=7)
    first, second, untouched = (network.state_dict() for network in networks)
    assert all(torch.equal(first[name], second[name]) for name in first)
    changed = {name for name in first if not torch.equal(first[name], untouched[name])}
    assert changed == {"body.0.weight", "body.0.bias"}


def test_filters_are_saved_and_never_trained() -> None:
    network = build_model("patch-cnn", n_classes=4)
    assert "body.0.weight" in network.state_dict()
    assert "body.0.weight" not in dict(network.named_parameters())


def test_flat_pictures_give_finite_features() -> None:
    network = build_model("patch-cnn", n_classes=2, in_channels=1).eval()
    x = torch.zeros(5, 1, 16, 16)
    learn_patches(network, x, torch.clone, seed=0)
    assert network(x).isfinite().all()


def test_a_centroid_without_rows_begins_anew() -> None:
    Z = functional.normalize(torch.tensor([[1.0, 0.0]]).repeat(50, 1) + 1e-3 * torch.randn(50, 2), dim=1)
    found = centroids(Z, 4, rng=np.random.default_rng(0))
    assert found.isfinite().all()
    assert torch.allclose(found.norm(dim=1), torch.ones(4))
