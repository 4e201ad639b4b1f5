"""Reading pickles that hold nothing but lists, strings, numbers and numpy arrays.

A pickle can name any function to be called while it is read. Only the names with which numpy rebuilds an array are
known here, and each only does that; instructions that would fill memory with nothing are refused beforehand.
"""

import io
import pickle
import pickletools
from collections.abc import Callable
from typing import Any

import numpy as np

from laplacenet.runtime import InputError


def _latin1_bytes(text: str, encoding: str) -> bytes:
    """How Python 3 spells bytes in protocol 2: latin-1 text to be encoded."""
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"encoding {encoding!r}")
    return text.encode("latin1")


# numpy renamed `numpy.core` in version 2; the function is fetched from an array, so neither spelling is imported
_RECONSTRUCT: Callable[..., Any] = np.empty(0).__reduce__()[0]  # type: ignore[assignment]

# stands for the type that a pickled array names; the type itself could be called, with any shape
_ARRAY_TYPE = "numpy.ndarray"


def _reconstruct(kind: object, shape: object, code: object) -> Any:
    """An array of no length, which is what every array's pickle begins with; its state gives it shape and content."""
    if kind is not _ARRAY_TYPE or shape != (0,):
        raise pickle.UnpicklingError("not the beginning of an array")
    return _RECONSTRUCT(np.ndarray, (0,), code)


ALLOWED: dict[tuple[str, str], Any] = {
    ("numpy", "ndarray"): _ARRAY_TYPE,
    ("numpy", "dtype"): np.dtype,
    ("numpy.core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy._core.multiarray", "_reconstruct"): _reconstruct,
    ("_codecs", "encode"): _latin1_bytes,
}


class _ForbiddenNameError(pickle.UnpicklingError):
    """The pickle asks for something that an array of images does not need."""


class _ArrayUnpickler(pickle.Unpickler):
    def find_class(self, module_name: str, global_name: str, /) -> Any:
        if (module_name, global_name) not in ALLOWED:
            raise _ForbiddenNameError(f"{module_name}.{global_name}")
        return ALLOWED[module_name, global_name]


def _require_thrift(pickled: bytes) -> None:
    """A pickle that numbers a slot of its memo makes room for all slots below it, however few it fills."""
    for instruction, argument, _ in pickletools.genops(pickled):
        is_slot = instruction.name in ("PUT", "BINPUT", "LONG_BINPUT")
        if is_slot and isinstance(argument, int) and argument > len(pickled):
            raise pickle.UnpicklingError(f"memo slot {argument}")


def read_array_pickle(pickled: bytes, *, where: str) -> dict[str, Any]:
    """The dictionary in `pickled`, its keys as text; Python 2 strings come back as bytes."""
    try:
        _require_thrift(pickled)
        content = _ArrayUnpickler(io.BytesIO(pickled), encoding="bytes").load()
    except _ForbiddenNameError as error:
        raise InputError(f"{where}: refused, its pickle asks for {error}; only numpy arrays are read") from error
    except Exception as error:  # a damaged pickle is a random program: it can fail in any way
        raise InputError(f"{where}: damaged or cut off ({type(error).__name__}); fetch it again") from error
    if not isinstance(content, dict):
        raise InputError(f"{where}: holds a {type(content).__name__}; expected a dictionary")
    return {key.decode("latin1") if isinstance(key, bytes) else str(key): value for key, value in content.items()}
