"""How pictures look: one set of colors that color-blind readers can tell apart, and files without a display."""

from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

BLUE, ORANGE, GREY, RED = "#2f6db3", "#e08214", "#7a7a7a", "#c0392b"
PALE_BLUE, PALE_ORANGE = "#cfe0f3", "#fbe0bd"


def new_figure(width: float, height: float) -> Any:
    """A figure that belongs to no window."""
    return Figure(figsize=(width, height), layout="constrained")


def bare(axes: Any) -> None:
    """No box on the right and above; a light grid to read values from."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color="#e6e6e6", linewidth=0.8)
    axes.set_axisbelow(True)


def save(figure: Any, path: Path) -> None:
    """In the format that the name ends in, without the date, so that the same numbers give the same file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    no_date = {"Date": None} if path.suffix == ".svg" else {"Software": None}
    figure.savefig(path, dpi=150, metadata=no_date)
