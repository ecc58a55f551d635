"""BM25: every score is that of the formula, on real and on made texts; the index is made once; nothing is retrieved for
nothing."""

import subprocess
import sys
from itertools import product

import bm25s
import numpy as np
import pytest
import torch

import engine
from engine.text import bm25_index
from support.bm25_cases import batch_of, make_cases, scores, space_of
from support.bm25_oracle import bm25 as oracle
from support.bm25_oracle import cut
from support.draws import seeds_of
from support.judged_sets import DATA, SETS
from support.processes import environment

VARIANTS = ("lucene", "robertson", "atire", "bm25l", "bm25+")


def close(found, texts, queries, **params):
    expected = torch.tensor(oracle(texts, queries, **params), dtype=torch.float64)
    assert found.dtype == torch.float32 and found.shape == expected.shape
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-12)


@seeds_of((0,), range(4))
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("ngrams", ["1", "2"])
def test_every_score_is_that_of_the_formula(variant, ngrams, seeds):
    for seed in seeds:
        texts, queries = make_cases(seed)
        for k1, b in ((1.5, 0.75), (0.0, 0.75), (0.9, 0.0), (3.0, 1.0), (1000.0, 0.4)):
            params = {"variant": variant, "k1": k1, "b": b, "ngrams": ngrams}
            close(scores(texts, queries, **params), texts, queries, **params)


REAL_CASES = list(product(["cranfield", "toollens"], VARIANTS))


@pytest.mark.deep  # made-up texts meet every variant in every run
@pytest.mark.parametrize(("name", "variant"), REAL_CASES)
def test_every_score_on_real_texts_is_that_of_the_formula(name, variant):
    if name not in SETS:
        pytest.skip(f"{name} is not on this machine (set FRONTIER_DATA)")
    data = engine.load_dataset(DATA / name)
    queries = data.queries.texts[:: max(1, len(data.queries) // 8)]
    found = scores(data.corpus.passages, queries, variant=variant)
    close(found, data.corpus.passages, queries, variant=variant)
    assert bool((found.max(1).values > 0).all()) and bool((found >= 0).all())


def test_the_oracle_and_bm25s_agree():
    texts, queries = make_cases(1)
    terms = {text: cut(text) for text in (*texts, *queries)}
    vocabulary = {t: i for i, t in enumerate(sorted({t for text in texts for t in terms[text]}))}
    for variant in VARIANTS:
        own = bm25s.BM25(method=variant, delta={"bm25l": 0.5, "bm25+": 1.0}.get(variant, 0), dtype="float64")
        ids = [[vocabulary[t] for t in terms[text]] for text in texts]
        own.index((ids, dict(vocabulary)), show_progress=False)
        for query, row in zip(queries, oracle(texts, queries, variant), strict=True):
            theirs = own.get_scores_from_ids([vocabulary[t] for t in terms[query] if t in vocabulary])
            for text, theirs_, score in zip(texts, theirs, row, strict=True):
                # Their δ counts for absent words too, the same in every text; here only what a text has counts.
                absent = [vocabulary[t] for t in terms[query] if t in vocabulary and t not in terms[text]]
                shift = 0.0 if own.nonoccurrence_array is None else own.nonoccurrence_array[absent].sum()
                assert theirs_ == pytest.approx(score + shift, abs=1e-12)


def test_the_delta_of_bm25_plus_counts_for_matching_words_only():
    texts = ["rare " + "filler " * 300, "other", "filler"]
    found = scores(texts, ["rare absent"], variant="bm25+")[0]
    assert found[0] > np.log(4) and found[1] == found[2] == 0


def test_documents_without_a_common_word_are_not_retrieved_and_ties_go_to_the_lower_row():
    texts = ["red apple", "green pear", "red apple", "Red, apple!", ""]
    space = space_of(texts)
    decoder = engine.Decoder(engine.make("top_k"), engine.make("bm25"))
    queries = engine.Embeddings(("a", "b", "c"), torch.ones(3, 2), texts=("APPLE red", "nothing", ""))
    answer = engine.decode(decoder, space, queries, k=5)
    assert answer.index.tolist() == [[0, 2, 3, -1, -1], [-1] * 5, [-1] * 5]
    assert answer.gain[0, 0] == answer.gain[0, 2] > 0 and answer.gain[0, 3:].tolist() == [0, 0]
    assert answer.gain[1:].abs().sum() == 0
    assert [info["matches"] for info in answer.info] == [3, 0, 0]


def test_corpora_without_a_word():
    assert scores(["", "...", "!"], ["x", ""]).abs().sum() == 0
    assert scores(["only"], ["only", "x"]).tolist() == [[pytest.approx(np.log(4 / 3) / 2.5, rel=1e-6)], [0]]


def test_titles_count_and_the_order_of_a_querys_words_does_not():
    space = space_of(["a method", "another"], ["Sorting", ""])
    found = engine.make("bm25").score(space, batch_of(["sorting another a method", "method a another sorting"]))
    assert found[0, 0] > found[0, 1] > 0 and torch.equal(found[0], found[1])


def test_what_is_cut_is_counted_once_and_what_is_weighted_kept(monkeypatch):
    texts, queries = make_cases(2)
    space, batch, cuts = space_of(texts), batch_of(queries), []
    count = bm25_index.count_terms
    monkeypatch.setattr(bm25_index, "count_terms", lambda t, ngrams: cuts.append(ngrams) or count(t, ngrams=ngrams))
    for k1 in (1.0, 2.0, 1.0):
        engine.make("bm25", k1=k1).score(space, batch)
    engine.make("bm25", ngrams="2").score(space, batch)
    assert cuts == ["1", "2"]
    assert bm25_index.build_index(space, "lucene", 1.0, 0.75, "1") is bm25_index.build_index(
        space, "lucene", 1.0, 0.75, "1"
    )


@pytest.mark.deep
def test_scores_are_the_same_in_every_process():
    code = (
        "from support.bm25_cases import make_cases, scores\n"
        "print(scores(*make_cases(5), variant='bm25l', ngrams='2').numpy().tobytes().hex())\n"
    )
    printed = subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True, text=True).stdout
    assert printed.strip() == scores(*make_cases(5), variant="bm25l", ngrams="2").numpy().tobytes().hex()


def test_a_missing_bm25s_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "bm25s", None)
    with pytest.raises(engine.FrontierError, match="pip install bm25s"):
        scores(["a"], ["a"])
