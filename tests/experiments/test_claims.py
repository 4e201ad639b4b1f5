"""Each verdict on synthetic records: what must be said when a claim holds, fails, is open or was not run."""

from collections.abc import Iterable

import pytest
from references_experiments import headline_with_views, record_of

from laplacenet.experiments.benchmark import EpochRow, SideBySide
from laplacenet.experiments.paper.claims import Claim, numbers, statements
from laplacenet.experiments.paper.comparisons import Finding, Verdict
from laplacenet.experiments.paper.recipes import experiment_in
from laplacenet.experiments.paper.records import Record
from laplacenet.experiments.paper.series import RecordBook

C4 = "cifar100/4000"
GRAPH, NETWORK = (f"{source} pseudo-labels" for source in ("graph", "network"))
SHORT = 25_000
W_STRONG, W_ALIGNMENT, W_GRAPH = (
    f"without {name}" for name in ("strong augmentation", "distribution alignment", "graph propagation")
)
SCALED = ("samples × 3", "batch × 3", "samples × 5", "batch × 5")


def claim(words: str, claims: Iterable[Claim]) -> Claim:
    found = [one for one in claims if words in one.text]
    assert len(found) == 1, [one.text for one in found]
    return found[0]


def judged(words: str, records: list[Record]) -> Finding:
    return claim(words, statements()).judge(RecordBook(records))


def figure_3(graph: float, network: float, *, base_steps: int = 250_000, splits: int = 1) -> list[Record]:
    rows = {GRAPH: graph, NETWORK: network}
    return [
        record_of(experiment_in("figure-3", row, column), split=split, base_steps=base_steps, test_error=error)
        for row, error in rows.items()
        for column in (C4, "cifar100/10000")
        for split in range(splits)
    ]


def test_without_records_every_claim_is_not_yet_run() -> None:
    for one in [*statements(), *numbers()]:
        finding = one.judge(RecordBook([]))
        assert finding.verdict == Verdict.NOT_RUN
        assert "no run recorded" in finding.evidence


def test_a_claim_that_holds_at_the_full_schedule_is_reproduced() -> None:
    finding = judged("lead to a much lower error", figure_3(0.33, 0.37))
    assert finding.verdict == Verdict.REPRODUCED
    assert "network pseudo-labels 37.00, graph pseudo-labels 33.00 (n = 1, 250 000 steps)" in finding.evidence


def test_the_same_at_a_shortened_schedule_confirms_the_direction() -> None:
    finding = judged("lead to a much lower error", figure_3(0.43, 0.47, base_steps=SHORT))
    assert finding.verdict == Verdict.DIRECTION
    assert "25 000 steps" in finding.evidence


def test_the_opposite_contradicts_and_says_at_which_schedule() -> None:
    assert judged("lead to a much lower error", figure_3(0.37, 0.33)).verdict == Verdict.CONTRADICTED
    finding = judged("lead to a much lower error", figure_3(0.37, 0.33, base_steps=SHORT))
    assert finding.verdict == Verdict.CONTRADICTED
    assert finding.evidence.startswith("at a shortened schedule: ")


def test_a_difference_within_the_noise_leaves_the_claim_open_until_there_are_more_runs() -> None:
    finding = judged("lead to a much lower error", figure_3(0.330, 0.334))
    assert finding.verdict == Verdict.NOT_RUN
    assert finding.evidence.startswith("undecided: ")
    assert "within the noise of 0.71" in finding.evidence
    assert judged("lead to a much lower error", figure_3(0.330, 0.334, splits=5)).verdict == Verdict.REPRODUCED


def test_half_of_a_claim_is_not_the_claim() -> None:
    records = [record for record in figure_3(0.33, 0.37) if "4000" in record.key.name]
    finding = judged("lead to a much lower error", records)
    assert finding.verdict == Verdict.NOT_RUN
    assert finding.evidence.startswith("so far: CIFAR-100, 4000 labels: network pseudo-labels 37.00")


def test_a_full_run_is_never_compared_with_a_shortened_one() -> None:
    full = [record for record in figure_3(0.33, 0.37) if "network" in record.key.name]
    short = [record for record in figure_3(0.33, 0.37, base_steps=SHORT) if "network" not in record.key.name]
    assert judged("lead to a much lower error", full + short).verdict == Verdict.NOT_RUN


@pytest.mark.parametrize(
    ("error", "base_steps", "verdict"),
    [
        (0.3147, 250_000, Verdict.REPRODUCED),
        (0.3220, 250_000, Verdict.REPRODUCED),
        (0.3300, 250_000, Verdict.CONTRADICTED),
        (0.4388, SHORT, Verdict.NOT_RUN),
        (0.3000, SHORT, Verdict.NOT_RUN),
    ],
)
def test_a_published_number_needs_the_full_schedule(error: float, base_steps: int, verdict: Verdict) -> None:
    records = [record_of(headline_with_views(3), base_steps=base_steps, test_error=error)]
    finding = claim("LaplaceNet, CIFAR-100, 4000 labels: error 31.64", numbers()).judge(RecordBook(records))
    assert finding.verdict == verdict
    assert "published 31.64 ± 0.02" in finding.evidence


def test_the_tables_that_disagree_are_both_judged() -> None:
    records = [record_of(headline_with_views(3), test_error=0.3147)]
    for words in ("LaplaceNet, CIFAR-100, 4000 labels: error 31.64", "n_a = 3, CIFAR-100, 4000 labels: error 31.45"):
        assert claim(words, numbers()).judge(RecordBook(records)).verdict == Verdict.REPRODUCED


def test_an_invariance_may_be_off_in_neither_direction() -> None:
    for value, verdict in ((0.947, Verdict.REPRODUCED), (0.930, Verdict.CONTRADICTED), (0.960, Verdict.CONTRADICTED)):
        records = [record_of(headline_with_views(3), test_invariance=value)]
        finding = claim("n_a = 3, CIFAR-100, 4000 labels: test invariance", numbers()).judge(RecordBook(records))
        assert finding.verdict == verdict


def test_a_published_rival_is_beaten_below_its_error() -> None:
    ten_thousand = experiment_in("table-3", "LaplaceNet", "cifar100/10000")
    for error, base_steps, verdict in (
        (0.266, 250_000, Verdict.REPRODUCED),
        (0.299, SHORT, Verdict.DIRECTION),
        (0.310, 250_000, Verdict.CONTRADICTED),
        (0.350, SHORT, Verdict.NOT_RUN),
    ):
        finding = judged("first method below 30", [record_of(ten_thousand, base_steps=base_steps, test_error=error)])
        assert finding.verdict == verdict


def test_a_claim_about_one_data_set_does_not_wait_for_another() -> None:
    records = [
        record_of(experiment_in("table-3", row, column), test_error=error)
        for column in (C4, "cifar100/10000")
        for row, error in (("LaplaceNet", 0.26), ("Supervised baseline", 0.40))
    ]
    assert judged("On CIFAR-100 it beats training on the labeled", records).verdict == Verdict.REPRODUCED
    assert judged("On CIFAR-10 it beats training on the labeled", records).verdict == Verdict.NOT_RUN
    assert judged("the lowest error of all methods on CIFAR-100", records).verdict == Verdict.REPRODUCED


def test_more_views_must_lower_the_error_and_raise_the_invariance() -> None:
    values = {1: (0.3244, 0.9397), 3: (0.3145, 0.9484), 5: (0.3115, 0.9511), 10: (0.3095, 0.9518)}
    records = [
        record_of(headline_with_views(n), split=split, test_error=error, test_invariance=v, train_invariance=v)
        for n, (error, v) in values.items()
        for split in range(5)
    ]
    for words in ("lower the error (n_a", "on test data", "on training data", "Above n_a = 5", "The gain from n_a"):
        one = next(claim for claim in statements() if words in claim.text)
        assert one.judge(RecordBook(records)).verdict == Verdict.REPRODUCED, words


def test_batches_that_help_contradict_and_batches_that_do_not_confirm() -> None:
    base = record_of(headline_with_views(1), test_error=0.3244)
    for error, verdict in ((0.3240, Verdict.REPRODUCED), (0.30, Verdict.CONTRADICTED)):
        batches = [
            record_of(experiment_in("figure-4", f"batch × {n}", C4), test_error=error, test_invariance=0.95)
            for n in (3, 5)
        ]
        assert judged("A larger batch does not improve", [base, *batches]).verdict == verdict


def test_more_steps_diverge_by_a_lost_loss_or_a_far_higher_error() -> None:
    base = record_of(headline_with_views(1), test_error=0.3244)
    three, five = (experiment_in("figure-4", f"steps × {n}", C4) for n in (3, 5))
    lost = record_of(three, diverged_at_step=40, test_error=0.99)
    for error, verdict in ((0.90, Verdict.REPRODUCED), (0.31, Verdict.CONTRADICTED), (0.34, Verdict.NOT_RUN)):
        finding = judged("times the steps with the same settings", [base, lost, record_of(five, test_error=error)])
        assert finding.verdict == verdict
        assert "steps × 3: 1 of 1 runs diverged" in finding.evidence


def side_by_side(step_ms: dict[str, float]) -> SideBySide:
    """Epochs of ten steps, but of three for a larger batch, as in the benchmark."""
    rows = []
    for variant, ms in {"Baseline (n_a = 1)": 2.0, **step_ms}.items():
        n_steps = 3 if variant.startswith("batch") else 10
        rows.append(EpochRow(variant, "13-cnn", 100, n_steps, ms * n_steps / 1000, 0.0, 1.0, n_repeats=2))
    return SideBySide(tuple(rows), {"hardware": {"gpu": "Some GPU"}})


@pytest.mark.parametrize(
    ("words", "step_ms", "verdict"),
    [
        ("The graph costs little", {"without graph propagation": 1.7}, Verdict.REPRODUCED),
        ("The graph costs little", {"without graph propagation": 1.5}, Verdict.CONTRADICTED),
        ("The graph costs little", {}, Verdict.NOT_RUN),
        ("saves the most", {W_STRONG: 1.5, W_ALIGNMENT: 1.7, W_GRAPH: 1.6}, Verdict.REPRODUCED),
        ("saves the most", {W_STRONG: 1.6, W_ALIGNMENT: 1.7, W_GRAPH: 1.59}, Verdict.NOT_RUN),
        ("saves the most", {W_STRONG: 1.7, W_ALIGNMENT: 1.8, W_GRAPH: 1.6}, Verdict.CONTRADICTED),
        ("nearly the same", dict.fromkeys(SCALED, 4.0), Verdict.REPRODUCED),
        ("nearly the same", dict.fromkeys(SCALED, 4.0) | {"batch × 5": 4.8}, Verdict.CONTRADICTED),
        ("nearly the same", dict.fromkeys(SCALED[:2], 4.0), Verdict.NOT_RUN),
    ],
)
def test_times_are_judged_by_what_was_measured_side_by_side(
    words: str, step_ms: dict[str, float], verdict: Verdict
) -> None:
    finding = claim(words, statements()).judge(RecordBook([], epochs=side_by_side(step_ms)))
    assert finding.verdict == verdict


def test_runs_of_different_days_say_nothing_about_time() -> None:
    runs = [record_of(headline_with_views(1)), record_of(experiment_in("table-9", W_GRAPH, C4))]
    assert judged("The graph costs little", runs).verdict == Verdict.NOT_RUN
    finding = claim("The graph costs little", statements()).judge(RecordBook([], epochs=side_by_side({W_GRAPH: 1.7})))
    assert finding.evidence == f"{W_GRAPH} 0.85 of the baseline's time (in one process, Some GPU)"


def test_shorter_schedules_show_where_the_numbers_go_until_the_full_one_is_run() -> None:
    shorter = [*figure_3(0.43, 0.47, base_steps=50_000), *figure_3(0.57, 0.55, base_steps=SHORT)]
    finding = judged("lead to a much lower error", shorter)
    assert finding.verdict == Verdict.DIRECTION
    assert "graph pseudo-labels 43.00 (n = 1, 50 000 steps; 55.00, 57.00 with 25 000 steps)" in finding.evidence
    assert "25 000" not in judged("lead to a much lower error", [*shorter, *figure_3(0.33, 0.37)]).evidence


def test_labels_that_get_better_along_the_curve_confirm_the_cycle() -> None:
    finding = judged("Each cycle of training", [record_of(headline_with_views(3), pseudo_label_accuracy=0.7)])
    assert finding.verdict == Verdict.REPRODUCED
    assert "right at first 60.00 %, at last 69.90 %" in finding.evidence


def test_every_claim_has_its_place_in_the_paper_and_words_of_its_own() -> None:
    claims = [*statements(), *numbers()]
    assert len({one.text for one in claims}) == len(claims)
    assert all(one.where.startswith(("Section", "Table", "Abstract", "Appendix")) for one in claims)
    assert len(numbers()) == 6 + 5 + 2 + 4 + 5 + 8 + 5
