"""A labeling as it might have come out, made up in a moment: clusters, a few given labels, some of them wrong."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from laplacenet.labeling.result import (
    Calibration,
    CalibrationBin,
    ClassEstimate,
    Estimate,
    Interval,
    Labeling,
    Summary,
)

HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "]]></style></title></textarea></pre>&amp;",
    "two\nlines\tand a tab",
    "\u202eright to left\u202c שלום",
    "🦊 fox & 'quotes' \"doubled\"",
    "{{ 7 * 7 }}{% raw %}",
    "a-very-long-name-without-any-place-to-break-it-" * 5,
    "control \x00\x07\x1b[31m signs",
)


def made_up_labeling(
    n: int = 300, n_classes: int = 4, *, kind: str = "pictures", n_given: int = 60, seed: int = 0
) -> Labeling:
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, n_classes, n)
    truth[:n_classes] = np.arange(n_classes)
    centers = rng.normal(size=(n_classes, 16))
    features = torch.nn.functional.normalize(
        torch.from_numpy(centers[truth] + 0.9 * rng.normal(size=(n, 16))).float(), dim=1
    )
    near = features @ torch.nn.functional.normalize(torch.from_numpy(centers).float(), dim=1).T
    scores = (8 * near).softmax(1)
    given = torch.full((n,), -1)
    rows = rng.permutation(n)[:n_given]
    given[rows] = torch.from_numpy(truth[rows])
    wrong = rows[: max(1, n_given // 15)]
    given[wrong] = (given[wrong] + 1) % n_classes
    is_given = given >= 0
    unseen = torch.where(is_given[:, None], scores, torch.nan)
    is_suspect = torch.zeros(n, dtype=torch.bool)
    is_suspect[wrong] = unseen[wrong].argmax(1) != given[wrong]
    names = tuple(f"photos/{truth[i]}/picture {i:05d}.jpg" if kind == "pictures" else f"row {i}" for i in range(n))
    return Labeling(
        account_of(n_classes, kind=kind, n_given=n_given),
        names,
        given=given,
        labels=torch.where(is_given, given, scores.argmax(1)),
        scores=scores,
        sources=torch.where(is_given, 0, 1).to(torch.uint8),
        unseen_scores=unseen,
        is_suspect=is_suspect,
        features=features,
        positions=torch.from_numpy(centers[truth, :2] + 0.35 * rng.normal(size=(n, 2))).float(),
    )


def account_of(n_classes: int, *, kind: str, n_given: int) -> Summary:
    names = tuple(f"class {i}" for i in range(n_classes))
    n_each = max(1, n_given // n_classes)
    classes = tuple(
        ClassEstimate(name, n_each if i else 0, Interval(0.9 - 0.3 * i / n_classes, 0.55, 0.97) if i else None)
        for i, name in enumerate(names)
    )
    bins = tuple(CalibrationBin(n_given // 5, 0.15 + 0.2 * i, 0.1 + 0.21 * i) for i in range(5))
    return Summary(
        title="holiday photos",
        kind=kind,
        class_names=names,
        prior=tuple([1 / n_classes] * n_classes),
        choices=("small-cnn: the pictures are small and there is no GPU.", "32 pixels a side: the median is 40."),
        notes=("class 0 has no given label of its own to judge by.",),
        estimate=Estimate(
            "Each given label was hidden in one of five rounds and then found again without it.",
            0.95,
            n_given,
            Interval(0.87, 0.81, 0.92),
            classes,
        ),
        calibration=Calibration(1.7, n_given, 0.11, 0.03, bins),
        n_skipped=2,
        is_complete=True,
        elapsed_s=184.0,
    )


def hostile_labeling() -> Labeling:
    """Names of files and classes, and sentences, that try to break out of a page."""
    labeling = made_up_labeling(200, len(HOSTILE))
    names = tuple(f"{HOSTILE[i % len(HOSTILE)]} {i}" for i in range(len(labeling)))
    estimate = labeling.summary.estimate
    classes = tuple(replace(one, name=name) for one, name in zip(estimate.classes, HOSTILE, strict=True))
    summary = replace(
        labeling.summary,
        title=HOSTILE[0],
        class_names=HOSTILE,
        choices=HOSTILE,
        notes=HOSTILE,
        estimate=replace(estimate, method=HOSTILE[1], classes=classes),
    )
    return replace(labeling, summary=summary, names=names)


def made_up_pictures(labeling: Labeling, rows: torch.Tensor, *, side: int = 48) -> torch.Tensor:
    """A color for each label, a pattern for each row."""
    rng = np.random.default_rng(1)
    colors = torch.from_numpy(rng.integers(40, 216, (len(labeling.summary.class_names), 3)))
    y, x = torch.meshgrid(torch.arange(side), torch.arange(side), indexing="ij")
    waves = torch.stack([torch.sin((x * (1 + row % 5) + y * (1 + row % 3)) / side * 6) for row in rows.tolist()])
    return (colors[labeling.labels[rows]][:, :, None, None] + 38 * waves[:, None]).clamp(0, 255).to(torch.uint8)


def read_page(path: Path) -> str:
    return path.read_text(encoding="utf-8")
