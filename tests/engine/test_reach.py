"""Reach: what is proven of a corpus in a vector engine is so of all its documents, under attack too."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch

import engine
import engine.reach
import engine.remote_certificate
from engine.candidates import Candidates
from engine.data.stores.arrays import ArrayStore
from engine.data.stores.recall import MeasuredRecall
from engine.data.stores.results import is_unit
from engine.data.stores.store import VectorStore
from engine.matrix import Matrix, products
from engine.reach import Reach
from engine.views.decision import describe_trust
from support.draws import deepen, every_other
from support.instances import FAMILIES, problem, unit
from support.reaches import K, LossyStore, compare_with_full_corpus, corpus, decoder

DECODERS = [
    ("top_k", {}),
    *[(name, {"relevance_weight": w}) for name in ("mmr", "dpp", "ssd") for w in (1.0, 0.8, 0.5, 0.0)],
    ("mmr", {"relevance_weight": 0.6, "window": 2}),
    ("dpp", {"relevance_weight": 0.6, "window": 2}),
    ("max_sum", {"relevance_weight": 0.5, "polish": False}),
    ("nnn", {"l1": 0.1, "l2": 0.1}),
    ("nnn", {"l1": 0.05, "l2": 0.0}),
    ("nnn", {"l1": 0.1, "l2": 0.1, "fill": "fill"}),
    ("nnn", {"l1": 0.3, "l2": 0.1, "scale": "relative"}),
    ("facility_location", {"relevance_weight": 0.5, "ground_set": 60}),
]
SETS = [(name, {"relevance_weight": w}) for name in ("max_sum", "frank_wolfe") for w in (0.8, 0.5)]


def answers(family, name, params, seed=0, n=1200, d=12, k=K, batch=4):
    """(ids of the whole corpus's answers, the reach's ranking, rows, queries)."""
    rows, queries = problem(family, seed, n=n, d=d, batch=batch)
    ids, space = corpus(rows)
    expected = engine.decode(decoder(name, params), space, queries, k)
    answer = engine.decode(decoder(name, params), Reach(ArrayStore(ids, rows), exact=True), queries, k)
    return [[ids[row] for row in expected.rows(q)] for q in range(len(queries))], answer, rows, queries


@pytest.mark.parametrize(("family", "name", "params"), every_other(FAMILIES, DECODERS, step=4), ids=str)
def test_proven_answer_is_that_of_the_whole_corpus(small_pools, family, name, params):
    full, answer, _, _ = answers(family, name, params, batch=2)
    for expected, info in zip(full, answer.info, strict=True):
        assert info["scope"] in ("proven", "pool")
        if info["scope"] == "proven":
            assert list(info["ids"]) == expected and info["open"] == 0
        else:
            # What is proven of the picks before the first open one holds too.
            sure = len(info["ids"]) - info["open"]
            assert info["open"] > 0 and list(info["ids"][:sure]) == expected[:sure]


@pytest.mark.parametrize(
    ("family", "name", "params"),
    every_other(["random", "clustered"], [d for d in DECODERS if d[1].get("relevance_weight") != 0.0], step=4),
    ids=str,
)
def test_most_answers_are_proven_of_ordinary_corpora(small_pools, family, name, params):
    _, answer, rows, _ = answers(family, name, params, n=1400, d=64)
    assert sum(info["scope"] == "proven" for info in answer.info) >= 3
    assert all(info["rows"] < len(rows) for info in answer.info)


@pytest.mark.parametrize(("family", "name", "params"), every_other(FAMILIES, SETS, step=4), ids=str)
def test_no_swap_with_any_document_improves_a_proven_set(small_pools, family, name, params):
    _, answer, rows, queries = answers(family, name, params)
    weight, u = params["relevance_weight"], rows.astype(np.float64)
    for query, info in zip(queries.astype(np.float64), answer.info, strict=True):
        if info["scope"] != "proven":
            continue
        chosen = [int(name[1:]) for name in info["ids"]]
        total = u[chosen].sum(0)
        for i in chosen:
            field = weight * (K - 1) * (u @ query) - 2 * (1 - weight) * (u @ (total - u[i]))
            gains = field - field[i]
            gains[chosen] = -np.inf
            assert gains.max() <= 1e-6 * max(1.0, (np.linalg.norm(u, axis=1).max()) ** 2 * K)


@pytest.mark.parametrize(("l1", "l2"), [(0.1, 0.1), (0.05, 0.0), (0.01, 0.01)])
def test_proven_weights_are_optimal_over_all_documents(small_pools, l1, l2):
    _, answer, rows, queries = answers("clustered", "nnn", {"l1": l1, "l2": l2}, n=4000, d=64, k=200)
    u = rows.astype(np.float64)
    proven = 0
    for q, (query, info) in enumerate(zip(queries.astype(np.float64), answer.info, strict=True)):
        if info["scope"] != "proven":
            continue
        proven += 1
        chosen = [int(name[1:]) for name in info["ids"]]
        weights = answer.gain[q, : len(chosen)].numpy()
        violation = u @ (query - weights @ u[chosen]) - l1
        violation[chosen] -= l2 * weights
        assert violation.max() <= 1e-6
    assert proven >= 3


@pytest.mark.parametrize(
    ("name", "family"), every_other(engine.methods("selector"), ["random", "clustered", "duplicated"])
)
def test_answer_whose_questions_are_all_no_is_that_of_the_whole_corpus(name, family):
    """A law of every selector's questions, over pools that are parts of a corpus."""
    stage = engine.make(name, **({"ground_set": 30} if name == "facility_location" else {}))
    rows, queries = problem(family, 3, n=300, d=10, batch=3)
    decided = refused = 0
    for query in torch.from_numpy(queries):
        order = np.argsort(-(rows @ query.numpy()), kind="stable")
        for size in (12, 120, 290):
            pool = np.sort(order[:size])
            outside = np.setdiff1d(np.arange(len(rows)), pool)
            part, full = (_candidates(rows[indices], query) for indices in (pool, np.arange(len(rows))))
            part.matrix.max_norm = full.matrix.max_norm
            ranking = type(stage).select_grid([stage], part, K)[0]
            questions = stage.questions(part, ranking)
            if questions is None:
                refused += 1
                continue
            scores = [(rows[outside].astype(np.float64) @ point).max() for point, _ in questions]
            # A little under the limit: at equality a tie might have gone the other way.
            if any(score >= limit - 1e-7 for score, (_, limit) in zip(scores, questions, strict=True)):
                continue
            decided += 1
            expected = type(stage).select_grid([stage], full, K)[0]
            if name not in ("max_sum", "frank_wolfe"):
                assert [pool[row] for row in ranking.rows()] == expected.rows()
    assert decided or refused or family == "duplicated"


def _candidates(rows, query):
    matrix = Matrix(torch.from_numpy(np.ascontiguousarray(rows)), cached=True)
    points = query.unsqueeze(0)
    return Candidates(matrix.vectors, products(matrix.vectors, points), points, matrix)


LOSSY_DECODERS = [*DECODERS[:8], *DECODERS[13:16]]
DEEP_LOSSY_DECODERS = [*DECODERS[1:3], *DECODERS[4:8], DECODERS[13]]


@pytest.mark.parametrize(("name", "params"), deepen(LOSSY_DECODERS, DEEP_LOSSY_DECODERS))
def test_index_proves_nothing_and_a_proof_mends_its_answer(small_pools, name, params):
    rows, queries = problem("clustered", 1, n=1400, d=48, batch=3)
    ids, space = corpus(rows)
    chosen = decoder(name, params)
    full = engine.decode(chosen, space, queries, K)
    reach = Reach(LossyStore(ids, rows))
    by_index = engine.decode(chosen, reach, queries, K)
    proved = reach.prove(chosen, queries, K)
    wrong = 0
    for q, (facts, proof) in enumerate(zip(by_index.info, proved.info, strict=True)):
        expected = [ids[row] for row in full.rows(q)]
        assert facts["scope"] != "proven" and facts["open"] == len(facts["ids"])
        wrong += list(facts["ids"]) != expected
        assert proof["scans"] <= engine.remote_certificate.MAX_QUESTION_ROUNDS
        if proof["scope"] == "proven":
            assert list(proof["ids"]) == expected
    assert wrong, "the index found everything: nothing is shown"
    assert sum(proof["scope"] == "proven" for proof in proved.info) >= 2


def test_answer_names_documents_of_a_space_that_grows_at_its_end():
    rows, queries = problem("clustered", 2, n=3000, d=32, batch=2)
    ids, _ = corpus(rows)
    reach = Reach(ArrayStore(ids, rows, [f"text of {name}" for name in ids]), exact=True)
    first = engine.decode(decoder("mmr", {"relevance_weight": 0.7}), reach, queries[:1], K)
    old_space = reach.space
    engine.decode(decoder("mmr", {"relevance_weight": 0.5}), reach, queries[1:], K)
    after = reach.space
    assert len(after) > len(old_space) >= engine.reach.INITIAL_POOL_SIZE
    assert after.corpus.ids[: len(old_space)] == old_space.corpus.ids
    named = [after.corpus.ids[row] for row in first.rows()]
    assert named == list(first.info[0]["ids"])
    assert [after.corpus.texts[row] for row in first.rows()] == [f"text of {name}" for name in named]
    assert torch.equal(after.vectors[first.rows()], torch.from_numpy(rows[[int(name[1:]) for name in named]]))
    measured = engine.measure(first, after, engine.Embeddings(("0",), queries[:1]), None, K, ("ilad",))
    chosen = unit(rows[[int(name[1:]) for name in named]].astype(np.float64))
    pairs = (chosen @ chosen.T)[np.triu_indices(K, 1)]
    assert measured.mean["ilad"] == pytest.approx((1 - pairs).mean())


def test_second_answer_to_one_query_needs_no_trip_for_its_pool():
    rows, queries = problem("clustered", 2, n=3000, d=32, batch=1)
    ids, _ = corpus(rows)
    reach = Reach(ArrayStore(ids, rows), exact=True)
    chosen = decoder("top_k", {})
    assert [engine.decode(chosen, reach, queries, K).info[0]["trips"] for _ in range(2)] == [1, 0]


@pytest.mark.deep
def test_answer_does_not_depend_on_what_was_asked_before(small_pools):
    rows, queries = problem("clustered", 4, n=1200, d=24, batch=3)
    ids, _ = corpus(rows)
    used, unused = (Reach(ArrayStore(ids, rows), exact=True) for _ in range(2))
    chosen = decoder("mmr", {"relevance_weight": 0.3})
    for weight in (0.9, 0.5, 0.1):
        engine.decode(decoder("dpp", {"relevance_weight": weight}), used, queries, K)
    facts = [
        [info[name] for name in ("ids", "scope", "open", "rows")]
        for info in engine.decode(chosen, used, queries, K).info
    ]
    alone = [engine.decode(chosen, unused, query[None], K).info[0] for query in queries]
    assert facts == [[info[name] for name in ("ids", "scope", "open", "rows")] for info in alone]


def test_changed_store_is_asked_anew():
    rows, queries = problem("clustered", 2, n=1200, d=32, batch=1)
    ids, _ = corpus(rows)
    store = ArrayStore(ids, rows)
    reach = Reach(store, exact=True)
    chosen = decoder("top_k", {})
    engine.decode(chosen, reach, queries, 1)
    first = engine.decode(chosen, reach, queries, 1)
    best = int(first.info[0]["ids"][0][1:])
    store.vectors = rows.copy()
    store.vectors[best] = -rows[best]
    store.version = "second"
    again = engine.decode(chosen, reach, queries, 1)
    assert again.info[0]["ids"] != (ids[best],)
    assert reach.space.corpus.ids[again.rows()[0]] == again.info[0]["ids"][0]
    with pytest.raises(engine.DataError, match="changed while asked"):
        engine.measure(first, reach, ("0",), None, 1, ("ilad",))


def test_rows_that_change_between_questions_are_refused(small_pools):
    rows, queries = problem("clustered", 2, n=3000, d=32, batch=1)
    ids, _ = corpus(rows)

    class Restless(ArrayStore):
        calls = 0

        def _search(self, points, sizes, exact, where):
            self.calls += 1
            if self.calls == 2:
                self.vectors = 0.999 * self.vectors
            return super()._search(points, sizes, exact, where)

    with pytest.raises(engine.DataError, match="changed while asked"):
        engine.decode(decoder("nnn", {"l1": 0.05, "l2": 0.1}), Reach(Restless(ids, rows), exact=True), queries, K)


def test_depth_is_a_pool_and_says_so():
    rows, queries = problem("clustered", 2, n=3000, d=32, batch=3)
    ids, space = corpus(rows)
    chosen = engine.Decoder(engine.make("mmr", relevance_weight=0.4), depth=50)
    expected = engine.decode(chosen, space, queries, K)
    answer = engine.decode(chosen, Reach(ArrayStore(ids, rows), exact=True), queries, K)
    for q, info in enumerate(answer.info):
        assert list(info["ids"]) == [ids[row] for row in expected.rows(q)]
        for facts in (info, expected.info[q]):
            assert facts["scope"] == "pool" and facts["depth"] == 50
            assert describe_trust(facts).startswith("Of the 50 most relevant documents only")
            assert "Exact" not in describe_trust(facts)


def test_reranker_scores_the_depth_by_its_texts():
    rows, queries = problem("clustered", 2, n=1500, d=32, batch=1)
    ids = tuple(f"d{row}" for row in range(len(rows)))
    texts = ["word " * (row % 7) + "other" for row in range(len(rows))]
    space = engine.Space(engine.Corpus(ids, texts), engine.Embeddings(ids, rows))
    chosen = engine.Decoder(engine.make("top_k"), rerank=engine.make("max_sim"), depth=40)
    with pytest.raises(engine.DataError, match="max_sim"):
        engine.decode(engine.Decoder(engine.make("top_k"), retrieve=engine.make("max_sim")), _reach(space), queries)
    with pytest.raises(engine.DataError, match=r"bm25.*whole corpus"):
        engine.decode(
            engine.Decoder(engine.make("top_k"), rerank=engine.make("bm25"), depth=40), _reach(space), queries
        )
    with pytest.raises(engine.ParamError, match="depth="):
        engine.decode(engine.Decoder(engine.make("top_k"), rerank=engine.make("max_sim")), _reach(space), queries)
    assert chosen.depth == 40


def _reach(space):
    return Reach(ArrayStore(space.corpus.ids, space.vectors.numpy(), space.corpus.texts), exact=True)


def test_store_smaller_than_a_pool_is_all_here():
    rows, queries = problem("random", 2, n=30, d=8, batch=2)
    ids, space = corpus(rows)
    for name in engine.methods("selector"):
        answer = engine.decode(decoder(name, {}), Reach(ArrayStore(ids, rows), exact=True), queries, 40)
        expected = engine.decode(decoder(name, {}), space, queries, 40)
        assert [list(info["ids"]) for info in answer.info] == [[ids[r] for r in expected.rows(q)] for q in range(2)]
        assert answer.index.shape == (2, 40)
        assert all(info["scope"] == "proven" for info in answer.info), name


def test_filter_counts_only_what_matches():
    rows, queries = problem("clustered", 2, n=2000, d=16, batch=2)
    ids, _ = corpus(rows)
    kinds = ["a" if row % 5 == 0 else "b" for row in range(len(rows))]
    reach = Reach(ArrayStore(ids, rows, columns={"kind": kinds}), where={"kind": ["a"]}, exact=True)
    chosen = [row for row, kind in enumerate(kinds) if kind == "a"]
    part = tuple(ids[row] for row in chosen)
    space = engine.Space(engine.Corpus(part, ("",) * len(part)), engine.Embeddings(part, rows[chosen]))
    for name in ("top_k", "mmr", "nnn"):
        answer = engine.decode(decoder(name, {}), reach, queries, K)
        expected = engine.decode(decoder(name, {}), space, queries, K)
        assert [list(info["ids"]) for info in answer.info] == [[part[r] for r in expected.rows(q)] for q in range(2)]


@pytest.mark.parametrize(
    ("info", "words"),
    [
        ({"scope": "proven", "open": 0}, "Proven for all 9,000 documents, from 620"),
        ({"scope": "engine", "open": 3}, "Unproven: the engine's index found nothing better among 9,000 documents"),
        ({"scope": "pool", "open": 1}, "2 of 3 picks proven for all 9,000 documents, the rest of 620 documents only"),
        ({"scope": "pool", "open": 3}, "Unproven: of the 620 documents that came back, of 9,000"),
    ],
)
def test_trust_says_of_which_documents(info, words):
    facts = {"ids": ("a", "b", "c"), "documents": 9000, "rows": 620, "certified": True, **info}
    assert describe_trust(facts).startswith(words)


def test_no_documents_is_refused():
    class Empty(ArrayStore):
        def ref_of(self, where):
            return replace(super().ref_of(where), count=0)

    with pytest.raises(engine.DataError, match="holds no documents"):
        Reach(Empty(("a",), np.ones((1, 2), np.float32)))


def test_what_a_scan_found_is_not_quoted_of_the_index(monkeypatch):
    rows, queries = problem("clustered", 1, n=700, d=16, batch=1)
    ids, _ = corpus(rows)
    store = ArrayStore(ids, rows)
    fields = {
        "collection": "a/b",
        "ef": 40,
        "n": 500,
        "queries": 0.9,
        "residuals": 0.8,
        "asked": 5,
        "plan": "",
        "date": "",
    }
    for sequential, expected in ((False, (0.9, 0.8)), (True, None)):
        measured = MeasuredRecall(**fields, sequential=sequential, digest=store.ref.digest)
        monkeypatch.setattr(engine.reach, "measured_recall", lambda _, measured=measured: measured)
        assert engine.decode(decoder("top_k", {}), Reach(store), queries, 3).info[0]["recall"] == expected


def test_more_picks_than_documents_are_all_of_them_without_a_question():
    rows, queries = problem("clustered", 1, n=700, d=16, batch=1)
    ids, _ = corpus(rows)
    reach = Reach(ArrayStore(ids, rows), exact=True)
    info = engine.decode(decoder("mmr", {"relevance_weight": 0.5}), reach, queries, 900).info[0]
    assert len(info["ids"]) == 700 and (info["scope"], info["questions"], info["trips"]) == ("proven", 0, 1)
    assert repr(reach) == "Reach(arrays/corpus: 700 documents)"


def test_text_is_refused_where_no_encoder_is_named_with_the_line_that_names_one():
    rows, _ = problem("clustered", 1, n=700, d=16, batch=1)
    reach = Reach(ArrayStore(corpus(rows)[0], rows))
    with pytest.raises(engine.DataError, match=r'encoder = "bundled".*stores\.toml'):
        engine.decode(decoder("top_k", {}), reach, ["a text"], 3)


ATTACKED = [("mmr", {}), ("ssd", {}), ("dpp", {}), ("nnn", {}), ("max_sum", {"polish": False})]


@pytest.mark.parametrize(("name", "params"), ATTACKED, ids=str)
def test_queries_are_scaled_as_all_documents_have_it_not_as_two_of_them(small_pools, name, params):
    rows, queries = problem("clustered", 6, n=1000, d=16, batch=4)
    rows[777] *= 0.5
    ids, _ = corpus(rows)
    assert compare_with_full_corpus(Reach(ArrayStore(ids, rows), exact=True), rows, ids, 5 * queries, name, params)[0]


@pytest.mark.parametrize(("name", "params"), deepen(ATTACKED, [("dpp", {})]), ids=str)
def test_lengths_are_those_of_the_documents_as_they_are_now(small_pools, name, params):
    rows, queries = problem("clustered", 6, n=1500, d=16, batch=4)
    ids, _ = corpus(rows)
    store = ArrayStore(ids, 0.05 * rows)
    reach = Reach(store, exact=True)
    engine.decode(decoder(name, params), reach, queries, K)
    store.vectors = (rows * np.random.default_rng(1).lognormal(size=(len(rows), 1))).astype(np.float32)
    store.version = "longer"
    assert compare_with_full_corpus(reach, store.vectors, ids, queries, name, params)[0]


@pytest.mark.parametrize(("name", "params"), deepen(ATTACKED, [("ssd", {})]), ids=str)
def test_lengths_are_those_of_what_a_filter_lets_through(small_pools, name, params):
    rows, queries = problem("clustered", 6, n=1200, d=16, batch=4)
    rows[1::2] *= 0.5
    ids, _ = corpus(rows)
    kinds = ["even" if row % 2 == 0 else "odd" for row in range(len(rows))]
    for kind, start in (("even", 0), ("odd", 1)):
        reach = Reach(ArrayStore(ids, rows, columns={"kind": kinds}), where={"kind": [kind]}, exact=True)
        assert compare_with_full_corpus(reach, rows[start::2], ids[start::2], 3 * queries, name, params)[0]


def test_rows_whose_squares_vanish_in_float32_have_a_length(small_pools):
    rows, queries = problem("clustered", 6, n=1000, d=16, batch=4)
    ids, _ = corpus(rows)
    tiny = (1e-23 * rows).astype(np.float32)
    store = ArrayStore(ids, tiny)
    assert 0.9e-23 < store.ref.longest < 1.1e-23
    assert compare_with_full_corpus(Reach(store, exact=True), tiny, ids, queries, "max_sum", {"polish": False})[0]


@pytest.mark.parametrize("seed", range(6))
def test_greed_among_copies_is_proven_only_where_its_steps_are_known(small_pools, seed):
    rows, queries = problem("duplicated", seed, n=800, d=12, batch=4)
    rows = np.round(rows * 4).astype(np.float32) / 4
    ids, _ = corpus(rows)
    params = {"relevance_weight": 0.3, "polish": False}
    assert compare_with_full_corpus(Reach(ArrayStore(ids, rows), exact=True), rows, ids, queries, "max_sum", params)[0]


WEIGHT_CASES = list(product(range(4), (0.0, 0.05, 0.1), (0.0, 1e-9, 0.1), ("strict", "fill")))
QUICK_WEIGHT_CASES = [
    (seed, l1, l2, fill)
    for seed, l1, l2, fill in WEIGHT_CASES
    # Without λ₁ and with λ₂ every document has a weight, which takes long: one such case is enough.
    if (seed == (fill == "fill") and (l1, l2) != (0.0, 0.1) and ((l1 > 0) + (l2 > 0) + (fill == "fill")) % 2)
    or (seed, l1, l2, fill) == (0, 0.0, 0.1, "fill")
]


@pytest.mark.parametrize(
    ("seed", "l1", "l2", "fill"),
    deepen(WEIGHT_CASES, [case for case in WEIGHT_CASES if case not in QUICK_WEIGHT_CASES]),
)
def test_weights_that_rounding_could_order_otherwise_are_not_proven(small_pools, seed, l1, l2, fill):
    rng = np.random.default_rng(seed)
    copies = unit(rng.standard_normal((150, 16)))[rng.integers(150, size=600)].astype(np.float32)
    near = unit(copies[:3] + 0.1 * rng.standard_normal((3, 16))).astype(np.float32)
    grid = rng.integers(-2, 3, size=(500, 3 + 2 * (seed % 2))).astype(np.float32)
    points = rng.integers(-2, 3, size=(3, grid.shape[1])).astype(np.float32)
    for rows, queries in ((copies, near), (grid, points)):
        ids, _ = corpus(rows)
        reach = Reach(ArrayStore(ids, rows), exact=True)
        for k in (8, 40):
            params = {"l1": l1, "l2": l2, "fill": fill}
            assert compare_with_full_corpus(reach, rows, ids, queries, "nnn", params, k)[0], k


def test_weights_of_ordinary_documents_are_proven_at_every_preset(small_pools):
    rows, queries = problem("clustered", 3, n=3000, d=64, batch=8)
    ids, _ = corpus(rows)
    reach = Reach(ArrayStore(ids, rows), exact=True)
    for l2 in (0.0, 1e-6, 0.1):
        info = engine.decode(decoder("nnn", {"l1": 0.1, "l2": l2}), reach, queries, K).info
        assert [info_row["scope"] for info_row in info] == ["proven"] * len(queries)


class UnmeasuredStore(ArrayStore):
    """A store that says of filtered documents only what holds of all."""

    ref = property(lambda self: ArrayStore.ref_of(self, None))

    def ref_of(self, where):
        return VectorStore.ref_of(self, where)


@pytest.mark.parametrize(("name", "params"), ATTACKED, ids=str)
def test_few_documents_of_unknown_length_are_not_taken_for_unit(name, params):
    rng = np.random.default_rng(0)
    rows = unit(rng.standard_normal((2000, 6)))
    chosen_rows = np.sort(rng.choice(2000, 100, replace=False))
    rows[chosen_rows] *= rng.uniform(0.5, 2, (100, 1))
    rows, ids = rows.astype(np.float32), tuple(f"d{row}" for row in range(2000))
    kinds = np.where(np.isin(np.arange(2000), chosen_rows), "few", "many").tolist()
    reach = Reach(UnmeasuredStore(ids, rows, columns={"kind": kinds}), where={"kind": ["few"]}, exact=True)
    queries = 3 * unit(rng.standard_normal((3, 6))).astype(np.float32)
    assert compare_with_full_corpus(reach, rows[chosen_rows], [ids[row] for row in chosen_rows], queries, name, params)[
        0
    ]


def test_whether_rows_are_unit_is_said_only_where_float32_says_the_same():
    eps, rng = np.finfo(np.float32).eps, np.random.default_rng(0)
    for factor in np.linspace(6, 10, 200):
        rows = unit(rng.standard_normal((50, 24)))
        rows[0] *= 1 + factor * eps
        rows = rows.astype(np.float32)
        claims = ArrayStore(tuple(map(str, range(50))), rows).ref.unit
        assert claims in (None, Matrix(torch.from_numpy(rows)).unit)
    assert is_unit(0.0) and is_unit(1e-3) is False


def test_gains_that_are_equal_up_to_rounding_are_not_proven_to_differ(small_pools):
    for seed in range(8):
        rng = np.random.default_rng(seed)
        rows = (unit(rng.standard_normal((3000, 3))) * rng.uniform(0.5, 2, (3000, 1))).astype(np.float32)
        longest = rows[[np.linalg.norm(rows, axis=1).argmax()]]
        ids, _ = corpus(rows)
        reach = Reach(ArrayStore(ids, rows), exact=True)
        for factor, weight in ((2, 1 / 3), (1, 0.5)):
            assert compare_with_full_corpus(reach, rows, ids, factor * longest, "mmr", {"relevance_weight": weight}, 2)[
                0
            ]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("name", "params"), [("top_k", {}), *ATTACKED, ("facility_location", {})], ids=str)
def test_documents_that_are_all_zero_tie_and_prove_nothing(name, params):
    rows, ids = np.zeros((700, 4), np.float32), tuple(f"d{row}" for row in range(700))
    reach = Reach(ArrayStore(ids, rows), exact=True)
    for k in (1, 3):
        assert compare_with_full_corpus(reach, rows, ids, np.ones((1, 4), np.float32), name, params, k)[0]


@pytest.mark.parametrize(("name", "params"), [*ATTACKED, ("vrsd", {})], ids=str)
def test_pool_of_exactly_all_documents_is_the_corpus(name, params):
    rows, queries = problem("clustered", 2, n=500, d=16, batch=2)
    ids, _ = corpus(rows)
    reach = Reach(ArrayStore(ids, rows), exact=True)
    same, _ = compare_with_full_corpus(reach, rows, ids, queries, name, params)
    assert same
    assert [info["scope"] for info in engine.decode(decoder(name, params), reach, queries, K).info] == ["proven"] * 2


@pytest.mark.parametrize(("name", "weight"), [("mmr", 0.3), ("dpp", 0.5)])
def test_index_that_ends_early_leaves_picks_open_and_a_proof_goes_past_it(name, weight):
    rng = np.random.default_rng(0)
    rows = unit(rng.standard_normal((2000, 8))).astype(np.float32)
    queries = unit(rng.standard_normal((1, 8))).astype(np.float32)
    ids, _ = corpus(rows)
    reach, chosen = Reach(LossyStore(ids, rows)), decoder(name, {"relevance_weight": weight})
    assert engine.decode(chosen, reach, queries, K).info[0]["scope"] != "proven"
    assert reach.prove(chosen, queries, K).info[0]["scans"] > 0


def test_picks_of_equal_gain_are_not_proven_to_be_in_order(small_pools):
    # The contributions of two to their own distance are equal.
    for seed in range(6):
        rng = np.random.default_rng(seed)
        rows = 1000 * unit(rng.standard_normal((2500, 24))).astype(np.float32)
        ids, _ = corpus(rows)
        queries = rows[:6] + rng.standard_normal((6, 24)).astype(np.float32)
        params = {"relevance_weight": 0.0, "polish": False}
        assert compare_with_full_corpus(
            Reach(ArrayStore(ids, rows), exact=True), rows, ids, queries, "max_sum", params, 2
        )[0]


def test_limit_per_source_is_refused_by_name():
    rows, queries = problem("random", 1, n=20, d=4, batch=1)
    reach = Reach(ArrayStore(corpus(rows)[0], rows), exact=True)
    with pytest.raises(engine.DataError, match="per_source needs the column 'url'"):
        engine.decode(engine.Decoder(engine.make("top_k"), per_source=1, source="url"), reach, queries, 3)
    for options in ({"per_source": 1, "source": "url"}, {"without_self": True}):
        with pytest.raises(engine.DataError, match="an exact frontier needs all documents"):
            engine.exact_frontier("mmr", reach, engine.Embeddings(("q",), queries), metrics=["ilad"], **options)


@pytest.mark.parametrize(("name", "params"), [*DECODERS[:3], ("nnn", {"l1": 0.1})], ids=str)
@pytest.mark.parametrize("depth", [None, 12])
def test_document_that_the_query_is_can_be_left_out(small_pools, name, params, depth):
    rows, _ = problem("clustered", 2, n=2500, d=12, batch=1)
    ids, space = corpus(rows)
    queries = engine.Embeddings(("absent", ids[3], ids[700]), rows[[9, 3, 700]])
    chosen = replace(decoder(name, params), without_self=True, depth=depth)
    reach = Reach(ArrayStore(ids, rows), exact=True)
    answer, expected = engine.decode(chosen, reach, queries, K), engine.decode(chosen, space, queries, K)
    for b, own_id in enumerate(queries.ids):
        full = [ids[row] for row in expected.rows(b)]
        info = answer.info[b]
        n_sure = len(full) if depth else len(info["ids"]) - info["open"]
        assert own_id not in info["ids"] and list(info["ids"][:n_sure]) == full[:n_sure] and n_sure > 0
        assert ("own_document" in info) == (own_id in ids)
    # A document judged relevant for the query that it is does not count, though the engine has it.
    qrels = engine.Qrels({query_id: {query_id: 1, ids[0]: 1} for query_id in queries.ids})
    recall = engine.measure(answer, reach.space, queries, qrels, K, without_self=True).per_query
    assert recall == engine.measure(expected, space, queries, qrels, K, without_self=True).per_query


@pytest.mark.parametrize("depth", [None, 3])
def test_query_that_is_the_only_document_gets_an_empty_answer(depth):
    reach = Reach(ArrayStore(("a",), unit(np.ones((1, 4), np.float32))), exact=True)
    chosen = engine.Decoder(engine.make("mmr"), depth=depth, without_self=True)
    ranking = engine.decode(chosen, reach, engine.Embeddings(("a",), np.ones((1, 4), np.float32)), 3)
    assert ranking.index.tolist() == [[-1, -1, -1]]
