"""Sample, then apply: the fourteen operations, cutout, flip and crop, and the views made of them."""

from laplacenet.augment.config import AugmentConfig
from laplacenet.augment.operations import OPERATIONS, apply_operation
from laplacenet.augment.sampling import ViewParameters, sample_views
from laplacenet.augment.views import make_views, normalized, shrunk, shrunk_size, strong_views_uint8, vector_views

__all__ = [
    "OPERATIONS",
    "AugmentConfig",
    "ViewParameters",
    "apply_operation",
    "make_views",
    "normalized",
    "sample_views",
    "shrunk",
    "shrunk_size",
    "strong_views_uint8",
    "vector_views",
]
