"""Compare methods on the same data, labels and network, for equal minutes or equal steps, with the same tuning.

A comparison is a list of runs in one folder. What to run next follows from what is finished there, so the same command
continues where it stopped, and several processes can share the runs.
"""

from laplacenet.experiments.compare.comparison import Comparison, Tuning, read_comparison, split_name
from laplacenet.experiments.compare.held_out import with_held_out
from laplacenet.experiments.compare.workbench import Workbench
from laplacenet.experiments.finished_runs import ComparedRun, FinishedRun
from laplacenet.experiments.step_times import PhaseTimes, StepTimes

__all__ = [
    "ComparedRun",
    "Comparison",
    "FinishedRun",
    "PhaseTimes",
    "StepTimes",
    "Tuning",
    "Workbench",
    "read_comparison",
    "split_name",
    "with_held_out",
]
