"""Folders of pictures: classes, sizes, modes, orientation, and files that are no pictures."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from laplacenet.data import Dataset, ImageSet, load_dataset
from laplacenet.data.decoding import decode
from laplacenet.runtime import InputError

RED, BLUE = (255, 0, 0), (0, 0, 255)


def save(path: Path, picture: Image.Image, **options: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    picture.save(path, **options)
    return path


def noise(width: int = 16, height: int = 16, seed: int = 0) -> Image.Image:
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8))


def train_of(dataset: Dataset) -> ImageSet:
    assert isinstance(dataset.train, ImageSet)
    return dataset.train


def test_sub_folders_are_classes_in_the_order_of_their_names(tmp_path: Path) -> None:
    for name, seed in (("dog/1.png", 1), ("cat/2.png", 2), ("cat/deep/3.PNG", 3)):
        save(tmp_path / name, noise(seed=seed))
    train = train_of(load_dataset(tmp_path))
    assert train.class_names == ("cat", "dog")
    assert train.names == ("cat/2.png", "cat/deep/3.PNG", "dog/1.png")
    assert train.labels.tolist() == [0, 0, 1]
    np.testing.assert_array_equal(train.images[2].permute(1, 2, 0).numpy(), np.asarray(noise(seed=1)))


def test_a_flat_folder_has_images_without_labels(tmp_path: Path) -> None:
    save(tmp_path / "b.png", noise(seed=1))
    save(tmp_path / "a.jpg", noise(seed=2))
    train = train_of(load_dataset(str(tmp_path)))
    assert train.names == ("a.jpg", "b.png")
    assert train.labels.tolist() == [-1, -1]
    assert train.class_names == ()


def test_a_picture_outside_any_class_folder_is_unknown(tmp_path: Path) -> None:
    save(tmp_path / "a.png", noise())
    save(tmp_path / "cat" / "b.png", noise())
    assert train_of(load_dataset(tmp_path)).labels.tolist() == [-1, 0]


def test_train_and_test_folders_make_two_sets(tmp_path: Path) -> None:
    for name in ("train/cat/1.png", "train/dog/2.png", "test/dog/3.png", "train/4.png"):
        save(tmp_path / name, noise())
    dataset = load_dataset(tmp_path)
    assert train_of(dataset).names == ("train/4.png", "train/cat/1.png", "train/dog/2.png")
    assert train_of(dataset).labels.tolist() == [-1, 0, 1]
    assert isinstance(dataset.test, ImageSet)
    assert dataset.test.labels.tolist() == [1]
    assert dataset.test.class_names == ("cat", "dog")


def test_a_class_that_only_the_test_folder_has_is_refused(tmp_path: Path) -> None:
    save(tmp_path / "train/cat/1.png", noise())
    save(tmp_path / "test/owl/1.png", noise())
    with pytest.raises(InputError, match="test/owl: a class without pictures"):
        load_dataset(tmp_path)


def test_hidden_files_and_companions_are_passed_over_in_silence(tmp_path: Path) -> None:
    save(tmp_path / "cat" / "1.png", noise())
    for name in (".hidden.png", "cat/.ipynb_checkpoints/1.png", "__MACOSX/cat/1.png", "labels.csv", "cat/Thumbs.db"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"no picture")
    dataset = load_dataset(tmp_path)
    assert train_of(dataset).names == ("cat/1.png",)
    assert dataset.skipped == ()


def test_unreadable_files_are_listed_with_their_reasons(tmp_path: Path) -> None:
    whole = save(tmp_path / "cat" / "whole.jpg", noise(64, 64)).read_bytes()
    (tmp_path / "cat" / "cut.jpg").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "cat" / "empty.png").write_bytes(b"")
    (tmp_path / "cat" / "text.png").write_text("not a picture")
    (tmp_path / "cat" / "phone.heic").write_bytes(b"unknown format")
    save(tmp_path / "cat" / "float.tif", Image.new("F", (16, 16)))
    dataset = load_dataset(tmp_path)
    assert train_of(dataset).names == ("cat/whole.jpg",)
    reasons = {file.path.removeprefix("cat/"): file.reason for file in dataset.skipped}
    assert set(reasons) == {"cut.jpg", "empty.png", "text.png", "phone.heic", "float.tif"}
    assert "truncated" in reasons["cut.jpg"]
    assert "floating-point" in reasons["float.tif"]
    assert all("\n" not in reason for reason in reasons.values())


def test_a_kept_image_stays_beside_its_own_name_when_others_are_skipped(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"")
    save(tmp_path / "b.png", noise(seed=5))
    train = train_of(load_dataset(tmp_path))
    assert train.names == ("b.png",)
    np.testing.assert_array_equal(train.images[0].permute(1, 2, 0).numpy(), np.asarray(noise(seed=5)))


def test_a_folder_without_a_readable_picture_says_so(tmp_path: Path) -> None:
    (tmp_path / "cat").mkdir()
    with pytest.raises(InputError, match=r"no pictures; expected \.bmp .* files, in one sub-folder for each class"):
        load_dataset(tmp_path)
    (tmp_path / "cat" / "1.png").write_bytes(b"")
    with pytest.raises(InputError, match=r"none of 1 files could be read; the first, cat/1\.png"):
        load_dataset(tmp_path)


@pytest.mark.parametrize(
    ("sizes", "side"),
    [
        ([(28, 28), (28, 28)], 28),
        ([(300, 300), (300, 300)], 96),
        ([(50, 70), (90, 52), (500, 400)], 48),
        ([(5, 9), (9, 5)], 8),
    ],
)
def test_the_default_size_follows_the_median_picture(tmp_path: Path, sizes: list, side: int) -> None:
    for number, size in enumerate(sizes):
        save(tmp_path / f"{number}.png", noise(*size))
    assert train_of(load_dataset(tmp_path)).images.shape == (len(sizes), 3, side, side)


def test_a_given_size_is_used_and_nonsense_refused(tmp_path: Path) -> None:
    save(tmp_path / "a.png", noise(50, 40))
    assert train_of(load_dataset(tmp_path, size=20)).images.shape[2:] == (20, 20)
    with pytest.raises(InputError, match="size must be a positive number of pixels, at most 1024; got 0"):
        load_dataset(tmp_path, size=0)


def test_the_shorter_side_is_scaled_and_the_middle_kept(tmp_path: Path) -> None:
    picture = Image.new("RGB", (120, 40), RED)
    picture.paste(BLUE, (40, 0, 80, 40))
    # the filter reaches a little over the edges of the square
    assert (decode(save(tmp_path / "a.png", picture), size=10)[:, 2:-2] == BLUE).all()
    smooth = noise(6, 4).resize((90, 60), Image.Resampling.BICUBIC)
    expected = smooth.resize((30, 20), Image.Resampling.BICUBIC).crop((5, 0, 25, 20))
    difference = decode(save(tmp_path / "b.png", smooth), size=20).astype(int) - np.asarray(expected)
    assert abs(difference).max() <= 1


def test_a_large_jpeg_is_decoded_small_yet_true(tmp_path: Path) -> None:
    smooth = noise(5, 5).resize((800, 800), Image.Resampling.BICUBIC)
    found = decode(save(tmp_path / "a.jpg", smooth, quality=95), size=32)
    difference = found.astype(int) - np.asarray(smooth.resize((32, 32), Image.Resampling.BICUBIC))
    assert abs(difference).mean() < 2


@pytest.mark.parametrize("orientation", range(1, 9))
def test_the_camera_s_orientation_is_applied(tmp_path: Path, orientation: int) -> None:
    upright = Image.new("RGB", (16, 16), RED)
    upright.paste(BLUE, (0, 0, 16, 4))
    upright.paste((0, 255, 0), (0, 4, 4, 16))
    turns = ("FLIP_LEFT_RIGHT", "ROTATE_180", "FLIP_TOP_BOTTOM", "TRANSPOSE", "ROTATE_90", "TRANSVERSE", "ROTATE_270")
    stored = upright if orientation == 1 else upright.transpose(Image.Transpose[turns[orientation - 2]])
    exif = Image.Exif()
    exif[0x0112] = orientation
    np.testing.assert_array_equal(decode(save(tmp_path / "a.png", stored, exif=exif), size=16), np.asarray(upright))


def test_every_mode_becomes_rgb(tmp_path: Path) -> None:
    color = (200, 100, 50)
    plain = Image.new("RGB", (8, 8), color)
    saved = {
        "palette.png": plain.quantize(4),
        "palette.gif": plain.quantize(4),
        "alpha.png": Image.new("RGBA", (8, 8), (*color, 255)),
        "cmyk.tif": Image.new("CMYK", (8, 8), (55, 155, 205, 0)),
        "ycc.jpg": plain,
    }
    for name, picture in saved.items():
        found = decode(save(tmp_path / name, picture), size=8)
        assert abs(found.astype(int) - color).max() <= 2, name


def test_transparent_parts_lie_over_white(tmp_path: Path) -> None:
    path = save(tmp_path / "a.png", Image.new("RGBA", (8, 8), (0, 0, 0, 0)))
    assert (decode(path, size=8) == 255).all()
    keyed = save(tmp_path / "b.png", Image.new("RGB", (8, 8), RED).quantize(2), transparency=0)
    assert (decode(keyed, size=8) == 255).all()
    half = save(tmp_path / "c.png", Image.new("LA", (8, 8), (0, 128)))
    assert abs(decode(half, size=8).astype(int) - 127).max() <= 1


def test_sixteen_bits_become_eight(tmp_path: Path) -> None:
    levels = (np.arange(256, dtype=np.uint16) * 257).reshape(16, 16)
    for name in ("a.png", "a.tif"):
        found = decode(save(tmp_path / name, Image.fromarray(levels)), size=16)
        np.testing.assert_array_equal(found[..., 0].ravel(), np.arange(256))
        np.testing.assert_array_equal(found[..., 0], found[..., 2])


def test_a_folder_of_grey_pictures_has_one_channel(tmp_path: Path) -> None:
    save(tmp_path / "train/a/1.png", noise(seed=1).convert("L"))
    save(tmp_path / "train/a/2.png", noise(seed=2).convert("L").convert("RGB"))
    save(tmp_path / "test/a/3.png", noise(seed=3).convert("1"))
    dataset = load_dataset(tmp_path)
    assert train_of(dataset).images.shape == (2, 1, 16, 16)
    np.testing.assert_array_equal(train_of(dataset).images[0, 0].numpy(), np.asarray(noise(seed=1).convert("L")))
    save(tmp_path / "test/a/4.png", noise(seed=4))
    dataset = load_dataset(tmp_path)
    assert train_of(dataset).images.shape == (2, 1, 16, 16), "the pictures to learn from decide"
    assert isinstance(dataset.test, ImageSet)
    np.testing.assert_array_equal(dataset.test.images[1, 0].numpy(), np.asarray(noise(seed=4).convert("L")))


def test_mini_imagenet_has_84_pixels_a_side(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for part in ("train", "test"):
        save(tmp_path / "mini-imagenet" / part / "n01532829" / "1.jpg", noise(100, 90))
    monkeypatch.setenv("LAPLACENET_DATA", str(tmp_path))
    dataset = load_dataset("mini-imagenet")
    assert dataset.name == "mini-imagenet"
    assert train_of(dataset).images.shape == (1, 3, 84, 84)
    assert len(load_dataset("mini-imagenet", folder=tmp_path / "mini-imagenet").train) == 1


def test_a_missing_mini_imagenet_says_how_it_must_lie(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no folder .*mini-imagenet/train.*train/<class>/ and test/<class>/"):
        load_dataset("mini-imagenet", folder=tmp_path, download=True)
