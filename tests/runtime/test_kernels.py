"""Kernels that are compiled side by side before they run."""

import threading
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from laplacenet.runtime import kernels
from laplacenet.runtime.kernels import launch, rehearsing

STREAM = SimpleNamespace(device_index=-1)


class FakeKernel:
    """Stands for a Triton kernel, which needs a GPU: notes what is launched and what is only compiled."""

    def __init__(self, together: threading.Barrier | None = None) -> None:
        self.launched: list[Any] = []
        self.compiled: list[Any] = []
        self.together = together

    def __getitem__(self, grid: tuple[int, ...]) -> Any:
        return lambda *arguments, **options: self.launched.append((grid, arguments, options))

    def warmup(self, *arguments: Any, grid: tuple[int, ...], **options: Any) -> Any:
        if self.together is not None:
            self.together.wait(timeout=60)
        self.compiled.append((arguments, options))
        return SimpleNamespace(run=None)


@pytest.fixture
def current(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The stream on which this thread works, which a test may change."""
    streams = [STREAM]
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: streams[-1])
    return streams


def test_a_kernel_runs_where_nothing_is_rehearsed() -> None:
    kernel = FakeKernel()
    launch(kernel, (3,))(1, 2, width=4)
    assert kernel.launched == [((3,), (1, 2), {"width": 4})]


def test_a_rehearsed_kernel_is_compiled_and_not_run(current: list[Any]) -> None:
    kernel = FakeKernel()
    with rehearsing(STREAM):
        launch(kernel, (3,))(1, 2, width=4)
    assert (kernel.launched, kernel.compiled) == ([], [((1, 2), {"width": 4})])
    launch(kernel, (3,))(1)
    assert len(kernel.launched) == 1


def test_work_on_another_stream_goes_on_in_earnest(current: list[Any]) -> None:
    kernel = FakeKernel()
    with rehearsing(STREAM):
        current.append(SimpleNamespace(device_index=-1, name="another"))
        launch(kernel, (1,))()
    assert len(kernel.launched) == 1
    assert not kernel.compiled


def test_different_kernels_are_compiled_at_the_same_time(current: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels.os, "cpu_count", lambda: 3)
    together = threading.Barrier(2)  # each waits for the other
    first, second = FakeKernel(together), FakeKernel(together)
    with rehearsing(STREAM):
        launch(first, (1,))()
        launch(second, (1,))()
    assert len(first.compiled) == len(second.compiled) == 1


def test_what_cannot_be_compiled_fails_when_it_is_launched(current: list[Any]) -> None:
    class Broken(FakeKernel):
        def warmup(self, *arguments: Any, grid: tuple[int, ...], **options: Any) -> Any:
            raise RuntimeError("no such instruction")

    with rehearsing(STREAM):
        launch(Broken(), (1,))()
    assert kernels._open == []
