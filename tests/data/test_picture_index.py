"""Names in label files: what a list means is what each of its names means, and long lists take time in proportion."""

import time
from collections.abc import Callable
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from laplacenet.data.label_entries import read_entries
from laplacenet.data.label_files import labels_by_name, numbered_labels
from laplacenet.data.picture_index import PictureFinder, PictureIndex

FOLDERS = ("", "a/", "b/", "a/b/", "lists/", "lists/a/", "x/", "é/")
FILES = ("1.jpg", "2.png", "1.jpg.png", "1.PNG", "e\u0301.gif", " 3.jpg", "4.jpg ", "b\\1.jpg", "notes")
PREFIXES = (
    "",
    "./",
    "../photos/",
    "/photos/",
    "/photos/lists/",
    "/mnt/x/",
    "x/",
    "x\\",
    "C:\\x\\",
    "no/",
    " ",
    "lists/../",
)
PATHS = st.builds("".join, st.tuples(st.sampled_from(FOLDERS), st.sampled_from(FILES)))
WRITTEN = st.builds(
    lambda prefix, path, change: prefix + change(path),
    st.sampled_from(PREFIXES),
    st.one_of(PATHS, st.sampled_from(FILES), st.just("1")),
    st.sampled_from([str, lambda path: path.replace("/", "\\"), lambda path: path + " ", lambda path: path[:-4]]),
)


@given(paths=st.lists(PATHS, min_size=1, max_size=12), skipped=st.lists(PATHS, max_size=2), data=st.data())
def test_a_list_of_names_means_what_each_name_means(paths: list[str], skipped: list[str], data: st.DataObject) -> None:
    names = data.draw(st.lists(st.one_of(WRITTEN, st.sampled_from(paths)), min_size=1, max_size=30))
    folder = data.draw(st.sampled_from(["/photos", "/photos/lists", "/elsewhere", "/"]))
    index = PictureIndex(paths, skipped)
    singly = [PictureFinder(index, root=Path("/photos"), label_folder=Path(folder)).find(name)[0] for name in names]
    finder = PictureFinder(index, root=Path("/photos"), label_folder=Path(folder))
    finder.find_all(names)  # what it has learned from them
    lookup = finder.find_all(names)
    assert lookup.rows == [rows[0] if len(rows) == 1 else None for rows in singly]
    assert {name: rows for name, rows in zip(names, singly, strict=True) if len(rows) != 1} == lookup.unresolved


def test_a_long_list_is_looked_up_like_a_short_one(tmp_path: Path) -> None:
    names = [f"class{i % 3}/{i}.jpg" for i in range(9000)]
    for prefix in ("", "/mnt/x/", f"{tmp_path}/", "x\\"):
        written = [prefix + (name.replace("/", "\\") if "\\" in prefix else name) for name in names]
        (tmp_path / "l.csv").write_text(
            "".join(f"{name},class{i % 3}\n" for i, name in enumerate([*written, *written[:9]]))
        )
        labels, classes = numbered_labels(
            labels_by_name([tmp_path / "l.csv"], names, root=tmp_path), len(names), where="here"
        )
        assert labels.tolist() == [i % 3 for i in range(9000)]
        assert classes == ("class0", "class1", "class2")


def shortest(work: Callable[[], object]) -> float:
    """Seconds of the processor: the least of three."""
    times = []
    for _ in range(3):
        started_at = time.process_time()
        work()
        times.append(time.process_time() - started_at)
    return min(times)


def require_linear(work: Callable[[int], Callable[[], object]], n: int) -> None:
    """Eight times as much takes not thirty times as long; what grows with the square takes 64 times."""
    assert shortest(work(8 * n)) < 30 * shortest(work(n)) + 0.05


def test_pictures_that_are_all_called_alike_are_counted_in_proportion() -> None:
    def work(n: int) -> Callable[[], object]:
        names = [f"{i}/image.jpg" for i in range(n)]
        return lambda: len(PictureIndex(names).by_name("image.jpg"))

    require_linear(work, 8000)


def test_a_path_of_very_many_folders_is_looked_up_in_proportion() -> None:
    def work(n: int) -> Callable[[], object]:
        names = ["a/" * n + f"{i}.jpg" for i in range(2)]
        return lambda: PictureFinder(PictureIndex(["a/b.jpg"]), root=Path("/p"), label_folder=Path("/p")).find_all(
            names
        )

    require_linear(work, 3000)


def test_lines_of_json_are_read_in_proportion(tmp_path: Path) -> None:
    def work(n: int) -> Callable[[], object]:
        path = tmp_path / f"{n}.jsonl"
        path.write_text("".join(f'{{"file": "{i}.jpg", "label": "a", "who": "me"}}\n' for i in range(n)))
        finder = PictureFinder(PictureIndex(["1.jpg"]), root=None, label_folder=tmp_path)
        return lambda: read_entries(path, finder)

    require_linear(work, 3000)
