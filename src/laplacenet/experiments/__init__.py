"""The paper as programs: experiments, their runs and records, and what they are compared with."""

from laplacenet.experiments.experiment import DataConfig, Experiment
from laplacenet.experiments.notation import from_json, override, to_json
from laplacenet.experiments.run import read_experiment, resume_run, run_experiment, start_run
from laplacenet.experiments.run_records import EpochRecord, Outcome, read_epochs, read_outcome
from laplacenet.experiments.task import Task, prepare

__all__ = [
    "DataConfig",
    "EpochRecord",
    "Experiment",
    "Outcome",
    "Task",
    "from_json",
    "override",
    "prepare",
    "read_epochs",
    "read_experiment",
    "read_outcome",
    "resume_run",
    "run_experiment",
    "start_run",
    "to_json",
]
