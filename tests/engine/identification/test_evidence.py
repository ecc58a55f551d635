import numpy as np
import pytest
import torch

import engine
from engine.decoder import query_batch
from engine.identification.evidence import COMPILING, MIN_BLOCK_ROWS, _RowBuffer, collect_traces
from engine.identification.families import DecoderFamily
from engine.identification.novelty import COSINE, DISTANCE, INNER_PRODUCT
from engine.identification.peaks import explain_picks
from engine.identification.pools import RunLists
from support.draws import deepen
from support.selector_oracles import score_dpp, score_mmr, score_ssd

N_DOCUMENTS, N_QUERIES, K = 40, 4, 4
WEIGHTS = (0.0, 0.42, 1.0)
DEPTHS = (4, 15, 39)
WORDS = ["red", "green", "blue", "wide", "flat", "old"]


def make_space(kind, rng):
    """Return a space and queries: random, clustered, with duplicates, in a plane, or of many lengths."""
    rows = rng.normal(size=(N_DOCUMENTS, 6))
    if kind == "clusters":
        rows = rng.normal(size=(4, 6))[rng.integers(4, size=N_DOCUMENTS)] + 0.05 * rows
    if kind == "duplicates":
        rows = rows[rng.integers(12, size=N_DOCUMENTS)]
    if kind == "plane":
        rows[:, 2:] = 0
    if kind != "lengths":
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    texts = tuple(" ".join(rng.choice(WORDS, 4)) for _ in range(N_DOCUMENTS))
    corpus = engine.Corpus(tuple(map(str, range(N_DOCUMENTS))), texts)
    space = engine.Space(corpus, engine.Embeddings(corpus.ids, rows.astype(np.float32)), "cpu")
    points = rng.normal(size=(N_QUERIES, 6))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    query_texts = tuple(" ".join(rng.choice(WORDS, 2)) for _ in range(N_QUERIES))
    ids = tuple(f"q{index}" for index in range(N_QUERIES))
    return space, engine.Embeddings(ids, points.astype(np.float32), None, query_texts)


def score_relevance(family, space, batch, index):
    """Score all documents for one query, in float64; −∞ for a document that does not match."""
    rows, query = space.vectors.double().numpy(), batch.vectors[index].double().numpy()
    if not family.scorer.inner_product:
        scores = family.scorer.score(space, batch.take([index]))
        matches = family.scorer.find_matches(space, batch.take([index]), scores)
        values = scores[0].double().numpy()
        return values if matches is None else np.where(matches[0].numpy(), values, -np.inf)
    if family.metric == COSINE:
        return rows @ query / np.linalg.norm(rows, axis=1) / np.linalg.norm(query)
    return -np.linalg.norm(rows - query, axis=1) if family.metric == DISTANCE else rows @ query


def compare(rows, metric):
    """Compare all documents with one another, in float64."""
    if metric == DISTANCE:
        return -np.linalg.norm(rows[:, None] - rows[None], axis=2)
    if metric == COSINE:
        rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return rows @ rows.T


def score_gains(family, space, relevance, pool, chosen, members, rank, weight):
    """Score all documents at the next pick by the definitions: only those of the pool count."""
    rows, name, window = space.vectors.double().numpy(), family.selector.spec.name, family.window
    similarities = compare(rows, family.metric)
    inside = np.isin(np.arange(len(rows)), pool)
    low, high = relevance[inside].min(), relevance[inside].max()
    relevance = np.where(np.isfinite(relevance), relevance, 0)
    if family.scale == "minmax":
        relevance = (relevance - low) / (high - low if high > low else 1)
    elif family.scale == "rank":
        relevance = 1 - (relevance[pool] > relevance[:, None]).sum(1) / max(len(pool) - 1, 1)
    if name in ("dpp", "ssd"):
        # Their oracles take relevance as a product: the last axis carries it alone.
        score = score_dpp if name == "dpp" else score_ssd
        if not chosen:
            return relevance
        gains = score(rows, np.zeros(rows.shape[1]), chosen, len(members), relevance_weight=weight, window=window)
        return weight * relevance + gains if weight < 1 else relevance
    if name == "mmr":
        if not chosen:
            return relevance
        if family.metric == INNER_PRODUCT and family.scorer.inner_product and family.scale == "raw":
            query = np.linalg.lstsq(rows, relevance, rcond=None)[0]
            return score_mmr(rows, query, chosen, len(members), relevance_weight=weight, window=window)
        return weight * relevance - (1 - weight) * similarities[:, chosen[-(window or len(chosen)) :]].max(1)
    if name == "facility_location":
        covered = np.maximum(similarities[chosen].max(0), 0) if chosen else np.zeros(len(rows))
        added = np.maximum(similarities[:, inside] - covered[inside], 0).sum(1)
        return weight * relevance + (1 - weight) * len(members) / inside.sum() * added
    others = chosen if not family.selector.polish else [row for row in members if row != members[rank]]
    if not others or (not chosen and not family.selector.polish):
        return relevance
    penalty = similarities[:, others].sum(1)
    if family.selector.polish:
        # A member is judged beside the rest of the set, without itself.
        for row in members:
            penalty[row] = similarities[row, [other for other in members if other != row]].sum()
    return weight * (len(members) - 1) * relevance - 2 * (1 - weight) * penalty


def explain_by_force(family, space, batch, lists, index, depth, weight):
    """Return, for each pick, by how much it leads the best other document of the pool; None outside of it."""
    relevance = score_relevance(family, space, batch, index)
    count = int(np.isfinite(relevance).sum())
    order = np.argsort(-relevance, kind="stable")[: min(depth, count)]
    leads, chosen, members = [], [], lists[index]
    for rank, pick in enumerate(members):
        # Equal relevance at the edge of the pool may fall on either side.
        is_edge = (
            len(order) < count
            and np.isfinite(relevance[pick])
            and abs(relevance[pick] - relevance[order[-1]]) < 1e-5 * max(1, abs(relevance[pick]))
        )
        edge_gap = min(abs(relevance[order[-1]] - relevance[row]) for row in range(N_DOCUMENTS) if row not in order)
        # What picks from outside the ground set cover is not defined.
        is_undefined = family.selector.spec.name == "facility_location" and not set(chosen) <= set(order.tolist())
        if is_edge or edge_gap < 1e-5 or is_undefined:
            leads.append(np.nan)
        elif pick not in order:
            leads.append(None)
        else:
            gains = score_gains(family, space, relevance, order, chosen, members, rank, weight)
            rivals = [row for row in order if row not in chosen and row != pick]
            leads.append(gains[pick] - max(gains[rivals]) if rivals else 1.0)
        chosen.append(pick)
    return leads


def list_families(kind):
    """The families of a kind of data: for vectors of many lengths by every metric."""
    make = engine.make
    selectors = [make(name, window=window) for name in ("mmr", "dpp", "ssd") for window in (None, 1, 2)]
    selectors += [make("mmr", relevance_scale=scale) for scale in ("minmax", "rank")]
    selectors += [make("max_sum", polish=False), make("max_sum"), make("facility_location")]
    # Lists of max-sum in the order of its contributions are those of its decoder, in test_identify.
    families = [
        DecoderFamily(selector=each, scorer=make("dense"), in_pick_order=not getattr(each, "polish", True))
        for each in selectors
    ]
    if kind == "lengths":
        by_similarity = [family for family in families if family.selector.spec.name in ("mmr", "max_sum")]
        return [
            DecoderFamily(selector=f.selector, scorer=f.scorer, metric=m, in_pick_order=f.in_pick_order)
            for f in by_similarity
            for m in (COSINE, DISTANCE)
        ]
    return [
        *families,
        *(DecoderFamily(selector=make(name), scorer=make("bm25")) for name in ("mmr", "facility_location")),
    ]


@pytest.mark.parametrize("kind", deepen(["random", "clusters", "duplicates", "plane", "lengths"], ["random", "plane"]))
def test_intervals_explain_the_picks_that_lead_by_brute_force(kind):
    rng = np.random.default_rng(7)
    space, queries = make_space(kind, rng)
    batch = query_batch(space, queries)
    # Lists of a decoder, with one of them shuffled and one at random, so that picks of all kinds occur.
    ranking = engine.decode(engine.Decoder(engine.make("mmr", relevance_weight=0.6), depth=15), space, queries, K)
    lists = [ranking.rows(index) for index in range(N_QUERIES)]
    lists[1] = rng.permutation(lists[1]).tolist()
    lists[2] = rng.choice(N_DOCUMENTS, K, replace=False).tolist()
    run = RunLists(batch, tuple(map(np.array, lists)), np.full(N_QUERIES, -1), K)
    families = list_families(kind)
    n_explained = n_unexplained = 0
    for traces in collect_traces(families, space, run, lambda *_: None):
        for depth in DEPTHS:
            for weight in WEIGHTS:
                explained = explain_picks(traces, depth, weight).reshape(N_QUERIES, K)
                for index in range(N_QUERIES):
                    leads = explain_by_force(traces.family, space, batch, lists, index, depth, weight)
                    for rank, lead in enumerate(leads):
                        case = traces.family.label, depth, weight, index, rank, lead
                        if lead is None or lead < -2e-4:
                            assert not explained[index, rank], case
                            n_unexplained += 1
                        elif lead > -1e-7:
                            # Ties count as explained.
                            assert explained[index, rank], case
                            n_explained += 1
    assert n_explained > 60 and n_unexplained > 60
    assert torch.equal(batch.vectors, query_batch(space, queries).vectors)


def test_traces_of_many_queries_equal_those_of_each_alone():
    rng = np.random.default_rng(0)
    space, queries = make_space("random", rng)
    batch = query_batch(space, queries)
    lists = [rng.choice(N_DOCUMENTS, size, replace=False) for size in (4, 1, 3, 4)]
    families = [
        *list_families("random"),
        DecoderFamily(selector=engine.make("max_sum", polish=False), scorer=engine.make("dense")),
    ]
    query_index = np.repeat(np.arange(N_QUERIES), [4, 1, 3, 4])
    together = list(
        collect_traces(families, space, RunLists(batch, tuple(lists), np.full(N_QUERIES, -1), K), lambda *_: None)
    )
    for index, rows in enumerate(lists):
        # The traces of all queries share arrays, to which each adds its part.
        run = RunLists(batch.take([index]), (rows,), np.full(1, -1), K)
        for many, alone in zip(together, collect_traces(families, space, run, lambda *_: None), strict=True):
            is_own = query_index == index
            for weight in WEIGHTS if many.family.has_weight else (None,):
                for depth in DEPTHS:
                    assert (explain_picks(many, depth, weight)[is_own] == explain_picks(alone, depth, weight)).all()


def test_rows_of_a_buffer_stay_where_they_are():
    buffer = _RowBuffer(np.int64, np.float64)
    sizes = [3, MIN_BLOCK_ROWS - 3, 3 * MIN_BLOCK_ROWS, 0, 5]
    spans = [buffer.append((np.full(size, number), np.full(size, -number))) for number, size in enumerate(sizes)]
    assert [block for block, _ in spans] == [0, 0, 1, 1, 2], "rows of one part lie in one block"
    starts, lows = buffer.gather([spans[4], spans[0], spans[3], spans[2]])
    assert starts.tolist() == [4] * 5 + [0] * 3 + [2] * sizes[2]
    assert (lows == -starts).all() and (starts.dtype, lows.dtype) == (np.int64, np.float64)


@pytest.mark.parametrize("has_code", [False, True])
def test_progress_says_that_the_first_list_waits_for_the_compiler(monkeypatch, has_code):
    monkeypatch.setattr("engine.identification.evidence.is_compiled", lambda loop: has_code)
    space, queries = make_space("random", np.random.default_rng(0))
    run = RunLists(query_batch(space, queries), (np.arange(K),) * N_QUERIES, np.full(N_QUERIES, -1), K)
    reports = []
    list(collect_traces(list_families("random")[:1], space, run, lambda *report: reports.append(report)))
    expected = ["lists" if has_code else COMPILING, *["lists"] * N_QUERIES]
    assert reports == [(number, N_QUERIES, label) for number, label in enumerate(expected)]
