"""The settings of augmentation: how many samples, how large a square, whether to mirror, how far to shift."""

from dataclasses import dataclass

from laplacenet.runtime import InputError

_PUBLISHED_PADS = {32: 4, 84: 8}  # the authors' values for CIFAR and Mini-ImageNet


@dataclass(frozen=True)
class AugmentConfig:
    """What is done to views; no samples and no cutout are the paper's "RandAugment removed"."""

    n_labeled_samples: int = 1
    """RandAugment samples of a labeled view, 0 to 2."""
    n_unlabeled_samples: int = 2
    """RandAugment samples of an unlabeled view, 0 to 2."""
    cutout: float = 0.5
    """The largest side of the grey square as a fraction of the width; 0 for none."""
    flip: bool = True
    """Mirror half of the views; off where a mirror image is another class (digits)."""
    pad: int | None = None
    """Reflected pixels on each side before the crop; None: 4 at 32 px, 8 at 84 px, an eighth of the side elsewhere."""

    def __post_init__(self) -> None:
        for name in ("n_labeled_samples", "n_unlabeled_samples"):
            if getattr(self, name) not in (0, 1, 2):
                raise InputError(f"augment.{name} = {getattr(self, name)!r}; it must be 0, 1 or 2")
        if not 0 <= self.cutout <= 1:
            accepted = "lie between 0 (none) and 1, as a share of the width"
            raise InputError(f"augment.cutout = {self.cutout!r}; it must {accepted}")
        if self.pad is not None and self.pad < 0:
            raise InputError(f"augment.pad = {self.pad!r}; it must be none or a number of pixels, 0 or more")

    def pad_for(self, height: int, width: int) -> int:
        """The pad for images of this size; reflection needs it smaller than the shorter side."""
        side = min(height, width)
        pad = _PUBLISHED_PADS.get(side, side // 8) if self.pad is None else self.pad
        if pad >= side:
            raise InputError(f"augment.pad = {pad}, but the images are {width}×{height}; it must be at most {side - 1}")
        return pad
