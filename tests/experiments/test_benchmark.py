"""The benchmark on tiny sizes: every section gives its rows, and a record survives being written and read."""

import dataclasses
import json
import mmap
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.flop_counter import FlopCounterMode

from laplacenet.augment import AugmentConfig
from laplacenet.augment.sampling import draw_views, resolve_views
from laplacenet.augment.views import make_views
from laplacenet.experiments.benchmark import (
    SECTIONS,
    BenchSettings,
    EpochRow,
    GraphRow,
    Measurement,
    Missing,
    Part,
    PartsRow,
    PassRow,
    PropagationRow,
    Row,
    ScaleRow,
    SearchRow,
    StepCase,
    StepRow,
    ViewsRow,
    empty_record,
    full_settings,
    measurements,
    quick_settings,
    read_bench_record,
    read_bench_records,
    scale,
    search,
    take_measurement,
    with_result,
    write_bench_record,
)
from laplacenet.experiments.benchmark.bare_step import BareStep
from laplacenet.experiments.benchmark.clock import Stages, intervals_ms, peak_bytes, release_memory, rounds, time_work
from laplacenet.experiments.benchmark.graph_scale import with_growth
from laplacenet.experiments.benchmark.pillow_views import pillow_view
from laplacenet.experiments.benchmark.staged_pass import staged_pass
from laplacenet.experiments.benchmark.synthetic import CIFAR_STATISTICS, clustered_points, smooth_images
from laplacenet.experiments.benchmark.views import our_views, pillow_views
from laplacenet.experiments.paper.published import TABLE_9
from laplacenet.graph import GraphConfig, nearest_neighbors, pseudo_label
from laplacenet.reports.bench_table import epoch_line, parts_line
from laplacenet.runtime import InputError, stream
from laplacenet.training import Execution

CPU = torch.device("cpu")
TINY = BenchSettings(
    sections=tuple(name for name in SECTIONS if name not in ("epochs", "methods", "loop")),  # measured elsewhere
    cases=(StepCase("small-cnn", 4, 2, 5, n_views=2),),
    n_images=40,
    step_rounds=2,
    steps_a_round=1,
    view_sides=(8,),
    n_views=64,
    n_pillow_views=4,
    view_rounds=2,
    pass_size=300,
    pass_repeats=2,
    propagation_size=300,
    propagation_repeats=2,
    search_sizes=(5_000,),
    graph_sizes=(150, 300),
    scale_sizes=(400,),
    scale_sample=200,
    epoch_model="small-cnn",
    epoch_images=200,
    n_classes=10,
    n_labeled=40,
    k=10,
    part_repeats=1,
    part_product=64,
    part_copy_bytes=2**16,
)


Results = list[tuple[str, Row | Missing]]


@pytest.fixture(scope="module")
def results() -> Results:
    """Everything measured once."""
    execution = Execution(CPU)
    return [
        (measurement.section, take_measurement(measurement, execution)) for measurement in measurements(TINY, execution)
    ]


def rows_of(section: str, results: Results) -> list[Row | Missing]:
    return [result for name, result in results if name == section]


def test_the_step_is_measured_beside_the_bare_one(results: Results) -> None:
    (row,) = rows_of("steps", results)
    assert isinstance(row, StepRow)
    assert (row.model, row.batch_size, row.n_views, row.n_steps) == ("small-cnn", 4, 2, 2)
    assert min(row.step_ms, row.bare_ms, row.whole_ms, row.draw_ms, row.peak_bytes) > 0
    assert row.ratio == row.step_ms / row.bare_ms
    assert row.images_per_s == pytest.approx(8 / (row.whole_ms / 1000))


def test_views_are_measured_beside_pillow(results: Results) -> None:
    (row,) = rows_of("views", results)
    assert isinstance(row, ViewsRow)
    assert min(row.ours_per_s, row.drawn_per_s, row.pillow_per_s) > 0
    assert row.n_cores == torch.get_num_threads()
    assert row.n_views == 64 * 16  # as many pixels as at 32 px


def test_the_pass_is_measured_in_three_ways_that_agree(results: Results) -> None:
    rows = [row for row in rows_of("labels", results) if isinstance(row, PassRow)]
    assert [row.way for row in rows] == ["ours", "the authors' way", "scikit-learn LabelSpreading"]
    assert list(rows[0].stages) == list(rows[1].stages) == ["neighbors", "affinity", "cg", "alignment"]
    assert rows[1].total_s == pytest.approx(sum(rows[1].stages.values()))
    assert rows[0].n_repeats == 2
    assert rows[0].accuracy == pytest.approx(rows[1].accuracy, abs=0.08)  # the authors stop earlier
    assert min(row.accuracy for row in rows) > 0.4


def test_labels_are_spread_beside_scikit_learn(results: Results) -> None:
    rows = [row for row in rows_of("propagation", results) if isinstance(row, PropagationRow)]
    assert [row.data for row in rows] == ["overlapping clusters", "clear clusters", "digits"]
    assert [row.n for row in rows] == [300, 300, 1797]
    assert all(row.n_labeled == 200 and row.n_repeats == 2 and row.recall is None for row in rows)
    assert all(min(row.exact_s, row.approximate_s, row.spreading_s) > 0 for row in rows)
    assert all(row.exact_accuracy == row.approximate_accuracy for row in rows)  # so few are searched exactly
    assert all(row.exact_accuracy >= row.spreading_accuracy - 0.005 for row in rows)


def test_the_approximate_search_is_measured_beside_faiss_at_no_lower_a_recall(results: Results) -> None:
    (row,) = rows_of("search", results)
    assert isinstance(row, SearchRow)
    assert (row.n, row.n_queries) == (5_000, 5_000)
    assert 0.9 < row.ours_recall <= row.faiss_recall <= 1
    assert row.ratio == row.faiss_s / row.ours_s > 0


def test_faiss_that_is_not_there_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "HAS_FAISS", False)
    with pytest.raises(InputError, match="pip install faiss-cpu"):
        search.measure_search(5_000, TINY)


def test_a_points_own_number_is_taken_out_of_what_faiss_found() -> None:
    found, points = np.array([[7, 1, 2], [3, 8, 4], [5, 6, 0]]), np.array([7, 8, 9])
    assert search.without_itself(found, points).tolist() == [[1, 2], [3, 4], [5, 6]]


def test_a_gpu_is_not_compared_with_faiss_and_some_sections_are_measured_on_request() -> None:
    sections = {measurement.section for measurement in measurements(BenchSettings(), Execution(torch.device("cuda")))}
    assert sections == set(SECTIONS) - {"search", "parts", "scale"}


def test_an_epoch_of_a_variant_is_training_itself_beside_the_papers_hours() -> None:
    execution = Execution(CPU, checkpoint_every_s=0.0)  # an epoch is measured whole, however often runs are saved
    asked = dataclasses.replace(TINY, sections=("epochs",))
    every = {measurement.name: measurement for measurement in measurements(asked, execution)}
    assert len(every) == len(TABLE_9.rows)
    rows = [take_measurement(every[f"an epoch: {name}"], execution) for name in ("Baseline (n_a = 1)", "batch × 3")]
    base, larger = (row for row in rows if isinstance(row, EpochRow))
    assert (base.n_steps, larger.n_steps) == (160 // 50, 160 // 150)
    assert (base.published_ratio, larger.published_ratio) == (1.0, pytest.approx(12.28 / 7.52))
    for row in (base, larger):
        assert 0 < row.label_s < row.epoch_s
        assert row.step_ms == pytest.approx(1000 * row.epoch_s / row.n_steps)
        assert row.n_repeats == 2
    assert "3.0" in epoch_line(dataclasses.replace(base, epoch_s=3 * base.epoch_s), base).ratio


def test_only_the_sections_asked_for_are_measured() -> None:
    settings = dataclasses.replace(TINY, sections=("views", "graph"))
    assert [measurement.section for measurement in measurements(settings, Execution(CPU))] == [
        "views",
        "graph",
        "graph",
    ]


def test_the_graph_is_measured_at_each_size(results: Results) -> None:
    rows = [row for row in rows_of("graph", results) if isinstance(row, GraphRow)]
    assert [row.n for row in rows] == [150, 300]
    assert all(row.total_s == pytest.approx(sum(row.stages.values())) for row in rows)
    assert all(row.recall is None and 0.2 < row.purity <= 1 for row in rows)


def test_the_pass_at_scale_has_its_stages_and_a_sample_beside_the_exact_graph(results: Results) -> None:
    (row,) = rows_of("scale", results)
    assert isinstance(row, ScaleRow)
    assert (row.n, row.sample_n, row.n_labeled) == (400, 200, 40)
    assert list(row.stages) == list(row.stage_peaks) == ["unit rows", "neighbors", "affinity", "cg", "alignment"]
    assert row.peak_bytes == max(row.stage_peaks.values()) > 0
    assert row.accuracy > 0.5
    assert row.sample_exact_accuracy == row.sample_approximate_accuracy  # so few points are searched exactly


def test_a_pass_at_scale_that_fails_says_what_it_had_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise torch.cuda.OutOfMemoryError("out of memory")

    monkeypatch.setattr(scale, "staged_labels", fail)
    said: list[str] = []
    settings = dataclasses.replace(TINY, sections=("scale",))
    (measurement,) = measurements(settings, Execution(CPU), report=said.append)
    result = take_measurement(measurement, Execution(CPU))
    assert isinstance(result, Missing)
    assert "OutOfMemoryError after unit rows" in result.reason
    assert said[0].startswith("unit rows 0.0")


def test_streaming_says_that_it_needs_a_gpu(results: Results) -> None:
    (missing,) = rows_of("stream", results)
    assert isinstance(missing, Missing)
    assert "GPU" in missing.reason


def test_the_parts_of_a_step_have_the_operations_that_torch_counts(results: Results) -> None:
    (row,) = rows_of("parts", results)
    assert isinstance(row, PartsRow)
    bare = BareStep(TINY.cases[0], Execution(CPU), side=32)
    with FlopCounterMode(display=False) as counter:
        bare.network(bare.images).sum().backward()
    counted = counter.get_flop_counts()["Global"]
    of_convolutions = sum(flop for name, flop in counted.items() if "convolution" in str(name))
    assert sum(part.flop for part in row.parts) == of_convolutions > 0


def test_the_least_time_of_a_part_is_its_slower_resource(results: Results) -> None:
    (row,) = rows_of("parts", results)
    assert isinstance(row, PartsRow)
    row = dataclasses.replace(row, product_flop_per_s=1e9, copy_bytes_per_s=1e8)
    assert row.least_ms(Part("a", "forward", 3.0, flop=2_000_000, n_bytes=100_000)) == pytest.approx(2.0)
    assert row.least_ms(Part("a", "forward", 3.0, flop=500_000, n_bytes=100_000)) == pytest.approx(1.0)
    kinds = row.by_kind()
    assert sum(ms for ms, _ in kinds.values()) == pytest.approx(row.sum_ms)
    line = parts_line(row)
    assert "normalization" in line.remarks
    assert "most is lost in" in line.remarks


def test_whatever_goes_wrong_with_one_measurement_is_said_in_its_place() -> None:
    def fails() -> GraphRow:
        raise MemoryError("no room\nfor so many points")

    result = take_measurement(Measurement("graph", "n = 9", fails), Execution(CPU))
    assert result == Missing("graph", "n = 9", "MemoryError: no room for so many points")


def test_the_staged_pass_gives_the_labels_of_pseudo_label() -> None:
    clusters = clustered_points(400, n_classes=8, n_labeled=30)
    config, stages = GraphConfig(k=12), Stages(CPU)
    staged = staged_pass(clusters.features, clusters.labels, config, n_classes=8, stages=stages)
    whole = pseudo_label(clusters.features, clusters.labels, config, n_classes=8)
    assert torch.equal(staged.labels, whole.labels)
    assert staged.n_iterations == whole.n_iterations
    assert set(stages.seconds) == {"neighbors", "affinity", "cg", "alignment"}


def test_pillow_and_our_views_show_the_same_pictures() -> None:
    images, config = smooth_images(3, 16), AugmentConfig()
    draws = draw_views(60, n_samples=2, height=16, width=16, config=config, rng=stream(1, "views"))
    slots = torch.arange(60) % 3
    ours = make_views(images, slots, resolve_views(draws, height=16, width=16), statistics=CIFAR_STATISTICS)
    pictures = [Image.fromarray(image.permute(1, 2, 0).numpy().copy()) for image in images]
    pad = config.pad_for(16, 16)
    theirs = [pillow_view(pictures[i % 3], draws, i, pad=pad, statistics=CIFAR_STATISTICS) for i in range(60)]
    np.testing.assert_allclose(ours.numpy(), np.stack(theirs), atol=1e-5)


def test_both_ways_make_as_many_views_as_they_are_counted_for() -> None:
    images = smooth_images(3, 8)
    assert len(our_views(images, 7, CPU)()) == 7  # type: ignore[arg-type]
    assert len(pillow_views(images, 7)()) == 7  # type: ignore[arg-type]


def test_clusters_are_unit_vectors_that_overlap_and_every_class_has_a_label() -> None:
    clusters = clustered_points(3000, n_classes=10, n_labeled=20)
    torch.testing.assert_close(clusters.features.norm(dim=1), torch.ones(3000))
    assert set(clusters.labels.tolist()) == {-1, *range(10)}
    indices = nearest_neighbors(clusters.features, k=20).indices
    purity = (clusters.classes[indices] == clusters.classes[:, None]).float().mean()
    assert 0.7 < purity < 0.999
    assert clusters.accuracy(clusters.classes) == 1
    assert clusters.accuracy(torch.full((3000,), -1)) == 0


def test_growth_is_the_slope_between_sizes_in_logarithms() -> None:
    def row(n: int, total_s: float) -> GraphRow:
        return GraphRow(
            n=n, d=2, k=3, n_classes=4, stages={}, total_s=total_s, peak_bytes=0,
            recall=None, purity=1.0, accuracy=1.0, n_iterations=5,
        )  # fmt: skip

    grown = with_growth([row(1000, 400.0), row(10, 0.04), row(100, 4.0)])
    assert [found.n for found in grown] == [10, 100, 1000]
    assert grown[0].exponent is None
    assert [found.exponent for found in grown[1:]] == pytest.approx([2.0, 2.0])


def test_a_record_reads_back_as_it_was_written(results: Results, tmp_path: Path) -> None:
    record = empty_record(TINY, CPU)
    for section, result in results:
        record = with_result(record, section, result, elapsed_s=1.5)
    assert set(record.rows) == set(TINY.sections) - {"stream"}
    assert record.rows["graph"][1].exponent is not None  # type: ignore[union-attr]
    path = write_bench_record(record, tmp_path / "made" / "for it")
    assert read_bench_record(path) == record
    assert read_bench_records(path.parent) == [record]
    assert path.name.startswith(f"cpu-{torch.get_num_threads()}-threads-20")
    assert json.loads(path.read_text())["provenance"]["commit"]


@pytest.mark.parametrize("content", ["[]", "{}", '{"format": 1}', '{"format": 1, "rows": {"steps": [{}]}}', "nonsense"])
def test_what_is_no_record_is_refused_by_name(tmp_path: Path, content: str) -> None:
    path = tmp_path / "other.json"
    path.write_text(content)
    with pytest.raises(InputError, match=r"other\.json"):
        read_bench_record(path)


def test_a_folder_without_records_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="laplacenet bench"):
        read_bench_records(tmp_path)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_quick_measures_no_more_than_full(device: str) -> None:
    full, quick = full_settings(torch.device(device)), quick_settings(torch.device(device))
    assert quick.pass_size <= full.pass_size == 50_000
    assert max(quick.graph_sizes) < max(full.graph_sizes) == 1_000_000
    assert len(quick.cases) <= len(full.cases)


def test_the_full_benchmark_takes_medians_of_two_hundred_steps_on_a_gpu() -> None:
    settings = full_settings(torch.device("cuda"))
    assert settings.step_rounds * settings.steps_a_round >= 200
    assert settings.budget_s is None
    assert [(case.model, case.batch_size) for case in settings.cases] == [
        ("13-cnn", 100),
        ("wrn-28-2", 100),
        ("wrn-28-2", 300),
        ("wrn-28-8", 100),
    ]


@pytest.mark.parametrize("changes", [{"sections": ("step",)}, {"sections": ()}, {"graph_sizes": (5,)}])
def test_settings_that_cannot_be_measured_are_refused(changes: dict[str, tuple[object, ...]]) -> None:
    with pytest.raises(InputError, match="--"):
        dataclasses.replace(TINY, **changes)


def test_rounds_warm_up_once_and_stop_when_the_budget_is_spent() -> None:
    assert list(rounds(3, None)) == [0, 1, 2, 3]
    assert list(rounds(3, 0.0)) == [0, 1]


def test_intervals_count_steps_and_seconds_pass() -> None:
    assert len(intervals_ms(iter([None] * 4), CPU)) == 4
    result, elapsed_s = time_work(lambda: 3, CPU)
    assert result == 3
    assert 0 <= elapsed_s < 1


@pytest.mark.skipif(not os.access("/proc/self/clear_refs", os.W_OK), reason="the high-water mark cannot be reset here")
def test_peak_memory_is_counted_anew_after_release() -> None:
    n_bytes = 40_000 * mmap.PAGESIZE
    release_memory(CPU)
    before = peak_bytes(CPU)
    with mmap.mmap(-1, n_bytes) as fresh:  # from the system: an allocator may have as much at hand
        fresh[:: mmap.PAGESIZE] = bytes(40_000)
        assert peak_bytes(CPU) - before > 0.9 * n_bytes
    release_memory(CPU)
    assert peak_bytes(CPU) - before < 0.5 * n_bytes
