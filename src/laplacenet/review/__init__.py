"""The local web app: look at pictures, label them, correct labels; a journal of answers and live propagation.

`laplacenet.review` is this room and also the function that starts it: importing the room must not hide the function.
"""

import importlib
import sys
from types import ModuleType
from typing import Any


class CallableRoom(ModuleType):
    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return importlib.import_module("laplacenet.api").review(*arguments, **options)


sys.modules[__name__].__class__ = CallableRoom
