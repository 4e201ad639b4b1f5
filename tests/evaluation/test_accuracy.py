"""Error rates and pseudo-label accuracy against scikit-learn's counts."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, recall_score
from torch import Tensor, nn

from laplacenet.evaluation import correct, error_rate, errors_by_class, pseudo_label_accuracy
from laplacenet.models import Inference, Network
from laplacenet.runtime import InputError

N_CLASSES = 3


def says_what_it_reads() -> Inference:
    """A network whose logits are its input."""
    network = Network(nn.Identity(), embedding_size=N_CLASSES, n_classes=N_CLASSES)
    with torch.no_grad():
        network.head.weight.copy_(torch.eye(N_CLASSES))
        network.head.bias.zero_()
    return Inference(network, lambda inputs: inputs)


def one_hot(predictions: list[int]) -> Tensor:
    return torch.eye(N_CLASSES)[predictions]


pairs = st.lists(st.tuples(st.integers(0, N_CLASSES - 1), st.integers(0, N_CLASSES - 1)), min_size=1, max_size=600)


@given(pairs)
def test_the_error_rate_is_one_minus_scikit_learns_accuracy(pairs: list[tuple[int, int]]) -> None:
    predictions, labels = ([pair[i] for pair in pairs] for i in (0, 1))
    error = error_rate(says_what_it_reads(), one_hot(predictions), torch.tensor(labels))
    assert error == pytest.approx(1 - accuracy_score(labels, predictions), abs=1e-12)


@given(pairs)
def test_errors_by_class_are_one_minus_scikit_learns_recall(pairs: list[tuple[int, int]]) -> None:
    predictions, labels = ([pair[i] for pair in pairs] for i in (0, 1))
    is_right = correct(says_what_it_reads(), one_hot(predictions), torch.tensor(labels))
    errors = errors_by_class(is_right, torch.tensor(labels), n_classes=N_CLASSES)
    recalls = recall_score(labels, predictions, labels=range(N_CLASSES), average=None, zero_division=0)
    for number, error in enumerate(errors):
        expected = pytest.approx(1 - recalls[number]) if number in labels else None
        assert error == expected


def test_an_unknown_label_counts_neither_as_right_nor_as_wrong() -> None:
    inputs = one_hot([0, 1, 2, 0])
    assert error_rate(says_what_it_reads(), inputs, torch.tensor([0, 2, -1, -1])) == 0.5


def test_a_set_without_any_known_label_is_refused() -> None:
    with pytest.raises(InputError, match="no label is known"):
        error_rate(says_what_it_reads(), one_hot([0, 1]), torch.tensor([-1, -1]))


def test_judging_leaves_the_network_in_its_mode() -> None:
    inference = says_what_it_reads()
    for mode in (True, False):
        inference.network.train(mode)
        error_rate(inference, one_hot([0]), torch.tensor([0]))
        assert inference.network.training == mode


def test_pseudo_labels_are_judged_where_the_label_was_hidden_and_the_truth_is_known() -> None:
    given_labels = torch.tensor([0, -1, -1, -1, -1])
    true_labels = torch.tensor([0, 1, 2, 0, -1])
    pseudo_labels = torch.tensor([0, 1, 2, 1, 2])
    assert pseudo_label_accuracy(pseudo_labels, true_labels, given_labels) == pytest.approx(2 / 3)


def test_a_wrong_pseudo_label_of_a_given_label_does_not_count() -> None:
    given_labels, true_labels = torch.tensor([0, -1]), torch.tensor([0, 1])
    assert pseudo_label_accuracy(torch.tensor([2, 1]), true_labels, given_labels) == 1


def test_without_a_hidden_truth_there_is_no_pseudo_label_accuracy() -> None:
    labels = torch.tensor([0, 1, -1])
    assert pseudo_label_accuracy(torch.tensor([0, 1, 2]), labels, labels) is None


@pytest.mark.gpu
def test_a_gpu_counts_the_same_errors() -> None:
    inference = says_what_it_reads()
    inputs, labels = one_hot([i % 3 for i in range(4_321)]), torch.arange(4_321) % 4 - 1
    on_cpu = error_rate(inference, inputs, labels)
    inference.network.to("cuda")
    assert error_rate(inference, inputs, labels) == on_cpu
