"""Where a step finds its images: all of them on the device, or those of the coming steps, streamed from the host."""

import sys
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Int64
from torch import Tensor

STAGE_BYTES = 64 * 2**20
"""Of inputs that are streamed together: some 20 000 images of 32 px, 400 of 224 px."""


@runtime_checkable
class Supply(Protocol):
    """`stage` makes the inputs of some rows available in `buffer` and says in which slots they lie.

    `inputs` are all of them, wherever they lie.
    """

    inputs: Tensor
    buffer: Tensor

    def steps_at_once(self, batch_size: int) -> int:
        """How many steps' rows can be staged together."""
        ...

    def stage(self, rows: Int64[Tensor, "steps b"]) -> Int64[Tensor, "steps b"]: ...


class Resident:
    """Everything lies on the device; a row is its own slot."""

    def __init__(self, inputs: Tensor, device: torch.device) -> None:
        self.inputs = self.buffer = inputs.to(device)

    def steps_at_once(self, batch_size: int) -> int:
        return sys.maxsize

    def stage(self, rows: Int64[Tensor, "steps b"]) -> Int64[Tensor, "steps b"]:
        return rows


class Streamed:
    """The inputs stay on the host (a memory-mapped cache); a block's rows travel through pinned memory.

    The copy runs on a stream of its own while earlier steps are still computing, into fresh memory; only its move into
    the buffer, which those steps read, waits for them.
    """

    def __init__(self, inputs: Tensor, device: torch.device, *, stage_bytes: int = STAGE_BYTES) -> None:
        self.inputs = inputs
        self.capacity = max(1, stage_bytes // max(1, inputs[:1].nbytes))
        self.buffer = torch.empty((self.capacity, *inputs.shape[1:]), dtype=inputs.dtype, device=device)
        self._copies = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

    def steps_at_once(self, batch_size: int) -> int:
        """At least one: a batch larger than what is staged gets a larger buffer."""
        if batch_size > self.capacity:
            self.capacity = batch_size
            self.buffer = self.buffer.new_empty((batch_size, *self.inputs.shape[1:]))
        return self.capacity // batch_size

    def stage(self, rows: Int64[Tensor, "steps b"]) -> Int64[Tensor, "steps b"]:
        chosen = torch.empty((rows.numel(), *self.inputs.shape[1:]), dtype=self.inputs.dtype, pin_memory=True)
        torch.index_select(self.inputs, 0, rows.flatten(), out=chosen)
        with torch.cuda.stream(self._copies):
            arrived = chosen.to(self.buffer.device, non_blocking=True)
        current = torch.cuda.current_stream(self.buffer.device)
        current.wait_stream(self._copies)
        arrived.record_stream(current)
        self.buffer[: len(arrived)].copy_(arrived)
        return torch.arange(rows.numel()).reshape(rows.shape)


def supply_for(inputs: Tensor, device: torch.device, *, resident_bytes: int | None) -> Supply:
    """Resident if the inputs fit, else streamed."""
    return Resident(inputs, device) if fits(inputs, device, resident_bytes) else Streamed(inputs, device)


def resident(inputs: Tensor, device: torch.device, *, resident_bytes: int | None) -> Tensor:
    """The inputs on the device if they fit, else as they are."""
    return inputs.to(device) if fits(inputs, device, resident_bytes) else inputs


def fits(inputs: Tensor, device: torch.device, resident_bytes: int | None) -> bool:
    """Into `resident_bytes`, by default half of the GPU's free memory."""
    if device.type == "cpu":
        return True
    return inputs.nbytes <= (torch.cuda.mem_get_info(device)[0] // 2 if resident_bytes is None else resident_bytes)
