"""One of several processes of a run killed with -9 at a random moment: how long the others take to end, and whether
the run goes on.

    python tests/references_kills.py --numbers 0-4 --out kills-a.json      # a shard; about a minute for each number
    python tests/references_kills.py --merge kills-a.json kills-b.json …      # → results/scale/kills.json

Even numbers are runs of two processes, odd ones of three. Numbers below ten run under plain torchrun: all processes
have to end, the command that resumes has to be said, and it has to work. From ten on torchrun may restart them
(`--max-restarts 3`), and the run has to go on by itself from its checkpoint.
"""

import argparse
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from references_processes import environment, start_torchrun
from references_runs import write_bars

from laplacenet.runtime import provenance, write_json
from laplacenet.training.checkpoint import checkpoint_step

OUT = Path(__file__).parents[1] / "results" / "scale" / "kills.json"
TRAIN = (
    "-m laplacenet train bars.npz --labels 9 --seed 3 --out run --device cpu --checkpoint-every 1"
    " --set train.steps=3000 --set train.batch_size=24 --set train.labeled_batch_size=4"
)
FIRST_RESTARTED = 10
LATEST_S = 25.0  # after the processes were started
DEADLINE_S = 45.0
RUN_DEADLINE_S = 400.0


def workers_of(pid: int) -> list[int]:
    """The processes that torchrun has started."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return [int(child) for child in children if b"laplacenet" in Path(f"/proc/{child}/cmdline").read_bytes()]
    except OSError:
        return []


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def wait_for_end(pids: list[int]) -> float:
    """Seconds until none of them is left; infinite after twice the deadline."""
    started_at = time.monotonic()
    while any(map(is_alive, pids)):
        if time.monotonic() - started_at > 2 * DEADLINE_S:
            return float("inf")
        time.sleep(0.05)
    return time.monotonic() - started_at


def kill_once(number: int, folder: Path) -> dict[str, Any]:
    """What became of a run, one of whose processes was killed."""
    draw, n, restarts = random.Random(number), 2 + number % 2, 3 if number >= FIRST_RESTARTED else 0
    write_bars(folder / "bars.npz")
    launcher = start_torchrun(n, TRAIN.split(), folder=folder, options=f"--max-restarts {restarts}")
    try:
        while len(workers := workers_of(launcher.pid)) < n and launcher.poll() is None:
            time.sleep(0.05)
        after_s = draw.uniform(0, LATEST_S)
        time.sleep(after_s)
        has_begun, n_done = (folder / "run" / "experiment.json").exists(), steps_saved(folder)
        workers = workers_of(launcher.pid) or workers
        with contextlib.suppress(ProcessLookupError):
            os.kill(draw.choice(workers), signal.SIGKILL)
        ended_s = wait_for_end([*workers, *([] if restarts else [launcher.pid])])
        found = {"number": number, "processes": n, "after_s": round(after_s, 1), "ended_s": round(ended_s, 2)}
        if restarts:
            return found | {"restarts": restarts, "goes_on": goes_beyond(n_done, folder)}
    finally:
        end(launcher)
    said = (folder / "torchrun.log").read_text()
    is_said = "train --resume run" in said or not has_begun or is_finished(folder)
    return found | {"restarts": 0, "is_command_said": is_said, "goes_on": is_finished(folder) or resumes(folder)}


def steps_saved(folder: Path) -> int:
    return checkpoint_step(folder / "run" / "checkpoint")


def goes_beyond(n_steps: int, folder: Path) -> bool:
    """Whether the processes that torchrun started again save more steps than there were."""
    ends_at = time.monotonic() + RUN_DEADLINE_S
    while steps_saved(folder) <= n_steps and time.monotonic() < ends_at:
        time.sleep(0.2)
    return steps_saved(folder) > n_steps


def end(launcher: "subprocess.Popen[bytes]") -> None:
    """As a scheduler would, so that torchrun ends its processes, too."""
    launcher.terminate()
    try:
        launcher.wait(timeout=2 * DEADLINE_S)
    except subprocess.TimeoutExpired:
        launcher.kill()
        launcher.wait()


def is_finished(folder: Path) -> bool:
    return (folder / "run" / "final.json").exists()


def resumes(folder: Path) -> bool:
    """Whether the run goes on by a single process; one that never began has nothing to go on with."""
    if not (folder / "run" / "experiment.json").exists():
        return True
    command = [sys.executable, "-m", "laplacenet", "train", "--resume", "run", "--for", "10s"]
    ended = subprocess.run(
        command, cwd=folder, env=environment(), capture_output=True, timeout=RUN_DEADLINE_S, check=False
    )
    return ended.returncode in (0, 3)


def is_right(found: dict[str, Any]) -> bool:
    return bool(found["ended_s"] <= DEADLINE_S and found["goes_on"] and found.get("is_command_said", True))


def merge(shards: list[Path]) -> dict[str, Any]:
    kills = sorted((kill for path in shards for kill in json.loads(path.read_text())), key=lambda one: one["number"])
    return {
        "n": len(kills),
        "n_right": sum(map(is_right, kills)),
        "longest_s": max(kill["ended_s"] for kill in kills),
        "deadline_s": DEADLINE_S,
        "kills": kills,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--numbers", default="0-19")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--merge", type=Path, nargs="+")
    asked = parser.parse_args()
    if asked.merge:
        write_json(asked.out or OUT, provenance(torch.device("cpu")) | merge(asked.merge))
        return
    first, _, last = asked.numbers.partition("-")
    done: list[dict[str, Any]] = []
    for number in range(int(first), int(last or first) + 1):
        with tempfile.TemporaryDirectory() as folder:
            found = kill_once(number, Path(folder))
            if not is_right(found):
                found["log"] = (Path(folder) / "torchrun.log").read_text()[-8000:]
            done.append(found)
        print(json.dumps(done[-1]), flush=True)
        asked.out.write_text(json.dumps(done))


if __name__ == "__main__":
    main()
