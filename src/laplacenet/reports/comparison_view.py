"""A recorded comparison as sentences and tables, the same for Markdown and HTML, whatever of it is recorded so far."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from laplacenet.evaluation.spread import mean_and_std
from laplacenet.experiments.finished_runs import FinishedRun
from laplacenet.reports.recorded_comparison import RecordedComparison

DATA_NAMES = {
    "cifar10": "CIFAR-10",
    "cifar100": "CIFAR-100",
    "mini-imagenet": "Mini-ImageNet",
    "two-moons": "two moons",
}
MODEL_NAMES = {"13-cnn": "13-CNN", "wrn-28-2": "WRN-28-2", "wrn-28-8": "WRN-28-8", "resnet-18": "ResNet-18"}
NUMBER_WORDS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
NOTHING = "–"
MANY_SEEDS = 3
"""From so many seeds on a table shows their mean and deviation, not each of them."""
SAME_FOR_ALL = ("learning rate", "steps", "runs")
"""Columns of a comparison without tuning that are left out, and said in a sentence, where all rows agree."""


@dataclass(frozen=True)
class Grid:
    """A table as text."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class ComparisonView:
    """`facts` are the conditions, `protocol` how rates and finalists were chosen, `missing` what is not recorded yet.

    Without a finished run there are no `results`, and without tuning no `tuning`.
    """

    name: str
    title: str
    facts: tuple[str, ...]
    protocol: tuple[str, ...]
    missing: tuple[str, ...]
    results: Grid | None
    tuning: Grid | None


def view_comparison(record: RecordedComparison) -> ComparisonView:
    results, shared = results_grid(record) if record.runs else None, list[str]()
    if results is not None and record.asked.tuning is None:
        results, shared = without_shared_columns(results)
    return ComparisonView(
        name=record.name,
        title=title_of(record),
        facts=tuple(facts_of(record, shared)),
        protocol=tuple(protocol_of(record)),
        missing=tuple(missing_of(record)),
        results=results,
        tuning=tuning_grid(record) if record.asked.tuning is not None else None,
    )


def title_of(record: RecordedComparison) -> str:
    return capitalized(f"{data_and_labels(record)}, {budget(record)} each")


def data_and_labels(record: RecordedComparison) -> str:
    labels = "" if record.n_labeled is None else f", {grouped(record.n_labeled)} labels"
    return data_name(record.asked.base.data.name) + labels


def budget(record: RecordedComparison) -> str:
    return (
        f"{grouped(record.asked.base.train.steps)} steps" if record.asked.for_s is None else time_of(record.asked.for_s)
    )


def facts_of(record: RecordedComparison, shared: Sequence[str]) -> Iterator[str]:
    """The conditions of the runs; those of tuning included."""
    made = [*record.tried, *record.runs]
    preset = "" if record.asked.preset is None else f", settings of the preset {record.asked.preset}"
    yield capitalized(f"{data_and_labels(record)}, network {model_name(record.asked.base.model.name)}{preset}.")
    yield from layer_of_length_one(record)
    if shared:
        yield f"The same for all: {', '.join(shared)}."
    if made:
        machines = " and ".join(dict.fromkeys(machine_of(run.origin) for run in made))
        versions = dict.fromkeys(str(run.origin.get("libraries", {}).get("torch", "unknown")) for run in made)
        commits = dict.fromkeys(str(run.origin.get("commit", "unknown"))[:7] for run in made)
        dates = sorted({str(run.origin.get("date", "unknown"))[:10] for run in made})
        between = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
        yield capitalized(
            f"{machines}, torch {' and '.join(versions)}, {between},"
            f" commit{'s' if len(commits) > 1 else ''} {', '.join(commits)}."
        )


def layer_of_length_one(record: RecordedComparison) -> Iterator[str]:
    """Where the 13-CNN has the paper's ℓ2 layer under some methods and not under others."""
    methods, seed = record.asked.methods, record.asked.seeds[0]
    models = {method: record.asked.experiment(method, seed).model for method in methods}
    models |= {made.run.method: made.experiment.model for made in (*record.tried, *record.runs)}
    having = [method for method, model in models.items() if model.name == "13-cnn" and model.unit_length]
    if 0 < len(having) < len(methods):
        yield f"Features have length 1 under {', '.join(having)}, as in LaplaceNet's paper, and not under the others."


def machine_of(origin: dict[str, Any]) -> str:
    """One GPU, or the threads of a CPU."""
    hardware = origin.get("hardware")
    hardware = hardware if isinstance(hardware, dict) else {}
    if hardware.get("gpu"):
        return f"one {hardware['gpu']}"
    threads = hardware.get("threads")
    known = "" if threads is None else f" with {in_words(threads)} thread{'' if threads == 1 else 's'} a run"
    return f"{str(hardware.get('device', 'an unknown machine')).replace('cpu', 'a CPU')}{known}"


def protocol_of(record: RecordedComparison) -> Iterator[str]:
    """How the choice was made, in sentences that hold for every state of the record."""
    tuning = record.asked.tuning
    if tuning is not None:
        *most, last = (f"{rate:g}" for rate in tuning.rates)
        rates = f"{', '.join(most)} or {last}" if most else last
        yield (
            f"Each method's learning rate ({rates}) is the one with the lowest error on {grouped(tuning.held_out)} of"
            f" the labels after {time_of(tuning.for_s)} of training. These images are held out: the run does"
            " not see them, not even without their labels. No test label is used in tuning; of equally good rates the"
            " first is taken."
        )
    else:
        single = " There is one run of each method, so small differences mean nothing."
        yield "No learning rate was tuned." + (single if len(record.asked.seeds) == 1 else "")
    if record.asked.for_s is not None:
        begin = "Each method" if tuning is None else "Then each method"
        yield (
            f"{begin} trains for {time_of(record.asked.for_s)} with all labels. The time of its steps is"
            " measured first, and it gets as many steps as fit; label passes count, tests do not. The error is that"
            " of the last network on the test set."
        )
    if record.asked.finalists is not None and len(record.asked.seeds) > 1:
        first, *later = (record.seed_name(seed) for seed in record.asked.seeds)
        others = " and ".join(later)
        yield (
            f"The {in_words(record.asked.finalists)} methods with the lowest test error on {first} are run on {others}"
            f" too. That choice looks at the test set, so the finalists' errors on {first} may look slightly too"
            f" good; those on {others} are not affected."
        )


def missing_of(record: RecordedComparison) -> Iterator[str]:
    """What was asked for and is not recorded; nothing where all is."""
    untuned = {method: record.missing_rates(method) for method in record.asked.methods}
    parts = [f"{method} ({rates_of(rates, record.rates)})" for method, rates in untuned.items() if rates]
    if parts:
        yield f"Tuning runs: {', '.join(parts)}."
    for seed in record.asked.seeds:
        methods, name = record.missing_on(seed), record.seed_name(seed)
        if methods is None:
            n_best = in_words(record.asked.finalists or 0)
            yield f"Runs on {name}: the {n_best} best methods of the first, not known yet."
        elif len(methods) == len(record.asked.methods):
            yield f"Runs on {name}: all {len(methods)} methods."
        elif methods:
            yield f"Runs on {name}: {', '.join(methods)}."
    for failure in record.failures:
        yield f"Failed: {failure.name} ({failure.error})."


def rates_of(missing: Sequence[float], rates: Sequence[float]) -> str:
    return "all rates" if len(missing) == len(rates) else ", ".join(f"{rate:g}" for rate in missing)


def results_grid(record: RecordedComparison) -> Grid:
    """A row for each method, run or not: what it was given, what it took, and its test error."""
    has_each = len(record.asked.seeds) < MANY_SEEDS
    rate = "learning rate" if record.asked.tuning is None else "learning rate (held-out error)"
    errors = tuple(f"test error, {record.seed_name(seed)}" for seed in record.asked.seeds) if has_each else ()
    mean = ("mean",) if has_each and len(record.asked.seeds) > 1 else () if has_each else ("runs", "test error")
    columns = ("method", rate, "steps", "training time", *errors, *mean)
    return Grid(columns, tuple(_row(record, method, has_each=has_each) for method in record.by_error))


def _row(record: RecordedComparison, method: str, *, has_each: bool) -> tuple[str, ...]:
    runs, chosen = record.runs_of(method), record.chosen(method)
    rates = [run.experiment.train.lr for run in runs] or ([] if chosen is None else [chosen.experiment.train.lr])
    tuned = "" if chosen is None else f" ({error_of(chosen, digits=1)})"
    took = (
        " / ".join(dict.fromkeys(f"{rate:g}" for rate in rates)) + tuned or "not chosen yet",
        " / ".join(dict.fromkeys(grouped(run.experiment.train.steps) for run in runs)) or NOTHING,
        f"{sum(run.train_s for run in runs) / len(runs):.0f} s" if runs else NOTHING,
    )
    if not has_each:
        return (method, *took, str(len(runs)), spread_of(runs))
    by_seed = [record.run(method, seed) for seed in record.asked.seeds]
    mean = (spread_of(runs, deviation=False) if len(runs) > 1 else NOTHING,) if len(record.asked.seeds) > 1 else ()
    return (method, *took, *(NOTHING if run is None else error_of(run) for run in by_seed), *mean)


def error_of(run: FinishedRun, *, digits: int = 2) -> str:
    known = run.outcome is not None and run.outcome.test_error is not None
    return f"{100 * run.error:.{digits}f} %" if known else "diverged"


def spread_of(runs: Sequence[FinishedRun], *, deviation: bool = True) -> str:
    """The mean of the runs that ended well, its deviation, and how many diverged."""
    errors = [100 * run.error for run in runs if run.outcome is not None]
    n_diverged = len(runs) - len(errors)
    parts = [f"{n_diverged} diverged"] if n_diverged else []
    if errors:
        mean, std = mean_and_std(errors)
        parts.insert(0, f"{mean:.2f} ± {std:.2f} %" if deviation and std is not None else f"{mean:.2f} %")
    return ", ".join(parts) or NOTHING


def tuning_grid(record: RecordedComparison) -> Grid:
    """The held-out error with each rate, and which one was chosen."""
    rows = []
    for method in record.asked.methods:
        attempts, chosen = [record.attempt(method, rate) for rate in record.rates], record.chosen(method)
        errors = [NOTHING if attempt is None else error_of(attempt, digits=1) for attempt in attempts]
        steps = dict.fromkeys(grouped(attempt.experiment.train.steps) for attempt in attempts if attempt is not None)
        rate = "not chosen yet" if chosen is None else f"{chosen.experiment.train.lr:g}"
        rows.append((method, *errors, " / ".join(steps) or NOTHING, rate))
    return Grid(("method", *(f"rate {rate:g}" for rate in record.rates), "steps", "chosen"), tuple(rows))


def without_shared_columns(grid: Grid) -> tuple[Grid, list[str]]:
    """The grid without columns in which all rows agree, and what stood there in words."""
    shared = []
    kept = list(range(len(grid.columns)))
    for place, column in enumerate(grid.columns):
        values = {row[place] for row in grid.rows}
        if column in SAME_FOR_ALL and len(values) == 1 and len(grid.rows) > 1:
            (value,) = values
            kept.remove(place)
            if value[:1].isdigit():
                shared.append(f"{column} {value}" if column == "learning rate" else f"{value} {column}")
    rows = tuple(tuple(row[place] for place in kept) for row in grid.rows)
    return Grid(tuple(grid.columns[place] for place in kept), rows), shared


def markdown_grid(grid: Grid) -> str:
    lines = [grid.columns, tuple("---" for _ in grid.columns), *grid.rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def data_name(name: str) -> str:
    return DATA_NAMES.get(name, name)


def model_name(name: str) -> str:
    return MODEL_NAMES.get(name, name)


def grouped(number: int) -> str:
    """250 000; numbers of four digits are grouped too, as in 4 000."""
    return f"{number:,}".replace(",", " ")


def capitalized(text: str) -> str:
    return text[:1].upper() + text[1:]


def in_words(number: int) -> str:
    return NUMBER_WORDS[number] if 0 <= number < len(NUMBER_WORDS) else str(number)


def time_of(seconds: float) -> str:
    if seconds < 60 or seconds % 60:
        return f"{seconds:g} s"
    minutes = seconds / 60
    return f"{minutes:g} minute{'' if minutes == 1 else 's'}"
