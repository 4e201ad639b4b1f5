"""Temperatures: recovered where they are known, bounded where they are not, and never a change of label."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import softmax

from laplacenet.labeling.estimate import BOUNDS, calibrate, calibration_bins, expected_error, fit_temperature
from laplacenet.labeling.evidence import Evidence, score_evidence


def drawn(n: int, temperature: float, seed: int = 0) -> tuple[Evidence, torch.Tensor]:
    """Labels drawn with the probabilities that the logits have at this temperature."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(scale=2, size=(n, 4))
    shares = softmax(logits / temperature, axis=1)
    labels = np.array([rng.choice(4, p=row) for row in shares])
    return Evidence(torch.from_numpy(logits), torch.zeros(n, 4)), torch.from_numpy(labels)


@pytest.mark.parametrize("temperature", [0.3, 1.0, 3.0])
def test_the_temperature_that_labels_were_drawn_at_is_found(temperature: float) -> None:
    evidence, labels = drawn(4000, temperature)
    assert fit_temperature(evidence, labels) == pytest.approx(temperature, rel=0.12)


def test_calibrated_confidences_are_right_as_often_as_they_say() -> None:
    evidence, labels = drawn(4000, 3.0)
    found = calibrate(evidence, labels)
    assert found is not None
    assert found.error < 0.03 < found.error_before
    assert sum(entry.n for entry in found.bins) == found.n == 4000


@given(st.integers(1, 6), st.floats(0.02, 10), st.integers(0, 3))
def test_few_labels_never_drive_it_beyond_its_bounds(n: int, scale: float, label: int) -> None:
    logits = scale * torch.eye(4, dtype=torch.float64)[[label] * n]
    temperature = fit_temperature(Evidence(logits, torch.zeros(n, 4)), torch.full((n,), label))
    assert BOUNDS[0] <= temperature <= BOUNDS[1]


@given(st.floats(0.05, 10))
def test_a_temperature_changes_no_label_where_no_class_is_favored(temperature: float) -> None:
    evidence, _ = drawn(50, 1.0)
    assert torch.equal(evidence.at(temperature).argmax(dim=1), evidence.logits.argmax(dim=1))


def test_scores_at_temperature_one_are_themselves() -> None:
    scores = torch.tensor([[0.7, 0.2, 0.1], [0.0, 1.0, 0.0]])
    assert torch.allclose(score_evidence(scores).at(1.0), scores, atol=1e-5)


def test_without_labels_there_is_nothing_to_calibrate_by() -> None:
    evidence, labels = drawn(3, 1.0)
    assert calibrate(evidence.rows(labels < 0), labels[labels < 0]) is None


def test_the_expected_error_is_the_mean_distance_by_hand() -> None:
    scores = torch.tensor([[0.95, 0.05], [0.93, 0.07], [0.4, 0.6], [0.35, 0.65]])
    bins = calibration_bins(scores, torch.tensor([0, 1, 1, 1]))
    assert [(entry.n, entry.accuracy) for entry in bins] == [(2, 1.0), (2, 0.5)]
    assert expected_error(bins) == pytest.approx((2 * abs(0.625 - 1) + 2 * abs(0.94 - 0.5)) / 4, abs=1e-6)
