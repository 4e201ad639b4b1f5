"""The documentation as a program: what stands in its fences, and the things that its pages speak of."""

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from references_experiments import write_tiny_data
from sklearn.datasets import load_digits
from torch.nn.functional import normalize

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
METHOD_PAGES = sorted((ROOT / "docs/methods").glob("*.md"))
"""Made by laplacenet methods --pages."""
FENCE = re.compile(r"(?:<!-- tests add: (?P<added>.*?) -->\n+)?^```(?P<kind>\w*)\n(?P<body>.*?)^```$", re.M | re.S)
TEXT_ONLY = ("text", "csv", "json")
"""Fences that show what is read or written; nothing in them could be run."""
N_PICTURES = 200
N_GIVEN = 4  # of each digit


@dataclass(frozen=True)
class Snippet:
    """One fence: its language, its lines, and the options that the tests add to make a command short."""

    kind: str
    body: str
    added: str

    def commands(self) -> Iterator[str]:
        for line in self.body.splitlines():
            if line.startswith("$ "):
                yield f"{line[2:].split('  #')[0]} {self.added}".strip()


def snippets(page: Path) -> list[Snippet]:
    found = FENCE.finditer(page.read_text(encoding="utf-8"))
    return [Snippet(fence["kind"], fence["body"], fence["added"] or "") for fence in found]


def furnish(folder: Path) -> None:
    """The pictures, labels and arrays that the pages name; digits, because everyone has them."""
    images, digits = load_digits(return_X_y=True)
    images, digits = (images[:N_PICTURES] * 15).astype(np.uint8).reshape(-1, 8, 8), digits[:N_PICTURES]
    rows = {int(digit): np.flatnonzero(digits == digit) for digit in np.unique(digits)}
    given = sorted(int(row) for digit in rows for row in rows[digit][:N_GIVEN])
    write_pictures(folder / "photos", images, [f"{row:03}.png" for row in range(len(images))])
    write_pictures(folder / "new_photos", images[:5], [f"new {row}.png" for row in range(5)])
    names = [f"{digits[row]}/{row:03}.png" if row in given else f"unsorted/{row:03}.png" for row in range(len(images))]
    write_pictures(folder / "sorted", images, names)
    write_pictures(
        folder / "test_photos", images[100:], [f"digit {digits[row]}/{row}.png" for row in range(100, N_PICTURES)]
    )
    with (folder / "labels.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("file", "label"), *((f"{row:03}.png", f"digit {digits[row]}") for row in given)])
    y = np.where(np.isin(np.arange(len(digits)), given), digits, -1)
    X = normalize(torch.from_numpy(images.reshape(len(images), -1)).float()).numpy()
    np.savez(folder / "embeddings.npz", embeddings=X, labels=y)
    np.save(folder / "new_embeddings.npy", X[:5])
    write_tiny_data(folder / "cifar")
    write_added_method(folder)


def write_added_method(folder: Path) -> None:
    """The modules that docs/add-a-method.md writes; each method names its own."""
    for snippet in snippets(ROOT / "docs/add-a-method.md"):
        if snippet.kind == "python":
            (module,) = re.findall(r'name: str = "(\w+):', snippet.body)
            (folder / f"{module}.py").write_text(snippet.body, encoding="utf-8")


def write_pictures(folder: Path, images: np.ndarray, names: list[str]) -> None:
    for image, name in zip(images, names, strict=True):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).resize((32, 32)).save(path)
