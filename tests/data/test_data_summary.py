"""Hashes for the record and summaries for people."""

import hashlib
from dataclasses import replace

import numpy as np
import torch

from laplacenet.data import Dataset, ImageSet, Skipped, data_hash, describe, load_dataset


def small(n: int = 6, n_classes: int = 2) -> ImageSet:
    images = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (n, 3, 4, 4), dtype=np.uint8))
    return ImageSet(images, torch.arange(n) % n_classes, tuple(f"kind{k}" for k in range(n_classes)))


def test_the_hash_is_sha256_over_shape_images_and_labels() -> None:
    images = small()
    content = b"torch.uint8 (6, 3, 4, 4)" + images.images.numpy().tobytes() + images.labels.numpy().tobytes()
    assert data_hash(images) == hashlib.sha256(content).hexdigest()


def test_the_hash_sees_each_pixel_and_each_label_but_not_the_layout_in_memory() -> None:
    images = small()
    pixel, label = images.images.clone(), images.labels.clone()
    pixel[5, 2, 3, 3] ^= 1
    label[5] = -1
    strided = images.images.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2)
    assert data_hash(replace(images, images=pixel)) != data_hash(images)
    assert data_hash(replace(images, labels=label)) != data_hash(images)
    assert data_hash(replace(images, images=strided)) == data_hash(images)


def test_a_summary_counts_each_class_in_each_part() -> None:
    train = replace(small(), labels=torch.tensor([0, 0, 0, 1, -1, -1]))
    summary = describe(Dataset(train, small(4), "mine", (Skipped("x.png", "truncated"),)))
    assert summary.train.n_per_class == (3, 1)
    assert summary.train.n_unknown == 2
    assert summary.test is not None
    assert summary.test.n_per_class == (2, 2)
    assert summary.shape == (3, 4, 4)
    text = str(summary)
    assert "mine: color images 4×4, 2 classes" in text
    assert "train: 6 (1 to 3 per class, 2 without label)" in text
    assert "  kind1       1       2" in text
    assert "skipped: 1 files\n  x.png: truncated" in text


def test_a_summary_of_many_classes_and_many_skipped_files_stays_short() -> None:
    skipped = tuple(Skipped(f"{k}.png", "empty") for k in range(50))
    text = str(describe(Dataset(small(200, 100), None, "many", skipped)))
    assert len(text.splitlines()) < 12
    assert "and 45 more" in text
    assert "2 per class" in text


def test_vectors_and_unlabeled_images_have_summaries_too() -> None:
    assert "vectors of 2 numbers, 2 classes" in str(describe(load_dataset("two-moons")))
    unlabeled = ImageSet(small().images, torch.full((6,), -1), ())
    assert "train: 6 (no labels)" in str(describe(Dataset(unlabeled, None, "photos")))
