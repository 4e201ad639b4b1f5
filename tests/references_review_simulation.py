"""A simulated person who answers the review's questions from the truth, beside other orders of questions.

    python tests/references_review_simulation.py --embeddings test.npz --truth truth.npy --out record.json

`--embeddings` is what `laplacenet embed` wrote, `--truth` a NumPy file with the class number of each of its rows. An
answer is a key pressed for one picture, a grid confirmed, or a wrong picture of a grid put right. Random checks count.
"""

import argparse
import datetime
import json
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch

from laplacenet.data.walking import PictureFile
from laplacenet.review.journal import Journal
from laplacenet.review.live import compute
from laplacenet.review.photos import Photo
from laplacenet.review.propagation import SCALE, Embedded, Propagation, fit_softmax, join
from laplacenet.review.questions import GRID, first_questions, regions
from laplacenet.review.session import Session

GOALS = (0.80, 0.90, 0.95)


@dataclass
class Curve:
    """After each answer: pictures shown so far, and the share of all labels that are right."""

    answers: list[int] = field(default_factory=list)
    shown: list[int] = field(default_factory=list)
    right: list[float] = field(default_factory=list)
    interval: list[tuple[float, float]] = field(default_factory=list)

    def note(self, answers: int, shown: int, right: float) -> None:
        self.answers.append(answers)
        self.shown.append(shown)
        self.right.append(right)

    def needed(self, goal: float) -> tuple[int, int] | None:
        """Answers and pictures shown when the goal was first reached."""
        place = next((k for k, right in enumerate(self.right) if right >= goal), None)
        return None if place is None else (self.answers[place], self.shown[place])


def pool_of(vectors: np.ndarray) -> Embedded:
    return join(torch.arange(len(vectors)), torch.from_numpy(np.asarray(vectors, dtype=np.float32)))


class SimulatedReview:
    """A review without threads: each answer is spread before the next question is asked."""

    def __init__(self, pool: Embedded, truth: np.ndarray, folder: Path, *, seed: int) -> None:
        self.truth, self.n = truth, len(truth)
        photos = [Photo(PictureFile(Path(name), name), 0, 0) for name in (f"{k:06d}.jpg" for k in range(self.n))]
        self.session = Session(photos, Journal(folder / "answers.jsonl"), lambda paths: [], seed=seed)
        self.session.embedding.n_done = self.n
        self.propagation, self.levels = Propagation(pool), regions(pool, seed=seed)
        self.n_shown = 0
        self.spread()

    def spread(self) -> None:
        given = self.session._given()
        self.session.live.current = compute(self.propagation, given, self.levels, n_pictures=self.n)

    @property
    def n_answers(self) -> int:
        return self.session.state.n_questions

    def share_right(self) -> float:
        """As in `labels.csv`: answers that are kept back from the model count as well."""
        session, state = self.session, self.session.state
        names = [photo.name for photo in session.photos]
        result = session.live.current
        guess = np.full(self.n, -1)
        if result is not None and result.columns:
            found = np.array(result.columns)[result.scores.argmax(1).numpy()]
            guess = np.array([int(state.classes[label]) for label in found])
        for row, name in enumerate(names):
            if name in state.answers:
                guess[row] = int(state.classes[state.target(name)])
        return float((guess == self.truth).mean())

    def answer_one(self, *, mode: str = "grid") -> bool:
        """Ask and answer one question; False when there is none left."""
        question = self.session.next_question("person", mode=mode)
        if question["kind"] == "done":
            return False
        numbers = question["numbers"]
        if question["kind"] == "grid":
            name = self.session.state.classes[question["class"]]
            right = [k for k in numbers if str(self.truth[k]) == name]
            self._say(question["class"], "grid", right, [k for k in numbers if k not in right])
            self.n_shown += len(numbers)
        else:
            label = self.session.new_class("person", str(self.truth[numbers[0]]))
            was_shown = self.session.photos[numbers[0]].name in self.session.state.rejected
            self._say(label, question["via"], numbers, [])
            self.n_shown += not was_shown
        if not self._is_correcting():  # the next question does not depend on the scores
            self.spread()
        return True

    def _is_correcting(self) -> bool:
        state = self.session.state
        return any(name not in state.answers or state.is_kept_back(name) for name in state.rejected)

    def _say(self, label: int, via: str, right: list[int], wrong: list[int]) -> None:
        content = {"answer": "label", "class": label, "via": via, "seen": self.session.state.n}
        self.session.answer("person", content, right, wrong)


def review(pool: Embedded, truth: np.ndarray, *, seed: int, goal: float = 1.0, mode: str = "grid") -> Curve:
    """The product's own questions until the goal is reached."""
    curve = Curve()
    with tempfile.TemporaryDirectory() as folder:
        one = SimulatedReview(pool, truth, Path(folder), seed=seed)
        try:
            while one.answer_one(mode=mode):
                curve.note(one.n_answers, one.n_shown, one.share_right())
                estimate = one.session.estimate()
                curve.interval.append((estimate.low, estimate.high))
                if curve.right[-1] >= goal:
                    break
        finally:
            one.session.journal.close()
    return curve


class Classifier:
    """Logistic regression as scikit-learn's (a test compares them), refitted from its last weights."""

    def __init__(self, pool: Embedded, n_classes: int) -> None:
        self.X = SCALE * pool.points
        self.weights = torch.zeros(self.X.shape[1] + 1, n_classes)

    @torch.no_grad()
    def scores(self, y: np.ndarray) -> torch.Tensor:
        rows = torch.from_numpy(np.flatnonzero(y >= 0))
        present = torch.from_numpy(np.unique(y[y >= 0]))
        classes = torch.searchsorted(present, torch.from_numpy(y)[rows])
        self.weights[:, present] = fit_softmax(self.X[rows], classes, self.weights[:, present])
        scores = torch.zeros(len(self.X), self.weights.shape[1])
        scores[:, present] = (self.X @ self.weights[:-1, present] + self.weights[-1, present]).softmax(1)
        return scores


def margins(scores: torch.Tensor) -> np.ndarray:
    best = scores.topk(2, dim=1).values
    return (best[:, 0] - best[:, 1]).numpy()


Chooser = Callable[[torch.Tensor, np.ndarray], int]


def one_by_one(
    pool: Embedded, truth: np.ndarray, scores_of: Callable[[np.ndarray], torch.Tensor], choose: Chooser, *,
    seed: int, goal: float
) -> Curve:  # fmt: skip
    """A baseline: typical pictures first, then what `choose` picks from the scores among the rows without an answer."""
    curve, y = Curve(), np.full(len(truth), -1)
    first = first_questions(regions(pool, seed=seed), [], n_levels=1)
    scores = torch.zeros(len(truth), int(truth.max()) + 1)
    for n in range(1, len(truth) + 1):
        row = first[n - 1] if n <= len(first) else choose(scores, np.flatnonzero(y < 0))
        y[row] = truth[row]
        if len(np.unique(y[y >= 0])) < 2:
            continue
        scores = scores_of(y)
        curve.note(n, n, float((np.where(y >= 0, y, scores.argmax(1).numpy()) == truth).mean()))
        if curve.right[-1] >= goal:
            break
    return curve


def random_order(pool: Embedded, truth: np.ndarray, *, seed: int, goal: float = 1.0) -> Curve:
    rng = np.random.default_rng(seed)
    classifier = Classifier(pool, int(truth.max()) + 1)
    return one_by_one(pool, truth, classifier.scores, lambda _, left: int(rng.choice(left)), seed=seed, goal=goal)


def margin_order(pool: Embedded, truth: np.ndarray, *, seed: int, goal: float = 1.0) -> Curve:
    classifier = Classifier(pool, int(truth.max()) + 1)

    def choose(scores: torch.Tensor, left: np.ndarray) -> int:
        return int(left[margins(scores)[left].argmin()])

    return one_by_one(pool, truth, classifier.scores, choose, seed=seed, goal=goal)


def margin_grids(pool: Embedded, truth: np.ndarray, *, seed: int, goal: float = 1.0) -> Curve:
    """Margin sampling whose question is a grid: the 20 least margins with the predicted class of the least of all."""
    curve, y = Curve(), np.full(len(truth), -1)
    classifier = Classifier(pool, int(truth.max()) + 1)
    first = first_questions(regions(pool, seed=seed), [], n_levels=1)
    y[first] = truth[first]
    n_answers = n_shown = len(first)
    while (y < 0).any():
        scores = classifier.scores(y)
        guess = scores.argmax(1).numpy()
        curve.note(n_answers, n_shown, float((np.where(y >= 0, y, guess) == truth).mean()))
        if curve.right[-1] >= goal:
            break
        left = np.flatnonzero(y < 0)
        left = left[margins(scores)[left].argsort(kind="stable")]
        rows = left[guess[left] == guess[left[0]]][:GRID]
        if n_answers < 5 * scores.shape[1]:
            rows = left[:1]
        n_answers += 1 if len(rows) == 1 else 1 + int((guess[rows] != truth[rows]).sum())
        n_shown += len(rows)
        y[rows] = truth[rows]
    return curve


ORDERS: dict[str, Callable[..., Curve]] = {
    "review": review,
    "margin sampling with grids": margin_grids,
    "margin sampling": margin_order,
    "random order": random_order,
}


def record_of(curves: list[Curve]) -> dict[str, object]:
    """For each goal the answers and the pictures shown, a number for each seed; and the curves."""
    found: dict[str, object] = {"seeds": len(curves)}
    for goal in GOALS:
        needed = [curve.needed(goal) for curve in curves]
        found[f"{goal:.0%}"] = {
            "answers": [None if one is None else one[0] for one in needed],
            "shown": [None if one is None else one[1] for one in needed],
        }
    intervals = [(c.interval[k][0] <= c.right[k] <= c.interval[k][1]) for c in curves for k in range(len(c.interval))]
    if intervals:
        found["share of intervals that hold the truth"] = float(np.mean(intervals))
    found["curves"] = [
        {"answers": c.answers[::5], "right": [round(right, 4) for right in c.right[::5]]} for c in curves
    ]
    return found


def draw(record: dict, path: Path) -> None:
    """The first seed's curve of every order."""
    from laplacenet.reports.style import new_figure, save

    figure = new_figure(6.4, 4.0)
    axes = figure.subplots()
    for name, found in record["orders"].items():
        curve = found["curves"][0]
        axes.plot(curve["answers"], [100 * right for right in curve["right"]], label=name)
    axes.set_xlabel("answers")
    axes.set_ylabel("labels right, %")
    axes.set_ylim(50, 100)
    axes.legend(loc="lower right")
    save(figure, path)


def provenance() -> dict[str, object]:
    head = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
    libraries = ("torch", "numpy", "scipy", "scikit-learn")
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "command": "python " + " ".join(Path(one).name if "/" in one else one for one in sys.argv),
        "commit": head.stdout.strip(),
        "python": platform.python_version(),
        "libraries": {name: version(name) for name in libraries},
        "hardware": {"device": "cpu", "threads": torch.get_num_threads()},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--embeddings", type=Path, required=True)
    parser.add_argument("--truth", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=1e9, help="begin no further run after this time")
    options = parser.parse_args()
    torch.set_num_threads(1)
    pool, truth = pool_of(np.load(options.embeddings)["embeddings"]), np.load(options.truth)
    started_at = time.monotonic()
    curves: dict[str, list[Curve]] = {name: [] for name in ORDERS}
    record: dict = {"kind": "review", "what": f"{len(truth)} pictures, lite0", "provenance": provenance()}
    for seed in range(options.seeds):
        for name, order in ORDERS.items():
            if time.monotonic() - started_at > options.seconds:
                continue
            curves[name].append(order(pool, truth, seed=seed, goal=GOALS[0] if name == "random order" else GOALS[-1]))
            print(seed, name, [curves[name][-1].needed(goal) for goal in GOALS], flush=True)
            record["orders"] = {name: record_of(found) for name, found in curves.items() if found}
            options.out.parent.mkdir(parents=True, exist_ok=True)
            options.out.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
