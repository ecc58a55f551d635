"""Kills at random moments: nothing that was said to be kept is lost, and little is done again."""

import pytest

from support import durable

SLOW = ("embed", "tune", "train", "model judge", "store load")
ATTACKS = [
    *((name, 2) for name in durable.OPERATIONS if name not in SLOW),
    *(pytest.param(name, 4, marks=pytest.mark.deep) for name in durable.OPERATIONS),
    *(pytest.param(name, 50, marks=pytest.mark.slow) for name in durable.OPERATIONS),
]
"""Operations, and how often each is killed."""


@pytest.mark.threat(
    "kill -9 at random moments of embedding, tuning, a sweep, training, feedback, judging by people and by a model, "
    "store load, cache writes",
    "nothing acknowledged is lost or done again, at most one piece a kill is, and what comes out is as undisturbed",
)
@pytest.mark.parametrize(("name", "kills"), ATTACKS)
def test_killed_again_and_again_it_loses_nothing_and_ends_as_undisturbed(
    assailant, start_servers_of, tmp_path, name, kills
):
    start_servers_of(name)
    report = assailant.ask("kill", name, tmp_path / "of_it", kills, 7)
    print(name, report)
    assert report["kills"] == kills and report["other"] == []
    assert report["lost"] == report["again"] == report["wide"] == 0
