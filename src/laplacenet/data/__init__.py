"""Images as uint8 tensors, and who may see which label."""

from laplacenet.data.classes import joined_classes, label_notes, similar_classes
from laplacenet.data.collection import Collection, read_collection
from laplacenet.data.dataset import (
    SKIPPED,
    Dataset,
    Skipped,
    Summary,
    data_hash,
    describe,
    refuse_skipped,
    require_images,
    write_skipped,
)
from laplacenet.data.images import UNKNOWN, ChannelStatistics, ImageSet, VectorSet, channel_statistics
from laplacenet.data.judges import read_judges
from laplacenet.data.label_entries import LIST_SUFFIXES
from laplacenet.data.label_files import GivenLabels, read_labels
from laplacenet.data.load import DATASET_NAMES, load_dataset, two_moons
from laplacenet.data.splits import (
    Split,
    balanced_split,
    hide_labels,
    holds_published_lists,
    holds_row_numbers,
    read_split,
    rows_hash,
)

__all__ = [
    "DATASET_NAMES",
    "LIST_SUFFIXES",
    "SKIPPED",
    "UNKNOWN",
    "ChannelStatistics",
    "Collection",
    "Dataset",
    "GivenLabels",
    "ImageSet",
    "Skipped",
    "Split",
    "Summary",
    "VectorSet",
    "balanced_split",
    "channel_statistics",
    "data_hash",
    "describe",
    "hide_labels",
    "holds_published_lists",
    "holds_row_numbers",
    "joined_classes",
    "label_notes",
    "load_dataset",
    "read_collection",
    "read_judges",
    "read_labels",
    "read_split",
    "refuse_skipped",
    "require_images",
    "rows_hash",
    "similar_classes",
    "two_moons",
    "write_skipped",
]
