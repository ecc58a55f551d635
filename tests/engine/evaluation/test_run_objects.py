"""Runs from dictionaries and data frames."""

import numpy as np
import pandas as pd
import pytest

import engine

ROWS = {"qid": ["q1", "q1", "q2"], "docid": ["a", "b", "c"]}
BY_SCORE = pd.DataFrame({**ROWS, "score": [0.1, 0.4, 0.2]})
EXPECTED = {"q1": ("b", "a"), "q2": ("c",)}


@pytest.mark.parametrize(
    "source",
    [
        BY_SCORE,
        pd.DataFrame({**ROWS, "rank": [2, 1, 1], "score": [9.0, 0.0, 0.0]}),
        pd.DataFrame(ROWS).iloc[[1, 0, 2]],
        {"q1": ["b", "a"], "q2": ["c"]},
        {"q1": {"a": 0.1, "b": 0.4}, "q2": {"c": 1}},
        pd.DataFrame(ROWS).iloc[[1, 0, 2]].groupby("qid")["docid"].apply(list),
    ],
    ids=["scores", "ranks before scores", "order of rows", "lists", "scores by document", "grouped"],
)
def test_run_of_any_kind_has_the_best_document_first(source):
    assert engine.load_run(source, "mine").documents == EXPECTED


def test_run_of_a_polars_frame_is_that_of_pandas():
    polars = pytest.importorskip("polars")
    assert engine.load_run(polars.DataFrame(BY_SCORE.to_dict("list"))).documents == EXPECTED


@pytest.mark.deep
def test_frame_of_a_ranking_is_identified_as_its_decoder():
    vectors = np.array([[1.0, 0.0], [0.9, 0.4], [0.8, -0.6], [0.0, 1.0]])
    space = engine.Space.of(list("abcd"), vectors)
    decoder = engine.Decoder(engine.make("mmr", relevance_weight=0.5))
    queries = engine.Embeddings(("q1", "q2"), np.array([[0.9, 0.1], [0.2, 0.9]]))
    frame = engine.decode(decoder, space, queries, k=3).to_frame(space, queries)
    assert engine.identify(frame, space, queries, decoders=[decoder]).best.explained == 1.0


@pytest.mark.parametrize(
    "source,message",
    [
        (BY_SCORE.assign(score="x"), "row 0 of the frame: the score must be a number"),
        (BY_SCORE.drop(columns="qid"), "must have columns of query and document; it has docid, score"),
        (
            BY_SCORE.drop(columns="qid").drop(columns="docid"),
            "Call the column of queries query_id and the column of doc",
        ),
        ([1], "run must be a file, .* got list"),
        ({"q": "a"}, "run must map each query id to a list"),
    ],
)
def test_run_that_cannot_be_read_is_refused(source, message):
    with pytest.raises(engine.DataError, match=message):
        engine.load_run(source)
