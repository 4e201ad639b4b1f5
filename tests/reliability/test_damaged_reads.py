"""Any file that any command reads, damaged in any way: the same result, or one line and exit code 2."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from references_campaign import REFUSED, Campaign, replaced, run_command
from references_damaged_reads import damages, make_place, with_method_name, with_value


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_place(tmp_path_factory.mktemp("place"))


@pytest.mark.parametrize(
    ("words", "change"),
    [
        ("report run", lambda: Path("run/experiment.json").unlink()),
        ("report run", lambda: replaced(Path("run/experiment.json"), Path("run/experiment.json").mkdir)),
        ("report run", lambda: replaced(Path("run/epochs.jsonl"), lambda: os.mkfifo("run/epochs.jsonl"))),
        (
            "report run",
            lambda: replaced(Path("run/epochs.jsonl"), lambda: Path("run/epochs.jsonl").symlink_to("/dev/zero")),
        ),
        ("label --resume labels", lambda: replaced(Path("labels/model.json"), Path("labels/model.json").mkdir)),
        ("evaluate run", lambda: with_method_name(Path("run/experiment.json"), [])),
        ("predict labels mine.npz", lambda: with_value(Path("labels/model.json"), class_names=["a", "b"])),
        ("predict labels mine.npz", lambda: with_value(Path("labels/model.json"), class_names=["a", "b", "b"])),
        ("predict labels mine.npz", lambda: with_value(Path("labels/model.json"), temperature=1e-320)),
    ],
)
def test_what_random_damage_found_is_refused(
    place: Path, tmp_path: Path, words: str, change: Callable[[], object]
) -> None:
    with damages(place, tmp_path):
        change()
        ended = run_command(*words.split())
    assert ended.is_refusal, ended


@pytest.mark.parametrize("values", [{"libraries": True}, {"hardware": 1.5}, {"resumed": {}}])
def test_a_run_whose_history_makes_no_sense_goes_on_and_says_so(
    place: Path, tmp_path: Path, values: dict[str, object]
) -> None:
    with damages(place, tmp_path):
        with_value(Path("stopped/provenance.json"), **values)
        ended = run_command("train", "--resume", "stopped")
    assert ended.code == 0, ended
    assert "what ran before is no longer known" in ended.err


def test_damaged_files_are_refused_or_do_no_harm(place: Path, tmp_path: Path) -> None:
    campaign = Campaign("damaged reads", seed=0)
    with damages(place, tmp_path) as case:
        campaign.run(case, cases=range(30))
    assert not campaign.failures, "\n\n".join(campaign.failures)
    assert campaign.outcomes[REFUSED] > 5
