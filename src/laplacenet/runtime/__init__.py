"""Named random streams, devices and precision, files that are never half written, run folders, provenance, monitors."""

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
