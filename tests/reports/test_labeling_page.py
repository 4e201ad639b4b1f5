"""A labeling's page: it shows what is there, nothing in a name breaks out, and it needs nothing from outside."""

import csv
import io
import json
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from references_labeling_pages import HOSTILE, hostile_labeling, made_up_labeling, made_up_pictures
from sklearn.metrics import confusion_matrix

from laplacenet.labeling.outcome import save_gallery, shown_rows
from laplacenet.labeling.result import Labeling, save_labeling
from laplacenet.reports.labeling_figures import confidence_chart, loss_chart, reliability_chart, shares_chart
from laplacenet.reports.labeling_map import HEIGHT, N_DOTS, WIDTH, map_view
from laplacenet.reports.labeling_page import page_content, shown, write_labeling_page
from laplacenet.reports.labeling_tables import class_rows, confusion
from laplacenet.reports.style import class_colors, marks
from laplacenet.runtime import InputError

VOID = {"meta", "link", "img", "br"}


class Page(HTMLParser):
    """Tags and attributes as a browser would see them, the text, and whether every tag is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(text)
        assert not self.open, self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def written(folder: Path, labeling: Labeling) -> str:
    save_labeling(folder, labeling)
    if labeling.summary.kind == "pictures":
        rows = shown_rows(labeling)
        save_gallery(folder, rows, made_up_pictures(labeling, rows))
    return write_labeling_page(folder).read_text(encoding="utf-8")


def test_the_page_answers_what_people_ask(tmp_path: Path) -> None:
    page = Page(written(tmp_path, made_up_labeling()))
    for said in (
        "87\u202f%",
        "95\u202f% confidence interval 81–92\u202f%",
        "temperature 1.70",
        "small-cnn: the pictures are small",
    ):
        assert said in page.text
    for heading in ("Accuracy", "Confidence", "most likely to be wrong", "What to label next", "Map"):
        assert heading in page.text
    assert f"laplacenet next {tmp_path} -n 50" in page.text
    pictures = [attributes for tag, attributes in page.tags if tag == "img"]
    assert len(pictures) > 60
    assert all((attributes["src"] or "").startswith("data:image/") for attributes in pictures)


def test_the_list_of_what_to_label_next_is_csv(tmp_path: Path) -> None:
    labeling = made_up_labeling()
    page = written(tmp_path, labeling)
    listed = page[page.index('<pre class="copy"') :].split(">", 1)[1].split("</pre>")[0]
    rows = list(csv.DictReader(io.StringIO(listed)))
    assert len(rows) == 24
    assert {row["path"] for row in rows} <= set(labeling.names)
    assert {row["label"] for row in rows} == {""}
    assert all(row["guess"] in labeling.summary.class_names for row in rows)


def test_nothing_in_a_name_breaks_out_of_the_page(tmp_path: Path) -> None:
    labeling = hostile_labeling()
    text = written(tmp_path, labeling)
    page, plain = Page(text), Page(written(tmp_path, made_up_labeling(200, len(HOSTILE))))
    assert {tag for tag, _ in page.tags} == {tag for tag, _ in plain.tags}
    assert "script" not in {tag for tag, _ in page.tags}
    assert not any(name.startswith("on") for _, attributes in page.tags for name in attributes)
    assert not set(map(chr, [*range(9), 11, 12, *range(14, 32), 127])) & set(text)
    for name in HOSTILE[:3]:
        assert shown(name) in page.text


def test_the_page_needs_nothing_from_outside(tmp_path: Path) -> None:
    for _, attributes in Page(written(tmp_path, made_up_labeling())).tags:
        for name in ("src", "href", "xlink:href", "data", "srcset", "action"):
            assert (attributes.get(name) or "#").startswith(("#", "data:"))
        assert "url(" not in (attributes.get("style") or "")


def test_a_run_of_embeddings_shows_names_in_place_of_pictures(tmp_path: Path) -> None:
    page = Page(written(tmp_path, made_up_labeling(kind="embeddings")))
    assert "img" not in {tag for tag, _ in page.tags}
    assert "new_embeddings.npy" in page.text
    assert "laplacenet export" not in page.text


def test_a_hundred_classes_fit_into_three_megabytes(tmp_path: Path) -> None:
    labeling = made_up_labeling(7000, 100, n_given=700)
    save_labeling(tmp_path, labeling)
    rows = shown_rows(labeling)
    noise = torch.randint(0, 256, (len(rows), 3, 24, 24), generator=torch.Generator().manual_seed(0)).float()
    images = torch.nn.functional.interpolate(noise, 96, mode="bicubic").clamp(0, 255).to(torch.uint8)
    save_gallery(tmp_path, rows, images)
    page = write_labeling_page(tmp_path)
    assert page.stat().st_size < 3_000_000
    assert "Least accurate" in page.read_text(encoding="utf-8")


def test_what_is_not_known_is_said_and_not_shown(tmp_path: Path) -> None:
    labeling = made_up_labeling(40, 3, n_given=3)
    nobody = torch.full_like(labeling.unseen_scores, torch.nan)
    summary = replace(
        labeling.summary,
        calibration=None,
        is_complete=False,
        estimate=replace(labeling.summary.estimate, accuracy=None, n=0),
    )
    blank = replace(
        labeling,
        summary=summary,
        unseen_scores=nobody,
        is_suspect=torch.zeros(40, dtype=torch.bool),
        positions=torch.full((40, 2), torch.nan),
    )
    page = Page(written(tmp_path, blank))
    for said in ("Too few labels were given", f"laplacenet label --resume {tmp_path}", "none could be checked"):
        assert said in page.text
    for said in ("There is no map of this run", "No given label was held out"):
        assert said in page.text


def test_one_of_a_kind_is_said_in_the_singular(tmp_path: Path) -> None:
    labeling = made_up_labeling(40, 1, n_given=1)
    text = Page(written(tmp_path, labeling)).text
    assert "40 pictures, 1 class, 1 label given" in text
    for said in ("1 classes", "1 labels", "1 given labels"):
        assert said not in text


@pytest.mark.parametrize(
    ("n", "expected"),
    [
        (0, "No given label is clearly contradicted by the predictions made without it."),
        (1, "1 given label is very unlikely by the predictions made without it. It was used as given."),
        (
            2,
            "2 given labels are very unlikely by the predictions made without them, the clearest first."
            " They were used as given.",
        ),
    ],
)
def test_suspects_are_those_that_are_very_unlikely_not_all_that_were_predicted_otherwise(
    tmp_path: Path, n: int, expected: str
) -> None:
    labeling = made_up_labeling()
    contradicted = torch.nonzero(labeling.is_given & (labeling.unseen_scores.argmax(1) != labeling.given)).squeeze(1)
    is_suspect = torch.zeros_like(labeling.is_suspect)
    is_suspect[contradicted[:n]] = True
    assert len(contradicted) > 2
    assert expected in Page(written(tmp_path, replace(labeling, is_suspect=is_suspect))).text


def test_where_every_label_was_given_nothing_is_left_to_ask(tmp_path: Path) -> None:
    assert "Every label was given." in written(tmp_path, made_up_labeling(20, 2, n_given=20))


def test_a_folder_without_a_labeling_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"holds no labeling"):
        write_labeling_page(tmp_path)


def test_the_confusion_is_scikit_learns() -> None:
    labeling = made_up_labeling(400, 5, n_given=150)
    rows = labeling.is_given
    expected = confusion_matrix(labeling.given[rows], labeling.unseen_scores[rows].argmax(1), labels=range(5))
    found = confusion(labeling)
    assert found is not None
    assert found.n == 150
    assert [[n for n, _ in row.cells] for row in found.rows] == expected.tolist()
    worst = found.pairs[0]
    assert worst.n == max(expected[i, j] for i in range(5) for j in range(5) if i != j)


def test_shares_of_classes_add_up() -> None:
    rows = class_rows(made_up_labeling())
    for kind in ("given", "found", "prior"):
        assert sum(getattr(row, kind) for row in rows) == pytest.approx(100)
    assert sum(row.n_given for row in rows) == 60
    assert sum(row.n_found for row in rows) == 240


def test_the_bars_of_confidence_are_as_high_as_the_counts() -> None:
    labeling = made_up_labeling()
    heights = [bar.get_height() for bar in confidence_chart(labeling).axes[0].patches]
    found = labeling.confidence[~labeling.is_given]
    assert heights == [int(((found >= i / 20) & (found < (i + 1) / 20)).sum()) for i in range(20)]


def test_every_bin_of_the_calibration_is_a_dot() -> None:
    calibration = made_up_labeling().summary.calibration
    assert calibration is not None
    dots = reliability_chart(calibration).axes[0].collections[0].get_offsets().tolist()
    assert dots == [pytest.approx([one.confidence, one.accuracy]) for one in calibration.bins]


def test_the_loss_has_a_line_a_stage_and_the_last_is_the_strong_one() -> None:
    curves = [
        {"stage": stage, "epoch": i, "step": 10 * i, "loss": 2.0 / (i + 1)}
        for stage in ("estimate", "final")
        for i in range(4)
    ]
    chart = loss_chart([*curves, {"stage": "final", "step": 50, "loss": float("nan")}])
    assert chart is not None
    faint, strong = chart.axes[0].lines
    assert faint.get_linewidth() < strong.get_linewidth()
    assert [len(line.get_xdata()) for line in (faint, strong)] == [4, 4]
    assert loss_chart([]) is None


def test_shares_of_pseudo_labels_are_stacked_to_the_whole() -> None:
    labeling = made_up_labeling()
    curves = [
        {"stage": "final", "epoch": i, "step": 10 * i, "loss": 1.0, "class_shares": [0.4, 0.3, 0.2, 0.1]}
        for i in (1, 2)
    ]
    chart = shares_chart(curves, labeling)
    assert chart is not None
    tops = [area.get_paths()[0].get_extents().y1 for area in chart.axes[0].collections]
    assert tops == pytest.approx([0.4, 0.7, 0.9, 1.0])
    assert shares_chart(curves[:1], labeling) is None
    assert shares_chart([], labeling) is None


def test_the_map_is_a_sample_inside_its_frame_with_all_suspects_marked() -> None:
    labeling = made_up_labeling(9000, 6, n_given=50)
    positions = labeling.positions.clone()
    positions[0] = 1e9
    view = map_view(replace(labeling, positions=positions))
    assert view is not None
    assert view.n_dots == N_DOTS == sum(cloud.path.count("M") for cloud in view.clouds)
    assert sum(dot.is_suspect for dot in view.given) == int(labeling.is_suspect.sum())
    assert all(0 <= dot.x <= WIDTH and 0 <= dot.y <= HEIGHT for dot in view.given)
    spread = [dot.x for dot in view.given]
    assert max(spread) - min(spread) > WIDTH / 4


def test_names_at_the_edge_of_the_map_are_inside_of_it_also_in_the_large_letters_of_a_phone() -> None:
    labeling = made_up_labeling(200, 2)
    wide = "mmmmmmmmmmmmmmmm"
    named = replace(labeling, summary=replace(labeling.summary, class_names=(wide, "automobile")))
    edges = torch.where(named.labels[:, None] == 0, torch.tensor([-9.0, 0.0]), torch.tensor([9.0, 1.0]))
    view = map_view(replace(named, positions=edges + 0.01 * labeling.positions))
    assert view is not None
    for cloud in view.clouds:
        half = 12 * len(cloud.word) / 2  # half an em a letter, of 24 pixels
        assert half <= cloud.x <= WIDTH - half


def luminance(color: str) -> float:
    parts = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


@pytest.mark.parametrize("ground", ["#ffffff", "#1b2023"])
def test_colors_stand_out_on_light_and_dark_and_repeat_after_the_twelfth(ground: str) -> None:
    colors = class_colors(100)
    assert len(set(colors)) == 12
    assert colors[12:24] == colors[:12]
    for color in colors:
        low, high = sorted([luminance(color), luminance(ground)])
        assert (high + 0.05) / (low + 0.05) >= 3, color


def test_the_first_twelve_colors_are_far_apart_in_hue_or_lightness() -> None:
    colors = [tuple(int(color[i : i + 2], 16) for i in (1, 3, 5)) for color in class_colors(12)]
    nearest = min(
        sum((a - b) ** 2 for a, b in zip(one, other, strict=True)) for one in colors for other in colors if one != other
    )
    assert nearest**0.5 > 40


def test_short_names_mark_themselves_and_long_ones_are_numbered() -> None:
    assert marks(["0", "1", "10"]) == ["0", "1", "10"]
    assert marks(["cat", "horse"]) == ["1", "2"]


@given(st.text(alphabet=st.characters()))
def test_any_text_can_be_shown(text: str) -> None:
    written_out = shown(text)
    assert len(written_out) == len(text)
    written_out.encode()
    assert all(sign.isprintable() or ord(sign) >= 0xA0 for sign in written_out)


def test_the_content_can_be_made_without_a_folder(tmp_path: Path) -> None:
    content = page_content(made_up_labeling(), {}, [], run=tmp_path / "a run")
    assert ("write this page again", f"laplacenet report '{tmp_path}/a run'") in content["commands"]
    assert json.dumps(content["next_csv"])
