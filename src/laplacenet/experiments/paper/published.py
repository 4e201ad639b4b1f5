"""The paper's numbers: Tables III to IX as printed, other methods' rows too.

Columns are `data set/labels`; a dash is a cell that the paper leaves empty.
"""

from dataclasses import dataclass

EMPTY = "-"


@dataclass(frozen=True)
class Published:
    """mean ± standard deviation over the paper's five label splits; some sources print the mean alone."""

    mean: float
    std: float | None = None

    def __str__(self) -> str:
        return f"{self.mean:.2f}" if self.std is None else f"{self.mean:.2f} ± {self.std:.2f}"


@dataclass(frozen=True)
class PublishedTable:
    """One table: `rows[row][column]`, in the paper's order; empty cells are absent. `measure` says what is printed."""

    name: str
    title: str
    measure: str
    columns: tuple[str, ...]
    rows: dict[str, dict[str, Published]]

    def cell(self, row: str, column: str) -> Published | None:
        return self.rows.get(row, {}).get(column)


def parse_table(name: str, title: str, measure: str, text: str) -> PublishedTable:
    """A table from text: a line a row, cells between bars, the first line naming the columns."""
    lines = [[cell.strip() for cell in line.split("|")] for line in text.strip().splitlines()]
    columns = tuple(lines[0][1:])
    rows = {row: _parse_row(cells, columns) for row, *cells in lines[1:]}
    if len(rows) != len(lines) - 1:
        raise ValueError(f"{name}: a row stands in the table twice")
    return PublishedTable(name, title, measure, columns, rows)


def _parse_row(cells: list[str], columns: tuple[str, ...]) -> dict[str, Published]:
    numbers = {}
    for column, cell in zip(columns, cells, strict=True):
        if cell != EMPTY:
            mean, std = cell.split("±")
            numbers[column] = Published(float(mean), float(std))
    return numbers


SUPERVISED, LAPLACENET = "Supervised baseline", "LaplaceNet"
ERROR, HOURS = "top-1 error, %", "hours on one P100"
TEST_INVARIANCE = "test-data augmentation invariance, %"

TABLE_3 = parse_table(
    "table-3",
    "Table III: CIFAR-10 and CIFAR-100 with the 13-CNN",
    ERROR,
    """
                     | cifar10/500  | cifar10/1000 | cifar10/2000 | cifar10/4000 | cifar100/4000 | cifar100/10000
Supervised baseline  | 37.12 ± 0.89 | 26.60 ± 0.22 | 19.53 ± 0.12 | 14.02 ± 0.10 | 53.10 ± 0.34  | 36.59 ± 0.47
Π-Model              | -            | -            | -            | 12.36 ± 0.31 | -             | 39.19 ± 0.36
MT                   | 27.45 ± 2.64 | 21.55 ± 1.48 | 15.73 ± 0.31 | 12.31 ± 0.20 | 45.36 ± 0.49  | 36.08 ± 0.51
VAT                  | -            | -            | -            | 11.36 ± 0.34 | -             | -
MT-LP                | 24.02 ± 2.44 | 16.93 ± 0.70 | 13.22 ± 0.29 | 10.61 ± 0.28 | 43.73 ± 0.20  | 35.92 ± 0.47
SNTG                 | -            | 18.41 ± 0.52 | 13.64 ± 0.32 | 9.89 ± 0.34  | -             | 37.97 ± 0.29
MT-fast-SWA          | -            | 15.58 ± 0.12 | 11.02 ± 0.12 | 9.05 ± 0.21  | -             | 34.10 ± 0.31
MT-ICT               | -            | 15.48 ± 0.78 | 9.26 ± 0.09  | 7.29 ± 0.02  | -             | -
Dual Student         | -            | 14.17 ± 0.38 | 10.72 ± 0.19 | 8.89 ± 0.09  | -             | 32.77 ± 0.24
TSSDL                | -            | 21.13 ± 1.17 | 14.65 ± 0.33 | 10.90 ± 0.23 | -             | -
LP                   | 32.40 ± 1.80 | 22.02 ± 0.88 | 15.66 ± 0.35 | 12.69 ± 0.29 | 46.20 ± 0.76  | 38.43 ± 1.88
DAG                  | 9.30 ± 0.73  | 7.42 ± 0.41  | 7.16 ± 0.38  | 6.13 ± 0.15  | 37.38 ± 0.64  | 32.50 ± 0.21
Pseudo-Label Mixup   | 8.80 ± 0.45  | 6.85 ± 0.15  | -            | 5.97 ± 0.15  | 37.55 ± 1.09  | 32.15 ± 0.50
LaplaceNet           | 5.68 ± 0.08  | 5.33 ± 0.02  | 4.99 ± 0.12  | 4.64 ± 0.07  | 31.64 ± 0.02  | 26.60 ± 0.23
""",
)

TABLE_4 = parse_table(
    "table-4",
    "Table IV: CIFAR-10 and CIFAR-100 with WRN-28-2, all but MixMatch in one code base",
    ERROR,
    """
              | cifar10/500 | cifar10/2000 | cifar10/4000 | cifar100/4000 | cifar100/10000
MixMatch      | 9.65 ± 0.94 | 7.03 ± 0.15  | 6.34 ± 0.06  | -             | -
UDA           | 6.88 ± 0.74 | 5.61 ± 0.16  | 5.40 ± 0.19  | 36.19 ± 0.39  | 31.49 ± 0.19
FixMatch (RA) | 5.92 ± 0.11 | 5.42 ± 0.11  | 5.30 ± 0.08  | 34.87 ± 0.17  | 30.89 ± 0.18
LaplaceNet    | 5.57 ± 0.60 | 4.71 ± 0.05  | 4.35 ± 0.10  | 33.16 ± 0.22  | 27.49 ± 0.22
""",
)

TABLE_5 = parse_table(
    "table-5",
    "Table V: Mini-ImageNet with ResNet-18",
    ERROR,
    """
                     | mini-imagenet/4000 | mini-imagenet/10000
Supervised baseline  | 66.04 ± 0.32       | 52.89 ± 0.33
MT                   | 72.51 ± 0.22       | 57.55 ± 1.11
MT-LP                | 72.78 ± 0.15       | 57.35 ± 1.66
LP                   | 70.29 ± 0.81       | 57.58 ± 1.47
Pseudo-Label Mixup   | 56.49 ± 0.51       | 46.08 ± 0.11
LaplaceNet           | 46.32 ± 0.27       | 39.43 ± 0.09
""",
)

TABLE_6 = parse_table(
    "table-6",
    "Table VI: a larger network, WRN-28-2 against WRN-28-8",
    ERROR,
    """
         | cifar10/500 | cifar10/4000 | cifar100/4000 | cifar100/10000
WRN-28-2 | 5.57 ± 0.60 | 4.35 ± 0.10  | 33.16 ± 0.22  | 27.49 ± 0.22
WRN-28-8 | 3.81 ± 0.37 | 2.87 ± 0.18  | 26.61 ± 0.10  | 22.11 ± 0.23
""",
)

TABLE_7 = parse_table(
    "table-7",
    "Table VII: more views of each image (13-CNN)",
    ERROR,
    """
         | cifar100/4000
n_a = 1  | 32.44 ± 0.26
n_a = 3  | 31.45 ± 0.18
n_a = 5  | 31.15 ± 0.38
n_a = 7  | 31.02 ± 0.28
n_a = 10 | 30.95 ± 0.25
""",
)

TABLE_7_INVARIANCE = parse_table(
    "table-7",
    "Table VII: how little the prediction changes under augmentation (13-CNN)",
    TEST_INVARIANCE,
    """
         | cifar100/4000
n_a = 1  | 93.97 ± 0.01
n_a = 3  | 94.84 ± 0.01
n_a = 5  | 95.11 ± 0.04
n_a = 7  | 95.09 ± 0.03
n_a = 10 | 95.18 ± 0.06
""",
)

TABLE_8 = parse_table(
    "table-8",
    "Table VIII: components removed from the baseline with one view (13-CNN)",
    ERROR,
    """
                              | cifar100/4000 | cifar100/10000
Baseline (n_a = 1)            | 32.41 ± 0.25  | 27.37 ± 0.20
without RandAugment           | 44.43 ± 0.66  | 34.75 ± 0.23
without distribution alignment| 33.26 ± 0.24  | 29.07 ± 0.07
without MixUp                 | 33.74 ± 0.26  | 28.02 ± 0.20
""",
)

TABLE_9 = parse_table(
    "table-9",
    "Table IX: time of a run (13-CNN)",
    HOURS,
    """
                              | cifar100/4000
Baseline (n_a = 1)            | 7.52 ± 0.04
without distribution alignment| 6.18 ± 0.01
without strong augmentation   | 5.84 ± 0.03
without graph propagation     | 6.32 ± 0.01
batch × 3                     | 12.28 ± 0.03
batch × 5                     | 17.23 ± 0.06
samples × 3                   | 12.88 ± 0.01
samples × 5                   | 18.14 ± 0.11
""",
)

TABLES = (TABLE_3, TABLE_4, TABLE_5, TABLE_6, TABLE_7, TABLE_7_INVARIANCE, TABLE_8, TABLE_9)

LATER: dict[str, dict[str, Published]] = {
    method: dict(zip(("cifar10/40", "cifar100/400"), map(Published, errors), strict=True))
    for method, errors in {
        "FixMatch (RA)": (8.33, 53.37),
        "FlexMatch": (5.21, 50.15),
        "FreeMatch": (4.97, 49.24),
        "SoftMatch": (5.06, 49.64),
        "SimMatch": (5.18, 48.82),
        "AdaMatch": (5.05, 47.82),
    }.items()
}
"""WRN-28-2 with four labels a class after 2^20 steps, from the USB benchmark; no such number of LaplaceNet is known."""
LATER_ON_WRN_28_8: dict[str, dict[str, Published]] = {
    method: dict(zip(("cifar100/400", "cifar100/10000"), map(Published, errors), strict=True))
    for method, errors in {
        "FixMatch (RA)": (46.42, 22.20),
        "FlexMatch": (39.94, 21.90),
        "FreeMatch": (37.98, 21.68),
        "SoftMatch": (37.10, 22.03),
        "SimMatch": (37.81, 20.58),
    }.items()
}
FEW_LABELS = PublishedTable(
    "few-labels",
    "Few labels, WRN-28-2 (not in the paper; the published numbers are USB's, with 2^20 steps)",
    ERROR,
    ("cifar10/40", "cifar100/400"),
    {LAPLACENET: {}, **{method: LATER[method] for method in ("FixMatch (RA)", "FlexMatch", "FreeMatch")}},
)
