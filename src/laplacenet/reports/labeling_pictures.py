"""The pictures of a labeling's page, as `data:` addresses, so that nothing is fetched, with their labels."""

import base64
import io
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from jaxtyping import UInt8
from PIL import Image
from torch import Tensor

from laplacenet.labeling.acquisition import suspects
from laplacenet.labeling.outcome import N_SUSPECTS, sure_and_unsure
from laplacenet.labeling.result import Labeling

CRISP_SIDE = 40  # pictures up to this side are kept exactly; JPEG would smear the few pixels they have
QUALITY = 75

Gallery = Mapping[int, UInt8[Tensor, "c h w"]]


@dataclass(frozen=True)
class Tile:
    """A row of the collection: its picture where there is one, its label, and a remark."""

    name: str
    uri: str
    is_crisp: bool
    label: str
    confidence: float
    remark: str = ""


@dataclass(frozen=True)
class Suspect:
    """A given label and the label by held-out scores."""

    tile: Tile
    given: str
    given_score: float
    found: str
    found_score: float


@dataclass(frozen=True)
class ClassTiles:
    surest: tuple[Tile, ...]
    least_sure: tuple[Tile, ...]


def class_tiles(labeling: Labeling, gallery: Gallery, label: int) -> ClassTiles:
    surest, least_sure = sure_and_unsure(labeling, label)
    return ClassTiles(tiles(labeling, gallery, surest.tolist()), tiles(labeling, gallery, least_sure.tolist()))


def next_tiles(labeling: Labeling, gallery: Gallery, asked: Iterable[tuple[int, int, str]]) -> tuple[Tile, ...]:
    return tuple(tile(labeling, gallery, row, remark=why) for row, _, why in asked)


def suspect_tiles(labeling: Labeling, gallery: Gallery) -> tuple[Suspect, ...]:
    names, found = labeling.summary.class_names, []
    for row in suspects(labeling)[:N_SUSPECTS].tolist():
        unseen, given = labeling.unseen_scores[row], int(labeling.given[row])
        best = int(unseen.argmax())
        found.append(
            Suspect(tile(labeling, gallery, row), names[given], float(unseen[given]), names[best], float(unseen[best]))
        )
    return tuple(found)


def tiles(labeling: Labeling, gallery: Gallery, rows: Iterable[int]) -> tuple[Tile, ...]:
    return tuple(tile(labeling, gallery, row) for row in rows)


def tile(labeling: Labeling, gallery: Gallery, row: int, *, remark: str = "") -> Tile:
    image, label = gallery.get(row), int(labeling.labels[row])
    return Tile(
        name=labeling.names[row],
        uri="" if image is None else data_uri(image),
        is_crisp=image is not None and is_crisp(image),
        label=labeling.summary.class_names[label],
        confidence=float(labeling.scores[row, label]),
        remark=remark,
    )


def data_uri(image: UInt8[Tensor, "c h w"]) -> str:
    pixels = image.permute(1, 2, 0).contiguous().numpy()
    picture = Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels)
    buffer = io.BytesIO()
    kind = "png" if is_crisp(image) else "jpeg"
    picture.save(buffer, format=kind, optimize=True, **({} if kind == "png" else {"quality": QUALITY}))
    return f"data:image/{kind};base64,{base64.b64encode(buffer.getvalue()).decode()}"


def is_crisp(image: UInt8[Tensor, "c h w"]) -> bool:
    return max(image.shape[1:]) <= CRISP_SIDE
