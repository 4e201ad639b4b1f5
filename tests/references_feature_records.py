"""Accuracy on pretrained features beside logistic regression: the command that makes results/features/*.json.

    python tests/references_feature_records.py embed VECTORS       # once: the pictures of every set as vectors
    python tests/references_feature_records.py run VECTORS SHARDS --shard 0/14     # … to 13/14, in any order, at once
    python tests/references_feature_records.py merge VECTORS SHARDS                # writes the records
    python tests/references_feature_records.py table       # the records' means, in Markdown

CIFAR-10 (2 000 JPEGs of mixed sizes), CIFAR-100 (5 000) and the digits as PNGs, balanced and long-tailed (10 : 1), with
1, 2, 5 and 10 labels a class. The pictures are the CIFAR test sets: no default was chosen on them. On the long tail
labels are drawn at random (one of each class at least) and, for comparison, equally from each class.

A shard writes a file for each set, draw and seed, and passes over those that are there: one that was cut off goes on.
"""

import argparse
import json
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.semi_supervised import LabelSpreading

from laplacenet.data.load import load_dataset
from laplacenet.graph.guided import GuidedConfig
from laplacenet.graph.logistic import span_basis
from laplacenet.graph.pseudo_labels import unit_rows
from laplacenet.labeling.estimate import suspect_labels
from laplacenet.labeling.features import label_features, suspect_ratio
from laplacenet.labeling.settings import LabelingSettings
from laplacenet.models.features import load_features
from laplacenet.models.features.embedding import embed_pictures
from laplacenet.runtime import provenance, write_json

RESULTS = Path(__file__).parents[1] / "results" / "features"
COMMAND = "python tests/references_feature_records.py"
SETS = ("cifar100:lite0", "cifar10:lite2", "cifar10:lite0", "digits:lite0")
N_SEEDS = 6
LABELS_A_CLASS = (1, 2, 5, 10)
DRAWS = (("balanced", "equal"), ("long tail", "random"), ("long tail", "equal"))
CS = (1.0, 10.0, 100.0)
REFERENCE, CHOSEN, SPREADING = "logistic regression", "logistic regression, C chosen", "label spreading"
OTHERS = tuple(f"{REFERENCE}, C = {C:g}" for C in CS[1:])
RAW = f"{REFERENCE}, raw vectors"  # neither centered nor scaled
REGRESSIONS = (REFERENCE, *OTHERS, RAW, CHOSEN)
METHODS = ("laplacenet", *REGRESSIONS, SPREADING)


def pictures_of(name: str) -> tuple[list[np.ndarray], np.ndarray]:
    """Pictures as arrays, and their classes: the first 200 of each class of CIFAR-10, 50 of CIFAR-100, all digits."""
    if name == "digits":
        digits = load_digits()
        return list((digits.images * 255 / 16).round().astype(np.uint8)), digits.target
    test = load_dataset(name).test
    assert test is not None
    classes, n_each = test.labels.numpy(), 200 if name == "cifar10" else 50
    rows = np.sort(np.concatenate([np.flatnonzero(classes == c)[:n_each] for c in range(classes.max() + 1)]))
    return [test.images[row].permute(1, 2, 0).numpy() for row in rows], classes[rows]


def write_pictures(name: str, pictures: list[np.ndarray], folder: Path) -> list[Path]:
    """CIFAR as JPEGs of 32 to 160 pixels, digits as PNGs of their 8 pixels."""
    rng, paths = np.random.default_rng(0), []
    folder.mkdir(parents=True, exist_ok=True)
    for row, picture in enumerate(pictures):
        image, path = Image.fromarray(picture), folder / f"{row:05d}.{'png' if name == 'digits' else 'jpg'}"
        if name != "digits":
            image = image.resize((int(rng.integers(32, 161)),) * 2, Image.Resampling.BICUBIC)
        if not path.exists():
            image.save(path, **({} if name == "digits" else {"quality": 92}))
        paths.append(path)
    return paths


def vectors_file(record_set: str, folder: Path) -> Path:
    return folder / f"{record_set.replace(':', '-')}.npz"


def embed_set(record_set: str, folder: Path) -> None:
    """Write the set's pictures and their vectors; vectors that are there stay."""
    name, features = record_set.split(":")
    out = vectors_file(record_set, folder)
    if out.exists():
        return
    pictures, classes = pictures_of(name)
    paths = write_pictures(name, pictures, folder / "pictures" / name)
    network = load_features(features)
    found = embed_pictures(paths, network)
    assert len(found.kept) == len(paths), "a picture could not be read"
    np.savez(
        out,
        embeddings=found.vectors.numpy(),
        paths=np.array([path.name for path in paths]),
        classes=classes,
        features=network.name,
        fingerprint=network.fingerprint,
    )


def long_tail(classes: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Rows of a subset whose largest class is ten times its smallest."""
    order = rng.permutation(classes.max() + 1)
    n_largest = np.bincount(classes).min()
    sizes = {c: round(n_largest * 10 ** (-rank / (len(order) - 1))) for rank, c in enumerate(order)}
    return np.sort(
        np.concatenate([rng.choice(np.flatnonzero(classes == c), n, replace=False) for c, n in sizes.items()])
    )


def draw_labels(classes: np.ndarray, n_each: int, how: str, rng: np.random.Generator) -> np.ndarray:
    given = np.full(len(classes), -1)
    members = [np.flatnonzero(classes == c) for c in range(classes.max() + 1)]
    if how == "equal":
        rows = np.concatenate([rng.choice(m, min(n_each, len(m) - 1), replace=False) for m in members])
    else:
        first = np.array([rng.choice(m) for m in members])
        others = np.setdiff1d(np.arange(len(classes)), first)
        rows = np.concatenate([first, rng.choice(others, (n_each - 1) * len(members), replace=False)])
    given[rows] = classes[rows]
    return given


def accuracies(found: np.ndarray, truth: np.ndarray) -> dict[str, float]:
    of_classes = [float((found[truth == c] == c).mean()) for c in np.unique(truth)]
    return {"accuracy": float((found == truth).mean()), "class_mean": float(np.mean(of_classes))}


def reference_labels(X: np.ndarray, given: np.ndarray) -> dict[str, np.ndarray]:
    """What scikit-learn's methods make of the same rows, centered and of length 1: a label for every row."""
    found = {name: regression_labels(X, given, C=C) for name, C in zip((REFERENCE, *OTHERS), CS, strict=True)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of rows without a labeled neighbor
        found[SPREADING] = LabelSpreading(kernel="knn", n_neighbors=10).fit(X, given).transduction_
    return found


def regression_labels(X: np.ndarray, given: np.ndarray, *, C: float) -> np.ndarray:
    is_given = given >= 0
    rows = X @ span_basis(X[is_given].astype(float))  # the solution lies in the span of the given rows
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of too few iterations
        model = LogisticRegression(C=C, max_iter=1000).fit(rows[is_given], given[is_given])
    labels: np.ndarray = model.predict(rows)
    return labels


def one_run(vectors: torch.Tensor, classes: np.ndarray, given: np.ndarray) -> dict[str, Any]:
    names = tuple(str(c) for c in range(classes.max() + 1))
    labels = torch.from_numpy(given)
    settings = LabelingSettings(graph=GuidedConfig().graph)
    found = label_features(vectors, labels, settings, class_names=names, device=torch.device("cpu"))
    is_hidden = given < 0
    answers = {
        "laplacenet": found.guided.labels.numpy(),
        CHOSEN: found.guided.classifier.probabilities(vectors).argmax(dim=1).numpy(),
        **reference_labels(unit_rows(vectors - vectors.mean(dim=0)).numpy(), given),
        RAW: regression_labels(vectors.numpy(), given, C=1.0),
    }
    judged = {name: accuracies(answers[name][is_hidden], classes[is_hidden]) for name in METHODS}
    accuracy = found.estimate.accuracy
    interval = None if accuracy is None else [accuracy.low, accuracy.value, accuracy.high]
    return judged | {
        "interval": interval,
        "is_covered": None if interval is None else interval[0] <= judged["laplacenet"]["accuracy"] <= interval[2],
        "n_given": int((~is_hidden).sum()),
        "n_false_alarms": int(suspect_labels(found.guided.unseen, labels, least_ratio=suspect_ratio(len(names))).sum()),
    }


@dataclass(frozen=True)
class Unit:
    """What is written at once: a set's runs of one draw and one seed, one for each number of labels."""

    record_set: str
    shape: str
    how: str
    seed: int

    def path(self, folder: Path) -> Path:
        words = (self.record_set.replace(":", "-"), self.shape.replace(" ", "-"), self.how, f"{self.seed:03d}")
        return folder / f"{'-'.join(words)}.json"

    def runs(self, vectors: torch.Tensor, classes: np.ndarray) -> list[dict[str, Any]]:
        tail = long_tail(classes, np.random.default_rng(self.seed))
        rows = np.arange(len(classes)) if self.shape == "balanced" else tail
        runs = []
        for n_each in LABELS_A_CLASS:
            given = draw_labels(classes[rows], n_each, self.how, np.random.default_rng(100 + self.seed))
            setting = {"classes": self.shape, "draw": self.how, "labels_a_class": n_each, "seed": self.seed}
            runs.append(setting | one_run(vectors[rows], classes[rows], given))
        return runs


def units_of(sets: Sequence[str], n_seeds: int) -> list[Unit]:
    """Those of the slowest set first, so that they are dealt evenly to the shards."""
    return [Unit(name, *draw, seed) for name in sets for draw in DRAWS for seed in range(n_seeds)]


def run_shard(units: Sequence[Unit], vectors_folder: Path, out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    for unit in units:
        path = unit.path(out)
        if path.exists():
            continue
        with np.load(vectors_file(unit.record_set, vectors_folder)) as arrays:
            vectors, classes = torch.from_numpy(arrays["embeddings"]), arrays["classes"]
        runs = unit.runs(vectors, classes)
        write_json(path, {"runs": runs, "provenance": provenance(torch.device("cpu"))})
        print(path.name, flush=True)


def means(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The mean over seeds of each setting, in percent."""
    found = []
    for shape, how in DRAWS:
        for n_each in LABELS_A_CLASS:
            some = [r for r in runs if (r["classes"], r["draw"], r["labels_a_class"]) == (shape, how, n_each)]
            mean = {
                f"{method}: {kind}": round(100 * float(np.mean([r[method][kind] for r in some])), 2)
                for method in METHODS
                if all(method in run for run in some)
                for kind in ("accuracy", "class_mean")
            }
            found.append({"classes": shape, "draw": how, "labels_a_class": n_each, "n_seeds": len(some)} | mean)
    return found


def merged(record_set: str, shards: Path, vectors_folder: Path) -> dict[str, Any]:
    """One record from all files of a set; a setting that has no run is an error."""
    found = [json.loads(path.read_text()) for path in sorted(shards.glob(f"{record_set.replace(':', '-')}-*.json"))]
    runs = [run for shard in found for run in shard["runs"]]
    judged = [run for run in runs if run["interval"] is not None]
    with np.load(vectors_file(record_set, vectors_folder)) as arrays:
        pictures = {
            "name": record_set.split(":", maxsplit=1)[0],
            "n": len(arrays["classes"]),
            "features": str(arrays["features"]),
            "fingerprint": str(arrays["fingerprint"]),
        }
    return {
        "command": COMMAND,
        "provenance": found[0]["provenance"],
        "pictures": pictures,
        "coverage": float(np.mean([run["is_covered"] for run in judged])),
        "width": float(np.mean([run["interval"][2] - run["interval"][0] for run in judged])),
        "false_alarms": sum(run["n_false_alarms"] for run in runs) / sum(run["n_given"] for run in judged),
        "means": means(runs),
        "runs": runs,
    }


def best_reference(row: dict[str, Any], kind: str) -> float:
    """The best of scikit-learn's regressions and the one whose C we choose, by the hidden labels: in their favor."""
    return max(row[f"{name}: {kind}"] for name in REGRESSIONS if f"{name}: {kind}" in row)


def mean_gain(rows: list[dict[str, Any]], kind: str) -> float:
    """Over scikit-learn's logistic regression as it comes (C = 1)."""
    return float(np.mean([row[f"laplacenet: {kind}"] - row[f"{REFERENCE}: {kind}"] for row in rows]))


def goals(record: dict[str, Any]) -> dict[str, tuple[float, float]]:
    """What was to be reached, and what was, as (reached, least)."""
    table, pictures = record["means"], record["pictures"]
    few = [row for row in table if row["labels_a_class"] <= 5]
    tails = [row for row in table if row["classes"] == "long tail"]
    found = {
        "smallest gain over C = 1": (min(mean_gain([row], "accuracy") for row in table), -1.0),
        "smallest gain over the best C": (
            min(row["laplacenet: accuracy"] - best_reference(row, "accuracy") for row in table),
            -1.0,
        ),
        "mean gain at up to 5 labels a class": (mean_gain(few, "accuracy"), 4.0),
        "gain in class mean on the long tail": (mean_gain(tails, "class_mean"), 8.0),
        "coverage of the interval": (record["coverage"], 0.9),
        "correct labels not suspected": (1 - record["false_alarms"], 0.99),
    }
    if (pictures["name"], pictures["features"]) == ("cifar10", "lite2"):
        (row,) = [row for row in table if row["classes"] == "balanced" and row["labels_a_class"] == 10]
        found["accuracy with 10 labels a class"] = (row["laplacenet: accuracy"], 80.0)
    return found


def table_lines(record: dict[str, Any]) -> list[str]:
    """The means of a record as a table in Markdown; on the long tail with class means."""
    lines = [
        "| pictures, labels | labels a class | LaplaceNet | logistic regression | … best C | label spreading |",
        "|---|---|---|---|---|---|",
    ]
    for row in record["means"]:
        draw = {"random": "drawn at random", "equal": "as many of each class"}[row["draw"]]
        what = f"{row['classes']}, {draw}" if row["classes"] == "long tail" else row["classes"]
        kinds = ("accuracy", "class_mean") if row["classes"] == "long tail" else ("accuracy",)
        ours, plain, spreading = (
            " / ".join(f"{row[f'{method}: {kind}']:.1f}" for kind in kinds)
            for method in ("laplacenet", REFERENCE, SPREADING)
        )
        best = " / ".join(f"{best_reference(row, kind):.1f}" for kind in kinds)
        lines.append(f"| {what} | {row['labels_a_class']} | {ours} | {plain} | {best} | {spreading} |")
    return lines


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=("embed", "run", "merge", "table"))
    parser.add_argument("vectors", type=Path, nargs="?")
    parser.add_argument("shards", type=Path, nargs="?")
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--seeds", type=int, default=N_SEEDS)
    parser.add_argument("--shard", default="0/1")
    parser.add_argument("--results", type=Path, default=RESULTS)
    asked = parser.parse_args(words)
    sets = asked.sets.split(",")
    if asked.step == "table":
        for record_set in sets:
            record = json.loads((asked.results / f"{record_set.replace(':', '-')}.json").read_text(encoding="utf-8"))
            print(record_set, *table_lines(record), sep="\n")
        return
    if asked.vectors is None:
        parser.error("name the folder of the vectors")
    if asked.step == "embed":
        for record_set in sets:
            embed_set(record_set, asked.vectors)
        return
    if asked.shards is None:
        parser.error("name the folder of the shards' files")
    if asked.step == "run":
        number, n_shards = map(int, asked.shard.split("/"))
        run_shard(units_of(sets, asked.seeds)[number::n_shards], asked.vectors, asked.shards)
        return
    asked.results.mkdir(parents=True, exist_ok=True)
    for record_set in sets:
        record = merged(record_set, asked.shards, asked.vectors)
        write_json(asked.results / f"{record_set.replace(':', '-')}.json", record)
        print(record_set)
        for goal, (reached, least) in goals(record).items():
            print(f"  {goal}: {reached:.3f}{'' if reached >= least else f'  (goal: {least})'}")


if __name__ == "__main__":
    main()
