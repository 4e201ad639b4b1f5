"""V_Z of equation 15 against its literal sum."""

import torch

from laplacenet.augment import AugmentConfig, normalized, sample_views, strong_views_uint8
from laplacenet.data import ImageSet, load_dataset, require_images
from laplacenet.evaluation import augmentation_invariance, error_rate, invariance
from laplacenet.models import Inference, build_model
from laplacenet.runtime import stream

STRONG = AugmentConfig(flip=False, cutout=0.25)
NOTHING = AugmentConfig(n_labeled_samples=0, n_unlabeled_samples=0, cutout=0.0, flip=False, pad=0)


def some_digits(n: int = 120) -> ImageSet:
    train, _ = require_images(load_dataset("digits"))
    return ImageSet(train.images[:n], train.labels[:n], train.class_names, statistics=train.statistics)


def untrained(image_set: ImageSet) -> Inference:
    network = build_model("small-cnn", n_classes=10, in_channels=1, seed=3)
    return Inference(network, lambda images: normalized(images, image_set.statistics))


def test_it_is_the_ratio_of_two_accuracies_with_one_unlabeled_view_an_image() -> None:
    digits = some_digits()
    inference = untrained(digits)
    parameters = sample_views(len(digits), n_samples=2, height=8, width=8, config=STRONG, rng=stream(5, "invariance"))
    n_right_augmented = n_right = 0
    for i in range(len(digits)):
        view = strong_views_uint8(digits.images, torch.tensor([i]), parameters[i : i + 1])
        n_right_augmented += int(inference.logits(view).argmax() == digits.labels[i])
        n_right += int(inference.logits(digits.images[i : i + 1]).argmax() == digits.labels[i])
    assert n_right > 0
    assert augmentation_invariance(inference, digits, STRONG, seed=5) == n_right_augmented / n_right


def test_without_augmentation_it_is_one() -> None:
    digits = some_digits()
    assert augmentation_invariance(untrained(digits), digits, NOTHING, seed=0) == 1


def test_it_does_not_depend_on_how_many_images_are_augmented_at_once(monkeypatch) -> None:
    digits = some_digits()
    whole = augmentation_invariance(untrained(digits), digits, STRONG, seed=1)
    monkeypatch.setattr(invariance, "chunk_size", lambda images, device: 7)
    assert augmentation_invariance(untrained(digits), digits, STRONG, seed=1) == whole


def test_a_classifier_that_is_never_right_has_none() -> None:
    digits = some_digits()
    inference = untrained(digits)
    predicted = inference.logits(digits.images).argmax(dim=1)
    wrong = ImageSet(digits.images, (predicted + 1) % 10, digits.class_names, statistics=digits.statistics)
    assert error_rate(inference, wrong.images, wrong.labels) == 1
    assert augmentation_invariance(inference, wrong, STRONG, seed=0) is None
