"""The report: every table, figure and claim from records; self-contained; nothing in a record can break out."""

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from references_experiments import headline_with_views, record_of

from laplacenet.experiments.benchmark import BenchRecord, EpochRow, newest_side_by_side, write_bench_record
from laplacenet.experiments.paper.claims import numbers, statements
from laplacenet.experiments.paper.published import TABLES
from laplacenet.experiments.paper.recipes import experiment_in, find_recipe
from laplacenet.experiments.paper.records import Record, write_record
from laplacenet.experiments.paper.series import RecordBook
from laplacenet.reports.paper_figures import comparable, error_curves, figure_4
from laplacenet.reports.paper_page import headline, keep_together, plain_cell, write_report
from laplacenet.reports.tables import paper_tables
from laplacenet.runtime import InputError, write_json

C4 = "cifar100/4000"
HOSTILE = "<script>alert('x')</script>|`*[a](b)\n# head"


class Page(HTMLParser):
    """Counts tags and what a page would fetch."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.fetched: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.fetched += [value or "" for name, value in attrs if name in ("src", "href", "xlink:href")]


def sample_records() -> list[Record]:
    rows = {"graph pseudo-labels": 0.44, "network pseudo-labels": 0.49}
    return [
        *(record_of(headline_with_views(3), split=split, test_error=0.314 + 0.001 * split) for split in range(3)),
        *(record_of(experiment_in("figure-3", row, C4), base_steps=25_000, test_error=e) for row, e in rows.items()),
        *(record_of(headline_with_views(n), base_steps=25_000, test_error=0.45 - 0.01 * n) for n in (1, 3, 5)),
        record_of(experiment_in("figure-4", "batch × 3", C4), base_steps=25_000, test_error=0.46),
        record_of(experiment_in("figure-4", "steps × 5", C4), base_steps=25_000, diverged_at_step=900),
    ]


@pytest.fixture
def results(tmp_path: Path) -> Path:
    for record in sample_records():
        write_record(tmp_path / "results", record)
    moons = {"kind": "figure-2", "runs": [{"seed": 0, "supervised": 1.0, "network": 0.85, "graph": 0.95}]}
    (tmp_path / "results" / "figure-2").mkdir()
    write_json(tmp_path / "results" / "figure-2" / "two-moons.json", moons)
    (tmp_path / "results" / "figure-2" / "figure-2.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    return tmp_path / "results"


def test_the_page_shows_every_table_figure_and_claim(results: Path, tmp_path: Path) -> None:
    page = write_report(results, tmp_path / "out").read_text()
    for table in TABLES:
        assert f">{table.title}</h3>" in page
    assert page.count('class="verdict"') == len(statements()) + len(numbers())
    drawn = re.findall(r'<figure role="img" aria-label="([^:]+):', page)
    assert drawn == ["Table VIII", "Figure 3", "Figure 4", "Figure 4"]
    assert page.count("<svg") == len(drawn)
    assert "data:image/png;base64," in page
    assert "31.50 ± 0.10" in page.replace("\u00a0", " ")
    assert "n = 3, 250 000 steps" in page.replace("\u00a0", " ")
    assert "1 diverged" in page
    assert "Dual Student" in page


def test_the_page_needs_nothing_from_outside(results: Path, tmp_path: Path) -> None:
    page = Page(write_report(results, tmp_path / "out").read_text())
    assert "script" not in page.tags
    assert all(address.startswith(("#", "data:")) for address in page.fetched)


def test_no_two_elements_share_an_id(results: Path, tmp_path: Path) -> None:
    page = write_report(results, tmp_path / "out").read_text()
    found = re.findall(r'\bid="([^"]+)"', page)
    assert len(found) == len(set(found))


def test_names_in_a_record_cannot_break_out_of_the_page(tmp_path: Path) -> None:
    record = record_of(headline_with_views(3))
    hostile = replace(
        record,
        key=replace(record.key, overrides=(HOSTILE,)),
        provenance={"commit": "<b>x", "hardware": {"gpu": HOSTILE}},
    )
    write_record(tmp_path / "results", hostile)
    path = write_report(tmp_path / "results", tmp_path / "out")
    assert "script" not in Page(path.read_text()).tags
    assert "&lt;script&gt;" in path.read_text()
    markdown = (tmp_path / "out" / "report.md").read_text()
    assert "<script>" not in markdown
    assert "\n# head" not in markdown
    rows = [line for line in markdown.splitlines() if "alert" in line]
    assert [len(re.findall(r"(?<!\\)\|", row)) for row in rows] == [8, 9]  # with other settings; runs


def test_a_record_with_too_few_labels_is_listed_but_counts_nowhere_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = write_record(tmp_path / "results", record_of(headline_with_views(3), n_labeled=100, test_error=0.1234))
    write_report(tmp_path / "results", tmp_path / "out")
    markdown = (tmp_path / "out" / "report.md").read_text()
    (row,) = (line for line in markdown.splitlines() if "12.34" in line)
    assert row.endswith("| no, 100 labels instead of 4000 |")
    assert "From 1 record." in markdown
    assert "nothing recorded yet" in markdown
    assert caplog.messages == [f"{path}: is left out of the tables (100 labels instead of 4000)"]


def test_a_record_with_other_settings_is_listed_but_fills_no_table_of_the_papers(tmp_path: Path) -> None:
    record = record_of(headline_with_views(3), test_error=0.1234)
    other = replace(record, key=replace(record.key, overrides=("train.lr=0.1",)))
    write_record(tmp_path / "results", other)
    page = write_report(tmp_path / "results", tmp_path / "out").read_text()
    before, others = page.split('<h2 id="other-settings">')
    assert "12.34" not in before
    assert others.count("12.34") == 2  # the mean there, and its run
    assert "no, other settings than the paper" in page


def test_epochs_measured_side_by_side_stand_beside_the_papers_ratios(results: Path, tmp_path: Path) -> None:
    base = EpochRow(
        "Baseline (n_a = 1)", "13-cnn", 50_000, 920, epoch_s=2.0, label_s=0.2, published_ratio=1.0, n_repeats=2
    )
    larger = replace(base, variant="batch × 3", n_steps=306, epoch_s=1.5, published_ratio=1.633)
    origin = {
        "date": "2026-11-15T10:00",
        "commit": "0123456789abcdef",
        "libraries": {"torch": "2.13"},
        "python": "3.11",
        "load": 0.0,
        "hardware": {"device": "cuda", "gpu": "Some GPU"},
    }
    on_gpu = BenchRecord(origin, {}, {"epochs": (base, larger)}, missing=(), elapsed_s=1.0, is_complete=True)
    slower = replace(larger, epoch_s=99.0)
    on_cpu = replace(
        on_gpu, provenance=origin | {"hardware": {"device": "cpu", "threads": 1}}, rows={"epochs": (base, slower)}
    )
    before = replace(on_gpu, provenance=origin | {"date": "2025-01-01T10:00"}, rows={"epochs": (base, slower)})
    for record in (before, on_gpu, on_cpu):
        write_bench_record(record, results / "bench")
    write_report(results, tmp_path / "out")
    markdown = (tmp_path / "out" / "report.md").read_text()
    assert "Some GPU, commit 0123456789ab" in markdown
    (row,) = (line for line in markdown.splitlines() if line.startswith("| batch × 3 | 1.63"))
    assert f"**{(1.5 / 306) / (2.0 / 920):.2f}** (306 steps)" in row
    assert "**1.50** (306 steps)" in row
    assert newest_side_by_side([on_cpu]) is None
    assert "CPU, one thread, torch 2.13" in (tmp_path / "out" / "bench.md").read_text()


def test_the_invariance_under_weaker_views_stands_beside_where_it_is_recorded(tmp_path: Path) -> None:
    write_record(tmp_path / "results", record_of(headline_with_views(3), test_invariance_as_labeled=0.9487))
    write_report(tmp_path / "results", tmp_path / "out")
    assert "; 94.87 under the weaker views" in (tmp_path / "out" / "report.md").read_text()


def test_without_a_record_everything_is_not_yet_run(tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    page = write_report(tmp_path / "results", tmp_path / "out").read_text()
    assert "No run is recorded yet." in page
    assert "<svg" not in page
    assert "✓" not in page


def test_markdown_tables_have_as_many_cells_in_every_row(results: Path, tmp_path: Path) -> None:
    write_report(results, tmp_path / "out")
    blocks = re.split(r"\n\s*\n", (tmp_path / "out" / "report.md").read_text())
    tables = [block.strip().splitlines() for block in blocks if block.strip().startswith("|")]
    assert len(tables) == len(TABLES) + 1 + 3 + 3 + 1  # with that of few labels
    for lines in tables:
        assert set(lines[1]) <= set("|-")
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in lines}) == 1


def test_another_methods_settings_stand_side_by_side_with_what_is_not_recorded() -> None:
    cells = {cell.preset: cell for cell in find_recipe("table-4").others if (cell.row, cell.column) == ("UDA", C4)}
    record = record_of(cells["equal"].experiment, base_steps=25_000, test_error=0.4)
    table = next(table for table in paper_tables(RecordBook([record])) if table.name == "table-4")
    (row,) = (row for row in table.rows if row.name == "UDA")
    shown = row.cells[table.columns.index(C4)]
    assert shown.published == "36.19 ± 0.39"
    assert [(ours.value, ours.schedule) for ours in shown.ours] == [
        ("original settings: not yet run", ""),
        ("equal settings: 40.00", "n = 1, 25 000 steps"),
    ]


def test_full_and_shortened_runs_stand_on_lines_of_their_own() -> None:
    table = paper_tables(RecordBook(sample_records()))[0]
    (row,) = (row for row in table.rows if row.name == "LaplaceNet")
    cell = row.cells[table.columns.index(C4)]
    assert [(ours.value, ours.schedule) for ours in cell.ours] == [
        ("31.50 ± 0.10", "n = 3, 250 000 steps"),
        ("42.00", "n = 1, 25 000 steps"),
    ]
    assert row.cells[0].ours[0].value == "not yet run"


def test_mini_imagenet_is_not_run_and_other_methods_neither() -> None:
    tables = {table.name: table for table in paper_tables(RecordBook([]))}
    shown = {ours.value for row in tables["table-5"].rows for cell in row.cells for ours in cell.ours}
    assert shown == {"not run"}
    assert [row.is_ours for row in tables["table-4"].rows] == [False, False, False, True]


def test_figures_wait_for_what_they_compare() -> None:
    records = sample_records()
    assert error_curves(RecordBook(records), find_recipe("figure-3")) is not None
    assert error_curves(RecordBook(records[:4]), find_recipe("figure-3")) is None
    figure = figure_4(RecordBook(records))
    assert figure is not None
    assert len(figure.axes) == 3
    assert figure_4(RecordBook(records[:3])) is None


def test_curves_are_drawn_under_the_schedule_that_most_rows_share() -> None:
    rows = comparable(RecordBook(sample_records()), find_recipe("figure-4").cells)
    assert {(row, series.base_steps) for row, series in rows.items()} == {
        (row, 25_000) for row in ("× 1", "samples × 3", "samples × 5", "batch × 3", "steps × 5")
    }
    figure = error_curves(RecordBook(sample_records()), find_recipe("figure-4"))
    assert figure is not None
    (axis,) = figure.axes
    assert [text.get_text() for text in axis.get_legend().get_texts()] == [
        *("× 1: 44.00", "samples × 3: 42.00", "samples × 5: 40.00", "batch × 3: 46.00", "steps × 5: diverged"),
    ]


def test_figure_4_draws_what_has_two_points() -> None:
    records = [record for record in sample_records() if record.diverged_at_step is None]
    figure = figure_4(RecordBook(records))
    assert figure is not None
    assert [text.get_text() for text in figure.axes[0].get_legend().get_texts()] == ["samples", "batch"]


def test_runs_with_other_settings_are_averaged_apart_from_the_papers(tmp_path: Path) -> None:
    def fast(split: int, error: float, decay: float = 2e-4) -> Record:
        record = record_of(headline_with_views(3), split=split, base_steps=86_000, test_error=error, total_s=240.0)
        train = replace(record.experiment.train, weight_decay=decay)
        key = replace(record.key, overrides=("preset=fast",))
        return replace(record, key=key, experiment=replace(record.experiment, train=train))

    for record in (*sample_records(), fast(1, 0.312), fast(2, 0.316), fast(3, 0.35, decay=5e-4)):
        write_record(tmp_path / "results", record)
    page = write_report(tmp_path / "results", tmp_path / "out").read_text()
    assert 'href="#other-settings"' in page
    markdown = (tmp_path / "out" / "report.md").read_text().replace("\u00a0", " ")
    rows = [line for line in markdown.splitlines() if "preset=fast" in line and "31.64 ± 0.02" in line]
    assert [[cell.strip() for cell in row.split("|")[4:7]] for row in rows] == [
        ["31.40 ± 0.28", "n = 2, 86 000 steps", "4.00 ± 0.00"],
        ["35.00", "n = 1, 86 000 steps", "4.00"],  # other settings under the same name
    ]


def test_without_other_settings_there_is_no_such_section(results: Path, tmp_path: Path) -> None:
    assert "other-settings" not in write_report(results, tmp_path / "out").read_text()
    assert "other settings\n" not in (tmp_path / "out" / "report.md").read_text()


def test_the_headline_shows_what_is_recorded_and_only_that() -> None:
    text = headline(RecordBook(sample_records()))
    assert "| cifar100/4000 | 13-cnn | 31.64 ± 0.02 | **31.50 ± 0.10** (n = 3, 250 000 steps) |" in text
    assert len(text.splitlines()) == 3
    assert "nothing recorded yet" in headline(RecordBook([]))


def test_an_output_that_is_a_file_is_refused(results: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="name a folder"):
        write_report(results, tmp_path / "file")


def test_a_folder_whose_json_files_are_no_records_is_refused(tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "package.json").write_text("{}")
    with pytest.raises(InputError, match=r"none of the \.json files .* --record .*results/methods/NAME\.json"):
        write_report(tmp_path / "results", tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["report.html", "report.md"])
def test_only_an_earlier_report_is_replaced_unless_told_to(name: str, tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / name).write_text("of the user")
    with pytest.raises(
        InputError, match=f"holds {name}, which is not part of an earlier report; choose another or --over"
    ):
        write_report(tmp_path / "results", tmp_path / "out")
    assert [path.read_text() for path in (tmp_path / "out").iterdir()] == ["of the user"]
    write_report(tmp_path / "results", tmp_path / "out", overwrite=True)
    write_report(tmp_path / "results", tmp_path / "out")


def test_a_damaged_record_of_the_moons_is_refused_by_name(results: Path, tmp_path: Path) -> None:
    write_json(results / "figure-2" / "two-moons.json", {"kind": "figure-2", "runs": [{"seed": 0}]})
    with pytest.raises(InputError, match=r"two-moons\.json: not a record of Figure 2"):
        write_report(results, tmp_path / "out")


def test_numbers_stay_whole_at_a_line_end() -> None:
    assert keep_together("n = 1, 25 000 steps") == "n\u00a0=\u00a01, 25\u00a0000\u00a0steps"
    assert plain_cell("a|b\n<c>") == "a\\|b &lt;c&gt;"
