"""What torchrun costs a single process: the same training step with it, without it, and made to send to itself.

    python tests/references_torchrun_step.py --device cuda      # on a GPU that nobody else uses; about a minute
    python tests/references_torchrun_step.py --device cpu --steps 4 --turns 1      # to try it out

Processes take turns, so that a GPU that slows down slows down all. `torchrun` is `torchrun --nproc-per-node 1`, which
sends nothing; `sends` has the statistics and gradients reduced through NCCL (gloo on a CPU) by a group of one. The
record in results/scale holds the median of each turn.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from references_processes import environment, free_port

from laplacenet.experiments.benchmark.clock import intervals_ms
from laplacenet.experiments.benchmark.our_steps import OurSteps
from laplacenet.experiments.benchmark.settings import CIFAR100_13_CNN
from laplacenet.experiments.benchmark.synthetic import random_images
from laplacenet.runtime import end_group, provenance, start_group, write_json
from laplacenet.training import Execution

OUT = Path(__file__).parents[1] / "results" / "scale" / "torchrun-step.json"
KINDS = ("alone", "torchrun", "sends")
N_ROUNDS = 6


def measure(kind: str, device: torch.device, n_steps: int, out: Path) -> None:
    """The median time of a step in this process."""
    start_group(device, reduces_alone=kind == "sends")
    case, n, size = CIFAR100_13_CNN, 20_000, 32
    if device.type == "cpu":
        case, n, size = replace(case, model="small-cnn", batch_size=8, labeled_batch_size=4, n_views=1), 400, 8
    steps = OurSteps(case, random_images(n, size), Execution(device))
    intervals_ms(steps.round(0, n_steps), device)
    taken = [ms for index in range(1, 1 + N_ROUNDS) for ms in intervals_ms(steps.round(index, n_steps), device)]
    out.write_text(json.dumps(statistics.median(taken)))
    end_group()


def measured_apart(kind: str, asked: argparse.Namespace) -> float:
    """In a process of its own."""
    where = f"--nproc-per-node 1 --master-addr 127.0.0.1 --master-port {free_port()}".split()
    launcher = ["-m", "torch.distributed.run", *where] if kind != "alone" else []
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "median"
        options = f"--device {asked.device} --steps {asked.steps} --kind {kind} --out {out}".split()
        command = [sys.executable, *launcher, str(Path(__file__).resolve()), *options]
        threads = os.environ.get("OMP_NUM_THREADS", "1")
        subprocess.run(command, env=environment() | {"OMP_NUM_THREADS": threads}, check=True)
        return float(json.loads(out.read_text()))


def compare(asked: argparse.Namespace) -> dict[str, Any]:
    turns = [{kind: measured_apart(kind, asked) for kind in KINDS} for _ in range(asked.turns)]
    medians = {kind: statistics.median(turn[kind] for turn in turns) for kind in KINDS}
    slower = {kind: round(100 * (medians[kind] / medians["alone"] - 1), 2) for kind in KINDS[1:]}
    return {"step_ms": medians, "percent_slower": slower, "turns": turns, "at_most_percent": 2.0}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--steps", type=int, default=64, help="of a round")
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--kind", choices=KINDS)
    parser.add_argument("--out", type=Path, default=OUT)
    asked = parser.parse_args()
    if asked.kind is not None:
        measure(asked.kind, torch.device(asked.device), asked.steps, asked.out)
        return
    found = compare(asked)
    write_json(asked.out, provenance(torch.device(asked.device)) | found)
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
