"""Photos a second through lite0 beside an independent implementation in torch's eager mode.

    python tests/references_photo_speed.py --threads 2      # on an idle machine; about three minutes

Both get the same decoded pictures at the same number of pixels, in fp32, with as many threads. The independent
implementation (the package `efficientnet_lite_pytorch`) is taken at its best batch size. They are measured by turns, so
that a machine that slows down slows down both; the record in results/features holds every round and the medians.
"""

import argparse
import itertools
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch
from torch import Tensor

from laplacenet.models.features import FeatureNetwork, load_features
from laplacenet.models.features.lite_weights import read_tensors, require_wheel
from laplacenet.runtime import provenance, write_json

OUT = Path(__file__).parents[1] / "results" / "features" / "photo-speed.json"
EAGER_BATCHES = (1, 4, 8, 16, 32, 64)
GOAL = 1.8

Work = Callable[[Tensor], None]


def ours(network: FeatureNetwork, n_threads: int) -> Work:
    """As `embed_pictures` does it: each thread takes a few pictures at a time."""

    def work(pictures: Tensor) -> None:
        with ThreadPoolExecutor(n_threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            for _ in pool.map(network.embed, pictures.split(network.batch_size)):
                pass

    return work


def eager(name: str, n_threads: int, batch_size: int) -> Work:
    import efficientnet_lite_pytorch

    reference = efficientnet_lite_pytorch.EfficientNet.from_name(f"efficientnet-{name}")
    reference.load_state_dict(read_tensors(require_wheel(name)))
    reference.eval()

    @torch.no_grad()
    def work(pictures: Tensor) -> None:
        torch.set_num_threads(n_threads)
        for some in pictures.split(batch_size):
            reference.extract_features((some.float() - 127) / 128).mean((2, 3))

    return work


def photos_per_s(work: Work, pictures: Tensor) -> float:
    started_at = time.perf_counter()
    work(pictures)
    return len(pictures) / (time.perf_counter() - started_at)


def measure(name: str, *, n_threads: int, n_rounds: int, n_pictures: int) -> dict[str, object]:
    network = load_features(name)
    generator = torch.Generator().manual_seed(0)
    size = (n_pictures, 3, network.pixels, network.pixels)
    pictures = torch.randint(0, 256, size, dtype=torch.uint8, generator=generator)
    works = {"laplacenet": ours(network, n_threads)}
    works |= {f"eager, batches of {size}": eager(name, n_threads, size) for size in EAGER_BATCHES}
    for work in works.values():
        work(pictures[:8])  # warm-up
    rounds: dict[str, list[float]] = {what: [] for what in works}
    for _, (what, work) in itertools.product(range(n_rounds), works.items()):
        rounds[what].append(photos_per_s(work, pictures))
    torch.set_num_threads(n_threads)
    medians = {what: statistics.median(rates) for what, rates in rounds.items()}
    best = max(rate for what, rate in medians.items() if what != "laplacenet")
    return {
        "kind": "embedding speed",
        "what": f"{name} at {network.pixels} px, photos a second once decoded, fp32, {n_threads} threads",
        "command": f"python tests/references_photo_speed.py --threads {n_threads}",
        "provenance": provenance(torch.device("cpu")),
        "photos_per_s": medians,
        "rounds": rounds,
        "ratio": medians["laplacenet"] / best,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--features", default="lite0")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--pictures", type=int, default=128)
    parser.add_argument("--out", type=Path, default=OUT)
    asked = parser.parse_args()
    record = measure(asked.features, n_threads=asked.threads, n_rounds=asked.rounds, n_pictures=asked.pictures)
    write_json(asked.out, record)
    print(record["photos_per_s"])
    print(f"{record['ratio']:.2f} times the best of eager mode; the goal is {GOAL}")


if __name__ == "__main__":
    main()
