"""Label vectors by classifier and graph: the user's embeddings, or pictures embedded by a pretrained network."""

import time
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from laplacenet.data import Collection, Skipped, VectorSet, read_judges
from laplacenet.data.collection import ReadingOptions, no_labels
from laplacenet.data.judges import find_judging_pictures, labels_own_rows
from laplacenet.data.label_files import label_paths
from laplacenet.data.pictures import decode_all
from laplacenet.data.walking import PictureFile, find_pictures, nothing_found
from laplacenet.graph.guided import GuidedConfig, GuidedLabels, Landscape, label_landscape, landscape
from laplacenet.graph.transform import RowTransform
from laplacenet.labeling.estimate import FEW, calibrate, estimate_by_folds, shares_to_count
from laplacenet.labeling.evidence import class_shares, score_evidence
from laplacenet.labeling.feature_model import FeatureModel, fit_head, save_feature_model
from laplacenet.labeling.job import Job
from laplacenet.labeling.outcome import LARGEST_SIDE, Findings, labeling_of, map_positions, save_gallery, shown_rows
from laplacenet.labeling.result import SOURCES, Calibration, Estimate, Labeling, Summary, save_labeling, write_labels
from laplacenet.labeling.settings import ESTIMATED, LabelingSettings
from laplacenet.models.features import FeatureNetwork, load_features
from laplacenet.models.features.cache import VectorCache, cache_folder, picture_key
from laplacenet.models.features.embedding import embed_pictures
from laplacenet.models.features.folder import FolderReading, embed_together
from laplacenet.models.features.lite import VARIANTS
from laplacenet.runtime import InputError, Monitor, RunFolder, current_group
from laplacenet.runtime.group import ALONE, Group

FEWER_PIXELS = 160  # half the time of 224; 0.2 to 0.4 points less on CIFAR-100
EMBEDDING_SHARE = 0.8  # of the time left, for which the network's own pixels are kept
TRIED_PER_THREAD = 8  # pictures, to see how long one takes
N_FOLDS, N_FOLDS_OF_MANY = 10, 5
MANY = 50_000  # pictures beyond which a fold takes seconds
SUSPECT_RATIO = 150.0  # how much likelier another of ten classes must be: then 1 correct label in 100 is suspected


@dataclass(frozen=True, eq=False)
class FeatureLabels:
    """The scores of classifier and graph for every row, and their accuracy on held-out labels."""

    land: Landscape
    guided: GuidedLabels
    estimate: Estimate
    calibration: Calibration | None

    @property
    def findings(self) -> Findings:
        finders = torch.full((len(self.guided.labels),), SOURCES.index("graph"), dtype=torch.uint8)
        scores, unseen = self.guided.scores.cpu(), self.guided.unseen.float().cpu()
        least_ratio = suspect_ratio(scores.shape[1])
        return Findings(score_evidence(scores), 1.0, unseen, finders, self.land.X.float().cpu(), least_ratio)


def suspect_ratio(n_classes: int) -> float:
    """How much likelier than the given class another must be to mark a label as suspect; mistakes are spread over all
    classes but the true one.

    With 150 for a hundred classes, 3 correct labels in 100 were suspected.
    """
    return SUSPECT_RATIO * max(1.0, (n_classes - 1) / 9)


def read_feature_job(settings: LabelingSettings, network: FeatureNetwork, monitor: Monitor | None = None) -> Job:
    """The pictures as vectors of this network, with the labels that the settings name."""
    config = settings.collection
    test = None if config.test is None else Path(config.test)
    reading = FolderReading(
        label_files=label_paths(config.labels),
        options=ReadingOptions(leave_out=test, merge_similar_classes=config.merge_classes),
        cache=cache_folder(),
    )
    collection = embed_together(Path(config.pictures).expanduser(), network, reading, monitor=monitor)
    collection = replace(collection, merges_similar_classes=config.merge_classes)
    if config.strict and collection.skipped:
        first: Skipped = collection.skipped[0]
        raise InputError(
            f"{first.path}: {first.reason} (and {len(collection.skipped) - 1} more); --strict refuses them"
        )
    if not bool((collection.labels >= 0).any()):
        raise no_labels(Path(config.pictures))
    return Job(settings, collection, None if test is None else read_test(test, collection, network, monitor))


def read_test(test: Path, collection: Collection, network: FeatureNetwork, monitor: Monitor | None) -> Collection:
    """True labels of the pictures themselves, or another folder of pictures whose sub-folders are the same classes."""
    if not test.is_dir():
        if not labels_own_rows(test):
            raise InputError(f"--test {test}: give a folder of pictures or a file of labels")
        return read_judges(test, collection)
    judging = find_judging_pictures(test, collection)  # before embedding, which takes long: refuse at once
    found = embed_together(test, network, FolderReading(cache=cache_folder()), monitor=monitor)
    assert isinstance(found.rows, VectorSet)
    row_of = {name: row for row, name in enumerate(found.names)}
    kept = [place for place, file in enumerate(judging.files) if file.name in row_of]
    if not kept:
        raise InputError(nothing_found(test, found.skipped))
    names = tuple(judging.files[place].name for place in kept)
    vectors = found.rows.vectors[[row_of[name] for name in names]]
    rows = VectorSet(vectors, judging.labels[kept], judging.class_names)
    return Collection(rows, names, test, found.skipped, judging.notes)


def label_features(
    vectors: Float[Tensor, "n d"],
    given: Int64[Tensor, " n"],
    settings: LabelingSettings,
    *,
    class_names: tuple[str, ...],
    device: torch.device,
    group: Group = ALONE,
) -> FeatureLabels:
    """By the settings' graph, which `settings_for` chooses for vectors; a group shares the search for neighbors."""
    n_folds = N_FOLDS if len(vectors) <= MANY else N_FOLDS_OF_MANY
    prior = None if settings.prior == ESTIMATED else class_shares(settings.prior, given, len(class_names))
    config = GuidedConfig(graph=settings.graph, prior=prior, n_folds=n_folds, seed=settings.seed)
    land = landscape(vectors.to(device), config, group)
    guided = label_landscape(land, given, n_classes=len(class_names), config=config)
    unseen = guided.unseen.float().cpu()
    is_judged = ~unseen.isnan().any(dim=1)
    calibration = calibrate(score_evidence(unseen[is_judged]), given[is_judged])
    shares = guided.prior.float().cpu()
    estimate = estimate_by_folds(
        unseen,
        given,
        shares_to_count(given, shares) if prior is None else (shares,),
        n_folds=int(guided.folds.max()) + 1,
        method=method(int(is_judged.sum())),
        class_names=class_names,
    )
    return FeatureLabels(land, guided, estimate, calibration)


def method(n_judged: int) -> str:
    """How the accuracy was estimated, in words."""
    if not n_judged:
        return "No label could be held out: no class has more than one."
    return (
        f"Cross-validation: the {n_judged} given labels of classes that have at least two were held out, one fold at a"
        " time, and predicted by classifier and graph from the others. Each fold had fewer labels to learn from than"
        " the final labeling, and classes with a single label are not tested; the interval allows for both."
    )


def labels_of(job: Job, device: torch.device) -> FeatureLabels:
    """By all processes together."""
    rows, group = job.collection.rows, current_group()
    assert isinstance(rows, VectorSet)
    return label_features(
        rows.vectors, job.given, job.settings, class_names=job.class_names, device=device, group=group
    )


def write_feature_labels(
    job: Job,
    folder: RunFolder,
    network: FeatureNetwork | None,
    found: FeatureLabels,
    *,
    choices: tuple[str, ...],
    started_at: float,
) -> Labeling:
    """The labels, the model and all else that the run folder holds; `network` is None for embeddings."""
    model = feature_model(job, found, network)
    positions = map_positions(found.land.X.float().cpu(), seed=job.settings.seed)
    summary = summary_of(job, found, choices, kind="embeddings" if network is None else "pictures")
    labeling = labeling_of(found.findings, summary, positions, names=job.collection.names, given=job.given)
    predicted = None
    if job.judges is not None and isinstance(job.judges.rows, VectorSet) and not job.are_judges_inside:
        predicted = model.probabilities(job.judges.rows.vectors).argmax(dim=1)
    estimate = job.tested(found.estimate, labeling.labels, predicted)
    summary = replace(labeling.summary, estimate=estimate, elapsed_s=time.monotonic() - started_at)
    labeling = replace(labeling, summary=summary)
    save_feature_model(folder.path, model)
    if network is not None:
        save_pictures(folder, labeling, job.collection)
    save_labeling(folder.path, labeling)
    write_labels(folder.path, labeling)
    return labeling


def feature_model(job: Job, found: FeatureLabels, network: FeatureNetwork | None) -> FeatureModel:
    guided, X, transform = found.guided, found.land.X, found.land.transform
    weights, offsets, temperature = fit_head(X, guided.labels, guided.scores, seed=job.settings.seed)
    return FeatureModel(
        features=None if network is None else network.name,
        weights_file=job.settings.collection.weights,
        pixels=job.settings.collection.pixels,
        fingerprint=None if network is None else network.fingerprint,
        transform=RowTransform(transform.center.float().cpu(), transform.is_rooted),
        weights=weights,
        offsets=offsets,
        temperature=temperature,
        class_names=job.class_names,
    )


def save_pictures(folder: RunFolder, labeling: Labeling, collection: Collection) -> None:
    """The pictures that the page shows are decoded again: only these few are needed."""
    rows = shown_rows(labeling)
    files = [PictureFile(collection.root / collection.names[row], collection.names[row]) for row in rows.tolist()]
    images, kept, _ = decode_all(files, size=LARGEST_SIDE)
    if kept:
        save_gallery(folder.path, rows[kept], images)


def summary_of(job: Job, found: FeatureLabels, choices: tuple[str, ...], *, kind: str) -> Summary:
    return Summary(
        title=job.settings.name,
        kind=kind,
        class_names=job.class_names,
        prior=tuple(found.guided.prior.tolist()),
        choices=choices,
        notes=(*job.notes, *calibration_notes(found)),
        estimate=found.estimate,
        calibration=found.calibration,
        n_skipped=len(job.collection.skipped),
        is_complete=True,
        elapsed_s=0.0,
    )


def feature_choices(job: Job, network: FeatureNetwork | None) -> tuple[str, ...]:
    """What was chosen and why, in sentences; `network` is None for embeddings."""
    rows, settings = job.collection.rows, job.settings
    assert isinstance(rows, VectorSet)
    n, d = rows.vectors.shape
    noun = "rows" if network is None else "pictures"
    seen = f"The rows are vectors of {d} numbers, so no network is needed."
    if network is not None:
        seen = (
            f"{network.name} turns each picture, resized to {network.pixels}×{network.pixels} pixels, into a vector of"
            f" {network.n_features} numbers."
        )
    return (
        seen,
        f"Logistic regression on the given labels scores all {n} {noun}; a graph then smooths the scores over the"
        f" {settings.graph.k} nearest neighbors of each.",
        "The frequencies of the classes are estimated from the given labels and these scores."
        if settings.prior == ESTIMATED
        else "The frequencies of the classes are those of --prior.",
        *(
            ("The time limit (--for) is not needed, since nothing is trained.",)
            if settings.time.limit_s and not settings.beside
            else ()
        ),
    )


def calibration_notes(found: FeatureLabels) -> list[str]:
    notes = []
    if found.calibration is None:
        notes.append("no label could be held out, so confidences are not calibrated")
    elif found.calibration.n < FEW:
        notes.append(f"confidences are calibrated on {found.calibration.n} labels only, so they are rough")
    if not found.guided.is_converged:
        notes.append("the conjugate gradients did not converge; raise graph.max_iterations or graph.tol")
    if (recall := found.land.graph.recall) is not None:
        notes.append(f"neighbors were searched by IVF, which finds {recall:.1%} of them")
    return notes


def features_of(settings: LabelingSettings, device: torch.device) -> FeatureNetwork:
    """The network that a run's settings name."""
    config = settings.collection
    weights = None if config.weights is None else Path(config.weights)
    network = load_features(config.features, weights=weights, device=device)
    return network if config.pixels is None else replace(network, pixels=config.pixels)


def pixels_for_time(settings: LabelingSettings, network: FeatureNetwork, *, left_s: float) -> tuple[int | None, str]:
    """Fewer pixels where the time left would not be enough for the network's own, and why; None and "" where it is.

    Judged by a few pictures that are embedded for it and go into the cache.
    """
    if network.name not in VARIANTS or network.device.type != "cpu" or network.pixels <= FEWER_PIXELS:
        return None, ""
    config = settings.collection
    leave_out = None if config.test is None else Path(config.test)
    files, _ = find_pictures(Path(config.pictures).expanduser(), leave_out=leave_out)
    paths = [file.path for file in files]
    known = VectorCache(cache_folder(), network).find([picture_key(path) for path in paths])
    missing = [path for place, path in enumerate(paths) if place not in known]
    n_tried = TRIED_PER_THREAD * torch.get_num_threads()
    if len(missing) <= 2 * n_tried:
        return None, ""
    warm_up, tried = missing[: n_tried // 2], missing[n_tried // 2 : 3 * n_tried // 2]
    embed_pictures(warm_up, network, cache=cache_folder())
    started_at = time.monotonic()
    embed_pictures(tried, network, cache=cache_folder())
    expected_s = (time.monotonic() - started_at) / len(tried) * len(missing) / current_group().size
    if expected_s <= EMBEDDING_SHARE * left_s:
        return None, ""
    return FEWER_PIXELS, (
        f"At its usual {network.pixels} pixels {network.name} would take about {expected_s:.0f} s, more than --for"
        f" allows. At {FEWER_PIXELS} pixels it takes half the time or less and is about half a point less accurate."
    )
