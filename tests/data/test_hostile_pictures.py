"""Folders as the world has them: what can be read is read right, the rest is listed with a reason, nothing hangs."""

import contextlib
import csv
import io
import os
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from references_data import enlarged, flat_jpeg
from references_picture_bombs import png, scans_in_tiff, strips

from laplacenet.data import ImageSet, Skipped, load_dataset, read_collection, refuse_skipped, write_skipped
from laplacenet.data.decoding import LARGEST_JPEG_PIXELS, LARGEST_PIXELS, decode
from laplacenet.data.names import in_one_line, writable
from laplacenet.data.walking import find_pictures
from laplacenet.runtime import InputError, RunFolder

COLOR = (200, 100, 50)


def picture(path: Path, color: tuple = COLOR, **options: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (16, 16), color).save(path, **options)
    return path


def reasons(folder: Path) -> dict[str, str]:
    """What was skipped of a folder that has one good picture besides."""
    picture(folder / "good.png")
    dataset = load_dataset(folder)
    assert isinstance(dataset.train, ImageSet)
    assert "good.png" in (dataset.train.names or ())
    found = {file.path: file.reason for file in dataset.skipped}
    assert all(reason and "\n" not in reason for reason in found.values())
    return found


# damaged files


def test_a_truncated_jpeg_is_skipped(tmp_path: Path) -> None:
    Image.effect_noise((64, 64), 90).save(tmp_path / "cut.jpg")
    whole = (tmp_path / "cut.jpg").read_bytes()
    (tmp_path / "cut.jpg").write_bytes(whole[: len(whole) - 300])
    assert "truncated" in reasons(tmp_path)["cut.jpg"]


def test_a_file_of_zero_bytes_is_skipped(tmp_path: Path) -> None:
    (tmp_path / "zero.jpg").touch()
    assert reasons(tmp_path) == {"zero.jpg": "the file is empty"}


def test_a_text_named_png_is_skipped(tmp_path: Path) -> None:
    (tmp_path / "text.png").write_text("I am a text")
    assert reasons(tmp_path)["text.png"].startswith("not a picture in JPEG, PNG")


def test_a_drawing_that_a_program_would_have_to_draw_is_not_drawn(tmp_path: Path) -> None:
    (tmp_path / "drawing.png").write_bytes(
        b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\nshowpage\n"
    )
    with Image.open(tmp_path / "drawing.png") as drawing:
        assert drawing.format == "EPS"
    assert reasons(tmp_path)["drawing.png"].startswith("not a picture in JPEG, PNG")


def test_a_picture_is_read_by_what_it_is_not_by_what_it_is_called(tmp_path: Path) -> None:
    picture(tmp_path / "a.jpg", format="PNG")
    assert reasons(tmp_path) == {}


def test_damaged_camera_data_do_not_spoil_the_picture(tmp_path: Path) -> None:
    for number, exif in enumerate((b"Exif\0\0", b"Exif\0\0MM\0*\0\0\0\x08\xff\xff", b"Exif\0\0" + bytes(range(200)))):
        picture(tmp_path / f"{number}.jpg", exif=exif, quality=95)
    assert reasons(tmp_path) == {}
    train = load_dataset(tmp_path).train
    assert isinstance(train, ImageSet)
    assert abs(train.images.permute(0, 2, 3, 1).numpy().astype(int) - COLOR).max() <= 3


# modes and shapes


def test_cmyk_palette_alpha_sixteen_bits_and_one_bit_are_read_right(tmp_path: Path) -> None:
    plain = Image.new("RGB", (16, 16), COLOR)
    saved = {
        "cmyk.jpg": plain.convert("CMYK"),
        "cmyk.tif": plain.convert("CMYK"),
        "palette.png": plain.quantize(4),
        "palette.bmp": plain.quantize(4),
        "alpha.webp": plain.convert("RGBA"),
        "alpha.png": plain.convert("RGBA"),
    }
    for name, image in saved.items():
        image.save(tmp_path / name, **({"lossless": True} if name.endswith("webp") else {}))
        assert abs(decode(tmp_path / name, size=8).astype(int) - COLOR).max() <= 3, name
    Image.fromarray(np.full((9, 9), 200 * 257, np.uint16)).save(tmp_path / "sixteen.png")
    (tmp_path / "sixteen.pgm").write_bytes(b"P5 9 9 65535\n" + (200 * 257).to_bytes(2, "big") * 81)
    for name in ("sixteen.png", "sixteen.pgm"):
        assert (decode(tmp_path / name, size=8) == 200).all(), name
    Image.new("1", (9, 9), 1).save(tmp_path / "bit.png")
    assert (decode(tmp_path / "bit.png", size=8) == 255).all()


def test_pixels_without_an_agreed_white_are_skipped(tmp_path: Path) -> None:
    Image.fromarray(np.full((9, 9), 70_000, np.int32)).save(tmp_path / "int.tif")
    Image.fromarray(np.full((9, 9), 0.5, np.float32)).save(tmp_path / "float.tif")
    found = reasons(tmp_path)
    assert "32-bit pixels have no agreed white" in found["int.tif"]
    assert "floating-point pixels" in found["float.tif"]


@pytest.mark.parametrize("name", ["a.gif", "a.png", "a.webp", "a.tif"])
def test_of_an_animation_the_first_frame_is_read(tmp_path: Path, name: str) -> None:
    frames = [Image.new("RGB", (16, 16), color) for color in (COLOR, (0, 0, 0), (255, 255, 255))]
    options = {"lossless": True} if name.endswith("webp") else {}
    frames[0].save(tmp_path / name, save_all=True, append_images=frames[1:], **options)
    with Image.open(tmp_path / name) as animation:
        assert animation.n_frames == 3
    assert abs(decode(tmp_path / name, size=8).astype(int) - COLOR).max() <= 3


@pytest.mark.parametrize("name", ["a.jpg", "a.tif", "a.webp"])
def test_an_exif_rotated_picture_is_turned_upright(tmp_path: Path, name: str) -> None:
    stored = Image.new("RGB", (32, 32), "blue")
    stored.paste("red", (0, 0, 32, 16))  # the top of the sensor, which orientation 6 makes the right side
    exif = Image.Exif()
    exif[0x0112] = 6
    stored.save(tmp_path / name, exif=exif)
    upright = decode(tmp_path / name, size=32).astype(int)
    assert upright[:, -4:, 0].min() > 200
    assert upright[:, :4, 2].min() > 200


@pytest.mark.parametrize("size", [(1, 1), (1, 500), (500, 1), (2, 3)])
def test_a_picture_of_one_pixel_is_scaled_up(tmp_path: Path, size: tuple[int, int]) -> None:
    Image.new("RGB", size, COLOR).save(tmp_path / "a.png")
    found = decode(tmp_path / "a.png", size=8)
    assert found.shape == (8, 8, 3)
    assert (found == COLOR).all()


# pictures that cost too much


def test_a_jpeg_of_20000_by_20000_is_decoded_at_an_eighth(tmp_path: Path) -> None:
    (tmp_path / "large.jpg").write_bytes(flat_jpeg(20_000))
    started_at = time.process_time()
    assert (decode(tmp_path / "large.jpg", size=32) == 128).all()
    assert time.process_time() - started_at < 5
    assert reasons(tmp_path) == {}


@pytest.mark.parametrize("name", ["large.png", "scans.jpg", "larger.jpg", "large.bmp", "large.gif", "large.tif"])
def test_a_decompression_bomb_is_refused_with_its_size_and_never_decoded(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    side = 64_000 if name == "larger.jpg" else 20_000
    if name.endswith("jpg"):
        (tmp_path / name).write_bytes(flat_jpeg(side, n_blocks=100, progressive=name == "scans.jpg"))
    else:
        small = Image.new("P" if name.endswith("gif") else "L", (16, 16))
        small.save(tmp_path / name)
        (tmp_path / name).write_bytes(enlarged((tmp_path / name).read_bytes(), side))
    monkeypatch.setattr("PIL.ImageFile.ImageFile.load", pytest.fail)
    with pytest.raises(ValueError, match=f"{side}×{side} pixels, more than the [0-9]+ million that are decoded"):
        decode(tmp_path / name, size=32)


def progressive(side: int, n_scans: int) -> bytes:
    """A grey JPEG whose last scan, which changes nothing, is repeated."""
    small = io.BytesIO()
    Image.new("L", (8, 8), 128).save(small, "JPEG", progressive=True)
    content = small.getvalue().removesuffix(b"\xff\xd9")
    frame = content.index(b"\xff\xc2")
    content = content[: frame + 5] + side.to_bytes(2, "big") * 2 + content[frame + 9 :]
    return content + content[content.rindex(b"\xff\xda") :] * n_scans + b"\xff\xd9"


@pytest.mark.parametrize(("side", "n_scans"), [(6000, 2000), (1000, 2000), (100, 200_000)])
def test_a_jpeg_of_thousands_of_scans_is_refused_before_it_is_decoded(
    tmp_path: Path, side: int, n_scans: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "scans.jpg").write_bytes(progressive(side, n_scans))
    monkeypatch.setattr("PIL.ImageFile.ImageFile.load", pytest.fail)
    with pytest.raises(ValueError, match=f"a JPEG of {side}×{side} pixels in more than [0-9]+ scans"):
        decode(tmp_path / "scans.jpg", size=8)


def test_a_jpeg_of_ten_scans_and_a_preview_of_many_is_decoded(tmp_path: Path) -> None:
    (tmp_path / "a.jpg").write_bytes(progressive(64, 10))
    assert abs(decode(tmp_path / "a.jpg", size=8).astype(int) - 128).max() <= 1
    plain = flat_jpeg(20_000)
    preview = b"\xff\xe1" + (2 + 600).to_bytes(2, "big") + b"\xff\xda" * 300
    (tmp_path / "b.jpg").write_bytes(plain[:2] + preview + plain[2:])
    assert (decode(tmp_path / "b.jpg", size=8) == 128).all()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (strips(60_000), "a TIFF file in 60000 strips or tiles; at most 50000 are read"),
        (scans_in_tiff(4_000, 70), "JPEGs of many scans in a TIFF file of 4000×4000 pixels"),
        (png(1, 300_000, bits=1, colors=0, row=bytes(2)), "1×300000 pixels; a side may have at most 250000"),
        (png(8_000, 8_000, bits=16, colors=6, row=b"0"), "8000×8000 pixels, more than the 40 million that are decoded"),
    ],
    ids=["strips", "scans", "thin", "deep"],
)
def test_what_costs_more_than_its_pixels_is_refused_before_it_is_decoded(
    tmp_path: Path, content: bytes, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bomb.png").write_bytes(content)
    monkeypatch.setattr("PIL.ImageFile.ImageFile.load", pytest.fail)
    monkeypatch.setattr("PIL.TiffImagePlugin.TiffImageFile.load", pytest.fail)
    with pytest.raises(ValueError, match=said):
        decode(tmp_path / "bomb.png", size=8)


def test_tiff_files_of_few_strips_and_scans_are_read(tmp_path: Path) -> None:
    (tmp_path / "strips.tif").write_bytes(strips(100))
    assert decode(tmp_path / "strips.tif", size=8).shape == (8, 8, 3)
    (tmp_path / "scans.tif").write_bytes(scans_in_tiff(64, 10))
    assert abs(decode(tmp_path / "scans.tif", size=8).astype(int) - (9, 99, 200)).max() <= 3


@pytest.mark.filterwarnings("ignore:Corrupt EXIF data")
def test_a_tiff_of_tiles_in_any_order_of_bytes_is_read(tmp_path: Path) -> None:
    for name, options in (("little", {}), ("big", {"big_tiff": True}), ("jpeg", {"compression": "jpeg"})):
        path = picture(tmp_path / f"{name}.tif", **options)
        assert abs(decode(path, size=8).astype(int) - COLOR).max() <= 3
    for cut in (b"II*\0", b"II*\0\xff\xff\xff\xff" + bytes(8), b"II+\0" + b"\xff" * 12, b"MM\0*" + b"\0\0\0\x08" * 4):
        (tmp_path / "cut.tif").write_bytes(cut)
        with pytest.raises((ValueError, OSError)):
            decode(tmp_path / "cut.tif", size=8)


def bombs(folder: Path) -> list[Path]:
    """Ten kinds of small files that cost much, each as costly as it can be and still be begun."""
    side = 7990
    saved: dict[str, tuple[str, dict]] = {
        "alpha.png": ("RGBA", {}),
        "palette.png": ("P", {"transparency": 0}),
        "sixteen.png": ("I;16", {}),
        "bits.png": ("1", {}),
        "deflate.tif": ("RGB", {"compression": "tiff_adobe_deflate"}),
        "lzw.tif": ("L", {"compression": "tiff_lzw"}),
        "fax.tif": ("1", {"compression": "group4"}),
        "palette.gif": ("P", {}),
        "wide.webp": ("RGB", {"lossless": True, "quality": 0, "method": 0}),
    }
    for name, (mode, options) in saved.items():
        size = (8000, 4000) if name.endswith("webp") else (side, side)
        Image.new(mode, size).save(folder / name, **options)
    (folder / "flat.jpg").write_bytes(flat_jpeg(31_000))
    (folder / "scans.jpg").write_bytes(progressive(side, 3))
    (folder / "plain.ppm").write_bytes(b"P3 1000 666 255\n" + b"0 " * 1_998_000)
    (folder / "text.pgm").write_bytes(b"P2 8000 8000 255\n" + b"0 " * 5_000_000)
    return sorted(folder.iterdir())


@pytest.mark.long
def test_no_picture_costs_more_than_its_budget(tmp_path: Path) -> None:
    import resource

    for path in bombs(tmp_path):
        before, started_at = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
        with contextlib.suppress(ValueError):
            assert decode(path, size=32).shape == (32, 32, 3)
        assert time.process_time() - started_at < 4, path.name  # about one second on an idle core
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1_000_000, path.name


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "L", "I;16", "P", "1"])
@pytest.mark.parametrize("size", [(305, 450), (450, 305)])
def test_a_large_picture_reduced_strip_by_strip_looks_as_one_that_is_not(
    tmp_path: Path, mode: str, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    smooth = Image.fromarray(np.random.default_rng(0).integers(0, 256, (4, 5, 4), dtype=np.uint8), "RGBA")
    picture = smooth.resize(size, Image.Resampling.BICUBIC)
    if mode == "I;16":
        picture = Image.fromarray(np.asarray(picture.convert("L")).astype(np.uint16) * 257)
    exif = Image.Exif()
    exif[0x0112] = 6
    (picture if mode == "I;16" else picture.convert(mode)).save(tmp_path / "a.png", exif=exif)
    expected = decode(tmp_path / "a.png", size=8).astype(int)
    monkeypatch.setattr("laplacenet.data.decoding.LARGE_PIXELS", 100_000)
    found = decode(tmp_path / "a.png", size=8).astype(int)
    assert abs(found - expected).mean() < (12 if mode in ("1", "P") else 4)


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("laplacenet.data.decoding.MOST_READS", 1000)
    with (tmp_path / "sparse.jpg").open("wb") as file:
        file.write(flat_jpeg(8)[:200])
        file.truncate(1 << 34)
    with (tmp_path / "padded.jpg").open("wb") as file:
        file.write(b"\xff\xd8\xff")
        file.truncate(1 << 22)  # Pillow would look at each byte of the padding
    found = reasons(tmp_path)
    assert "17179869184 bytes, more than the 512 MiB that are read" in found["sparse.jpg"]
    assert "it comes in more than 1000 pieces" in found["padded.jpg"]


def test_decoding_stops_in_the_middle_of_a_picture(tmp_path: Path) -> None:
    (tmp_path / "large.jpg").write_bytes(flat_jpeg(8000))
    n_asked = 0

    def should_stop() -> bool:
        nonlocal n_asked
        n_asked += 1
        return n_asked > 20

    with pytest.raises(KeyboardInterrupt):
        decode(tmp_path / "large.jpg", size=8, should_stop=should_stop)


def test_the_limits_are_those_that_are_documented() -> None:
    assert (LARGEST_PIXELS, LARGEST_JPEG_PIXELS) == (64_000_000, 1_000_000_000)


def test_pillow_s_own_limit_stands_as_it_stood(tmp_path: Path) -> None:
    before = Image.MAX_IMAGE_PIXELS
    (tmp_path / "large.jpg").write_bytes(flat_jpeg(20_000, n_blocks=4))
    with contextlib.suppress(OSError):
        decode(tmp_path / "large.jpg", size=32)
    assert before == Image.MAX_IMAGE_PIXELS


@pytest.mark.filterwarnings("always")
def test_a_large_jpeg_is_read_without_a_word(tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    """Pillow warns of more than 89 million pixels."""
    Image.new("L", (12_000, 9_000)).save(tmp_path / "large.jpg", quality=20)
    assert decode(tmp_path / "large.jpg", size=8).shape == (8, 8, 3)
    assert [str(warning.message) for warning in recwarn] == []


def test_pillow_s_limit_is_put_back_when_several_threads_have_opened_pictures(tmp_path: Path) -> None:
    before = Image.MAX_IMAGE_PIXELS
    Image.new("RGB", (8, 8)).save(tmp_path / "small.png")
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: decode(tmp_path / "small.png", size=8), range(200)))
    assert before == Image.MAX_IMAGE_PIXELS


def test_reading_many_pictures_does_not_hold_the_originals(tmp_path: Path) -> None:
    import resource

    Image.effect_noise((1500, 1500), 50).convert("RGB").save(tmp_path / "0.jpg", quality=30)
    for number in range(1, 60):
        shutil.copy(tmp_path / "0.jpg", tmp_path / f"{number}.jpg")
    load_dataset(tmp_path, size=16)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    load_dataset(tmp_path, size=16)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 60_000  # in KiB; sixty originals are 400 000


# names


def test_names_with_spaces_newlines_and_other_scripts_are_kept(tmp_path: Path) -> None:
    names = (
        "with space.png",
        "new\nline.png",
        "写真.png",
        "фото é.png",
        'quote"s, and;.png',
        "-rf.png",
        "=1+1.png",
        "a'b.png",
    )
    for name in names:
        picture(tmp_path / "кот" / name)
    dataset = load_dataset(tmp_path)
    assert isinstance(dataset.train, ImageSet)
    assert set(dataset.train.names or ()) == {f"кот/{name}" for name in names}
    assert dataset.train.class_names == ("кот",)


def test_names_that_are_no_utf_8_are_written_out(tmp_path: Path) -> None:
    folder = os.fsencode(tmp_path) + b"/caf\xe9"
    os.mkdir(folder)  # noqa: PTH102
    shutil.copy(picture(tmp_path / "good.png"), folder + b"/\xff\xfe.png")
    with open(folder + b"/torn\xe9.png", "wb"):  # noqa: PTH123
        pass
    collection = read_collection(tmp_path)
    assert collection.names == ("caf\\xe9/\\xff\\xfe.png", "good.png")
    assert collection.class_names == ("caf\\xe9",)
    assert collection.skipped == (Skipped("caf\\xe9/torn\\xe9.png", "the file is empty"),)
    (tmp_path / "labels.csv").write_text("caf\\xe9/\\xff\\xfe.png,cat\n")  # as a table of ours would have it
    assert read_collection(tmp_path, labels=tmp_path / "labels.csv").labels.tolist() == [0, -1]


def test_a_name_in_a_message_stays_in_its_line(tmp_path: Path) -> None:
    assert in_one_line("a\nb\x1b[31m\u202e") == "a\\nb\\x1b[31m\\u202e"
    assert len(in_one_line("x" * 10_000)) == 120
    assert writable("\udce9\ud800") == "\\xe9\\ud800"
    (tmp_path / "new\nline.png").touch()
    with pytest.raises(InputError, match=r"the first, new\\nline\.png: the file is empty") as error:
        load_dataset(tmp_path)
    assert "\n" not in str(error.value)


# what is no regular file


def test_symlink_loops_end(tmp_path: Path) -> None:
    picture(tmp_path / "cat" / "1.png")
    (tmp_path / "cat" / "up").symlink_to(tmp_path)
    (tmp_path / "self").symlink_to(tmp_path / "self")
    (tmp_path / "one.png").symlink_to(tmp_path / "two.png")
    (tmp_path / "two.png").symlink_to(tmp_path / "one.png")
    (tmp_path / "everything").symlink_to("/")
    found = reasons(tmp_path)
    assert set(found) == {"cat/up", "self", "one.png", "two.png", "everything"}
    assert found["cat/up"] == found["everything"] == "a link to a folder that is read already or lies above"


def test_folders_that_link_to_one_another_are_each_read_once(tmp_path: Path) -> None:
    folders = [tmp_path / f"{number}" for number in range(9)]
    for folder in folders:
        picture(folder / "a.png")
    for one in folders:
        for other in folders:
            (one / f"to {other.name}").symlink_to(other)  # 9! paths lead through these
    pictures, skipped = find_pictures(tmp_path)
    assert [file.name for file in pictures] == [f"{number}/a.png" for number in range(9)]
    assert len(skipped) == 81


def test_links_to_pictures_and_folders_elsewhere_are_followed(tmp_path: Path) -> None:
    store = picture(tmp_path / "store" / "x.png").parent
    photos = tmp_path / "photos"
    photos.mkdir()
    (photos / "cat").symlink_to(store)
    (photos / "dog").mkdir()
    (photos / "dog" / "link.png").symlink_to(store / "x.png")
    assert read_collection(photos).names == ("cat/x.png", "dog/link.png")


def test_broken_links_are_skipped(tmp_path: Path) -> None:
    (tmp_path / "gone.png").symlink_to(tmp_path / "nowhere.png")
    assert reasons(tmp_path) == {"gone.png": "a link that leads nowhere"}


def test_pipes_sockets_and_devices_named_png_do_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.png")
    (tmp_path / "device.png").symlink_to("/dev/zero")
    (tmp_path / "folder.png").mkdir()
    with socket.socket(socket.AF_UNIX) as open_socket:
        open_socket.bind(os.path.relpath(tmp_path / "socket.png"))
        found = reasons(tmp_path)
    assert found["pipe.png"] == "a pipe, not a regular file"
    assert found["device.png"] == "a device, not a regular file"
    assert found["socket.png"] == "a socket, not a regular file"
    for name, kind in (("pipe.png", "pipe"), ("device.png", "device"), ("folder.png", "folder")):
        with pytest.raises(OSError, match=f"a {kind}, not a regular file"):
            decode(tmp_path / name, size=8)


def test_a_pipe_given_as_a_list_or_as_arrays_does_not_hang(tmp_path: Path) -> None:
    picture(tmp_path / "cat" / "1.png")
    archive = "cifar-100-python.tar.gz"
    for name in ("labels.csv", "x.npz", "x.npy", archive):
        os.mkfifo(tmp_path / name)
    with pytest.raises(InputError, match="a pipe, not a regular file"):
        load_dataset(tmp_path / archive)
    with pytest.raises(InputError, match=r"labels\.csv: cannot be read \(a pipe, not a regular file\)"):
        read_collection(tmp_path, labels=tmp_path / "labels.csv")
    for name in ("x.npz", "x.npy"):
        with pytest.raises(InputError, match="a pipe, not a regular file"):
            read_collection(tmp_path / name)


@contextlib.contextmanager
def as_nobody() -> Iterator[Path]:
    """A folder that is nobody's, and nobody's rights: root may read what its owner may not."""
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    folder.chmod(0o755)
    is_root = os.geteuid() == 0
    try:
        if is_root:
            os.chown(folder, 65534, 65534)
            os.seteuid(65534)
        yield folder
    finally:
        if is_root:
            os.seteuid(0)
        for path in folder.rglob("*"):
            if path.is_dir():
                path.chmod(0o700)
        shutil.rmtree(folder)


def test_unreadable_files_and_folders_are_skipped() -> None:
    with as_nobody() as folder:
        picture(folder / "locked.png").chmod(0)
        picture(folder / "closed" / "a.png").parent.chmod(0)
        found = reasons(folder)
    assert found == {
        "locked.png": "Permission denied",
        "closed": "a folder that cannot be opened (Permission denied)",
    }


def test_run_folders_and_system_files_are_no_pictures(tmp_path: Path) -> None:
    for name in ("runs/first/curves.png", "@eaDir/thumb.png", ".cache/x.png", "__MACOSX/y.png"):
        picture(tmp_path / name)
    RunFolder(tmp_path / "runs" / "first").write_experiment({})
    assert reasons(tmp_path) == {}
    assert [file.name for file in find_pictures(tmp_path)[0]] == ["good.png"]


def test_a_folder_of_pictures_with_an_experiment_json_of_the_users_own_is_read(tmp_path: Path) -> None:
    picture(tmp_path / "cats" / "a.png")
    (tmp_path / "cats" / "experiment.json").write_text('{"camera": 1}')
    assert [file.name for file in find_pictures(tmp_path)[0]] == ["cats/a.png"]


def test_a_folder_that_changes_while_it_is_read_does_no_harm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    picture(tmp_path / "stays.png")
    gone = picture(tmp_path / "goes.png")
    monkeypatch.setattr("laplacenet.data.collection.default_size", lambda _: (gone.unlink(), 8)[1])
    (file,) = load_dataset(tmp_path).skipped
    assert file == Skipped("goes.png", "No such file or directory")


# what is said of them


def test_skipped_files_are_written_as_a_table(tmp_path: Path) -> None:
    skipped = [Skipped("new\nline, and.png", 'a "reason"'), Skipped("写真\udce9.png", "x")]
    write_skipped(tmp_path / "skipped.csv", skipped)
    with (tmp_path / "skipped.csv").open(newline="", encoding="utf-8") as file:
        assert list(csv.reader(file)) == [
            ["path", "reason"],
            ["new\nline, and.png", 'a "reason"'],
            ["写真\\xe9.png", "x"],
        ]
    assert [path.name for path in tmp_path.iterdir()] == ["skipped.csv"]


def test_where_all_must_be_read_the_first_and_the_number_are_named() -> None:
    refuse_skipped([])
    with pytest.raises(InputError, match=r"^2 files cannot be read, .* the first, a\\nb\.png: torn$"):
        refuse_skipped([Skipped("a\nb.png", "torn"), Skipped("c.png", "torn")])


def test_threads_end_when_reading_is_stopped(tmp_path: Path) -> None:
    class Impatient:
        should_stop = True

        def advance(self, n: int) -> None:
            raise AssertionError(n)

    picture(tmp_path / "cat" / "a.png")
    before = threading.active_count()
    with pytest.raises(KeyboardInterrupt):
        read_collection(tmp_path, monitor=Impatient())
    assert threading.active_count() == before
