"""What theory's measurements take: little more memory than their result, one count of words, a way to stop."""

import functools
import gc
import threading
import tracemalloc

import numpy as np
import pytest
import torch

import engine

# Before a test replaces count_words: a module that is first imported meanwhile would keep the replacement for good.
import engine.scoring.random_projection
import engine.theory.segments
import engine.theory.text_vectors
from engine.progress import report_to
from engine.text import bag_of_words
from engine.text.bag_of_words import count_words
from support.random_texts import corpus_of, make_texts, space_of


def peak_of(call):
    """Bytes that a call held at most, beyond what was there."""
    gc.collect()
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_counting_words_takes_little_more_than_the_counts():
    rng = np.random.default_rng(8)
    texts = [" ".join(f"w{i}" for i in rng.integers(0, 3000, 60)) for _ in range(1000)]
    counts, columns = count_words(texts)
    assert list(columns) == sorted(columns) and list(columns.values()) == list(range(len(columns)))
    assert counts.has_sorted_indices and counts.sum() == 60_000
    size = sum(part.nbytes for part in (counts.data, counts.indices, counts.indptr))
    assert peak_of(lambda: count_words(texts)) < 4 * size
    # Words that are not known are left out, the columns stay.
    some, same = count_words(["w1 zz w1", [], ["w2", "nope"]], columns)
    assert same is columns and some.toarray().sum(axis=1).tolist() == [2, 0, 1]
    assert count_words([])[0].shape == (0, 0) and count_words(["", "a"])[0].toarray().tolist() == [[0], [1]]


def test_projections_are_drawn_piece_by_piece():
    rng = np.random.default_rng(9)
    corpus = corpus_of([" ".join(f"w{i}" for i in rng.integers(0, 6000, 40)) for _ in range(300)])
    whole = 6000 * 2048 * 4
    measure = functools.partial(engine.recall_dimensions, corpus, ["w1 w2 w3 w4"], dimensions=(2048,), draws=1, bins=1)
    for reduction in ("rademacher", "gaussian"):
        assert peak_of(lambda kind=reduction: measure(reduction=kind)) < whole


def test_a_space_counts_its_words_once(monkeypatch):
    corpus, queries = make_texts(10)
    space = space_of(corpus, torch.ones(len(corpus), 2))
    times = []
    monkeypatch.setattr(bag_of_words, "count_words", lambda *given: times.append(1) or count_words(*given))
    assert not bag_of_words.has_words(space)
    for passage_words in (5, 10):
        own, of = (engine.segments(where, queries, passage_words=passage_words) for where in (space, corpus))
        assert own.passages.tolist() == pytest.approx(of.passages.tolist())
    assert engine.margins(space, queries).smallest == engine.margins(corpus, queries).smallest
    assert engine.recall_dimensions(space, queries, dimensions=(8,), bins=1)[0].queries == 12
    engine.make("random_projection", dimension=4).prepare(space)
    assert len(times) == 1 and bag_of_words.has_words(space)


def test_long_measurements_tell_and_stop():
    corpus, queries = make_texts(11)
    seen, stop = [], threading.Event()
    engine.margins(corpus, queries, bins=3, progress=lambda *told: seen.append(told))
    assert seen == [(1, 3, "margins"), (2, 3, "margins"), (3, 3, "margins")]
    texts = ["one two three"] * 2500
    with report_to(lambda *told: seen.append(told)):
        count_words(texts)
    assert seen[3:] == [(1024, 2500, "counting words"), (2048, 2500, "counting words")]
    stop.set()
    for measure in (engine.margins, engine.segments, engine.pair_errors, engine.recall_dimensions):
        with pytest.raises(engine.Cancelled):
            measure(corpus, queries, stop=stop)
    with report_to(stop=stop), pytest.raises(engine.Cancelled, match="counting words"):
        count_words(texts)
