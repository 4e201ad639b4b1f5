"""Every cell of the paper: its settings against Table II, its published number against the printed page."""

from dataclasses import fields, replace

import pytest

from laplacenet.experiments.paper.published import (
    TABLE_3,
    TABLE_4,
    TABLE_5,
    TABLE_7_INVARIANCE,
    TABLES,
    Published,
    PublishedTable,
    parse_table,
)
from laplacenet.experiments.paper.recipes import RECIPES, Cell, find_recipe
from laplacenet.experiments.paper.variants import laplacenet, on_split, supervised
from laplacenet.runtime import InputError
from laplacenet.training import LaplaceNetConfig
from laplacenet.training.methods.network_labels import NetworkLabelsConfig

CELLS = [(name, cell) for name in RECIPES for cell in find_recipe(name).cells]


def cell_of(recipe: str, row: str, column: str) -> Cell:
    found = [cell for cell in find_recipe(recipe).cells if (cell.row, cell.column) == (row, column)]
    assert len(found) == 1
    return found[0]


@pytest.mark.parametrize(
    ("recipe", "row", "column", "printed"),
    [
        ("table-3", "LaplaceNet", "cifar10/500", "5.68 ± 0.08"),
        ("table-3", "LaplaceNet", "cifar100/10000", "26.60 ± 0.23"),
        ("table-3", "Supervised baseline", "cifar100/4000", "53.10 ± 0.34"),
        ("table-4", "LaplaceNet", "cifar10/2000", "4.71 ± 0.05"),
        ("table-5", "LaplaceNet", "mini-imagenet/4000", "46.32 ± 0.27"),
        ("table-5", "Supervised baseline", "mini-imagenet/10000", "52.89 ± 0.33"),
        ("table-6", "WRN-28-8", "cifar10/4000", "2.87 ± 0.18"),
        ("table-7", "n_a = 10", "cifar100/4000", "30.95 ± 0.25"),
        ("table-8", "without RandAugment", "cifar100/4000", "44.43 ± 0.66"),
        ("table-8", "without MixUp", "cifar100/10000", "28.02 ± 0.20"),
        ("table-9", "samples × 5", "cifar100/4000", "18.14 ± 0.11"),
        ("figure-3", "graph pseudo-labels", "cifar100/10000", "29.07 ± 0.07"),
    ],
)
def test_the_number_beside_a_cell_is_the_printed_one(recipe: str, row: str, column: str, printed: str) -> None:
    assert str(cell_of(recipe, row, column).published) == printed


@pytest.mark.parametrize("table", [TABLE_3, TABLE_4, TABLE_5], ids=lambda table: table.name)
def test_every_row_of_a_table_can_be_run_in_every_column(table: PublishedTable) -> None:
    recipe = find_recipe(table.name)
    cells = (*recipe.cells, *recipe.others)
    assert {(cell.row, cell.column) for cell in cells} == {(row, c) for row in table.rows for c in table.columns}
    assert {cell.preset for cell in recipe.others} == {"original", "equal"}
    assert len({cell.experiment.name for cell in cells}) == len(cells)
    assert len({cell.experiment.model.name for cell in cells}) == 1


def test_a_rival_on_equal_terms_has_laplacenets_training() -> None:
    others = [cell for cell in find_recipe("table-4").others if cell.preset == "equal"]
    assert others
    for cell in others:
        ours, theirs = cell_of("table-4", "LaplaceNet", cell.column).experiment, cell.experiment
        assert (theirs.train, theirs.augment, theirs.model) == (ours.train, ours.augment, ours.model)


def test_a_rivals_own_settings_follow_the_data() -> None:
    found = {
        (cell.row, cell.column): cell.experiment for cell in find_recipe("table-3").others if cell.preset == "original"
    }
    assert found["LP", "cifar10/4000"].train.lr == 0.05
    assert found["LP", "cifar100/4000"].train.lr == 0.2
    assert found["LP", "cifar100/4000"].train.labeled_batch_size == 31
    assert [found["Π-Model", f"cifar10/{n}"].train.labeled_batch_size for n in (500, 1000, 4000)] == [1, 2, 8]


@pytest.mark.parametrize(
    ("row", "column", "steps"),
    [  # epochs × ⌊unlabeled images / unlabeled images of a batch⌋
        ("MT-LP", "cifar10/500", 360 * (49_500 // 50)),
        ("MT-LP", "cifar100/10000", 360 * (40_000 // 97)),
        ("MT-fast-SWA", "cifar10/1000", 1_200 * (49_000 // 50)),
        ("MT-fast-SWA", "cifar100/10000", 240 * (40_000 // 97)),
        ("MT-ICT", "cifar10/2000", 400 * (48_000 // 100)),
        ("Dual Student", "cifar100/10000", 300 * (40_000 // 97)),
        ("Pseudo-Label Mixup", "cifar10/500", 400 * (49_500 // 84)),
        ("MT-LP", "cifar10/4000", 331_200),
        ("Π-Model", "cifar10/1000", 150_000),  # its epochs are over all images
    ],
)
def test_a_rivals_epochs_are_as_long_as_its_labels_leave_images(row: str, column: str, steps: int) -> None:
    (found,) = (c for c in find_recipe("table-3").others if (c.row, c.column, c.preset) == (row, column, "original"))
    assert found.experiment.train.steps == steps


@pytest.mark.parametrize(
    ("column", "first", "second"),
    [
        ("cifar10/500", 180 * 5, 180 * (49_500 // 50)),
        ("cifar10/4000", 180 * 40, 180 * (46_000 // 50)),
        ("cifar100/4000", 180 * 31, 180 * (46_000 // 97)),
        ("cifar100/10000", 180 * 78, 180 * (40_000 // 97)),
    ],
)
def test_lp_has_180_epochs_over_labeled_images_and_180_over_the_others(column: str, first: int, second: int) -> None:
    cells = [cell for cell in find_recipe("table-3").others if (cell.row, cell.column) == ("LP", column)]
    original, equal = (next(c.experiment for c in cells if c.preset == name) for name in ("original", "equal"))
    assert original.train.steps == first + second
    assert round(original.method.first_stage * (first + second)) == first  # type: ignore[attr-defined]
    labels, train = int(column.partition("/")[2]), equal.train
    passes = [labels // train.batch_size, (50_000 - labels) // train.unlabeled_batch_size]
    assert equal.method.first_stage == pytest.approx(passes[0] / sum(passes))  # type: ignore[attr-defined]
    assert train.steps == 250_000


def test_runs_with_few_labels_are_short() -> None:
    cells = find_recipe("few-labels").others
    assert {cell.experiment.method.name for cell in cells} == {"laplacenet", "fixmatch", "flexmatch", "freematch"}
    assert {cell.experiment.train.steps for cell in cells} == {2**17}
    assert {(cell.dataset, cell.experiment.data.n_labeled) for cell in cells} == {("cifar10", 40), ("cifar100", 400)}
    assert str(cells[1].published) == "8.33"


def test_other_methods_stand_in_the_tables_with_their_gaps() -> None:
    assert TABLE_3.cell("Π-Model", "cifar100/10000") == Published(39.19, 0.36)
    assert TABLE_3.cell("VAT", "cifar100/4000") is None
    assert TABLE_5.cell("LP", "mini-imagenet/10000") == Published(57.58, 1.47)
    assert TABLE_7_INVARIANCE.cell("n_a = 7", "cifar100/4000") == Published(95.09, 0.03)
    assert len(TABLE_3.rows) == 14


def test_the_tables_hold_all_126_numbers_of_the_paper() -> None:
    assert sum(len(row) for table in TABLES for row in table.rows.values()) == 126


@pytest.mark.parametrize("text", ["| a\nx | 1.0 ± 2 | 3 ± 4", "| a\nx | 1.0", "| a\nx | 1 ± 2\nx | 1 ± 2"])
def test_a_misshapen_table_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        parse_table("t", "title", "error", text)


def test_every_name_of_the_paper_is_a_recipe() -> None:
    tables = {f"table-{number}" for number in range(3, 10)}
    assert tables | {"figure-3", "figure-4", "class-weighting"} <= set(RECIPES)
    with pytest.raises(InputError, match=r"no experiment called 'table-2'; choose one of figure-2, table-3"):
        find_recipe("table-2")


def test_an_unknown_column_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InputError, match=r"table-8 has no column 'cifar10/500'; choose one of cifar100/4000"):
        find_recipe("table-8").cells_in("cifar10/500")


def test_one_name_is_one_experiment_and_one_experiment_has_one_name() -> None:
    by_name = {}
    for _, cell in CELLS:
        assert by_name.setdefault(cell.experiment.name, cell.experiment) == cell.experiment
    contents = [replace(experiment, name="") for experiment in by_name.values()]
    assert all(contents.count(content) == 1 for content in contents)


def test_tables_that_show_the_same_run_share_it() -> None:
    column = "cifar100/4000"
    headline = cell_of("table-3", "LaplaceNet", column).experiment
    assert headline == cell_of("table-7", "n_a = 3", column).experiment
    assert headline == cell_of("table-9", "samples × 3", column).experiment
    assert cell_of("table-8", "without distribution alignment", column).experiment == (
        cell_of("figure-3", "graph pseudo-labels", column).experiment
    )
    assert cell_of("table-9", "without graph propagation", column).experiment == (
        cell_of("figure-3", "network pseudo-labels", column).experiment
    )


@pytest.mark.parametrize(
    ("dataset", "expected"),
    [
        ("cifar10", {"batch_size": 300, "labeled_batch_size": 48, "lr": 0.03}),
        ("cifar100", {"batch_size": 100, "labeled_batch_size": 50, "lr": 0.03}),
        ("mini-imagenet", {"batch_size": 100, "labeled_batch_size": 50, "lr": 0.1}),
    ],
)
def test_parameters_are_those_of_table_2(dataset: str, expected: dict[str, float]) -> None:
    experiment = laplacenet(dataset, 4000, "13-cnn")
    common = {"steps": 250_000, "momentum": 0.9, "weight_decay": 5e-4}
    found = {field.name: getattr(experiment.train, field.name) for field in fields(experiment.train)}
    assert found | expected | common == found
    assert experiment.method == LaplaceNetConfig(n_views=3, mixup_alpha=1.0 if dataset == "cifar10" else 0.5)
    assert (experiment.graph.k, experiment.graph.mu) == (50, 0.01)
    assert (experiment.augment.n_labeled_samples, experiment.augment.n_unlabeled_samples) == (1, 2)


def test_an_ablation_changes_what_it_names_and_nothing_else() -> None:
    column = "cifar100/4000"
    base = cell_of("table-8", "Baseline (n_a = 1)", column).experiment
    no_mixup = cell_of("table-8", "without MixUp", column).experiment
    no_alignment = cell_of("table-8", "without distribution alignment", column).experiment
    no_strong = cell_of("table-8", "without RandAugment", column).experiment
    network = cell_of("figure-3", "network pseudo-labels", column).experiment
    assert base.method.n_views == 1
    assert no_mixup == replace(base, name=no_mixup.name, method=replace(base.method, mixup_alpha=0.0))
    assert no_alignment == replace(base, name=no_alignment.name, graph=replace(base.graph, alignment_iterations=0))
    plain = replace(base.augment, n_labeled_samples=0, n_unlabeled_samples=0, cutout=0.0)
    assert no_strong == replace(base, name=no_strong.name, augment=plain)
    assert network == replace(no_alignment, name=network.name, method=NetworkLabelsConfig(n_views=1))


def test_figure_4_scales_batch_labeled_batch_and_steps() -> None:
    batch = cell_of("figure-4", "batch × 5", "cifar100/4000").experiment
    steps = cell_of("figure-4", "steps × 3", "cifar100/4000").experiment
    assert (batch.train.batch_size, batch.train.labeled_batch_size) == (500, 250)
    assert (steps.train.steps, steps.train.batch_size) == (750_000, 100)
    assert batch.method == steps.method == LaplaceNetConfig(n_views=1)


def test_a_split_is_the_published_one_where_its_file_is_given() -> None:
    experiment = laplacenet("cifar100", 4000, "13-cnn")
    published = on_split(experiment, 3, folder="data", split_file="splits.npz")
    drawn = on_split(experiment, 3)
    assert (published.seed, published.data.split_file, published.data.split_key) == (3, "splits.npz", "4000/03")
    assert published.data.n_labeled is None
    assert (drawn.seed, drawn.data.split_seed, drawn.data.n_labeled) == (3, 3, 4000)
    assert drawn.data.split_file is None


def test_a_shortened_schedule_keeps_the_ratio_of_scaled_steps() -> None:
    scaled = cell_of("figure-4", "steps × 3", "cifar100/4000").experiment
    assert on_split(scaled, 0, base_steps=2500).train.steps == 7500
    assert on_split(supervised("cifar10", 500, "13-cnn"), 0, base_steps=2).train.steps == 2
