"""Pictures that a small network learns in a few steps."""

import pytest
import torch

from laplacenet.data import ImageSet


@pytest.fixture(scope="module")
def pictures() -> ImageSet:
    """Three classes of 8×8 pictures: bright on top, bright below, even."""
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(0, 100, (120, 1, 8, 8), generator=generator, dtype=torch.uint8)
    labels = torch.arange(120) % 3
    images[labels == 0, :, :4] += 120
    images[labels == 1, :, 4:] += 120
    return ImageSet(images, labels, ("top", "bottom", "even"))
