"""Small folders of pictures and an embedder that needs no network, for the tests of the review."""

import contextlib
import io
from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
from PIL import Image

from laplacenet.data.decoding import decode
from laplacenet.review.journal import Journal
from laplacenet.review.opening import Source
from laplacenet.review.photos import find_photos
from laplacenet.review.serve import Place, Review, open_review
from laplacenet.review.session import Session
from laplacenet.runtime.run_folder import ANSWERS

COLORS = {"red": (210, 40, 40), "green": (40, 170, 60), "blue": (40, 70, 210)}


def make_photos(folder: Path, n: int, *, side: int = 48, seed: int = 0) -> dict[str, str]:
    """Noisy squares of three colors; gives each name's color."""
    rng = np.random.default_rng(seed)
    folder.mkdir(parents=True, exist_ok=True)
    truth = {}
    for number in range(n):
        color = list(COLORS)[int(rng.integers(len(COLORS)))]
        pixels = np.array(COLORS[color]) + rng.normal(0, 40, (side, side, 3)) + rng.normal(0, 25, 3)
        name = f"photo_{number:03d}.png"
        Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(folder / name)
        truth[name] = color
    return truth


def color_embedder(paths: list[Path]) -> Iterator[np.ndarray | None]:
    """A picture's mean colors in nine places."""
    for path in paths:
        try:
            yield decode(path, size=3).astype(np.float32).flatten()
        except Exception:
            yield None


def open_session(photos: Path, run: Path, *, embedder=color_embedder, seed: int = 0) -> Session:
    run.mkdir(parents=True, exist_ok=True)
    return Session(find_photos(photos), Journal(run / ANSWERS), embedder, seed=seed)


def wait_until(condition, *, seconds: float = 60.0) -> None:
    """Poll; a loaded machine may take long, so the limit is generous."""
    import time

    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "waited in vain"
        time.sleep(0.01)


def settled(session: Session) -> Session:
    wait_until(lambda: session.embedding.is_finished and session.live.current is not None and session.live.is_settled)
    return session


def jpeg(picture: Image.Image, **options: object) -> bytes:
    content = io.BytesIO()
    picture.save(content, "JPEG", **options)
    return content.getvalue()


@contextlib.contextmanager
def served(photos: Path, run: Path, **place: object) -> Iterator[Review]:
    """A review of the folder, served in a thread until the end of the block."""
    with open_review(Source(photos, run), color_embedder, Place(opens_browser=False, **place)) as review:
        review.start()
        try:
            wait_until(lambda: review._server is not None and review._server.started)
            settled(review.session)
            yield review
        finally:
            review.stop()


def origin(review: Review) -> str:
    return f"http://127.0.0.1:{review.port}"


@contextlib.contextmanager
def visitor(review: Review) -> Iterator[httpx.Client]:
    """A client that came in by the token."""
    with httpx.Client(base_url=origin(review), headers={"origin": origin(review)}, timeout=60) as client:
        assert client.get(review.address, follow_redirects=True).status_code == 200
        yield client
