"""Margins, projections and segments on words and vectors: against plain Python, by their laws, and on real texts."""

import math
import re
from collections import Counter

import numpy as np
import pytest
import torch

import engine
from engine.theory.margins import relevant_margins
from engine.theory.text_vectors import BM25_B_VALUE, BM25_K1_VALUE, iterate_best_margins, make_length_bins, text_vectors
from support.instances import problem
from support.judged_sets import DATA, needs_data
from support.random_texts import corpus_of, make_texts, space_of


def plain(corpus, queries, weighting):
    """Every document and query as word → weight, by the definitions."""
    counts = [Counter(re.findall(r"\w+", text.lower())) for text in corpus.passages]
    lengths = [sum(c.values()) for c in counts]
    mean, n = sum(lengths) / len(lengths), len(counts)
    known = set().union(*counts)
    idf = {w: math.log(1 + (n - (f := sum(w in c for c in counts)) + 0.5) / (f + 0.5)) for w in known}
    asked = [set(re.findall(r"\w+", text.lower())) & known for text in queries.texts]
    if weighting == "boolean":
        return [dict.fromkeys(c, 1.0) for c in counts], [dict.fromkeys(q, 1.0) for q in asked], lengths
    rows = [
        {w: f / (f + BM25_K1_VALUE * (1 - BM25_B_VALUE + BM25_B_VALUE * size / mean)) for w, f in c.items()}
        for c, size in zip(counts, lengths, strict=True)
    ]
    return rows, [{w: idf[w] for w in q} for q in asked], lengths


def dot(a, b):
    return math.fsum(a[w] * b[w] for w in a.keys() & b.keys())


def margin_of(q, a, b):
    apart = math.sqrt(sum((a.get(w, 0) - b.get(w, 0)) ** 2 for w in a.keys() | b.keys()))
    return (dot(q, a) - dot(q, b)) / (math.sqrt(dot(q, q)) * apart) if apart else None


def test_one_margin():
    assert engine.margin([1, 0], [1, 0], [0, 0]) == 1
    assert engine.margin([1, 1], [2, 0], [0, 1]) == pytest.approx(1 / math.sqrt(10))
    assert engine.margin([1, 1], [0, 1], [2, 0]) == pytest.approx(-1 / math.sqrt(10))
    assert math.isnan(engine.margin([1, 0], [1, 2], [1, 2])) and math.isnan(engine.margin([0, 0], [1, 2], [1, 3]))
    with pytest.raises(engine.DataError, match="vectors of one length"):
        engine.margin([1, 0], [1, 0, 0], [0, 0])


@pytest.mark.parametrize("weighting", ["bm25", "boolean"])
def test_bags_are_the_definitions(weighting):
    corpus, queries = make_texts()
    found = text_vectors(corpus, queries, weighting)
    documents, asked, lengths = plain(corpus, queries, weighting)
    assert found.lengths.tolist() == lengths
    scores = (found.queries @ found.documents.T).toarray()
    for q, row in zip(asked, scores, strict=True):
        assert row.tolist() == pytest.approx([dot(q, d) for d in documents], rel=1e-12)
    # A word that comes twice in a query, and case, change nothing.
    twice = text_vectors(corpus, [t.upper() + " " + t for t in queries.texts], weighting)
    assert abs(twice.queries - found.queries).max() == 0


@pytest.mark.parametrize("weighting", ["bm25", "boolean"])
@pytest.mark.parametrize("bins", [1, 3])
def test_margins_are_the_definitions(weighting, bins):
    corpus, queries = make_texts(1)
    documents, asked, lengths = plain(corpus, queries, weighting)
    got = engine.margins(corpus, queries, weighting, ranks=(1, 5), bins=bins)
    order = sorted((i for i in range(len(lengths)) if lengths[i]), key=lambda i: (lengths[i], i))
    parts = [sorted(part.tolist()) for part in np.array_split(order, bins)]
    smallest, tied, repeated, pairs = math.inf, 0, 0, 0
    expected = {(at, rank): [] for at in range(bins) for rank in (1, 5)}
    for at, part in enumerate(parts):
        for q in asked:
            best = max(part, key=lambda i: (dot(q, documents[i]), -i))
            if dot(q, documents[best]) <= 0:
                continue
            found = [margin_of(q, documents[best], documents[i]) for i in part if i != best]
            pairs += len(found)
            repeated += sum(m is None for m in found)
            tied += sum(m is not None and abs(m) < 1e-12 for m in found)
            clear = sorted(m for m in found if m is not None and m >= 1e-12)
            smallest = min([smallest, *clear[:1]])
            for rank in (1, 5):
                if len(clear) >= rank:
                    expected[at, rank].append(clear[rank - 1])
    assert (got.pairs, got.tied, got.repeated) == (pairs, tied, repeated) and got.unanswered >= bins
    assert got.smallest == pytest.approx(smallest, rel=1e-6)
    for row, ((at, rank), values) in zip(got.rows, expected.items(), strict=True):
        assert (row.rank, row.documents, row.queries) == (rank, len(parts[at]), len(values))
        own = [lengths[i] for i in parts[at]]
        assert (row.least, row.most) == (min(own), max(own))
        assert row.values.tolist() == pytest.approx(sorted(values), rel=1e-6)
        assert row.median == pytest.approx(np.median(values), rel=1e-6)


def test_no_margin_is_above_1():
    """Documents along the query: their margins are 1, however the arithmetic rounds."""
    rng = np.random.default_rng(0)
    for _ in range(40):
        line = rng.standard_normal(7)
        rows = np.outer(rng.random(5) + 0.1, line)
        over = next(iterate_best_margins(rows, line[None]))[3]
        assert np.nanmax(over) <= 1 and np.nanmax(over) > 1 - 1e-9
    space = space_of(corpus_of(["a", "b", "a b"]), [[0.3, 0.9], [0.1, 0.3], [0.2, 0.6]])
    smallest = engine.margins(space, engine.Embeddings(("q",), torch.tensor([[0.3, 0.9]])), "dense", bins=1).smallest
    assert smallest <= 1 and engine.sufficient_dimension(smallest, 0.05) == math.ceil(12 * math.log(80))


def test_margins_of_dense_vectors():
    rows, points = problem("random", 3, n=30, d=6, batch=4)
    space = space_of(corpus_of(["one two three"] * 30), rows)
    asked = engine.Embeddings(tuple("abcd"), torch.tensor(points))
    got = engine.margins(space, asked, "dense", ranks=(1, 29, 30), bins=1)
    first = []
    for q in points.astype(float):
        best = (rows @ q).argmax()
        first.append(sorted(engine.margin(q, rows[best], rows[i]) for i in range(30) if i != best))
    assert got.rows[0].values.tolist() == pytest.approx(sorted(f[0] for f in first), rel=1e-4)
    assert got.rows[1].values.tolist() == pytest.approx(sorted(f[-1] for f in first), rel=1e-4)
    assert got.rows[2].queries == 0 and got.rows[2].median is None


def test_margins_need_what_they_read():
    corpus, queries = make_texts()
    space = space_of(corpus, torch.zeros(len(corpus), 2))
    points = engine.Embeddings(("q",), torch.ones(1, 2))
    for args, given, error, message in (
        ((corpus, queries, "dense"), {}, engine.DataError, r"dense vectors need an engine\.Space"),
        ((space, points), {}, engine.DataError, "queries must have texts"),
        ((corpus, queries, "sparse"), {}, engine.ParamError, "one of 'bm25', 'boolean', 'dense'; got 'sparse'"),
        ((corpus, queries), {"ranks": (0,)}, engine.ParamError, "ranks must be a whole number"),
        ((corpus, []), {}, engine.DataError, "at least one query"),
    ):
        with pytest.raises(error, match=message):
            engine.margins(*args, **given)
    known = engine.Embeddings(("q",), torch.ones(1, 2), texts=("w0 w9",))
    read, plain_text = (engine.margins(*args).rows[0].values.tolist() for args in ((space, known), (corpus, ["w0 w9"])))
    assert read == plain_text
    empty = engine.margins(corpus_of(["", "?!"]), ["w0"])
    assert empty.rows == () and empty.smallest is None and empty.pairs == 0


def test_bins_are_of_like_size_and_by_length():
    lengths = np.array([5, 0, 9, 5, 1, 7, 7])
    assert [part.tolist() for part in make_length_bins(lengths, 3)] == [[0, 4], [3, 5], [2, 6]]
    assert [len(part) for part in make_length_bins(lengths, 50)] == [1] * 6
    assert make_length_bins(np.zeros(3), 2) == []


@pytest.mark.parametrize("projection", ["rademacher", "gaussian"])
@pytest.mark.parametrize("weighting", ["bm25", "boolean"])
def test_projections_stay_within_the_bound_and_grow_with_the_inverse(projection, weighting):
    corpus, queries = make_texts(2, n=80, queries=40)
    got = engine.pair_errors(
        corpus, queries, weighting, projection=projection, bins=6, dimensions=(8, 32, 128, 512), pairs=60, draws=30
    )
    assert {cell.k for cell in got.cells} == {8, 32, 128, 512} and got.draws == 30
    told = [cell for cell in got.cells if cell.bound < 1]
    assert told and all(cell.error <= cell.bound for cell in told)
    assert all(0 <= cell.low <= cell.error <= cell.high <= 1 for cell in got.cells)
    by_bin = [[cell.error for cell in got.cells if cell.bin == at] for at in range(len(got.bins))]
    assert all(errors[0] > errors[-1] for errors in by_bin)
    assert [row.inverse for row in got.bins] == sorted(row.inverse for row in got.bins)
    assert all(row.dimension is None or row.dimension <= row.guaranteed for row in got.bins)
    assert got.slope == pytest.approx(8.76, abs=0.01)


def test_the_measured_error_is_that_of_explicit_projections():
    """One pair, known margin: the share turned round is the normal limit's, within its sampling error."""
    corpus, queries = corpus_of(["a b c d", "a e f g h i", "z"]), ["a b"]
    margin = engine.margin([1, 1, *[0] * 7], [1, 1, 1, 1, *[0] * 5], [1, 0, 0, 0, 1, 1, 1, 1, 1])
    got = engine.pair_errors(corpus, queries, "boolean", projection="gaussian", dimensions=(16, 64), draws=4000, bins=2)
    assert sum(row.pairs for row in got.bins) == 2
    own = next(at for at, row in enumerate(got.bins) if row.least <= margin + 1e-12 and row.most >= margin - 1e-12)
    if got.bins[own].pairs == 1:
        for cell in (c for c in got.cells if c.bin == own):
            limit = 0.5 * math.erfc(margin * math.sqrt(cell.k / (1 + margin**2)) / math.sqrt(2))
            assert cell.error == pytest.approx(limit, abs=0.03)
    assert all(cell.low <= cell.error <= cell.high for cell in got.cells)


def test_same_seed_same_errors_and_another_seed_others():
    corpus, queries = make_texts(3)
    options = {"dimensions": (8, 64), "draws": 3, "bins": 3, "pairs": 20}
    first, again, other = (engine.pair_errors(corpus, queries, seed=seed, **options) for seed in (5, 5, 6))
    assert first == again and first.cells != other.cells


def test_pair_errors_can_be_watched_and_refused():
    corpus, queries = make_texts(4)
    seen = []
    engine.pair_errors(corpus, queries, dimensions=(8, 256), draws=3, progress=lambda *told: seen.append(told))
    assert seen == [(1, 3, "projecting"), (2, 3, "projecting"), (3, 3, "projecting")]
    with pytest.raises(engine.DataError, match="more than 4,096 dimensions"):
        engine.pair_errors(corpus_of(["a b", "a b"]), ["a"])
    for given, message in (
        ({"projection": "hash"}, r"projection .* must be one of 'rademacher', 'gaussian'; got 'hash'"),
        ({"draws": 1}, r"draws must be a whole number in \[2, ∞\); got 1"),
        ({"dimensions": (8,)}, "dimensions must be a list of two or more"),
    ):
        with pytest.raises(engine.ParamError, match=message):
            engine.pair_errors(corpus, queries, **given)


def test_recall_grows_with_the_dimension_and_is_whole_at_the_vectors_own():
    rows, points = problem("random", 5, n=60, d=16, batch=8)
    space = space_of(corpus_of(["w " * (1 + i % 7) for i in range(60)]), rows)
    asked = engine.Embeddings(tuple(map(str, range(8))), torch.tensor(points))
    cut = engine.recall_dimensions(
        space, asked, "dense", reduction="truncated", dimensions=(2, 8, 16, 999), rank=1, bins=2
    )
    for row, part in zip(cut, make_length_bins(np.array([1 + i % 7 for i in range(60)]), 2), strict=True):
        assert list(row.recall) == [2, 8, 16] and row.recall[16] == 1 and row.dimension in (2, 8, 16)
        for k, recall in row.recall.items():
            best = (rows[part] @ points.T).argmax(0)
            assert recall == pytest.approx(np.mean((rows[part][:, :k] @ points[:, :k].T).argmax(0) == best))
    for reduction in ("rademacher", "gaussian"):
        drawn = engine.recall_dimensions(
            space, asked, "dense", reduction=reduction, dimensions=(2, 4096), rank=1, bins=1, draws=10
        )[0]
        assert drawn.recall[2] < 0.6 < drawn.recall[4096]
    all_ = engine.recall_dimensions(space, asked, "dense", reduction="truncated", dimensions=(1,), rank=60, bins=1)[0]
    assert all_.recall == {1: 1.0} and all_.dimension == 1


def test_recall_dimensions_of_words():
    corpus, queries = make_texts(6)
    got = engine.recall_dimensions(corpus, queries, dimensions=(4, 2048), bins=2, rank=3, draws=4)
    assert [row.documents for row in got] == [20, 19] and all(row.queries <= 12 for row in got)
    assert all(row.recall[4] < row.recall[2048] for row in got)
    unreachable = engine.recall_dimensions(corpus, queries, dimensions=(2,), rank=1, target=1, draws=3, bins=1)[0]
    assert unreachable.dimension is None
    with pytest.raises(engine.ParamError, match="reduction must be one of 'rademacher', 'gaussian' for bm25 vectors"):
        engine.recall_dimensions(corpus, queries, reduction="truncated")
    nothing = engine.recall_dimensions(corpus, ["nothing known"], dimensions=(2,), bins=1)[0]
    assert (nothing.queries, nothing.recall, nothing.dimension) == (0, {}, None)


def segmented(rng, signed):
    """A query in the first of three parts of a space, five dimensions each, and two documents' segments."""
    own_part = np.kron(np.eye(3), np.ones(5))
    first, second = (own_part * (rng.random(15) - (0.5 if signed else 0)) for _ in range(2))
    return np.append(rng.random(5), np.zeros(10)), first, second


def test_theorem_1_holds_wherever_its_premises_do():
    rng = np.random.default_rng(0)
    promised = 0
    for trial in range(300):
        query, first, second = segmented(rng, signed=bool(trial % 2))
        if trial % 3 == 0:
            query[5:10] = 0.3 * rng.random(5)
        got = engine.segment_margins(query, first, second, 0)
        assert got.orthogonal and got.documents == pytest.approx(engine.margin(query, first.sum(0), second.sum(0)))
        assert got.matched == (trial % 3 != 0) and got.ordered == (got.documents > 0)
        if got.promised:
            promised += 1
            assert got.holds and got.segments >= got.documents
    assert promised > 50


def test_theorem_1_needs_its_premises():
    # Not orthogonal: the segments' difference is longer than the documents'.
    query, first, second = [1.0, 0], [[1.0, 2], [0, -2]], [[0.0, 0], [0, 0]]
    got = engine.segment_margins(query, first, second)
    assert got.matched and got.bounded and got.ordered and not got.orthogonal and not got.promised and not got.holds
    # Not matched: another segment gives the query what decides.
    got = engine.segment_margins([1.0, 1], [[0.1, 0], [0, 1]], [[0.1, 0.2], [0, 0]], at=0)
    assert not got.matched and not got.promised and not got.holds
    # A segment of the second document that alone scores above the whole of it.
    got = engine.segment_margins([1.0, 1], [[1.0, 0], [0, 0]], [[1.5, 0], [0, -1]], at=0)
    assert got.ordered and got.matched and got.orthogonal and not got.bounded and not got.promised and not got.holds
    with pytest.raises(engine.DataError, match="segments, m alike"):
        engine.segment_margins([1.0, 0], [[1.0, 0]], [[1.0, 0], [0, 1]])
    with pytest.raises(engine.DataError, match=r"at must be a whole number in \[0, 0\]"):
        engine.segment_margins([1.0, 0], [[1.0, 0]], [[0.0, 1]], at=1)


def test_segments_of_a_corpus_keep_the_promise():
    corpus, queries = make_texts(7, n=60, queries=30)
    got = engine.segments(corpus, queries, passage_words=10, rivals=5)
    assert len(got) > 50 and 0 < got.promised.sum() < len(got) and got.broken == 0
    assert set(np.unique(got.query, return_counts=True)[1]) <= {1, 2, 3, 4, 5}
    # Passages as long as the documents are the documents.
    whole = engine.segments(corpus, queries, passage_words=1000, rivals=5)
    assert whole.promised.all() and whole.broken == 0
    assert whole.passages == pytest.approx(whole.documents)
    assert len(engine.segments(corpus, ["nothing known"])) == 0


@pytest.fixture(scope="module")
def cranfield():
    return engine.load_dataset(str(DATA / "cranfield"))


@pytest.mark.deep
@needs_data
def test_theorem_1_on_real_passages(cranfield):
    got = engine.segments(cranfield.corpus, cranfield.judged("test").sample(60), rivals=5)
    assert len(got) > 250 and got.promised.sum() > 10 and got.broken == 0
    assert 0 < got.passages_gain < 1


@needs_data
def test_longer_documents_have_smaller_margins(cranfield):
    """Fig. 3a, and the need for more dimensions that follows: on cranfield, for words of both weightings."""
    for weighting in ("bm25", "boolean"):
        rows = engine.margins(cranfield.corpus, cranfield.judged("test"), weighting, ranks=(10,)).rows
        medians = [row.median for row in rows]
        assert medians == sorted(medians, reverse=True)


def test_a_relevant_document_that_only_ties_is_not_first():
    """Each shares one word with the query."""
    corpus, queries = corpus_of(["apple pear", "plum fig"]), engine.Queries(("q",), ("apple plum",))
    (result,) = relevant_margins(corpus, queries, engine.Qrels({"q": {"d0": 1}}), "boolean", bins=1)
    assert result.first == 0
