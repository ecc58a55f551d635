"""Simulations: learning helps and can be seen to, a simulation is a session, and one that stops goes on."""

import json
from threading import Event as Flag

import numpy as np
import pytest

import engine
from engine import orag
from engine.data.degrade import shortened
from engine.drift.round_metrics import HELD_OUT, STREAM, RoundMetrics
from engine.errors import Cancelled
from engine.simulation.feedback_model import Stream
from engine.simulation.simulate import Plan, simulate
from engine.values import Qrels
from support.parameters import invalid_values
from support.planted import planted

FAST = Plan(checkpoints=2, regret="none")
FULL = {"mode": "full"}


def held_out(found, metric="ndcg", at=-1):
    return found.checkpoints[at].cell().mean[metric]


def test_learning_raises_held_out_ndcg_on_a_clean_stream_over_five_seeds():
    gains = []
    for seed in range(5):
        found = simulate(*planted(seed), plan=FAST, seed=seed)
        gains.append(held_out(found) - held_out(found, at=0))
    assert min(gains) > 0 and np.mean(gains) > 0.03, gains


def test_a_rate_of_nothing_changes_nothing():
    space, queries, qrels = planted()
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
    found = simulate(*planted(right=2), preset=preset, plan=plan, stream=stream, seed=3)
    session = found.begun
    for event in found.events:
        session = orag.feed(session, event)
    assert np.array_equal(session.exact, found.final)
    assert np.array_equal(found.session().exact, found.final)
    assert session.embeddings() == found.embeddings()


@pytest.mark.parametrize("rule", ["chosen", "full", "paper", "oracle"])
def test_draws_and_steps_are_those_a_session_would_make(rule):
    space, queries, qrels = planted(n=12, each=5)
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
    a, b, c = (simulate(*planted(), plan=FAST, seed=seed) for seed in (1, 1, 2))
    assert np.array_equal(a.final, b.final) and a.checkpoints == b.checkpoints
    assert not np.array_equal(a.final, c.final)


def test_wrong_feedback_costs_and_the_truth_is_worth_most():
    def gain(**how):
        stream = how.pop("stream", Stream())
        plan = Plan(checkpoints=1, regret="none", **how)
        found = [simulate(*planted(seed), plan=plan, stream=stream, seed=seed) for seed in range(3)]
        return np.mean([held_out(f) - held_out(f, at=0) for f in found])

    clean = gain()
    assert gain(learner="oracle") > clean > gain(stream=Stream(flips=0.3))
    assert clean > gain(stream=Stream(adversary=0.5)) and clean > gain(stream=Stream(popularity=0.9))


def test_every_decoder_is_measured_on_every_part_and_group():
    decoders = [engine.Decoder(engine.make("top_k")), engine.Decoder(engine.make("mmr", relevance_weight=0.5))]
    space, queries, qrels = planted()
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
    space, queries, qrels = planted()
    found = simulate(space, queries, qrels, plan=FAST)
    assert len(apart(found, queries)) == 80 and len(found.queries) == 320
    own = Qrels({q: g for q, g in qrels.grades.items() if int(q[1:]) % 4 == 0})
    rest = Qrels({q: g for q, g in qrels.grades.items() if int(q[1:]) % 4})
    found = simulate(space, queries, rest, held_out=own, plan=FAST)
    assert apart(found, queries) == set(own.grades)
    with pytest.raises(engine.DataError, match="held_out must be of other queries than the stream's; 100 are in both"):
        simulate(space, queries, qrels, held_out=own)


def test_queries_without_a_right_document_are_left_out_and_counted():
    space, queries, qrels = planted()
    some = dict(qrels.grades) | {"q0": {}, "q7": {"nowhere": 1}}
    assert simulate(space, queries, Qrels(some), plan=FAST, stream=Stream(rounds=5)).left_out == 2


def test_more_exposure_shows_every_query_more_often():
    found = simulate(*planted(n=10), plan=FAST, exposure=3)
    assert np.bincount(found.trail.query).tolist() == [3] * 80


@pytest.mark.parametrize("preset,more", [("default", {}), ("paper", {"rate": 0.003, "batch": 7})])
def test_a_stopped_simulation_goes_on_as_if_it_had_not_been(tmp_path, preset, more):
    data, file = planted(n=20), tmp_path / "run.npz"
    plan = Plan(checkpoints=4)
    how = {"preset": preset, "plan": plan, "seed": 5, "stream": Stream(flips=0.1), **more}
    whole = simulate(*data, **how)
    stop = Flag()

    def seen(done, total, label):
        if done >= 70:
            stop.set()

    with pytest.raises(Cancelled, match=r"stopped after 96 of 160 rounds; .*run.npz holds them"):
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
    data, file = planted(n=10, each=4), tmp_path / "run.npz"
    simulate(*data, plan=FAST, file=file)
    with pytest.raises(engine.DataError, match=r"holds another simulation \(preset differ\)"):
        simulate(*data, plan=FAST, file=file, rate=0.01)
    with pytest.raises(engine.DataError, match=r"holds another simulation \(embeddings, queries differ\)"):
        simulate(*planted(1, n=10, each=4), plan=FAST, file=file)
    file.write_bytes(file.read_bytes()[:100])
    with pytest.raises(engine.DataError, match="is not the file of a simulation"):
        simulate(*data, plan=FAST, file=file)


def test_progress_never_falls_and_ends_at_the_end():
    calls = []
    simulate(*planted(n=10), plan=FAST, progress=lambda done, total, label: calls.append((done, total, label)))
    assert [c[0] for c in calls] == sorted(c[0] for c in calls)
    assert calls[0] == (0, 80, "simulating") and calls[-1] == (80, 80, "simulating")


def test_snapshots_are_the_embeddings_at_the_checkpoints():
    space, queries, qrels = planted()
    found = simulate(space, queries, qrels, plan=Plan(checkpoints=4, regret="none"))
    assert [s.step for s in found.snapshots] == [c.step for c in found.checkpoints] == [0, 80, 160, 240, 320]
    for snapshot in found.snapshots:
        there = orag.replay(found.begun, found.events[: snapshot.step])
        assert np.array_equal(snapshot.vectors(found.begun.origin), there.vectors)


def test_a_checkpoint_survives_json():
    for point in simulate(*planted(n=10, each=4), plan=Plan(checkpoints=1)).checkpoints:
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
    cut = shortened(corpus, 3)
    assert cut.titles == ("A title", "B", "") and cut.texts == ("one", "", "x\ny z") and cut.ids == corpus.ids
    assert shortened(corpus, 1).passages == ("A", "B", "x")
    assert shortened(corpus, 99) == corpus and shortened(corpus, None) is corpus
    with pytest.raises(engine.ParamError, match="words must be a whole number in"):
        shortened(corpus, 0)
