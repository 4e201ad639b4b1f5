"""LaplaceNet: an image classifier from a handful of labels.

The rooms, each importing only rooms to its left:

    runtime → data → augment → models → graph → training → evaluation
            → {estimators | labeling | experiments} → reports → cli
"""

__version__ = "0.1.0"
