"""A place on a map for every row: rows that are alike lie close to one another."""

import numpy as np
import torch
from jaxtyping import Float
from sklearn.manifold import TSNE
from torch import Tensor

from laplacenet.runtime import stream, stream_seed

N_ANCHORS = 2_000  # rows laid out by t-SNE: four seconds on one core; the others follow
N_COMPONENTS = 30
N_ITERATIONS = 500
PERPLEXITY = 30.0
N_NEAREST = 3
BLOCK = 4096


@torch.no_grad()
def map_positions(features: Float[Tensor, "n d"], *, seed: int) -> Float[Tensor, "n 2"]:
    """t-SNE of at most 2 000 rows; every other row lies amid the three of them that are most like it."""
    features = features.float().cpu()
    n = len(features)
    if n < 4:
        return torch.stack([torch.arange(n), torch.zeros(n)], dim=1).float()
    anchors = torch.from_numpy(np.sort(stream(seed, "labeling/map").permutation(n)[:N_ANCHORS]))
    reduced = principal_components(features[anchors], N_COMPONENTS)
    layout = TSNE(
        init=reduced[:, :2].numpy() / max(float(reduced[:, 0].std()), 1e-12) * 1e-4,
        learning_rate="auto",
        perplexity=min(PERPLEXITY, (len(anchors) - 1) / 3),
        max_iter=N_ITERATIONS,
        random_state=stream_seed(seed, "labeling/map") % 2**32,
    )
    places = torch.from_numpy(layout.fit_transform(reduced.numpy()))
    if n == len(anchors):
        return places
    nearest = [(rows @ features[anchors].T).topk(N_NEAREST, dim=1).indices for rows in torch.split(features, BLOCK)]
    positions = places[torch.cat(nearest)].mean(dim=1)
    positions[anchors] = places
    return positions


def principal_components(X: Float[Tensor, "m d"], n_components: int) -> Float[Tensor, "m c"]:
    """Coordinates along the directions of largest variance, at least two of them."""
    U, S, _ = torch.linalg.svd(X - X.mean(dim=0), full_matrices=False)
    coordinates = (U * S)[:, :n_components]
    return torch.nn.functional.pad(coordinates, (0, max(0, 2 - coordinates.shape[1])))
