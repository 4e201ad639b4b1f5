"""How much is measured: everything, or what fits into two minutes on two cores."""

from dataclasses import dataclass
from typing import Any

import torch

from laplacenet.experiments.benchmark.method_steps import MethodCase, own_case
from laplacenet.experiments.benchmark.rows import ON_REQUEST, SECTIONS
from laplacenet.runtime import InputError
from laplacenet.training import METHODS


@dataclass(frozen=True)
class StepCase:
    """A network with the batch that the paper trains it with."""

    model: str
    batch_size: int
    labeled_batch_size: int
    n_classes: int
    n_views: int = 3

    @property
    def name(self) -> str:
        return f"{self.model}, b = {self.batch_size}, {self.n_views} views"


CIFAR100_13_CNN = StepCase("13-cnn", 100, 50, 100)
PAPER_CASES = (
    CIFAR100_13_CNN,
    StepCase("wrn-28-2", 100, 50, 100),
    StepCase("wrn-28-2", 300, 48, 10),
    StepCase("wrn-28-8", 100, 50, 100),
)
CPU_CASES = (StepCase("small-cnn", 100, 50, 10), CIFAR100_13_CNN, StepCase("wrn-28-2", 100, 50, 100))
SMALL_CASES = (StepCase("small-cnn", 20, 10, 10), StepCase("13-cnn", 4, 2, 100))
OWN_CASES = tuple(own_case(method) for method in METHODS)
SMALL_METHOD_CASES = tuple(MethodCase(method, "small-cnn", 24, 8) for method in METHODS)
FIXMATCH_CASE = MethodCase("fixmatch", "wrn-28-2", 512, 64)
SMALL_FIXMATCH_CASE = MethodCase("fixmatch", "wrn-28-2", 8, 2)


@dataclass(frozen=True)
class BenchSettings:
    """`step_rounds` rounds of `steps_a_round` steps of ours, then as many bare ones; a round before them warms up.

    A measurement that has taken `budget_s` seconds repeats itself no more; its row says how often it did. The plain
    loop augments in `loop_workers` processes, by default one for every core.
    """

    sections: tuple[str, ...] = tuple(name for name in SECTIONS if name not in ON_REQUEST)
    cases: tuple[StepCase, ...] = PAPER_CASES
    n_images: int = 50_000
    step_rounds: int = 4
    steps_a_round: int = 64
    view_sides: tuple[int, ...] = (32, 84)
    n_views: int = 30_000
    n_pillow_views: int = 600
    view_rounds: int = 9
    pass_size: int = 50_000
    pass_repeats: int = 5
    propagation_size: int = 50_000
    propagation_repeats: int = 3
    search_sizes: tuple[int, ...] = (100_000, 1_000_000)
    graph_sizes: tuple[int, ...] = (10_000, 100_000, 1_000_000)
    scale_sizes: tuple[int, ...] = (10_000_000,)
    scale_sample: int = 1_000_000
    epoch_model: str = "13-cnn"
    epoch_images: int = 50_000
    epoch_repeats: int = 2
    n_classes: int = 100
    n_labeled: int = 4_000
    k: int = 50
    budget_s: float | None = None
    method_cases: tuple[MethodCase, ...] = OWN_CASES
    method_images: int = 20_000
    method_rounds: int = 3
    method_steps: int = 24
    method_budget_s: float | None = 6.0
    loop_case: MethodCase = FIXMATCH_CASE
    loop_steps: int = 100
    loop_rounds: int = 4
    loop_workers: int | None = None
    part_repeats: int = 50
    part_product: int = 8192
    part_copy_bytes: int = 2**31

    def __post_init__(self) -> None:
        unknown = [name for name in self.sections if name not in SECTIONS]
        if unknown or not self.sections:
            named = repr(unknown[0]) if unknown else "nothing"
            raise InputError(f"--only names {named}; choose some of {','.join(SECTIONS)}, with commas between")
        if not self.graph_sizes or min(self.graph_sizes) <= self.n_classes:
            sizes = ",".join(map(str, self.graph_sizes))
            raise InputError(f"--sizes {sizes}: give whole numbers above {self.n_classes}, such as 10000,100000")


LONG_SECTIONS = ("epochs", "methods", "loop")  # half a minute or more, for those who ask
SMALL_METHODS: dict[str, Any] = {
    "method_cases": SMALL_METHOD_CASES,
    "method_images": 400,
    "method_rounds": 2,
    "method_steps": 2,
    "loop_case": SMALL_FIXMATCH_CASE,
    "loop_steps": 2,
    "loop_rounds": 1,
}
SMALL_PARTS: dict[str, Any] = {"part_repeats": 3, "part_product": 1024, "part_copy_bytes": 2**26}


def full_settings(device: torch.device) -> BenchSettings:
    """Every network of the paper on a GPU; on a CPU fewer, with fewer repeats."""
    if device.type == "cuda":
        return BenchSettings()
    # 2 400 views take 30 MB, as the paper's largest batch does at 84 px. Beyond 32 MB glibc gives back and clears the
    # memory of every batch, which takes a third of the time at 84 px.
    return BenchSettings(
        cases=CPU_CASES,
        step_rounds=5,
        steps_a_round=1,
        n_views=2_400,
        n_pillow_views=300,
        pass_repeats=3,
        scale_sizes=(3_000_000,),
        scale_sample=100_000,
        epoch_model="small-cnn",
        epoch_images=2_000,
        **SMALL_METHODS,
        **SMALL_PARTS,
    )


def quick_settings(device: torch.device) -> BenchSettings:
    """Two minutes on two cores."""
    if device.type == "cuda":
        return BenchSettings(cases=PAPER_CASES[:1], pass_repeats=3, graph_sizes=(10_000, 100_000), epoch_repeats=1)
    return BenchSettings(
        sections=tuple(name for name in SECTIONS if name not in (*LONG_SECTIONS, *ON_REQUEST)),
        cases=SMALL_CASES,
        n_images=5_000,
        step_rounds=5,
        steps_a_round=1,
        n_views=1_500,
        n_pillow_views=100,
        view_rounds=5,
        pass_size=5_000,
        pass_repeats=1,
        propagation_size=5_000,
        propagation_repeats=1,
        search_sizes=(20_000,),
        graph_sizes=(5_000, 20_000),
        scale_sizes=(20_000,),
        scale_sample=5_000,
        epoch_model="small-cnn",
        epoch_images=600,
        epoch_repeats=1,
        n_labeled=1_000,
        budget_s=6.0,
        **SMALL_METHODS,
        **SMALL_PARTS,
    )
