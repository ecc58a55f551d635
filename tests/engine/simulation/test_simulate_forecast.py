"""What a simulation will take is what it takes; what it tells on the way; judged queries along a log; own queries."""

import threading

import numpy as np
import pytest

import engine
from engine import orag
from engine.drift.history import beginning, history, measured, standing
from engine.drift.round_metrics import adapted
from engine.errors import Cancelled
from engine.feedback.presets import Preset
from engine.simulation.feedback_model import Stream
from engine.simulation.self_queries import own_queries
from engine.simulation.simulate import Plan, forecast, simulate
from engine.views.drift import conclusions, movers
from engine.views.drift_map import trajectories
from support.planted import planted

DECODERS = [engine.Decoder(engine.make(name)) for name in ("top_k", "mmr")]


@pytest.fixture(scope="module")
def small():
    """60 documents, and a question about each; what the last one asks for is not there."""
    space, asked, qrels = planted(n=60, d=12, each=1)
    return space, asked, engine.Qrels({**qrels.grades, "q59": {"gone": 1}})


@pytest.mark.parametrize("stream", [Stream(), Stream(rounds=7), Stream(order="repeated", rounds=1000)])
@pytest.mark.parametrize("plan", [Plan(checkpoints=3), Plan(checkpoints=50, held_out=0.4, measured=4, regret="none")])
def test_a_forecast_holds(small, stream, plan):
    space, asked, qrels = small
    preset = Preset(exposure=2, seed=3)
    told = forecast(
        asked.ids, space.corpus.position, qrels, preset=preset, stream=stream, plan=plan, decoders=len(DECODERS)
    )
    seen = []
    found = simulate(
        space, asked, qrels, preset=preset, stream=stream, plan=plan, decoders=DECODERS, k=5, seen=seen.append
    )
    assert told.rounds == len(found.trail) and told.learned == len(found.queries)
    assert told.left_out == found.left_out == 1 and told.checkpoints == len(found.checkpoints)
    assert tuple(seen) == found.checkpoints
    parts = [found.checkpoints[0].cell(part=part) for part in ("stream", "held-out")]
    measured_ = len(DECODERS) * told.checkpoints * sum(cell.queries for cell in parts)
    assert told.passes == measured_ + told.rounds * (1 if plan.regret == "none" else 2)
    assert told.seconds(3.0, told.passes) == pytest.approx(3.0)


def test_what_was_measured_before_a_stop_is_told_again(small, tmp_path):
    space, asked, qrels = small
    file, stop, first, second = tmp_path / "s.npz", threading.Event(), [], []

    def end(checkpoint):
        first.append(checkpoint)
        if len(first) == 3:
            stop.set()

    how = {"plan": Plan(checkpoints=6), "file": file, "k": 5}
    with pytest.raises(Cancelled):
        simulate(space, asked, qrels, stop=stop, seen=end, **how)
    found = simulate(space, asked, qrels, seen=second.append, **how)
    told = [checkpoint.as_json() for checkpoint in second]
    assert told[:3] == [checkpoint.as_json() for checkpoint in first] and tuple(second) == found.checkpoints


def test_judged_queries_along_a_log_are_what_decoders_reach_then(small):
    space, asked, qrels = small
    now = orag.session(space, queries=asked)
    for at in range(6):
        now = orag.feed(now, orag.thumb(now, asked.take([at]), at, up=at % 2 == 0))
    start, told = beginning(now, asked, qrels), []
    found = measured(now, start, asked, qrels, DECODERS, (0, 3, 6), 5, seen=told.append)
    assert tuple(told) == found and [c.step for c in found] == [0, 3, 6]
    for checkpoint in found:
        then = orag.at(now, checkpoint.step)
        assert checkpoint.drift == standing(then, start)
        ranking = engine.decode(DECODERS[1], adapted(space, then.vectors), asked, 5)
        mean = engine.measure(ranking, space, asked, qrels, 5, ("ndcg",)).mean["ndcg"]
        assert checkpoint.cell(DECODERS[1].label, "judged").mean["ndcg"] == pytest.approx(mean, abs=1e-12)
        groups = [checkpoint.cell(part="judged", group=group).queries for group in ("all", "head", "tail")]
        assert groups[0] == sum(groups[1:]) == 60
    drifts = []
    assert history(now, start, (0, 6), seen=drifts.append) == (found[0].drift, found[2].drift) == tuple(drifts)
    stop = threading.Event()
    stop.set()
    with pytest.raises(Cancelled):
        measured(now, start, asked, qrels, DECODERS, stop=stop)


def test_documents_ask_for_themselves(small):
    space, _, _ = small
    queries, qrels = own_queries(space, 10, seed=4)
    assert len(queries) == 10 == len(qrels) and queries.ids == own_queries(space, 10, seed=4)[0].ids
    ranking = engine.decode(DECODERS[0], space, queries, 1)
    assert [space.corpus.ids[row] for row in ranking.index[:, 0].tolist()] == list(queries.ids)
    assert all(qrels.relevant(query) == {query} for query in queries.ids)
    assert len(own_queries(space)[0]) == 60
    with pytest.raises(engine.ParamError, match="most"):
        own_queries(space, 0)
    with pytest.raises(engine.ParamError, match="seed"):
        own_queries(space, seed=-1)


def test_what_did_not_move_is_no_mover_and_has_no_arrow(small):
    space, asked, _ = small
    session = orag.session(space, queries=asked)
    now = orag.feed(session, orag.thumb(session, asked.take([2]), 7, up=False))
    drift = standing(now, beginning(now))
    assert len(drift.movers) == 10, "all others stayed behind what moved"
    assert [moved.row for moved in movers(drift, space, now.vectors)] == [7]
    layout = engine.layout(space, "pca", cache=False)
    found = trajectories(layout, space, [(0, session.vectors), (1, now.vectors)])
    assert found.rows.tolist() == [7] and found.arrows(0)["row"] == [] and found.arrows()["row"] == [7]
    longer, times = found.lengthened(span=float(np.ptp(layout.points, axis=0).max()))
    assert times >= 1 and np.array_equal(longer.points[0], found.points[0])
    far = float(np.linalg.norm(found.points[-1] - found.points[0], axis=1).max())
    factors = [found.lengthened(span=room * far, share=1)[1] for room in (0.3, 1.5, 2.5, 7, 23)]
    assert factors == [1, 1, 2, 5, 20]
    went, before = (np.diff(f.points, axis=0) for f in (longer, found))
    assert went == pytest.approx(times * before, rel=1e-3, abs=1e-5)
    assert f"99th percentile {drift.q99:.3f}, maximum " in conclusions(drift)[0]
