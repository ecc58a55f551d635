"""The trace of a selection, and what a ranking says of itself."""

import numpy as np
import pytest

import engine
from engine.views.decision import describe_trust
from support.instances import problem
from support.rankings import queries_of, space_of

NAMES = engine.methods("selector")


@pytest.mark.parametrize("name", NAMES)
def test_trace_row_has_relevance_nearest_pick_and_score(name):
    rows, queries = problem("clustered", 3, n=40, d=8)
    answer = engine.select(name, rows, queries, k=7)
    trace = engine.trace(answer, rows, queries)
    for b, query in enumerate(queries.astype(np.float64)):
        picks = [pick for pick in answer.index[b].tolist() if pick >= 0]
        assert len(picks) >= 2
        for rank, (pick, pick_trace) in enumerate(zip(picks, trace.rows(b), strict=True)):
            row = rows[pick].astype(np.float64)
            assert (pick_trace["rank"], pick_trace["row"]) == (rank + 1, pick)
            assert pick_trace["relevance"] == pytest.approx(row @ query, abs=1e-12)
            assert pick_trace["score"] == answer.gain[b, rank].item()
            if rank == 0:
                assert pick_trace["nearest"] is None and pick_trace["similarity"] is None
                continue
            earlier_products = {j: rows[j].astype(np.float64) @ row for j in picks[:rank]}
            assert pick_trace["similarity"] == pytest.approx(max(earlier_products.values()), abs=1e-12)
            assert earlier_products[pick_trace["nearest"]] == pytest.approx(max(earlier_products.values()), abs=1e-12)


def test_trace_terms_sum_to_mmr_score():
    rows, queries = problem("random", 1, n=30, d=6, dtype=np.float64)
    trace = engine.trace(engine.select("mmr", rows, queries, k=6, relevance_weight=0.7), rows, queries)
    for pick_trace in trace.rows(1)[1:]:
        assert pick_trace["score"] == pytest.approx(
            0.7 * pick_trace["relevance"] - 0.3 * pick_trace["similarity"], abs=1e-12
        )


def test_trace_omits_pads_and_accepts_a_space():
    rows, queries = problem("random", 2, n=4, d=5)
    answer = engine.select("mmr", rows, queries[0], k=9)
    trace = engine.trace(answer, rows, queries[0])
    assert len(trace.rows()) == 4 and trace.nearest[0, 4:].tolist() == [-1] * 5
    assert (trace.relevance[0, 4:] == 0).all() and (trace.similarity[0, 4:] == 0).all()
    space, query_block = space_of(rows), queries_of(queries[:1])
    again = engine.trace(engine.decode(engine.Decoder(engine.make("mmr")), space, query_block, k=9), space, query_block)
    assert again.rows() == trace.rows()


@pytest.mark.parametrize(
    "change,message",
    [
        (dict(ranking="mmr"), "ranking must be a Ranking"),
        (dict(queries=np.ones((2, 3))), "queries must be those of the ranking: 3 of dimension 5; got shape .2, 3."),
        (dict(space=np.eye(5)[:1]), "the ranking holds row [1-9]+, of 1 vector"),
        (dict(space=np.full((20, 5), np.nan)), "vectors must be finite"),
    ],
)
def test_trace_of_mismatched_ranking_raises_param_error(change, message):
    rows, queries = problem("random", 2, n=20, d=5)
    options = dict(ranking=engine.select("top_k", rows, queries, k=4), space=rows, queries=queries) | change
    with pytest.raises(engine.FrontierError, match=message):
        engine.trace(**options)


def test_ranking_trust_note_names_its_scope():
    rows, queries = problem("clustered", 1, n=3000, d=24)
    notes = {
        name: describe_trust(engine.select(name, rows, queries[0], k=5).info[0])
        for name in ("mmr", "frank_wolfe", "facility_location")
    }
    assert notes["mmr"].startswith("Exact (proved from ") and notes["mmr"].endswith(" candidates)")
    assert notes["frank_wolfe"].startswith("Locally optimal after ")
    assert notes["facility_location"].startswith("Only the 1,000 most relevant were considered")
    flat = np.repeat(np.eye(3, 24), 50, axis=0)
    past = describe_trust(engine.select("dpp", flat, queries[0], k=5).info[0])
    assert "From rank 4 on by relevance alone" in past
    assert describe_trust({}) == ""
