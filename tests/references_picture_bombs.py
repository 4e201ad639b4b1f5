"""Pictures made to cost far more than their size: each is read or refused, with little time and memory."""

import contextlib
import io
import random
import struct
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

from PIL import Image
from references_campaign import DONE, REFUSED, memory_limit
from references_data import enlarged, flat_jpeg

from laplacenet.data.decoding import decode

BUDGET_S = 2.0  # of the processor's time, which other work on the machine does not change


def saved(form: str, size: tuple[int, int] = (16, 16), **options: object) -> bytes:
    file = io.BytesIO()
    Image.effect_noise(size, 80).convert("RGB").save(file, form, **options)
    return file.getvalue()


def scans(rng: random.Random) -> bytes:
    """A progressive JPEG of one color, whose last scan is repeated: a few bytes for each, and all pixels again."""
    file = io.BytesIO()
    Image.new("RGB", (rng.choice([64, 512, 2048, 6000]),) * 2, (9, 99, 200)).save(file, "JPEG", progressive=True)
    content = file.getvalue()
    last = content.rindex(b"\xff\xda")
    return content[:-2] + content[last:-2] * rng.choice([10, 200, 2000]) + b"\xff\xd9"


def chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def with_chunk(kind: bytes, head: bytes, n: int) -> bytes:
    """A PNG with a text or a profile that is zeros once it is unpacked."""
    content = saved("PNG")
    return content[:33] + chunk(kind, head + zlib.compress(bytes(n), 9)) + content[33:]


def flat_png(rng: random.Random) -> bytes:
    side = rng.choice([2_000, 7_000, 30_000])
    rows = zlib.compressobj(9)
    packed = b"".join(rows.compress(bytes(side // 8 + 2)) for _ in range(min(side, 8_000))) + rows.flush()
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 1, 0, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", packed) + chunk(b"IEND", b"")


def frames(rng: random.Random) -> bytes:
    file = io.BytesIO()
    others = [Image.new("P", (32, 32), i % 256) for i in range(rng.choice([50, 400]))]
    Image.new("P", (32, 32)).save(file, "GIF", save_all=True, append_images=others)
    return file.getvalue()


def cyclic_tiff(rng: random.Random) -> bytes:
    """Its list of pages leads back to the first page."""
    content = bytearray(saved("TIFF"))
    (first,) = struct.unpack_from("<I", content, 4)
    (n_entries,) = struct.unpack_from("<H", content, first)
    struct.pack_into("<I", content, first + 2 + 12 * n_entries, first)
    return bytes(content)


def plain_numbers(rng: random.Random) -> bytes:
    """A PPM that spells its numbers out."""
    side = rng.choice([50, 500])
    return f"P3 {side} {side} 255\n".encode() + b"1 " * rng.choice([10, 3 * side * side, 2_000_000])


def tiff(entries: list[tuple[int, int, int, int]], content: bytes) -> bytes:
    """A TIFF file of one page: tag, type, count and value or place of each entry, and what lies behind them."""
    packed = b"".join(struct.pack("<HHII", *entry) for entry in entries)
    return struct.pack("<2sHIH", b"II", 42, 8, len(entries)) + packed + bytes(4) + content


def behind(n_entries: int) -> int:
    """Where the content of a TIFF file with so many entries begins."""
    return 14 + 12 * n_entries


def strips(n: int, width: int = 100) -> bytes:
    """A TIFF of as many strips as it has rows, all of them the same bytes."""
    start = behind(8)
    sizes = [(256, 4, 1, width), (257, 4, 1, n), (258, 3, 1, 8), (259, 3, 1, 1), (262, 3, 1, 1)]
    places = [(273, 4, n, start), (278, 4, 1, 1), (279, 4, n, start + 4 * n)]
    return tiff(sizes + places, struct.pack("<I", 8) * n + struct.pack("<I", width) * n)


def scans_in_tiff(side: int, n_scans: int) -> bytes:
    """A TIFF of one strip, which is a JPEG whose last scan is repeated."""
    file = io.BytesIO()
    Image.new("RGB", (side, side), (9, 99, 200)).save(file, "JPEG", progressive=True)
    content = file.getvalue()
    content = content[:-2] + content[content.rindex(b"\xff\xda") : -2] * n_scans + b"\xff\xd9"
    start = behind(9)
    sizes = [(256, 4, 1, side), (257, 4, 1, side), (258, 3, 3, start), (259, 3, 1, 7), (262, 3, 1, 6)]
    places = [(273, 4, 1, start + 8), (277, 3, 1, 3), (278, 4, 1, side), (279, 4, 1, len(content))]
    return tiff(sizes + places, struct.pack("<4H", 8, 8, 8, 0) + content)


def png(width: int, height: int, *, bits: int, colors: int, row: bytes) -> bytes:
    """A PNG whose rows are all the same; `colors` is as the format counts them: 0 grey, 6 RGB and alpha."""
    packing = zlib.compressobj(1)
    n_at_once = max(1, min(height, 2_000_000 // len(row)))
    packed = b"".join(packing.compress(row * n_at_once) for _ in range(height // n_at_once)) + packing.flush()
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, bits, colors, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", packed) + chunk(b"IEND", b"")


def thin(rng: random.Random) -> bytes:
    """Few pixels in a row, and very many rows; or the other way round."""
    long = rng.choice([60_000, 3_000_000, 60_000_000])
    if rng.random() < 0.5:
        return png(long, 1, bits=1, colors=0, row=bytes(long // 8 + 2))
    return png(1, long, bits=1, colors=0, row=bytes(2))


def deep(rng: random.Random) -> bytes:
    """Sixteen bits in each of four channels, and the filter that takes longest to undo."""
    side = rng.choice([500, 6_000, 8_000])
    return png(side, side, bits=16, colors=6, row=b"\x04" + bytes(8 * side))


def many_chunks(rng: random.Random) -> bytes:
    content = saved("PNG")
    return content[:33] + chunk(b"tEXt", b"a\0b") * rng.choice([100, 400_000]) + content[33:]


def many_segments(rng: random.Random) -> bytes:
    content = saved("JPEG")
    return content[:2] + rng.choice([b"\xff\xe3\0\x02", b"\xff"]) * rng.choice([100, 2_000_000]) + content[2:]


def animation(rng: random.Random) -> bytes:
    file, form = io.BytesIO(), rng.choice(["PNG", "WEBP", "TIFF", "MPO"])
    side = rng.choice([64, 500])
    first, *others = [Image.new("RGB", (side, side), (i % 256, 0, 0)) for i in range(rng.choice([2, 60]))]
    first.save(file, form, save_all=True, append_images=others)
    return file.getvalue()


def sides(rng: random.Random) -> int:
    return rng.choice([3_000, 20_000, 65_000])


BOMBS: dict[str, Callable[[random.Random], bytes]] = {
    "flat.jpg": lambda rng: flat_jpeg(sides(rng), n_blocks=rng.choice([10, 1_000, 100_000])),
    "progressive.jpg": lambda rng: flat_jpeg(sides(rng), n_blocks=1_000, progressive=True),
    "scans.jpg": scans,
    "enlarged.png": lambda rng: enlarged(saved("PNG"), sides(rng)),
    "enlarged.tif": lambda rng: enlarged(saved(rng.choice(["TIFF", "BMP", "GIF"])), sides(rng)),
    "profile.png": lambda rng: with_chunk(b"iCCP", b"name\0\0", rng.choice([10**6, 10**8])),
    "text.png": lambda rng: with_chunk(b"zTXt", b"name\0\0", rng.choice([10**6, 10**8])),
    "flat.png": flat_png,
    "frames.gif": frames,
    "pages.tif": cyclic_tiff,
    "numbers.ppm": plain_numbers,
    "strips.tif": lambda rng: strips(rng.choice([1_000, 40_000, 290_000, 3_000_000]), rng.choice([10, 100])),
    "scans.tif": lambda rng: scans_in_tiff(rng.choice([64, 2_000, 7_900]), rng.choice([1, 80, 2000])),
    "thin.png": thin,
    "deep.png": deep,
    "chunks.png": many_chunks,
    "segments.jpg": many_segments,
    "animation.webp": animation,
}


class Bombs:
    def __init__(self, folder: Path, budget_s: float = BUDGET_S) -> None:
        self.folder, self.budget_s = folder, budget_s

    def __call__(self, rng: random.Random) -> str:
        name = rng.choice(sorted(BOMBS))
        path = self.folder / name
        path.write_bytes(BOMBS[name](rng))
        began_at = time.process_time()
        try:
            with memory_limit(1 << 30):
                decode(path, size=32)
            ended = DONE
        except (ValueError, OSError, SyntaxError):
            ended = REFUSED
        spent_s = time.process_time() - began_at
        assert spent_s < self.budget_s, f"{name} took {spent_s:.1f} s ({path.stat().st_size} bytes)"
        return ended


@contextlib.contextmanager
def picture_bombs(folder: Path) -> Iterator[Bombs]:
    yield Bombs(folder)
