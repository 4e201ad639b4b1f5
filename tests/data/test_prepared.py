"""Pictures decoded once into a file: the same rows as from the files, resumed without doing work twice."""

import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from laplacenet.data import collection, load_dataset, prepared, read_collection
from laplacenet.data.collection import prepare_folder
from laplacenet.data.prepared import INDEX, PIXELS, SIZE, find_prepared
from laplacenet.data.walking import FolderParts, find_pictures
from laplacenet.models.features.embedding import embed_pictures
from laplacenet.models.features.folder import prepared_decoder
from laplacenet.models.features.network import FeatureNetwork
from laplacenet.runtime import InputError
from laplacenet.runtime.files import CHECKSUM

N = 23


class Tally:
    """Counts files, and asks to stop after some."""

    def __init__(self, most: int = 10**9) -> None:
        self.n, self.most = 0, most

    @property
    def should_stop(self) -> bool:
        return self.n >= self.most

    def advance(self, n: int) -> None:
        self.n += n


@pytest.fixture
def photos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two classes, and a file that is no picture."""
    monkeypatch.setenv("LAPLACENET_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(prepared, "PICTURES_PER_LINE", 4)
    folder = tmp_path / "photos"
    rng = np.random.default_rng(0)
    for number in range(N):
        path = folder / "ab"[number % 2] / f"{number:02}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(256, size=(20, 24, 3), dtype=np.uint8)).save(path)
    (folder / "a" / "05.jpg").write_bytes(b"no picture")
    return folder


def pixels_file(tmp_path: Path) -> Path:
    (found,) = (tmp_path / "cache").rglob(PIXELS)
    return found


def test_prepared_pictures_are_those_of_the_files(photos: Path, tmp_path: Path) -> None:
    before = read_collection(photos)
    assert prepare_folder(photos, size=None) == (N + 1, 16)
    after = read_collection(photos)
    assert torch.equal(after.rows.images, before.rows.images)
    assert (after.names, after.skipped) == (before.names, before.skipped)
    assert len(after.skipped) == 1
    assert pixels_file(tmp_path).stat().st_size == N * 3 * 16 * 16


def test_nothing_is_decoded_again_and_nothing_written_reaches_the_file(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare_folder(photos, size=None)
    content = pixels_file(tmp_path).read_bytes()

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("decoded again")

    monkeypatch.setattr(collection, "decode_all", refuse)
    monkeypatch.setattr(collection, "default_size", refuse)
    monkeypatch.setattr(prepared, "decode_all", refuse)
    dataset = load_dataset(photos)
    dataset.train.images.fill_(0)
    assert prepare_folder(photos, size=None)[0] == N + 1
    assert pixels_file(tmp_path).read_bytes() == content


@pytest.mark.parametrize("n_before", [1, 9, 17])
def test_an_interrupted_preparation_goes_on_where_it_stopped(photos: Path, tmp_path: Path, n_before: int) -> None:
    with pytest.raises(KeyboardInterrupt):
        prepare_folder(photos, size=16, monitor=Tally(n_before))
    files, _ = find_pictures(photos)
    assert find_prepared(files, 16) is None
    index, pixels = pixels_file(tmp_path).with_name(INDEX), pixels_file(tmp_path)
    n_done = 4 * len(index.read_text().splitlines())
    with pixels.open("ab") as file:
        file.write(b"half a picture")
    with index.open("ab") as file:
        file.write(b'{"n_files": 4, "fail')
    decoded: list[int] = []
    before = prepared.decode_all

    def spy(pictures: object, **options: object) -> object:
        decoded.append(len(pictures))  # type: ignore[arg-type]
        return before(pictures, **options)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prepared, "decode_all", spy)
        tally = Tally()
        prepare_folder(photos, size=16, monitor=tally)
    assert sum(decoded) == N + 1 - n_done
    assert tally.n == N + 1
    assert torch.equal(read_collection(photos, size=16).rows.images, from_files(photos, 16))


def from_files(photos: Path, size: int) -> torch.Tensor:
    files, _ = find_pictures(photos)
    return collection.decode_all(files, size=size)[0]


def test_a_changed_or_added_file_is_read_again(photos: Path) -> None:
    prepare_folder(photos, size=16)
    path = photos / "b" / "01.png"
    Image.fromarray(np.zeros((20, 24, 3), dtype=np.uint8)).save(path)
    assert torch.equal(read_collection(photos, size=16).rows.images, from_files(photos, 16))
    assert not read_collection(photos, size=16).rows.images[list(read_collection(photos).names).index("b/01.png")].any()


def test_a_file_that_was_cut_short_is_not_believed(photos: Path, tmp_path: Path) -> None:
    prepare_folder(photos, size=16)
    os.truncate(pixels_file(tmp_path), 100)
    assert torch.equal(read_collection(photos, size=16).rows.images, from_files(photos, 16))


def test_a_file_that_was_cut_short_is_prepared_anew_not_filled_with_black(photos: Path, tmp_path: Path) -> None:
    prepare_folder(photos, size=16)
    os.truncate(pixels_file(tmp_path), 100)
    prepare_folder(photos, size=16)
    files, _ = find_pictures(photos)
    found = find_prepared(files, 16)
    assert found is not None
    assert torch.equal(found.images, from_files(photos, 16))


@pytest.mark.parametrize("place", [0, 1000, 5 * 3 * 16 * 16, N * 3 * 16 * 16 - 1])
def test_a_changed_bit_of_a_prepared_picture_is_refused_and_mended(photos: Path, tmp_path: Path, place: int) -> None:
    prepare_folder(photos, size=16)
    pixels = pixels_file(tmp_path)
    content = bytearray(pixels.read_bytes())
    content[place] ^= 1 << place % 8
    pixels.write_bytes(content)
    with pytest.raises(
        InputError, match=r"pixels\.u8: damaged: pictures \d+ to \d+ .* laplacenet data FOLDER --prepare"
    ):
        read_collection(photos, size=16)
    tally = Tally()
    prepare_folder(photos, size=16, monitor=tally)
    assert tally.n == N + 1
    assert torch.equal(read_collection(photos, size=16).rows.images, from_files(photos, 16))


def test_each_part_of_a_prepared_file_is_checked_once_when_it_is_first_read(
    photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare_folder(photos, size=16)
    checked: list[int] = []
    before = prepared.crc32
    monkeypatch.setattr(prepared, "crc32", lambda images: checked.append(len(images)) or before(images))
    files, _ = find_pictures(photos)
    found = find_prepared(files, 16)
    assert found is not None
    assert checked == []
    for row in range(N):
        found.require_whole(row, row + 1)
    assert sum(checked) == N
    found.require_whole(0, N)
    assert sum(checked) == N


def test_statistics_of_prepared_pictures_are_those_of_the_files(photos: Path) -> None:
    before = read_collection(photos, size=16).rows
    prepare_folder(photos, size=16)
    assert read_collection(photos, size=16).rows.statistics == before.statistics  # type: ignore[union-attr]


def test_embedding_refuses_a_prepared_picture_with_a_changed_bit(photos: Path, tmp_path: Path) -> None:
    prepare_folder(photos, size=8)
    pixels = pixels_file(tmp_path)
    content = bytearray(pixels.read_bytes())
    content[-1] ^= 1
    pixels.write_bytes(content)
    files, _ = find_pictures(photos)
    decode_file = prepared_decoder(FolderParts(tuple(files), (), 0, 0), 8)
    assert decode_file is not None
    assert decode_file(0, 8).shape == (3, 8, 8)
    network = FeatureNetwork(
        "grey", 3, 8, "f", (0.0,) * 3, (1.0,) * 3, lambda batch: batch.mean((2, 3)), torch.device("cpu")
    )
    with pytest.raises(InputError, match="--prepare"):
        embed_pictures([file.path for file in files], network, decode_file=decode_file)


def other_place(content: bytes) -> bytes:
    """Another file of the four could not be read: rows and names no longer belong together."""
    damaged, n = re.subn(rb'\{"(\d)": ', lambda found: b'{"%d": ' % ((int(found[1]) + 1) % 4), content)
    assert n == 1
    return damaged


@pytest.mark.parametrize(
    "damage",
    [
        other_place,
        lambda content: content.replace(b"4", b"3", 1),
        lambda content: b"\xff" + content,
        lambda content: b"null\n" + content,
        lambda content: b"[" * 100_000 + b"\n" + content,
        lambda content: content + content,
        lambda content: b"",
    ],
    ids=["place", "count", "bytes", "null", "nest", "twice", "empty"],
)
def test_a_damaged_index_is_not_believed(photos: Path, tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    prepare_folder(photos, size=16)
    index = pixels_file(tmp_path).with_name(INDEX)
    index.write_bytes(damage(index.read_bytes()))
    expected = from_files(photos, 16)
    assert torch.equal(read_collection(photos, size=16).rows.images, expected)
    prepare_folder(photos, size=16)
    assert torch.equal(read_collection(photos, size=16).rows.images, expected)


@pytest.mark.parametrize(
    "values",
    [
        {"n_files": "4"},
        {"n_files": 10**18},
        {"n_files": -4},
        {"failures": [1]},
        {"failures": {"x": "y"}},
        {"failures": {"99": "y"}},
        {"failures": {"1": 5}},
        {"crc32": "x"},
    ],
    ids=str,
)
def test_a_line_of_the_index_that_makes_no_sense_is_not_believed(
    photos: Path, tmp_path: Path, values: dict[str, object]
) -> None:
    prepare_folder(photos, size=16)
    index = pixels_file(tmp_path).with_name(INDEX)
    lines = [json.loads(line) for line in index.read_bytes().splitlines()]
    lines[1] |= values
    for line in lines:
        line.pop(CHECKSUM)
    index.write_bytes(b"".join(prepared.written(lines)))
    expected = from_files(photos, 16)
    assert torch.equal(read_collection(photos, size=16).rows.images, expected)
    prepare_folder(photos, size=16)
    assert torch.equal(read_collection(photos, size=16).rows.images, expected)


@pytest.mark.parametrize("name", [PIXELS, INDEX])
@pytest.mark.parametrize("make", [os.mkfifo, Path.mkdir, lambda path: path.symlink_to("/dev/zero")])
def test_what_is_no_file_in_place_of_a_prepared_one_is_refused(
    photos: Path, tmp_path: Path, name: str, make: Callable[[Path], None]
) -> None:
    prepare_folder(photos, size=16)
    path = pixels_file(tmp_path).with_name(name)
    path.unlink()
    make(path)
    assert torch.equal(read_collection(photos, size=16).rows.images, from_files(photos, 16))
    with pytest.raises(InputError, match="not a regular file; delete it"):
        prepare_folder(photos, size=16)


@pytest.mark.parametrize("content", [b"null", b"[]", b"Infinity", b"0", b"100000", b"\xff", b'{"side": 8}'])
def test_a_damaged_size_is_found_out_again(photos: Path, tmp_path: Path, content: bytes) -> None:
    prepare_folder(photos, size=None)
    (pixels_file(tmp_path).parents[1] / SIZE).write_bytes(content)
    assert read_collection(photos).rows.images.shape[2:] == (16, 16)


def test_pictures_that_change_places_under_their_old_times_are_read_again(photos: Path) -> None:
    paths = [photos / "a" / "00.png", photos / "a" / "02.png"]
    for path in paths:  # of one size in bytes
        path.write_bytes(path.read_bytes().ljust(4000, b"\0"))
        os.utime(path, ns=(10**18, 10**18))
    prepare_folder(photos, size=16)
    contents = [path.read_bytes() for path in paths]
    for path, content in zip(paths, reversed(contents), strict=True):
        path.write_bytes(content)
        os.utime(path, ns=(10**18, 10**18))
    assert torch.equal(read_collection(photos, size=16).rows.images, from_files(photos, 16))


def test_more_pictures_than_memory_holds_are_sent_to_be_prepared(photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collection, "free_memory", lambda: 1000)
    with pytest.raises(InputError, match="--prepare"):
        read_collection(photos)
    prepare_folder(photos, size=None)
    assert len(read_collection(photos)) == N


def test_a_test_folder_is_prepared_too(photos: Path, tmp_path: Path) -> None:
    (tmp_path / "split" / "train").parent.mkdir()
    photos.rename(tmp_path / "split" / "train")
    for name in "ab":
        (tmp_path / "split" / "test" / name).mkdir(parents=True)
        Image.fromarray(np.full((9, 9, 3), 80, dtype=np.uint8)).save(tmp_path / "split" / "test" / name / "1.png")
    before = load_dataset(tmp_path / "split")
    prepare_folder(tmp_path / "split", size=None)
    after = load_dataset(tmp_path / "split")
    assert torch.equal(after.train.images, before.train.images)
    assert torch.equal(after.test.images, before.test.images)
