"""The whole plan, the most informative runs first.

First the number the paper is known by, at its full schedule: CIFAR-100 with 4000 labels and the 13-CNN. Then what
compares (labels from the graph or the network, components removed, class weighting, views against batch size) at a
fifth of the schedule, where a run takes minutes; at a tenth RandAugment had not begun to pay. Then full schedules:
10 000 labels, CIFAR-10 and CIFAR-100 with the WRN-28-2, and the other splits of the cheapest cells. Then the
comparisons that are left, also on other splits, because small differences drown in the noise of one, and the large
network. Last, all that remains on all five splits. A run that serves several tables stands where it is wanted first.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from laplacenet.experiments.paper.published import LAPLACENET
from laplacenet.experiments.paper.recipes import RECIPES, Cell, find_recipe
from laplacenet.experiments.paper.variants import PAPER_STEPS

SHORT_STEPS = 50_000
FIRST, OTHERS = (0,), (1, 2, 3, 4)
ABLATIONS = ("figure-3", "table-8", "class-weighting", "figure-4", "table-7", "table-9")


@dataclass(frozen=True)
class PlanEntry:
    """Cells to be run on some splits with some schedule. An empty `columns` or `rows` is all of them."""

    recipe: str
    splits: tuple[int, ...]
    base_steps: int
    columns: tuple[str, ...] = ()
    rows: tuple[str, ...] = ()

    def cells(self) -> list[Cell]:
        return [
            cell
            for cell in find_recipe(self.recipe).cells
            if (not self.columns or cell.column in self.columns) and (not self.rows or cell.row in self.rows)
        ]


def whole_plan() -> Sequence[PlanEntry]:
    headline = PlanEntry("table-3", FIRST, PAPER_STEPS, columns=("cifar100/4000",), rows=(LAPLACENET,))
    return (
        headline,
        PlanEntry("figure-3", FIRST, SHORT_STEPS),
        PlanEntry("table-8", FIRST, SHORT_STEPS, columns=("cifar100/4000",)),
        PlanEntry("class-weighting", FIRST, SHORT_STEPS),
        PlanEntry("figure-4", FIRST, SHORT_STEPS, rows=("× 1", "samples × 3", "samples × 5", "batch × 3")),
        PlanEntry("table-3", FIRST, PAPER_STEPS, columns=("cifar100/10000",), rows=(LAPLACENET,)),
        PlanEntry("table-4", FIRST, PAPER_STEPS, columns=("cifar10/500", "cifar10/4000")),
        PlanEntry("table-4", FIRST, PAPER_STEPS, columns=("cifar100/4000",)),
        PlanEntry("table-3", OTHERS, PAPER_STEPS, columns=("cifar100/4000", "cifar100/10000"), rows=(LAPLACENET,)),
        *(PlanEntry(name, FIRST, SHORT_STEPS) for name in ABLATIONS),
        PlanEntry("table-3", FIRST, SHORT_STEPS, columns=("cifar100/4000", "cifar100/10000")),
        *(PlanEntry(name, OTHERS, SHORT_STEPS) for name in ABLATIONS[:3]),
        PlanEntry("figure-3", FIRST, PAPER_STEPS),
        PlanEntry("table-8", FIRST, PAPER_STEPS),
        PlanEntry("table-7", FIRST, PAPER_STEPS),
        PlanEntry("table-3", FIRST, PAPER_STEPS),
        PlanEntry("figure-4", OTHERS, SHORT_STEPS),
        PlanEntry("table-6", FIRST, PAPER_STEPS, columns=("cifar100/4000", "cifar100/10000"), rows=("WRN-28-8",)),
        *(PlanEntry(name, FIRST, PAPER_STEPS) for name in RECIPES),
        *(PlanEntry(name, OTHERS, PAPER_STEPS) for name in RECIPES),
    )
