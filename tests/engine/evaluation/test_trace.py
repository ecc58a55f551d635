"""The trace of a selection, and what a ranking says of itself."""

import numpy as np
import pytest

import engine
from engine.views.decision import describe_trust
from support.instances import problem
from support.rankings import queries_of, space_of

NAMES = engine.methods("selector")


@pytest.mark.parametrize("name", NAMES)
def test_every_pick_has_its_relevance_its_nearest_and_its_score(name):
    rows, queries = problem("clustered", 3, n=40, d=8)
    answer = engine.select(name, rows, queries, k=7)
    told = engine.trace(answer, rows, queries)
    for b, query in enumerate(queries.astype(np.float64)):
        picks = [pick for pick in answer.index[b].tolist() if pick >= 0]
        assert len(picks) >= 2
        for rank, (pick, said) in enumerate(zip(picks, told.rows(b), strict=True)):
            row = rows[pick].astype(np.float64)
            assert (said["rank"], said["row"]) == (rank + 1, pick)
            assert said["relevance"] == pytest.approx(row @ query, abs=1e-12)
            assert said["score"] == answer.gain[b, rank].item()
            if rank == 0:
                assert said["nearest"] is None and said["similarity"] is None
                continue
            before = {j: rows[j].astype(np.float64) @ row for j in picks[:rank]}
            assert said["similarity"] == pytest.approx(max(before.values()), abs=1e-12)
            assert before[said["nearest"]] == pytest.approx(max(before.values()), abs=1e-12)


def test_the_trace_explains_mmrs_score():
    rows, queries = problem("random", 1, n=30, d=6, dtype=np.float64)
    told = engine.trace(engine.select("mmr", rows, queries, k=6, relevance_weight=0.7), rows, queries)
    for said in told.rows(1)[1:]:
        assert said["score"] == pytest.approx(0.7 * said["relevance"] - 0.3 * said["similarity"], abs=1e-12)


def test_pads_are_left_out_and_a_space_does_as_well_as_an_array():
    rows, queries = problem("random", 2, n=4, d=5)
    answer = engine.select("mmr", rows, queries[0], k=9)
    told = engine.trace(answer, rows, queries[0])
    assert len(told.rows()) == 4 and told.nearest[0, 4:].tolist() == [-1] * 5
    assert (told.relevance[0, 4:] == 0).all() and (told.similarity[0, 4:] == 0).all()
    space, asked = space_of(rows), queries_of(queries[:1])
    again = engine.trace(engine.decode(engine.Decoder(engine.make("mmr")), space, asked, k=9), space, asked)
    assert again.rows() == told.rows()


@pytest.mark.parametrize(
    "change,message",
    [
        (dict(ranking="mmr"), "ranking must be a Ranking"),
        (dict(queries=np.ones((2, 3))), "queries must be those of the ranking: 3 of dimension 5; got shape .2, 3."),
        (dict(space=np.eye(5)[:1]), "the ranking holds row [1-9]+, but there are 1 vectors"),
        (dict(space=np.full((20, 5), np.nan)), "vectors must be finite"),
    ],
)
def test_what_does_not_fit_is_refused(change, message):
    rows, queries = problem("random", 2, n=20, d=5)
    given = dict(ranking=engine.select("top_k", rows, queries, k=4), space=rows, queries=queries) | change
    with pytest.raises(engine.FrontierError, match=message):
        engine.trace(**given)


def test_a_ranking_says_how_far_it_can_be_trusted():
    rows, queries = problem("clustered", 1, n=3000, d=24)
    said = {
        name: describe_trust(engine.select(name, rows, queries[0], k=5).info[0])
        for name in ("mmr", "frank_wolfe", "facility_location")
    }
    assert said["mmr"].startswith("Exact (proved from ") and said["mmr"].endswith(" candidates)")
    assert said["frank_wolfe"].startswith("Locally optimal after ")
    assert said["facility_location"].startswith("Only the 1,000 most relevant were considered")
    flat = np.repeat(np.eye(3, 24), 50, axis=0)
    past = describe_trust(engine.select("dpp", flat, queries[0], k=5).info[0])
    assert "From rank 4 on by relevance alone" in past
    assert describe_trust({}) == ""
