"""Numbers and outcomes as text."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from laplacenet.experiments import Outcome
    from laplacenet.experiments.judging import Judge


def percent(share: float | None) -> str:
    return "unknown" if share is None else f"{100 * share:.2f} %"


def duration(elapsed_s: float) -> str:
    """45 s, 3 min 05 s, 2 h 07 min."""
    whole = round(elapsed_s)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def outcome_lines(outcome: "Outcome") -> list[str]:
    """The result first; the best test error is shown beside it and is not the result."""
    lines = [f"test error     {percent(outcome.test_error)}"]
    if outcome.test_error is not None:
        lines[0] += f"  (the last network's; the lowest seen along the way was {percent(outcome.best_test_error)})"
    if outcome.pseudo_label_accuracy is not None:
        lines.append(f"pseudo-labels  {percent(outcome.pseudo_label_accuracy)} right")
    if outcome.used_guesses is not None:
        lines.append(f"guesses        {percent(outcome.used_guesses)} used in the last epoch")
    lines += invariance_lines(outcome)
    step = "" if outcome.median_step_s is None else f", {1000 * outcome.median_step_s:.1f} ms a step"
    compiling = f", compiling {duration(outcome.compile_s)}" if outcome.compile_s else ""
    lines.append(f"time           {duration(outcome.total_s)}: labeling {duration(outcome.label_s)}{compiling}{step}")
    if outcome.n_epochs_not_converged:
        lines.append(f"not converged  in {outcome.n_epochs_not_converged} of {outcome.n_epochs} epochs")
    return lines


def invariance_lines(found: "Outcome | Judge") -> list[str]:
    known = {"train": found.train_invariance, "test": found.test_invariance}
    parts = [f"{100 * value:.2f} % on {name}" for name, value in known.items() if value is not None]
    weaker = found.test_invariance_as_labeled
    as_labeled = "" if weaker is None else f" ({100 * weaker:.2f} % under the weaker views of labeled images)"
    return [f"invariance     {', '.join(parts)}{as_labeled}"] if parts else []
