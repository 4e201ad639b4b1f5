"""How this process was started: alone, or by `torchrun` as one of several."""

import contextlib
import hashlib
import os
import platform
from dataclasses import dataclass
from pathlib import Path

PROGRAM = "laplacenet"
VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
RESTARTS = "TORCHELASTIC_RESTART_COUNT"
STORE = "TORCHELASTIC_USE_AGENT_STORE"
RUN_ID, NO_ID = "TORCHELASTIC_RUN_ID", "none"
LAUNCH = "launch"


@dataclass(frozen=True)
class Launch:
    """The number of this process among all, their number, its number on its own machine, and past restarts.

    `has_store` says whether the store where the processes meet belongs to `torchrun` and not to the first of them.
    """

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    n_restarts: int = 0
    has_store: bool = False

    @property
    def is_first(self) -> bool:
        return self.rank == 0


def read_launch() -> Launch:
    """From the variables that `torchrun` sets; where any is missing, and for a single process, it is alone."""
    try:
        rank, size, local_rank = (int(os.environ[name]) for name in VARIABLES[:3])
        is_complete = all(name in os.environ for name in VARIABLES)
        n_restarts = int(os.environ.get(RESTARTS, "0"))
    except (KeyError, ValueError):
        return Launch()
    if not is_complete or size == 1:
        return Launch(n_restarts=n_restarts)
    return Launch(rank, size, local_rank, n_restarts, has_store=os.environ.get(STORE) == "True")


def launch_id() -> str | None:
    """What the processes of one `torchrun` on a machine have in common, restarted ones too; None without it.

    Where `--rdzv-id` is given, it is the same on all machines. Otherwise `torchrun` is known by its own process.
    """
    run_id = os.environ.get(RUN_ID)
    if run_id is None:
        return None
    parts = [run_id]
    if run_id == NO_ID:
        parts += [platform.node(), str(os.getppid())]
        with contextlib.suppress(OSError, IndexError):  # where the system tells when a process has begun
            parts.append(Path(f"/proc/{os.getppid()}/stat").read_text().rpartition(")")[2].split()[19])
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def program() -> str:
    """The beginning of a command that resumes a run: the program, under torchrun with as many processes as now."""
    launch = read_launch()
    is_one_machine = os.environ.get("LOCAL_WORLD_SIZE") == str(launch.size)
    if launch.size == 1 or not is_one_machine:
        return PROGRAM
    return f"torchrun --standalone --nproc-per-node {launch.size} -m {PROGRAM}"
