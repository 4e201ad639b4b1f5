"""The time of a step without the kernels of LAPLACENET_NEW_KERNELS, with each of them alone, and with all.

    python tests/references_new_kernels.py --device cuda      # on a GPU that nobody else uses
    python tests/references_new_kernels.py --device cpu --steps 1 --rounds 1 --out try.json     # to try it out

Steps of the preset fast, on whole pictures and on small ones. All are captured first and then take turns, so that a
slower spell of the GPU affects all of them. The record in results/engine holds the median of each round.
"""

import argparse
import os
import statistics
from dataclasses import replace
from pathlib import Path
from typing import get_args

import torch
from torch import Tensor

from laplacenet.augment import AugmentConfig
from laplacenet.experiments.benchmark.clock import intervals_ms
from laplacenet.experiments.benchmark.synthetic import CIFAR_STATISTICS, random_images
from laplacenet.experiments.presets import fast
from laplacenet.models import build_model
from laplacenet.runtime import provenance, write_json
from laplacenet.runtime.device import convolution_trials
from laplacenet.runtime.kernels import NEW_KERNELS, NewKernel
from laplacenet.training import EpochPlan, Execution, ImageViews, Problem, method_class
from laplacenet.training.loop import prepare
from laplacenet.training.methods.base import SEMI_SUPERVISED, TARGETS
from laplacenet.training.step import BLOCK_STEPS, Stepper

OUT = Path(__file__).parents[1] / "results" / "engine" / "new-kernels.json"
KINDS = ("", *get_args(NewKernel), "all")
N_CLASSES, N_LABELED = 100, 4_000


class FastSteps:
    """Steps of the preset with these new kernels."""

    def __init__(self, kind: str, images: Tensor, execution: Execution) -> None:
        experiment, side = fast(), images.shape[-1]
        train, model = experiment.train, experiment.model.name
        if execution.device.type == "cpu":
            train, model = replace(train, batch_size=4, labeled_batch_size=2), "small-cnn"
        labels = torch.arange(len(images)) % N_CLASSES
        given = torch.where(torch.arange(len(images)) < min(N_LABELED, len(images) // 2), labels, -1)
        views = ImageViews(AugmentConfig(), CIFAR_STATISTICS, side, side)
        config = experiment.method
        self.kind, self.n_steps = kind, train.steps
        self.method = method_class(config.name)(Problem(given, N_CLASSES, views), train, config, experiment.graph)
        learner = prepare(self.method.learner(build_model(model, n_classes=N_CLASSES)), execution)
        self.stepper = Stepper(self.method, learner, images, execution=execution)
        self.tables = {TARGETS: labels.to(execution.device)}

    def round_ms(self, n_steps: int, *, is_small: bool) -> list[float]:
        """The variable matters only while a step is captured, in the first round."""
        os.environ[NEW_KERNELS] = self.kind
        first_step = 0 if is_small else self.n_steps - n_steps
        order = self.method.shuffled(self.method.problem.unlabeled, 0)
        plan = EpochPlan(0, SEMI_SUPERVISED, first_step, n_steps, order, self.tables)
        self.stepper.begin(plan)
        block = self.method.draw(plan, first_step, n_steps)
        assert (block.scale < 1) == is_small
        return intervals_ms(self.stepper.run(block), self.stepper.device)


def measured(images: Tensor, execution: Execution, *, n_steps: int, n_rounds: int) -> list[dict[str, object]]:
    steps = [FastSteps(kind, images, execution) for kind in KINDS]
    times: dict[tuple[str, bool], list[float]] = {}
    with convolution_trials(execution.device.type == "cuda"):
        for index in range(1 + n_rounds):  # the first one captures
            for one in steps:
                for is_small in (False, True):
                    taken = one.round_ms(n_steps, is_small=is_small)
                    if index:
                        times.setdefault((one.kind, is_small), []).append(statistics.median(taken))
    return [
        {"new_kernels": kind or "none", "pictures": "small" if is_small else "whole", "rounds_ms": rounds_ms}
        for (kind, is_small), rounds_ms in times.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cuda", "cpu"], required=True)
    parser.add_argument("--steps", type=int, default=BLOCK_STEPS)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--out", type=Path, default=OUT)
    asked = parser.parse_args()
    device = torch.device(asked.device)
    images = random_images(50_000 if device.type == "cuda" else 200, 32)
    rows = measured(images, Execution(device), n_steps=asked.steps, n_rounds=asked.rounds)
    del os.environ[NEW_KERNELS]  # the rows name the kernels
    record = {"kind": "a step of the preset fast with new kernels", "provenance": provenance(device), "rows": rows}
    write_json(asked.out, record)
    for row in rows:
        median = statistics.median(row["rounds_ms"])  # type: ignore[type-var]
        print(f"{row['new_kernels']:16} {row['pictures']:6} {median:7.3f} ms")


if __name__ == "__main__":
    main()
