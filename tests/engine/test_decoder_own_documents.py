"""Queries that are documents themselves: left out of their own answers, by id and text, and of the figures."""

import numpy as np
import pytest
import torch

import engine
from engine.evaluation.path import compute_weight_path
from engine.evaluation.sweep.sweep import sweep
from engine.space import find_own_documents
from support.instances import problem

N_DOCUMENTS = 60


def make_case(seed=2, family="clustered"):
    """Make a space, and queries of which the first and the third are documents, the fourth only by its id."""
    rows, _ = problem(family, seed, n=N_DOCUMENTS, d=10, batch=1)
    ids = tuple(f"d{number}" for number in range(N_DOCUMENTS))
    corpus = engine.Corpus(ids, tuple(f"text {number}" for number in range(N_DOCUMENTS)), tuple("t" for _ in ids))
    space = engine.Space(corpus, engine.Embeddings(ids, rows), "cpu")
    texts = ("text 3", "text 4", " t text 5 ", "other")
    return rows, space, engine.Embeddings(("d3", "x", "d5", "d9"), rows[[3, 4, 5, 9]], texts=texts)


def select_among_others(stage, rows, row, k, depth=None):
    """Return the rows that a selector picks from a corpus without one row."""
    remaining = np.delete(np.arange(len(rows)), row)
    return remaining[engine.select(stage, rows[remaining], rows[row], k, pool=depth).rows()].tolist()


def test_own_documents_have_id_and_text_of_the_query():
    _, space, queries = make_case()
    assert find_own_documents(space, queries.ids, queries.texts).tolist() == [3, -1, 5, -1]
    assert find_own_documents(space, queries.ids, queries.texts, True).tolist() == [3, -1, 5, 9]
    assert find_own_documents(space, queries.ids, queries.texts, False).tolist() == [-1] * 4
    assert find_own_documents(space, queries.ids, None).tolist() == [-1] * 4
    assert find_own_documents(space, ("d3",), ("  ",)).tolist() == [-1]


@pytest.mark.parametrize("name", engine.methods("selector"))
def test_answer_is_that_of_the_corpus_without_the_document(name):
    rows, space, queries = make_case()
    stage = engine.make(name)
    for depth in (None, 12, N_DOCUMENTS):
        for k in (1, 5, N_DOCUMENTS + 2):
            ranking = engine.decode(engine.Decoder(stage, depth=depth), space, queries, k)
            assert ranking.index.shape == (4, k)
            for b, own_row in ((0, 3), (2, 5)):
                assert ranking.rows(b) == select_among_others(stage, rows, own_row, k, depth)
                assert ranking.info[b]["own_document"] == own_row
                # The most relevant of a pool are those of the corpus, so a selector of these alone has no pool.
                assert ("scope" in ranking.info[b]) == (depth == 12 and stage.reads_vectors)
            for b, row in ((1, 4), (3, 9)):
                assert ranking.rows(b) == engine.select(stage, rows, rows[row], k, pool=depth).rows()
                assert "own_document" not in ranking.info[b]


@pytest.mark.parametrize("name", ["top_k", "mmr"])
def test_rule_can_be_set_to_ids_alone_or_to_none(name):
    rows, space, queries = make_case()
    stage = engine.make(name)
    by_id = engine.decode(engine.Decoder(stage, without_self=True), space, queries, 5)
    kept = engine.decode(engine.Decoder(stage, without_self=False), space, queries, 5)
    assert by_id.rows(3) == select_among_others(stage, rows, 9, 5)
    assert [kept.rows(b)[0] for b in range(4)] == [3, 4, 5, 9]
    assert engine.Decoder(stage, without_self=True).label.endswith(" [without self]")
    with pytest.raises(engine.ParamError, match="without_self must be True, False or None; got 1"):
        engine.Decoder(stage, without_self=1)


def test_reranked_pool_has_the_depth_without_the_document():
    _, space, queries = make_case()
    scorer = engine.make("truncated", dimension=4)
    decoder = engine.Decoder(engine.make("top_k"), rerank=scorer, depth=8)
    ranking = engine.decode(decoder, space, queries, 8)
    assert ranking.returned.tolist() == [8] * 4 and 3 not in ranking.rows(0) and 4 in ranking.rows(1)


@pytest.mark.parametrize("pool", [None, 7])
def test_weights_along_the_path_are_those_of_the_corpus_without_the_document(pool):
    rows, space, queries = make_case()
    for position, own_row, without_self in ((0, 3, None), (3, 9, True)):
        query = queries.take([position])
        path = compute_weight_path(engine.make("nnn"), space, query, pool=pool, without_self=without_self)
        remaining = np.delete(np.arange(len(rows)), own_row)
        expected = engine.weight_path(rows[remaining], rows[own_row], pool=pool)
        assert own_row not in path.members and np.allclose(path.levels, expected.levels, rtol=0, atol=1e-12)
        assert np.array_equal(path.members, remaining[expected.members])


def test_limit_per_source_holds_beside_it():
    rows, space, queries = make_case()
    corpus = engine.Corpus(space.corpus.ids, space.corpus.texts, space.corpus.titles, metadata={"s": ("a", "b") * 30})
    space = engine.Space(corpus, space.embeddings, "cpu")
    ranking = engine.decode(engine.Decoder(engine.make("top_k"), per_source=2, source="s"), space, queries, 9)
    for b, row in ((0, 3), (2, 5)):
        ranked = select_among_others(engine.make("top_k"), rows, row, N_DOCUMENTS)
        expected = sorted([r for r in ranked if r % 2][:2] + [r for r in ranked if r % 2 == 0][:2], key=ranked.index)
        assert ranking.rows(b) == expected


def test_only_document_gives_an_empty_answer():
    corpus = engine.Corpus(("a",), ("text",))
    space = engine.Space(corpus, engine.Embeddings(("a",), [[1.0, 0.0]]), "cpu")
    query = engine.Embeddings(("a",), [[1.0, 0.0]], texts=("text",))
    ranking = engine.decode(engine.Decoder(engine.make("mmr")), space, query, 3)
    assert ranking.rows() == [] and ranking.index.shape == (1, 3)
    (path,) = engine.path("mmr", space, query, 3)
    assert path.at(0.5).rows() == [] and path.rankings.tolist() == [[-1] * 3] and not len(path.breakpoints)
    curve = engine.exact_frontier("mmr", space, query, engine.Qrels({"a": {"a": 1}}), k=3, metrics=("ilad",))
    (cell,) = sweep([engine.Decoder(engine.make("mmr"))], space, query, None, 3, ("ilad",))
    assert curve.at(0.8) == pytest.approx(cell.mean, nan_ok=True)


@pytest.mark.parametrize("name", ["bm25", "random_projection"])
def test_neither_the_document_nor_those_without_a_common_word_come_back_as_near_ties(name):
    rows, _ = problem("clustered", 3, n=20, d=6, batch=1)
    ids = tuple(f"d{number}" for number in range(20))
    # Eight documents share a word with the query; the twelve others, and the query's own, are left out together.
    texts = tuple(f"apple w{number}" if number < 8 else f"pear w{number}" for number in range(20))
    space = engine.Space(engine.Corpus(ids, texts), engine.Embeddings(ids, rows), "cpu")
    queries = engine.Embeddings(("d3", "q"), rows[:2], texts=(texts[3], "apple"))
    for rerank in (None, engine.make("dense")):
        for depth in (None, 4, 7):
            decoder = engine.Decoder(engine.make("top_k"), engine.make(name), rerank, depth)
            ranking = engine.decode(decoder, space, queries, 20)
            size = depth or 7
            assert len(ranking.rows(0)) == size and set(ranking.rows(0)) <= {0, 1, 2, 4, 5, 6, 7}
            assert set(ranking.rows(1)) <= set(range(8))


def test_figures_count_the_document_neither_as_returned_nor_as_relevant():
    rows, space, queries = make_case()
    query = queries.take([0])
    neighbour = select_among_others(engine.make("top_k"), rows, 3, 1)[0]
    qrels = engine.Qrels({"d3": {"d3": 2, f"d{neighbour}": 1}})
    names = ("recall", "ndcg", "mrr")
    by_default = engine.measure(
        engine.decode(engine.Decoder(engine.make("top_k")), space, query, 2), space, query, qrels, 2, names
    )
    assert by_default.mean == {"recall": 1.0, "ndcg": 1.0, "mrr": 1.0}
    # A ranking of another system that has the document at its top.
    foreign = engine.Ranking(torch.tensor([[3, neighbour, 7]]), torch.ones(1, 3), ({},))
    assert engine.measure(foreign, space, query, qrels, 1, names).mean == by_default.mean
    with_self = engine.measure(foreign, space, query, qrels, 1, names, without_self=False)
    assert with_self.mean["recall"] == 0.5
    # Ids alone do not tell, but a ranking that left the document out does.
    ranking = engine.decode(engine.Decoder(engine.make("top_k")), space, query, 2)
    assert engine.measure(ranking, space, ["d3"], qrels, 2, names).mean == by_default.mean
    only_itself = engine.measure(ranking, space, query, engine.Qrels({"d3": {"d3": 1}}), 2, names)
    assert only_itself.left_out == 1


def test_aspects_do_not_count_the_document():
    _, space, queries = make_case()
    query = queries.take([0])
    ranking = engine.decode(engine.Decoder(engine.make("top_k")), space, query, N_DOCUMENTS)
    aspects = {"d3": {"one": frozenset({"d3"}), "two": frozenset({"d7"})}}
    measured = engine.measure(ranking, space, query, None, N_DOCUMENTS, ("s_recall",), aspects)
    assert measured.mean["s_recall"] == 1.0


def test_sweep_and_exact_curve_agree_and_keys_tell_the_rules_apart():
    _, space, queries = make_case()
    qrels = engine.Qrels({"d3": {"d3": 1, "d7": 1}, "d5": {"d8": 1}, "x": {"d1": 1}})
    curve = engine.exact_frontier("mmr", space, queries, qrels, k=5, metrics=("recall", "ilad"))
    for value in (0.0, 0.4, 1.0):
        stage = engine.make("mmr", relevance_weight=value)
        decoders = [engine.Decoder(stage), engine.Decoder(stage, without_self=False)]
        by_default, with_self = sweep(decoders, space, queries, qrels, 5, ("recall", "ilad"))
        assert curve.at(value) == pytest.approx(by_default.mean)
        assert by_default.key != with_self.key and by_default.mean != with_self.mean
    vectors_alone = engine.Embeddings(queries.ids, queries.vectors)
    (unknown,) = sweep(decoders[:1], space, vectors_alone, qrels, 5, ("recall", "ilad"))
    assert unknown.key != by_default.key
