"""The pretrained network as an embedder that yields vectors as they are computed, with the cache of `embed`."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float

from laplacenet.models.features import load_features
from laplacenet.models.features.cache import VectorCache, cache_folder, picture_key
from laplacenet.models.features.embedding import embed_pictures
from laplacenet.models.features.lite import VARIANTS
from laplacenet.models.features.lite_weights import require_wheel
from laplacenet.models.features.load import unknown_features
from laplacenet.models.features.timm_model import TIMM
from laplacenet.runtime import InputError

CHUNK = 32
LARGEST_SAVED = 512


class PretrainedEmbedder:
    """Loaded when the first picture is asked for: the page is there before the network is.

    `fingerprint` tells which weights the network has, once it is loaded.
    """

    def __init__(self, name: str, *, weights: Path | None = None, device: torch.device | None = None) -> None:
        require_network(name, weights)
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


def require_network(name: str, weights: Path | None) -> None:
    """Refuse a network that cannot be loaded now, before the page is open."""
    if weights is not None and not weights.is_file():
        raise InputError(f"--weights {weights}: no such file")
    if name in VARIANTS:
        if weights is None:
            require_wheel(name)
    elif name.lower().endswith(".onnx"):
        if not Path(name).is_file():
            raise InputError(f"--features {name}: no such file")
    elif not name.startswith(TIMM):
        raise unknown_features(name)
