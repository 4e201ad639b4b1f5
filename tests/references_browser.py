"""A page looked at in a real browser: headless Chromium, driven over its DevTools pipe, with nothing else installed."""

import base64
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
IS_REQUIRED = os.environ.get("LAPLACENET_REQUIRE_BROWSER") == "1"
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--no-first-run",
)
PHONE, DESKTOP = 390, 1280
COMPLAINTS = ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded", "Audits.issueAdded")

PROBE = """(async () => {
  for (const one of document.querySelectorAll('details')) one.open = true;
  const failed = [];
  for (const image of document.images) {
    try { await image.decode(); } catch (error) { failed.push(image.alt); }
    if (!image.naturalWidth) failed.push(image.alt);
  }
  const width = document.documentElement.clientWidth;
  const wide = [...document.querySelectorAll('body *')].filter(
    (one) => one.getBoundingClientRect().right > width + 1 && !one.closest('.scroll, .copy, svg, .name'));
  return JSON.stringify({
    width, scroll_width: document.documentElement.scrollWidth, n_images: document.images.length, failed,
    wide: wide.slice(0, 5).map((one) => one.outerHTML.slice(0, 200)),
    background: getComputedStyle(document.body).backgroundColor, color: getComputedStyle(document.body).color,
    text: document.body.innerText, scripts: document.scripts.length,
    alerts: window.alerted === undefined ? 0 : window.alerted,
  });
})()"""


@dataclass(frozen=True)
class Look:
    """What was seen of a page at one width and in one color scheme."""

    requests: list[str]
    complaints: list[str]
    found: dict[str, Any]
    picture: bytes


@dataclass
class Browser:
    """One Chromium with one page; `events` are those that came while an answer was awaited."""

    process: subprocess.Popen[bytes]
    write_to: int
    read_from: int
    session: str | None = None
    n_sent: int = 0
    unread: bytes = b""
    events: list[dict[str, Any]] = field(default_factory=list)

    def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        self.n_sent += 1
        message = {"id": self.n_sent, "method": method, "params": parameters}
        if self.session is not None:
            message["sessionId"] = self.session
        os.write(self.write_to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.receive()
            if answer.get("id") == self.n_sent:
                assert "error" not in answer, answer
                return dict(answer["result"])
            self.events.append(answer)

    def wait_for(self, method: str) -> None:
        while not any(event.get("method") == method for event in self.events):
            self.events.append(self.receive())

    def receive(self, *, timeout_s: float = 30) -> dict[str, Any]:
        until = time.monotonic() + timeout_s
        while b"\0" not in self.unread:
            ready, _, _ = select.select([self.read_from], [], [], max(0, until - time.monotonic()))
            assert ready, "Chromium does not answer"
            chunk = os.read(self.read_from, 1 << 16)
            assert chunk, "Chromium has ended"
            self.unread += chunk
        message, _, self.unread = self.unread.partition(b"\0")
        return dict(json.loads(message))

    def look(self, page: Path, *, width: int, scheme: str, whole: bool = False) -> Look:
        """The page opened anew; everything it fetched besides itself and everything it complained of."""
        self.events.clear()
        self.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
        self.ask("Emulation.setDeviceMetricsOverride", **metrics)
        self.ask("Page.navigate", url=page.resolve().as_uri())
        self.wait_for("Page.loadEventFired")
        answer = self.ask("Runtime.evaluate", expression=PROBE, awaitPromise=True)
        picture = self.ask("Page.captureScreenshot", captureBeyondViewport=whole, **self.whole_page(width, whole))
        urls = [e["params"]["request"]["url"] for e in self.events if e.get("method") == "Network.requestWillBeSent"]
        said = [json.dumps(event["params"]) for event in self.events if event.get("method") in COMPLAINTS]
        requests = [url for url in urls if url != page.resolve().as_uri() and not url.startswith("data:")]
        return Look(requests, said, json.loads(answer["result"]["value"]), base64.b64decode(picture["data"]))

    def whole_page(self, width: int, whole: bool) -> dict[str, Any]:
        if not whole:
            return {}
        height = self.ask("Page.getLayoutMetrics")["cssContentSize"]["height"]
        return {"clip": {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}}


@contextmanager
def browser(profile: Path) -> Iterator[Browser]:
    """Chromium reads commands from descriptor 3 and writes to descriptor 4."""
    assert CHROMIUM is not None
    to_chromium, we_write = os.pipe()
    we_read, from_chromium = os.pipe()
    command = [CHROMIUM, *FLAGS, f"--user-data-dir={profile}", "--remote-debugging-pipe", "about:blank"]
    wired = f"exec 3<&{to_chromium} 4>&{from_chromium}; exec " + ' "$0" "$@"'
    process = subprocess.Popen(
        ["/bin/bash", "-c", wired, *command],
        pass_fds=(to_chromium, from_chromium),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(to_chromium)
    os.close(from_chromium)
    try:
        one = Browser(process, we_write, we_read)
        target = one.ask("Target.createTarget", url="about:blank")["targetId"]
        one.session = one.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            one.ask(f"{domain}.enable")
        yield one
    finally:
        process.terminate()
        process.wait(timeout=20)
        os.close(we_write)
        os.close(we_read)
