"""The processes that work on one run: which of them this is, its share of the work, and how they exchange results.

A process is alone unless `start_group` finds `torchrun`'s variables. Alone, nothing here communicates or computes.
"""

import atexit
import contextlib
import pickle
import platform
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
import torch.distributed.nn.functional  # if imported later, its default arguments would keep the process group
from torch import Tensor
from torch.distributed import PrefixStore  # type: ignore[attr-defined] # told to no type checker
from torch.distributed.rendezvous import rendezvous

from laplacenet.runtime.errors import InputError, LostProcessError, RunError, differences
from laplacenet.runtime.launch import read_launch
from laplacenet.runtime.peers import PeerWatch, claim_report, connect, lost, watch_peers

ON_GPUS = "cpu:gloo,cuda:nccl"
CLAIMING_S = 5.0
LONGEST_WAIT = timedelta(days=24)  # one process may work alone for long; torch counts milliseconds in 32 bits

Result = TypeVar("Result")


@dataclass(frozen=True)
class Group:
    """`reduces` says whether there is a process group to communicate in."""

    rank: int = 0
    size: int = 1
    reduces: bool = False

    @property
    def is_first(self) -> bool:
        """The first process owns the run folder, the records and what is said."""
        return self.rank == 0

    def part(self, n: int) -> range:
        """This process's share of n things, consecutive ones."""
        return range(n * self.rank // self.size, n * (self.rank + 1) // self.size)

    def sum_(self, tensor: Tensor) -> Tensor:
        """The sum over all processes, in place."""
        if self.reduces:
            with lost_processes():
                dist.all_reduce(tensor)
        return tensor

    def gather(self, tensor: Tensor) -> Tensor:
        """The rows of all processes one after another; each may have another number of them."""
        if not self.reduces:
            return tensor
        lengths = torch.zeros(self.size, dtype=torch.int64)
        lengths[self.rank] = len(tensor)
        n_rows = [int(length) for length in self.sum_(lengths)]
        padded = tensor.new_zeros((max(n_rows), *tensor.shape[1:]))
        padded[: len(tensor)] = tensor
        parts = [torch.empty_like(padded) for _ in n_rows]
        with lost_processes():
            dist.all_gather(parts, padded)
        return torch.cat([part[:n] for part, n in zip(parts, n_rows, strict=True)])

    def broadcast(self, tensors: Iterable[Tensor]) -> None:
        """The first process's values for all, in place."""
        if self.reduces:
            with lost_processes():
                for tensor in tensors:
                    values = tensor.detach().contiguous()
                    dist.broadcast(values, 0)
                    tensor.detach().copy_(values)

    def agree(self, is_so: bool) -> bool:
        """Whether it is so for any process. Asked on the host: a GPU is not waited for."""
        return is_so if not self.reduces else bool(self.sum_(torch.tensor([int(is_so)]))[0])

    def by_first(self, work: Callable[[], Result]) -> Result:
        """What the first process makes by itself, or the error that it meets, for all."""
        if not self.reduces:
            return work()
        result: Any = None
        error: Exception | None = None
        if self.is_first:
            try:
                with alone():
                    result = work()
            except LostProcessError:
                raise
            except Exception as caught:
                error = caught
        sent = self._send((result, _portable(error)))
        if error is not None:
            raise error
        if not self.is_first:
            result, told = pickle.loads(sent)
            if told is not None:
                raise told
        return result  # type: ignore[no-any-return]

    def _send(self, content: Any) -> bytes:
        """The first process's content for all, through the hosts."""
        data = bytearray(pickle.dumps(content) if self.is_first else b"")
        length = torch.tensor([len(data)])
        with lost_processes():
            dist.broadcast(length, 0)
            buffer = torch.frombuffer(data, dtype=torch.uint8) if data else torch.empty(int(length), dtype=torch.uint8)
            dist.broadcast(buffer, 0)
        return buffer.numpy().tobytes()


ALONE = Group()
_current = ALONE
_watch: PeerWatch | None = None
_n_alone, _lock = 0, threading.Lock()


def current_group() -> Group:
    return ALONE if _n_alone else _current


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """Inside, in all threads, `current_group()` is this process alone: training exchanges nothing."""
    global _n_alone  # noqa: PLW0603 - of this process
    with _lock:
        _n_alone += 1
    try:
        yield
    finally:
        with _lock:
            _n_alone -= 1


def start_group(device: torch.device, *, reduces_alone: bool = False, backend: str | None = None) -> Group:
    """Join the processes that `torchrun` started: gloo between hosts, NCCL between GPUs, unless a `backend` is given.

    A single process stays alone. `reduces_alone` makes it communicate with itself all the same, to try that out. NCCL
    refuses processes that share a GPU; gloo does not, but what it sends cannot be captured.
    """
    global _current  # noqa: PLW0603 - a process belongs to one group
    global _watch  # noqa: PLW0603 - one watch for the group
    launch = read_launch()
    kinds = backend or (ON_GPUS if device.type == "cuda" else "gloo")
    if _current.reduces and kinds == ON_GPUS and dist.get_backend_config() != ON_GPUS:
        raise InputError("--device cuda: these processes have worked together on CPUs before; begin with --device cuda")
    if (launch.size > 1 or reduces_alone) and not _current.reduces:
        if dist.is_initialized():
            raise InputError("torch.distributed is in use already; leave its process group to laplacenet")
        with lost_processes():
            store, rank, size = next(rendezvous("env://"))
            _watch = watch_peers(launch) if launch.size > 1 else None
            # torchrun may keep its store when it restarts the processes: they must not find the addresses of the last
            own = PrefixStore(f"attempt {launch.n_restarts}", store)
            dist.init_process_group(kinds, store=own, rank=rank, world_size=size, timeout=LONGEST_WAIT)
            if _watch is not None:
                _watch.is_connected.set()
        atexit.register(_end_at_exit)
        _current = Group(dist.get_rank(), dist.get_world_size(), reduces=True)
    return _current


def end_group() -> None:
    """Destroy the process group and stop its threads; the others hear no more of this process."""
    global _current  # noqa: PLW0603 - a process belongs to one group
    if _current.reduces:
        _current = ALONE
        if _watch is not None:
            _watch.stop()
        dist.destroy_process_group()


def pause_watch() -> None:
    """The shared work is done for now: processes that end are not missed until there is more of it."""
    if _watch is not None:
        _watch.is_needed.clear()


def _end_at_exit() -> None:
    """A thread of gloo that releases its last tensor while Python shuts down would abort the process. Not after an
    error: NCCL might wait for the other processes, which wait for this one."""
    if not hasattr(sys, "last_value"):
        end_group()


def may_report(error: Exception | None = None) -> bool:
    """Whether this process reports the error that it ends with: of all processes on its machine the first to ask.

    Without `torchrun`, whose store outlives its processes, the first process reports, and the second if that is lost.
    """
    launch = read_launch()
    if not launch.has_store:
        return launch.is_first or (launch.rank == 1 and isinstance(error, LostProcessError))
    try:
        return claim_report(_watch.store if _watch is not None else connect(launch, timeout_s=CLAIMING_S))
    except (RuntimeError, ConnectionError):  # the machine with the store is lost
        return True


def require_same_in_all(known: dict[str, Any]) -> None:
    """Refuse processes that read other data: on another machine the same path may hold something else."""
    group = current_group()
    of_first = group.by_first(lambda: known)
    if known != of_first:
        who = f"process {group.rank} of {group.size}, on {platform.node()}"
        found = differences(known, of_first, whose="the first process")
        raise InputError(f"{who}, has other data or settings than the first: {found}")


@contextlib.contextmanager
def side_by_side() -> Iterator[None]:
    """Processes that share no computation: where one stalls the others end, but one that is done may leave them."""
    global _watch  # noqa: PLW0603 - one watch for all that this process does
    launch = read_launch()
    if launch.size == 1:
        yield
        return
    with lost_processes():
        store, _, _ = next(rendezvous("env://"))  # without torchrun it is in the first process
        _watch = watch_peers(launch)
        _watch.is_connected.set()
    try:
        yield
        if launch.is_first and not launch.has_store:
            _watch.outlast_others()
    finally:
        _watch.leave()
        del store


@contextlib.contextmanager
def entered_by_first(context: contextlib.AbstractContextManager[Any]) -> Iterator[None]:
    """The first process enters the context; the others hear if that fails."""
    with contextlib.ExitStack() as stack:

        def enter() -> None:
            stack.enter_context(context)

        current_group().by_first(enter)
        yield


@contextlib.contextmanager
def lost_processes() -> Iterator[None]:
    """What torch says of a process that is gone, in our words."""
    if _watch is not None:
        _watch.is_needed.set()
    try:
        yield
    except (RuntimeError, ConnectionError) as error:
        raise lost() from error


def _portable(error: Exception | None) -> Exception | None:
    """The error as another process can read it."""
    if error is None or isinstance(error, InputError | RunError | OSError):
        return error
    return RunError(f"the first process failed: {type(error).__name__}")
