"""The pretrained network as an embedder that hands out vectors as they come, with the cache that `embed` uses."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float

from laplacenet.models.features import load_features
from laplacenet.models.features.cache import VectorCache, cache_folder, picture_key
from laplacenet.models.features.embedding import embed_pictures

CHUNK = 32
LARGEST_SAVED = 512


class PretrainedEmbedder:
    """Loaded when the first picture is asked for: the page is there before the network is.

    `fingerprint` tells which weights the network has, once it is loaded.
    """

    def __init__(self, name: str, *, weights: Path | None = None, device: torch.device | None = None) -> None:
        self.name, self.weights, self.fingerprint = name, weights, ""
        self._device = device

    def __call__(self, paths: list[Path]) -> Iterator[Float[np.ndarray, " d"] | None]:
        network = load_features(self.name, weights=self.weights, device=self._device)
        self.fingerprint = network.fingerprint
        store = VectorCache(cache_folder(), network)
        keys = [picture_key(path) for path in paths]
        known = store.find(keys)
        unsaved: list[tuple[bytes, torch.Tensor]] = []

        def save() -> None:
            if unsaved:
                store.add([key for key, _ in unsaved], torch.stack([vector for _, vector in unsaved]))
                unsaved.clear()

        try:
            for start in range(0, len(paths), CHUNK):
                chunk = range(start, min(len(paths), start + CHUNK))
                missing = [position for position in chunk if position not in known]
                if missing:
                    found = embed_pictures([paths[position] for position in missing], network)
                    for place, vector in zip(found.kept, found.vectors, strict=True):
                        known[missing[place]] = vector
                        key = keys[missing[place]]
                        unsaved += [] if key is None else [(key, vector)]
                    if len(unsaved) >= LARGEST_SAVED:
                        save()
                for position in chunk:
                    vector = known.pop(position, None)
                    yield None if vector is None else vector.numpy()
        finally:
            save()
