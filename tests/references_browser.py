"""A page looked at in a real browser: the system's Chromium, driven by Playwright."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import Browser as Playwright

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
IS_REQUIRED = os.environ.get("LAPLACENET_REQUIRE_BROWSER") == "1"
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage")
PHONE, DESKTOP = 390, 1280
TIMEOUT_MS = 60_000

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
  return {
    width, scroll_width: document.documentElement.scrollWidth, n_images: document.images.length, failed,
    wide: wide.slice(0, 5).map((one) => one.outerHTML.slice(0, 200)),
    background: getComputedStyle(document.body).backgroundColor, color: getComputedStyle(document.body).color,
    text: document.body.innerText, scripts: document.scripts.length,
    alerts: window.alerted === undefined ? 0 : window.alerted,
  };
})()"""


@dataclass(frozen=True)
class Look:
    """What was seen of a page at one width and in one color scheme."""

    requests: list[str]
    complaints: list[str]
    found: dict[str, Any]
    picture: bytes


@dataclass(frozen=True)
class Browser:
    playwright: "Playwright"

    def look(self, page: Path, *, width: int, scheme: str, whole: bool = False) -> Look:
        """The page opened anew; everything it fetched besides itself and everything it complained of."""
        requests: list[str] = []
        complaints: list[str] = []
        context = self.playwright.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, is_mobile=width < 600
        )
        try:
            tab = context.new_page()
            tab.set_default_timeout(TIMEOUT_MS)
            tab.on("request", lambda request: requests.append(request.url))
            tab.on("console", lambda message: complaints.append(message.text))
            tab.on("pageerror", lambda error: complaints.append(str(error)))
            tab.goto(page.resolve().as_uri())
            found = tab.evaluate(PROBE)
            picture = tab.screenshot(full_page=whole)
        finally:
            context.close()
        own = page.resolve().as_uri()
        return Look([url for url in requests if url != own and not url.startswith("data:")], complaints, found, picture)


@contextmanager
def browser() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright

    assert CHROMIUM is not None
    with sync_playwright() as playwright:
        one = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        try:
            yield Browser(one)
        finally:
            one.close()
