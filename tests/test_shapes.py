"""Shapes in signatures are checked while the tests run, in the first calls of each test."""

from collections.abc import Callable
from typing import Any

import jaxtyping
import pytest
import torch
from jaxtyping import Float
from references_shapes import N_CHECKS, calls, first_calls_checked

from laplacenet.data import channel_statistics

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="beside a GPU nothing is checked")


def doubled(x: Float[torch.Tensor, "n C"]) -> Float[torch.Tensor, "n C"]:
    return 2 * x


def plain(x: torch.Tensor) -> torch.Tensor:
    return x


def decorated(function: Callable[..., Any]) -> Callable[..., Any]:
    from beartype import beartype

    return first_calls_checked(typechecker=beartype)(function)


def test_a_wrong_shape_is_refused_in_the_package() -> None:
    with pytest.raises(jaxtyping.TypeCheckError):
        channel_statistics(torch.zeros(3, dtype=torch.uint8))


def test_the_first_calls_of_a_test_are_checked() -> None:
    double = decorated(doubled)
    for _ in range(N_CHECKS - 1):
        double(torch.ones(2, 3))
    with pytest.raises(jaxtyping.TypeCheckError):
        double(torch.ones(2))
    assert double(torch.ones(2)).tolist() == [2, 2], "the check after the last one"
    calls.clear()
    with pytest.raises(jaxtyping.TypeCheckError):
        double(torch.ones(2))


def test_a_function_without_shapes_and_one_inside_of_another_are_left_as_they_are() -> None:
    def inner(x: Float[torch.Tensor, "n C"]) -> Float[torch.Tensor, "n C"]:
        return x

    assert decorated(plain) is plain
    assert decorated(inner) is inner
