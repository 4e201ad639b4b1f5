"""Put the records of the review's simulation into its page: tables and curves.

    python tests/references_review_page.py

Rewrites what stands between `<!-- NAME -->` and `<!-- /NAME -->` in docs/review.md, and both pictures of curves, from
results/review/{cifar10,cifar100,coverage}.json.
"""

import json
import re
from pathlib import Path

from references_review_simulation import draw

ROOT = Path(__file__).parents[1]
PAGE = Path("docs/review.md")
GOALS = ("80%", "90%", "95%")
ROWS = {
    "review": "review",
    "next-grids": "`label` and `next`, same grids",
    "margin-grids": "logistic regression, margin sampling, same grids",
    "margin": "logistic regression, margin sampling",
    "next": "`label` and `next`, one at a time",
    "random": "logistic regression, random order",
}
SINGLE, GRIDS = ("margin", "next", "random"), ("next-grids", "margin-grids")
TITLES = {"cifar10": "CIFAR-10", "cifar100": "CIFAR-100"}
MODES = {"grid": "grids", "single": "one at a time"}


def page_of(text: str, root: Path = ROOT) -> str:
    """The page with the tables of the records in `root`; a record that is missing leaves its part as it is."""
    for name, title in TITLES.items():
        record = read(root, name)
        if record is not None:
            text = put(text, f"answers {name}", answers_table(record["orders"]))
            text = put(text, f"savings {name}", savings(title, record["orders"]))
    coverage = read(root, "coverage")
    return text if coverage is None else put(text, "coverage", coverage_table(coverage["sets"]))


def read(root: Path, name: str) -> dict | None:
    path = root / f"results/review/{name}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def put(text: str, name: str, content: str) -> str:
    block = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.DOTALL)
    assert block.search(text), f"the page has no part called {name}"
    return block.sub(lambda found: found[1] + content + "\n" + found[2], text)


def answers_table(orders: dict) -> str:
    lines = ["", "| until so many labels are right | 80 % | 90 % | 95 % |", "|---|---|---|---|"]
    for order, name in ROWS.items():
        if order in orders:
            lines.append(f"| {name} | {' | '.join(cell(orders[order][goal]) for goal in GOALS)} |")
    return "\n".join([*lines, ""])


def cell(needed: dict) -> str:
    """Answers and pictures shown; a dash where not all seeds reached the goal."""
    return "–" if needed["mean answers"] is None else f"{needed['mean answers']:.0f} ({needed['mean shown']:.0f})"


def savings(title: str, orders: dict) -> str:
    """Against the best of the orders with single pictures, and of those with grids."""

    def best(among: tuple[str, ...], goal: str) -> float:
        means = (orders[order][goal]["mean answers"] for order in among if order in orders)
        return min(mean for mean in means if mean is not None)

    own = {goal: orders["review"][goal]["mean answers"] for goal in GOALS}
    fewer = [f"{100 * (1 - own[goal] / best(SINGLE, goal)):.0f}" for goal in GOALS]
    more = [f"{100 * (best(GRIDS, goal) / own[goal] - 1):.0f}" for goal in GOALS]
    return (
        f"- {title}: {fewer[0]}, {fewer[1]} and {fewer[2]} % fewer answers than the best order with one picture at a\n"
        f"  time; with the same grids the best other order needs {more[0]}, {more[1]} and {more[2]} % more."
    )


def coverage_table(sets: dict) -> str:
    lines = ["", "| pictures, questions | answers | interval holds the truth | its mean width | bias of the checks |"]
    lines.append("|---|---|---|---|---|")
    for name, found in sets.items():
        what = f"{found['pictures']} of {TITLES[name]}, {found['classes']} classes"
        for mode, marks in found["orders"].items():
            for answers, mark in marks.items():
                held = f"{100 * mark['held']:.1f} % of {mark['runs']} runs"
                bias = f"{100 * mark['bias']:+.1f} ± {100 * mark['its standard error']:.1f} points"
                lines.append(f"| {what}, {MODES[mode]} | {answers} | {held} | {mark['width']:.2f} | {bias} |")
    return "\n".join([*lines, ""])


def main() -> None:
    page = ROOT / PAGE
    page.write_text(page_of(page.read_text(encoding="utf-8")), encoding="utf-8")
    for name, picture in (("cifar10", "review-curves.png"), ("cifar100", "review-curves-cifar100.png")):
        record = read(ROOT, name)
        if record is not None:
            draw(record, ROOT / "docs" / picture)


if __name__ == "__main__":
    main()
