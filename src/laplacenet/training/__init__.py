"""The training engine: one loop, one step, one checkpoint for every method; the methods themselves are in `methods`."""

from laplacenet.training.checkpoint import load_checkpoint, save_checkpoint
from laplacenet.training.config import TrainConfig
from laplacenet.training.guards import DivergedError
from laplacenet.training.loop import Epoch, Position, Run, train
from laplacenet.training.method import Batch, Block, EpochPlan, Method
from laplacenet.training.methods import (
    METHODS,
    LabelReport,
    LaplaceNet,
    LaplaceNetConfig,
    MethodConfig,
    Problem,
    config_class,
    method_class,
)
from laplacenet.training.objective import multi_view_cross_entropy
from laplacenet.training.session import Session, Times
from laplacenet.training.step import Execution
from laplacenet.training.views import ImageViews, VectorViews, Views

__all__ = [
    "METHODS",
    "Batch",
    "Block",
    "DivergedError",
    "Epoch",
    "EpochPlan",
    "Execution",
    "ImageViews",
    "LabelReport",
    "LaplaceNet",
    "LaplaceNetConfig",
    "Method",
    "MethodConfig",
    "Position",
    "Problem",
    "Run",
    "Session",
    "Times",
    "TrainConfig",
    "VectorViews",
    "Views",
    "config_class",
    "load_checkpoint",
    "method_class",
    "multi_view_cross_entropy",
    "save_checkpoint",
    "train",
]
