"""What is measured: one row a measurement, with how often it was repeated."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class StepRow:
    """Our step beside bare forward + backward + SGD of the same network on as many images, in the same process.

    `step_ms` and `bare_ms` are medians over `n_steps` steps each, taken in turns. `whole_ms` is the mean wall time of a
    step when `n_whole_steps` follow one another with nothing waited for, drawing on the host (`draw_ms`) included.
    """

    model: str
    batch_size: int
    n_views: int
    step_ms: float
    bare_ms: float
    whole_ms: float
    draw_ms: float
    n_steps: int
    n_whole_steps: int
    compile_s: float
    peak_bytes: int

    @property
    def ratio(self) -> float:
        return self.step_ms / self.bare_ms

    @property
    def images_per_s(self) -> float:
        return 1000 * self.batch_size * self.n_views / self.whole_ms


@dataclass(frozen=True)
class ViewsRow:
    """Strong views a second: ours on the device, Pillow's and torchvision's on one core, medians of `n_repeats`.

    Parameters are drawn before in both; `drawn_per_s` is how fast the host draws ours. `n_cores` is what one core's
    rate is multiplied by in the ratio: our threads on a CPU, all the host's cores beside a GPU.
    """

    side: int
    ours_per_s: float
    drawn_per_s: float
    pillow_per_s: float
    torchvision_per_s: float | None
    n_cores: int
    n_views: int
    n_repeats: int
    note: str = ""

    @property
    def ratio(self) -> float:
        """Ours over Pillow on `n_cores` cores, as if cores did not slow each other down."""
        return self.ours_per_s / (self.pillow_per_s * self.n_cores)


@dataclass(frozen=True)
class PassRow:
    """One pseudo-label pass, in one of the ways; `stages` in seconds, `accuracy` against the true clusters.

    `total_s` is a median of `n_repeats` whole passes; stages are timed in a pass of their own.
    """

    way: str
    n: int
    k: int
    n_classes: int
    stages: dict[str, float]
    total_s: float
    peak_bytes: int
    accuracy: float
    n_repeats: int
    note: str = ""


@dataclass(frozen=True)
class GraphRow:
    """Our pass at one size. `exponent` is the growth of its time from the size before: seconds ~ n^exponent.

    `recall` is None where the search was exact; `purity` is the share of neighbors from the point's own cluster.
    """

    n: int
    d: int
    k: int
    n_classes: int
    stages: dict[str, float]
    total_s: float
    peak_bytes: int
    recall: float | None
    purity: float
    accuracy: float
    n_iterations: int
    exponent: float | None = None


@dataclass(frozen=True)
class StreamRow:
    """The step with its images streamed from the host beside the step with them on the device.

    Medians of `n_steps` steps, and means over as many with nothing waited for.
    """

    model: str
    batch_size: int
    n_views: int
    resident_ms: float
    streamed_ms: float
    resident_whole_ms: float
    streamed_whole_ms: float
    n_steps: int

    @property
    def ratio(self) -> float:
        return self.streamed_whole_ms / self.resident_whole_ms


@dataclass(frozen=True)
class PropagationRow:
    """A few labels spread by our graph and by scikit-learn's LabelSpreading over its nearest neighbors, in turns.

    Seconds are medians of `n_repeats` each; accuracies are over the points whose labels were hidden. `recall` is that
    of the approximate search, None where there were too few points for one.
    """

    data: str
    n: int
    d: int
    k: int
    n_classes: int
    n_labeled: int
    exact_s: float
    approximate_s: float
    spreading_s: float
    recall: float | None
    exact_accuracy: float
    approximate_accuracy: float
    spreading_accuracy: float
    n_repeats: int


@dataclass(frozen=True)
class EpochRow:
    """An epoch of one of Table IX's variants: its labels (`label_s`) and its `n_steps` steps, medians of `n_repeats`.

    `published_ratio` is that of the paper's hours to its baseline's, for equally many steps. `parts` are the seconds of
    an epoch by name, on the device's own clock; older records do not have them.
    """

    variant: str
    model: str
    n_images: int
    n_steps: int
    epoch_s: float
    label_s: float
    published_ratio: float
    n_repeats: int
    parts: dict[str, float] = field(default_factory=dict)

    @property
    def step_ms(self) -> float:
        """A step with its share of the labels: runs of equally many steps compare by it."""
        return 1000 * self.epoch_s / self.n_steps


@dataclass(frozen=True)
class SearchRow:
    """Our approximate search, its lists and recall included, beside faiss's inverted lists at no lower a recall.

    faiss's seconds are those of building and, from `n_queries` points, of searching for all of them.
    """

    n: int
    d: int
    k: int
    ours_s: float
    ours_recall: float
    faiss_s: float
    faiss_recall: float
    n_probes: int
    n_queries: int

    @property
    def ratio(self) -> float:
        return self.faiss_s / self.ours_s


@dataclass(frozen=True)
class MethodRow:
    """A method's step beside the bare forward and backward passes that it makes, and SGD, in the same process.

    `passes` says which. `step_ms` and `bare_ms` are medians over `n_steps` steps each, taken in turns; `whole_ms` is
    the mean wall time of a step with drawing on the host.
    """

    method: str
    model: str
    batch_size: int
    labeled_batch_size: int
    passes: str
    step_ms: float
    bare_ms: float
    whole_ms: float
    n_steps: int
    capture_s: float
    peak_bytes: int

    @property
    def ratio(self) -> float:
        return self.step_ms / self.bare_ms


@dataclass(frozen=True)
class LoopRow:
    """Steps a second of a method, drawing included, beside those of a plain PyTorch loop with worker processes."""

    method: str
    model: str
    labeled_batch_size: int
    unlabeled_batch_size: int
    ours_per_s: float
    plain_per_s: float
    n_workers: int
    n_plain_steps: int

    @property
    def ratio(self) -> float:
        return self.ours_per_s / self.plain_per_s


@dataclass(frozen=True)
class Part:
    """One layer alone in one direction: its median time, operations, and the fewest bytes it must read and write."""

    layer: str
    kind: str
    ms: float
    flop: int
    n_bytes: int


@dataclass(frozen=True)
class PartsRow:
    """A network's bare step (`whole_ms`) taken apart; a part's least time follows from the two measured rates.

    Parts are timed alone: between two replays their data may stay in the cache, where a whole step would have lost it.
    """

    model: str
    n_images: int
    whole_ms: float
    product_flop_per_s: float
    copy_bytes_per_s: float
    parts: tuple[Part, ...]
    n_repeats: int

    @property
    def sum_ms(self) -> float:
        return sum(part.ms for part in self.parts)

    def least_ms(self, part: Part) -> float:
        """Of arithmetic and memory, what takes longer."""
        return 1000 * max(part.flop / self.product_flop_per_s, part.n_bytes / self.copy_bytes_per_s)

    def by_kind(self) -> dict[str, tuple[float, float]]:
        """Milliseconds of all parts of a kind, and the least they could take."""
        kinds = dict.fromkeys(part.kind for part in self.parts)
        own = {kind: [part for part in self.parts if part.kind == kind] for kind in kinds}
        return {kind: (sum(p.ms for p in some), sum(map(self.least_ms, some))) for kind, some in own.items()}


@dataclass(frozen=True)
class ScaleRow:
    """Our pass over millions of points; `stages` in seconds and `stage_peaks` in bytes, those of the search included.

    `recall` is None where the search was exact. Beside it two passes over `sample_n` of the same points, with the exact
    graph and with the approximate one: their seconds, and the shares of hidden points that each labels right.
    """

    n: int
    d: int
    k: int
    n_classes: int
    n_labeled: int
    stages: dict[str, float]
    stage_peaks: dict[str, int]
    total_s: float
    peak_bytes: int
    recall: float | None
    purity: float
    accuracy: float
    n_iterations: int
    sample_n: int
    sample_exact_s: float
    sample_exact_accuracy: float
    sample_approximate_s: float
    sample_approximate_accuracy: float
    sample_recall: float | None


Row = (
    StepRow
    | ViewsRow
    | PassRow
    | GraphRow
    | StreamRow
    | PropagationRow
    | SearchRow
    | EpochRow
    | MethodRow
    | LoopRow
    | PartsRow
    | ScaleRow
)

SECTIONS: dict[str, type[Row]] = {
    "steps": StepRow,
    "views": ViewsRow,
    "labels": PassRow,
    "propagation": PropagationRow,
    "search": SearchRow,
    "graph": GraphRow,
    "stream": StreamRow,
    "epochs": EpochRow,
    "methods": MethodRow,
    "loop": LoopRow,
    "parts": PartsRow,
    "scale": ScaleRow,
}
ON_REQUEST = ("parts", "scale")
"""Sections that take many minutes on a CPU, or are for those who work on the step: measured where they are named."""
