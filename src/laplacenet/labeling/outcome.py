"""What a labeling leaves in its run folder."""

from laplacenet.data import ImageSet
from laplacenet.labeling.gallery import save_gallery, shown_rows
from laplacenet.labeling.job import Job
from laplacenet.labeling.result import Labeling, save_labeling
from laplacenet.labeling.table import write_labels
from laplacenet.runtime import RunFolder


def write_outcome(folder: RunFolder, labeling: Labeling, job: Job) -> None:
    """The pictures that its page shows, the labeling for other commands, and the labels for everybody, last."""
    rows = job.collection.rows
    if isinstance(rows, ImageSet):
        shown = shown_rows(labeling)
        save_gallery(folder.path, shown, rows.images[shown])
    save_labeling(folder.path, labeling)
    write_labels(folder.path, labeling)
