"""Reading pickles that hold nothing but lists, strings, numbers and numpy arrays.

A pickle can name any function to be called while it is read, and can hand numpy's own objects a state that breaks them.
So the few names with which an array is pickled are bound to plain records here; arrays are built from the records
afterwards, in the ordinary way. Instructions that would exhaust memory are refused beforehand.
"""

import io
import pickle
import pickletools
import re
from typing import Any

import numpy as np
from jaxtyping import Shaped

from laplacenet.data.names import in_one_line
from laplacenet.runtime import InputError

ARRAY_TYPE = "numpy.ndarray"
_CODE = re.compile(r"[biuf][1248]")


class _NotedDtype:
    """What a pickle says of a dtype: `u1` and the like, and the byte order that its state brings."""

    def __init__(self, code: str | bytes, align: object = 0, copy: object = 1) -> None:
        self.code = code.decode("ascii") if isinstance(code, bytes) else code
        self.order = "="

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        order = state[1]
        self.order = order.decode("ascii") if isinstance(order, bytes) else order

    @property
    def dtype(self) -> np.dtype[Any]:
        if not _CODE.fullmatch(self.code) or self.order not in ("|", "<", ">", "="):
            raise pickle.UnpicklingError("not a dtype of numbers")
        return np.dtype(self.order + self.code)


class _NotedArray:
    """What a pickle says of an array: begun empty, then given its shape, dtype and bytes."""

    def __init__(self, kind: object, shape: object, code: object) -> None:
        self.state: tuple[Any, ...] = ()

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.state = state

    @property
    def array(self) -> Shaped[np.ndarray, "..."]:
        _, shape, noted, is_fortran, content = self.state
        order = "F" if is_fortran else "C"
        return np.frombuffer(content, noted.dtype).reshape(shape, order=order).copy(order="C")  # type: ignore[call-overload,no-any-return]


class _Latin1:
    """How Python 3 spells bytes in protocol 2: latin-1 text to be encoded."""

    __slots__ = ()  # a pickle may set what an object has room for

    def __call__(self, text: str, encoding: str) -> bytes:
        if encoding != "latin1":
            raise pickle.UnpicklingError(f"encoding {encoding!r}")
        return text.encode("latin1")


# numpy renamed `numpy.core` in version 2
ALLOWED: dict[tuple[str, str], Any] = {
    ("numpy", "ndarray"): ARRAY_TYPE,
    ("numpy", "dtype"): _NotedDtype,
    ("numpy.core.multiarray", "_reconstruct"): _NotedArray,
    ("numpy._core.multiarray", "_reconstruct"): _NotedArray,
    ("_codecs", "encode"): _Latin1(),
}


class _ForbiddenNameError(pickle.UnpicklingError):
    """The pickle uses something that an array of images does not need."""


class _ArrayUnpickler(pickle.Unpickler):
    def find_class(self, module_name: str, global_name: str, /) -> Any:
        if (module_name, global_name) not in ALLOWED:
            raise _ForbiddenNameError(in_one_line(f"{module_name}.{global_name}"))
        return ALLOWED[module_name, global_name]


def _require_thrift(pickled: bytes) -> None:
    """A memo slot with a large number allocates all slots below it, however few are filled."""
    for instruction, argument, _ in pickletools.genops(pickled):
        is_slot = instruction.name in ("PUT", "BINPUT", "LONG_BINPUT")
        if is_slot and isinstance(argument, int) and argument > len(pickled):
            raise pickle.UnpicklingError(f"memo slot {argument}")


def read_array_pickle(pickled: bytes, *, where: str) -> dict[str, Any]:
    """The dictionary in `pickled`, its keys as text; Python 2 strings come back as bytes."""
    try:
        _require_thrift(pickled)
        content = _ArrayUnpickler(io.BytesIO(pickled), encoding="bytes").load()
        found = {_text(key): _made(value) for key, value in content.items()} if isinstance(content, dict) else None
    except _ForbiddenNameError as error:
        raise InputError(f"{where}: refused, its pickle asks for {error}; only numpy arrays are read") from error
    except Exception as error:  # a damaged pickle is a random program: it can fail in any way
        raise InputError(f"{where}: damaged or cut off ({type(error).__name__}); fetch it again") from error
    if found is None:
        raise InputError(f"{where}: holds a {type(content).__name__}; expected a dictionary")
    return found


def _text(key: object) -> str:
    return key.decode("latin1") if isinstance(key, bytes) else str(key)


def _made(value: object) -> object:
    return value.array if isinstance(value, _NotedArray) else value
