"""A frozen pretrained network and a trained one side by side, with one head over the vectors of both.

Pictures come in the frozen network's size and normalization; for the trained one they are brought to its own.
"""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from laplacenet.data import ChannelStatistics
from laplacenet.graph.transform import RowTransform
from laplacenet.labeling.feature_model import BYTE, FeatureModel, PretrainedConfig, TransformedTrunk
from laplacenet.models import ModelDescription, Network, load_model
from laplacenet.models.lite_network import resized
from laplacenet.models.saved import DESCRIPTION, model_kind, read_description, read_model_files, write_model_files
from laplacenet.runtime import InputError

KIND = "joined"
LUMINANCE = (0.299, 0.587, 0.114)  # as Pillow makes grey of colors
NETWORK = "network."


@dataclass(frozen=True, eq=False)
class JoinedModel:
    """`head` is over the joined vectors and has the frozen network's name; `frozen` is the transform of its vectors."""

    head: FeatureModel
    frozen: RowTransform
    network: Network
    description: ModelDescription


class JoinedTrunks(nn.Module):
    """Both vectors at length 1, one behind the other, centered and of length 1 again."""

    center: Tensor
    mean: Tensor
    std: Tensor
    own_mean: Tensor
    own_std: Tensor
    luminance: Tensor

    def __init__(
        self,
        frozen: TransformedTrunk,
        trained: Network,
        center: Float[Tensor, " d"],
        *,
        statistics: ChannelStatistics,
        own: ModelDescription,
    ) -> None:
        super().__init__()
        assert own.statistics is not None
        self.frozen, self.trained, self.side = frozen, trained, min(own.input_shape[1:])
        self.is_grey = own.input_shape[0] == 1
        self.register_buffer("center", center)
        self.register_buffer("luminance", torch.tensor(LUMINANCE)[:, None, None])
        for prefix, of in (("", statistics), ("own_", own.statistics)):
            self.register_buffer(f"{prefix}mean", torch.tensor(of.mean)[:, None, None])
            self.register_buffer(f"{prefix}std", torch.tensor(of.std)[:, None, None])

    def forward(self, x: Float[Tensor, "n 3 h w"]) -> Float[Tensor, "n d"]:
        colors = x * self.std + self.mean
        if self.is_grey:
            colors = (colors * self.luminance).sum(dim=1, keepdim=True)
        own = (resized(colors, self.side) - self.own_mean) / self.own_std
        both = torch.cat([self.frozen(x), functional.normalize(self.trained.embed(own), dim=1)], dim=1)
        return functional.normalize(both - self.center, dim=1)


def save_joined_model(folder: Path, model: JoinedModel) -> None:
    head = model.head
    tensors = {"center": head.transform.center, "weights": head.weights, "offsets": head.offsets}
    tensors["frozen_center"] = model.frozen.center
    tensors |= {NETWORK + name: tensor for name, tensor in model.network.state_dict().items()}
    description = {
        "kind": KIND,
        "features": head.features,
        "weights_file": head.weights_file,
        "pixels": head.pixels,
        "fingerprint": head.fingerprint,
        "class_names": head.class_names,
        "temperature": head.temperature,
        "is_rooted": model.frozen.is_rooted,
        "network": asdict(model.description),
    }
    write_model_files(folder, description, tensors)


def holds_joined_model(folder: Path) -> bool:
    return model_kind(folder) == KIND


def load_any_network(folder: Path) -> tuple[Network, ModelDescription]:
    """The network of a run, or the two that it joined, in evaluation mode on the CPU."""
    return load_joined_model(folder) if holds_joined_model(folder) else load_model(folder)


def load_joined_model(folder: Path) -> tuple[Network, ModelDescription]:
    """Both networks and the head as one network of plain operations, in evaluation mode on the CPU."""
    found, tensors = read_model_files(folder)
    own = read_description(found.get("network"), source=str(folder / DESCRIPTION))
    trained = own.build_to_fill()
    try:
        trained.load_state_dict({n.removeprefix(NETWORK): t for n, t in tensors.items() if n.startswith(NETWORK)})
        head = joined_head(found, tensors)
        frozen = RowTransform(tensors["frozen_center"], is_rooted=bool(found["is_rooted"]))
    except (KeyError, TypeError, ValueError, OverflowError, RuntimeError) as error:
        raise InputError(f"{folder / DESCRIPTION}: not the description of a joined model ({error})") from error
    return joined_network(JoinedModel(head, frozen, trained, own))


def joined_head(found: dict[str, Any], tensors: dict[str, Tensor]) -> FeatureModel:
    return FeatureModel(
        features=str(found["features"]),
        weights_file=None if found["weights_file"] is None else str(found["weights_file"]),
        pixels=None if found.get("pixels") is None else int(found["pixels"]),
        fingerprint=str(found["fingerprint"]),
        transform=RowTransform(tensors["center"], is_rooted=False),  # of rows that have been centered before
        weights=tensors["weights"],
        offsets=tensors["offsets"],
        temperature=float(found["temperature"]),
        class_names=tuple(str(name) for name in found["class_names"]),
    )


def joined_network(model: JoinedModel) -> tuple[Network, ModelDescription]:
    head = model.head
    features = head.network(torch.device("cpu"))
    assert features.module is not None, "only networks of plain operations are joined"
    assert head.features is not None
    mean, std = (tuple(value / BYTE for value in values) for values in (features.mean, features.std))
    statistics = ChannelStatistics(mean=mean, std=std)
    frozen = TransformedTrunk(features.module, model.frozen)
    center = head.transform.center
    body = JoinedTrunks(frozen, model.network.cpu(), center, statistics=statistics, own=model.description)
    network = Network(body, embedding_size=len(center), n_classes=len(head.class_names))
    with torch.no_grad():
        network.head.weight.copy_(head.weights.T)
        network.head.bias.copy_(head.offsets)
    description = ModelDescription(
        model=PretrainedConfig(head.features),
        input_shape=(3, features.pixels, features.pixels),
        class_names=head.class_names,
        statistics=statistics,
        temperature=head.temperature,
    )
    return network.eval(), description
