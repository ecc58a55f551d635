"""Variants of a deployment: rerankers, documents that come later, hops, and what they leave as it is."""

import json
from threading import Event as Flag

import numpy as np
import pytest

import engine
from engine import orag
from engine.drift.measures import answers
from engine.simulation.feedback_model import Stream
from engine.simulation.simulate import Plan, forecast, simulate
from engine.simulation.variants import Deployment, select_documents
from support.draws import deepen, every_other
from support.planted import make_deployment

QUIET = Plan(checkpoints=4, regret="none")
LATER = ((0.4, 30), (0.2, 70))
RULES = {
    "default": {},
    "full": {"mode": "full"},
    "batched": {"batch": 7},
    "paper": {"preset": "paper", "rate": 0.003},
}


@pytest.mark.parametrize(("rule", "reranker"), every_other(RULES, ["cosine", "judgements", "dense"]))
def test_draws_and_steps_with_a_reranker_are_those_a_session_would_make(rule, reranker):
    space, queries, qrels = make_deployment(n=15, queries_per_document=4, n_relevant=2)
    found = simulate(space, queries, qrels, plan=QUIET, reranker=reranker, candidates=4, seed=2, **RULES[rule])
    session, trail = found.begun, found.trail
    assert found.variant.list_settings() == {"reranker": found.variant.list_settings()["reranker"], "candidates": 4}
    for at, which in enumerate(trail.query):
        query, right = found.queries[which], found.right[which]
        picker = {
            "cosine": orag.cosine,
            "judgements": orag.oracle(lambda _, right=right: set(right.tolist())),
            "dense": orag.by_scorer(engine.make("dense")),
        }[reranker]
        draw = orag.ask(session, query, 4, picker)
        assert (draw.item, draw.propensity) == (trail.item[at], trail.propensity[at])
        session = orag.feed(session, orag.outcome(session, draw, bool((right == draw.item).any())))
    assert np.array_equal(session.exact, found.final)
    with pytest.raises(engine.ParamError, match=r"no reranker; this one has .* 4 drawn"):
        found.session()


def test_a_better_reranker_is_right_more_often():
    space, queries, qrels = make_deployment(n=40, queries_per_document=6)
    right = {
        name: simulate(space, queries, qrels, plan=QUIET, reranker=name).trail.right.mean()
        for name in (None, "cosine", "judgements")
    }
    assert right["judgements"] > right["cosine"] > right[None]


def test_a_scorer_of_words_picks_by_words():
    space, queries, qrels = make_deployment(n=20, queries_per_document=4)
    words = tuple(f"word{next(iter(qrels.grades[q]))[1:]}" for q in queries.ids)
    asked = engine.Embeddings(queries.ids, queries.vectors, texts=words)
    texts = tuple(f"word{row} text" for row in range(len(space)))
    readable = engine.Space(engine.Corpus(space.corpus.ids, texts), space.embeddings, "cpu")
    found = simulate(readable, asked, qrels, plan=QUIET, reranker="bm25", candidates=20)
    assert found.trail.right.all(), "all are drawn, and the word names the right one"
    with pytest.raises(engine.DataError, match="reads the query's words"):
        simulate(space, queries, qrels, plan=QUIET, reranker="bm25")


@pytest.mark.parametrize("rule", RULES)
def test_all_documents_at_round_0_is_the_static_run_bit_by_bit(rule):
    data = make_deployment(n=20, queries_per_document=6)
    plain = simulate(*data, plan=QUIET, seed=1, **RULES[rule])
    static = simulate(*data, plan=QUIET, seed=1, arrivals=((0.5, 0), (0.5, 0)), newcomers="printed", **RULES[rule])
    assert np.array_equal(plain.final, static.final) and static.inventory.waves == ()
    for name, column in vars(plain.trail).items():
        assert np.array_equal(column, getattr(static.trail, name), equal_nan=column.dtype == float), name
    assert [c.as_json() for c in plain.checkpoints] == [c.as_json() for c in static.checkpoints]
    assert plain.list_settings() == static.list_settings(), "a stopped one goes on as the other"


@pytest.mark.parametrize(("rule", "reranker"), every_other(RULES, [None, "judgements"]))
def test_what_has_not_come_is_neither_drawn_nor_moved_nor_found(rule, reranker):
    space, queries, qrels = make_deployment(n=30, queries_per_document=5)
    start = space.vectors.double().numpy()
    found = simulate(
        space, queries, qrels, plan=Plan(checkpoints=24), arrivals=LATER, reranker=reranker, decoders=DECODERS,
        newcomers="printed", seed=3, **RULES[rule],
    )  # fmt: skip
    (first, one), (second, two) = found.inventory.waves
    assert (first, second) == (30, 70) and (len(one), len(two)) == (12, 6) and not set(one) & set(two)
    for after, rows in ((first, one), (second, two)):
        assert not np.isin(found.trail.item[:after], rows).any() and not np.isin(found.trail.top[:after], rows).any()
        assert np.isin(found.trail.item[after:], rows).any()
        for snapshot in found.snapshots:
            if snapshot.step <= after:
                assert not np.isin(snapshot.rows, rows).any()
        assert (found.final[rows] != start[rows]).any(1).any() or rule == "paper"
    for checkpoint, snapshot in zip(found.checkpoints, found.snapshots, strict=True):
        there = found.inventory.find_available(checkpoint.step)
        assert not set(row for row, _ in checkpoint.drift.movers) & set(np.flatnonzero(~there))
        # What the cells say is what a corpus of those that are there answers.
        rows = np.flatnonzero(there).tolist()
        now = select_documents(
            space.with_embeddings(engine.Embeddings(space.corpus.ids, snapshot.vectors(found.begun.origin))), rows
        )
        part = found.parts[0]
        ranking = engine.decode(DECODERS[1], now, part.queries, 10)
        ndcg = engine.measure(ranking, now, part.queries, part.qrels, 10, ("ndcg",)).mean["ndcg"]
        assert checkpoint.cell(DECODERS[1].label).mean["ndcg"] == pytest.approx(ndcg, abs=1e-12)
    assert found.checkpoints[0].cell().mean["recall"] < found.checkpoints[-1].cell().mean["recall"]


DECODERS = [engine.Decoder(engine.make(name)) for name in ("top_k", "mmr")]


@pytest.mark.parametrize("newcomers", ["neighbours", "printed"])
@pytest.mark.parametrize("rule", ["default", "full"])
def test_a_simulation_with_arrivals_is_a_session_in_which_documents_came(rule, newcomers):
    space, queries, qrels = make_deployment(n=30, queries_per_document=5)
    found = simulate(space, queries, qrels, plan=QUIET, arrivals=LATER, newcomers=newcomers, seed=5, **RULES[rule])
    session = orag.change(found.begun, went=np.flatnonzero(~found.inventory.find_available(0)).tolist())
    for at, which in enumerate(found.trail.query.tolist()):
        query, right = found.queries[which], found.right[which]
        draw = orag.ask(session, query, round=at + 1)
        assert draw.item == found.trail.item[at]
        there = right[session.available[right]]
        assert found.trail.chance[at] == draw.probabilities[there].sum()
        assert np.isnan(found.trail.loss[at]) == (not len(there))
        session = orag.feed(session, orag.outcome(session, draw, bool((right == draw.item).any())))
        if coming := found.inventory.list_arrivals(at + 1):
            before = session
            session = orag.change(session, came=coming, warm=newcomers == "neighbours")
            still = all(np.array_equal(session.row(row), before.row(row)) for row in coming)
            assert still == (newcomers == "printed")
    assert np.array_equal(session.exact, found.final)
    if rule == "default":
        assert np.array_equal(found.session().exact, found.final) and found.session().digest == session.digest


@pytest.mark.parametrize("rule", deepen(["default", "batched", "paper"], ["default"]))
def test_a_stopped_variant_goes_on_as_if_it_had_not_been(tmp_path, rule):
    data, file = make_deployment(n=20, queries_per_document=8), tmp_path / "run.npz"
    how = {
        "plan": Plan(checkpoints=5), "seed": 5, "arrivals": LATER, "reranker": "judgements", "candidates": 3,
        "hops": {f"question {i}": (f"q{i}", f"q{i + 80}") for i in range(80)}, **RULES[rule],
    }  # fmt: skip
    whole = simulate(*data, **how)
    stop = Flag()

    def halt(done, total, label):
        if done >= 60:
            stop.set()

    with pytest.raises(engine.Cancelled):
        simulate(*data, file=file, progress=halt, stop=stop, **how)
    again = simulate(*data, file=file, **how)
    assert np.array_equal(again.final, whole.final) and again.checkpoints == whole.checkpoints
    for name, column in vars(whole.trail).items():
        assert np.array_equal(column, getattr(again.trail, name), equal_nan=column.dtype == float), name
    with pytest.raises(engine.DataError, match=r"another simulation \(reranker, candidates differ\)"):
        simulate(*data, file=file, **{k: v for k, v in how.items() if k not in ("reranker", "candidates")})


def test_regret_with_arrivals_counts_the_rounds_with_a_right_document():
    found = simulate(*make_deployment(n=30, queries_per_document=5), plan=Plan(checkpoints=1), arrivals=LATER)
    gone = np.isnan(found.trail.loss)
    assert gone.any() and not gone[70:].any() and np.isfinite(found.regret.oracle).all()
    assert np.array_equal(gone, np.isnan(found.trail.oracle))
    assert found.regret.oracle[-1] == pytest.approx(np.nansum(found.trail.loss - found.trail.oracle))
    assert "documents come later" in found.regret.doubts[0]
    with pytest.raises(engine.ParamError, match="regret must be 'none' or 'oracle' where documents come later"):
        simulate(*make_deployment(n=30, queries_per_document=5), plan=Plan(regret="hindsight"), arrivals=LATER)
    picked = simulate(
        *make_deployment(n=10, queries_per_document=2),
        plan=Plan(checkpoints=1, regret="hindsight"),
        reranker="judgements",
    )
    assert picked.regret.bounds is None and "10 documents are drawn" in picked.regret.doubts[-1]


HOPS = {f"question {i}": tuple(f"q{i * 4 + j}" for j in reversed(range(4))) for i in range(30)}


def test_hops_come_one_after_the_other_and_a_question_is_held_out_whole():
    space, queries, qrels = make_deployment(n=20, queries_per_document=6)
    found = simulate(space, queries, qrels, plan=QUIET, hops=HOPS, exposure=2)
    named = {row.tobytes(): name for name, row in zip(queries.ids, queries.vectors.numpy(), strict=True)}
    came = [named[found.queries[which].vector.tobytes()] for which in found.trail.query.tolist()]
    questions = [tuple(came[at : at + 4]) for at in range(0, len(came), 4)]
    assert set(questions) < set(HOPS.values()) and len(set(questions)) == 24 and len(questions) == 48
    held = set(found.parts[0].queries.ids)
    assert held == {hop for hops in HOPS.values() if hops not in questions for hop in hops} and len(held) == 24
    told = forecast(
        queries.ids, space.corpus.position, qrels, preset=found.begun.preset, stream=Stream(), plan=QUIET, hops=HOPS
    )
    assert (told.rounds, told.learned, told.held_out) == (len(came), 96, 24)
    expected = found.trail.right.reshape(-1, 4).all(1)
    assert np.array_equal(found.by_question.drawn, expected)
    assert simulate(space, queries, qrels, plan=QUIET).by_question is None


def test_hops_of_one_each_are_queries_bit_by_bit():
    data = make_deployment(n=15, queries_per_document=4)
    for order in ("random", "given", "sorted", "repeated"):
        how = {"plan": QUIET, "stream": Stream(order=order), "exposure": 2}
        alone, single = (simulate(*data, **how, hops=hops) for hops in (None, {q: (q,) for q in data[1].ids}))
        assert np.array_equal(alone.final, single.final) and np.array_equal(alone.trail.query, single.trail.query)


@pytest.mark.parametrize("order", ["random", "given", "sorted", "repeated"])
def test_hops_stay_in_order_in_every_stream(order):
    found = simulate(
        *make_deployment(n=20, queries_per_document=6), plan=QUIET, hops=HOPS, stream=Stream(order=order, rounds=90)
    )
    assert len(found.trail) == 90 and len(found.by_question.drawn) == 22, "the last question is cut off"
    place = {int(row): at for group in found.groups for at, row in enumerate(group)}
    steps = [place[int(query)] for query in found.trail.query]
    assert steps == [at % 4 for at in range(90)]
    if order == "repeated":
        assert len(set(found.trail.query.tolist())) == 4


def test_updates_make_the_stream_as_long_as_it_takes():
    space, queries, qrels = make_deployment(n=10, queries_per_document=5)
    found = simulate(space, queries, qrels, preset="paper", updates=30, plan=QUIET)
    assert len(found.trail) == 300 and found.begun.preset.exposure == 8 and found.begun.preset.name == "paper"
    told = forecast(
        queries.ids, space.corpus.position, qrels, preset=orag.PRESETS["paper"], stream=Stream(), plan=QUIET, updates=30
    )
    assert told.rounds == 300
    with pytest.raises(engine.ParamError, match="updates and rounds both say"):
        simulate(space, queries, qrels, updates=30, stream=Stream(rounds=7))
    with pytest.raises(engine.ParamError, match="updates must be a whole number"):
        simulate(space, queries, qrels, updates=0)


def test_impossible_variants_are_refused():
    for how, said in (
        ({"candidates": 5}, r"candidates \(K\) needs a reranker"),
        ({"reranker": "cosine", "candidates": 1}, r"candidates \(K\) must be a whole number in \[2, ∞\)"),
        ({"reranker": 3}, "reranker must be cosine, judgements, a scorer or None"),
        ({"reranker": "no such"}, "no such"),
        ({"arrivals": ((1.5, 3),)}, "share must be a number in"),
        ({"arrivals": ((0.5, -1),)}, "round must be a whole number"),
        ({"arrivals": ((0.5, 3), (0.6, 3))}, "add up to more"),
        ({"arrivals": (0.5,)}, "arrivals must be pairs"),
        ({"newcomers": "warm"}, r"newcomers \(InitEmbed\) must be one of 'neighbours', 'printed'"),
    ):
        with pytest.raises(engine.ParamError, match=said):
            Deployment.build(**how)
    with pytest.raises(engine.ParamError, match="leave a document to begin with; all 10 come later"):
        Deployment.build(arrivals=((0.5, 3), (0.5, 4))).plan_inventory(10, 0)
    with pytest.raises(engine.DataError, match="'q' has two"):
        _ = Deployment.build(hops={"a": ("q",), "b": ("q",)}).owner


def test_a_larger_share_holds_the_smaller_and_settings_are_plain():
    small, large = (Deployment.build(arrivals=((share, 5),)).plan_inventory(50, 3).waves[0][1] for share in (0.2, 0.6))
    assert set(small) < set(large) and len(large) == 30
    another = Deployment.build(arrivals=((0.2, 5),)).plan_inventory(50, 4).waves[0][1]
    assert set(another) != set(small)
    many = Deployment.build("bm25", arrivals=((0.1, 9), (0.1, 5)), hops={"a": ("q",)})
    waves = many.plan_inventory(50, 3).waves
    assert [after for after, _ in waves] == [5, 9] and all(np.all(np.diff(rows) > 0) for _, rows in waves)
    assert json.loads(json.dumps(many.list_settings())) == many.list_settings()
    assert many.list_settings()["hops"] != Deployment.build(hops={"a": ("r",)}).list_settings()["hops"]


def test_qrels_of_a_question_stay_apart_from_held_out():
    space, queries, qrels = make_deployment(n=20, queries_per_document=6)
    parts = [engine.Qrels({q: g for q, g in qrels.grades.items() if int(q[1:]) % 4 == part}) for part in (0, 1)]
    with pytest.raises(engine.DataError, match="30 are in both"):
        simulate(space, queries, parts[0], held_out=parts[1], plan=QUIET, hops=HOPS)


def test_drift_is_of_those_that_are_there():
    space, queries, qrels = make_deployment(n=30, queries_per_document=5)
    found = simulate(space, queries, qrels, plan=Plan(checkpoints=1, regret="none"), arrivals=((0.5, 10**6),))
    there = np.flatnonzero(found.inventory.find_available(0))
    drift = found.checkpoints[-1].drift
    far = np.linalg.norm((found.final - space.vectors.double().numpy())[there], axis=1)
    assert drift.longest <= 1 + 1e-6 and {row for row, _ in drift.movers} <= set(there.tolist()) and far.max() > 0
    now = found.final[there]
    assert answers(now, found.parts[0].queries.vectors.double()).max() < len(there)


def test_a_part_answers_as_the_corpus_does_without_the_others():
    space, queries, _ = make_deployment(n=30, queries_per_document=1)
    corpus = engine.Corpus(space.corpus.ids, space.corpus.texts, metadata={"kind": tuple(map(str, range(30)))})
    space = engine.Space(corpus, space.embeddings, "cpu")
    rows = list(range(0, 30, 3))
    part = select_documents(space, rows)
    assert part.corpus.metadata["kind"] == tuple(str(row) for row in rows) and part.device == space.device
    whole = engine.decode(engine.Decoder(engine.make("top_k")), space, queries, 30).index.numpy()
    mine = engine.decode(engine.Decoder(engine.make("top_k")), part, queries, 10).index.numpy()
    for all_rows, own in zip(whole, mine, strict=True):
        assert [rows[row] for row in own] == [row for row in all_rows if row in set(rows)]


def test_a_whole_stock_is_the_corpus():
    space, queries, qrels = make_deployment(n=20, queries_per_document=3)
    found = simulate(space, queries, qrels, plan=Plan(checkpoints=1, regret="none"), arrivals=((0.5, 7),))
    assert found.find_stock(7).space is space and found.find_stock(7).rows is None
    assert len(found.find_stock(6).space) == 10 and np.array_equal(
        found.find_stock(6).rows, np.flatnonzero(found.inventory.find_available(0))
    )
