"""One optimization step: gather → views → loss → backward → optimizer → whatever the method does after it.

On a GPU a step is captured once for each phase and shape and from then on only replayed: nothing in it depends on the
host. A counter on the device selects the step's row of a block that was drawn ahead.
"""

import contextlib
import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from laplacenet.augment import shrunk
from laplacenet.runtime import InputError, current_group, mixed_precision
from laplacenet.runtime.kernels import rehearsing
from laplacenet.runtime.sharing import Share, shared_step, sharing
from laplacenet.runtime.timeline import CAPTURING, LOADING, STEPS, mark
from laplacenet.training.method import LR, Batch, Block, EpochPlan, Method, row_divider
from laplacenet.training.optimizers import optimizer_tensors, set_learning_rate
from laplacenet.training.pending_steps import PendingSteps, mark_now
from laplacenet.training.supply import Supply, supply_for

BLOCK_STEPS = 64  # steps drawn ahead at once
WARM_UP_STEPS = 3  # before a capture: compilation and the choice of convolution algorithms


@dataclass(frozen=True)
class Execution:
    """Where and how steps run, and how often a run is saved and judged; nothing here changes what it learns.

    A checkpoint comes when `checkpoint_every_s` have passed, within a long epoch too. Epochs are tested after every
    `judge_every`-th and after the last. The rest concerns GPUs only: `capture` replays a step as one graph, and
    `compile` hands the loss to torch's compiler in place of some of our kernels, which takes 25 s. `resident_bytes`
    limits the data held on the device (by default half of its free memory); what is larger is streamed.
    """

    device: torch.device
    compile: bool = False
    capture: bool = True
    resident_bytes: int | None = None
    checkpoint_every_s: float = 60.0
    judge_every: int = 1

    @property
    def compiles(self) -> bool:
        return self.compile and self.device.type == "cuda"

    @property
    def captures(self) -> bool:
        return self.capture and self.device.type == "cuda"


@dataclass(frozen=True)
class Sums:
    """Over an epoch's steps so far: of the loss, and of the shares of guesses that count."""

    n_steps: int = 0
    loss: float = 0.0
    used_guesses: float = 0.0


class Stepper:
    """Takes steps with a learner and keeps what a step changes beside it: the optimizer's state, and sums so far.

    These are of the loss and of the shares of guesses that count.
    """

    def __init__(self, method: Method, learner: nn.Module, inputs: Tensor, *, execution: Execution) -> None:
        self.method, self.learner, self.device = method, learner, execution.device
        self.supply: Supply = supply_for(inputs, self.device, resident_bytes=execution.resident_bytes)
        self.optimizer = method.optimizer(learner)
        self.loss_sum = torch.zeros((), device=self.device)
        self.used_guesses = torch.zeros((), device=self.device)
        self.compile_s = 0.0
        self._phase = ""
        self._memory: dict[str, Tensor] = {}
        self._tables: dict[str, Tensor] = {}
        self._loss: Callable[..., Tensor] = (
            torch.compile(self._precise_loss, dynamic=False) if execution.compiles else self._precise_loss
        )
        self.group = current_group()
        if self.group.reduces and execution.compiles:
            raise InputError("--compile works in a single process only; leave it out")
        self._share: Share | None = None
        self._captures, self._compiles = execution.captures, execution.compiles
        self._captured: dict[Any, CapturedStep] = {}
        self._pending = PendingSteps()
        self._ahead: tuple[EpochPlan, Block] | None = None

    def release(self) -> None:
        """Free the captured graphs now: a garbage collection would do it at any moment and in any thread."""
        self._captured.clear()

    def draw(self, plan: EpochPlan, first_step: int, n_steps: int) -> Block:
        """The block as the method draws it; what was drawn ahead for the same steps and rows is not drawn again."""
        ahead, self._ahead = self._ahead, None
        if ahead is not None and first_step == plan.first_step and plan.draws_like(ahead[0]):
            return ahead[1]
        return self.method.draw(plan, first_step, n_steps)

    def draw_ahead(self, plan: EpochPlan | None) -> None:
        """The first block of the epoch to come, if this is its plan, while the device is busy with the last steps."""
        if plan is not None:
            block = self.method.draw(plan, plan.first_step, min(BLOCK_STEPS, plan.n_steps))
            self._ahead = plan, block if self.is_on_host else block.map(Tensor.pin_memory)

    def begin(self, plan: EpochPlan) -> None:
        """Put the epoch's tables where steps find them: into the same memory as before, which captured steps read."""
        self._phase = plan.phase
        for name, values in plan.tables.items():
            if name not in self._memory:
                self._memory[name] = torch.empty(values.shape, dtype=values.dtype, device=self.device)
        self._tables = {name: self._memory[name].copy_(values) for name, values in plan.tables.items()}

    def run(self, block: Block) -> Iterator[None]:
        """Take the block's steps one after another; yields after each (on a GPU, once it is under way)."""
        if len(block.sources) < 2:
            raise InputError("a batch of one view cannot be normalized; give at least two")
        block = self._own(block)
        at_once = self.supply.steps_at_once(block.rows.shape[1])
        for first in range(0, len(block), at_once):
            piece = block.steps(first, first + at_once)
            slots = self.supply.stage(piece.rows)
            yield from self._replay(piece, slots) if self._captures else self._run_eagerly(piece, slots)

    def _own(self, block: Block) -> Block:
        """This process's rows of the block, which every process has drawn, if the method can divide them."""
        divider, n_rows = row_divider(self.method), block.rows.shape[1]
        self._share = None
        if divider is None or not self.group.reduces or n_rows < self.group.size:
            return block
        own = self.group.part(n_rows)
        shared = divider.share(block, own)
        if shared is None:
            return block
        self._share = Share(len(own), n_rows)
        return shared

    def _run_eagerly(self, block: Block, slots: Tensor) -> Iterator[None]:
        here, slots = block.to(self.device), slots.to(self.device)
        mark(LOADING)
        for i in range(len(block)):
            self._take(here, slots, torch.tensor([i], device=self.device))
            yield
        mark(STEPS)

    def _replay(self, block: Block, slots: Tensor) -> Iterator[None]:
        address = self.supply.buffer.data_ptr()  # a larger batch of streamed inputs gets another buffer
        key = (self._phase, block.shape, tuple(self._tables), address)
        captured = self._captured.get(key)
        if captured is None:
            captured = self._captured[key] = self._capture(block, slots)
        captured.load(block, slots)
        mark(LOADING)
        for _ in range(len(block)):
            captured.replay()
            if self.group.reduces:
                self._pending.add(mark_now())
            yield
        mark(STEPS)
        # where processes share steps, a block stays ahead of the device; alone, only its own queue limits the host
        self._pending.wait(at_most=BLOCK_STEPS)

    def wait(self) -> None:
        """For the steps under way; where other processes have a part in them, no longer than the deadline."""
        self._pending.wait()

    @property
    def is_on_host(self) -> bool:
        return self.device.type == "cpu"

    def is_known_to_diverge(self) -> bool:
        """Looked at after every step on a CPU; a GPU would have to be waited for, so there it is not known."""
        return self.is_on_host and not math.isfinite(float(self.loss_sum))

    def put_sums(self, sums: Sums) -> None:
        """Go on from those of the epoch's earlier steps: added up in the same order, they have the same bits."""
        self.loss_sum.fill_(sums.loss)
        self.used_guesses.fill_(sums.used_guesses)

    def read_sums(self, n_steps: int) -> tuple[Sums, float, float]:
        """The sums over so many steps, and the means of loss and used guesses. The device is read once."""
        sums = torch.stack([self.loss_sum, self.used_guesses])
        loss_sum, used_sum, loss, used = torch.cat([sums, sums / max(1, n_steps)]).tolist()
        return Sums(n_steps, loss_sum, used_sum), loss, used

    def optimizer_state(self) -> dict[str, Tensor]:
        return optimizer_tensors(self.optimizer, self.learner)

    def _take(self, block: Block, slots: Tensor, i: Tensor) -> None:
        """The step itself, number `i` of the block."""
        rows, parameters, draws = block.at(i)
        shown = slots.index_select(0, i)[0].index_select(0, block.sources)
        views = self.method.views.make(self.supply.buffer, shown, parameters)
        views = views if block.scale == 1 else shrunk(views, block.scale)
        set_learning_rate(self.optimizer, draws[LR])
        self.optimizer.zero_grad(set_to_none=True)
        tables = {name: table.index_select(0, rows) for name, table in self._tables.items()}
        with shared_step(self.group.reduces), sharing(self._share):
            with two_inputs_a_pass():  # out here: what is inside of `_loss` may be compiled
                loss = self._loss(views, rows, block.n_labeled, tables, draws, self.used_guesses)
            require_one_number(loss, self.method)
            if self._share is not None:
                loss = loss * (self._share.own / self._share.total)
            elif self.group.reduces:
                loss = loss / self.group.size
            loss.backward()  # type: ignore[no-untyped-call]
        if self.group.reduces:
            loss = self._sum_gradients(loss)
        self.optimizer.step()
        with torch.no_grad(), shared_step(self.group.reduces):
            self.method.after_step(self.learner, Batch(views, rows, block.n_labeled, tables, draws))
        self.loss_sum += loss.detach()

    def _sum_gradients(self, loss: Tensor) -> Tensor:
        """Every process's gradients and loss become the sums of all, in one message, whose parts they then are.

        Gradients are laid side by side as they lie in memory, channels last or not: no other copy is made of them.
        """
        gradients = {p: without_gaps(p.grad) for p in self.learner.parameters() if p.grad is not None}
        parts = [*map(in_memory_order, gradients.values()), loss.detach().view(1)]
        sums = torch.split(self.group.sum_(torch.cat(parts)), [len(part) for part in parts])
        for (parameter, gradient), total in zip(gradients.items(), sums[:-1], strict=True):
            parameter.grad = total.as_strided(gradient.shape, gradient.stride())
        return sums[-1].view(())

    def _precise_loss(
        self,
        views: Tensor,
        rows: Tensor,
        n_labeled: int,
        tables: Mapping[str, Tensor],
        draws: Mapping[str, Tensor],
        used_guesses: Tensor,
    ) -> Tensor:
        with mixed_precision(self.device):
            return self.method.loss(self.learner, Batch(views, rows, n_labeled, tables, draws, used_guesses))

    def _capture(self, block: Block, slots: Tensor) -> "CapturedStep":
        """Warm up, capture, and put everything back as it was: a capture takes no step."""
        started_at = time.perf_counter()
        state = [*self.learner.parameters(), *self.learner.buffers(), *self.optimizer_state().values()]
        state += [self.loss_sum, self.used_guesses]
        before = [tensor.detach().clone() for tensor in state]
        # beside NCCL's watchdog thread, which asks the device for events, only this thread's calls may break a capture
        mode = "thread_local" if self.group.reduces else "global"
        captured = CapturedStep(
            block, slots, self.device, take=self._take, error_mode=mode, rehearses=not self._compiles
        )
        with torch.no_grad():
            for tensor, value in zip(state, before, strict=True):
                tensor.copy_(value)
        torch.cuda.synchronize(self.device)
        self.compile_s += time.perf_counter() - started_at
        mark(CAPTURING)
        return captured


@contextlib.contextmanager
def two_inputs_a_pass() -> Iterator[None]:
    """Turn torch's error about a single value per channel into one that names the settings to change."""
    try:
        yield
    except ValueError as error:
        if "more than 1 value per channel" not in str(error):
            raise
        remedy = "give train.labeled_batch_size at least 2, and train.batch_size 2 more"
        raise InputError(f"one input alone in a pass of the network cannot be normalized; {remedy}") from error


def require_one_number(loss: Any, method: Method) -> None:
    """Looks at what the host knows: a captured step is not waited for."""
    name = f"{type(method).__name__}.loss"
    if not isinstance(loss, Tensor):
        raise InputError(f"{name} returned {type(loss).__name__}; it must return a tensor with one number")
    if loss.shape:
        raise InputError(f"{name} has shape {tuple(loss.shape)}; it must give one number, such as the mean")
    if not loss.requires_grad:
        raise InputError(f"{name} does not depend on the network's weights; it is detached or constant")


def without_gaps(x: Tensor) -> Tensor:
    """The tensor itself where it fills its memory, channels last or not; torch lays out gradients as parameters are."""
    is_dense = x.is_contiguous() or (x.ndim == 4 and x.is_contiguous(memory_format=torch.channels_last))
    return x if is_dense else x.contiguous()


def in_memory_order(x: Tensor) -> Tensor:
    """A tensor without gaps as the row of numbers that it is in memory."""
    return x.detach().as_strided((x.numel(),), (1,))


class CapturedStep:
    """A step as one replayable graph over static buffers that hold a block."""

    def __init__(
        self,
        block: Block,
        slots: Tensor,
        device: torch.device,
        *,
        take: Callable[[Block, Tensor, Tensor], None],
        error_mode: str = "global",
        rehearses: bool = True,
    ) -> None:
        def room(tensor: Tensor) -> Tensor:
            return torch.zeros((BLOCK_STEPS, *tensor.shape[1:]), dtype=tensor.dtype, device=device)

        self.block, self.slots = block.to(device).map(room), room(slots)
        self.counter = torch.zeros(1, dtype=torch.int64, device=device)
        self.load(block, slots)
        side = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        side.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(side):
            if rehearses:
                with rehearsing(side):
                    take(self.block, self.slots, self.counter)
            for _ in range(WARM_UP_STEPS):
                take(self.block, self.slots, self.counter)
        torch.cuda.current_stream(device).wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, capture_error_mode=error_mode):
            take(self.block, self.slots, self.counter)
            self.counter += 1

    def load(self, block: Block, slots: Tensor) -> None:
        """The next block, through pinned memory: the host does not wait, and the steps under way finish first."""
        for static, fresh in zip([*self.block.tensors(), self.slots], [*block.tensors(), slots], strict=True):
            static[: len(fresh)].copy_(fresh.pin_memory(), non_blocking=True)
        self.counter.zero_()

    def replay(self) -> None:
        self.graph.replay()
