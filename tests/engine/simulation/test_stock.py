"""A part of the documents as a space of its own."""

import numpy as np

import engine
from engine.simulation.simulate import Plan, simulate
from engine.simulation.stock import part_of
from support.planted import planted


def test_a_part_answers_as_the_corpus_does_without_the_others():
    space, queries, _ = planted(n=30, each=1)
    corpus = engine.Corpus(space.corpus.ids, space.corpus.texts, metadata={"kind": tuple(map(str, range(30)))})
    space = engine.Space(corpus, space.embeddings, "cpu")
    rows = list(range(0, 30, 3))
    part = part_of(space, rows)
    assert part.corpus.metadata["kind"] == tuple(str(row) for row in rows) and part.device == space.device
    whole = engine.decode(engine.Decoder(engine.make("top_k")), space, queries, 30).index.numpy()
    mine = engine.decode(engine.Decoder(engine.make("top_k")), part, queries, 10).index.numpy()
    for all_rows, own in zip(whole, mine, strict=True):
        assert [rows[row] for row in own] == [row for row in all_rows if row in set(rows)]


def test_a_whole_stock_is_the_corpus():
    space, queries, qrels = planted(n=20, each=3)
    found = simulate(space, queries, qrels, plan=Plan(checkpoints=1, regret="none"), arrivals=((0.5, 7),))
    assert found.stock(7).space is space and found.stock(7).rows is None
    assert len(found.stock(6).space) == 10 and np.array_equal(
        found.stock(6).rows, np.flatnonzero(found.inventory.arrived(0))
    )
