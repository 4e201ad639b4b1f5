"""The cache on disk gives back what was written, without loading it, and never half of it."""

from pathlib import Path

import numpy as np
import pytest
import torch

from laplacenet.data import ImageSet, MemoryMappedImages, data_hash
from laplacenet.runtime import InputError


def some_images(n: int = 2500) -> ImageSet:
    images = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (n, 3, 4, 5), dtype=np.uint8))
    return ImageSet(images, torch.arange(n) % 3 - 1, ("a", "b"), tuple(f"é{k}.png" for k in range(n)))


def test_what_is_written_comes_back(tmp_path: Path) -> None:
    written = some_images()
    cache = MemoryMappedImages(tmp_path / "below" / "cache")
    cache.write(written)
    opened = cache.open()
    assert data_hash(opened) == data_hash(written)
    assert (opened.class_names, opened.names, opened.statistics) == (
        written.class_names,
        written.names,
        written.statistics,
    )
    assert [path.name for path in (tmp_path / "below").iterdir()] == ["cache"]


def test_images_are_mapped_not_loaded_and_the_file_cannot_be_changed_through_them(tmp_path: Path) -> None:
    cache = MemoryMappedImages(tmp_path / "cache")
    cache.write(some_images())
    opened = cache.open()
    maps = Path("/proc/self/maps")
    if maps.exists():
        assert str(tmp_path / "cache" / "images.u8") in maps.read_text()
    before = (tmp_path / "cache" / "images.u8").read_bytes()
    opened.images[0] = 7
    assert (tmp_path / "cache" / "images.u8").read_bytes() == before


def test_strided_images_are_written_in_order(tmp_path: Path) -> None:
    written = some_images(10)
    strided = ImageSet(written.images.flip(0)[::2, :1], written.labels[::2], ("a", "b"))
    MemoryMappedImages(tmp_path / "cache").write(strided)
    assert torch.equal(MemoryMappedImages(tmp_path / "cache").open().images, strided.images)


def test_an_existing_cache_is_not_written_over(tmp_path: Path) -> None:
    cache = MemoryMappedImages(tmp_path / "cache")
    cache.write(some_images(3))
    with pytest.raises(InputError, match="exists already"):
        cache.write(some_images(4))
    assert len(cache.open()) == 3


def test_an_interrupted_write_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(np, "save", interrupt)
    with pytest.raises(KeyboardInterrupt):
        MemoryMappedImages(tmp_path / "cache").write(some_images(3))
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_cache_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cache: not a complete image cache"):
        MemoryMappedImages(tmp_path / "cache").open()
    cache = MemoryMappedImages(tmp_path / "cache")
    cache.write(some_images(3))
    with (tmp_path / "cache" / "images.u8").open("ab") as file:
        file.write(b"more")
    with pytest.raises(InputError, match=r"images\.u8: 184 bytes, its header says 180"):
        cache.open()
    (tmp_path / "cache" / "header.json").write_text("{}")
    with pytest.raises(InputError, match="not a complete image cache"):
        cache.open()
