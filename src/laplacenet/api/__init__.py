"""The Python API: what the commands do, as functions that return objects.

    run = laplacenet.label("photos/", labels="labels.csv", time_limit="4m")
    run.labels, run.estimate.accuracy, run.next(20), run.predict(["new/"]), run.report()

Arguments and paths are checked before torch is imported, which takes seconds.
"""

from laplacenet.api.labeling import label
from laplacenet.api.pictures import embed, review
from laplacenet.api.runs import Interrupted, LabelingRun, Suggestion

__all__ = ["Interrupted", "LabelingRun", "Suggestion", "embed", "label", "review"]
