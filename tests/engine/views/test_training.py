"""A course for the page: what it takes, its lines, its table by groups and as numbers, and the chart of its epochs."""

import numpy as np
import pytest

import engine
from dashboard.charts.training import plot_training
from engine.training.comparison import CONTROL, START
from engine.training.experiment import course, foreseen, histories, is_course_finished, list_planned_stages
from engine.training.metrics import Dev, Epoch
from engine.views.training import SHARE_TITLES, curves, find_best_epoch, select_compared_systems
from support.training import QUICK, plant

PARAMS = {**QUICK, "epochs": 2}


@pytest.fixture(scope="module")
def data():
    """Queries of dev and test have one, two or three relevant documents."""
    space, queries, qrels = plant(n=40, d=8, train=120, dev=90)
    some = {q: dict(list(g.items())[: 1 + i % 3]) for i, (q, g) in enumerate(qrels["dev"].grades.items())}
    halves = [dict(list(some.items())[at * 45 : at * 45 + 45]) for at in (0, 1)]
    return space, queries, {**qrels, "dev": engine.Qrels(halves[0]), "test": engine.Qrels(halves[1])}


@pytest.fixture(scope="module")
def taken(data, tmp_path_factory):
    folder, lines, seen = tmp_path_factory.mktemp("course"), {}, {}
    watch = lambda stage, epoch: seen.setdefault(stage, []).append(epoch)  # noqa: E731
    found = course("nnn", *data, folder=folder, watch=watch, lines=lines.__setitem__, **PARAMS)
    return found, folder, lines, seen


def test_what_it_takes_is_of_all_stages(data):
    found = foreseen("nnn", *data, **PARAMS)
    assert list(found.stages) == list_planned_stages("nnn") == [START, CONTROL, "nnn"]
    assert found.method.queries == 120 and found.repeated == 0
    assert found.seconds == sum(stage.seconds for stage in found.stages.values()) > found.method.seconds > 0


@pytest.mark.deep
def test_the_untrained_decoder_is_known_before_the_end(data, taken):
    found, _, lines, _ = taken
    (name,) = lines
    assert name in found.table.values and name.startswith(START)
    _, queries, qrels = data
    start = found.stages[START]
    dev = [queries.ids.index(q) for q in qrels["dev"].grades]
    best = max(
        engine.measure(engine.decode(decoder, start.space, queries.take(dev), 5), start.space, queries.take(dev),
                       qrels["dev"], 5, ("comp",)).mean["comp"]
        for decoder in engine.grid("nnn", fill="strict")
    )  # fmt: skip
    assert lines[name].comp5 == pytest.approx(best)


def test_a_folder_says_what_was_seen(taken):
    _, folder, _, seen = taken
    assert {n: list(h) for n, h in histories(folder, "nnn").items()} == seen
    assert is_course_finished(folder, "nnn") and not is_course_finished(folder, "colt")


def test_the_table_by_groups_and_as_numbers(taken):
    table = taken[0].table
    groups = table.groups()
    assert [(g.relevant, g.queries) for g in groups] == [("1", 15), ("2", 15), ("3", 15)]
    values = table.values["nnn"]["comp", 5]
    for group, count in zip(groups, (1, 2, 3), strict=True):
        own = values[table.relevant == count]
        assert group.means["nnn"] == pytest.approx((own.mean(), own.std(ddof=1) / np.sqrt(15)))
    assert [(g.relevant, g.queries) for g in table.groups(2)] == [("1–2", 30), ("3", 15)]
    (row,) = [row for row in table.records if row["system"] == "nnn"]
    assert (row["Comp@5"], row["Comp@5 se"]) == table.mean("nnn", "comp", 5) and row["queries"] == 45


def test_the_verdict_is_of_the_control(taken):
    found = taken[0]
    row = next(row for row in found.table.told if row.baseline == CONTROL)
    said = {True: "beats" if row.difference > 0 else "is worse than", False: "does not beat"}[row.significant]
    assert said in found.verdict and CONTROL in found.verdict


def epoch(number, comp5, **more):
    dev = Dev(
        comp3=comp5 / 2, comp3_se=0.02, comp5=comp5, comp5_se=0.05, recall3=0.1, recall3_se=0.01, recall5=comp5 + 0.1,
        recall5_se=0.03,
    )  # fmt: skip
    return Epoch(epoch=number, dev=dev, seconds=1.0, **more)


def test_the_chart_marks_the_best_and_draws_what_it_is_compared_with():
    stages = {
        START: (epoch(-1, 0.2), epoch(0, 0.3, loss=2.0, satisfied=0.0)),
        CONTROL: (epoch(-1, 0.3), epoch(0, 0.25, loss=1.5, satisfied=0.1)),
        "new": (
            epoch(-1, 0.3),
            epoch(0, 0.5, loss=0.9, satisfied=0.2, support=7.0, empty=0.1, outside=0.4),
            epoch(1, 0.5, loss=0.8, satisfied=0.3, support=8.0, empty=0.0, outside=0.3),
        ),
    }
    assert find_best_epoch(stages["new"]).epoch == 0, "of equals the first"
    lines = select_compared_systems("new", stages, {"untrained": epoch(-1, 0.35).dev})
    assert {name: dev.comp5 for name, dev in lines.items()} == {START: 0.3, CONTROL: 0.3, "untrained": 0.35}
    assert list(select_compared_systems(CONTROL, stages, {"untrained": epoch(-1, 0.35).dev})) == [START]
    assert select_compared_systems(START, stages, {}) == {}
    assert not curves(stages[START], {}).shares and curves(stages[CONTROL], {}).shares, "a share that is never above 0"
    found = curves(stages["new"], lines)
    assert [band.title for band in found.bands] == ["Comp@5", "Comp@3", "Recall@5"]
    assert found.bands[0].low == pytest.approx((0.25, 0.45, 0.45)) and found.bands[0].best == 0.5
    assert (
        found.loss == (None, 0.9, 0.8)
        and found.support[1:] == (7.0, 8.0)
        and list(found.shares) == [*SHARE_TITLES.values()]
    )
    figure = plot_training("new <b>", found, is_dark=True)
    names = [trace.name for trace in figure.data if trace.showlegend]
    assert {"new &lt;b&gt;", START, CONTROL, "untrained", "best epoch", *SHARE_TITLES.values()} <= set(names)
    marks = [(trace.x[0], trace.y[0]) for trace in figure.data if trace.name == "best epoch"]
    assert marks == [(0, 0.5), (0, 0.25), (0, 0.6)]
    first = plot_training("new", curves(stages["new"][:1], {}), is_dark=False)
    assert "loss" not in [trace.name for trace in first.data]
