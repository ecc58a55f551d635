"""Kills at random moments: nothing that was said to be kept is lost, and little is done again."""

import pytest

from support import durable

KILLS = pytest.mark.parametrize("kills", [4, pytest.param(50, marks=pytest.mark.slow)])


@pytest.mark.threat(
    "kill -9 at random moments of embedding, tuning, a sweep, training, feedback, judging, store load, cache writes",
    "nothing acknowledged is lost or done again, at most one piece a kill is, and what comes out is as undisturbed",
)
@KILLS
@pytest.mark.parametrize("name", durable.OPERATIONS)
def test_killed_again_and_again_it_loses_nothing_and_ends_as_undisturbed(assailant, started, tmp_path, name, kills):
    started(name)
    told = assailant.ask("kill", name, tmp_path / "of_it", kills, 7)
    print(name, told)
    assert told["kills"] == kills and told["other"] == []
    assert told["lost"] == told["again"] == told["wide"] == 0
