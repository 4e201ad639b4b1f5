"""Small charts as numbers for a template to draw: lines, bars, dots and ticks in the units of the drawing."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

WIDTH, HEIGHT = 360, 240
LEFT, RIGHT, TOP, BOTTOM = 44, 340, 26, 204

Number = int | float
Tick = tuple[float, str]


@dataclass(frozen=True)
class Line:
    """A path through points; `kind` is its class in the style sheet."""

    path: str
    kind: str
    name: str


@dataclass(frozen=True)
class Area:
    """What lies between two lines, in its own color."""

    path: str
    color: str
    name: str


@dataclass(frozen=True)
class Bar:
    x: float
    y: float
    width: float
    height: float
    said: str


@dataclass(frozen=True)
class Dot:
    x: float
    y: float
    radius: float
    said: str


@dataclass(frozen=True)
class Chart:
    """A chart's marks; `title` says in words what it shows to those who do not see it."""

    title: str
    x_label: str
    y_label: str
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    areas: tuple[Area, ...] = ()
    lines: tuple[Line, ...] = ()
    bars: tuple[Bar, ...] = ()
    dots: tuple[Dot, ...] = ()


@dataclass(frozen=True)
class Scale:
    """From a quantity to places on an axis."""

    low: Number
    high: Number
    start: Number
    end: Number

    def __call__(self, value: Number) -> float:
        width = self.high - self.low
        share = (value - self.low) / width if width > 0 else 0.5
        return round(self.start + share * (self.end - self.start), 2)

    def ticks(self, *, n: int = 5, percent: bool = False) -> tuple[Tick, ...]:
        return tuple((self(value), tick_text(value, percent=percent)) for value in round_values(self.low, self.high, n))


def x_scale(low: Number, high: Number) -> Scale:
    return Scale(low, high, LEFT, RIGHT)


def y_scale(low: Number, high: Number) -> Scale:
    return Scale(low, high, BOTTOM, TOP)


def round_values(low: Number, high: Number, n: int) -> list[Number]:
    """About n values between the two that people count in: steps of 1, 2 or 5 times a power of ten."""
    if not high > low:
        return [low]
    rough = (high - low) / n
    power = 10 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [number * step for number in range(first, math.floor(high / step + 1e-9) + 1)]


def tick_text(value: Number, *, percent: bool) -> str:
    if percent:
        return f"{100 * value:.0f} %"
    if abs(value) >= 10_000:
        return f"{value / 1000:g}k"
    return f"{value:.6g}"


def path_of(points: Sequence[tuple[Number, Number]]) -> str:
    return "M" + "L".join(f"{x:g} {y:g}" for x, y in points) if points else ""
