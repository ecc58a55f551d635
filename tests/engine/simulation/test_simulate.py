"""Simulations: learning helps, a simulation is a session, one that stops goes on, and a forecast is what it takes."""

import json
import threading
from threading import Event as Flag

import numpy as np
import pytest

import engine
from engine import orag
from engine.data.degrade import shorten_documents
from engine.drift.history import beginning, history, measured, standing
from engine.drift.round_metrics import HELD_OUT, STREAM, RoundMetrics, adapted
from engine.feedback.presets import Preset
from engine.simulation.feedback_model import Stream
from engine.simulation.self_queries import sample_self_queries
from engine.simulation.simulate import Plan, forecast, simulate
from engine.views.drift import conclusions, movers
from engine.views.drift_map import trajectories
from support.draws import every_other
from support.parameters import invalid_values
from support.planted import make_deployment

FAST = Plan(checkpoints=2, regret="none")
FULL = {"mode": "full"}


def held_out(found, metric="ndcg", at=-1):
    return found.checkpoints[at].cell().mean[metric]


def test_learning_raises_held_out_ndcg_on_a_clean_stream_over_five_seeds():
    gains = []
    for seed in range(5):
        found = simulate(*make_deployment(seed), plan=FAST, seed=seed)
        gains.append(held_out(found) - held_out(found, at=0))
    assert min(gains) > 0 and np.mean(gains) > 0.03, gains


def test_a_rate_of_nothing_changes_nothing():
    space, queries, qrels = make_deployment()
    found = simulate(space, queries, qrels, plan=FAST, rate=0.0)
    assert np.array_equal(found.final, space.vectors.double().numpy())
    assert found.embeddings() is space.embeddings
    first, *others = found.checkpoints
    for later in others:
        assert later.cells == first.cells
        assert later.drift.median == later.drift.churn == later.drift.neighbourhood == 0


@pytest.mark.parametrize("preset", ["default", "careful"])
@pytest.mark.parametrize("sizes", [False, True])
def test_a_simulation_is_a_session_fed_the_same_events_bit_by_bit(preset, sizes):
    plan = Plan(checkpoints=1, regret="none", sizes=sizes)
    stream = Stream(flips=0.2, adversary=0.1)
    found = simulate(*make_deployment(n_relevant=2), preset=preset, plan=plan, stream=stream, seed=3)
    session = found.begun
    for event in found.events:
        session = orag.feed(session, event)
    assert np.array_equal(session.exact, found.final)
    assert np.array_equal(found.session().exact, found.final)
    assert session.embeddings() == found.embeddings()


@pytest.mark.parametrize("rule", ["chosen", "full", "paper", "oracle"])
def test_draws_and_steps_are_those_a_session_would_make(rule):
    space, queries, qrels = make_deployment(n=12, queries_per_document=5)
    preset, more = ("paper", {"rate": 0.01}) if rule == "paper" else ("default", {} if rule == "chosen" else FULL)
    plan = Plan(checkpoints=1, regret="none", learner="oracle" if rule == "oracle" else "feedback")
    found = simulate(space, queries, qrels, preset=preset, plan=plan, stream=Stream(rounds=40), seed=4, **more)
    session, trail = found.begun, found.trail
    for at, which in enumerate(trail.query):
        query, right = found.queries[which], found.right[which]
        if rule == "oracle":
            event = orag.full_information(session, query, right.tolist())
        else:
            draw = orag.ask(session, query)
            assert (draw.item, draw.propensity) == (trail.item[at], trail.propensity[at])
            assert trail.loss[at] == pytest.approx(-np.log(draw.probabilities[right]).mean())
            event = orag.outcome(session, draw, bool((right == draw.item).any()))
            assert rule != "chosen" or event == found.events[at]
        session = orag.feed(session, event)
    assert np.array_equal(session.exact, found.final)
    assert not np.array_equal(found.final, space.vectors.double().numpy())


def test_same_seed_same_answer_and_another_seed_another():
    a, b, c = (simulate(*make_deployment(), plan=FAST, seed=seed) for seed in (1, 1, 2))
    assert np.array_equal(a.final, b.final) and a.checkpoints == b.checkpoints
    assert not np.array_equal(a.final, c.final)


def test_wrong_feedback_costs_and_the_truth_is_worth_most():
    def gain(**how):
        stream = how.pop("stream", Stream())
        plan = Plan(checkpoints=1, regret="none", **how)
        found = [simulate(*make_deployment(seed), plan=plan, stream=stream, seed=seed) for seed in range(2)]
        return np.mean([held_out(f) - held_out(f, at=0) for f in found])

    clean = gain()
    assert gain(learner="oracle") > clean > gain(stream=Stream(flips=0.3))
    assert clean > gain(stream=Stream(adversary=0.5)) and clean > gain(stream=Stream(popularity=0.9))


def test_every_decoder_is_measured_on_every_part_and_group():
    decoders = [engine.Decoder(engine.make("top_k")), engine.Decoder(engine.make("mmr", relevance_weight=0.5))]
    space, queries, qrels = make_deployment()
    found = simulate(space, queries, qrels, plan=FAST, decoders=decoders, k=5)
    for point in found.checkpoints:
        assert len(point.cells) == 2 * 2 * 3
        for decoder in decoders:
            for part in (HELD_OUT, STREAM):
                whole, head, tail = (point.cell(decoder.label, part, group) for group in ("all", "head", "tail"))
                assert whole.queries == head.queries + tail.queries and head.queries and tail.queries
                total = head.queries * head.mean["ndcg"] + tail.queries * tail.mean["ndcg"]
                assert whole.mean["ndcg"] == pytest.approx(total / whole.queries)
    now = engine.Space(space.corpus, found.embeddings())
    asked = queries.take([at for at, q in enumerate(queries.ids) if q in apart(found, queries)])
    ranking = engine.decode(decoders[1], now, asked, 5)
    cell = found.checkpoints[-1].cell(decoders[1].label)
    here = engine.measure(ranking, now, asked, qrels, 5, ("recall", "ndcg", "ilad")).mean
    assert cell.queries == len(asked)
    assert {m: cell.mean[m] for m in ("recall", "ndcg")} == pytest.approx({m: here[m] for m in ("recall", "ndcg")})
    assert cell.mean["ilad_now"] == pytest.approx(here["ilad"])
    there = engine.measure(ranking, space, asked, None, 5, ("ilad",)).mean["ilad"]
    assert cell.mean["ilad"] == pytest.approx(there) and there != pytest.approx(here["ilad"], abs=1e-6)


def apart(found, queries):
    """The queries that the stream never shows."""
    learned = {q.vector.tobytes() for q in found.queries}
    return {i for i, row in zip(queries.ids, queries.vectors.numpy(), strict=True) if row.tobytes() not in learned}


def test_held_out_queries_are_never_learned_from():
    space, queries, qrels = make_deployment()
    found = simulate(space, queries, qrels, plan=FAST)
    assert len(apart(found, queries)) == 80 and len(found.queries) == 320
    own = engine.Qrels({q: g for q, g in qrels.grades.items() if int(q[1:]) % 4 == 0})
    rest = engine.Qrels({q: g for q, g in qrels.grades.items() if int(q[1:]) % 4})
    found = simulate(space, queries, rest, held_out=own, plan=FAST)
    assert apart(found, queries) == set(own.grades)
    with pytest.raises(engine.DataError, match="held_out must be of other queries than the stream's; 100 are in both"):
        simulate(space, queries, qrels, held_out=own)


def test_queries_without_a_right_document_are_left_out_and_counted():
    space, queries, qrels = make_deployment()
    some = dict(qrels.grades) | {"q0": {}, "q7": {"nowhere": 1}}
    assert simulate(space, queries, engine.Qrels(some), plan=FAST, stream=Stream(rounds=5)).left_out == 2


def test_more_exposure_shows_every_query_more_often():
    found = simulate(*make_deployment(n=10), plan=FAST, exposure=3)
    assert np.bincount(found.trail.query).tolist() == [3] * 80


@pytest.mark.parametrize("preset,more", [("default", {}), ("paper", {"rate": 0.003, "batch": 7})])
def test_a_stopped_simulation_goes_on_as_if_it_had_not_been(tmp_path, preset, more):
    data, file = make_deployment(n=20), tmp_path / "run.npz"
    plan = Plan(checkpoints=4)
    how = {"preset": preset, "plan": plan, "seed": 5, "stream": Stream(flips=0.1), **more}
    whole = simulate(*data, **how)
    stop = Flag()

    def seen(done, total, label):
        if done >= 70:
            stop.set()

    with pytest.raises(engine.Cancelled, match=r"stopped after 96 of 160 rounds; .*run.npz holds them"):
        simulate(*data, file=file, progress=seen, stop=stop, **how)
    calls = []
    again = simulate(*data, file=file, progress=lambda done, total, label: calls.append(done), **how)
    assert calls[0] == 96
    assert np.array_equal(again.final, whole.final) and again.checkpoints == whole.checkpoints
    for name, column in vars(whole.trail).items():
        assert np.array_equal(column, getattr(again.trail, name), equal_nan=column.dtype == float), name
    for a, b in zip(again.snapshots, whole.snapshots, strict=True):
        assert a.step == b.step and np.array_equal(a.moved, b.moved) and np.array_equal(a.rows, b.rows)
    finished = simulate(*data, file=file, **how)
    assert np.array_equal(finished.final, whole.final)


def test_a_file_of_another_simulation_is_refused_by_name(tmp_path):
    data, file = make_deployment(n=10, queries_per_document=4), tmp_path / "run.npz"
    simulate(*data, plan=FAST, file=file)
    with pytest.raises(engine.DataError, match=r"holds another simulation \(preset differ\)"):
        simulate(*data, plan=FAST, file=file, rate=0.01)
    with pytest.raises(engine.DataError, match=r"holds another simulation \(embeddings, queries differ\)"):
        simulate(*make_deployment(1, n=10, queries_per_document=4), plan=FAST, file=file)
    file.write_bytes(file.read_bytes()[:100])
    with pytest.raises(engine.DataError, match="is not the file of a simulation"):
        simulate(*data, plan=FAST, file=file)


def test_progress_never_falls_and_ends_at_the_end():
    calls = []
    simulate(*make_deployment(n=10), plan=FAST, progress=lambda done, total, label: calls.append((done, total, label)))
    assert [c[0] for c in calls] == sorted(c[0] for c in calls)
    assert calls[0] == (0, 80, "simulating") and calls[-1] == (80, 80, "simulating")


def test_snapshots_are_the_embeddings_at_the_checkpoints():
    space, queries, qrels = make_deployment()
    found = simulate(space, queries, qrels, plan=Plan(checkpoints=4, regret="none"))
    assert [s.step for s in found.snapshots] == [c.step for c in found.checkpoints] == [0, 80, 160, 240, 320]
    for snapshot in found.snapshots:
        there = orag.replay(found.begun, found.events[: snapshot.step])
        assert np.array_equal(snapshot.vectors(found.begun.origin), there.vectors)


def test_a_checkpoint_survives_json():
    for point in simulate(*make_deployment(n=10, queries_per_document=4), plan=Plan(checkpoints=1)).checkpoints:
        again = RoundMetrics.from_json(json.loads(json.dumps(point.as_json())))
        assert again.as_json() == point.as_json() and again.drift == point.drift


def test_declared_parameters_refuse_what_lies_outside():
    from engine.params import params_of

    for kind in (Plan, Stream):
        for param in params_of(kind):
            for bad in invalid_values(param):
                with pytest.raises(engine.ParamError):
                    kind(**{param.name: bad})


def test_documents_are_cut_to_their_first_words():
    corpus = engine.Corpus(("a", "b", "c"), ("one two  three four", "", "x\ny z"), ("A title", "B", ""), "set")
    cut = shorten_documents(corpus, 3)
    assert cut.titles == ("A title", "B", "") and cut.texts == ("one", "", "x\ny z") and cut.ids == corpus.ids
    assert shorten_documents(corpus, 1).passages == ("A", "B", "x")
    assert shorten_documents(corpus, 99) == corpus and shorten_documents(corpus, None) is corpus
    with pytest.raises(engine.ParamError, match="words must be a whole number in"):
        shorten_documents(corpus, 0)


DECODERS = [engine.Decoder(engine.make(name)) for name in ("top_k", "mmr")]


@pytest.fixture(scope="module")
def small():
    """60 documents, and a question about each; what the last one asks for is not there."""
    space, asked, qrels = make_deployment(n=60, d=12, queries_per_document=1)
    return space, asked, engine.Qrels({**qrels.grades, "q59": {"gone": 1}})


@pytest.mark.parametrize(
    ("plan", "stream"),
    every_other(
        [Plan(checkpoints=3), Plan(checkpoints=50, held_out=0.4, measured=4, regret="none")],
        [Stream(), Stream(rounds=7), Stream(order="repeated", rounds=1000)],
    ),
)
def test_a_forecast_holds(small, stream, plan):
    space, asked, qrels = small
    preset = Preset(exposure=2, seed=3)
    told = forecast(
        asked.ids, space.corpus.position, qrels, preset=preset, stream=stream, plan=plan, n_decoders=len(DECODERS)
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
    assert told.estimate_seconds(3.0, told.passes) == pytest.approx(3.0)


def test_what_was_measured_before_a_stop_is_told_again(small, tmp_path):
    space, asked, qrels = small
    file, stop, first, second = tmp_path / "s.npz", threading.Event(), [], []

    def end(checkpoint):
        first.append(checkpoint)
        if len(first) == 3:
            stop.set()

    how = {"plan": Plan(checkpoints=6), "file": file, "k": 5}
    with pytest.raises(engine.Cancelled):
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
    with pytest.raises(engine.Cancelled):
        measured(now, start, asked, qrels, DECODERS, stop=stop)


def test_documents_ask_for_themselves(small):
    space, _, _ = small
    queries, qrels = sample_self_queries(space, 10, seed=4)
    assert len(queries) == 10 == len(qrels) and queries.ids == sample_self_queries(space, 10, seed=4)[0].ids
    ranking = engine.decode(DECODERS[0], space, queries, 1)
    assert [f"{space.corpus.ids[row]}?" for row in ranking.index[:, 0].tolist()] == list(queries.ids)
    assert all(f"{doc_id}?" == query for query in queries.ids for doc_id in qrels.relevant(query))
    assert len(sample_self_queries(space)[0]) == 60
    with pytest.raises(engine.ParamError, match="most"):
        sample_self_queries(space, 0)
    with pytest.raises(engine.ParamError, match="seed"):
        sample_self_queries(space, seed=-1)


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
    longer, times = found.lengthen(span=float(np.ptp(layout.points, axis=0).max()))
    assert times >= 1 and np.array_equal(longer.points[0], found.points[0])
    far = float(np.linalg.norm(found.points[-1] - found.points[0], axis=1).max())
    factors = [found.lengthen(span=room * far, share=1)[1] for room in (0.3, 1.5, 2.5, 7, 23)]
    assert factors == [1, 1, 2, 5, 20]
    went, before = (np.diff(f.points, axis=0) for f in (longer, found))
    assert went == pytest.approx(times * before, rel=1e-3, abs=1e-5)
    assert f"99% by at most {drift.q99:.3f}, the farthest by " in conclusions(drift)[0]
