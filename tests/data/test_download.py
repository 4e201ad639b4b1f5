"""Downloads against a real server on this machine: whole, cut off, resumed, wrong, missing, unreachable."""

import hashlib
import http.server
import re
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from references_data import archive_of, cifar100_files, write_archive

from laplacenet.data import load as load_module
from laplacenet.data import load_dataset
from laplacenet.data.cifar import CIFAR100, CifarLayout
from laplacenet.data.download import download
from laplacenet.runtime import InputError

CONTENT = bytes(range(256)) * 4000
CHECKSUM = "md5:" + hashlib.md5(CONTENT).hexdigest()


@dataclass
class Server:
    """What the server holds, how it behaves, and what it was asked for."""

    files: dict[str, bytes] = field(default_factory=lambda: {"/file.bin": CONTENT})
    cut_after: int | None = None
    n_cuts: int = 0
    knows_ranges: bool = True
    sends_length: bool = True
    ranges: list[str | None] = field(default_factory=list)
    url: str = ""

    def answer(self, handler: http.server.BaseHTTPRequestHandler) -> None:
        asked = handler.headers.get("Range")
        self.ranges.append(asked)
        content = self.files.get(handler.path)
        if content is None:
            handler.send_error(404)
            return
        start = int(re.findall(r"\d+", asked)[0]) if asked and self.knows_ranges else 0
        if start >= len(content):
            handler.send_error(416)
            return
        handler.send_response(206 if start else 200)
        if self.sends_length:
            handler.send_header("Content-Length", str(len(content) - start))
        handler.end_headers()
        end = len(content)
        if self.n_cuts > 0 and self.cut_after is not None:
            self.n_cuts -= 1
            end = start + self.cut_after
        handler.wfile.write(content[start:end])


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    state = Server()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            state.answer(self)

        def log_message(self, *_: object) -> None:
            pass

    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as httpd:
        thread = threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        state.url = f"http://127.0.0.1:{httpd.server_port}/file.bin"
        yield state
        httpd.shutdown()
        thread.join()


def test_a_file_arrives_whole_and_leaves_no_part(server: Server, tmp_path: Path) -> None:
    target = tmp_path / "new" / "folder" / "file.bin"
    assert download(server.url, target, checksum=CHECKSUM) == target
    assert target.read_bytes() == CONTENT
    assert [path.name for path in target.parent.iterdir()] == ["file.bin"]


def test_sha256_is_checked_too(server: Server, tmp_path: Path) -> None:
    checksum = "sha256:" + hashlib.sha256(CONTENT).hexdigest()
    assert download(server.url, tmp_path / "file.bin", checksum=checksum).read_bytes() == CONTENT


def test_a_file_that_is_there_is_not_fetched_again(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file.bin").write_bytes(CONTENT)
    download(server.url, tmp_path / "file.bin", checksum=CHECKSUM)
    assert server.ranges == []


def test_a_wrong_file_that_is_there_is_left_to_its_owner(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file.bin").write_bytes(b"mine")
    with pytest.raises(InputError, match="delete it to fetch it again"):
        download(server.url, tmp_path / "file.bin", checksum=CHECKSUM)
    assert (tmp_path / "file.bin").read_bytes() == b"mine"


def test_a_connection_that_breaks_off_is_taken_up_where_it_broke(server: Server, tmp_path: Path) -> None:
    server.cut_after, server.n_cuts = 300_000, 2
    assert download(server.url, tmp_path / "file.bin", checksum=CHECKSUM).read_bytes() == CONTENT
    assert server.ranges == [None, "bytes=300000-", "bytes=600000-"]


def test_a_part_from_an_earlier_run_is_gone_on_with(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file.bin.part").write_bytes(CONTENT[:1000])
    assert download(server.url, tmp_path / "file.bin", checksum=CHECKSUM).read_bytes() == CONTENT
    assert server.ranges == ["bytes=1000-"]


def test_a_whole_part_needs_no_connection(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file.bin.part").write_bytes(CONTENT)
    assert download(server.url, tmp_path / "file.bin", checksum=CHECKSUM).read_bytes() == CONTENT
    assert server.ranges == []


def test_a_server_without_ranges_sends_all_from_the_start(server: Server, tmp_path: Path) -> None:
    server.knows_ranges = False
    (tmp_path / "file.bin.part").write_bytes(b"x" * 1000)
    assert download(server.url, tmp_path / "file.bin", checksum=CHECKSUM).read_bytes() == CONTENT


def test_a_server_that_does_not_say_the_length_is_read_to_the_end(server: Server, tmp_path: Path) -> None:
    server.sends_length = False
    assert download(server.url, tmp_path / "file.bin", checksum=CHECKSUM).read_bytes() == CONTENT


def test_a_part_longer_than_the_file_is_thrown_away(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file.bin.part").write_bytes(b"x" * (len(CONTENT) + 1))
    assert download(server.url, tmp_path / "file.bin", checksum=CHECKSUM).read_bytes() == CONTENT
    assert server.ranges[-1] is None


def test_a_connection_that_keeps_breaking_keeps_its_part_for_the_next_run(server: Server, tmp_path: Path) -> None:
    server.cut_after, server.n_cuts = 10, 1000
    with pytest.raises(InputError, match=r"broke off after 50 of 1024000 bytes; run again"):
        download(server.url, tmp_path / "file.bin", checksum=CHECKSUM)
    assert (tmp_path / "file.bin.part").read_bytes() == CONTENT[:50]


def test_a_connection_that_brings_nothing_is_given_up(server: Server, tmp_path: Path) -> None:
    server.cut_after, server.n_cuts = 0, 1000
    with pytest.raises(InputError, match="broke off after 0 of"):
        download(server.url, tmp_path / "file.bin", checksum=CHECKSUM)
    assert len(server.ranges) == 1


def test_a_file_with_the_wrong_checksum_is_removed(server: Server, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"its checksum is md5:.*, expected md5:0000"):
        download(server.url, tmp_path / "file.bin", checksum="md5:" + 32 * "0")
    assert list(tmp_path.iterdir()) == []


def test_a_missing_file_is_reported_with_the_answer(server: Server, tmp_path: Path) -> None:
    server.files = {}
    with pytest.raises(InputError, match=r"answered 404 Not Found; fetch .* by other means and put it into"):
        download(server.url, tmp_path / "file.bin", checksum=CHECKSUM)


def test_without_a_network_one_line_says_where_to_put_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound but not listening: connections are refused
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/file.bin"
        with pytest.raises(InputError, match=f"cannot fetch .* put it into {re.escape(str(tmp_path))}") as error:
            download(url, tmp_path / "file.bin", checksum=CHECKSUM)
    assert "\n" not in str(error.value)


def test_only_web_addresses_are_fetched(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="only https and http"):
        download("file:///etc/hostname", tmp_path / "file.bin", checksum=CHECKSUM)


def test_load_dataset_fetches_a_missing_cifar_and_keeps_it(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = write_archive(tmp_path / "published.tar.gz", archive_of(CIFAR100.folder, cifar100_files())).read_bytes()
    server.files = {"/file.bin": archive}
    monkeypatch.setattr(CifarLayout, "url", server.url)
    layout = CifarLayout(**{**vars(CIFAR100), "checksum": "md5:" + hashlib.md5(archive).hexdigest()})
    monkeypatch.setitem(load_module.CIFAR, "cifar100", layout)
    for _ in range(2):
        assert len(load_dataset("cifar100", folder=tmp_path / "home", download=True).train) == 4
    assert len(server.ranges) == 1
    assert (tmp_path / "home" / CIFAR100.archive).read_bytes() == archive
