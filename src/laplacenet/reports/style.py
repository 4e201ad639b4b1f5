"""How pictures look: one set of colors that color-blind readers can tell apart, and files without a display."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from PIL import Image

BLUE, ORANGE, GREY, RED = "#2f6db3", "#e08214", "#7a7a7a", "#c0392b"
PALE_BLUE, PALE_ORANGE = "#cfe0f3", "#fbe0bd"

# As far apart as they go for eyes that miss red, green or blue, and at least 3 : 1 against a light and a dark page.
COLORS = (
    *("#2f7fd0", "#c8600c", "#12946a", "#a05bc4", "#b8860b", "#d4479b"),
    *("#1795ad", "#d4443b", "#6d8f0f", "#8f6248", "#6b7b92", "#6a5fe0"),
)
LONGEST_MARK = 3
N_PICTURE_COLORS = 64


def new_figure(width: float, height: float) -> Any:
    """A figure that belongs to no window."""
    return Figure(figsize=(width, height), layout="constrained")


def bare(axes: Any) -> None:
    """No box on the right and above; a light grid to read values from."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color="#808080", alpha=0.2, linewidth=0.8)
    axes.set_axisbelow(True)


def save(figure: Any, path: Path) -> None:
    """In the format that the name ends in, without the date, so that the same numbers give the same file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    no_date = {"Date": None} if path.suffix == ".svg" else {"Software": None}
    figure.savefig(path, dpi=150, metadata=no_date)


def reduce_colors(path: Path) -> None:
    """A PNG of lines and letters in a third of its size; nobody sees the difference."""
    with Image.open(path) as picture:
        reduced = picture.convert("RGB").quantize(N_PICTURE_COLORS, dither=Image.Dither.NONE)
    reduced.save(path, optimize=True)


def class_colors(n: int) -> list[str]:
    """A color a class. From the thirteenth on they repeat: nobody can tell a hundred apart, so a class's name or number
    is always written beside its color."""
    return [COLORS[i % len(COLORS)] for i in range(n)]


def marks(names: Sequence[str]) -> list[str]:
    """What stands for a class where its name has no room: short names themselves, else numbers from 1."""
    return (
        list(names) if all(0 < len(name) <= LONGEST_MARK for name in names) else [str(i + 1) for i in range(len(names))]
    )
