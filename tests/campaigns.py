"""The long campaigns of random cases, cut into shards: run as a script, without pytest.

    python tests/campaigns.py all --processes 16 --into shards       # every campaign, in so many processes
    python tests/campaigns.py run damaged-reads --cases 0:250 --seed 7 --into shards
    python tests/campaigns.py merge shards                           # into results/reliability.json

A shard writes its counts, and all that its failures said, after every case: cut off, it keeps what it has.
"""

import argparse
import itertools
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from references_campaign import Campaign
from references_changed_inputs import changed_inputs
from references_damaged_reads import damaged_reads
from references_picture_bombs import picture_bombs
from references_review_journal import review_journal

from laplacenet.runtime import provenance, read_json, write_json

RECORD = Path(__file__).parents[1] / "results" / "reliability.json"
SEED = 20261116
Cases = Callable[[Random], str]


@dataclass(frozen=True)
class Plan:
    """A campaign: what makes its cases in an empty folder, how many, and how many a shard takes."""

    make: Callable[[Path], AbstractContextManager[Cases]]
    n: int
    shard: int


CAMPAIGNS = {
    "changed-inputs": Plan(changed_inputs, 200, 20),
    "damaged-reads": Plan(damaged_reads, 1000, 125),
    "picture-bombs": Plan(picture_bombs, 500, 125),
    "review-journal": Plan(review_journal, 1000, 500),
}


def run(name: str, cases: range, *, seed: int, into: Path) -> int:
    """One shard; gives its exit code."""
    torch.set_num_threads(1)
    campaign, began_at = Campaign(name, seed), time.monotonic()
    into.mkdir(parents=True, exist_ok=True)
    path = (into / f"{name}-{cases.start:04d}-{cases.stop:04d}.json").resolve()
    made_by = provenance(torch.device("cpu"))

    def write() -> None:
        about = {"campaign": name, "first": cases.start, "stop": cases.stop, "elapsed_s": time.monotonic() - began_at}
        counts = {"outcomes": dict(campaign.outcomes), "failures": campaign.failures}
        write_json(path, {**about, "seed": seed, **counts, "made_by": made_by})

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder, CAMPAIGNS[name].make(Path(folder)) as case:
        campaign.run(case, cases=cases, after_each=write)
    print(f"{path.stem}: {dict(campaign.outcomes)}", *campaign.failures, sep="\n", flush=True)
    return bool(campaign.failures)


def shards_of(names: list[str]) -> Iterator[tuple[str, range]]:
    for name in names:
        plan = CAMPAIGNS[name]
        for first in range(0, plan.n, plan.shard):
            yield name, range(first, min(plan.n, first + plan.shard))


def run_all(names: list[str], *, processes: int, seed: int, into: Path) -> int:
    """All shards, so many at a time, each in a process of its own."""

    def start(shard: tuple[str, range]) -> int:
        name, cases = shard
        words = [__file__, "run", name, "--cases", f"{cases.start}:{cases.stop}", "--seed", str(seed)]
        return subprocess.run([sys.executable, *words, "--into", str(into)], check=False).returncode

    with ThreadPoolExecutor(processes) as pool:
        return max(pool.map(start, shards_of(names)))


def merge(into: Path, record: Path) -> int:
    """All shards below a folder, as one row for each campaign; a campaign that is there replaces its old row."""
    shards = [read_json(path) for path in sorted(into.rglob("*.json"))]
    written = read_json(record) if record.is_file() else {"kind": "reliability", "failures": [], "rows": {}}
    for name in sorted({shard["campaign"] for shard in shards}):
        written["rows"][name.replace("-", " ")] = row_of(name, [one for one in shards if one["campaign"] == name])
        former = f"tests/reliability/test_{name.replace('-', '_')}.py"  # where it was a test of the long tier
        written["failures"] = [test for test in written["failures"] if not test.startswith(former)]
    write_json(record, written)
    return 0


def row_of(name: str, shards: list[dict[str, Any]]) -> dict[str, Any]:
    """The counts of all shards of one campaign, which must be parts of the same cases."""
    seeds = {shard["seed"] for shard in shards}
    ranges = sorted((shard["first"], shard["stop"]) for shard in shards)
    if len(seeds) > 1 or any(one[1] > other[0] for one, other in itertools.pairwise(ranges)):
        sys.exit(f"{name}: shards of several seeds, or with the same cases: {sorted(seeds)}, {ranges}")
    outcomes: Counter[str] = Counter()
    for shard in shards:
        outcomes.update(shard["outcomes"])
    failures = [text for shard in shards for text in shard["failures"]]
    made_by = shards[0]["made_by"]
    about = {key: made_by[key] for key in ("date", "commit", "python", "libraries", "hardware")}
    counts = {"cases": outcomes.total(), "asked": CAMPAIGNS[name].n, **dict(sorted(outcomes.items()))}
    spent = {"shards": len(shards), "elapsed_s": round(sum(shard["elapsed_s"] for shard in shards))}
    return {"seed": seeds.pop(), **counts, **spent, **({"failures": failures} if failures else {}), **about}


def range_of(text: str) -> range:
    if not re.fullmatch(r"\d+:\d+", text):
        raise argparse.ArgumentTypeError("such as 0:100")
    first, stop = map(int, text.split(":"))
    return range(first, stop)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("run", help="one shard of a campaign")
    one.add_argument("name", choices=CAMPAIGNS)
    one.add_argument("--cases", type=range_of, required=True)
    every = commands.add_parser("all", help="all shards of these campaigns, or of all")
    every.add_argument("names", nargs="*", metavar="name", help=", ".join(CAMPAIGNS))
    every.add_argument("--processes", type=int, default=os.cpu_count())
    for command in (one, every):
        command.add_argument("--seed", type=int, default=SEED)
        command.add_argument("--into", type=Path, required=True)
    joined = commands.add_parser("merge", help="shards into the record")
    joined.add_argument("into", type=Path)
    joined.add_argument("--record", type=Path, default=RECORD)
    asked = parser.parse_args()
    if asked.command == "run":
        return run(asked.name, asked.cases, seed=asked.seed, into=asked.into)
    if asked.command == "all":
        return run_all(asked.names or list(CAMPAIGNS), processes=asked.processes, seed=asked.seed, into=asked.into)
    return merge(asked.into, asked.record)


if __name__ == "__main__":
    sys.exit(main())
