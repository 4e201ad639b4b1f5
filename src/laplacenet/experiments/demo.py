"""The demonstration: LaplaceNet and the labels alone, on the same few digits, and the record of its seeds."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from laplacenet.evaluation import mean_and_std
from laplacenet.experiments.experiment import Experiment
from laplacenet.experiments.notation import override, to_json
from laplacenet.experiments.presets import digits, supervised_only
from laplacenet.experiments.run_records import Outcome
from laplacenet.experiments.task import Task
from laplacenet.graph import PseudoLabels, pseudo_label
from laplacenet.models import Inference, Network

KIND = "demo"
FIXED = {"method.name": "laplacenet train --method"}


@dataclass(frozen=True)
class Pair:
    """Two experiments that differ in one thing: whether hidden labels are replaced by pseudo-labels."""

    laplacenet: Experiment
    supervised: Experiment


@dataclass(frozen=True)
class PairOutcome:
    """The outcomes of the two with one seed."""

    seed: int
    laplacenet: Outcome
    supervised: Outcome


def demo_pair(seed: int, settings: Sequence[str] = ()) -> Pair:
    """The same network, views, MixUp, steps and labels for both."""
    laplacenet = replace(override(digits(), settings, fixed=FIXED), seed=seed)
    return Pair(laplacenet, supervised_only(laplacenet))


def labels_found(task: Task, network: Network) -> PseudoLabels:
    """The graph's labels of all training images, from the embeddings of a trained network."""
    features = Inference(network, task.views.plain).embed(task.inputs)
    return pseudo_label(features, task.given_labels, task.experiment.graph, n_classes=len(task.class_names))


def means(outcomes: Sequence[PairOutcome]) -> dict[str, tuple[float, float | None]]:
    """Mean and deviation over seeds of both test errors and of the pseudo-labels' accuracy."""
    return {
        "laplacenet_test_error": mean_and_std([_known(outcome.laplacenet.test_error) for outcome in outcomes]),
        "supervised_test_error": mean_and_std([_known(outcome.supervised.test_error) for outcome in outcomes]),
        "pseudo_label_accuracy": mean_and_std(
            [_known(outcome.laplacenet.pseudo_label_accuracy) for outcome in outcomes]
        ),
    }


def demo_record(
    outcomes: Sequence[PairOutcome], *, settings: Sequence[str], provenance: dict[str, Any]
) -> dict[str, Any]:
    """The numbers of all seeds with what made them, as JSON."""
    pair = demo_pair(outcomes[0].seed, settings)
    return {
        "kind": KIND,
        "provenance": provenance,
        "experiments": {"laplacenet": to_json(pair.laplacenet), "supervised": to_json(pair.supervised)},
        "runs": [
            {
                "seed": outcome.seed,
                "laplacenet": outcome.laplacenet.to_json(),
                "supervised": outcome.supervised.to_json(),
            }
            for outcome in outcomes
        ],
        "means": {name: {"mean": mean, "std": std} for name, (mean, std) in means(outcomes).items()},
    }


def _known(value: float | None) -> float:
    assert value is not None, "digits have a test set and hidden labels whose truth is known"
    return value
