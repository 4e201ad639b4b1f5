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
