"""From records to a verdict on one claim, by rules that are the same for all claims.

Two experiments are compared under one schedule, on the label splits that both were run on. A difference counts once it
exceeds the noise: twice the standard error of a difference between two means of n runs, with the deviation of one run
that the paper's tables show (0.25 points of error, 0.06 of invariance). What lies within the noise, or was not run,
leaves the claim open; what was run is said all the same.

A published error rate is reproduced if the mean at the paper's schedule is lower, or higher by no more than 2 % of it
(0.3 points at least); an invariance if it is off by no more than half a point.
"""

import enum
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from laplacenet.experiments.experiment import Experiment
from laplacenet.experiments.paper.published import Published
from laplacenet.experiments.paper.series import Measure, RecordBook, Series, Spread, invariance_on_test, last_error

RUN_DEVIATION = {"error": 0.25, "invariance": 0.06}
RELATIVE_TOLERANCE, LEAST_TOLERANCE, INVARIANCE_TOLERANCE = 0.02, 0.3, 0.5


class Verdict(enum.StrEnum):
    REPRODUCED = "reproduced"
    DIRECTION = "direction confirmed at a shortened schedule"
    NOT_RUN = "not yet run"
    CONTRADICTED = "contradicted"


@dataclass(frozen=True)
class Finding:
    verdict: Verdict
    evidence: str


@dataclass(frozen=True)
class Part:
    """One comparison that a claim rests on: whether it holds (None: open), and whether the schedule was the paper's."""

    holds: bool | None
    is_full: bool
    text: str


@dataclass(frozen=True)
class Named:
    """An experiment under the name it has in the evidence."""

    name: str
    experiment: Experiment


@dataclass(frozen=True)
class Comparison:
    """The experiments' means under the best schedule that they share, and under the shorter ones that they share."""

    names: tuple[str, ...]
    means: tuple[Spread, ...]
    series: Series
    shorter: tuple[tuple[Series, tuple[Spread, ...]], ...]

    def text(self, note: str = "") -> str:
        """Where the paper's schedule is missing, the shorter ones show where the numbers are going."""
        shown = ", ".join(f"{name} {spread.mean:.2f}" for name, spread in zip(self.names, self.means, strict=True))
        earlier = "".join(
            f"; {', '.join(f'{spread.mean:.2f}' for spread in means)} with {steps_of(series)}"
            for series, means in ([] if self.series.is_full else self.shorter)
        )
        return f"{shown} ({schedule(self.series)}{note}{earlier})"


MISSING = Part(None, is_full=False, text="")
Judge = Callable[[RecordBook], Finding]


def decide(parts: Sequence[Part]) -> Finding:
    """All of a claim's parts must hold; one that fails contradicts it."""
    evidence = "; ".join(part.text for part in parts if part.text) or "no run recorded"
    failed = [part for part in parts if part.holds is False]
    if failed:
        where = "" if any(part.is_full for part in failed) else "at a shortened schedule: "
        return Finding(Verdict.CONTRADICTED, where + evidence)
    if any(part.holds is None for part in parts):
        is_undecided = all(part.text for part in parts)
        so_far = "undecided: " if is_undecided else "so far: " if any(part.text for part in parts) else ""
        return Finding(Verdict.NOT_RUN, so_far + evidence)
    return Finding(Verdict.REPRODUCED if all(part.is_full for part in parts) else Verdict.DIRECTION, evidence)


def schedule(series: Series) -> str:
    """n runs, steps, and whose splits: what must be known beside any mean."""
    drawn = "" if series.split_source == "published" else ", drawn splits"
    return f"n = {len(series.records)}, {steps_of(series)}{drawn}"


def steps_of(series: Series) -> str:
    return f"{series.base_steps:,} steps".replace(",", " ")


def difference(
    book: RecordBook, larger: Named, smaller: Named, *, measure: Measure = last_error, kind: str = "error"
) -> Part:
    """Is the first experiment's mean the larger one?"""
    found = measured(book, [larger, smaller], measure)
    if found is None:
        return MISSING
    gap, noise = found.means[0].mean - found.means[1].mean, noise_of(found.means, kind)
    holds = None if abs(gap) <= noise else gap > 0
    open_note = "" if holds is not None else f", within the noise of {noise:.2f}"
    return Part(holds, found.series.is_full, found.text(open_note))


def measured(book: RecordBook, named: Sequence[Named], measure: Measure) -> Comparison | None:
    """The experiments' means under the best schedule that gives every one a number; None where there is none."""
    found = []
    for together in book.together([one.experiment for one in named]):
        spreads = [series.spread(measure) for series in together]
        known = tuple(spread for spread in spreads if spread is not None)
        if len(known) == len(named):
            found.append((together[0], known))
    if not found:
        return None
    (best, means), *others = found
    shorter = [(series, spreads) for series, spreads in others if series.split_source == best.split_source]
    return Comparison(tuple(one.name for one in named), means, best, tuple(shorter))


def noise_of(means: Sequence[Spread], kind: str) -> float:
    n = min(spread.n for spread in means)
    return 2 * math.sqrt(2) * RUN_DEVIATION[kind] / math.sqrt(n)


def below(book: RecordBook, one: Named, bound: float, *, bound_name: str) -> Part:
    """Is the experiment's error below a published number? A shorter schedule that is can only get better."""
    found = book.series(one.experiment)
    spread = found[0].spread(last_error) if found else None
    if spread is None:
        return MISSING
    series, is_below = found[0], spread.mean < bound
    holds = is_below if series.is_full or is_below else None
    too_short = "" if holds is not None else ", too few to tell"
    return Part(
        holds, series.is_full, f"{one.name}: ours {spread}, {bound_name} {bound:.2f} ({schedule(series)}{too_short})"
    )


def error_comes_out(book: RecordBook, experiment: Experiment, published: Published) -> Finding:
    """Does a published error rate come out again?"""
    tolerance = max(LEAST_TOLERANCE, RELATIVE_TOLERANCE * published.mean)
    return _comes_out(book, experiment, published, measure=last_error, accepts=lambda off: off <= tolerance)


def invariance_comes_out(book: RecordBook, experiment: Experiment, published: Published) -> Finding:
    def accepts(off: float) -> bool:
        return abs(off) <= INVARIANCE_TOLERANCE

    return _comes_out(book, experiment, published, measure=invariance_on_test, accepts=accepts)


def _comes_out(
    book: RecordBook,
    experiment: Experiment,
    published: Published,
    *,
    measure: Measure,
    accepts: Callable[[float], bool],
) -> Finding:
    """Only the paper's own schedule can tell; a shorter one is shown."""
    for series in book.series(experiment):
        spread = series.spread(measure)
        if spread is None:
            continue
        evidence = f"ours {spread}, published {published} ({schedule(series)})"
        if not series.is_full:
            return Finding(Verdict.NOT_RUN, f"{evidence}; the full schedule is missing")
        is_accepted = accepts(spread.mean - published.mean)
        return Finding(Verdict.REPRODUCED if is_accepted else Verdict.CONTRADICTED, evidence)
    return Finding(Verdict.NOT_RUN, "no run recorded")
