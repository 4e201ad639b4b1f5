"""Settings from the data, for whatever was not asked for."""

from collections.abc import Sequence
from dataclasses import replace

from laplacenet.labeling.embeddings import neighbors_for
from laplacenet.labeling.job import Job
from laplacenet.labeling.priors import class_shares
from laplacenet.labeling.settings import LabelingSettings
from laplacenet.runtime.notation import override


def settings_for(job: Job, texts: Sequence[str] = ()) -> LabelingSettings:
    """The job's settings with those that its rows decide, and `section.field=value` texts above all."""
    settings = job.settings
    graph = replace(settings.graph, k=neighbors_for(len(job.collection), len(job.class_names)))
    settings = override(replace(settings, graph=graph), texts)
    class_shares(settings.prior, job.given, len(job.class_names))  # refuses what is no prior before anything is done
    return settings
