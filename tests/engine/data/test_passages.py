"""Documents cut into windows: nothing is lost, ids hold still, judgements go both ways."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as some

import engine
from engine.data.passages import cut_passages, part_id, split_id
from engine.values import Corpus

LENGTHS = [0, 1, 4, 5, 6, 9, 10, 11, 40]


def documents(lengths=LENGTHS):
    texts = tuple(" ".join(f"w{d}.{i}" for i in range(n)) for d, n in enumerate(lengths))
    return Corpus(tuple(f"d{d}" for d in range(len(lengths))), texts, tuple(f"title {d}" for d in range(len(lengths))))


@pytest.mark.parametrize("words, overlap", [(5, 0.0), (5, 0.5), (4, 0.9), (1, 0.0), (10, 0.25), (1000, 0.5)])
def test_windows_cover_every_word_in_order(words, overlap):
    corpus, passages = documents(), cut_passages(documents(), words, overlap)
    step = max(1, round(words * (1 - overlap)))
    for row, text in enumerate(corpus.texts):
        all_words = text.split()
        parts = [i for i, d in enumerate(passages.documents.tolist()) if d == row]
        windows = [passages.corpus.texts[i].split() for i in parts]
        assert len(windows) == max(1, math.ceil((len(all_words) - words) / step) + 1)
        for number, window in enumerate(windows):
            assert window == all_words[number * step : number * step + words]
        assert set().union(*map(set, windows)) == set(all_words)
        assert [passages.corpus.ids[i] for i in parts] == [f"d{row}#{number}" for number in range(len(parts))]
        assert {passages.corpus.titles[i] for i in parts} == {f"title {row}"}
    assert passages.documents.tolist() == sorted(passages.documents.tolist())


def test_a_text_stays_as_it_is_written():
    odd = "  one\ttwo \n\n three  four "
    assert cut_passages(Corpus(("a",), (odd,)), words=4).corpus.texts == (odd,)
    assert cut_passages(Corpus(("a",), (odd,)), words=3, overlap=0.0).corpus.texts == ("one\ttwo \n\n three", "four")


@given(some.lists(some.tuples(some.text(max_size=6), some.integers(0, 200)), unique=True))
def test_no_two_parts_meet_in_one_id(parts):
    ids = [part_id(*part) for part in parts]
    assert len(set(ids)) == len(parts) and [split_id(part) for part in ids] == parts


@pytest.mark.parametrize("strange", ["a", "a#", "a#b", "a#-1", "a#01", "a#²", "", "a#" + "9" * 5000])
def test_an_id_that_is_no_parts_is_refused(strange):
    with pytest.raises(engine.DataError, match="part's id"):
        split_id(strange)


def test_a_wrong_id_is_quoted_as_far_as_it_can_be_read():
    with pytest.raises(engine.DataError, match=r"^.{,80}'a#999.{,100}$"):
        split_id("a#" + "9" * 5000)
    assert split_id(part_id("a", 10**17)) == ("a", 10**17)


def test_documents_named_like_passages_do_not_collide():
    corpus = Corpus(("a", "a#1", "#", ""), ("x " * 30, "y " * 30, "z " * 30, "w " * 30))
    passages = cut_passages(corpus, words=10)
    assert [corpus.position[split_id(p)[0]] for p in passages.corpus.ids] == passages.documents.tolist()


def test_passage_ids_are_independent_of_other_documents():
    corpus = documents()
    order = random.Random(0).sample(range(len(corpus)), 5)
    fewer = Corpus(tuple(corpus.ids[i] for i in order), tuple(corpus.texts[i] for i in order))
    by_id = dict(zip(cut_passages(corpus, 5).corpus.ids, cut_passages(corpus, 5).corpus.texts, strict=True))
    assert all(
        by_id[p] == text
        for p, text in zip(cut_passages(fewer, 5).corpus.ids, cut_passages(fewer, 5).corpus.texts, strict=True)
    )


def test_a_corpus_of_passages_is_a_corpus():
    passages = cut_passages(documents(), words=10)
    space = engine.Space(passages.corpus, engine.embed(passages.corpus))
    best = engine.decode(engine.Decoder(engine.make("top_k")), space, [passages.corpus.passages[-1]], k=1)
    assert best.index.item() == len(passages) - 1


@pytest.mark.parametrize("bad", [{"words": 0}, {"words": 2.5}, {"overlap": 0.95}, {"overlap": -0.1}])
def test_bad_window_raises_param_error(bad):
    with pytest.raises(engine.ParamError, match=next(iter(bad))):
        cut_passages(documents(), **bad)
    with pytest.raises(engine.DataError, match="no documents"):
        cut_passages(Corpus((), ()))
