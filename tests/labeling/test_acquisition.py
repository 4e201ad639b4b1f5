"""What to label next: unsure, in a crowd, spread out; and it must be worth more than labels at random."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from references_labeling_pages import made_up_labeling

from laplacenet.graph import GraphConfig, pseudo_label
from laplacenet.labeling import acquisition as module
from laplacenet.labeling.acquisition import as_csv, next_entries, select_next, suspects, why, why_suspect
from laplacenet.labeling.result import Labeling
from laplacenet.runtime import InputError

N_CLASSES, N_CLUSTERS, N_ASKED = 4, 24, 12


def clustered(seed: int) -> tuple[Labeling, torch.Tensor]:
    """Many clusters of unequal size, several to a class, and one label a class; with the true labels."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(8, 50, N_CLUSTERS)
    cluster = np.repeat(np.arange(N_CLUSTERS), sizes)
    features = rng.normal(size=(N_CLUSTERS, 12))[cluster] + 0.35 * rng.normal(size=(len(cluster), 12))
    truth = torch.from_numpy(cluster % N_CLASSES)
    labels = torch.full((len(cluster),), -1)
    for label in range(N_CLASSES):
        row = rng.choice(np.flatnonzero(truth.numpy() == label))
        labels[row] = label
    return propagated(torch.from_numpy(features).float(), labels), truth


def propagated(features: torch.Tensor, labels: torch.Tensor) -> Labeling:
    n = len(features)
    found = pseudo_label(features, labels, GraphConfig(k=10, alignment_iterations=0), n_classes=N_CLASSES)
    blank = made_up_labeling(n, N_CLASSES, n_given=4)
    return replace(
        blank,
        given=labels,
        labels=found.labels,
        scores=found.scores.float(),
        features=torch.nn.functional.normalize(features, dim=1),
        is_suspect=torch.zeros(n, dtype=torch.bool),
    )


def accuracy_after(labeling: Labeling, rows: torch.Tensor, truth: torch.Tensor) -> float:
    """Of all rows, once a person has labeled these."""
    labels = labeling.given.clone()
    labels[rows] = truth[rows]
    return float((propagated(labeling.features, labels).labels == truth).float().mean())


def test_labels_chosen_so_are_worth_more_than_random_ones_and_than_the_least_sure() -> None:
    chosen, drawn, unsure = [], [], []
    for seed in range(10):
        labeling, truth = clustered(seed)
        free = torch.nonzero(~labeling.is_given).squeeze(1)
        random = free[torch.randperm(len(free), generator=torch.Generator().manual_seed(seed))[:N_ASKED]]
        least = free[labeling.margin[free].argsort()[:N_ASKED]]
        chosen.append(accuracy_after(labeling, select_next(labeling, N_ASKED).rows, truth))
        drawn.append(accuracy_after(labeling, random, truth))
        unsure.append(accuracy_after(labeling, least, truth))
    assert np.mean(chosen) > np.mean(drawn) + 0.05
    assert np.mean(chosen) > np.mean(unsure) + 0.05
    assert sum(a > b for a, b in zip(chosen, drawn, strict=True)) >= 8


@settings(max_examples=25)
@given(n=st.integers(4, 60), n_given=st.integers(1, 60), asked=st.integers(1, 80), seed=st.integers(0, 5))
def test_the_rows_are_new_differ_and_are_as_many_as_there_can_be(n: int, n_given: int, asked: int, seed: int) -> None:
    labeling = made_up_labeling(n, 3, n_given=min(n, n_given), seed=seed)
    found = select_next(labeling, asked)
    assert not labeling.is_given[found.rows].any()
    assert len(found.rows) == len(found.rows.unique()) == min(asked, int((~labeling.is_given).sum()))
    assert ((found.n_alike >= 0) & (found.n_alike < max(1, int((~labeling.is_given).sum())))).all()


def test_an_outlier_is_not_asked_for_before_a_crowd_however_unsure_it_is() -> None:
    rng = np.random.default_rng(0)
    crowd = np.array([1.0, 0.0, 0.0]) + 0.05 * rng.normal(size=(40, 3))
    features = torch.from_numpy(np.concatenate([crowd, [[0.0, 1.0, 0.0]]])).float()
    labeling = made_up_labeling(41, 2, n_given=1)
    scores = torch.tensor([[0.6, 0.4]]).repeat(41, 1)
    scores[40] = 0.5
    given = torch.full((41,), -1)
    features = torch.nn.functional.normalize(features, dim=1)
    labeling = replace(
        labeling, features=features, scores=scores, labels=torch.zeros(41, dtype=torch.int64), given=given
    )
    assert 40 not in select_next(labeling, 1).rows.tolist()


def test_a_twin_of_what_was_taken_is_not_taken_next() -> None:
    features = torch.tensor([[1.0, 0.0]] * 10 + [[0.0, 1.0]] * 4)
    labeling = made_up_labeling(14, 2, n_given=1)
    labeling = replace(
        labeling,
        features=features,
        scores=torch.full((14, 2), 0.5),
        labels=torch.zeros(14, dtype=torch.int64),
        given=torch.full((14,), -1),
    )
    first, second = select_next(labeling, 2).rows.tolist()
    assert first < 10 <= second


def test_a_copy_of_a_picture_with_a_given_label_is_not_asked_for() -> None:
    labeling = made_up_labeling(60, 3, n_given=10)
    free, known = (torch.nonzero(mask).squeeze(1) for mask in (~labeling.is_given, labeling.is_given))
    features = labeling.features.clone()
    features[free[:4]] = features[known[:4]] * (1 + 1e-7)  # as rounding leaves them
    copied = replace(labeling, features=features)
    assert sorted(select_next(copied, 60).rows.tolist()) == free[4:].tolist()
    features[free] = features[known[0]].clone()
    assert len(select_next(replace(labeling, features=features), 60).rows) == 50  # something has to be asked for


def test_a_large_collection_is_represented_by_a_pool_drawn_the_same_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "POOL", 50)
    labeling = made_up_labeling(300)
    one, other = select_next(labeling, 10), select_next(labeling, 10)
    assert torch.equal(one.rows, other.rows)
    assert torch.equal(one.n_alike, other.n_alike)


def test_where_everything_is_given_nothing_is_worth_labeling() -> None:
    assert len(select_next(made_up_labeling(20, 3, n_given=20), 5).rows) == 0
    with pytest.raises(InputError, match="at least one"):
        select_next(made_up_labeling(20, 3), 0)


def test_suspects_come_with_the_clearest_first_and_say_why() -> None:
    labeling = made_up_labeling()
    rows = suspects(labeling)
    unseen = labeling.unseen_scores[rows]
    gaps = unseen.amax(1) - unseen[torch.arange(len(rows)), labeling.given[rows]]
    assert len(rows) == int(labeling.is_suspect.sum()) > 1
    assert torch.equal(gaps, gaps.sort(descending=True).values)
    assert labeling.summary.class_names[int(labeling.given[rows[0]])] in why_suspect(labeling, int(rows[0]))


def test_the_reason_names_both_labels_it_stands_between() -> None:
    labeling = made_up_labeling()
    row = int(select_next(labeling, 1).rows[0])
    best = labeling.scores[row].argsort(descending=True)[:2].tolist()
    assert all(labeling.summary.class_names[label] in why(labeling, row, 7) for label in best)
    assert why(labeling, row, 7).endswith("like 7 others")
    assert why(labeling, row, 1).endswith("like 1 other")
    assert "like" not in why(labeling, row, 0)


@pytest.mark.parametrize("n", [1, 20, 60])
def test_fewer_are_the_beginning_of_more(n: int) -> None:
    labeling = made_up_labeling(300)
    fewer, more = next_entries(labeling, n), next_entries(labeling, n + 7)
    assert as_csv(labeling, more).startswith(as_csv(labeling, fewer))
