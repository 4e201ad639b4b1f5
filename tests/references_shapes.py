"""Which of the package's functions have the shapes in their signatures checked while the tests run, and how often."""

import functools
import inspect
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jaxtyping

ROOT = Path(__file__).parents[1]
N_CHECKS = 10
"""Of each function in each test. A check takes some 50 µs; a training run calls some functions ten thousand times."""

calls: Counter[Callable[..., Any]] = Counter()
"""How often each function was called in the current test."""

every_call_checked = jaxtyping.jaxtyped


def check_shapes() -> None:
    """From now on, in modules of the package that are imported."""
    jaxtyping.jaxtyped = first_calls_checked  # the hook decorates with what has this name
    jaxtyping.install_import_hook(modules_with_shapes(), "beartype.beartype")


def modules_with_shapes() -> list[str]:
    """Those that name shapes. In the others there are only plain types, which mypy checks."""
    source = ROOT / "src"
    files = [file for file in source.rglob("*.py") if "from jaxtyping import" in file.read_text(encoding="utf-8")]
    return [".".join(file.relative_to(source).with_suffix("").parts).removesuffix(".__init__") for file in files]


def first_calls_checked(*, typechecker: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator as `jaxtyping.jaxtyped` makes it, with fewer checks.

    A function that names no shapes is left alone, and so is one inside of another: it would be wrapped anew at every
    call of the outer one.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        if inspect.isclass(function):
            return every_call_checked(function, typechecker=typechecker)
        if "<locals>" in function.__qualname__ or "jaxtyping." not in str(inspect.signature(function)):
            return function
        checked = every_call_checked(function, typechecker=typechecker)

        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            calls[checked] += 1
            return (checked if calls[checked] <= N_CHECKS else function)(*args, **kwargs)

        return wrapper

    return decorate
