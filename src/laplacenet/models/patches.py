"""A network whose first layer is learned from small patches of the pictures, without any label.

With a hundred labels a convolutional network cannot learn good filters, and on a CPU it has no time to. Patches of the
pictures themselves give them in a second (Coates, Lee and Ng, 2011): each patch is normalized for mean and contrast,
whitened, and compared with centroids of such patches. Only the layers above are trained.
"""

from collections.abc import Callable

import numpy as np
import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn
from torch.nn import functional

from laplacenet.models.network import Network
from laplacenet.models.norm import BatchNorm1d, BatchNorm2d, NormActivation
from laplacenet.runtime import stream

N_FILTERS = 96
SIDE, STRIDE = 6, 2
SMALLEST_CONTRAST = 0.01
"""Added to a patch's variance, so that noise in flat patches is not amplified."""
SMALLEST_EIGENVALUE = 0.3
"""Added to the eigenvalues of the patches' covariance: directions with less variance are noise."""
THRESHOLD = 0.25
N_PICTURES, N_PATCHES, N_ITERATIONS = 2_000, 20_000, 10


class PatchLayer(nn.Module):
    """How much each patch is like each filter, and how much like its negative, above a threshold; pooled by two.

    Filters are buffers: saved with the network, never trained.
    """

    weight: Tensor
    bias: Tensor

    def __init__(self, n_channels: int, n_filters: int) -> None:
        super().__init__()
        self.register_buffer("weight", torch.randn(n_filters, n_channels, SIDE, SIDE) / (SIDE * n_channels**0.5))
        self.register_buffer("bias", torch.zeros(n_filters))

    @torch.no_grad()
    def forward(self, x: Float[Tensor, "n c h w"]) -> Float[Tensor, "n c2 h2 w2"]:
        x = x.contiguous(memory_format=torch.channels_last)
        moments = torch.cat([x.mean(1, keepdim=True), x.square().mean(1, keepdim=True)], dim=1)
        mean, square = functional.avg_pool2d(moments, SIDE, STRIDE).chunk(2, dim=1)
        contrast = (square - mean.square()).clamp(min=0).add(SMALLEST_CONTRAST).sqrt()
        likeness = functional.conv2d(x, self.weight, stride=STRIDE) / contrast + self.bias[:, None, None]
        return torch.cat([pooled(likeness - THRESHOLD), pooled(-likeness - THRESHOLD)], dim=1)

    def learn(self, x: Float[Tensor, "n c h w"], *, rng: np.random.Generator) -> None:
        """Filters from random patches of these pictures: spherical k-means on whitened patches."""
        patches = some_patches(x, rng)
        patches = patches - patches.mean(dim=1, keepdim=True)
        patches = patches / (patches.square().mean(dim=1, keepdim=True) + SMALLEST_CONTRAST).sqrt()
        mean = patches.mean(dim=0)
        values, vectors = torch.linalg.eigh(torch.cov(patches.T))
        whitening = (vectors * (values + SMALLEST_EIGENVALUE).rsqrt()) @ vectors.T
        filters = centroids((patches - mean) @ whitening, len(self.weight), rng=rng) @ whitening
        self.bias.copy_(-(filters @ mean))
        # without its mean a filter is blind to the patch's: it need not be taken from every patch
        self.weight.copy_((filters - filters.mean(dim=1, keepdim=True)).reshape(self.weight.shape))


def pooled(likeness: Float[Tensor, "n c h w"]) -> Float[Tensor, "n c h2 w2"]:
    return functional.avg_pool2d(likeness.clamp(min=0), 2)


def some_patches(x: Float[Tensor, "n c h w"], rng: np.random.Generator) -> Float[Tensor, "m d"]:
    """Patches from anywhere, as rows."""
    n, _, height, width = x.shape
    rows = rng.integers(n, size=N_PATCHES)
    tops, lefts = rng.integers(height - SIDE + 1, size=N_PATCHES), rng.integers(width - SIDE + 1, size=N_PATCHES)
    windows = x.unfold(2, SIDE, 1).unfold(3, SIDE, 1)  # a view of every patch
    return windows[rows, :, tops, lefts].flatten(1)


def centroids(Z: Float[Tensor, "m d"], n: int, *, rng: np.random.Generator) -> Float[Tensor, "n d"]:
    """Centroids of the rows; one that loses all its rows starts again from a random row."""
    found = functional.normalize(torch.from_numpy(rng.normal(size=(n, Z.shape[1])).astype(np.float32)), dim=1)
    for _ in range(N_ITERATIONS):
        likeness, nearest = (Z @ found.T).max(dim=1)
        sums = torch.zeros_like(found).index_add_(0, nearest, Z * likeness[:, None])
        anew = torch.from_numpy(rng.normal(size=found.shape).astype(np.float32))
        is_empty = torch.linalg.vector_norm(sums, dim=1, keepdim=True) == 0
        found = functional.normalize(torch.where(is_empty, anew, sums), dim=1)
    return found


def patch_cnn(*, n_classes: int, in_channels: int, width: int = 128) -> Network:
    """The patch layer, one convolution, and one hidden layer that knows where in the picture things are."""
    n_maps = 2 * N_FILTERS
    body = nn.Sequential(
        PatchLayer(in_channels, N_FILTERS), BatchNorm2d(n_maps),
        nn.Conv2d(n_maps, width, 3, stride=2, padding=1, bias=False), NormActivation(width, slope=0.1),
        nn.AdaptiveAvgPool2d(4), nn.Flatten(),
        nn.Linear(16 * width, width), BatchNorm1d(width), nn.LeakyReLU(0.1),
    )  # fmt: skip
    return Network(body, embedding_size=width, n_classes=n_classes)


def learn_patches(
    network: Network, inputs: Shaped[Tensor, "n ..."], prepare: Callable[[Tensor], Tensor], *, seed: int
) -> None:
    """Learn the filters of every patch layer of the network, if it has any, from inputs as `prepare` gives them."""
    layers = [module for module in network.modules() if isinstance(module, PatchLayer)]
    if layers:
        rows = stream(seed, "patches/pictures").permutation(len(inputs))[:N_PICTURES]
        x = prepare(inputs[torch.from_numpy(rows)])
        for layer in layers:
            layer.learn(x, rng=stream(seed, "patches/filters"))
