"""A simulated person who answers the review's questions from the truth, beside other orders of questions.

    python tests/references_review_simulation.py run --set cifar10 --embeddings test.npz --truth truth.npy \
        --order review --seed 0 --shards FOLDER
    python tests/references_review_simulation.py all --set cifar10 --embeddings test.npz --truth truth.npy \
        --seeds 6 --processes 16 --shards FOLDER
    python tests/references_review_simulation.py merge --set cifar10 --shards FOLDER --out results/review/cifar10.json
    python tests/references_review_simulation.py coverage --set cifar10 --embeddings test.npz --truth truth.npy \
        --mode grid --seeds 0 40 --shards FOLDER
    python tests/references_review_simulation.py merge-coverage --shards FOLDER --out results/review/coverage.json

`--embeddings` is what `laplacenet embed` wrote, `--truth` a NumPy file with the class number of each of its rows. An
answer is a key pressed for one picture, a grid confirmed, or a wrong picture of a grid put right. Random checks count.
A run that is cut off has left its curve so far in its shard.
"""

import argparse
import json
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch

from laplacenet.data.walking import PictureFile
from laplacenet.graph.guided import ENOUGH_TO_CHOOSE, GuidedConfig, label_landscape, landscape
from laplacenet.graph.logistic import LogisticModel, fit_logistic, normalized_rows
from laplacenet.graph.pseudo_labels import unit_rows
from laplacenet.labeling.acquisition import select_next
from laplacenet.review.journal import Journal
from laplacenet.review.live import Spreader
from laplacenet.review.photos import Photo
from laplacenet.review.propagation import Embedded, join
from laplacenet.review.questions import GRID, first_questions, regions
from laplacenet.review.session import ANSWERS_BEFORE_GRIDS, Session
from laplacenet.runtime.origin import provenance

CPU = torch.device("cpu")
GOALS = (0.80, 0.90, 0.95)
SECONDS_PER_SAVE = 20.0
BASELINE_C, BASELINE_TOL = 64.0, 1e-4
"""Of the baselines, whose embeddings have length 1; the tolerance is scikit-learn's."""
REFIT_SHARE = 0.01
"""A baseline is refitted after each answer, and from 100 answers on after 1 % more of them; `label` after 3 %."""


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


def usual_points(pool: Embedded) -> torch.Tensor:
    """Centered rows of length 1, without square roots, as the baselines see them."""
    vectors = pool.vectors()
    return unit_rows(vectors - vectors.mean(0))


class SimulatedReview:
    """A review without threads: each answer is spread before the next question is asked."""

    def __init__(self, pool: Embedded, truth: np.ndarray, folder: Path, *, seed: int) -> None:
        self.truth, self.n = truth, len(truth)
        photos = [Photo(PictureFile(Path(name), name), 0, 0) for name in (f"{k:06d}.jpg" for k in range(self.n))]
        self.session = Session(photos, Journal(folder / "answers.jsonl"), lambda paths: [], seed=seed)
        self.session.embedding.n_done = self.n
        self.spreader = Spreader(pool, n_pictures=self.n, seed=seed)
        self.n_shown = 0
        self.spread()

    def spread(self) -> None:
        self.session.live.current = self.spreader.spread(self.session._given())

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
        if not self.is_correcting:  # the next question does not depend on the scores
            self.spread()
        return True

    @property
    def is_correcting(self) -> bool:
        state = self.session.state
        return any(name not in state.answers or state.is_kept_back(name) for name in state.rejected)

    def _say(self, label: int, via: str, right: list[int], wrong: list[int]) -> None:
        content = {"answer": "label", "class": label, "via": via, "seen": self.session.state.n}
        self.session.answer("person", content, right, wrong)


def review(pool: Embedded, truth: np.ndarray, *, seed: int, goal: float = 1.0, mode: str = "grid") -> Iterator[Curve]:
    """The product's own questions until the goal is reached."""
    curve = Curve()
    with tempfile.TemporaryDirectory() as folder:
        one = SimulatedReview(pool, truth, Path(folder), seed=seed)
        try:
            while one.answer_one(mode=mode):
                curve.note(one.n_answers, one.n_shown, one.share_right())
                estimate = one.session.estimate()
                curve.interval.append((estimate.low, estimate.high))
                yield curve
                if curve.right[-1] >= goal:
                    break
        finally:
            one.session.journal.close()


class Classifier:
    """Logistic regression as scikit-learn's (a test compares them), refitted from its last weights."""

    refit_share = REFIT_SHARE

    def __init__(self, pool: Embedded, n_classes: int) -> None:
        self.points, self.n_classes = usual_points(pool), n_classes
        self.X = self.points.double().numpy()
        self.model: LogisticModel | None = None

    def scores(self, y: np.ndarray) -> torch.Tensor:
        rows = np.flatnonzero(y >= 0)
        fitted = {"n_classes": self.n_classes, "C": BASELINE_C, "tol": BASELINE_TOL, "start": self.model}
        self.model = fit_logistic(self.X[rows], y[rows], **fitted)
        return torch.from_numpy(np.exp(normalized_rows(self.model.logits(self.X)))).float()


class LabelCommand:
    """What `label --features` says; its penalty C is chosen anew each time there are twice as many labels."""

    refit_share = 3 * REFIT_SHARE

    def __init__(self, pool: Embedded, n_classes: int) -> None:
        self.points, self.n_classes = usual_points(pool), n_classes
        self.land = landscape(pool.vectors(), GuidedConfig())
        self.C: float | None = None
        self.n_chosen = 0

    def scores(self, y: np.ndarray) -> torch.Tensor:
        n_given, n_present = int((y >= 0).sum()), len(np.unique(y[y >= 0]))
        if n_given >= 2 * self.n_chosen:
            self.C = None
        config = GuidedConfig(n_folds=0, C=self.C)
        found = label_landscape(self.land, y, n_classes=self.n_classes, config=config)
        if self.C is None and n_given >= ENOUGH_TO_CHOOSE * n_present:
            self.C, self.n_chosen = found.C, n_given
        return found.scores.float()


Model = Classifier | LabelCommand


def margins(scores: torch.Tensor) -> np.ndarray:
    best = scores.topk(2, dim=1).values
    return (best[:, 0] - best[:, 1]).numpy()


def random_choice(rng: np.random.Generator) -> Callable[[Model, torch.Tensor, np.ndarray], int]:
    return lambda model, scores, y: int(rng.choice(np.flatnonzero(y < 0)))


def margin_choice(model: Model, scores: torch.Tensor, y: np.ndarray) -> int:
    left = np.flatnonzero(y < 0)
    return int(left[margins(scores)[left].argmin()])


def next_list(model: Model, scores: torch.Tensor, y: np.ndarray, n: int) -> list[int]:
    """What the command `next` lists."""
    given, margin = torch.from_numpy(y >= 0), torch.from_numpy(margins(scores))
    labeling = SimpleNamespace(is_given=given, margin=margin, features=model.points)
    return select_next(labeling, n).rows.tolist()  # type: ignore[arg-type]


def next_choice(model: Model, scores: torch.Tensor, y: np.ndarray) -> int:
    return next_list(model, scores, y, 1)[0]


def next_by_lists() -> Callable[[Model, torch.Tensor, np.ndarray], int]:
    """One list until `label` has run again, as people use it."""
    listed: list[int] = []
    made_for: torch.Tensor | None = None

    def choose(model: Model, scores: torch.Tensor, y: np.ndarray) -> int:
        nonlocal listed, made_for
        if scores is not made_for or not listed:
            n = max(1, math.ceil(model.refit_share * int((y >= 0).sum())))
            listed, made_for = next_list(model, scores, y, n), scores
        return listed.pop(0)

    return choose


def grid_of(row: int, scores: torch.Tensor, y: np.ndarray) -> np.ndarray:
    """The chosen row, and of the rows with the same guess those with the least margins: 20 in all."""
    guess = scores.argmax(1).numpy()
    left = np.flatnonzero((y < 0) & (guess == guess[row]) & (np.arange(len(y)) != row))
    left = left[margins(scores)[left].argsort(kind="stable")]
    return np.concatenate([[row], left[: GRID - 1]])


def baseline(
    pool: Embedded, truth: np.ndarray, model: Model, choose: Callable[[Model, torch.Tensor, np.ndarray], int], *,
    seed: int, goal: float = 1.0, has_grids: bool = False
) -> Iterator[Curve]:  # fmt: skip
    """Typical pictures first, then what `choose` picks by the scores, singly or, from 3 answers a class, as a grid."""
    curve, y = Curve(), np.full(len(truth), -1)
    first = first_questions(regions(pool, seed=seed)[:1], [])
    y[first] = truth[first]
    n_answers = n_shown = len(first)
    while (y < 0).any():
        scores, n_fitted = model.scores(y), int((y >= 0).sum())
        is_grid = has_grids and n_answers >= ANSWERS_BEFORE_GRIDS * len(np.unique(y[y >= 0]))
        while True:
            guess = scores.argmax(1).numpy()
            curve.note(n_answers, n_shown, float((np.where(y >= 0, y, guess) == truth).mean()))
            yield curve
            if curve.right[-1] >= goal:
                return
            row = choose(model, scores, y)
            rows = grid_of(row, scores, y) if is_grid else np.array([row])
            n_answers += 1 + (int((guess[rows] != truth[rows]).sum()) if is_grid else 0)
            n_shown += len(rows)
            y[rows] = truth[rows]
            if (y >= 0).sum() >= max(n_fitted + 1, (1 + model.refit_share) * n_fitted) or not (y < 0).any():
                break


def n_classes_of(truth: np.ndarray) -> int:
    return int(truth.max()) + 1


def random_order(pool: Embedded, truth: np.ndarray, *, seed: int, goal: float = 1.0) -> Iterator[Curve]:
    model, choose = Classifier(pool, n_classes_of(truth)), random_choice(np.random.default_rng(seed))
    return baseline(pool, truth, model, choose, seed=seed, goal=goal)


def margin_order(pool: Embedded, truth: np.ndarray, *, seed: int, goal: float = 1.0) -> Iterator[Curve]:
    return baseline(pool, truth, Classifier(pool, n_classes_of(truth)), margin_choice, seed=seed, goal=goal)


def margin_grids(pool: Embedded, truth: np.ndarray, *, seed: int, goal: float = 1.0) -> Iterator[Curve]:
    model = Classifier(pool, n_classes_of(truth))
    return baseline(pool, truth, model, margin_choice, seed=seed, goal=goal, has_grids=True)


def next_order(pool: Embedded, truth: np.ndarray, *, seed: int, goal: float = 1.0) -> Iterator[Curve]:
    return baseline(pool, truth, LabelCommand(pool, n_classes_of(truth)), next_by_lists(), seed=seed, goal=goal)


def next_grids(pool: Embedded, truth: np.ndarray, *, seed: int, goal: float = 1.0) -> Iterator[Curve]:
    model = LabelCommand(pool, n_classes_of(truth))
    return baseline(pool, truth, model, next_choice, seed=seed, goal=goal, has_grids=True)


ORDERS: dict[str, Callable[..., Iterator[Curve]]] = {
    "review": review,
    "margin-grids": margin_grids,
    "next-grids": next_grids,
    "margin": margin_order,
    "next": next_order,
    "random": random_order,
}
NAMES = {
    "review": "review",
    "margin-grids": "logistic regression, margin sampling, grids",
    "next-grids": "label and next, grids",
    "margin": "logistic regression, margin sampling",
    "next": "label and next, one at a time",
    "random": "logistic regression, random order",
}


def last(curves: Iterator[Curve]) -> Curve:
    """The curve when all is done."""
    curve = Curve()
    for curve in curves:  # noqa: B007
        pass
    return curve


def shard_of(curve: Curve, options: argparse.Namespace, *, is_done: bool) -> dict[str, object]:
    """Of one order and seed: answers and pictures shown for each goal, the curve, and how often the interval held."""
    held = [low <= right <= high for (low, high), right in zip(curve.interval, curve.right, strict=False)]
    return {
        "set": options.set,
        "order": options.order,
        "seed": options.seed,
        "is_done": is_done,
        "needed": {f"{goal:.0%}": curve.needed(goal) for goal in GOALS},
        "interval held": float(np.mean(held)) if held else None,
        "curve": {"answers": curve.answers[::5], "right": [round(right, 4) for right in curve.right[::5]]},
        "provenance": provenance(CPU),
    }


def write_json(path: Path, content: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1) + "\n")


def run(options: argparse.Namespace) -> None:
    pool, truth = pool_of(np.load(options.embeddings)["embeddings"]), np.load(options.truth)
    path = options.shards / f"{options.set}-{options.order}-{options.seed}.json"
    started_at = saved_at = time.monotonic()
    curve = Curve()
    for curve in ORDERS[options.order](pool, truth, seed=options.seed, goal=options.goal):
        now = time.monotonic()
        if now - saved_at > SECONDS_PER_SAVE:
            write_json(path, shard_of(curve, options, is_done=False))
            saved_at = now
        if now - started_at > options.seconds:
            break
    is_done = bool(curve.right) and curve.right[-1] >= options.goal
    write_json(path, shard_of(curve, options, is_done=is_done))
    needed = [curve.needed(goal) for goal in GOALS]
    print(f"{path.name}: {needed}, {time.monotonic() - started_at:.0f} s", flush=True)


def run_all(options: argparse.Namespace) -> None:
    """Every order and seed in a process of its own, at most so many at once; a shard that is done is not run again."""
    data = ["--set", options.set, "--embeddings", str(options.embeddings), "--truth", str(options.truth)]
    data += ["--shards", str(options.shards), "--seconds", str(options.seconds)]
    waiting = [(seed, order) for seed in range(options.seeds) for order in options.orders]
    waiting = [(seed, order) for seed, order in waiting if not is_done(options, order, seed)]
    running: list[subprocess.Popen[bytes]] = []
    while waiting or running:
        running = [process for process in running if process.poll() is None]
        while waiting and len(running) < options.processes:
            seed, order = waiting.pop(0)
            which = ["run", *data, "--order", order, "--seed", str(seed)]
            running.append(subprocess.Popen([sys.executable, __file__, *which]))
        time.sleep(0.2)


def is_done(options: argparse.Namespace, order: str, seed: int) -> bool:
    path = options.shards / f"{options.set}-{order}-{seed}.json"
    return path.exists() and bool(json.loads(path.read_text())["is_done"])


def merge(options: argparse.Namespace) -> None:
    """Shards of a set become its record; an order without shards, or that is not through, stays as it was recorded."""
    shards = [json.loads(path.read_text()) for path in sorted(options.shards.glob(f"{options.set}-*-*.json"))]
    if not shards:
        raise SystemExit(f"{options.shards}: no shards of {options.set}")
    before = json.loads(options.out.read_text()) if options.out.exists() else {"orders": {}}
    orders = {}
    for order, name in NAMES.items():
        own = sorted((shard for shard in shards if shard["order"] == order), key=lambda shard: shard["seed"])
        found = before["orders"].get(order)
        if found is not None:
            found = {"provenance": before["provenance"]} | found
        if own and (all(shard["is_done"] for shard in own) or found is None):
            found = order_of(own, name)
        elif own:
            print(f"{name}: not all seeds are through; left as it was")
        if found is not None:
            orders[order] = found
    record = {"kind": "review", "what": options.what, "provenance": shards[0]["provenance"], "orders": orders}
    write_json(options.out, record)
    for found in orders.values():
        means = [found[f"{goal:.0%}"]["mean answers"] for goal in GOALS]
        print(f"{found['name']:45s} {len(found['seeds'])} seeds {means}")
    if options.picture is not None:
        draw(record, options.picture)


def order_of(own: list[dict], name: str) -> dict:
    """Of one order's shards the means over its seeds; a goal that a run did not reach is null."""
    found: dict = {"name": name, "seeds": [shard["seed"] for shard in own], "provenance": own[0]["provenance"]}
    for goal in (f"{goal:.0%}" for goal in GOALS):
        needed = [shard["needed"][goal] for shard in own]
        answers, shown = ([None if one is None else one[place] for one in needed] for place in (0, 1))
        is_whole = None not in answers
        found[goal] = {
            "mean answers": round(float(np.mean(answers)), 1) if is_whole else None,
            "mean shown": round(float(np.mean(shown)), 1) if is_whole else None,
            "answers": answers,
            "shown": shown,
        }
    held = [shard["interval held"] for shard in own if shard["interval held"] is not None]
    if held:
        found["share of intervals that hold the truth"] = round(float(np.mean(held)), 4)
    return found | {"curves": [shard["curve"] for shard in own]}


def draw(record: dict, path: Path) -> None:
    """Of every order the mean over its seeds, as far as all of them went."""
    from laplacenet.reports.style import COLORS, bare, new_figure, save

    figure = new_figure(6.4, 4.0)
    axes = figure.subplots()
    for color, found in zip(COLORS, record["orders"].values(), strict=False):
        curves = [curve for curve in found["curves"] if curve["answers"]]
        if not curves:
            continue
        at = np.arange(curves[0]["answers"][0], min(curve["answers"][-1] for curve in curves) + 1)
        means = np.mean([np.interp(at, curve["answers"], curve["right"]) for curve in curves], axis=0)
        width = 2.4 if found["name"] == "review" else 1.4
        axes.plot(at, 100 * means, label=found["name"], color=color, linewidth=width)
    bare(axes)
    axes.set_xlabel("answers")
    axes.set_ylabel("labels right, %")
    axes.set_ylim(50, 100)
    axes.legend(loc="lower right", fontsize=8)
    save(figure, path)


@dataclass(frozen=True)
class Draw:
    """Of a run that tests the interval: so many pictures of so many classes (None: all), judged at these marks."""

    n_pictures: int
    n_classes: int | None
    marks: tuple[int, ...]

    def rows(self, truth: np.ndarray, *, seed: int) -> np.ndarray:
        rng, classes = np.random.default_rng(seed), np.unique(truth)
        if self.n_classes is not None:
            classes = rng.choice(classes, min(self.n_classes, len(classes)), replace=False)
        among = np.flatnonzero(np.isin(truth, classes))
        return rng.choice(among, min(self.n_pictures, len(among)), replace=False)


def cover(pool: Embedded, truth: np.ndarray, *, mode: str, seed: int, marks: tuple[int, ...]) -> list[dict]:
    """At each mark of answers: whether the interval holds the truth, how wide it is, and how far the checks are off.

    `bias` is the share that the model has right of the answers kept back, less that of the others that it labels:
    0 on average if the checks are a fair sample.
    """
    found: list[dict] = []
    with tempfile.TemporaryDirectory() as folder:
        one = SimulatedReview(pool, truth, Path(folder), seed=seed)
        try:
            while len(found) < len(marks) and one.answer_one(mode=mode):
                if one.n_answers == marks[len(found)]:
                    found.append({"answers": one.n_answers} | judged(one))
        finally:
            one.session.journal.close()
    return found


def judged(one: SimulatedReview) -> dict:
    estimate, right = one.session.estimate(), one.share_right()
    n_audits, n_right, n_known, n = one.session.audits()
    bias = n_right / n_audits - (right * n - n_known) / (n - n_known) if n_audits and n > n_known else None
    return {"held": estimate.low <= right <= estimate.high, "width": estimate.high - estimate.low, "bias": bias}


def coverage(options: argparse.Namespace) -> None:
    """Each run has other pictures, drawn from the set, and other random checks."""
    vectors, truth = np.load(options.embeddings)["embeddings"], np.load(options.truth)
    path = options.shards / f"coverage-{options.set}-{options.mode}-{options.seeds[0]}.json"
    draw, runs = Draw(options.pictures, options.classes, tuple(options.marks)), []
    for seed in range(*options.seeds):
        rows = draw.rows(truth, seed=seed)
        runs.append(cover(pool_of(vectors[rows]), truth[rows], mode=options.mode, seed=seed, marks=draw.marks))
        what = {"set": options.set, "mode": options.mode, "pictures": len(rows), "classes": len(np.unique(truth[rows]))}
        write_json(path, what | {"runs": runs, "provenance": provenance(CPU)})
    print(path.name, len(runs), flush=True)


def merge_coverage(options: argparse.Namespace) -> None:
    """Of each set, order and mark: how often the interval held, its mean width, and the checks' mean bias."""
    shards = [json.loads(path.read_text()) for path in sorted(options.shards.glob("coverage-*.json"))]
    if not shards:
        raise SystemExit(f"{options.shards}: no shards of coverage")
    sets: dict[str, dict] = {}
    for shard in shards:
        named = {"pictures": shard["pictures"], "classes": shard["classes"], "orders": {}}
        orders = sets.setdefault(shard["set"], named)["orders"]
        for one in (one for run in shard["runs"] for one in run):
            orders.setdefault(shard["mode"], {}).setdefault(str(one["answers"]), []).append(one)
    for found in sets.values():
        for marks in found["orders"].values():
            marks.update({answers: summary_of(runs) for answers, runs in marks.items()})
    write_json(options.out, {"kind": "review coverage", "provenance": shards[0]["provenance"], "sets": sets})
    print(json.dumps(sets, indent=1))


def summary_of(runs: list[dict]) -> dict[str, float | int]:
    biases = [one["bias"] for one in runs if one["bias"] is not None]
    held, width = (float(np.mean([one[key] for one in runs])) for key in ("held", "width"))
    found = {"runs": len(runs), "held": round(held, 4), "width": round(width, 4)}
    if len(biases) > 1:
        error = float(np.std(biases, ddof=1) / np.sqrt(len(biases)))
        found |= {"bias": round(float(np.mean(biases)), 4), "its standard error": round(error, 4)}
    return found


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("run", help="one order, one seed")
    one.set_defaults(do=run)
    every = commands.add_parser("all", help="every order and seed")
    every.set_defaults(do=run_all)
    every.add_argument("--seeds", type=int, default=6)
    every.add_argument("--orders", nargs="+", choices=list(ORDERS), default=list(ORDERS))
    every.add_argument("--processes", type=int, default=1)
    one.add_argument("--order", choices=list(ORDERS), required=True)
    one.add_argument("--seed", type=int, required=True)
    one.add_argument("--goal", type=float, default=GOALS[-1])
    for command in (one, every):
        command.add_argument("--set", required=True)
        command.add_argument("--seconds", type=float, default=840.0, help="stop a run after this time and keep it")
    many = commands.add_parser("coverage", help="how often the interval holds the truth")
    many.set_defaults(do=coverage)
    many.add_argument("--mode", choices=["grid", "single"], required=True)
    many.add_argument("--seeds", type=int, nargs=2, required=True, metavar=("FIRST", "END"))
    many.add_argument("--set", required=True)
    many.add_argument("--pictures", type=int, default=600, help="of each run, drawn from the set")
    many.add_argument("--classes", type=int, help="of each run; default: all")
    many.add_argument("--marks", type=int, nargs="+", default=[50, 100, 200, 300], help="answers to judge after")
    for command in (one, every, many):
        command.add_argument("--embeddings", type=Path, required=True)
        command.add_argument("--truth", type=Path, required=True)
    both = commands.add_parser("merge", help="shards into a record")
    both.set_defaults(do=merge)
    both.add_argument("--set", required=True)
    both.add_argument("--what", default="2 000 CIFAR-10 test pictures, lite0")
    both.add_argument("--picture", type=Path)
    covered = commands.add_parser("merge-coverage", help="shards into a record")
    covered.set_defaults(do=merge_coverage)
    for command in (both, covered):
        command.add_argument("--out", type=Path, required=True)
    for command in (one, every, many, both, covered):
        command.add_argument("--shards", type=Path, required=True)
    return parser.parse_args(arguments)


def main() -> None:
    torch.set_num_threads(1)
    options = parse()
    options.do(options)


if __name__ == "__main__":
    main()
