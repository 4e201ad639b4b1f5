"""Array files and archives from strangers: nothing runs, nothing is believed, nothing is written, nothing is filled."""

import io
import pickle
import resource
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from references_data import archive_of, cifar100_files, python2_pickle, write_archive

from laplacenet.data import load_dataset, read_collection, read_split
from laplacenet.data.cifar import CIFAR100
from laplacenet.data.npz import open_npz, read_npy
from laplacenet.data.pickles import read_array_pickle
from laplacenet.runtime import InputError
from laplacenet.runtime.memory import free_memory

GIBIBYTE = 2**30


def npy(shape: tuple, descr: object = "|u1", data: bytes = b"") -> bytes:
    """A `.npy` file whose header says what it likes."""
    header = repr({"descr": descr, "fortran_order": False, "shape": shape}).encode()
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + data


def npz(path: Path, *, compression: int = zipfile.ZIP_STORED, **members: bytes) -> Path:
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return path


LIES = {
    "a huge shape": npy((10**6, 10**6), data=b"few"),
    "more than 64 bits can count": npy((2**62, 2**62, 2**62)),
    "short data": npy((4, 5, 5), data=bytes(99)),
    "long data": npy((4, 5, 5), data=bytes(101)),
    "a huge item": npy((1,), "|V1000000000"),
    "items of no size": npy((10**15,), "<U0"),
    "a negative length": npy((-4, 5, 5), data=bytes(100)),
    "objects": npy((1,), "|O", pickle.dumps([print])),
    "objects in fields": npy((1,), [("a", "|O")], pickle.dumps([print])),
    "a shape that is no shape": npy("huge"),  # type: ignore[arg-type]
    "a header that is code": b"\x93NUMPY\x01\x00" + struct.pack("<H", 20) + b"__import__('os')    ",
    "a header of great length": b"\x93NUMPY\x02\x00" + struct.pack("<I", 2**31) + b"{",
    "a header nested deep": b"\x93NUMPY\x02\x00" + struct.pack("<I", 9000) + b"(" * 9000,
    "characters that are none": npy((2,), "<U1", b"a\0\0\0\0\0\0\1"),
    "fields": npy((1,), [("a", "<U1")], b"a\0\0\0"),
    "no header": b"\x93NUMPY",
    "another version": b"\x93NUMPY\x09\x00",
    "nothing": b"",
}


@pytest.mark.parametrize("lie", LIES)
def test_a_header_that_lies_is_refused_without_room_being_made(tmp_path: Path, lie: str) -> None:
    (tmp_path / "a.npy").write_bytes(LIES[lie])
    npz(tmp_path / "a.npz", images=LIES[lie], labels=LIES[lie])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for read, name in (
        (load_dataset, "a.npz"),
        (read_collection, "a.npz"),
        (read_collection, "a.npy"),
        (lambda path: read_split(path, "labels", n=5), "a.npz"),
    ):
        with pytest.raises(InputError) as error:
            read(tmp_path / name)
        assert name in str(error.value)
        assert "\n" not in str(error.value)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000  # in KiB


def test_object_arrays_are_never_unpickled(tmp_path: Path) -> None:
    class Malice:
        def __reduce__(self) -> tuple[Callable, tuple]:
            return Path.touch, (tmp_path / "run",)

    np.savez(tmp_path / "a.npz", images=np.array([Malice()], dtype=object))
    np.save(tmp_path / "a.npy", np.array([Malice()], dtype=object))
    for name in ("a.npz", "a.npy"):
        with pytest.raises(InputError, match="holds Python objects, which are never loaded"):
            read_collection(tmp_path / name)
    assert not (tmp_path / "run").exists()


def test_a_zip_bomb_is_refused_by_what_it_would_become(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = npz(tmp_path / "a.npz", compression=zipfile.ZIP_DEFLATED, images=npy((1000, 100, 100), data=bytes(10**7)))
    assert path.stat().st_size < 20_000
    assert len(load_dataset(path).train) == 1000
    monkeypatch.setattr("laplacenet.data.npz.free_memory", lambda: 10**7)
    with pytest.raises(InputError, match=r"it would take 0\.0 GiB, more than half of the 0\.0 free"):
        load_dataset(path)


def test_a_zip_that_understates_its_size_gives_no_more_than_it_states(tmp_path: Path) -> None:
    path = npz(tmp_path / "a.npz", compression=zipfile.ZIP_DEFLATED, images=npy((1000, 100, 100), data=bytes(10**7)))
    content = path.read_bytes()
    true = struct.pack("<I", len(npy((1000, 100, 100))) + 10**7)
    path.write_bytes(content.replace(true, struct.pack("<I", 5000)))
    with pytest.raises(InputError, match="its header says 10000000 bytes of uint8"):
        load_dataset(path)


@pytest.mark.parametrize("compression", [zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
def test_only_numpy_s_compressions_are_read(tmp_path: Path, compression: int) -> None:
    npz(tmp_path / "a.npz", compression=compression, images=npy((1, 2, 2), data=bytes(4)))
    with pytest.raises(InputError, match="compressed in a way that numpy does not write"):
        load_dataset(tmp_path / "a.npz")


def test_an_encrypted_member_is_refused(tmp_path: Path) -> None:
    content = bytearray(npz(tmp_path / "a.npz", images=npy((1, 2, 2), data=bytes(4))).read_bytes())
    content[6] |= 1
    content[content.index(b"PK\x01\x02") + 8] |= 1
    (tmp_path / "a.npz").write_bytes(content)
    with pytest.raises(InputError, match=r"not a readable \.npz file of plain arrays \(.*encrypted"):
        load_dataset(tmp_path / "a.npz")


def test_one_wrong_byte_in_an_array_is_noticed(tmp_path: Path) -> None:
    path = npz(tmp_path / "a.npz", images=npy((4, 5, 5), data=bytes(100)))
    content = bytearray(path.read_bytes())
    content[200] ^= 1
    path.write_bytes(content)
    with pytest.raises(InputError, match="CRC"):
        load_dataset(path)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["<f4", ">f8", "<i2", "|u1", "<U3"])
def test_what_numpy_writes_is_what_is_read(tmp_path: Path, dtype: str, order: str) -> None:
    array = np.asarray(np.arange(24).reshape(2, 3, 4).astype(dtype), order=order)  # type: ignore[call-overload]
    np.save(tmp_path / "a.npy", array)
    np.savez_compressed(tmp_path / "a.npz", x=array)
    np.testing.assert_array_equal(read_npy(tmp_path / "a.npy"), array)
    with open_npz(tmp_path / "a.npz") as arrays:
        np.testing.assert_array_equal(arrays["x"], array)
        assert arrays["x"].dtype == array.dtype


def test_free_memory_is_counted_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    assert 2**26 < free_memory() < 2**46
    monkeypatch.setattr("laplacenet.runtime.memory.MEMORY_FILE", Path("/nowhere"))
    assert 2**26 < free_memory() < 2**46


# pickles and archives


def test_a_pickle_can_make_no_room_that_it_does_not_fill() -> None:
    call_the_type = b"\x80\x02cnumpy\nndarray\nK\x0a\x85R."
    large_slot = b"\x80\x02}r\xff\xff\xff\x7f."
    for pickled in (call_the_type, large_slot, b"\x80\x05\x96" + struct.pack("<Q", 2**40) + b"."):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        with pytest.raises(InputError, match="here: damaged or cut off"):
            read_array_pickle(pickled, where="here")
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000


def test_an_archive_cannot_write_outside_its_folder_or_anywhere(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    outside = {"../outside": b"x", "/tmp/laplacenet-outside": b"x", "cifar-100-python/../../outside": b"x"}
    write_archive(home / CIFAR100.archive, outside | archive_of(CIFAR100.folder, cifar100_files()))
    assert len(load_dataset("cifar100", folder=home).train) == 4
    assert [path.name for path in tmp_path.rglob("*")] == ["home", CIFAR100.archive]
    assert not Path("/tmp/laplacenet-outside").exists()


def test_an_archive_that_would_become_too_large_is_refused(tmp_path: Path) -> None:
    import tarfile

    info = tarfile.TarInfo("cifar-100-python/train")
    info.size = 100 * GIBIBYTE
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as tar:
        tar.fileobj.write(info.tobuf())  # type: ignore[union-attr]
    (tmp_path / CIFAR100.archive).write_bytes(content.getvalue())
    with pytest.raises(InputError, match="train: 107374182400 bytes; at most 536870912 are read"):
        load_dataset("cifar100", folder=tmp_path)


def test_a_pickle_cannot_break_numpy_s_own_types() -> None:
    """Flags in a dtype's state say that its numbers are pointers, which numpy would follow."""
    content = {"data": np.arange(6, dtype=np.uint8)}
    honest = python2_pickle(content)
    state = pickle.BININT + struct.pack("<i", 0) + pickle.TUPLE + pickle.BUILD
    hostile = honest.replace(state, pickle.BININT + struct.pack("<i", 0xFF) + pickle.TUPLE + pickle.BUILD)
    assert hostile != honest
    found = read_array_pickle(hostile, where="here")["data"]
    assert found.dtype.flags == 0
    np.testing.assert_array_equal(found, content["data"])


def test_a_name_in_a_pickle_cannot_break_the_line() -> None:
    pickled = b"\x80\x04\x8c\x03o\ns\x8c\x06system\x93."
    with pytest.raises(InputError, match=r"here: refused, its pickle asks for o\\ns\.system"):
        read_array_pickle(pickled, where="here")


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_more_rows_than_memory_can_hold_are_refused_before_anything_is_made_of_them(
    tmp_path: Path, save: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    save(tmp_path / "x.npz", embeddings=np.zeros((100_000, 1), np.uint8), labels=np.zeros(100_000, np.uint8))
    monkeypatch.setattr("laplacenet.data.arrays.free_memory", lambda: 10**8)
    monkeypatch.setattr("laplacenet.data.arrays.finite_vectors", pytest.fail)
    monkeypatch.setattr("laplacenet.data.arrays.vector_labels", pytest.fail)
    for read in (read_collection, load_dataset):
        with pytest.raises(InputError, match=r"x\.npz: 100000 rows need at least 0\.1 GiB of memory, 0\.1 are free"):
            read(tmp_path / "x.npz")


def test_names_of_rows_are_made_only_when_asked_for(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", embeddings=np.zeros((5, 1)), labels=np.zeros(5))
    collection = read_collection(tmp_path / "x.npz")
    assert "names" not in vars(collection)
    assert collection.names == ("row 0", "row 1", "row 2", "row 3", "row 4")
