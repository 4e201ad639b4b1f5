"""Labelings by several processes: run as a script, this is one of them; a test makes the same ones alone."""

import atexit
import os
import sys
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from references_labeling import clusters, drawn_evenly, some_given, striped

import laplacenet
from laplacenet.labeling import outcome
from laplacenet.models import patches

CLASSES = ("flat", "slanting", "steep")
KINDS = ("embeddings", "features", "scratch")
N_PICTURES = 36


def write_inputs(folder: Path) -> None:
    """Embeddings, and pictures of which a third lie in a folder of their class."""
    X, truth = clusters(300, 4, noise=1.2)
    given = some_given(truth, drawn_evenly(truth, 8, seed=0))
    np.savez(folder / "embeddings.npz", embeddings=X.numpy(), labels=given.numpy())
    pixels, kinds = striped(N_PICTURES, 3)
    for row in range(N_PICTURES):
        name = CLASSES[kinds[row]] if row < 2 * N_PICTURES // 3 else ""
        (folder / "pictures" / name).mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels[row]).save(folder / "pictures" / name / f"{row:03d}.png")


def labeled(kind: str, folder: Path, out: Path) -> laplacenet.LabelingRun:
    if kind == "embeddings":
        return laplacenet.label(folder / "embeddings.npz", out=out)
    if kind == "features":
        return laplacenet.label(folder / "pictures", features="lite0", out=out)
    settings = ["graph.k=8"]
    return laplacenet.label(folder / "pictures", steps=12, batch_size=12, suspects=False, settings=settings, out=out)


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    patches.N_PATCHES, outcome.N_ITERATIONS = 2_000, 250  # type: ignore[attr-defined]
    atexit.register(write_threads, folder / f"threads-{os.environ['RANK']}")  # called last, once all else has ended
    for kind in KINDS:
        labeled(kind, folder, folder / f"{kind}-together")


def write_threads(path: Path) -> None:
    """The names of the threads that this process still has, where the system tells."""
    path.write_text("\n".join(sorted(name.read_text().strip() for name in Path("/proc/self/task").glob("*/comm"))))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
