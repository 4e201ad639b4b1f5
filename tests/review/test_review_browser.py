"""The page in a real browser: a whole round by keyboard and by mouse, reload, two tabs, wide and narrow.

The system's Chromium is used. Where there is none the tests are skipped, unless LAPLACENET_REQUIRE_BROWSER is set.
"""

import contextlib
import os
import re
import shutil

import pytest
from references_review import make_photos, served, settled, wait_until

from laplacenet.review.state import NONE_ID

sync_api = pytest.importorskip("playwright.sync_api")

HOSTILE = "<img src=x onerror=document.title='broken'>.png"
N = 40
WAIT_MS = 60_000


def chromium():
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None and not os.environ.get("LAPLACENET_REQUIRE_BROWSER"):
        pytest.skip("no Chromium here")
    assert found, "LAPLACENET_REQUIRE_BROWSER is set, but there is no Chromium"
    return found


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def truth(tmp_path):
    truth = make_photos(tmp_path / "photos", N, side=160)
    (tmp_path / "photos" / HOSTILE).write_bytes((tmp_path / "photos" / "photo_000.png").read_bytes())
    return truth | {HOSTILE: truth["photo_000.png"]}


@pytest.fixture
def review(tmp_path, truth):
    with served(tmp_path / "photos", tmp_path / "run") as review:
        yield review


@pytest.fixture
def open_page(browser, review):
    """Opens tabs of one browser window each; at the end none of them may have complained."""
    complaints, contexts = [], []

    def open_page(*, width=1280, height=860):
        context = browser.new_context(viewport={"width": width, "height": height})
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(WAIT_MS)
        page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(review.address)
        page.wait_for_selector("figure img")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert complaints == []


def shown(page):
    """The name of the picture in question."""
    return page.text_content("figcaption .file")


def await_next(page, before):
    page.wait_for_function(
        "before => { const file = document.querySelector('figcaption .file'); const question ="
        " document.querySelector('.question'); return question && !question.hasAttribute('aria-busy') &&"
        " (!file || file.textContent !== before); }",
        arg=before,
    )


def key_of(page, name):
    return page.evaluate(
        "name => [...document.querySelectorAll('#class-list button')]"
        ".filter(one => one.querySelector('.name').textContent === name)"
        ".map(one => one.querySelector('kbd').textContent)[0] ?? null",
        name,
    )


def type_name(page, name):
    page.keyboard.press("/")
    page.keyboard.type(name)
    page.keyboard.press("Enter")


def class_by_typing(page, session, typed):
    """The class that the picture in question gets when this is typed."""
    before = shown(page)
    type_name(page, typed)
    await_next(page, before)
    wait_until(lambda: before in session.state.answers)
    return session.state.classes[session.state.target(before)]


def answer_by_keyboard(page, name):
    before = shown(page)
    key = key_of(page, name)
    if key is None:
        type_name(page, name)
        page.wait_for_function(
            "name => [...document.querySelectorAll('#class-list .name')].some(one => one.textContent === name)",
            arg=name,
        )
    else:
        page.keyboard.press(key)
    await_next(page, before)


def answered(review):
    return len(review.session.state.answers)


def test_a_whole_round_by_keyboard_alone(open_page, review, truth):
    page, session = open_page(), review.session
    assert page.evaluate("document.activeElement.id") == "class-entry", "the first class can be typed at once"
    for _ in range(14):
        answer_by_keyboard(page, truth[shown(page)])
    wait_until(lambda: answered(review) == 14)
    keys = {name: key_of(page, name) for name in ("red", "green", "blue")}
    assert sorted(keys.values()) == ["1", "2", "3"]

    for key, kind in (("0", "none"), ("c", "cannot tell")):
        before = shown(page)
        page.keyboard.press(key)
        await_next(page, before)
        wait_until(lambda name=before, kind=kind: name in session.state.answers)
        assert session.state.answer(before).kind == kind
    before = shown(page)
    page.keyboard.press("s")
    await_next(page, before)
    wait_until(lambda name=before: name in session.state.skipped)

    before = shown(page)
    page.keyboard.press(keys["red"])
    await_next(page, before)
    wait_until(lambda name=before: name in session.state.answers)
    page.keyboard.press("u")
    page.wait_for_function("name => document.querySelector('figcaption .file')?.textContent === name", arg=before)
    assert before not in session.state.answers
    assert {name: key_of(page, name) for name in keys} == keys, "keys stay where they are"
    page.keyboard.press("r")
    wait_until(lambda name=before: name in session.state.answers)

    settled(session)
    labels = {
        photo.name: session.label_of(number, session.live.current)[0] for number, photo in enumerate(session.photos)
    }
    n_right = sum(session.state.classes.get(label) == truth[name] for name, label in labels.items())
    assert n_right > 0.8 * N
    n = answered(review)
    page.reload()
    page.wait_for_selector("figure img")
    page.wait_for_function(f"() => document.querySelector('#answered').textContent.startsWith('{n} of')")


def test_a_round_by_mouse(open_page, review, truth):
    page, session = open_page(), review.session
    for name in ("red", "green", "blue"):
        page.fill("#class-entry", name)
        page.wait_for_selector("#class-options li")
        before = shown(page)
        page.click(f"#class-options li:has-text('New class: {name}')")
        await_next(page, before)
    page.wait_for_selector("#class-list li:nth-child(3)")
    page.click("#undo")
    page.wait_for_function("name => document.querySelector('figcaption .file')?.textContent === name", arg=before)
    assert answered(review) == 2
    assert page.evaluate("document.activeElement.id") == "view", "Enter is for the question, not for the button again"
    for _ in range(14):
        before = shown(page)
        page.click(f"#class-list button:has(.name:text-is('{truth[before]}'))")
        await_next(page, before)
    settled(session)

    page.click("nav [data-view=classes]")
    page.select_option("select[aria-label=Class]", label="red")
    page.wait_for_selector(".tile")
    tile = page.locator(".tile").first
    name = tile.get_attribute("title")
    tile.drag_to(page.locator("#class-list button:has(.name:text-is('blue'))"))
    wait_until(lambda: name in session.state.answers)
    assert session.state.classes[session.state.target(name)] == "blue"
    page.fill("input[aria-label='New name']", "crimson")
    page.click("#rename")
    page.wait_for_selector("#class-list .name:text-is('crimson')")
    page.select_option("select[aria-label='Merge into']", label="green")
    page.click("#merge")
    page.wait_for_selector("#class-list .name:text-is('crimson')", state="detached")
    page.click("#undo")
    page.wait_for_selector("#class-list .name:text-is('crimson')")


def test_pictures_are_selected_on_the_map_and_by_name(open_page, review, truth):
    page, session = open_page(), review.session
    for _ in range(4):
        answer_by_keyboard(page, truth[shown(page)])
    settled(session)
    page.click("nav [data-view=map]")
    box = page.locator("canvas").bounding_box()
    page.wait_for_function("() => reviewApp.view.content && reviewApp.view.content.numbers.length > 0")
    page.wait_for_function("() => reviewApp.view.content.layouts >= 1")  # t-SNE's
    corners = [(0.01, 0.01), (0.99, 0.01), (0.99, 0.99), (0.01, 0.99), (0.01, 0.02)]
    places = [(box["x"] + x * box["width"], box["y"] + y * min(box["height"], 840 - box["y"])) for x, y in corners]
    page.mouse.move(*places[0])
    page.mouse.down()
    for place in places[1:]:
        page.mouse.move(*place, steps=4)
    page.mouse.up()
    page.wait_for_selector(".tile[aria-pressed=true]")

    page.click("nav [data-view=search]")
    page.fill("input[type=search]", "photo_00")
    page.wait_for_function("() => document.querySelectorAll('.tile').length === 10")
    page.locator(".tile").nth(1).click()
    page.locator(".tile").nth(3).click(modifiers=["Shift"])
    page.click("#none")
    wait_until(lambda: [session.state.target(f"photo_00{k}.png") for k in (1, 2, 3)] == [NONE_ID] * 3)
    page.click("#write")
    page.wait_for_function("() => document.querySelector('#status').textContent.includes('written')")
    assert (review.folder.path / "labels.csv").is_file()


def test_a_grid_is_confirmed_without_its_wrong_ones(open_page, review, truth):
    page, session = open_page(), review.session
    for _ in range(18):
        answer_by_keyboard(page, truth[shown(page)])
    wait_until(lambda: answered(review) == 18)
    settled(session)
    page.keyboard.press("g")
    for _ in range(3):  # a random check may come first
        page.wait_for_selector(".question:not([aria-busy])[data-kind]")
        page.wait_for_function("() => reviewApp.view.question !== null")
        if page.get_attribute(".question", "data-kind") == "grid":
            break
        answer_by_keyboard(page, truth[shown(page)])
    heading = page.text_content("main h2")
    assert re.fullmatch(r"These \d+ look like (red|green|blue)", heading)
    names = page.eval_on_selector_all(".tile", "tiles => tiles.map(tile => tile.title)")
    assert page.locator(".tile[tabindex='0']").count() == 1, "Tab leads past the pictures, arrows from one to another"
    page.keyboard.press("a")
    assert page.locator(".tile[aria-pressed=true]").count() == len(names)
    page.keyboard.press("Escape")
    page.keyboard.press("End")
    assert page.evaluate("document.querySelector('main button.primary').getBoundingClientRect().top >= 0")
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Space")
    assert page.get_attribute(".tile >> nth=1", "aria-pressed") == "true"
    page.keyboard.press("Enter")
    wait_until(lambda: all(name in session.state.answers for name in (names[0], *names[2:])))
    assert names[1] in session.state.rejected
    assert names[1] not in session.state.answers
    page.wait_for_selector(".question[data-kind=single] figcaption .file")


def test_two_people_see_each_other_s_answers_and_where_they_disagree(open_page, review, truth):
    one, two = open_page(), open_page()
    answer_by_keyboard(one, "red")
    two.wait_for_selector("#class-list .name:text-is('red')")
    two.wait_for_function("() => document.querySelector('#answered').textContent.startsWith('1 of')")
    for is_hidden in (True, False):  # a browser has few connections: a page that nobody sees must not hold one
        one.evaluate(
            "hidden => { Object.defineProperty(document, 'hidden', { value: hidden, configurable: true });"
            " document.dispatchEvent(new Event('visibilitychange')); }",
            is_hidden,
        )
        assert one.evaluate("reviewApp.source.readyState === EventSource.CLOSED") == is_hidden
    with one.context.expect_page() as opened:  # a tab that begins with all that the other one remembers
        one.evaluate("window.open('/')")
    opened.value.wait_for_selector("figure img")
    names = [page.evaluate("sessionStorage.getItem('by')") for page in (one, opened.value)]
    assert names[0] != names[1], "two tabs are two people, else they could not disagree"
    opened.value.reload()
    opened.value.wait_for_selector("figure img")
    assert opened.value.evaluate("sessionStorage.getItem('by')") == names[1], "what was done can still be undone"
    opened.value.close()
    answer_by_keyboard(two, "green")
    one.wait_for_function("() => document.querySelector('#answered').textContent.startsWith('2 of')")
    n = settled(review.session).live.current.n
    for page in (one, two):  # nothing changes any more by itself, so no view is loaded again behind the selection
        page.wait_for_function("n => Number(document.documentElement.dataset.computed) >= n", arg=n)
        page.click("nav [data-view=search]")
        page.fill("input[type=search]", "photo_03")
        page.wait_for_function("() => document.querySelectorAll('.tile').length === 10")
        page.locator(".tile").first.click()
    name = one.locator(".tile").first.get_attribute("title")
    # what is selected stays as it was shown, so the second person decides without having seen the first one's answer
    one.click("#class-list button:has(.name:text-is('red'))")
    wait_until(lambda: review.session.state.target(name) is not None)
    two.click("#class-list button:has(.name:text-is('green'))")
    wait_until(lambda: name in review.session.state.disagreements())
    one.wait_for_selector("#disagreements-button:visible")
    one.click("#disagreements-button")
    one.wait_for_selector(f".tile[title='{name}']:has-text('red, then green')")


def test_pictures_are_looked_at_and_corrected_by_keyboard_alone(open_page, review, truth):
    page, session = open_page(), review.session
    for _ in range(6):
        answer_by_keyboard(page, truth[shown(page)])
    settled(session)
    page.wait_for_function("() => document.querySelectorAll('.guesses button').length > 0")
    page.keyboard.press("k")
    page.wait_for_selector(".tile")
    widths = page.eval_on_selector_all("#class-list .bar", "bars => bars.map(bar => bar.style.width)")
    assert set(widths) == {"0px"}, "the guesses were for another view"
    page.keyboard.press("Enter")  # the first picture has the focus
    page.keyboard.press("v")
    page.wait_for_selector("#large[open]")
    page.wait_for_function("() => document.querySelector('#large-name').textContent !== ''")
    name = page.text_content("#large-name")
    page.keyboard.press("2")
    wait_until(lambda: session.state.target(name) == 1)
    page.wait_for_function("before => document.querySelector('#large-name').textContent !== before", arg=name)
    page.keyboard.press("Escape")

    page.keyboard.press("m")
    page.wait_for_function("() => reviewApp.view.content && reviewApp.view.content.numbers.length > 0")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.tagName") == "CANVAS"
    for _ in range(12):
        page.keyboard.press("+")
    page.keyboard.press("Space")
    page.wait_for_selector(".tile[aria-pressed=true]")
    n = page.locator(".tile[aria-pressed=true]").count()
    page.keyboard.press("0")
    wait_until(lambda: sum(session.state.target(one) == NONE_ID for one in truth) >= n)


def test_more_than_nine_classes_are_reached_by_typing(open_page, review):
    page, session = open_page(), review.session
    for number in range(11):
        session.new_class("other", f"kind {'abcdefghijk'[number]}")
    page.wait_for_selector("#class-list li:nth-child(11)")
    before = shown(page)
    page.keyboard.press("/")
    page.keyboard.type("kind k")
    page.wait_for_selector("#class-options li[aria-selected=true]:text-is('kind k')")
    page.keyboard.press("Enter")
    wait_until(lambda: before in session.state.answers)
    assert session.state.classes[session.state.target(before)] == "kind k"


def test_digits_are_typed_where_a_name_is_typed_and_are_keys_elsewhere(open_page, review):
    page, session = open_page(), review.session
    for typed in ("cat", "1", "7"):
        assert class_by_typing(page, session, typed) == typed
    page.wait_for_selector("#class-list li:nth-child(3)")
    assert page.is_hidden(".hint"), "what to do first is said once"
    before = shown(page)
    page.keyboard.press("7")
    await_next(page, before)
    wait_until(lambda: before in session.state.answers)
    assert session.state.classes[session.state.target(before)] == "7"


def test_a_name_within_another_makes_a_new_class_and_a_word_s_beginning_does_not(open_page, review):
    page, session = open_page(), review.session
    session.new_class("other", "red fox")
    page.wait_for_selector("#class-list li")
    for typed, expected in (("ox", "ox"), ("fo", "red fox"), ("re", "red fox")):
        assert class_by_typing(page, session, typed) == expected
    page.wait_for_selector("#class-list li:nth-child(2)")
    page.keyboard.press("v")
    page.wait_for_selector("#large[open]")
    before = shown(page)
    page.keyboard.press("2")
    wait_until(lambda: before in session.state.answers)
    assert not page.is_visible("#large"), "the next question is seen"


def test_an_open_page_goes_on_when_the_program_was_restarted(browser, tmp_path):
    truth = make_photos(tmp_path / "photos", 12)
    context = browser.new_context()
    page = context.new_page()
    page.set_default_timeout(WAIT_MS)
    with served(tmp_path / "photos", tmp_path / "run") as review:
        page.goto(review.address)
        page.wait_for_selector("figure img")
        answer_by_keyboard(page, truth[shown(page)])
        wait_until(lambda: answered(review) == 1)
    page.wait_for_selector("#connection:visible")
    page.keyboard.press("1")  # it cannot be saved, and the page says so
    page.wait_for_selector("main h2:text-is('Waiting for the program…')")
    with served(tmp_path / "photos", tmp_path / "run") as review:
        page.wait_for_selector("#connection", state="hidden")
        page.wait_for_selector("figcaption .file")
        assert answered(review) == 1
        answer_by_keyboard(page, truth[shown(page)])
        wait_until(lambda: answered(review) == 2)
        context.close()


@pytest.mark.parametrize(("width", "height"), [(390, 844), (820, 1180), (1600, 900)])
def test_nothing_hangs_over_the_edge_on_phone_tablet_and_desktop(open_page, width, height, truth):
    page = open_page(width=width, height=height)
    answer_by_keyboard(page, truth[shown(page)])
    for view in ("label", "classes", "map", "search"):
        page.click(f"nav [data-view={view}]")
        page.wait_for_selector("main h2")
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        assert page.evaluate("document.querySelector('#class-list').getBoundingClientRect().top < window.innerHeight")


def test_names_of_files_are_text(open_page, review):
    page = open_page()
    page.click("nav [data-view=search]")
    page.fill("input[type=search]", "onerror")
    page.wait_for_function("() => document.querySelectorAll('.tile').length === 1")
    assert page.get_attribute(".tile", "title") == HOSTILE
    assert page.title() == "photos · LaplaceNet review"
    assert page.text_content(".tile bdi") == HOSTILE, "who searches by name sees the names"


def test_every_control_has_a_name_and_light_and_dark_can_be_read(open_page, truth):
    page = open_page()
    answer_by_keyboard(page, truth[shown(page)])
    nameless = page.evaluate(
        "() => [...document.querySelectorAll('button, input, select, canvas, img')].filter(one =>"
        " one.offsetParent !== null && !(one.getAttribute('aria-label') || one.textContent.trim()"
        " || one.hasAttribute('alt') || one.labels?.length)).map(one => one.outerHTML)"
    )
    assert nameless == []
    for theme in ("light", "dark"):
        page.evaluate("theme => { document.documentElement.dataset.theme = theme; }", theme)
        low = page.evaluate(CONTRAST)
        assert low == []


@pytest.mark.parametrize(("width", "height"), [(390, 600), (1280, 860)])
def test_the_keys_are_shown_from_the_first_on(open_page, width, height):
    page = open_page(width=width, height=height)
    page.keyboard.press("Escape")  # out of the field for the first class
    page.keyboard.press("h")
    page.wait_for_selector("#keys[open]")
    assert page.evaluate("document.querySelector('#keys').scrollTop") == 0
    bottom = page.evaluate("document.activeElement.getBoundingClientRect().bottom")
    assert page.evaluate("document.activeElement.textContent") == "Close"
    assert bottom <= height
    page.keyboard.press("Enter")
    page.wait_for_selector("#keys", state="hidden")


def test_at_the_end_the_page_says_that_every_label_is_an_answer(browser, tmp_path):
    truth = make_photos(tmp_path / "few", 8)
    (tmp_path / "few" / "broken.jpg").write_bytes(b"no picture")
    with served(tmp_path / "few", tmp_path / "run") as review, contextlib.closing(browser.new_page()) as page:
        session = review.session
        for number, photo in enumerate(session.photos):
            if photo.name in truth:
                label = session.new_class("a", truth[photo.name])
                session.answer("a", {"answer": "label", "class": label, "via": "queue", "seen": 0}, [number])
        settled(session)
        page.goto(review.address)
        page.wait_for_selector("text=Every picture has an answer")
        progress = page.inner_text("section[aria-labelledby=progress-title]")
        assert "8 of 8 pictures have your answer.\n" in progress
        assert "Every label is your own answer." in progress
        assert "1 file cannot be read as a picture" in progress
        assert "random checks" not in progress
        assert "reached" not in progress
        number = session.row_of[next(iter(truth))]
        session.answer("a", {"answer": "cannot tell", "via": "queue", "seen": 0}, [number])
        page.wait_for_selector("text=except for 1 picture that you marked “cannot tell”")


CONTRAST = """() => {
  const channel = (value) => { const v = value / 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; };
  const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  const numbers = (text) => text.match(/[\\d.]+/g).map(Number);
  const ground = (one) => { for (let at = one; at; at = at.parentElement) {
    const c = numbers(getComputedStyle(at).backgroundColor);
    if (c.length < 4 || c[3] > 0) return c; } return [255, 255, 255]; };
  const texts = 'button, select, p, h1, h2, label, .count, .text, figcaption span, kbd';
  return [...document.querySelectorAll(texts)].filter((one) =>
    one.offsetParent !== null && one.textContent.trim() && !one.disabled).map((one) => {
    const [a, b] = [light(numbers(getComputedStyle(one).color)), light(ground(one))].sort((x, y) => y - x);
    return [one.textContent.trim().slice(0, 30), (a + 0.05) / (b + 0.05)]; }).filter(([, ratio]) => ratio < 4.5);
}"""
