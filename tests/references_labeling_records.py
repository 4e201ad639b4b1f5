"""What `laplacenet label` reaches on this machine: accuracy of the labels, the estimate beside it, and the time.

Each measurement runs the command as a user does, in a process of its own, and judges labels that it never saw.
"""

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Int64, UInt8
from PIL import Image
from scipy.ndimage import shift, zoom
from sklearn.datasets import load_digits
from torch import Tensor

from laplacenet.data import read_collection
from laplacenet.graph import GraphConfig, pseudo_label
from laplacenet.labeling.result import load_labeling
from laplacenet.runtime import provenance, stream, write_json

N_EACH = 10
SMALLEST_SIDE, LARGEST_SIDE = 40, 200


def grey_embeddings(n: int, *, seed: int) -> tuple[UInt8[np.ndarray, "n 784"], Int64[np.ndarray, " n"]]:
    """Handwritten digits brought to 28×28 pixels, moved and noisy, as rows of 784 numbers; and what they are."""
    rng, (images, digits) = stream(seed, "labeling/measured-embeddings"), load_digits(return_X_y=True)
    rows = rng.integers(len(digits), size=n)
    pictures = np.empty((n, 28, 28), dtype=np.float32)
    for i, row in enumerate(rows):
        larger = zoom(images[row].reshape(8, 8) * 16, 2.5, order=1)
        pictures[i] = shift(np.pad(larger, 4), rng.uniform(-2.5, 2.5, size=2), order=1)
    noisy = pictures + 25 * rng.normal(size=pictures.shape)
    return noisy.clip(0, 255).astype(np.uint8).reshape(n, -1), digits[rows]


def write_jpegs(
    folder: Path,
    images: UInt8[Tensor, "n 3 h w"],
    labels: Int64[Tensor, " n"],
    class_names: Sequence[str],
    *,
    seed: int,
) -> tuple[Path, Path]:
    """JPEGs of mixed sizes and shapes, ten labels of each class in one list and all of them in another."""
    folder.mkdir(parents=True)
    rng, shown, truth = stream(seed, "labeling/measured-jpegs"), ["file,label"], ["file,label"]
    n_shown = dict.fromkeys(class_names, 0)
    for i, (image, label) in enumerate(zip(images, labels.tolist(), strict=True)):
        height = int(rng.integers(SMALLEST_SIDE, LARGEST_SIDE + 1))
        width = int(np.clip(height * rng.uniform(0.75, 1.33), SMALLEST_SIDE, LARGEST_SIDE))
        name, class_name = f"{i:05d}.jpg", class_names[label]
        picture = Image.fromarray(image.permute(1, 2, 0).contiguous().numpy())
        picture.resize((width, height), Image.Resampling.BICUBIC).save(folder / name, quality=88)
        truth.append(f"{name},{class_name}")
        if n_shown[class_name] < N_EACH:
            n_shown[class_name] += 1
            shown.append(truth[-1])
    lists = folder.with_name(folder.name + "-labels.csv"), folder.with_name(folder.name + "-truth.csv")
    for path, lines in zip(lists, (shown, truth), strict=True):
        path.write_text("\n".join(lines) + "\n")
    return lists


def measured(run: Path, arguments: Sequence[str]) -> dict[str, Any]:
    """Run `laplacenet label` with a test list, and say what came of it."""
    command = [sys.executable, "-m", "laplacenet", "label", *arguments, "--out", str(run)]
    started_at, cpu_before = time.perf_counter(), _cpu_seconds_of_children()
    subprocess.run(command, check=True, capture_output=True)
    seconds, cpu_seconds = time.perf_counter() - started_at, _cpu_seconds_of_children() - cpu_before
    summary = load_labeling(run).summary
    calibration = summary.calibration
    return {
        "seconds": seconds,
        "cpu_seconds": cpu_seconds,
        "choices": summary.choices,
        "notes": summary.notes,
        "accuracy": asdict(summary.estimate)["test_accuracy"],
        "n_judged": summary.estimate.n_test,
        "estimate": asdict(summary.estimate)["accuracy"],
        "n_estimate": summary.estimate.n,
        "calibration_error": None if calibration is None else calibration.error,
    }


def _cpu_seconds_of_children() -> float:
    used = os.times()
    return used.children_user + used.children_system


def raw_pixel_accuracy(pictures: Path, labels: Path, truth: Path, *, k: int = 25) -> float:
    """The graph on the pixels themselves: what a network must be better than."""
    given, all_of = (read_collection(pictures, labels=path, size=32) for path in (labels, truth))
    pixels = given.rows.images.flatten(1).float()  # type: ignore[union-attr] # a folder holds pictures
    found = pseudo_label(pixels, given.labels, GraphConfig(k=k), n_classes=len(given.class_names)).labels
    is_found = given.labels < 0
    return float((found == all_of.labels)[is_found].double().mean())


def write_record(path: Path, what: str, **content: Any) -> None:
    """With the machine and the versions it was measured on."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, {"kind": "labeling", "what": what, "provenance": provenance(torch.device("cpu")), **content})
