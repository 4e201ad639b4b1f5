"""f = g ∘ z: the networks, by name, each with `embed` and `head`."""

from laplacenet.models.build import MODELS, ModelConfig, build_model, build_network
from laplacenet.models.inference import Inference
from laplacenet.models.network import Head, Network, require_fit
from laplacenet.models.norm import still_statistics
from laplacenet.models.patches import learn_patches
from laplacenet.models.saved import ModelDescription, load_model, save_model

__all__ = [
    "MODELS",
    "Head",
    "Inference",
    "ModelConfig",
    "ModelDescription",
    "Network",
    "build_model",
    "build_network",
    "learn_patches",
    "load_model",
    "require_fit",
    "save_model",
    "still_statistics",
]
