"""The web application: access control, routes, and events for changes.

Only the person who started the program may enter: by the token in the printed address, then by a cookie. Names of hosts
and origins are checked, so that no other site can send requests through the browser. Pictures are numbers, never paths.
"""

import asyncio
import contextlib
import hmac
import html
import importlib.resources
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from laplacenet.review import views
from laplacenet.review.photos import SIDES, Thumbnails
from laplacenet.review.session import Session
from laplacenet.review.state import ANSWERS, LABEL
from laplacenet.runtime import InputError, RunError

LARGEST_BODY = 1 << 20
BODY_TIMEOUT_S = 10.0
MOST_STREAMS = 32
HEARTBEAT_S = 15.0
LONGEST_TEXT = 200
NUMBER = re.compile("-?[0-9]{1,11}")
VIAS = ("queue", "grid", "audit", "class", "map", "search", "disagreement")
PAGE_FILES = {
    "index.html": "text/html; charset=utf-8",
    "style.css": "text/css; charset=utf-8",
    "icon.svg": "image/svg+xml",
}
SECURITY = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
        " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "x-frame-options": "DENY",
}


class Gate:
    """Middleware that checks host, origin, token or cookie, and the size of requests."""

    def __init__(self, app: ASGIApp, *, token: str, hosts: tuple[str, ...], cookie: str) -> None:
        self.app, self.token, self.hosts, self.cookie = app, token, hosts, cookie

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                extra = {"cache-control": "no-store"} | SECURITY
                present = {name.lower() for name, _ in message["headers"]}
                message["headers"] = list(message["headers"]) + [
                    (name.encode(), value.encode()) for name, value in extra.items() if name.encode() not in present
                ]
            await send(message)

        refusal = self.refusal(Request(scope))
        await (refusal or self.app)(scope, receive, send_safely)

    def refusal(self, request: Request) -> Response | None:
        """Why the request is refused; None if it is allowed."""
        headers = Headers(scope=request.scope)
        refuse = refused_page if "text/html" in headers.get("accept", "") else refused
        host = headers.get("host", "")
        if host not in self.hosts:
            return refuse(421, "this address is not served here")
        origin = headers.get("origin")
        if any(one != f"http://{host}" for one in headers.getlist("origin")):
            return refuse(403, "requests from other sites are refused")
        is_from_elsewhere = headers.get("sec-fetch-site", "none") not in ("same-origin", "none")
        # a link from elsewhere may open the page with its token, nothing more
        if is_from_elsewhere and (request.method != "GET" or request.url.path != "/"):
            return refuse(403, "requests from other sites are refused")
        if request.method not in ("GET", "HEAD") and origin is None:
            return refuse(403, "a request that changes something must say where it comes from")
        if request.url.path == "/" and same(request.query_params.get("token", ""), self.token):
            response = enter(is_from_elsewhere=headers.get("sec-fetch-site") == "cross-site")
            response.set_cookie(self.cookie, self.token, httponly=True, samesite="strict", path="/")
            return response
        if not same(request.cookies.get(self.cookie, ""), self.token):
            return refuse(403, "open the address that was printed when the program started")
        if int_or(headers.get("content-length"), 0) > LARGEST_BODY:
            return refuse(413, f"more than {LARGEST_BODY} bytes")
        return None


def enter(*, is_from_elsewhere: bool) -> Response:
    """On to the page without the token. After a link on another site a browser sends a strict cookie only with a
    navigation that begins here, so a page does what a redirection does otherwise."""
    if not is_from_elsewhere:
        return RedirectResponse("/", status_code=303)
    return HTMLResponse('<!doctype html><meta http-equiv="refresh" content="0;url=/"><a href="/">Open the review</a>')


def same(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode(errors="replace"), expected.encode())


def int_or(text: str | None, default: int) -> int:
    return int(text) if text is not None and text.isascii() and text.isdigit() and len(text) < 16 else default


def refused(status: int, reason: str) -> Response:
    return JSONResponse({"error": reason}, status_code=status)


def refused_page(status: int, reason: str) -> Response:
    """The same for a person who opens an address in the browser."""
    content = (
        '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        '<meta name="color-scheme" content="light dark"><title>LaplaceNet review</title>'
        f"<h1>This page cannot be shown</h1><p>{html.escape(reason[:1].upper() + reason[1:])}.</p>"
    )
    return HTMLResponse(content, status_code=status)


async def read_body(request: Request) -> dict[str, Any]:
    """The JSON object in a request, counted while it arrives: a length may be wrong or not given."""
    content = bytearray()
    async with asyncio.timeout(BODY_TIMEOUT_S):
        async for piece in request.stream():
            content += piece
            if len(content) > LARGEST_BODY:
                raise InputError(f"more than {LARGEST_BODY} bytes")
    try:
        found = json.loads(bytes(content))
    except (ValueError, RecursionError) as error:
        raise InputError("the request is not JSON") from error
    if not isinstance(found, dict):
        raise InputError("the request is not a JSON object")
    return found


class Site:
    """The routes over one session. `write` leaves labels, report and model in the run folder; `title` is what several
    open pages are told apart by."""

    def __init__(self, session: Session, write: Callable[[], dict[str, Any]], *, title: str = "") -> None:
        self.session, self.write, self.title = session, write, title
        self.thumbnails = Thumbnails(session.photos)
        self.map = views.Map(session)
        self.is_closing = False
        self._changed = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._n_streams = 0
        self._write_lock = asyncio.Lock()
        session.on_change = self._wake

    def _wake(self) -> None:
        loop = self._loop
        if loop is not None:
            with contextlib.suppress(RuntimeError):  # it was closed: nobody waits any more
                loop.call_soon_threadsafe(self._flip)

    def _flip(self) -> None:
        """Wake everyone who waits for a change."""
        self._changed.set()
        self._changed = asyncio.Event()

    def close(self) -> None:
        self.is_closing = True
        self._wake()

    def routes(self) -> list[Route]:
        get: dict[str, Callable[[Request], Awaitable[Response]]] = {
            "/": self.page,
            "/page/{name}": self.page_file,
            "/pictures/{number:int}/{size}": self.picture,
            "/api/summary": self.summary,
            "/api/picture/{number:int}": self.picture_info,
            "/api/class/{label}": self.class_tiles,
            "/api/search": self.search,
            "/api/similar/{number:int}": self.similar,
            "/api/disagreements": self.disagreements,
            "/api/map": self.map_content,
            "/api/events": self.events,
        }
        post: dict[str, Callable[[Request], Awaitable[Response]]] = {
            "/api/next": self.next_question,
            "/api/tiles": self.tiles,
            "/api/answer": self.answer,
            "/api/undo": self.undo,
            "/api/classes": self.change_classes,
            "/api/write": self.write_files,
        }
        return [Route(path, guarded(handler), methods=["GET"]) for path, handler in get.items()] + [
            Route(path, guarded(handler), methods=["POST"]) for path, handler in post.items()
        ]

    # Pages and pictures

    async def page(self, request: Request) -> Response:
        return page_response("index.html")

    async def page_file(self, request: Request) -> Response:
        return page_response(request.path_params["name"])

    async def picture(self, request: Request) -> Response:
        number, size = self._number(request.path_params["number"]), request.path_params["size"]
        if size not in SIDES:
            return refused(404, f"choose one of {', '.join(SIDES)}")
        photo = self.session.photos[number]
        try:
            changed_ns = (await run_in_threadpool(photo.file.path.stat)).st_mtime_ns
            tag = f'"{number}-{size}-{changed_ns}"'
            if request.headers.get("if-none-match") == tag:
                return Response(status_code=304, headers={"etag": tag})
            content = await run_in_threadpool(self.thumbnails.jpeg, number, size)
        except Exception:  # deleted or damaged: decoders raise all kinds of errors
            return refused(410, "the picture is gone or cannot be read")
        headers = {"etag": tag, "cache-control": "private, max-age=60"}
        return Response(content, media_type="image/jpeg", headers=headers)

    # What is known

    async def summary(self, request: Request) -> Response:
        return await answered(self._summary)

    def _summary(self) -> dict[str, Any]:
        return {**views.summary(self.session), "title": self.title}

    async def picture_info(self, request: Request) -> Response:
        return await answered(views.picture, self.session, self._number(request.path_params["number"]))

    async def class_tiles(self, request: Request) -> Response:
        label = integer(request.path_params["label"], "class")
        order = request.query_params.get("order", "surest")
        offset = int_or(request.query_params.get("offset"), 0)
        return await answered(views.class_tiles, self.session, label, order=order, offset=offset)

    async def search(self, request: Request) -> Response:
        text = request.query_params.get("text", "")[:LONGEST_TEXT]
        return await answered(views.search, self.session, text, offset=int_or(request.query_params.get("offset"), 0))

    async def similar(self, request: Request) -> Response:
        return await answered(views.similar, self.session, self._number(request.path_params["number"]))

    async def disagreements(self, request: Request) -> Response:
        return await answered(views.disagreements, self.session)

    async def map_content(self, request: Request) -> Response:
        return await answered(self.map.content)

    # What people do

    async def next_question(self, request: Request) -> Response:
        body = await read_body(request)
        holding = [self._number(number) for number in listed(body, "holding")]
        mode = "grid" if body.get("mode") == "grid" else "single"
        return await answered(views.question, self.session, person(body), mode=mode, holding=holding)

    async def tiles(self, request: Request) -> Response:
        """A question, not a change: the numbers may be too many for an address."""
        numbers = [self._number(number) for number in listed(await read_body(request), "numbers")]
        return await answered(views.tiles, self.session, numbers[: views.MOST_TILES])

    async def answer(self, request: Request) -> Response:
        body = await read_body(request)
        by, kind, via = person(body), body.get("answer"), body.get("via")
        pictures = list(dict.fromkeys(map(self._number, listed(body, "pictures"))))
        rejected = list(dict.fromkeys(map(self._number, listed(body, "rejected"))))
        if kind not in ANSWERS or via not in VIAS or not (pictures or rejected):
            raise InputError(f"an answer is one of {', '.join(ANSWERS)}, for at least one picture")
        content = {"answer": kind, "via": via, "seen": min(integer(body.get("seen", 0), "seen"), self.session.state.n)}
        if kind == LABEL:
            content["class"] = await run_in_threadpool(self._class_of, by, body)
        entry = await run_in_threadpool(self.session.answer, by, content, pictures, rejected)
        return JSONResponse({"n": entry.n, "class": content.get("class")})

    def _class_of(self, by: str, body: dict[str, Any]) -> int:
        """By its number, or a new one by its name."""
        if isinstance(body.get("name"), str):
            return self.session.new_class(by, body["name"])
        return integer(body.get("class"), "class")

    async def undo(self, request: Request) -> Response:
        body = await read_body(request)

        def undo() -> dict[str, Any]:
            via, numbers = self.session.undo(person(body), is_redo=bool(body.get("redo")))
            pictures = [views.picture(self.session, number) for number in numbers[: views.N_SHOWN]]
            return {"via": via, "pictures": pictures, "seen": self.session.state.n}

        return await answered(undo)

    async def change_classes(self, request: Request) -> Response:
        body = await read_body(request)
        by, action, session = person(body), body.get("action"), self.session
        name = str(body.get("name", ""))
        if action == "new":
            label = await run_in_threadpool(session.new_class, by, name)
            return JSONResponse({"class": label})
        label = integer(body.get("class"), "class")
        if action == "rename":
            await run_in_threadpool(session.rename, by, label, name)
        elif action == "merge":
            await run_in_threadpool(session.merge, by, label, integer(body.get("into"), "into"))
        elif action == "remove":
            await run_in_threadpool(session.remove, by, label)
        else:
            raise InputError("action: choose one of new, rename, merge, remove")
        return JSONResponse({"class": label})

    async def write_files(self, request: Request) -> Response:
        await read_body(request)
        async with self._write_lock:
            return await answered(self.write)

    # What changes

    async def events(self, request: Request) -> Response:
        """Server-sent events: the summary now and after every change, several changes at once if they come fast."""
        if self._n_streams >= MOST_STREAMS:
            return refused(503, "too many pages are open")
        self._n_streams += 1  # here, not when the first line is sent: many requests may come in between
        return EventStream(self._stream(), self._note_end_of_stream)

    def _note_end_of_stream(self) -> None:
        self._n_streams -= 1

    async def _stream(self) -> AsyncIterator[str]:
        yield "retry: 1000\n\n"
        while not self.is_closing:
            changed = self._changed
            content = await run_in_threadpool(self._summary)
            yield f"data: {json.dumps(content)}\n\n"
            await asyncio.sleep(0.05)
            try:
                await asyncio.wait_for(changed.wait(), HEARTBEAT_S)
            except TimeoutError:
                yield ": still here\n\n"

    def _number(self, number: Any) -> int:
        if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number < len(self.session.photos):
            raise InputError(f"pictures have numbers from 0 to {len(self.session.photos) - 1}")
        return number

    async def note_loop(self) -> None:
        self._loop = asyncio.get_running_loop()


class EventStream(StreamingResponse):
    """Server-sent events; `on_end` is called once, however the connection ends."""

    def __init__(self, content: AsyncIterator[str], on_end: Callable[[], None]) -> None:
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        super().__init__(content, media_type="text/event-stream", headers=headers)
        self._on_end = on_end

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._on_end()


def guarded(handler: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
    """Invalid input becomes a sentence for the page."""

    async def handle(request: Request) -> Response:
        try:
            return await handler(request)
        except InputError as error:
            return refused(400, str(error))
        except TimeoutError:
            return refused(408, "the request did not arrive in time")
        except OSError as error:  # the disk is full: the answer was not kept, and the page must say so
            return refused(507, f"it could not be written to disk ({error.strerror or error})")
        except RunError as error:
            return refused(507, str(error))

    return handle


async def answered(function: Callable[..., dict[str, Any]], *arguments: Any, **options: Any) -> Response:
    return JSONResponse(await run_in_threadpool(lambda: function(*arguments, **options)))


def listed(body: dict[str, Any], key: str) -> list[Any]:
    found = body.get(key, [])
    if not isinstance(found, list):
        raise InputError(f"{key}: a list of numbers")
    return found


def integer(value: Any, name: str) -> int:
    if isinstance(value, str) and NUMBER.fullmatch(value):
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        raise InputError(f"{name}: a number")
    return value


def person(body: dict[str, Any]) -> str:
    by = body.get("by")
    if not isinstance(by, str) or not 1 <= len(by) <= 40 or not by.isascii() or not by.isprintable():
        raise InputError("by: who answers, in at most 40 letters")
    return by


def page_response(name: str) -> Response:
    kind = PAGE_FILES.get(name, "text/javascript; charset=utf-8" if name.endswith(".js") else None)
    folder = importlib.resources.files("laplacenet.review").joinpath("page")
    if kind is None or name not in {entry.name for entry in folder.iterdir()}:
        return refused(404, "no such page")
    return Response(folder.joinpath(name).read_bytes(), headers={"content-type": kind})


def application(site: Site, *, token: str, hosts: tuple[str, ...], cookie: str) -> ASGIApp:
    """The routes with access control."""
    app = Starlette(routes=site.routes())

    async def with_loop(scope: Scope, receive: Receive, send: Send) -> None:
        if site._loop is None:
            await site.note_loop()
        await app(scope, receive, send)

    return Gate(with_loop, token=token, hosts=hosts, cookie=cookie)
