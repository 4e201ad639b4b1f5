"""A linear head for new pictures or embeddings, saved in the run folder as `model.safetensors`.

The head is fitted to the labels of all pictures, not only to the given ones, so that it includes what the graph has
learned. The network that made the vectors is not saved, only its name and fingerprint.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from laplacenet.data import ChannelStatistics, Skipped
from laplacenet.graph.logistic import fit_logistic
from laplacenet.graph.temperature import fit_temperature_to
from laplacenet.graph.transform import RowTransform
from laplacenet.labeling.predictions import Prediction, Source, named_predictions, vector_predictions
from laplacenet.models import ModelConfig, ModelDescription, Network
from laplacenet.models.features import FeatureNetwork, load_features
from laplacenet.models.features.cache import cache_folder
from laplacenet.models.features.embedding import embed_pictures
from laplacenet.models.saved import DESCRIPTION, model_kind, read_model_files, usable_temperature, write_model_files
from laplacenet.runtime import (
    InputError,
    Monitor,
    NullMonitor,
    stream,
)

KIND = "features"
BYTE = 255.0
HEAD_PENALTY = 100.0
HEAD_TOL = 1e-3
MOST_ROWS = 20_000  # to fit a head on
BLOCK = 512  # pictures between two lines of output


@dataclass(frozen=True, eq=False)
class FeatureModel:
    """Vectors of the network `features` → transformed rows → logits → probabilities at `temperature`.

    `features` is None where the vectors are the user's own; `pixels` where the network saw pictures at its own size.
    """

    features: str | None
    weights_file: str | None
    fingerprint: str | None
    transform: RowTransform
    weights: Float[Tensor, "d C"]
    offsets: Float[Tensor, " C"]
    temperature: float
    class_names: tuple[str, ...]
    pixels: int | None = None

    def __post_init__(self) -> None:
        (d, n_classes), names = self.weights.shape, self.class_names
        if self.transform.center.shape != (d,) or self.offsets.shape != (n_classes,):
            raise ValueError(f"center, weights and offsets do not fit one another ({d} numbers, {n_classes} classes)")
        if len(set(names)) != n_classes or len(names) != n_classes:
            raise ValueError(f"class_names must be {n_classes} different names")
        usable_temperature(self.temperature)

    def probabilities(self, vectors: Float[Tensor, "m d"]) -> Float[Tensor, "m C"]:
        if vectors.shape[1] != len(self.weights):
            raise InputError(f"embeddings of {vectors.shape[1]} numbers; this model reads {len(self.weights)}")
        return ((self.transform(vectors) @ self.weights + self.offsets) / self.temperature).softmax(dim=1)

    def network(self, device: torch.device) -> FeatureNetwork:
        """The network that embedded the pictures; one of the same name with other weights is refused."""
        if self.features is None:
            raise InputError("this run labeled embeddings; give .npy or .npz files of more")
        weights = None if self.weights_file is None else Path(self.weights_file)
        found = load_features(self.features, weights=weights, device=device)
        if found.fingerprint != self.fingerprint:
            raise InputError(f"{self.features}: not the network that this run was made with (its weights differ)")
        return found if self.pixels is None else replace(found, pixels=self.pixels)


def fit_head(
    X: Float[Tensor, "n d"], labels: Int64[Tensor, " n"], scores: Float[Tensor, "n C"], *, seed: int
) -> tuple[Float[Tensor, "d C"], Float[Tensor, " C"], float]:
    """Weights, offsets and temperature of a head for rows of length 1; a row counts by the confidence in its label."""
    rows = np.sort(stream(seed, "labeling/head").permutation(len(X))[:MOST_ROWS])
    chosen = torch.from_numpy(rows)
    inputs, classes = X[chosen].double().cpu().numpy(), labels[chosen].cpu().numpy()
    confidence = scores[chosen].gather(1, labels[chosen][:, None]).squeeze(1).double().clamp(min=1e-3)
    model = fit_logistic(
        inputs, classes, n_classes=scores.shape[1], C=HEAD_PENALTY, tol=HEAD_TOL, weights=confidence.cpu().numpy()
    )
    offsets = np.nan_to_num(model.offsets, neginf=-1e4)
    logits = inputs @ model.weights + offsets
    temperature = fit_temperature_to(logits, scores[chosen].double().cpu().numpy())
    return torch.from_numpy(model.weights).float(), torch.from_numpy(offsets).float(), temperature


def save_feature_model(folder: Path, model: FeatureModel) -> None:
    tensors = {"center": model.transform.center, "weights": model.weights, "offsets": model.offsets}
    description = {
        "kind": KIND,
        "features": model.features,
        "weights_file": model.weights_file,
        "fingerprint": model.fingerprint,
        "pixels": model.pixels,
        "is_rooted": model.transform.is_rooted,
        "class_names": model.class_names,
        "temperature": model.temperature,
    }
    write_model_files(folder, description, {name: tensor.float() for name, tensor in tensors.items()})


def holds_feature_model(folder: Path) -> bool:
    """Whether the folder's model is a head over a pretrained network."""
    return model_kind(folder) == KIND


def load_feature_model(folder: Path) -> FeatureModel:
    found, tensors = read_model_files(folder)
    try:
        return FeatureModel(
            features=text_or_none(found["features"]),
            weights_file=text_or_none(found["weights_file"]),
            fingerprint=text_or_none(found["fingerprint"]),
            transform=RowTransform(tensors["center"], is_rooted=bool(found.get("is_rooted", False))),
            weights=tensors["weights"],
            offsets=tensors["offsets"],
            temperature=float(found["temperature"]),
            class_names=tuple(str(name) for name in found["class_names"]),
            pixels=None if found.get("pixels") is None else int(found["pixels"]),
        )
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise InputError(f"{folder / DESCRIPTION}: not the description of a head over features ({error})") from error


def text_or_none(value: object) -> str | None:
    return None if value is None else str(value)


def feature_predictions(
    model: FeatureModel, sources: Sequence[Source], *, device: torch.device, monitor: Monitor | None = None
) -> Iterator[Prediction | Skipped]:
    """One for each picture or row, in order; files in a folder that cannot be read are skipped and reported."""
    if model.features is None:
        yield from vector_predictions(model.probabilities, model.class_names, sources, monitor=monitor)
        return
    for source in sources:
        if source.rows is not None:
            raise InputError(f"{source.path}: this run reads picture files; give pictures or folders of them")
    network = model.network(device)
    for source in sources:
        yield from source.skipped
        for start in range(0, len(source.files), BLOCK):
            some = source.files[start : start + BLOCK]
            paths = [file.path for file in some]
            found = embed_pictures(paths, network, cache=cache_folder(), monitor=monitor or NullMonitor())
            for position, reason in found.failures.items():
                if source.is_named:
                    raise InputError(f"{source.path}: not a picture that can be read ({reason})")
                yield Skipped(some[position].name, reason)
            if found.kept:
                names = [some[position].name for position in found.kept]
                yield from named_predictions(names, model.probabilities(found.vectors), model.class_names)


class TransformedTrunk(nn.Module):
    """A trunk and its vectors' `RowTransform`, in operations that can be exported."""

    center: Tensor

    def __init__(self, trunk: nn.Module, transform: RowTransform) -> None:
        super().__init__()
        self.trunk, self.is_rooted = trunk, transform.is_rooted
        self.register_buffer("center", transform.center)

    def forward(self, x: Float[Tensor, "n 3 h w"]) -> Float[Tensor, "n d"]:
        vectors = self.trunk(x)
        if self.is_rooted:
            vectors = vectors.clamp(min=0).sqrt()
        return nn.functional.normalize(vectors - self.center, dim=1)


def feature_network(folder: Path) -> tuple[Network, ModelDescription]:
    """Trunk and head as one network of plain operations, for export."""
    model = load_feature_model(folder)
    if model.features is None:
        raise InputError(f"{folder}: labeled embeddings; there is no network to export, use laplacenet predict")
    features = model.network(torch.device("cpu"))
    if features.module is None:
        raise InputError(f"{model.features}: an ONNX file cannot be joined with its head; use laplacenet predict")
    body = TransformedTrunk(features.module, model.transform)
    network = Network(body, embedding_size=len(model.weights), n_classes=len(model.class_names))
    with torch.no_grad():
        network.head.weight.copy_(model.weights.T)
        network.head.bias.copy_(model.offsets)
    mean, std = (tuple(value / BYTE for value in values) for values in (features.mean, features.std))
    description = ModelDescription(
        model=PretrainedConfig(model.features),
        input_shape=(3, features.pixels, features.pixels),
        class_names=model.class_names,
        statistics=ChannelStatistics(mean=mean, std=std),
        temperature=model.temperature,
    )
    return network.eval(), description


@dataclass(frozen=True)
class PretrainedConfig(ModelConfig):
    """A network that is loaded by the name of its features, not built from a config."""

    def __post_init__(self) -> None:
        pass
