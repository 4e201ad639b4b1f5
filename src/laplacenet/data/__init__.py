"""Images as uint8 tensors, and who may see which label."""

from laplacenet.data.cache import MemoryMappedImages
from laplacenet.data.classes import label_notes
from laplacenet.data.collection import Collection, read_collection
from laplacenet.data.dataset import Dataset, Skipped, require_images
from laplacenet.data.embedded import two_moons
from laplacenet.data.images import UNKNOWN, ChannelStatistics, ImageSet, channel_statistics
from laplacenet.data.judges import read_judges
from laplacenet.data.label_entries import LIST_SUFFIXES
from laplacenet.data.label_files import read_labels
from laplacenet.data.load import DATASET_NAMES, load_dataset
from laplacenet.data.skipped import SKIPPED, refuse_skipped, write_skipped
from laplacenet.data.split_files import holds_row_numbers, read_split
from laplacenet.data.splits import Split, balanced_split, hide_labels
from laplacenet.data.summary import Summary, data_hash, describe
from laplacenet.data.vectors import VectorSet

__all__ = [
    "DATASET_NAMES",
    "LIST_SUFFIXES",
    "SKIPPED",
    "UNKNOWN",
    "ChannelStatistics",
    "Collection",
    "Dataset",
    "ImageSet",
    "MemoryMappedImages",
    "Skipped",
    "Split",
    "Summary",
    "VectorSet",
    "balanced_split",
    "channel_statistics",
    "data_hash",
    "describe",
    "hide_labels",
    "holds_row_numbers",
    "label_notes",
    "load_dataset",
    "read_collection",
    "read_judges",
    "read_labels",
    "read_split",
    "refuse_skipped",
    "require_images",
    "two_moons",
    "write_skipped",
]
