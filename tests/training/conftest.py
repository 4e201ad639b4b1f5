"""Pictures that a small network learns in a few steps."""

import pytest
from references_training import bright_halves

from laplacenet.data import ImageSet


@pytest.fixture(scope="module")
def pictures() -> ImageSet:
    """Three classes of 8×8 pictures: bright on top, bright below, even."""
    return bright_halves(120)
