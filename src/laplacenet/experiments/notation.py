"""Experiments as JSON and as `section.field=value`."""

from typing import Any

from laplacenet.experiments.experiment import Experiment
from laplacenet.runtime import settings
from laplacenet.runtime.settings import override, to_json

__all__ = ["from_json", "override", "to_json"]


def from_json(content: Any, *, source: str) -> Experiment:
    """The experiment of an `experiment.json`; `source` names the file in what is said when it is not one."""
    return settings.from_json(Experiment(), content, source=source)
