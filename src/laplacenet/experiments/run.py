"""From an experiment to a run folder: train, judge every epoch, record, checkpoint, and leave the model for use."""

import dataclasses
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from laplacenet.data import ImageSet, data_hash
from laplacenet.evaluation import augmentation_invariance, error_rate, pseudo_label_accuracy
from laplacenet.experiments.experiment import Experiment
from laplacenet.experiments.notation import from_json, to_json
from laplacenet.experiments.run_records import FINAL, EpochRecord, Outcome, outcome_of, read_epochs, read_outcome
from laplacenet.experiments.task import Task, prepare
from laplacenet.graph import PseudoLabels
from laplacenet.models import Inference, Network, save_model
from laplacenet.runtime import InputError, Monitor, RunFolder, Silence, provenance
from laplacenet.runtime.run_folder import EXPERIMENT
from laplacenet.training import Epoch, Execution, Position, Run, load_checkpoint, save_checkpoint, train

PROVENANCE = "provenance.json"
CHECKPOINT_EVERY_S = 60.0


def run_experiment(
    experiment: Experiment, folder: RunFolder, *, execution: Execution, monitor: Monitor | None = None
) -> Outcome | None:
    """A whole fresh run in one call; None where the monitor stopped it before its last step."""
    for _ in start_run(prepare(experiment), folder, execution=execution, monitor=monitor):
        pass
    return read_outcome(folder) if folder.has(FINAL) else None


def start_run(
    task: Task, folder: RunFolder, *, execution: Execution, monitor: Monitor | None = None
) -> Iterator[EpochRecord]:
    """A fresh run: yields every epoch once it is recorded, and after the last step the folder holds the outcome.

    The monitor hears of every step and may stop the run between two of them; it can then be resumed.
    """
    with folder.locked():
        network, known_as = task.network(), identity(task)
        start = Position(step=0, epoch=0, plan=None, momentum={})
        folder.write(EXPERIMENT, to_json(task.experiment))
        folder.write(PROVENANCE, provenance(execution.device) | origin(task))
        save_checkpoint(folder.checkpoint, network, start, identity=known_as)
        yield from _Session(task, folder, network, execution, known_as).epochs(start, monitor or Silence())


def resume_run(
    task: Task, folder: RunFolder, *, execution: Execution, monitor: Monitor | None = None
) -> Iterator[EpochRecord]:
    """The folder's run from its checkpoint on, as if it had never stopped; later records are dropped and made again."""
    with folder.locked():
        if folder.has(FINAL):
            raise InputError(f"{folder.path}: this run is finished; there is nothing to resume")
        network, known_as = task.network(), identity(task)
        start = load_checkpoint(folder.checkpoint, network, identity=known_as)
        folder.keep_epochs(folder.epochs(up_to_step=start.step))
        history = folder.read(PROVENANCE)
        folder.write(PROVENANCE, history | {"resumed": [*history.get("resumed", []), provenance(execution.device)]})
        yield from _Session(task, folder, network, execution, known_as).epochs(start, monitor or Silence())


def read_experiment(folder: RunFolder) -> Experiment:
    """The resolved experiment that the folder's run was made from."""
    return from_json(folder.read(EXPERIMENT), source=str(folder.path / EXPERIMENT))


def origin(task: Task) -> dict[str, Any]:
    """What a run's numbers come from, beside code and hardware."""
    parts = {"train": task.dataset.train, "test": task.dataset.test}
    hashes = {name: data_hash(part) for name, part in parts.items() if part is not None}
    return {"seed": task.experiment.seed, "data": {"name": task.dataset.name, **hashes}}


def identity(task: Task) -> dict[str, Any]:
    """What a checkpoint must agree with: every setting, the inputs, and the labels that training sees; no others."""
    settings = {
        f"{section}.{name}" if isinstance(content, dict) else section: value
        for section, content in to_json(task.experiment).items()
        for name, value in (content.items() if isinstance(content, dict) else [("", content)])
    }
    seen = dataclasses.replace(task.dataset.train, labels=task.given_labels, class_names=task.class_names)
    return settings | {"hash of inputs and given labels": data_hash(seen)}


@dataclass(frozen=True)
class _Session:
    """One sitting of a run, from its start or from a checkpoint to its end or to an interruption."""

    task: Task
    folder: RunFolder
    network: Network
    execution: Execution
    identity: dict[str, Any]

    def epochs(self, start: Position, monitor: Monitor) -> Iterator[EpochRecord]:
        elapsed_before_s = max((record.elapsed_s for record in read_epochs(self.folder)), default=0.0)
        inference = Inference(self.network, self.task.views.plain)
        started_at = saved_at = time.perf_counter()
        position, compile_s = start, 0.0
        for epoch, epoch_s in _timed(train(self._run(), start=start, monitor=monitor)):
            inference, position = epoch.inference, epoch.position
            step_s = (epoch_s - epoch.label_s - (epoch.compile_s - compile_s)) / max(1, epoch.n_steps)
            record = dataclasses.replace(
                judged(self.task, epoch),
                step_s=step_s,
                compile_s=epoch.compile_s - compile_s,
                elapsed_s=elapsed_before_s + time.perf_counter() - started_at,
            )
            compile_s = epoch.compile_s
            if epoch.n_steps:
                self.folder.append_epoch(record.to_json())
            if time.perf_counter() - saved_at >= CHECKPOINT_EVERY_S:
                self._save(position)
                saved_at = time.perf_counter()
            if epoch.n_steps:
                yield record
        self._save(position)
        if position.step == self.task.experiment.train.steps:
            self._finish(inference)

    def _run(self) -> Run:
        task = self.task
        return Run(task.method, self.network, task.inputs, task.views, task.experiment.train, self.execution)

    def _save(self, position: Position) -> None:
        save_checkpoint(self.folder.checkpoint, self.network, position, identity=self.identity)

    def _finish(self, inference: Inference) -> None:
        save_model(self.folder.path, self.network, self.task.description)
        invariance = invariances(self.task, inference)
        outcome = dataclasses.replace(
            outcome_of(read_epochs(self.folder), n_labeled=self.task.n_labeled),
            test_error=error_on_test(self.task, inference),
            train_invariance=invariance["train"],
            test_invariance=invariance["test"],
        )
        self.folder.write(FINAL, outcome.to_json())


def judged(task: Task, epoch: Epoch) -> EpochRecord:
    """The epoch with its test error and the accuracy of its pseudo-labels; the session adds its times."""
    return EpochRecord(
        epoch=epoch.index,
        phase=epoch.phase,
        step=epoch.step,
        n_steps=epoch.n_steps,
        is_complete=epoch.is_complete,
        loss=epoch.loss,
        lr=epoch.lr,
        test_error=error_on_test(task, epoch.inference) if epoch.is_complete else None,
        label_s=epoch.label_s,
        step_s=0.0,
        compile_s=0.0,
        elapsed_s=0.0,
        **judged_labels(task, epoch.pseudo_labels),
    )


def judged_labels(task: Task, pseudo_labels: PseudoLabels | None) -> dict[str, Any]:
    """An epoch's pseudo-labels as fields of its record."""
    if pseudo_labels is None:
        fields = ("pseudo_label_accuracy", "is_converged", "n_iterations", "n_unreachable", "recall")
        return dict.fromkeys(fields)
    return {
        "pseudo_label_accuracy": pseudo_label_accuracy(pseudo_labels.labels, task.true_labels, task.given_labels),
        "is_converged": pseudo_labels.is_converged,
        "n_iterations": pseudo_labels.n_iterations,
        "n_unreachable": int(pseudo_labels.unreachable.sum()),
        "recall": pseudo_labels.recall,
    }


def error_on_test(task: Task, inference: Inference) -> float | None:
    """Top-1 on the whole test set; None where there is none, or none of its labels is known."""
    if task.test_inputs is None or task.test_labels is None or not bool((task.test_labels >= 0).any()):
        return None
    return error_rate(inference, task.test_inputs, task.test_labels)


def invariances(task: Task, inference: Inference) -> dict[str, float | None]:
    """V_Z on train and test data; None where there are no images with known labels."""
    parts = {"train": (task.dataset.train, task.true_labels), "test": (task.dataset.test, task.test_labels)}
    found: dict[str, float | None] = {}
    for name, (part, labels) in parts.items():
        if not isinstance(part, ImageSet) or labels is None or not bool((labels >= 0).any()):
            found[name] = None
            continue
        image_set = dataclasses.replace(part, labels=labels, class_names=task.class_names)
        config, seed = task.experiment.augment, task.experiment.seed
        found[name] = augmentation_invariance(inference, image_set, config, seed=seed)
    return found


def _timed(epochs: Iterator[Epoch]) -> Iterator[tuple[Epoch, float]]:
    """Each epoch with the seconds it took, without what its receiver does with it."""
    while True:
        started_at = time.perf_counter()
        epoch = next(epochs, None)
        if epoch is None:
            return
        yield epoch, time.perf_counter() - started_at
