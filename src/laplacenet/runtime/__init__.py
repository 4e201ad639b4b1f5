"""Named random streams, devices and precision, atomic file writes, run folders, provenance, monitors.

What needs torch is imported when it is first used: the command line checks paths and arguments without waiting for it.
"""

import importlib
from typing import TYPE_CHECKING, Any

from laplacenet.runtime.errors import InputError, LostProcessError, RunError, TimeLimitError
from laplacenet.runtime.files import read_json, read_sealed, read_whole, write_json, write_sealed, write_whole
from laplacenet.runtime.launch import Launch, read_launch
from laplacenet.runtime.monitor import Interruption, Monitor, NullMonitor, TimedMonitor
from laplacenet.runtime.protection import require_apart, require_no_input
from laplacenet.runtime.run_folder import RunFolder

if TYPE_CHECKING:
    from laplacenet.runtime.device import choose_device, compute_dtype, mixed_precision
    from laplacenet.runtime.group import Group, current_group, end_group, entered_by_first, start_group
    from laplacenet.runtime.origin import provenance
    from laplacenet.runtime.random import stream, stream_seed

__all__ = [
    "Group",
    "InputError",
    "Interruption",
    "Launch",
    "LostProcessError",
    "Monitor",
    "NullMonitor",
    "RunError",
    "RunFolder",
    "TimeLimitError",
    "TimedMonitor",
    "choose_device",
    "compute_dtype",
    "current_group",
    "end_group",
    "entered_by_first",
    "mixed_precision",
    "provenance",
    "read_json",
    "read_launch",
    "read_sealed",
    "read_whole",
    "require_apart",
    "require_no_input",
    "start_group",
    "stream",
    "stream_seed",
    "write_json",
    "write_sealed",
    "write_whole",
]

SLOW_TO_IMPORT = {
    "Group": "group",
    "choose_device": "device",
    "compute_dtype": "device",
    "current_group": "group",
    "end_group": "group",
    "entered_by_first": "group",
    "mixed_precision": "device",
    "provenance": "origin",
    "start_group": "group",
    "stream": "random",
    "stream_seed": "random",
}
"""By name: the module here that needs torch or NumPy."""


def __getattr__(name: str) -> Any:
    if name not in SLOW_TO_IMPORT:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{SLOW_TO_IMPORT[name]}"), name)
