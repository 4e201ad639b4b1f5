"""A labeling of embeddings, from its rows to its run folder: seconds, and nothing to resume."""

import time
from dataclasses import replace

from laplacenet.data import VectorSet
from laplacenet.labeling.calibration import FEW
from laplacenet.labeling.embeddings import GraphLabels, label_embeddings
from laplacenet.labeling.findings import labeling_of
from laplacenet.labeling.graph_model import save_graph_model
from laplacenet.labeling.job import Job
from laplacenet.labeling.outcome import write_outcome
from laplacenet.labeling.positions import map_positions
from laplacenet.labeling.result import Account, Calibration, Labeling
from laplacenet.labeling.wording import chosen_prior
from laplacenet.runtime import RunFolder
from laplacenet.training import Execution


def run_on_embeddings(job: Job, folder: RunFolder, *, execution: Execution, started_at: float) -> Labeling:
    """`started_at` is by `time.monotonic`."""
    rows, settings = job.collection.rows, job.settings
    assert isinstance(rows, VectorSet)
    found = label_embeddings(rows.vectors, job.given, settings, class_names=job.class_names, device=execution.device)
    model = found.model(k=settings.graph.k, class_names=job.class_names)
    positions = map_positions(found.points, seed=settings.seed)
    labeling = labeling_of(found.findings, account(job, found), positions, names=job.collection.names, given=job.given)
    predicted = None
    if job.judges is not None and isinstance(job.judges.rows, VectorSet) and not job.are_judges_inside:
        predicted = model.probabilities(job.judges.rows.vectors).argmax(dim=1)
    told = replace(
        labeling.account,
        estimate=job.tested(found.estimate, labeling.labels, predicted),
        elapsed_s=time.monotonic() - started_at,
    )
    labeling = replace(labeling, account=told)
    save_graph_model(folder.path, model)
    write_outcome(folder, labeling, job)
    return labeling


def account(job: Job, found: GraphLabels) -> Account:
    return Account(
        title=job.settings.name,
        kind="embeddings",
        class_names=job.class_names,
        prior=found.answer.prior,
        choices=choices(job),
        notes=(*job.notes, *found.notes(), *calibration_notes(found.calibration)),
        estimate=found.estimate,
        calibration=found.calibration,
        n_skipped=len(job.collection.skipped),
        is_complete=True,
        elapsed_s=0.0,
    )


def choices(job: Job) -> tuple[str, ...]:
    rows = job.collection.rows
    assert isinstance(rows, VectorSet)
    n, d = rows.vectors.shape
    return (
        f"Embeddings of {d} numbers: the graph alone labels them, no network is trained.",
        f"Each of the {n} rows is joined to its {job.settings.graph.k} most similar ones, by the cosine of their angle:"
        " 50, fewer where a class has few rows.",
        chosen_prior(job.settings.prior),
    )


def calibration_notes(calibration: Calibration | None) -> list[str]:
    if calibration is None:
        return ["no label could be hidden, so confidences are the graph's own and not calibrated"]
    if calibration.n < FEW:
        return [f"confidences are calibrated on {calibration.n} labels only, which say little"]
    return []
