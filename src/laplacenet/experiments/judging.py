"""Evaluate an epoch and the last network by a task's hidden labels."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from jaxtyping import Bool
from torch import Tensor

from laplacenet.augment import AugmentConfig
from laplacenet.data import ImageSet, VectorSet
from laplacenet.evaluation import augmentation_invariance, correct, errors_by_class, pseudo_label_accuracy, share
from laplacenet.experiments.run_records import EpochRecord
from laplacenet.experiments.task import Task
from laplacenet.graph import PseudoLabels
from laplacenet.models import Inference
from laplacenet.training import Epoch, LabelReport, Times


@dataclass(frozen=True, eq=False)
class Judge:
    """The evaluation of a network on a task's data; unaugmented inputs are passed through it once.

    A measure is None where there is nothing to judge by: no test set, no label that is known, no pictures. The task's
    `test_inputs` may be given as they lie on the device: they need not travel for every epoch then.
    """

    task: Task
    inference: Inference
    test_inputs: Tensor | None = None

    @property
    def test_error(self) -> float | None:
        """Top-1 on the whole test set."""
        return None if self._right_on_test is None else share(~self._right_on_test)

    @property
    def test_errors_by_class(self) -> list[float | None]:
        if self._right_on_test is None or self.task.test_labels is None:
            return []
        return errors_by_class(self._right_on_test, self.task.test_labels, n_classes=len(self.task.class_names))

    @property
    def train_invariance(self) -> float | None:
        return self._invariance(self.task.dataset.train, self.task.true_labels, self.task.experiment.augment)

    @property
    def test_invariance(self) -> float | None:
        return self._invariance(self.task.dataset.test, self.task.test_labels, self.task.experiment.augment)

    @property
    def test_invariance_as_labeled(self) -> float | None:
        """Under views of labeled images, which have fewer samples of RandAugment."""
        augment = self.task.experiment.augment
        weaker = replace(augment, n_unlabeled_samples=augment.n_labeled_samples)
        return self._invariance(self.task.dataset.test, self.task.test_labels, weaker)

    @cached_property
    def _right_on_train(self) -> Bool[Tensor, " n_known"] | None:
        return self._right(self.task.inputs, self.task.true_labels)

    @cached_property
    def _right_on_test(self) -> Bool[Tensor, " n_known"] | None:
        inputs = self.task.test_inputs if self.test_inputs is None else self.test_inputs
        return self._right(inputs, self.task.test_labels)

    def _right(self, inputs: Tensor | None, labels: Tensor | None) -> Bool[Tensor, " n_known"] | None:
        if inputs is None or labels is None or not bool((labels >= 0).any()):
            return None
        return correct(self.inference, inputs, labels)

    def _invariance(
        self, part: ImageSet | VectorSet | None, labels: Tensor | None, augment: AugmentConfig
    ) -> float | None:
        if not isinstance(part, ImageSet) or labels is None:
            return None
        is_right = self._right_on_train if part is self.task.dataset.train else self._right_on_test
        if is_right is None:
            return None
        image_set = replace(part, labels=labels, class_names=self.task.class_names)
        seed = self.task.experiment.seed
        return augmentation_invariance(self.inference, image_set, augment, seed=seed, plain=share(is_right))


def judge_epoch(
    task: Task, epoch: Epoch, times: Times, *, test_inputs: Callable[[], Tensor | None], every: int = 1
) -> EpochRecord:
    """The epoch with the accuracy of its pseudo-labels and its times; every so often with a test error."""
    is_due = (epoch.index + 1) % every == 0 or epoch.step == task.experiment.train.steps
    return EpochRecord(
        epoch=epoch.index,
        phase=epoch.phase,
        step=epoch.step,
        n_steps=epoch.n_steps,
        is_complete=epoch.is_complete,
        loss=epoch.loss,
        used_guesses=epoch.used_guesses,
        lr=epoch.lr,
        test_error=Judge(task, epoch.inference, test_inputs()).test_error if epoch.is_complete and is_due else None,
        label_s=epoch.label_s,
        step_s=times.step_s,
        compile_s=times.compile_s,
        elapsed_s=times.elapsed_s,
        **judged_labels(task, epoch.report),
    )


def judged_labels(task: Task, report: Any) -> dict[str, Any]:
    """An epoch's pseudo-labels, if its method makes them, as fields of its record."""
    if not isinstance(report, LabelReport):
        fields = ("pseudo_label_accuracy", "is_converged", "n_iterations", "n_unreachable", "recall")
        return dict.fromkeys(fields)
    pseudo_labels = report.pseudo_labels
    missing = missing_classes(task, pseudo_labels)
    return {
        "pseudo_label_accuracy": pseudo_label_accuracy(pseudo_labels.labels, task.true_labels, task.given_labels),
        "is_converged": pseudo_labels.is_converged,
        "n_iterations": pseudo_labels.n_iterations,
        "n_unreachable": int(pseudo_labels.unreachable.sum()),
        "recall": pseudo_labels.recall,
        "mean_cosine": report.mean_cosine,
        "n_missing_classes": len(missing),
        "missing_class": missing[0] if missing else None,
    }


def missing_classes(task: Task, pseudo_labels: PseudoLabels) -> list[str]:
    """The labeled classes that were assigned to no unlabeled input."""
    is_hidden, n_classes = task.given_labels < 0, len(task.class_names)
    given = task.given_labels[~is_hidden].bincount(minlength=n_classes)
    found = pseudo_labels.labels.cpu()[is_hidden].bincount(minlength=n_classes)
    return [task.class_names[number] for number in ((given > 0) & (found == 0)).nonzero().flatten().tolist()]
