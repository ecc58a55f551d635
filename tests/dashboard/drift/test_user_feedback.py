"""Keys under which all visitors share what was measured of a log of votes."""

from dataclasses import replace

import pytest

from dashboard.drift.user_feedback import compute_log_digests
from engine import orag
from support.live_feedback import corpus, thumb


@pytest.mark.threat("an imported log whose votes have the ids of other votes", "its drift is nobody else's")
def test_logs_with_the_same_ids_of_other_votes_share_no_drift():
    session = orag.session(corpus().space)
    up, down = thumb(up=True)(session), thumb(up=False)(session)
    logs = [orag.feed(session, event) for event in (up, down, replace(down, id=up.id))]
    digests = [compute_log_digests(log, [0, 1]) for log in logs]
    assert len({by_step[0] for by_step in digests}) == 1, "before the votes they are one"
    assert len({by_step[1] for by_step in digests}) == 3
