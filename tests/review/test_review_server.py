"""The server: what it answers, and whom it turns away."""

import contextlib
import json
import socket
import sys
import time

import httpx
import numpy as np
import pytest
from PIL import Image
from references_review import jpeg, make_photos, origin, served, visitor, wait_until

from laplacenet.review import serve
from laplacenet.review.serve import Place, entrance_file, remembered_entrance
from laplacenet.review.server import LARGEST_BODY, MOST_STREAMS
from laplacenet.runtime import InputError


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("served") / "photos"
    make_photos(folder, 30)
    sideways = Image.fromarray(
        np.repeat([[[255, 0, 0]], [[0, 0, 255]]], 40, axis=1).repeat(20, axis=0).astype(np.uint8)
    )
    exif = sideways.getexif()
    exif[0x0112] = 6  # the camera was turned: the picture must be turned by 90° to the right
    (folder / "z_sideways.jpg").write_bytes(jpeg(sideways, exif=exif, quality=95))
    (folder / "<img src=x onerror=alert(1)>.png").write_bytes((folder / "photo_000.png").read_bytes())
    return folder


@pytest.fixture(scope="module")
def review(folder):
    with served(folder, folder.parent / "run") as review:
        yield review


@pytest.fixture
def client(review):
    with visitor(review) as client:
        yield client


def post(client, path, **content):
    return client.post(path, json={"by": "tab", **content})


# Who may come in


def test_without_the_token_nothing_is_shown(review):
    for path in ("/", "/api/summary", "/pictures/0/small", "/page/main.js", "/?token=wrong", "/?token=%F0%9F%90%A8"):
        assert httpx.get(origin(review) + path).status_code == 403


def test_a_person_with_an_old_address_reads_a_sentence_and_a_program_json(review):
    address = origin(review) + "/?token=old"
    page = httpx.get(address, headers={"accept": "text/html,application/xhtml+xml,*/*;q=0.8"})
    assert page.status_code == 403
    assert page.headers["content-type"].startswith("text/html")
    assert "<p>Open the address that was printed when the program started.</p>" in page.text
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert httpx.get(address).json() == {"error": "open the address that was printed when the program started"}


def test_the_token_is_changed_for_a_cookie_and_leaves_the_address(review):
    response = httpx.get(review.address)
    assert response.status_code == 303
    assert response.headers["location"] == "/"
    cookie = response.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie


def test_a_link_on_another_site_opens_the_page_but_reads_nothing(review):
    elsewhere = {"sec-fetch-site": "cross-site"}
    response = httpx.get(review.address, headers=elsewhere)
    assert response.status_code == 200
    assert "refresh" in response.text
    with visitor(review) as client:
        assert client.get("/api/summary", headers=elsewhere).status_code == 403


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1.evil.example:{port}", ""]
)
def test_another_host_name_is_refused(client, review, host):
    response = client.get("/api/summary", headers={"host": host.format(port=review.port)})
    assert response.status_code in (400, 421)


@pytest.mark.parametrize("other", ["http://evil.example", "null", "https://127.0.0.1:{port}", "http://127.0.0.1:1"])
def test_another_origin_is_refused(client, review, other):
    headers = {"origin": other.format(port=review.port)}
    n = client.get("/api/summary").json()["n"]
    assert (
        client.post("/api/classes", json={"by": "x", "action": "new", "name": "y"}, headers=headers).status_code == 403
    )
    assert client.get("/api/summary", headers=headers).status_code == 403
    assert client.get("/api/summary").json()["n"] == n


def test_a_second_origin_does_not_hide_behind_the_first(client, review):
    headers = [("origin", origin(review)), ("origin", "http://evil.example")]
    with httpx.Client(base_url=origin(review), cookies=client.cookies, headers=headers) as other:
        assert other.post("/api/undo", json={"by": "tab"}).status_code == 403


def test_a_picture_that_is_named_many_times_is_one(client, review):
    n = client.get("/api/summary").json()["n"]
    assert post(client, "/api/answer", answer="none", pictures=[3] * 5000, via="search", seen=10**30).status_code == 200
    entry = next(entry for entry in review.session.journal.entries if entry.n == n + 1)
    assert (len(entry.content["pictures"]), entry.content["seen"]) == (1, n)
    post(client, "/api/undo")


def test_a_change_must_say_where_it_comes_from(review):
    with visitor(review) as client:
        del client.headers["origin"]
        assert client.post("/api/classes", json={"by": "x", "action": "new", "name": "y"}).status_code == 403


def test_every_answer_carries_the_policy(client):
    for path in ("/", "/page/main.js", "/api/summary", "/nowhere", "/pictures/0/small"):
        headers = client.get(path).headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"


@pytest.mark.parametrize(
    "path",
    [
        "/page/../server.py",
        "/page/%2e%2e%2fserver.py",
        "/page/..%2f..%2f..%2fpyproject.toml",
        "/pictures/..%2f..%2fetc%2fpasswd/small",
        "/pictures/0/..%2f..%2fx",
        "/pictures/-1/small",
        "/pictures/99999/small",
        "/pictures/99999999999999999999999999/small",
        "/page//etc/passwd",
        "/page/server.py",
        "/page/__init__.py",
        "/api/class/9e9?order=surest",
        "/api/class/0?order=__class__",
        "/api/class/--5",
        "/api/class/%C2%B2",
    ],
)
def test_nothing_outside_is_reached(client, path):
    assert client.get(path).status_code in (400, 404)


def test_who_does_not_say_what_he_wants_is_not_kept(review, monkeypatch):
    monkeypatch.setattr(serve, "HEAD_TIMEOUT_S", 0.2)
    for beginning in (b"", b"GET / HTTP/1.1\r\nHos"):
        with socket.create_connection(("127.0.0.1", review.port), timeout=60) as idle:
            idle.sendall(beginning)
            assert idle.recv(100) == b""
    with visitor(review) as client:
        assert client.get("/api/summary").status_code == 200


def test_a_flood_of_event_streams_is_bounded_and_ends(review, client):
    head = f"GET /api/events HTTP/1.1\r\nHost: 127.0.0.1:{review.port}\r\nCookie: {cookie_of(client)}\r\n\r\n"
    with contextlib.ExitStack() as stack:
        flood = [
            stack.enter_context(socket.create_connection(("127.0.0.1", review.port), timeout=60)) for _ in range(60)
        ]
        for one in flood:
            one.sendall(head.encode())
        statuses = [one.recv(12) for one in flood]
    assert statuses.count(b"HTTP/1.1 200") == MOST_STREAMS
    assert statuses.count(b"HTTP/1.1 503") == 60 - MOST_STREAMS

    def is_open_again():
        post(client, "/api/undo")  # whatever it answers: a stream notices that its reader is gone when it sends
        with client.stream("GET", "/api/events") as stream:
            return stream.status_code == 200

    wait_until(is_open_again)


def cookie_of(client):
    return "; ".join(f"{name}={value}" for name, value in client.cookies.items())


def test_a_huge_body_is_refused_whether_or_not_it_says_its_length(client):
    assert client.post("/api/answer", content=b"x" * (LARGEST_BODY + 1)).status_code == 413

    def endless():
        for _ in range(40):
            yield b"x" * (1 << 16)

    with contextlib.suppress(httpx.TransportError):  # refused while it was still being sent
        assert client.post("/api/answer", content=endless()).status_code == 400


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"null",
        b"{",
        b"[" * 100_000,
        b'{"by": 3}',
        b'{"by": "x", "answer": "label", "pictures": [0], "via": "queue", "class": 99}',
        b'{"by": "x", "answer": "label", "pictures": [0], "via": "queue", "class": true}',
        b'{"by": "x", "answer": "none", "pictures": [-1], "via": "queue"}',
        b'{"by": "x", "answer": "none", "pictures": ["0"], "via": "queue"}',
        b'{"by": "x", "answer": "none", "pictures": 0, "via": "queue"}',
        b'{"by": "x", "answer": "none", "pictures": [0], "via": "file"}',
        b'{"by": "x", "answer": "nonsense", "pictures": [0], "via": "queue"}',
        b'{"by": "x", "answer": "none", "pictures": [], "via": "queue"}',
        b'{"by": "x", "answer": "none", "pictures": [0], "via": "queue", "seen": 1e400}',
    ],
)
def test_what_is_no_answer_is_refused_and_leaves_nothing(client, body):
    n = client.get("/api/summary").json()["n"]
    assert client.post("/api/answer", content=body).status_code == 400
    assert client.get("/api/summary").json()["n"] == n


# What it answers


def test_pictures_are_upright(client, review):
    import io

    number = next(k for k, photo in enumerate(review.session.photos) if photo.name == "z_sideways.jpg")
    response = client.get(f"/pictures/{number}/large")
    assert response.headers["content-type"] == "image/jpeg"
    picture = Image.open(io.BytesIO(response.content))
    assert picture.size == (40, 40)
    left, right = picture.getpixel((5, 20)), picture.getpixel((35, 20))
    assert left[2] > 200 > left[0]
    assert right[0] > 200 > right[2]


def test_a_picture_is_sent_once(client):
    first = client.get("/pictures/3/small")
    again = client.get("/pictures/3/small", headers={"if-none-match": first.headers["etag"]})
    assert (first.status_code, again.status_code) == (200, 304)
    assert again.content == b""


def test_an_answer_is_on_the_disk_when_it_is_acknowledged(client, review):
    entry = post(client, "/api/answer", answer="label", name="red", pictures=[0], via="queue", seen=0).json()
    last = json.loads(review.session.journal.path.read_bytes().splitlines()[-1])
    assert last["n"] >= entry["n"]
    lines = [json.loads(line) for line in review.session.journal.path.read_bytes().splitlines()]
    assert any(line["n"] == entry["n"] and line["pictures"] == ["<img src=x onerror=alert(1)>.png"] for line in lines)


def test_an_answer_that_the_disk_does_not_take_is_not_acknowledged(client, review, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    answer = {"answer": "label", "name": "red", "pictures": [4], "via": "search", "seen": 0}
    post(client, "/api/classes", action="new", name="red")
    n, size = client.get("/api/summary").json()["n"], review.session.journal.path.stat().st_size
    with monkeypatch.context() as patch:
        patch.setattr("laplacenet.review.journal.os.fsync", full)
        response = post(client, "/api/answer", **answer)
    assert response.status_code == 507
    assert response.json()["error"] == "it could not be written to disk (No space left on device)"
    assert client.get("/api/summary").json()["n"] == n
    assert review.session.journal.path.stat().st_size == size
    assert (
        post(client, "/api/answer", answer="label", name="red", pictures=[4], via="search", seen=0).status_code == 200
    )
    post(client, "/api/undo")


def test_answers_become_visible_in_all_labels(client, review):
    for number, photo in enumerate(review.session.photos[:12]):
        name = "first" if number % 2 else "second"
        n = post(client, "/api/answer", answer="label", name=name, pictures=[number], via="queue", seen=0).json()["n"]
        assert photo.name
    until = time.monotonic() + 60
    while client.get("/api/summary").json()["computed"] < n:
        assert time.monotonic() < until
        time.sleep(0.02)
    classes = {one["name"]: one for one in client.get("/api/summary").json()["classes"]}
    assert classes["first"]["found"] + classes["second"]["found"] > 10


def test_changes_are_sent_to_whoever_listens(client, review):
    with client.stream("GET", "/api/events") as stream:
        lines = (line for line in stream.iter_lines() if line.startswith("data: "))
        n = json.loads(next(lines)[6:])["n"]
        with visitor(review) as other:
            post(other, "/api/classes", action="new", name=f"class {n}")
        assert any(json.loads(line[6:])["n"] > n for line in lines)


def test_a_deleted_picture_is_gone_not_a_crash(tmp_path):
    make_photos(tmp_path / "photos", 8)
    with served(tmp_path / "photos", tmp_path / "run") as review, visitor(review) as client:
        (tmp_path / "photos" / "photo_002.png").unlink()
        assert client.get("/pictures/2/large").status_code == 410
        assert client.get("/api/picture/2").json()["status"] == "gone"
        assert client.get("/api/map").status_code == 200


def test_undo_merge_search_and_similar_by_request(client):
    label = post(client, "/api/classes", action="new", name="one to merge").json()["class"]
    into = post(client, "/api/classes", action="new", name="one to stay").json()["class"]
    assert post(client, "/api/classes", action="merge", **{"class": label}, into=into).status_code == 200
    assert post(client, "/api/undo").status_code == 200
    assert post(client, "/api/classes", action="rename", **{"class": label}, name="one to stay").status_code == 400
    assert client.get("/api/search", params={"text": "SIDEWAYS"}).json()["total"] == 1
    later = client.get("/api/search", params={"text": "photo", "offset": 28}).json()
    assert (later["total"], len(later["pictures"])) == (30, 2)
    assert [one["number"] for one in post(client, "/api/tiles", numbers=[5, 2]).json()["pictures"]] == [5, 2]
    assert client.get("/api/similar/4").json()["pictures"][0]["number"] == 4
    assert post(client, "/api/next", mode="grid", holding=[]).status_code == 200


def test_files_are_written_on_request(client, review):
    post(client, "/api/answer", answer="label", name="red", pictures=[1], via="queue", seen=0)
    post(client, "/api/answer", answer="label", name="green", pictures=[2], via="queue", seen=0)
    assert post(client, "/api/write").json()["n_given"] >= 2
    assert (review.folder.path / "labels.csv").is_file()


def test_files_that_the_disk_does_not_take_are_named_and_the_answers_are_safe(client, review, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    post(client, "/api/answer", answer="label", name="red", pictures=[1], via="queue", seen=0)
    with monkeypatch.context() as patch:
        patch.setattr("laplacenet.review.outputs.write_labels", full)
        response = post(client, "/api/write")
    assert response.status_code == 507
    assert response.json()["error"] == (
        f"{review.folder.path}: labels, report and model were not written (No space left on device);"
        " all answers are saved"
    )
    assert post(client, "/api/write").status_code == 200


def test_small_answers_are_not_held_back(review):
    assert review.socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_only_loopback_is_served(review):
    assert review.socket.getsockname()[0] == "127.0.0.1"


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "photos.example", "localhost.example"])
def test_another_host_needs_a_word_more(host):
    with pytest.raises(InputError, match="--public"):
        Place(host)
    assert Place(host, is_public=True).host == host
    assert Place("localhost").host == "localhost"


def test_the_switch_interval_is_put_back(tmp_path):
    make_photos(tmp_path / "photos", 4)
    before = sys.getswitchinterval()
    sys.setswitchinterval(0.004)
    try:
        with served(tmp_path / "photos", tmp_path / "run"):
            assert sys.getswitchinterval() == pytest.approx(serve.SWITCH_S)
        assert sys.getswitchinterval() == pytest.approx(0.004)
    finally:
        sys.setswitchinterval(before)


def test_the_address_is_the_same_after_a_restart_and_nobody_else_can_read_it(tmp_path):
    make_photos(tmp_path / "photos", 4)
    with served(tmp_path / "photos", tmp_path / "run") as review:
        address = review.address
        assert entrance_file(tmp_path / "run").stat().st_mode & 0o077 == 0
    with served(tmp_path / "photos", tmp_path / "run") as review:
        assert review.address == address
    entrance_file(tmp_path / "run").write_text('{"token": "short", "port": 1}')
    with served(tmp_path / "photos", tmp_path / "run") as review:
        assert review.address != address


@pytest.mark.parametrize(
    "content",
    [
        '{"token": "%s", "port": Infinity}' % ("a" * 32),
        '{"token": "%s", "port": 99999}' % ("a" * 32),
        '{"token": "%s\\r\\nSet-Cookie: a=b", "port": 8000}' % ("a" * 32),
        '{"token": 5, "port": 8000}',
        "[" * 100_000,
        "[]",
        "",
    ],
    ids=["endless", "port", "header", "number", "nest", "list", "empty"],
)
def test_a_damaged_entrance_is_replaced_by_a_new_one(tmp_path, monkeypatch, content):
    monkeypatch.setenv("LAPLACENET_CACHE", str(tmp_path))
    path = entrance_file(tmp_path / "run")
    path.parent.mkdir(parents=True)
    path.write_text(content)
    token, port = remembered_entrance(tmp_path / "run")
    assert len(token) == 32
    assert token != "a" * 32
    assert token.replace("-", "").replace("_", "").isalnum()
    assert port == 0
