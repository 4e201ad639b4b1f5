"""A folder of many small JPEGs through `laplacenet embed`: its memory over time, killed with -9 and resumed.

    python tests/references_many_pictures.py --n 200000 --kills 3 --device cpu      # a small network, about 6 cores
    python tests/references_many_pictures.py --n 200000 --kills 3 --features lite0 --device cuda
    python tests/references_many_pictures.py --n 5000 --kills 1 --device cpu --out try.json      # to try it out

The command runs as it is in a process of its own, whose memory is read from outside every half second. The process
counts the pictures that it embeds in a file that outlives it: what all sessions embedded beyond the number of pictures
was done twice, and may be the vectors on their way to the cache when the process was killed, no others. `--features
small` is a network of two convolutions that gives as many numbers as lite0, so that decoding and bookkeeping count.
The folder is kept for the next time; the record goes to results/scale.
"""

import argparse
import json
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from references_processes import environment

from laplacenet.models.features import embedding
from laplacenet.models.features.network import CPU_BATCH, CUDA_BATCH, FeatureNetwork
from laplacenet.runtime import provenance, write_json

RESULTS = Path(__file__).parents[1] / "results" / "scale"
PER_FOLDER = 1000
SIDE = 32
SMALL = "small"
KINDS = ("VmRSS", "RssAnon", "RssFile")
SAMPLED_EVERY_S = 0.5


def write_pictures(folder: Path, n: int) -> None:
    """Each another one: a coarse random pattern, enlarged."""

    def write_some(number: int) -> None:
        rng = np.random.default_rng(number)
        some = folder / f"{number:04d}"
        some.mkdir(parents=True, exist_ok=True)
        for row in range(number * PER_FOLDER, min(n, (number + 1) * PER_FOLDER)):
            picture = Image.fromarray(rng.integers(0, 256, size=(4, 4, 3), dtype=np.uint8))
            picture.resize((SIDE, SIDE), Image.Resampling.BILINEAR).save(some / f"{row:07d}.jpg")

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(write_some, range(-(-n // PER_FOLDER))))


def small_network(name: str, *, device: torch.device, **_: object) -> FeatureNetwork:
    torch.manual_seed(0)
    trunk = torch.nn.Sequential(
        torch.nn.Conv2d(3, 32, 3, stride=2),
        torch.nn.ReLU(),
        torch.nn.Conv2d(32, 1280, 3, stride=4),
        torch.nn.AdaptiveAvgPool2d(1),
        torch.nn.Flatten(),
    ).to(device)
    if device.type == "cuda":
        trunk = trunk.bfloat16()
    numbers = (127.0,) * 3, (128.0,) * 3
    return FeatureNetwork(name, 1280, SIDE, "5" * 64, *numbers, trunk=trunk, device=device, module=trunk)


def count_into(path: Path) -> None:
    """Every picture that is embedded from here on is counted in the file."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
    lock, n, embed = threading.Lock(), [0], FeatureNetwork.embed

    def counted(self: FeatureNetwork, pictures: torch.Tensor) -> torch.Tensor:
        found = embed(self, pictures)
        with lock:
            n[0] += len(pictures)
            os.pwrite(descriptor, struct.pack("q", n[0]), 0)
        return found

    FeatureNetwork.embed = counted  # type: ignore[method-assign]


def child(asked: argparse.Namespace) -> None:
    """The command itself, with its embedded pictures counted."""
    from laplacenet.cli import app
    from laplacenet.models import features

    if asked.features == SMALL:
        features.load_features = small_network  # type: ignore[assignment]
    count_into(asked.counter)
    options = ["--out", str(asked.npz), "--device", asked.device, "--overwrite"]
    sys.argv = ["laplacenet", "embed", str(asked.folder), *options]
    if asked.features != SMALL:
        sys.argv += ["--features", asked.features]
    app.main()


def memory_of(pid: int) -> dict[str, float]:
    """In MiB; nothing where the process has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return {}
    found = (line.split() for line in lines)
    return {words[0][:-1]: int(words[1]) / 1024 for words in found if words and words[0][:-1] in KINDS}


def counted_in(path: Path) -> int:
    content = path.read_bytes() if path.exists() else b""
    return int(struct.unpack("q", content)[0]) if content else 0


def session(asked: argparse.Namespace, place: Path, *, kill_after: int | None) -> dict[str, Any]:
    """One start of the command up to its end, or until it has embedded so many pictures and is killed."""
    counter = place / "counter"
    counter.unlink(missing_ok=True)
    options = f"--child --folder {place / 'pictures'} --npz {place / 'x.npz'} --counter {counter}".split()
    command = [sys.executable, str(Path(__file__).resolve()), *options, *chosen(asked)]
    variables = environment() | {"LAPLACENET_CACHE": str(place / "cache"), "OMP_NUM_THREADS": str(asked.threads)}
    started_at, samples = time.monotonic(), []
    with (place / "log").open("ab") as log:
        process = subprocess.Popen(command, env=variables, stdout=log, stderr=log)
        while process.poll() is None:
            memory = memory_of(process.pid)
            if "VmRSS" in memory:
                samples.append([round(time.monotonic() - started_at, 1), counted_in(counter), *memory_row(memory)])
            if kill_after is not None and counted_in(counter) >= kill_after:
                process.send_signal(signal.SIGKILL)
                process.wait()
            time.sleep(SAMPLED_EVERY_S if kill_after is None else 0.02)
    is_killed = process.returncode == -signal.SIGKILL
    if process.returncode and not is_killed:
        raise SystemExit(f"embed ended with {process.returncode}: {(place / 'log').read_text()[-2000:]}")
    return {
        "seconds": round(time.monotonic() - started_at, 1),
        "embedded": counted_in(counter),
        "is_killed": is_killed,
        "memory": thinned(samples),
        "peak_mib": {kind: max((sample[2 + i] for sample in samples), default=0) for i, kind in enumerate(KINDS)},
    }


def memory_row(memory: dict[str, float]) -> list[int]:
    return [round(memory[kind]) for kind in KINDS]


def thinned(samples: list[list[float]], n: int = 60) -> list[list[float]]:
    step = max(1, len(samples) // n)
    return [*samples[::step], *samples[-1:]]


def chosen(asked: argparse.Namespace) -> list[str]:
    return ["--features", asked.features, "--device", asked.device]


def growth_mib(memory: list[list[float]]) -> int:
    """How much the private memory grew while the middle half of a session's pictures was embedded."""
    last = max(sample[1] for sample in memory)
    middle = [sample[3] for sample in memory if 0.25 * last <= sample[1] <= 0.75 * last]
    return round(middle[-1] - middle[0]) if middle else 0


def measure(asked: argparse.Namespace, place: Path) -> dict[str, Any]:
    draw = random.Random(asked.seed)
    kill_at = sorted(draw.randrange(asked.n // 20, asked.n - asked.n // 20) for _ in range(asked.kills))
    sessions, n_done = [], 0
    for position in kill_at:
        if position > n_done:
            sessions.append(session(asked, place, kill_after=position - n_done))
            n_done += sessions[-1]["embedded"]
    sessions.append(session(asked, place, kill_after=None))
    sessions.append(session(asked, place, kill_after=None))  # once more: nothing is left to do
    with np.load(place / "x.npz") as arrays:
        n_rows = len(arrays["embeddings"])
    n_embedded = sum(one["embedded"] for one in sessions)
    threads = os.cpu_count() or 1 if asked.device == "cuda" else asked.threads
    batch = CUDA_BATCH if asked.device == "cuda" else CPU_BATCH
    in_flight = embedding.PICTURES_PER_SAVE + batch * (4 * threads + 1)
    n_killed = sum(one["is_killed"] for one in sessions)
    return {
        "n": asked.n,
        "features": asked.features,
        "threads": asked.threads,
        "rows_written": n_rows,
        "embedded": n_embedded,
        "embedded_twice": n_embedded - asked.n,
        "most_in_flight_at_each_kill": in_flight,
        "kills": n_killed,
        "is_no_work_done_twice": n_embedded - asked.n <= n_killed * in_flight and sessions[-1]["embedded"] == 0,
        "growth_of_private_memory_mib": [growth_mib(one["memory"]) for one in sessions[:-1]],
        "columns": ["seconds", "embedded", *(f"{kind} MiB" for kind in KINDS)],
        "sessions": sessions,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=200_000)
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--features", default=SMALL)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=int(os.environ.get("OMP_NUM_THREADS", os.cpu_count() or 1)))
    parser.add_argument("--place", type=Path, default=Path("many-pictures"), help="a folder for pictures and cache")
    parser.add_argument("--out", type=Path)
    for name in ("--folder", "--npz", "--counter"):
        parser.add_argument(name, type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.child:
        child(asked)
    place = asked.place.resolve() / str(asked.n)
    if not (place / "complete").exists():
        write_pictures(place / "pictures", asked.n)
        (place / "complete").touch()
    shutil.rmtree(place / "cache", ignore_errors=True)
    found = measure(asked, place)
    out = asked.out or RESULTS / f"embed-{asked.n}-{asked.features.replace(':', '-')}-{asked.device}.json"
    write_json(out, provenance(torch.device(asked.device)) | found)
    print(json.dumps({name: value for name, value in found.items() if name != "sessions"}, indent=1))


if __name__ == "__main__":
    main()
