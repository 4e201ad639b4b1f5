"""Which of the package's functions have the shapes in their signatures checked while the tests run."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]


def modules_with_shapes() -> list[str]:
    """Those that name shapes. In the others there are only plain types, which mypy checks."""
    source = ROOT / "src"
    files = [file for file in source.rglob("*.py") if "from jaxtyping import" in file.read_text(encoding="utf-8")]
    return [".".join(file.relative_to(source).with_suffix("").parts).removesuffix(".__init__") for file in files]


def checked(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function inside of another is left alone: it would be compiled anew at every call of the outer one."""
    if "<locals>" in function.__qualname__:
        return function
    from beartype import beartype  # beside a GPU nothing is checked, and it need not be installed

    return beartype(function)
