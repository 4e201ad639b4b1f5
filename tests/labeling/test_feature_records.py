"""Accuracy on pretrained features beside logistic regression, recorded in results/features.

    LAPLACENET_DATA=data pytest -m long tests/labeling/test_feature_records.py

CIFAR-10 (2 000 JPEGs of mixed sizes), CIFAR-100 (5 000) and the digits as PNGs, balanced and long-tailed (10 : 1), with
1, 2, 5 and 10 labels a class, six seeds. The pictures are the CIFAR test sets: no default was chosen on them. On the
long tail labels are drawn at random (one of each class at least) and, for comparison, equally from each class.
"""

import json
import os
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

from laplacenet.data.load import load_dataset
from laplacenet.labeling.estimate import suspect_labels
from laplacenet.labeling.features import SUSPECT_RATIO, label_features
from laplacenet.labeling.settings import LabelingSettings
from laplacenet.models.features import FeatureNetwork, load_features
from laplacenet.models.features.cache import cache_folder
from laplacenet.models.features.embedding import embed_pictures
from laplacenet.runtime import provenance

SEEDS = tuple(range(int(os.environ.get("LAPLACENET_RECORD_SEEDS", "6"))))
LABELS_A_CLASS = (1, 2, 5, 10)
DRAWS = (("balanced", "equal"), ("long tail", "random"), ("long tail", "equal"))
COMMAND = "LAPLACENET_DATA=data pytest -m long tests/labeling/test_feature_records.py"
RESULTS = Path(__file__).parents[2] / "results" / "features"
SETS = os.environ.get("LAPLACENET_RECORD_SETS", "cifar10:lite2,cifar10:lite0,digits:lite0,cifar100:lite0").split(",")


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
    for row, picture in enumerate(pictures):
        image, path = Image.fromarray(picture), folder / f"{row:05d}.{'png' if name == 'digits' else 'jpg'}"
        if name != "digits":
            image = image.resize((int(rng.integers(32, 161)),) * 2, Image.Resampling.BICUBIC)
        if not path.exists():
            image.save(path, **({} if name == "digits" else {"quality": 92}))
        paths.append(path)
    return paths


def embed_set(name: str, features: FeatureNetwork, folder: Path) -> tuple[torch.Tensor, np.ndarray]:
    """With LAPLACENET_RECORD_PICTURES=FOLDER the pictures stay there and are embedded once for all runs."""
    arrays, classes = pictures_of(name)
    kept = os.environ.get("LAPLACENET_RECORD_PICTURES")
    folder = folder if kept is None else Path(kept) / name
    folder.mkdir(parents=True, exist_ok=True)
    paths = write_pictures(name, arrays, folder)
    return embed_pictures(paths, features, cache=None if kept is None else cache_folder()).vectors, classes


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


def one_run(vectors: torch.Tensor, classes: np.ndarray, given: np.ndarray) -> dict[str, object]:
    names = tuple(str(c) for c in range(classes.max() + 1))
    labels = torch.from_numpy(given)
    found = label_features(vectors, labels, LabelingSettings(), class_names=names, device=torch.device("cpu"))
    is_hidden = given < 0
    X, truth = found.land.X.numpy(), classes[is_hidden]
    reference = LogisticRegression(max_iter=1000).fit(X[~is_hidden], given[~is_hidden]).predict(X[is_hidden])
    chosen = found.guided.classifier.probabilities(vectors).argmax(dim=1).numpy()[is_hidden]
    ours = accuracies(found.guided.labels.numpy()[is_hidden], truth)
    accuracy = found.estimate.accuracy
    interval = None if accuracy is None else [accuracy.low, accuracy.value, accuracy.high]
    return {
        "laplacenet": ours,
        "logistic regression": accuracies(reference, truth),
        "logistic regression, C chosen": accuracies(chosen, truth),
        "interval": interval,
        "is_covered": None if interval is None else interval[0] <= ours["accuracy"] <= interval[2],
        "n_given": int((~is_hidden).sum()),
        "n_false_alarms": int(suspect_labels(found.guided.unseen, labels, least_ratio=SUSPECT_RATIO).sum()),
    }


def grid(vectors: torch.Tensor, classes: np.ndarray) -> list[dict[str, object]]:
    runs = []
    for shape, how in DRAWS:
        for seed in SEEDS:
            rng = np.random.default_rng(seed)
            rows = np.arange(len(classes)) if shape == "balanced" else long_tail(classes, rng)
            for n_each in LABELS_A_CLASS:
                given = draw_labels(classes[rows], n_each, how, np.random.default_rng(100 + seed))
                setting = {"classes": shape, "draw": how, "labels_a_class": n_each, "seed": seed}
                runs.append(setting | one_run(vectors[rows], classes[rows], given))
    return runs


def means(runs: list[dict]) -> list[dict[str, object]]:
    """The mean over seeds of each setting."""
    found = []
    for shape, how in DRAWS:
        for n_each in LABELS_A_CLASS:
            some = [r for r in runs if (r["classes"], r["draw"], r["labels_a_class"]) == (shape, how, n_each)]
            mean = {
                f"{method}: {kind}": round(100 * float(np.mean([r[method][kind] for r in some])), 2)
                for method in ("laplacenet", "logistic regression", "logistic regression, C chosen")
                for kind in ("accuracy", "class_mean")
            }
            found.append({"classes": shape, "draw": how, "labels_a_class": n_each} | mean)
    return found


@pytest.mark.long
@pytest.mark.parametrize("record_set", SETS)
def test_features_beat_logistic_regression(record_set: str, tmp_path: Path) -> None:
    name, features = record_set.split(":")
    network = load_features(features)
    vectors, classes = embed_set(name, network, tmp_path)
    runs = grid(vectors, classes)
    table = means(runs)
    covered = [run["is_covered"] for run in runs if run["is_covered"] is not None]
    n_given = sum(run["n_given"] for run in runs if run["interval"] is not None)
    alarms = sum(run["n_false_alarms"] for run in runs)
    record = {
        "command": COMMAND,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "provenance": provenance(torch.device("cpu")),
        "pictures": {"name": name, "n": len(classes), "features": network.name, "fingerprint": network.fingerprint},
        "coverage": float(np.mean(covered)),
        "false_alarms": alarms / n_given,
        "means": table,
        "runs": runs,
    }
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / f"{name}-{features}.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    assert record["coverage"] >= 0.9
    assert record["false_alarms"] <= 0.01
    for row in table:
        assert row["laplacenet: accuracy"] >= row["logistic regression: accuracy"] - 1, row
