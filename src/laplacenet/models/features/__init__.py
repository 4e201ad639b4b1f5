"""Pretrained networks: pictures in, one vector a picture out, nothing trained."""

from laplacenet.models.features.lite_weights import installed_lite
from laplacenet.models.features.load import load_features
from laplacenet.models.features.network import FeatureNetwork

__all__ = ["FeatureNetwork", "installed_lite", "load_features"]
