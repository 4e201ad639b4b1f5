"""Pictures and labels that change between a kill and the resumption of the labeling: what is there now is labeled
rightly, or it is refused; never are labels attached to other pictures."""

from pathlib import Path

from references_campaign import Campaign
from references_changed_inputs import WAYS, changed_inputs


def test_changed_inputs_are_labeled_rightly_or_refused(tmp_path: Path) -> None:
    campaign = Campaign("changed inputs", seed=1)
    with changed_inputs(tmp_path, {"training": [30]}) as case:
        campaign.run(case, cases=range(10))
    assert not campaign.failures, "\n\n".join(campaign.failures)
    assert {outcome.partition(": ")[0] for outcome in campaign.outcomes} == set(WAYS)
