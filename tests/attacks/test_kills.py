"""Kills at random moments: nothing that was said to be kept is lost, and little is done again."""

import pytest

from support import durable
from support.draws import deepen

KILLS = pytest.mark.parametrize(
    "kills", [2, pytest.param(4, marks=pytest.mark.deep), pytest.param(50, marks=pytest.mark.slow)]
)


@pytest.mark.threat(
    "kill -9 at random moments of embedding, tuning, a sweep, training, feedback, judging by people and by a model, "
    "store load, cache writes",
    "nothing acknowledged is lost or done again, at most one piece a kill is, and what comes out is as undisturbed",
)
@KILLS
@pytest.mark.parametrize("name", deepen(durable.OPERATIONS, ["embed", "tune", "train", "model judge", "store load"]))
def test_killed_again_and_again_it_loses_nothing_and_ends_as_undisturbed(
    assailant, start_servers_of, tmp_path, name, kills
):
    start_servers_of(name)
    report = assailant.ask("kill", name, tmp_path / "of_it", kills, 7)
    print(name, report)
    assert report["kills"] == kills and report["other"] == []
    assert report["lost"] == report["again"] == report["wide"] == 0
