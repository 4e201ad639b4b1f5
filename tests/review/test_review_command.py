"""`laplacenet review` as a user starts and stops it."""

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys

import httpx
import pytest
from PIL import Image
from references_cli import Shell
from references_review import color_embedder, jpeg, make_photos, served, settled, wait_until

from laplacenet.cli.review import write
from laplacenet.review.opening import Source
from laplacenet.review.photos import Thumbnails
from laplacenet.review.serve import Place, Review, open_review
from laplacenet.runtime import RunError
from laplacenet.runtime.run_folder import ANSWERS


@pytest.fixture
def shell(tmp_path, monkeypatch, capsys):
    return Shell(tmp_path, monkeypatch, capsys)


def test_a_folder_that_is_not_there_is_refused(shell):
    assert "nowhere" in shell.fails("review", "nowhere")


def test_a_folder_without_pictures_is_refused(shell, tmp_path):
    (tmp_path / "empty").mkdir()
    assert "no pictures" in shell.fails("review", "empty")


@pytest.mark.parametrize("features", ["nonsense", "scratch", "missing.onnx"])
def test_a_network_that_cannot_be_loaded_is_refused_before_anything_is_served(shell, tmp_path, features):
    make_photos(tmp_path / "photos", 3)
    assert features in shell.fails("review", "photos", "--features", features)
    assert not (tmp_path / "runs").exists()


def test_other_machines_are_let_in_only_by_a_flag_that_says_so(shell, tmp_path):
    make_photos(tmp_path / "photos", 3)
    assert "--public" in shell.fails("review", "photos", "--host", "0.0.0.0")
    assert not (tmp_path / "runs").exists()


def test_a_port_that_is_taken_is_refused(shell, tmp_path):
    make_photos(tmp_path / "photos", 3)
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        assert "--port" in shell.fails("review", "photos", "--port", str(other.getsockname()[1]))


def test_the_run_of_other_pictures_is_refused(shell, tmp_path):
    make_photos(tmp_path / "photos", 3)
    make_photos(tmp_path / "others", 3)
    with socket.socket() as other:  # a port that is taken ends the first one right after its folder was made
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = str(other.getsockname()[1])
        shell.fails("review", "photos", "--out", "run", "--port", port)
        assert "--out" in shell.fails("review", "others", "--out", "run", "--port", port)


def test_a_run_of_another_kind_is_refused(shell, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "experiment.json").write_text('{"name": "digits"}')
    assert "run" in shell.fails("review", "run")


@pytest.mark.filterwarnings("always")
def test_damaged_metadata_of_a_camera_are_not_talked_about(shell, tmp_path, monkeypatch, recwarn):
    picture = Image.new("RGB", (40, 40))
    exif = picture.getexif()
    exif[0x010E] = "a description"
    content = jpeg(picture, exif=exif)
    entries = content.index(b"Exif") + 14
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "damaged.jpg").write_bytes(content[:entries] + b"\xff\xff" + content[entries + 2 :])
    shown = []

    def show_all(review, on_stop):
        shown.append(Thumbnails(review.session.photos).jpeg(0, "small"))

    monkeypatch.setattr(Review, "serve", show_all)
    shell.succeeds("review", "photos", "--no-browser")
    assert len(shown) == 1
    assert [str(warning.message) for warning in recwarn] == []


@contextlib.contextmanager
def started(folder, *arguments):
    """The process and its address; whatever happens, the process is gone afterwards."""
    environment = dict(os.environ, OMP_NUM_THREADS="1", LAPLACENET_CACHE=str(folder / "cache"))
    command = [sys.executable, "-m", "laplacenet", "review", *arguments, "--no-browser"]
    with subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            found = (re.search(r"http://127\.0\.0\.1:\d+/\?token=\S+", line) for line in process.stdout)
            yield process, next(filter(None, found))[0]
        finally:
            process.kill()


def answer(address, number, name):
    origin = address.split("/?")[0]
    with httpx.Client(base_url=origin, headers={"origin": origin}, timeout=60) as client:
        client.get(address, follow_redirects=True)
        body = {"by": "tab", "answer": "label", "name": name, "pictures": [number], "via": "queue", "seen": 0}
        assert client.post("/api/answer", json=body).status_code == 200
        return client.get("/api/summary").json()


@pytest.mark.slow
def test_killed_and_started_again_it_goes_on_and_ctrl_c_writes_the_labels(tmp_path):
    truth = make_photos(tmp_path / "photos", 12, side=64)
    with started(tmp_path, "photos", "--out", "run") as (process, address):
        answer(address, 0, "red")
        process.send_signal(signal.SIGKILL)
    with started(tmp_path, "run") as (process, address):
        summary = answer(address, 1, "green")
        assert summary["answered"] == 2
        process.send_signal(signal.SIGINT)
        said = process.stdout.read()
        assert process.wait() == 0
    assert (tmp_path / "run" / ANSWERS).is_file()
    if "written" in said:  # on a machine so slow that nothing was embedded in time there is nothing to write yet
        lines = (tmp_path / "run" / "labels.csv").read_text().splitlines()
        assert lines[0].startswith("path,label,confidence")
        labels = dict(line.split(",")[:2] for line in lines[1:])
        assert labels["photo_000.png"] == "red"
        assert set(labels) <= set(truth)


def test_a_disk_that_is_full_at_the_end_is_told_with_the_folder_and_what_to_do(tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    make_photos(tmp_path / "photos", 8)
    with served(tmp_path / "photos", tmp_path / "run") as review:
        answer(review.address, 0, "red")
        with monkeypatch.context() as patch:
            patch.setattr("laplacenet.review.outputs.write_labels", full)
            with pytest.raises(RunError) as caught:
                write(review)
    assert str(caught.value) == (
        f"{tmp_path / 'run'}: labels, report and model were not written (No space left on device);"
        " all answers are saved; start it again to write the files"
    )


def test_a_review_that_is_stopped_at_once_stops(tmp_path):
    """Before its thread has made the server; then the request was lost, and `stop` waited for 30 s in vain."""
    make_photos(tmp_path / "photos", 8)
    for _ in range(3):
        with open_review(
            Source(tmp_path / "photos", tmp_path / "run"), color_embedder, Place(opens_browser=False)
        ) as review:
            review.start()
            review.stop()
            assert not review._thread.is_alive()


def test_from_python_in_a_notebook_it_runs_beside_the_cells(tmp_path, monkeypatch):
    import laplacenet
    from laplacenet.review import pretrained

    make_photos(tmp_path / "photos", 8)
    monkeypatch.setitem(sys.modules, "ipykernel", object())
    monkeypatch.setattr(pretrained, "PretrainedEmbedder", lambda *_, **__: color_embedder)
    for _ in range(2):  # a second time, when the room of the same name is imported
        review = laplacenet.review(tmp_path / "photos", out=tmp_path / "run")
        try:
            assert review.address in review._repr_html_()
            wait_until(lambda review=review: review._server is not None and review._server.started)
            assert answer(review.address, 0, "red")["answered"] == 1
            settled(review.session)
        finally:
            review.stop()
    assert (tmp_path / "run" / "labels.csv").is_file()
