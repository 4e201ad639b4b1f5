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
from laplacenet.labeling.feature_model import BYTE, CenteredTrunk, FeatureModel, PretrainedConfig
from laplacenet.models import ModelDescription, Network, load_model
from laplacenet.models.lite_network import resized
from laplacenet.models.saved import DESCRIPTION, model_kind, read_description, read_model_files, write_model_files
from laplacenet.runtime import InputError

KIND = "joined"
LUMINANCE = (0.299, 0.587, 0.114)  # as Pillow makes grey of colors
NETWORK = "network."


@dataclass(frozen=True, eq=False)
class JoinedModel:
    """`head` is over the joined vectors and has the frozen network's name; `frozen_center` is that of its vectors."""

    head: FeatureModel
    frozen_center: Float[Tensor, " d1"]
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
        frozen: CenteredTrunk,
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
    tensors = {"center": head.center, "weights": head.weights, "offsets": head.offsets}
    tensors["frozen_center"] = model.frozen_center
    tensors |= {NETWORK + name: tensor for name, tensor in model.network.state_dict().items()}
    description = {
        "kind": KIND,
        "features": head.features,
        "weights_file": head.weights_file,
        "fingerprint": head.fingerprint,
        "class_names": head.class_names,
        "temperature": head.temperature,
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
    except (KeyError, TypeError, ValueError, OverflowError, RuntimeError) as error:
        raise InputError(f"{folder / DESCRIPTION}: not the description of a joined model ({error})") from error
    return joined_network(JoinedModel(head, tensors["frozen_center"], trained, own))


def joined_head(found: dict[str, Any], tensors: dict[str, Tensor]) -> FeatureModel:
    return FeatureModel(
        features=str(found["features"]),
        weights_file=None if found["weights_file"] is None else str(found["weights_file"]),
        fingerprint=str(found["fingerprint"]),
        center=tensors["center"],
        weights=tensors["weights"],
        offsets=tensors["offsets"],
        temperature=float(found["temperature"]),
        class_names=tuple(str(name) for name in found["class_names"]),
    )


def joined_network(model: JoinedModel) -> tuple[Network, ModelDescription]:
    head = model.head
    features = head.network(torch.device("cpu"))
    assert features.module is not None, "only networks of plain operations are joined"
    mean, std = (tuple(value / BYTE for value in values) for values in (features.mean, features.std))
    statistics = ChannelStatistics(mean=mean, std=std)
    frozen = CenteredTrunk(features.module, model.frozen_center)
    body = JoinedTrunks(frozen, model.network.cpu(), head.center, statistics=statistics, own=model.description)
    network = Network(body, embedding_size=len(head.center), n_classes=len(head.class_names))
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
