"""Algorithm 2: composite batches, MixUp, schedule, objective, the step, the loop, checkpoints."""

from laplacenet.training.checkpoint import load_checkpoint, save_checkpoint
from laplacenet.training.config import LABEL_SOURCES, TrainConfig
from laplacenet.training.guards import DivergedError
from laplacenet.training.laplacenet import LaplaceNet
from laplacenet.training.loop import Epoch, Position, Run, train
from laplacenet.training.method import Batch, Block, EpochPlan, Method
from laplacenet.training.objective import multi_view_cross_entropy
from laplacenet.training.step import Execution
from laplacenet.training.views import ImageViews, VectorViews, Views

__all__ = [
    "LABEL_SOURCES",
    "Batch",
    "Block",
    "DivergedError",
    "Epoch",
    "EpochPlan",
    "Execution",
    "ImageViews",
    "LaplaceNet",
    "Method",
    "Position",
    "Run",
    "TrainConfig",
    "VectorViews",
    "Views",
    "load_checkpoint",
    "multi_view_cross_entropy",
    "save_checkpoint",
    "train",
]
