"""CSV files: what is written is what is read back, and no spreadsheet computes it."""

import csv

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laplacenet.runtime.csv_files import csv_line, escaped, unescaped, write_csv

FORMULAS = ("=1+1", '=HYPERLINK("x")', "+cmd", "-rf", "@SUM(A1)", "\t=1", "\r=1", "'=1", "''@x", "--1")
TEXTS = st.text(st.sampled_from("'=+-@\t\r19.e\n,\"ax é")) | st.text(st.characters(exclude_categories=["Cs"]))


@pytest.mark.parametrize("text", FORMULAS)
def test_a_formula_is_written_as_text(text: str) -> None:
    assert escaped(text) == f"'{text}"
    assert unescaped(escaped(text)) == text


@pytest.mark.parametrize("text", ["", "cat", "'tis", "-0.25", "+3", "-1e-5", "a=b", "'"])
def test_numbers_and_plain_texts_stay_as_they_are(text: str) -> None:
    assert escaped(text) == unescaped(text) == text


@given(TEXTS)
def test_every_text_comes_back(text: str) -> None:
    assert unescaped(escaped(text)) == text
    cell = escaped(text)
    assert not cell.startswith(("=", "@", "\t", "\r"))


@given(st.lists(st.tuples(TEXTS, TEXTS), max_size=4))
def test_a_table_comes_back(tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str]]) -> None:
    path = tmp_path_factory.mktemp("csv") / "a.csv"
    write_csv(path, ("path", "label"), rows)
    with path.open(encoding="utf-8", newline="") as file:
        heading, *read = csv.reader(file, strict=True)
    assert heading == ["path", "label"]
    assert [tuple(map(unescaped, row)) for row in read] == rows
    assert [file.name for file in path.parent.iterdir()] == ["a.csv"]


def test_numbers_are_written_as_they_are() -> None:
    assert csv_line(("=x", -1, -0.5, "-0.5", None)) == "'=x,-1,-0.5,-0.5,\n"
