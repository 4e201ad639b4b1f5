"""Named random streams, devices and precision, files that are never half written, run folders, provenance, monitors.

Names are imported when they are first used: a command that only checks its arguments must not wait for torch.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from laplacenet.runtime.device import choose_device, mixed_precision
    from laplacenet.runtime.errors import InputError, RunError
    from laplacenet.runtime.files import read_json, read_sealed, read_whole, write_json, write_sealed, write_whole
    from laplacenet.runtime.monitor import Interruption, Monitor, NullMonitor
    from laplacenet.runtime.provenance import provenance
    from laplacenet.runtime.random import stream, stream_seed
    from laplacenet.runtime.run_folder import RunFolder

__all__ = [
    "InputError",
    "Interruption",
    "Monitor",
    "NullMonitor",
    "RunError",
    "RunFolder",
    "choose_device",
    "mixed_precision",
    "provenance",
    "read_json",
    "read_sealed",
    "read_whole",
    "stream",
    "stream_seed",
    "write_json",
    "write_sealed",
    "write_whole",
]
MODULES = {
    "device": ("choose_device", "mixed_precision"),
    "errors": ("InputError", "RunError"),
    "files": ("read_json", "read_sealed", "read_whole", "write_json", "write_sealed", "write_whole"),
    "monitor": ("Interruption", "Monitor", "NullMonitor"),
    "provenance": ("provenance",),
    "random": ("stream", "stream_seed"),
    "run_folder": ("RunFolder",),
}


def __getattr__(name: str) -> Any:
    for module, names in MODULES.items():
        if name in names:
            found = getattr(importlib.import_module(f"laplacenet.runtime.{module}"), name)
            globals()[name] = found  # the module `provenance` would otherwise hide the function
            return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
