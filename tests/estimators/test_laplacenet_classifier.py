"""The whole of LaplaceNet as an estimator: pictures of any layout, vectors, and what it must reach in seconds."""

import pickle

import numpy as np
import pytest
from references_estimators import digits, some_labels
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import StandardScaler

from laplacenet.estimators import LaplaceNetClassifier

X, TRUTH = digits()
PICTURES = np.rint(X.reshape(-1, 8, 8) * (255 / 16)).astype(np.uint8)
Y = some_labels(TRUTH, 4)
SHORT = {"steps": 4, "n_views": 2, "n_neighbors": 10, "flip": False, "device": "cpu"}


def test_vectors_with_four_labels_a_class_beat_a_supervised_network_in_seconds():
    fitted = LaplaceNetClassifier(steps=300, n_neighbors=10, device="cpu").fit(X, Y)
    standardized = StandardScaler().fit_transform(X)
    supervised = MLPClassifier((64,), random_state=0, max_iter=400).fit(standardized[Y >= 0], Y[Y >= 0])
    hidden = Y < 0
    ours = np.mean(fitted.predict(X)[hidden] == TRUTH[hidden])
    assert ours > np.mean(supervised.predict(standardized)[hidden] == TRUTH[hidden]) + 0.03
    assert np.mean(fitted.transduction_[hidden] == TRUTH[hidden]) > 0.85


def test_pictures_are_learned_from_four_labels_a_class():
    fitted = LaplaceNetClassifier(steps=60, n_views=2, n_neighbors=10, flip=False, device="cpu").fit(PICTURES, Y)
    hidden = Y < 0
    assert np.mean(fitted.predict(PICTURES)[hidden] == TRUTH[hidden]) > 0.75
    assert np.mean(fitted.transduction_[hidden] == TRUTH[hidden]) > 0.8


def test_given_labels_are_kept_and_distributions_sum_to_one():
    fitted = LaplaceNetClassifier(**SHORT).fit(X, Y)
    np.testing.assert_array_equal(fitted.transduction_[Y >= 0], Y[Y >= 0])
    assert fitted.label_distributions_.shape == (len(X), 10)
    np.testing.assert_allclose(fitted.label_distributions_.sum(axis=1), 1, atol=1e-6)
    np.testing.assert_allclose(fitted.predict_proba(X).sum(axis=1), 1)
    assert not fitted.unreachable_.any()


def test_every_layout_of_grey_pictures_is_the_same_to_it():
    rows, y = PICTURES[:100], TRUTH[:100]
    expected = LaplaceNetClassifier(**SHORT).fit(rows, y).predict_proba(rows)
    for layout in (rows[..., None], rows[:, None], rows / 255.0, rows.astype(np.int64) - 7):
        np.testing.assert_array_equal(LaplaceNetClassifier(**SHORT).fit(layout, y).predict_proba(layout), expected)


def test_channels_may_be_first_or_last():
    colored = np.stack([PICTURES[:100], PICTURES[100:200], PICTURES[200:300]], axis=-1)
    last = LaplaceNetClassifier(**SHORT).fit(colored, TRUTH[:100])
    first = LaplaceNetClassifier(**SHORT).fit(colored.transpose(0, 3, 1, 2), TRUTH[:100])
    np.testing.assert_array_equal(first.predict_proba(colored.transpose(0, 3, 1, 2)), last.predict_proba(colored))
    np.testing.assert_array_equal(first.transduction_, last.transduction_)


def test_a_picture_is_scaled_by_what_was_seen_in_training():
    fitted = LaplaceNetClassifier(**SHORT).fit(X[:100].reshape(-1, 8, 8), TRUTH[:100])
    alone = fitted.predict_proba(X[:1].reshape(1, 8, 8))
    np.testing.assert_allclose(alone, fitted.predict_proba(X[:100].reshape(-1, 8, 8))[:1], atol=1e-5)


def test_the_scale_and_origin_of_a_feature_do_not_matter():
    plain = LaplaceNetClassifier(**SHORT).fit(X, Y)
    moved = LaplaceNetClassifier(**SHORT).fit(1000 * X + 17, Y)
    np.testing.assert_allclose(moved.predict_proba(1000 * X + 17), plain.predict_proba(X), atol=1e-3)


def test_the_seed_decides_everything():
    rows, y = X[:150], Y[:150]

    def probabilities(random_state):
        return LaplaceNetClassifier(**SHORT, random_state=random_state).fit(rows, y).predict_proba(rows)

    np.testing.assert_array_equal(probabilities(3), probabilities(3))
    np.testing.assert_array_equal(probabilities(3), probabilities(np.random.RandomState(3)))
    assert not np.array_equal(probabilities(3), probabilities(4))
    assert not np.array_equal(probabilities(None), probabilities(None))


def test_the_network_suits_the_input_unless_one_is_named():
    def n_weights(rows, **settings):
        fitted = LaplaceNetClassifier(**SHORT | {"steps": 1, "n_views": 1} | settings).fit(rows, TRUTH[: len(rows)])
        return sum(parameter.numel() for parameter in fitted.network_.parameters())

    large = np.random.default_rng(0).integers(0, 256, (4, 64, 64, 3), dtype=np.uint8)
    assert n_weights(X[:40]) == 64 * 64 + 64 + 64 * 10 + 10
    assert n_weights(PICTURES[:40]) < 200_000
    assert n_weights(large, batch_size=4) > 10_000_000
    assert n_weights(np.tile(PICTURES[:10], (1, 4, 4)), model="wrn-28-2", batch_size=4) > 1_000_000


@pytest.mark.parametrize(
    ("parameter", "value"),
    [
        ("steps", 0),
        ("steps", 2.5),
        ("batch_size", 1),
        ("n_views", 0),
        ("lr", -0.1),
        ("lr", "fast"),
        ("n_neighbors", 0),
        ("mu", 0),
        ("prior", "flat"),
        ("model", "13cnn"),
        ("model", "mlp"),
        ("model", "13-cnn"),
        ("device", "tpu"),
    ],
)
def test_a_wrong_parameter_is_a_value_error_that_names_it(parameter, value):
    with pytest.raises(ValueError, match=rf"\b{parameter}\b") as refusal:
        LaplaceNetClassifier(**{"device": "cpu", parameter: value}).fit(PICTURES[:30], TRUTH[:30] % 3)
    assert "graph." not in str(refusal.value)
    assert "train." not in str(refusal.value)


@pytest.mark.parametrize(
    ("rows", "parameter", "value", "said"),
    [
        (X, "model", "foo", "unknown model 'foo'; choose one of 13-cnn"),
        (X, "model", "small-cnn", "vectors need model='mlp'"),
        (PICTURES, "model", "mlp", "model = 'mlp' reads vectors, but X holds pictures"),
        (X, "prior", "auto", "choose 'labeled', 'shrunk', 'equal', None or give 3 positive numbers"),
    ],
)
def test_a_refusal_lists_what_is_accepted(rows, parameter, value, said):
    with pytest.raises(ValueError, match=said):
        LaplaceNetClassifier(**SHORT | {parameter: value}).fit(rows[:30], TRUTH[:30] % 3)


@pytest.mark.parametrize("shape", [(5, 8, 8, 2), (5, 1, 8, 8, 3)])
def test_pictures_of_another_kind_are_refused(shape):
    with pytest.raises(ValueError, match="1 or 3 channels"):
        LaplaceNetClassifier(**SHORT).fit(np.zeros(shape, dtype=np.uint8), [0, 1, 0, 1, -1])


def test_pictures_of_another_size_are_refused_in_prediction():
    fitted = LaplaceNetClassifier(**SHORT).fit(PICTURES[:40], TRUTH[:40])
    with pytest.raises(ValueError, match=r"fitted on \(8, 8\)"):
        fitted.predict(np.zeros((2, 8, 9), dtype=np.uint8))
    with pytest.raises(ValueError, match="fitted on"):
        fitted.predict(np.zeros((2, 8), dtype=np.uint8))


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore")  # the compiler warns of itself while it works, differently in each version
def test_what_a_gpu_trained_can_be_read_without_one():
    fitted = LaplaceNetClassifier(**SHORT | {"device": "cuda", "steps": 100}).fit(PICTURES, Y)
    assert {parameter.device.type for parameter in fitted.network_.parameters()} == {"cpu"}
    restored = pickle.loads(pickle.dumps(fitted)).set_params(device="cpu")
    assert np.mean(restored.predict(PICTURES) == fitted.predict(PICTURES)) > 0.98
    assert np.mean(fitted.transduction_ == TRUTH) > 0.8
