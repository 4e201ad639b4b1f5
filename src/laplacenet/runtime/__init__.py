"""Named random streams, devices and precision, files that are never half written, progress, provenance."""

from laplacenet.runtime.device import choose_device, mixed_precision
from laplacenet.runtime.errors import InputError
from laplacenet.runtime.random import stream, stream_seed

__all__ = ["InputError", "choose_device", "mixed_precision", "stream", "stream_seed"]
