"""Pictures made to cost far more than their size: each is read or refused, with little time and memory."""

from pathlib import Path

from references_campaign import Campaign
from references_picture_bombs import BUDGET_S, Bombs


def test_pictures_that_are_bombs_are_read_or_refused_within_their_budget(tmp_path: Path) -> None:
    campaign = Campaign("picture bombs", seed=0)
    campaign.run(Bombs(tmp_path, budget_s=5 * BUDGET_S), cases=range(12))  # slower cores too; a bomb would take minutes
    assert not campaign.failures, "\n\n".join(campaign.failures)
