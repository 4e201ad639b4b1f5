"""A labeling of pictures, from its rows to its run folder, in one sitting or several."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

from jaxtyping import Int64
from torch import Tensor

from laplacenet.data import ImageSet
from laplacenet.labeling.calibration import FEW
from laplacenet.labeling.curves import StageEpoch
from laplacenet.labeling.findings import labeling_of
from laplacenet.labeling.label_pass import LabelPass
from laplacenet.labeling.outcome import write_outcome
from laplacenet.labeling.picture_findings import PictureFindings, picture_findings
from laplacenet.labeling.pictures import PictureStages
from laplacenet.labeling.positions import map_positions, principal_components
from laplacenet.labeling.result import Account
from laplacenet.labeling.stage_plan import ESTIMATE
from laplacenet.labeling.stages import Workshop, begin_with
from laplacenet.labeling.timing import REPORTING_S
from laplacenet.models import Inference, Network, save_model


@dataclass(frozen=True, eq=False)
class PictureRun:
    """One sitting.

    `choices` are sentences. `step_s` is what a step takes, None where the number of steps was asked for; `ends_at` is
    when all must be done, by `time.monotonic`; `elapsed_before_s` is the time of earlier sittings.
    """

    workshop: Workshop
    choices: tuple[str, ...]
    step_s: float | None
    ends_at: float | None
    elapsed_before_s: float = 0.0

    def epochs(self) -> Iterator[StageEpoch]:
        """Train what is left to train; afterwards the folder holds what was found, complete or not."""
        ends_at = None if self.ends_at is None else self.ends_at - REPORTING_S
        stages = PictureStages(self.workshop, step_s=self.step_s, ends_at=ends_at)
        previous = None
        for record in stages.epochs():
            if previous == ESTIMATE and record.stage != ESTIMATE:
                self._keep(stages, is_complete=False)  # a power cut must not take it
            previous = record.stage
            yield record
        self._keep(stages, is_complete=stages.are_done)

    def _keep(self, stages: PictureStages, *, is_complete: bool) -> None:
        """Labels, model and account from the last label pass; where there is none yet, one is made now."""
        job, passes = self.workshop.job, stages.passes()
        found = self._last_network(stages, passes.latest)
        if found is None:
            return
        network, latest = found
        told = picture_findings(passes, latest, job.given, class_names=job.class_names)
        features = latest.features
        positions = (
            map_positions(features, seed=job.settings.seed) if is_complete else principal_components(features, 2)[:, :2]
        )
        account = self._account(told, notes=stages.notes, is_complete=is_complete)
        labeling = labeling_of(told.findings, account, positions, names=job.collection.names, given=job.given)
        estimate = job.tested(told.estimate, labeling.labels, self._predicted(network))
        account = replace(account, estimate=estimate, elapsed_s=self._elapsed_s())
        save_model(self.workshop.folder.path, network, self.workshop.description(told.network_temperature))
        write_outcome(self.workshop.folder, replace(labeling, account=account), job)

    def _last_network(
        self, stages: PictureStages, latest: tuple[str, LabelPass] | None
    ) -> tuple[Network, LabelPass] | None:
        """The network that gave the last labels, with them."""
        if latest is None:
            return None if stages.current is None else (stages.current.network, stages.current.look())
        name, found = latest
        network = self.workshop.description().build()
        begin_with(self.workshop, name, network)
        return network, found

    def _predicted(self, network: Network) -> Int64[Tensor, " m"] | None:
        judges = self.workshop.job.judges
        if judges is None or not isinstance(judges.rows, ImageSet) or self.workshop.job.are_judges_inside:
            return None
        inference = Inference(network.to(self.workshop.execution.device), self.workshop.views.plain)
        return inference.logits(judges.rows.images).argmax(dim=1).cpu()

    def _elapsed_s(self) -> float:
        return self.elapsed_before_s + time.monotonic() - self.workshop.started_at

    def _account(self, found: PictureFindings, *, notes: list[str], is_complete: bool) -> Account:
        job = self.workshop.job
        return Account(
            title=job.settings.name,
            kind="pictures",
            class_names=job.class_names,
            prior=found.prior,
            choices=self.choices,
            notes=(*job.notes, *notes, *remarks(found, is_complete=is_complete)),
            estimate=found.estimate,
            calibration=found.calibration,
            n_skipped=len(job.collection.skipped),
            is_complete=is_complete,
            elapsed_s=0.0,
        )


def remarks(found: PictureFindings, *, is_complete: bool) -> list[str]:
    """What should be known of the labels."""
    notes = []
    if not is_complete:
        notes.append("interrupted: these are the labels of the last finished stage, or of the network as it was")
    if found.n_unreachable:
        notes.append(f"no label reaches {found.n_unreachable} pictures over the graph; there the network alone speaks")
    if found.calibration is None:
        notes.append("no labels were kept to calibrate by, so confidences are the network's and the graph's own")
    elif found.calibration.n < FEW:
        notes.append(f"confidences are calibrated on {found.calibration.n} labels only, which say little")
    return notes
