"""Figure 2: the moons are dealt as the paper says, and the graph sees what the network alone does not."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from laplacenet.experiments.paper.figure_two import (
    METHODS,
    FigureTwo,
    figure_two,
    figure_two_record,
    mean_accuracies,
    sample_moons,
)
from laplacenet.reports import moons as moons_picture


@pytest.fixture(scope="module")
def figure() -> FigureTwo:
    return figure_two(0)


def test_four_fifths_are_for_training_and_ten_of_each_moon_show_their_label() -> None:
    moons = sample_moons(1)
    labels = moons.points.labels
    assert torch.bincount(labels).tolist() == [200, 200]
    assert torch.bincount(labels[moons.is_train]).tolist() == [160, 160]
    assert torch.bincount(labels[moons.is_labeled]).tolist() == [10, 10]
    assert bool(moons.is_train[moons.is_labeled].all())


def test_only_the_supervised_network_sees_every_training_label() -> None:
    moons = sample_moons(1)
    assert int((moons.labels_for("supervised") >= 0).sum()) == 320
    for method in ("network", "graph"):
        assert int((moons.labels_for(method) >= 0).sum()) == 20


def test_graph_pseudo_labels_come_close_to_all_labels_and_the_networks_own_do_not(figure: FigureTwo) -> None:
    accuracy = {method: figure.fits[method].test_accuracy for method in METHODS}
    assert accuracy["graph"] >= accuracy["network"] + 0.04
    assert accuracy["graph"] >= accuracy["supervised"] - 0.02


def test_the_record_has_every_seed_and_the_means(figure: FigureTwo) -> None:
    figures = [figure, replace(figure, seed=1)]
    record = figure_two_record(figures, provenance={"commit": "abc"})
    assert [run["seed"] for run in record["runs"]] == [0, 1]
    for method, (mean, std) in mean_accuracies(figures).items():
        assert record["means"][method] == {"mean": mean, "std": std}
        assert mean == figure.fits[method].test_accuracy


def test_the_picture_is_drawn_as_pixels_and_as_lines(figure: FigureTwo, tmp_path: Path) -> None:
    png, svg = tmp_path / "new" / "figure-2.png", tmp_path / "new" / "figure-2.svg"
    moons_picture.draw_moons(figure, [png, svg])
    assert png.read_bytes().startswith(b"\x89PNG")
    assert "<svg" in svg.read_text()
