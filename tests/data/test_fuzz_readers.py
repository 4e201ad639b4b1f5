"""Every reader of files from strangers, before thousands of damaged ones: a result or one line, never anything else."""

import gzip
import io
import json
import pickle
import time
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import strategies as st
from PIL import Image
from references_data import archive_of, cifar100_files, python2_pickle, write_archive
from references_mutation import anything, hunt, mutated, time_limit

from laplacenet.data import (
    Collection,
    GivenLabels,
    ImageSet,
    holds_row_numbers,
    load_dataset,
    read_collection,
    read_labels,
    read_split,
)
from laplacenet.data.cifar import CIFAR100, read_cifar
from laplacenet.data.decoding import decode
from laplacenet.data.label_files import RowLabels
from laplacenet.data.label_vectors import read_row_labels
from laplacenet.data.pickles import read_array_pickle
from laplacenet.data.pictures import decode_all
from laplacenet.data.walking import PictureFile
from laplacenet.runtime import InputError

NAMES = ("a.jpg", "cats/b.jpg", "cats/c.jpg", "dogs/c.jpg")
IMAGES = ImageSet(torch.zeros(4, 1, 2, 2, dtype=torch.uint8), torch.full((4,), -1), (), NAMES)
N_LONG = 10_000


def or_one_line(read: Callable[[], object]) -> object:
    """What is read; where it is refused, the message must be what a person can be shown."""
    try:
        return read()
    except InputError as error:
        said = str(error)
    assert 0 < len(said) < 2000
    assert "\n" not in said
    return None


def saved(image: Image.Image, kind: str, **options: object) -> bytes:
    content = io.BytesIO()
    image.save(content, kind, **options)
    return content.getvalue()


def picture_seeds() -> list[bytes]:
    noise = Image.fromarray(np.random.default_rng(0).integers(0, 256, (9, 11, 3), dtype=np.uint8))
    exif = Image.Exif()
    exif[0x0112] = 6
    frames = {"save_all": True, "append_images": [noise.rotate(90)]}
    sixteen = Image.fromarray(np.arange(99, dtype=np.uint16).reshape(9, 11) * 600)
    return [
        saved(noise, "JPEG", exif=exif),
        saved(noise, "JPEG", progressive=True),
        saved(noise.convert("CMYK"), "JPEG"),
        *(
            saved(image, "PNG")
            for image in (noise, noise.quantize(8), noise.convert("LA"), noise.convert("1"), sixteen)
        ),
        saved(noise.convert("RGBA"), "PNG", **frames),
        saved(noise, "GIF", **frames),
        saved(noise, "WEBP", **frames),
        saved(noise, "WEBP", exif=exif),
        saved(noise.quantize(8), "BMP"),
        *(
            saved(noise, "TIFF", compression=way)
            for way in (None, "tiff_lzw", "tiff_adobe_deflate", "jpeg", "packbits")
        ),
        saved(sixteen, "TIFF", exif=exif),
        saved(noise, "PPM"),
        saved(noise.convert("1"), "PPM"),
        b"P3 2 1 255\n1 2 3 4 5 6\n",
    ]


def array_seeds() -> list[bytes]:
    """`.npy` and `.npz` files of images, embeddings, labels and splits."""
    images, points = np.zeros((4, 5, 5), np.uint8), np.eye(4)
    seeds = []
    for array in (images, points, np.arange(4), np.array(["a", "", "b", "a"]), np.array([0, np.nan, 1, -1])):
        content = io.BytesIO()
        np.save(content, array)
        seeds.append(content.getvalue())
    for save in (np.savez, np.savez_compressed):
        for arrays in (
            {"images": images, "labels": np.arange(4)},
            {"embeddings": points, "y": np.array(["a", "", "b", "a"])},
            {"labels": np.arange(3)},
        ):
            content = io.BytesIO()
            save(content, **arrays)
            seeds.append(content.getvalue())
    return seeds


LABEL_SEEDS = [
    text.encode(encoding)
    for encoding in ("utf-8", "utf-8-sig", "utf-16")
    for text in (
        "file,label\na.jpg,cat\ncats/b.jpg,dog\n",
        'a.jpg;"cat"\n"dogs/c.jpg";3\n',
        "label\tpath\n1.0\ta.jpg\n-1\tcats/b.jpg\n",
        '{"path": "a.jpg", "label": "cat"}\n{"file": "cats/b.jpg", "class": 2}\n',
        "row,label\n0,cat\n3,dog\n",
        "cat\n\ndog\nNone\n",
        "index\n3\n0\n",
        "0\n2\n",
        "a.jpg,cat\npath,label,guess\ncats/b.jpg,'=dog,owl\nlabel,path\ncat,dogs/c.jpg\n",
        "annotation_id,choice,image\n1,cat,/data/upload/1/0f3a9c2e-a.jpg\n2,dog,/data/local-files/?d=cats%2Fb.jpg\n",
        '[{"image": "a.jpg", "choice": "cat"}, {"data": {"image": "cats/b.jpg"}, "annotations":'
        ' [{"result": [{"value": {"choices": ["dog"]}}], "was_cancelled": false}]}]',
    )
]
TABLE_CELLS = st.sampled_from(
    [
        *NAMES,
        "c.jpg",
        "../a.jpg",
        "/x/a.jpg",
        "0",
        "-1",
        "1.0",
        "",
        "cat",
        "nan",
        '"',
        '""',
        "file",
        "label",
        "\0",
        "é",
        "{",
    ]
)
TABLES = st.lists(st.lists(TABLE_CELLS, max_size=4), max_size=5).flatmap(
    lambda rows: st.sampled_from([",", ";", "\t"]).map(lambda mark: "\n".join(map(mark.join, rows)).encode())
)


def written(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def bears_label_lists(folder: Path, content: bytes) -> None:
    for name in ("l.csv", "l.jsonl", "l.json"):
        path = written(folder / name, content)
        found = or_one_line(lambda path=path: read_labels(path, IMAGES, root=folder))
        if isinstance(found, GivenLabels):
            assert found.labels.shape == (4,)
            assert -1 <= int(found.labels.min()) <= int(found.labels.max()) < len(found.class_names)
            json.dumps(found.class_names).encode()


def bears_row_labels(folder: Path, content: bytes) -> None:
    for suffix in (".csv", ".txt", ".jsonl", ".json", ".npy", ".npz"):
        path = written(folder / f"l{suffix}", content)
        found = or_one_line(lambda path=path: read_row_labels(path, 4))
        assert found is None or (isinstance(found, RowLabels) and set(found.rows) <= set(range(4)))


def bears_splits(folder: Path, content: bytes) -> None:
    for suffix in (".csv", ".txt", ".npz"):
        path = written(folder / f"l{suffix}", content)
        or_one_line(lambda path=path: read_split(path, n=4))
        or_one_line(lambda path=path: holds_row_numbers(path))


def bears_arrays(folder: Path, content: bytes) -> None:
    for suffix in (".npz", ".npy"):
        path = written(folder / f"x{suffix}", content)
        found = or_one_line(lambda path=path: read_collection(path))
        assert found is None or (isinstance(found, Collection) and len(found.names) == len(found.labels))
        or_one_line(lambda path=path: load_dataset(path))


def bears_pictures(folder: Path, content: bytes) -> None:
    files = [PictureFile(written(folder / "a.png", content), "a.png")]
    images, kept, skipped = decode_all(files, size=8)
    assert len(images) == len(kept) == 1 - len(skipped)
    assert all(file.reason and "\n" not in file.reason for file in skipped)


def bears_pickles(folder: Path, content: bytes) -> None:
    or_one_line(lambda: read_array_pickle(content, where="here"))


def bears_archives(folder: Path, content: bytes) -> None:
    path = written(folder / CIFAR100.archive, content)
    or_one_line(lambda: read_cifar(CIFAR100, path))


def pickle_seeds() -> list[bytes]:
    content = {"data": np.arange(12, dtype=np.uint8).reshape(2, 6), "labels": [0, 1], "names": ["a", "b"]}
    return [python2_pickle(content), *(pickle.dumps(content, protocol=protocol) for protocol in (2, 4))]


def tar_seed(folder: Path) -> bytes:
    path = write_archive(folder / "seed.tar.gz", archive_of(CIFAR100.folder, cifar100_files(1)))
    return gzip.decompress(path.read_bytes())


def zipped(member: bytes) -> bytes:
    """As the images of an `.npz` file: a wrong byte that the archive's checksum does not tell of."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("images.npy", member)
        archive.writestr("labels.npy", member)
    return content.getvalue()


READERS: dict[str, tuple[Callable[[Path], st.SearchStrategy[bytes]], Callable[[Path, bytes], None]]] = {
    "label lists": (lambda _: st.one_of(anything(LABEL_SEEDS), TABLES), bears_label_lists),
    "labels of rows": (lambda _: st.one_of(anything(LABEL_SEEDS + array_seeds()[2:5]), TABLES), bears_row_labels),
    "splits": (lambda _: st.one_of(anything(LABEL_SEEDS + array_seeds()[-1:]), TABLES), bears_splits),
    "arrays": (
        lambda _: st.one_of(anything(array_seeds()), mutated(array_seeds()[:5]).map(zipped)),
        bears_arrays,
    ),
    "pictures": (lambda _: anything(picture_seeds()), bears_pictures),
    "pickles": (lambda _: anything(pickle_seeds()), bears_pickles),
    "archives": (
        lambda folder: st.one_of(
            mutated([tar_seed(folder)]).map(partial(gzip.compress, compresslevel=1)),
            mutated([gzip.compress(tar_seed(folder))]),
        ),
        bears_archives,
    ),
}


@pytest.mark.parametrize("reader", READERS)
def test_a_reader_bears_whatever_it_is_given(reader: str, tmp_path: Path) -> None:
    strategy, bears = READERS[reader]
    hunt(strategy(tmp_path), lambda content: bears(tmp_path, content))
    assert not any(path.is_dir() for path in tmp_path.iterdir())


@pytest.mark.long
@pytest.mark.parametrize("reader", READERS)
def test_a_reader_bears_ten_thousand_inputs(reader: str, tmp_path: Path) -> None:
    strategy, bears = READERS[reader]
    hunt(strategy(tmp_path), lambda content: bears(tmp_path, content), n=N_LONG)
    assert not any(path.is_dir() for path in tmp_path.iterdir())


def test_the_seeds_themselves_are_read(tmp_path: Path) -> None:
    """Else the hunt would only ever see what is refused at the door."""
    for content in picture_seeds():
        assert decode(written(tmp_path / "a.png", content), size=8).shape == (8, 8, 3)
    for content in pickle_seeds():
        assert "data" in read_array_pickle(content, where="here")
    for content in LABEL_SEEDS[0], LABEL_SEEDS[3]:
        assert read_labels(written(tmp_path / "l.csv", content), IMAGES).class_names
    assert len(read_cifar(CIFAR100, written(tmp_path / "a.tar.gz", gzip.compress(tar_seed(tmp_path)))).train) == 1


def spin() -> None:
    while True:
        pass


def test_a_hang_is_noticed() -> None:
    with pytest.raises(AssertionError, match="still running"), time_limit(60, limit_s=0.05):
        time.sleep(2)
    with pytest.raises(AssertionError, match="still computing"), time_limit(0.05):
        spin()
