"""f = g ∘ z: the networks, by name, each with `embed` and `head`."""

from laplacenet.models.build import MODELS, ModelConfig, build_model
from laplacenet.models.network import Network

__all__ = ["MODELS", "ModelConfig", "Network", "build_model"]
