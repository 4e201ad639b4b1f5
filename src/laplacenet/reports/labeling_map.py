"""The map of the embeddings: a dot a row, colored by label, given labels marked, each class named in its place."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from laplacenet.labeling.result import Labeling
from laplacenet.reports.style import class_colors, marks
from laplacenet.runtime import stream

WIDTH, HEIGHT, MARGIN = 720, 540, 16
N_DOTS, N_GIVEN = 5_000, 600
N_NAMED = 12  # more classes than this are shown by their marks, or their names would cover the dots
NAME_LENGTH = 16
LETTER, LINE = 9.0, 17.0  # what a name on the map takes up
WIDEST_LETTER = 16.0  # on a phone, where names are larger: two thirds of 24 pixels, for bold letters and their rim


@dataclass(frozen=True)
class Cloud:
    """All dots of one label in one path of points, and where its name stands."""

    color: str
    path: str
    word: str
    x: float
    y: float


@dataclass(frozen=True)
class GivenDot:
    x: float
    y: float
    color: str
    is_suspect: bool
    said: str


@dataclass(frozen=True)
class MapView:
    clouds: tuple[Cloud, ...]
    given: tuple[GivenDot, ...]
    n_dots: int
    n_given: int
    radius: float  # of a ring: smaller where there are many


def map_view(labeling: Labeling) -> MapView | None:
    """None where no place is known."""
    is_placed = labeling.positions.isfinite().all(1)
    rows = sampled(torch.nonzero(is_placed & ~labeling.is_given).squeeze(1), N_DOTS)
    given_rows = sampled(torch.nonzero(is_placed & labeling.is_given).squeeze(1), N_GIVEN)
    if len(rows) + len(given_rows) == 0:
        return None
    places = on_paper(labeling.positions, torch.cat([rows, given_rows]))
    colors = class_colors(len(labeling.summary.class_names))
    clouds = _clouds(labeling, places, rows=rows, given_rows=given_rows, colors=colors)
    given = tuple(_given_dot(labeling, places, row, colors) for row in given_rows.tolist())
    return MapView(apart(clouds), given, len(rows), len(given), radius=4.5 if len(given) <= N_NAMED**2 else 3.0)


def sampled(rows: Int64[Tensor, " n"], n: int) -> Int64[Tensor, " m"]:
    """All, or n of them, the same each time."""
    if len(rows) <= n:
        return rows
    chosen = stream(0, "map").choice(len(rows), size=n, replace=False)
    return rows[torch.from_numpy(chosen).sort().values]


def on_paper(positions: Float[Tensor, "n 2"], rows: Int64[Tensor, " m"]) -> Float[Tensor, "n 2"]:
    """Positions in the units of the drawing, both axes alike; a few far-off rows lie on its border."""
    shown = positions[rows].double()
    low, high = (shown.quantile(q, dim=0) for q in (0.002, 0.998))
    extent = (high - low).clamp(min=1e-9)
    size = torch.tensor([WIDTH - 2 * MARGIN, HEIGHT - 2 * MARGIN], dtype=torch.float64)
    factor = (size / extent).min()
    center = torch.tensor([WIDTH / 2, HEIGHT / 2], dtype=torch.float64)
    placed = center + (positions.double() - (low + high) / 2) * factor
    least = torch.full_like(center, MARGIN / 2)
    return placed.nan_to_num(0.0).clamp(least, 2 * center - least)


def _clouds(
    labeling: Labeling,
    places: Float[Tensor, "n 2"],
    *,
    rows: Int64[Tensor, " m"],
    given_rows: Int64[Tensor, " g"],
    colors: Sequence[str],
) -> tuple[Cloud, ...]:
    names, clouds = labeling.summary.class_names, []
    words = [shortened(name) for name in names] if len(names) <= N_NAMED else marks(names)
    for number, (word, color) in enumerate(zip(words, colors, strict=True)):
        own = rows[labeling.labels[rows] == number]
        either = torch.cat([own, given_rows[labeling.labels[given_rows] == number]])
        if len(either) == 0:
            continue
        path = "".join(f"M{x:.0f} {y:.0f}h0" for x, y in places[own].tolist())
        x, y = places[either].median(0).values.tolist()
        edge = max(60.0, WIDEST_LETTER * len(word) / 2)  # where a name in the middle of its cloud would be cut off
        clouds.append(Cloud(color, path, word, min(max(x, edge), WIDTH - edge), y))
    return tuple(clouds)


def _given_dot(labeling: Labeling, places: Float[Tensor, "n 2"], row: int, colors: Sequence[str]) -> GivenDot:
    label = int(labeling.given[row])
    x, y = (round(value, 1) for value in places[row].tolist())
    said = f"{labeling.names[row]}: {labeling.summary.class_names[label]}"
    return GivenDot(x, y, colors[label], bool(labeling.is_suspect[row]), said)


def apart(clouds: Sequence[Cloud]) -> tuple[Cloud, ...]:
    """Names moved down where another would cover them, as long as there is room."""
    placed: list[Cloud] = []
    for cloud in sorted(clouds, key=lambda one: one.y):
        while any(covers(one, cloud) for one in placed) and cloud.y < HEIGHT - LINE:
            cloud = replace(cloud, y=cloud.y + LINE / 4)  # noqa: PLW2901
        placed.append(cloud)
    return tuple(placed)


def covers(one: Cloud, other: Cloud) -> bool:
    width = LETTER * (len(one.word) + len(other.word)) / 2
    return abs(one.x - other.x) < width and abs(one.y - other.y) < LINE


def shortened(name: str) -> str:
    return name if len(name) <= NAME_LENGTH else name[: NAME_LENGTH - 1] + "…"
