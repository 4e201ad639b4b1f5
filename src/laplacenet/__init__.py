"""LaplaceNet: an image classifier from a handful of labels.

    import laplacenet

    run = laplacenet.label("photos/", labels="labels.csv")

The rooms, each importing only rooms to its left:

    runtime → data → augment → models → graph → training → evaluation
            → {estimators | labeling | experiments} → reports → review → api → cli
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from laplacenet.api import LabelingRun, embed, label
    from laplacenet.estimators import LaplaceNetClassifier, LaplacePropagation, PretrainedFeatures

__version__ = "0.2.0"
__all__ = [
    "LabelingRun",
    "LaplaceNetClassifier",
    "LaplacePropagation",
    "PretrainedFeatures",
    "__version__",
    "embed",
    "label",
]

PUBLIC = {
    "LabelingRun": "laplacenet.api",
    "label": "laplacenet.api",
    "embed": "laplacenet.api",
    "review": "laplacenet.api",
    "LaplaceNetClassifier": "laplacenet.estimators",
    "LaplacePropagation": "laplacenet.estimators",
    "PretrainedFeatures": "laplacenet.estimators",
}


def __getattr__(name: str) -> Any:
    """Import what is asked for when it is asked for: torch takes seconds."""
    if name not in PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(importlib.import_module(PUBLIC[name]), name)
    globals()[name] = found  # the room `review` would otherwise hide the function
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *PUBLIC})
