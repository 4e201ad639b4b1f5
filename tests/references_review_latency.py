"""How long the review lets a person wait: until an answer is acknowledged, and until it shows in all labels.

    python tests/references_review_latency.py --out results/review/latency.json [--photos FOLDER --truth FILE.npy]
    python tests/references_review_latency.py --sizes --embeddings FILE.npz --truth FILE.npy --out latency.json

A server process serves pictures whose embeddings are synthetic and clustered like a pretrained network's, or those that
`laplacenet embed` wrote (`--embeddings`), or the photos of a folder, which the pretrained network must see first
(`--photos`); `--truth` has the class of each, by name. Another process
answers as the page does: it listens to the events, asks for the next question, sends an answer every 0.4 s whether or
not the last one has been spread, and notes both times. It also notes how long the first question took, from the start
of the program.
"""

import argparse
import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import torch
from PIL import Image

from laplacenet.runtime import provenance, write_json

N_CLASSES, N_FEATURES, RANK = 10, 1280, 40
PAUSE_S = 0.4
LIMITS_S = {"first question": 10, "acknowledged": 0.05, "visible at 5000": 0.3, "visible at 50000": 2.0}
"""On two cores; those of answers for the 95th percentile."""
N_FIRST = 30


def classes_of(n: int) -> np.ndarray:
    """What each picture shows."""
    return np.random.default_rng(1).integers(0, N_CLASSES, n)


def clustered_vectors(n: int) -> np.ndarray:
    """Classes that overlap along few shared directions, and no negative numbers: as after a network's last ReLU."""
    rng, truth = np.random.default_rng(0), classes_of(n)
    centers = rng.normal(0, 1, (N_CLASSES, N_FEATURES)).astype(np.float32)
    directions = rng.normal(0, 1, (RANK, N_FEATURES)).astype(np.float32)
    vectors = np.empty((n, N_FEATURES), np.float32)
    for start in range(0, n, 5000):
        rows = slice(start, min(n, start + 5000))
        m = rows.stop - start
        shared = rng.normal(0, 1, (m, RANK)).astype(np.float32) @ directions / np.sqrt(RANK / 2)
        own = rng.normal(0, 0.6, (m, N_FEATURES)).astype(np.float32)
        vectors[rows] = np.maximum(0, 0.55 * centers[truth[rows]] + shared + own)
    return vectors


def make_files(folder: Path, n: int) -> None:
    """One small picture under many names: what is measured does not look at them."""
    folder.mkdir(parents=True)
    Image.new("RGB", (32, 32), (90, 120, 150)).save(folder / "000000.jpg")
    for number in range(1, n):
        os.link(folder / "000000.jpg", folder / f"{number:06d}.jpg")


def serve(folder: Path, run: Path, embeddings: Path | None) -> None:
    """In a process of its own, until it is stopped."""
    from laplacenet.review.opening import Source
    from laplacenet.review.serve import Place, open_review

    n = sum(1 for _ in folder.iterdir())
    vectors = clustered_vectors(n) if embeddings is None else np.load(embeddings)["embeddings"].astype(np.float32)

    def embedder(paths: list[Path]) -> Iterator[np.ndarray]:
        for path in paths:
            yield vectors[int(path.stem)]

    with open_review(Source(folder, run), embedder, Place(opens_browser=False)) as review:
        print(review.address, flush=True)
        review.serve()


@contextlib.contextmanager
def served(
    folder: Path, run: Path, *, is_synthetic: bool, embeddings: Path | None = None
) -> Iterator[tuple[str, float]]:
    """The address of the review, and when it was started."""
    started_at = time.perf_counter()
    environment = dict(os.environ, LAPLACENET_CACHE=str(run.parent / "cache"))
    if is_synthetic:
        command = [sys.executable, __file__, "--serve", str(folder), "--out", str(run)]
        command += ["--embeddings", str(embeddings)] if embeddings else []
    else:
        command = [sys.executable, "-m", "laplacenet", "review", str(folder), "--out", str(run), "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        try:
            assert process.stdout is not None
            found = (re.search(r"http://\S+/\?token=\S+", line) for line in process.stdout)
            yield next(filter(None, found))[0], started_at
        finally:
            process.kill()


class Visitor:
    """A page: one connection for requests, one for events."""

    def __init__(self, address: str) -> None:
        self.origin = address.split("/?", maxsplit=1)[0]
        self.client = httpx.Client(base_url=self.origin, headers={"origin": self.origin}, timeout=600)
        self.client.get(address, follow_redirects=True)
        self.seen: list[tuple[float, int, int]] = []
        self.is_closed = False
        self.thread = threading.Thread(target=self._listen, daemon=True)
        self.thread.start()

    def _listen(self) -> None:
        with (
            contextlib.suppress(httpx.TransportError),
            httpx.Client(base_url=self.origin, cookies=self.client.cookies, timeout=600) as client,
            client.stream("GET", "/api/events") as stream,
        ):
            for line in stream.iter_lines():
                if self.is_closed:
                    return
                if line.startswith("data: "):
                    content = json.loads(line[6:])
                    self.seen.append((time.perf_counter(), content["computed"], content["labeled"]))

    def wait_until_visible(self, n: int, *, limit_s: float = 600) -> float:
        """The moment at which the labels of entry `n` came."""
        until = time.perf_counter() + limit_s
        while time.perf_counter() < until:
            found = next((at for at, computed, _ in list(self.seen) if computed >= n), None)
            if found is not None:
                return found
            time.sleep(0.002)
        raise TimeoutError(f"entry {n} did not become visible")


def measure(address: str, truth: np.ndarray, *, n_answers: int, started_at: float) -> dict[str, object]:
    visitor, n_pictures = Visitor(address), len(truth)
    acknowledged, sent, first_question_s = [], [], 0.0
    for number in range(n_answers):
        while number == N_FIRST and visitor.seen[-1][2] < n_pictures:  # until all pictures are in the graph
            time.sleep(0.2)
        ready_at = time.perf_counter()
        question = visitor.client.post("/api/next", json={"by": "tab", "mode": "single", "holding": []}).json()
        picture = question["pictures"][0]["number"]
        first_question_s = first_question_s or time.perf_counter() - started_at
        answer = {"answer": "label", "name": f"class {truth[picture]}", "pictures": [picture]}
        sent_at = time.perf_counter()
        response = visitor.client.post("/api/answer", json={"by": "tab", "via": "queue", "seen": 0} | answer)
        done_at = time.perf_counter()
        assert response.status_code == 200, response.text
        if number > N_FIRST:
            acknowledged.append(done_at - sent_at)
            sent.append((sent_at, response.json()["n"]))
        time.sleep(max(0.0, PAUSE_S - (time.perf_counter() - ready_at)))
    visible = [visitor.wait_until_visible(n) - at for at, n in sent]
    visitor.is_closed = True
    return {
        "pictures": n_pictures,
        "answers": len(sent),
        "first_question_s": round(first_question_s, 1),
        "acknowledged_s": spread(acknowledged),
        "visible_s": spread(visible),
    }


def spread(values: list[float]) -> dict[str, float]:
    names = {"median": 50, "95": 95, "largest": 100}
    return {name: round(float(np.percentile(values, q)), 4) for name, q in names.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("results/review/latency.json"))
    parser.add_argument("--serve", type=Path, help="serve this folder; for the measuring process alone")
    parser.add_argument("--photos", type=Path, help="a folder of real photos to measure too")
    parser.add_argument("--embeddings", type=Path, help="embeddings to measure with, an .npz as `embed` writes")
    parser.add_argument("--truth", type=Path, help="a NumPy file with the class number of each photo")
    parser.add_argument("--sizes", type=int, nargs="*", default=[5000, 50000])
    parser.add_argument("--answers", type=int, default=160)
    asked = parser.parse_args()
    if asked.serve is not None:
        serve(asked.serve, asked.out, asked.embeddings)
        return
    records = []
    with tempfile.TemporaryDirectory() as place:
        cases = [(f"synthetic, {n}", n, None) for n in asked.sizes] + ([("photos", 0, None)] if asked.photos else [])
        cases += [("embeddings", len(np.load(asked.truth)), asked.embeddings)] if asked.embeddings else []
        for name, n, embeddings in cases:
            folder = asked.photos or Path()
            if n:
                folder = Path(place) / f"pictures-{n}"
                make_files(folder, n)
            n_pictures = sum(1 for _ in folder.iterdir())
            truth = classes_of(n_pictures) if n and embeddings is None else np.load(asked.truth)
            run = Path(place) / name.replace(", ", "-")
            with served(folder, run, is_synthetic=n > 0, embeddings=embeddings) as (address, started_at):
                found = measure(address, truth, n_answers=asked.answers, started_at=started_at)
            records.append({"case": name} | found)
            print(json.dumps(records[-1]), flush=True)
            if n:
                shutil.rmtree(folder)
    found = {"kind": "review latency", "limits_s": LIMITS_S, "pause_s": PAUSE_S, "cases": records}
    load = {"load": [round(one, 1) for one in os.getloadavg()]}  # over 1, 5 and 15 minutes, this program's own included
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    write_json(asked.out, provenance(torch.device("cpu")) | load | found)


if __name__ == "__main__":
    main()
