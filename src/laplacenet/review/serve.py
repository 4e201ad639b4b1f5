"""Serve a review until it is stopped, then write its results."""

import asyncio
import contextlib
import hashlib
import ipaddress
import json
import logging
import os
import re
import secrets
import signal
import socket
import sys
import threading
import time
import webbrowser
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from laplacenet.models.features.cache import cache_folder
from laplacenet.review.embedding import Embedder
from laplacenet.review.opening import Opened, Source, open_session
from laplacenet.review.outputs import write_outputs
from laplacenet.review.server import Site, application
from laplacenet.runtime import InputError, RunError, read_json

LOOPBACK = "127.0.0.1"
N_TOKEN_BYTES = 24
TOKEN = re.compile(f"[A-Za-z0-9_-]{{{N_TOKEN_BYTES},100}}")
"""It becomes a part of the address and of a cookie."""
SETTLE_S = 30.0
POLL_S = 0.05
HEAD_TIMEOUT_S = 10.0
"""Time limit for the head of a request: idle connections would keep others out."""
SWITCH_S = 0.001
"""Python's switch interval: how long a computing thread may delay one that acknowledges an answer."""


@dataclass(frozen=True)
class Place:
    """Where a review is served: `port` 0 takes the one of last time, or a free one. Others than this machine itself can
    only connect where `is_public` says so."""

    host: str = LOOPBACK
    port: int = 0
    opens_browser: bool = True
    is_public: bool = False

    def __post_init__(self) -> None:
        if not self.is_public and not is_loopback(self.host):
            raise InputError(
                f"--host {self.host}: would let other machines connect, unencrypted, and whoever knows the address"
                " could see all pictures and answer; add --public if that is meant, or leave --host out and use ssh -L"
            )


def is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class ImpatientProtocol(H11Protocol):
    """HTTP over one connection, which is closed if the head of a request does not arrive in time."""

    _head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._set_timer()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._set_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._stop_timer()

    def _set_timer(self) -> None:
        if self.conn.their_state is not h11.IDLE:
            self._stop_timer()
        elif self._head_timer is None:
            self._head_timer = self.loop.call_later(HEAD_TIMEOUT_S, self._close)

    def _stop_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _close(self) -> None:
        self._head_timer = None
        if self.conn.their_state is h11.IDLE:
            self.transport.close()


class Review:
    """A review that can be served. `address` holds the token: whoever knows it can answer."""

    def __init__(self, opened: Opened, place: Place) -> None:
        self.folder, self.photos, self.session, self.place = opened.folder, opened.photos, opened.session, place
        self.started_at = time.monotonic()
        self.token, last_port = remembered_entrance(self.folder.path)
        self.socket = listen_again(place, last_port)
        self.port = int(self.socket.getsockname()[1])
        remember_entrance(self.folder.path, self.token, self.port)
        self.closing = contextlib.ExitStack()
        self._server: Any = None
        self._is_stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def _repr_html_(self) -> str:
        """The link that a notebook shows."""
        text = f"Review {len(self.session.photos)} picture files"
        return f'<a href="{self.address}" target="_blank" rel="noopener">{text}</a>'

    @property
    def address(self) -> str:
        host = LOOPBACK if self.place.host in ("0.0.0.0", "::", "localhost") else self.place.host
        return f"http://{bracketed(host)}:{self.port}/?token={self.token}"

    @property
    def hosts(self) -> tuple[str, ...]:
        """Host names that are accepted in requests; other names that resolve to this machine are not."""
        names = {LOOPBACK, "localhost", bracketed(self.place.host)}
        if self.place.host in ("0.0.0.0", "::"):
            names |= {socket.gethostname(), socket.getfqdn(), *addresses()}
        return tuple(f"{name}:{self.port}" for name in sorted(names))

    def write(self) -> dict[str, Any]:
        """Labels, report and model, which depend on the answers and not on what was undone before."""
        self.session.settle(SETTLE_S)
        try:
            return write_outputs(self.session, self.folder.path, title=self.photos.name, started_at=self.started_at)
        except OSError as error:
            reason = error.strerror or error
            raise RunError(
                f"{self.folder.path}: labels, report and model were not written ({reason}); all answers are saved"
            ) from error

    def serve(self, on_stop: Callable[[], None] = lambda: None) -> None:
        """Until SIGINT or SIGTERM; only in the main thread are signals caught. `on_stop` is called when nobody can
        answer any more, while the last answer may still be spread."""
        site = Site(self.session, self.write, title=self.photos.name)
        app = application(site, token=self.token, hosts=self.hosts, cookie=f"laplacenet-review-{self.port}")
        config = uvicorn.Config(
            app,
            http=ImpatientProtocol,
            ws="none",
            log_level="critical",
            access_log=False,
            server_header=False,
            lifespan="off",
            timeout_graceful_shutdown=2,
            timeout_keep_alive=30,
            limit_concurrency=200,
        )
        self._server = uvicorn.Server(config)
        if self._is_stopping.is_set():
            self._server.should_exit = True
        self.session.start()
        try:
            with stopping_on_signals(self._server, site.close), silent_uvicorn(), short_switch_interval():
                asyncio.run(self._server.serve(sockets=[self.socket]))
        finally:
            site.close()
            on_stop()
            self.session.settle(SETTLE_S)
            self.session.close()

    def start(self) -> "Review":
        """Serve in a thread, for notebooks; `stop` ends it and writes the files."""
        self._thread = threading.Thread(target=self.serve, name="review-server", daemon=True)
        self._thread.start()
        return self

    def stop(self) -> None:
        self._is_stopping.set()
        if self._server is not None:
            self._server.should_exit = True
        if self._thread is not None:
            self._thread.join(timeout=SETTLE_S + 30)  # it settles, too, before it closes the journal
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
def short_switch_interval() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_S)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


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


def entrance_file(run: Path) -> Path:
    """In the user's cache, not in the run folder: that is copied and shared."""
    return cache_folder() / "review" / f"{hashlib.sha256(str(run.resolve()).encode()).hexdigest()[:24]}.json"


def remembered_entrance(run: Path) -> tuple[str, int]:
    """Token and port of the last session, so that a page that is still open works after a restart."""
    try:
        found = read_json(entrance_file(run))
        token, port = found["token"], found["port"]
        if TOKEN.fullmatch(token) and type(port) is int and 0 < port < 1 << 16:
            return token, port
    except (InputError, KeyError, TypeError):
        pass
    return secrets.token_urlsafe(N_TOKEN_BYTES), 0


def remember_entrance(run: Path, token: str, port: int) -> None:
    """Readable by this user only; if it cannot be written, the next review has another address."""
    path = entrance_file(run)
    with contextlib.suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        new = path.with_suffix(f".{os.getpid()}")
        new.unlink(missing_ok=True)
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            json.dump({"token": token, "port": port}, file)
        new.replace(path)


def listen_again(place: Place, last_port: int) -> socket.socket:
    if place.port == 0 and last_port:
        with contextlib.suppress(InputError):  # somebody else has it now
            return listen(replace(place, port=last_port))
    return listen(place)


def listen(place: Place) -> socket.socket:
    """With TCP_NODELAY: without it the system would delay small responses."""
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
def open_review(source: Source, embedder: Embedder, place: Place) -> Iterator[Review]:
    """The review of a folder of pictures, new or continued; or of a run folder, which knows its pictures."""
    with open_session(source, embedder) as opened:
        review = Review(opened, place)
        try:
            yield review
        finally:
            review.socket.close()


def write_again(
    source: Source, embedder: Embedder, *, on_progress: Callable[[int], None] = lambda n: None
) -> tuple[str, ...]:
    """Label all pictures by the answers of a review, and write its files, without serving it; gives what is wrong with
    the answers."""
    started_at = time.monotonic()
    with open_session(source, embedder) as opened:
        session, n_before = opened.session, 0
        session.start()
        try:
            while not (session.embedding.is_finished and session.live.is_settled):
                time.sleep(POLL_S)
                on_progress(session.embedding.n_done - n_before)
                n_before = session.embedding.n_done
        finally:
            session.close()
        if session.embedding.error is not None:
            raise InputError(f"{opened.photos}: the pictures cannot be embedded ({session.embedding.error})")
        write_outputs(session, opened.folder.path, title=opened.photos.name, started_at=started_at)
        return tuple(session.journal.notes)
