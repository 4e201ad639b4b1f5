"""Both pages opened in a real browser, narrow and wide, light and dark. Needs Chromium from the system's packages."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from references_browser import CHROMIUM, DESKTOP, IS_REQUIRED, PHONE, Browser, browser
from references_experiments import headline_with_views, record_of
from references_labeling_pages import HOSTILE, hostile_labeling, made_up_labeling, made_up_pictures

from laplacenet.experiments.paper.records import write_record
from laplacenet.labeling.outcome import save_gallery, shown_rows
from laplacenet.labeling.result import Labeling, save_labeling
from laplacenet.reports.labeling_page import shown, write_labeling_page
from laplacenet.reports.paper_page import write_report

pytestmark = pytest.mark.skipif(
    CHROMIUM is None and not IS_REQUIRED, reason="no Chromium here; LAPLACENET_REQUIRE_BROWSER=1 makes that a failure"
)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as one:
        yield one


def labeling_page(folder: Path, labeling: Labeling) -> Path:
    save_labeling(folder, labeling)
    if labeling.summary.kind == "pictures":
        rows = shown_rows(labeling)
        save_gallery(folder, rows, made_up_pictures(labeling, rows))
    return write_labeling_page(folder)


@pytest.fixture(params=["pictures", "embeddings", "many classes", "hostile", "paper"])
def page(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    match request.param:
        case "pictures":
            return labeling_page(tmp_path, made_up_labeling())
        case "embeddings":
            return labeling_page(tmp_path, made_up_labeling(kind="embeddings"))
        case "many classes":
            return labeling_page(tmp_path, made_up_labeling(1500, 60, n_given=240))
        case "hostile":
            return labeling_page(tmp_path, hostile_labeling())
        case _:
            write_record(tmp_path / "results", record_of(headline_with_views(3)))
            return write_report(tmp_path / "results", tmp_path / "out")


def test_a_page_is_quiet_fetches_nothing_fits_a_phone_and_has_a_dark_side(chromium: Browser, page: Path) -> None:
    looks = {
        (width, scheme): chromium.look(page, width=width, scheme=scheme)
        for width, scheme in ((PHONE, "light"), (PHONE, "dark"), (DESKTOP, "light"))
    }
    for (width, _), look in looks.items():
        assert look.complaints == []
        assert look.requests == []
        assert look.found["failed"] == []
        assert look.found["width"] == width
        assert look.found["scroll_width"] <= width, look.found["wide"]
        assert look.found["scripts"] == 0
    light, dark = looks[PHONE, "light"], looks[PHONE, "dark"]
    assert light.found["background"] != dark.found["background"]
    assert light.found["color"] != dark.found["color"]
    assert light.picture != dark.picture


def test_a_browser_sees_pictures_and_hostile_names_as_text(chromium: Browser, tmp_path: Path) -> None:
    labeling = hostile_labeling()
    look = chromium.look(labeling_page(tmp_path, labeling), width=DESKTOP, scheme="light")
    assert look.found["n_images"] >= len(shown_rows(labeling))
    for name in HOSTILE[:3]:
        assert shown(name) in look.found["text"]


def test_what_a_page_should_not_do_would_be_noticed(chromium: Browser, tmp_path: Path) -> None:
    page = tmp_path / "bad.html"
    page.write_text(
        "<!doctype html><p style='width:700px'>wide</p><img src='data:image/png;base64,AAAA'>"
        "<img src='missing.png'><script>console.error('said'); undefinedName()</script>"
    )
    look = chromium.look(page, width=PHONE, scheme="light")
    assert any("said" in complaint for complaint in look.complaints)
    assert any("undefinedName" in complaint for complaint in look.complaints)
    assert any("missing.png" in url for url in look.requests)
    assert look.found["scroll_width"] > PHONE
    assert len(look.found["failed"]) >= 2
