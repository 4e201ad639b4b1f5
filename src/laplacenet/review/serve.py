"""A review from its folder to its last file: opened, served until it is stopped, written down."""

import asyncio
import contextlib
import logging
import secrets
import signal
import socket
import threading
import time
import webbrowser
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import uvicorn

from laplacenet.data.label_files import labels_by_name, numbered_labels
from laplacenet.labeling.settings import KIND, CollectionConfig, LabelingSettings
from laplacenet.review.embedding import Embedder
from laplacenet.review.journal import ANSWERS, Journal
from laplacenet.review.outputs import write_outputs
from laplacenet.review.photos import find_photos
from laplacenet.review.server import Site, application
from laplacenet.review.session import Session
from laplacenet.runtime import InputError, RunFolder
from laplacenet.runtime.run_folder import EXPERIMENT
from laplacenet.runtime.settings import from_json, to_json

LOOPBACK = "127.0.0.1"
SETTLE_S = 10.0


@dataclass(frozen=True)
class Place:
    """Where a review is served: `port` 0 takes a free one."""

    host: str = LOOPBACK
    port: int = 0
    opens_browser: bool = True


class Review:
    """A review that can be served: `address` holds the token, so it is for the person who started it alone."""

    def __init__(self, folder: RunFolder, photos: Path, session: Session, place: Place) -> None:
        self.folder, self.photos, self.session, self.place = folder, photos, session, place
        self.started_at = time.monotonic()
        self.token = secrets.token_urlsafe(24)
        self.socket = listen(place)
        self.port = int(self.socket.getsockname()[1])
        self.closing = contextlib.ExitStack()
        self._server: Any = None
        self._thread: threading.Thread | None = None

    def _repr_html_(self) -> str:
        """The link that a notebook shows."""
        return f'<a href="{self.address}" target="_blank" rel="noopener">Review {len(self.session.photos)} pictures</a>'

    @property
    def address(self) -> str:
        host = LOOPBACK if self.place.host in ("0.0.0.0", "::", "localhost") else self.place.host
        return f"http://{bracketed(host)}:{self.port}/?token={self.token}"

    @property
    def hosts(self) -> tuple[str, ...]:
        """Names under which the page may be asked for; a name that merely leads here is none of them."""
        names = {LOOPBACK, "localhost", bracketed(self.place.host)}
        if self.place.host in ("0.0.0.0", "::"):
            names |= {socket.gethostname(), socket.getfqdn(), *addresses()}
        return tuple(f"{name}:{self.port}" for name in sorted(names))

    def write(self) -> dict[str, Any]:
        return write_outputs(self.session, self.folder.path, title=self.photos.name, started_at=self.started_at)

    def serve(self) -> None:
        """Until SIGINT or SIGTERM; only in the main thread are signals caught."""
        site = Site(self.session, self.write)
        app = application(site, token=self.token, hosts=self.hosts, cookie=f"laplacenet-review-{self.port}")
        config = uvicorn.Config(
            app,
            log_level="critical",
            access_log=False,
            server_header=False,
            lifespan="off",
            timeout_graceful_shutdown=2,
            timeout_keep_alive=30,
            limit_concurrency=200,
        )
        self._server = uvicorn.Server(config)
        self.session.start()
        try:
            with stopping_on_signals(self._server, site.close), silent_uvicorn():
                asyncio.run(self._server.serve(sockets=[self.socket]))
        finally:
            site.close()
            self.session.settle(SETTLE_S)
            self.session.close()

    def start(self) -> "Review":
        """Serve in a thread, for notebooks; `stop` ends it and writes the files."""
        self._thread = threading.Thread(target=self.serve, name="review-server", daemon=True)
        self._thread.start()
        return self

    def stop(self) -> None:
        if self._server is not None:
            self._server.should_exit = True
        if self._thread is not None:
            self._thread.join(timeout=30)
        with contextlib.suppress(InputError):  # nothing was labeled: nothing is written
            self.write()
        self.closing.close()

    def open_browser(self) -> None:
        if self.place.opens_browser:
            threading.Thread(target=webbrowser.open, args=(self.address,), daemon=True).start()


@contextlib.contextmanager
def silent_uvicorn() -> Iterator[None]:
    logger = logging.getLogger("uvicorn.error")
    before, logger.level = logger.level, logging.CRITICAL
    try:
        yield
    finally:
        logger.level = before


@contextlib.contextmanager
def stopping_on_signals(server: Any, close: Callable[[], None]) -> Iterator[None]:
    """The first Ctrl-C ends the service in order; what is raised by the second is the caller's."""
    server.capture_signals = contextlib.nullcontext
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous: dict[signal.Signals, Any] = {}

    def stop(number: int, frame: object) -> None:
        server.should_exit = True
        close()
        signal.signal(number, previous[signal.Signals(number)])

    for number in (signal.SIGINT, signal.SIGTERM):
        previous[number] = signal.signal(number, stop)
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def listen(place: Place) -> socket.socket:
    """Answers are small: without TCP_NODELAY the system would hold them back to join them with what comes next."""
    family = socket.AF_INET6 if ":" in place.host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        listening.bind((place.host, place.port))
    except (OSError, OverflowError) as error:
        listening.close()
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"--host {place.host} --port {place.port}: cannot be served ({reason})") from error
    listening.listen(128)
    listening.setblocking(False)
    return listening


def bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def addresses() -> set[str]:
    try:
        return {str(info[4][0]) for info in socket.getaddrinfo(socket.gethostname(), None)}
    except OSError:
        return set()


@contextlib.contextmanager
def open_review(
    photos: Path, embedder: Embedder, *, out: Path | None, labels: Path | None, place: Place, seed: int = 0
) -> Iterator[Review]:
    """The review of a folder of pictures, new or gone on with; or of a run folder, which knows its pictures."""
    if (photos / EXPERIMENT).is_file() and out is None:
        out, photos = photos, pictures_of(photos)
    out = out or Path("runs") / f"{photos.resolve().name}-review"
    found = find_photos(photos, leave_out=out)
    folder = run_folder(out, photos, seed=seed)
    with folder.locked():
        journal = Journal(folder.path / ANSWERS)
        session = Session(found, journal, embedder, seed=seed)
        for file in [*labels_of(folder.path), *([] if labels is None else [labels])]:
            join_labels(session, file, photos)
        review = Review(folder, photos, session, place)
        try:
            yield review
        finally:
            review.socket.close()


def pictures_of(run: Path) -> Path:
    return Path(settings_of(run).collection.pictures)


def labels_of(run: Path) -> list[Path]:
    """The label files that a run of `label` was given, as far as they are still there."""
    return [Path(file) for file in settings_of(run).collection.labels if Path(file).is_file()]


def settings_of(run: Path) -> LabelingSettings:
    content = RunFolder.open(run).read_experiment()
    if content.get("kind") != KIND:
        raise InputError(f"{run}: no run of review or label; give one, or a folder of pictures")
    return from_json(LabelingSettings(), content, source=str(run / EXPERIMENT))


def run_folder(out: Path, photos: Path, *, seed: int) -> RunFolder:
    """A new one, or that of a run of the same pictures."""
    if (out / EXPERIMENT).is_file():
        folder = RunFolder.open(out)
        before = pictures_of(out)
        if before.resolve() != photos.resolve():
            raise InputError(f"{out}: a run of {before}, not of {photos}; choose another --out")
        return folder
    folder = RunFolder.create(out)
    settings = LabelingSettings(name=photos.resolve().name, seed=seed)
    settings = replace(settings, kind=KIND, collection=CollectionConfig(pictures=str(photos.resolve())))
    folder.write_experiment(to_json(settings))
    return folder


def join_labels(session: Session, labels: Path, photos: Path) -> int:
    """Answers given as a file become entries of the journal."""
    names = tuple(photo.name for photo in session.photos)
    found = labels_by_name([labels], names, root=photos)
    numbers, class_names = numbered_labels(found, len(names), where=str(labels))
    given = {row: class_names[label] for row, label in enumerate(numbers.tolist()) if label >= 0}
    return session.add_labels(f"file {labels.name}"[:40], given)
