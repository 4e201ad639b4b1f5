"""Images as uint8 tensors, and who may see which label."""

from laplacenet.data.images import ChannelStatistics, ImageSet

__all__ = ["ChannelStatistics", "ImageSet"]
