"""How pictures look: one set of colors that color-blind readers can tell apart, and files without a display."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

BLUE, ORANGE, GREY, RED = "#2f6db3", "#e08214", "#7a7a7a", "#c0392b"
PALE_BLUE, PALE_ORANGE = "#cfe0f3", "#fbe0bd"

# As far apart as they go for eyes that miss red, green or blue, and at least 3 : 1 against a light and a dark page.
FIRST_COLORS = (
    *("#2f7fd0", "#c8600c", "#12946a", "#a05bc4", "#b8860b", "#d4479b"),
    *("#1795ad", "#d4443b", "#6d8f0f", "#8f6248", "#6b7b92", "#6a5fe0"),
)
LONGEST_MARK = 3
GOLDEN_ANGLE = 137.508
LIGHTNESSES, CHROMAS = (0.585, 0.55, 0.62), (0.13, 0.16, 0.09)


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


def class_colors(n: int) -> list[str]:
    """A color a class: the first by hand, further ones around the circle of hues in steps that never repeat.

    No hundred colors can be told apart, so whoever uses them writes the class's number beside them.
    """
    return [FIRST_COLORS[i] if i < len(FIRST_COLORS) else _around_the_circle(i) for i in range(n)]


def marks(names: Sequence[str]) -> list[str]:
    """What stands for a class where its name has no room: short names themselves, else numbers from 1."""
    return (
        list(names) if all(0 < len(name) <= LONGEST_MARK for name in names) else [str(i + 1) for i in range(len(names))]
    )


def _around_the_circle(i: int) -> str:
    hue = math.radians(GOLDEN_ANGLE * i % 360)
    lightness, chroma = LIGHTNESSES[i % 3], CHROMAS[i // 3 % 3]
    return _oklab(lightness, chroma * math.cos(hue), chroma * math.sin(hue))


def _oklab(lightness: float, a: float, b: float) -> str:
    """Oklab (Ottosson 2020) to sRGB: equal lightness there looks equally light."""
    long = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3
    middle = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3
    short = (lightness - 0.0894841775 * a - 1.2914855480 * b) ** 3
    linear = (
        4.0767416621 * long - 3.3077115913 * middle + 0.2309699292 * short,
        -1.2684380046 * long + 2.6097574011 * middle - 0.3413193965 * short,
        -0.0041960863 * long - 0.7034186147 * middle + 1.7076147010 * short,
    )
    return "#" + "".join(f"{round(255 * _gamma(min(1.0, max(0.0, value)))):02x}" for value in linear)


def _gamma(value: float) -> float:
    return 12.92 * value if value <= 0.0031308 else 1.055 * value ** (1 / 2.4) - 0.055
