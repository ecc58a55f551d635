"""A data set without copies or near-duplicates: documents, vectors, judgements, aspects and columns."""

from dataclasses import replace

import pytest
import torch

import engine
from engine.data.readers import COPIES_REMARK
from engine.evaluation.studies.drop_duplicates import DROPPED_ONE_REMARK, DROPPED_REMARK, keep_heads
from engine.evaluation.studies.near_duplicates import find_near_duplicates
from engine.values import EncoderRef, Notice, TextSource, UsableSplits


class StoredTexts(TextSource):
    """Texts that are read on demand."""

    def __init__(self, texts):
        self.texts = texts

    def __len__(self):
        return len(self.texts)

    def read_rows(self, row_ids):
        return [self.texts[row] for row in row_ids]


TEXTS = ("red", "blue", "red", "crimson", "red", "sky")
VECTORS = torch.tensor([[1, 0.0], [0, 1], [1, 0], [1, 0.1], [1, 0], [-1, 0]])


def make_dataset(texts=TEXTS):
    ids = tuple("abcdef")
    corpus = engine.Corpus(ids, texts, name="colours", metadata={"page": tuple("123456")})
    grades = {"q": {"a": 0, "c": 2, "e": 1, "b": 1, "gone": 1}, "r": {"e": 1, "d": 1}, "s": {"a": -1, "c": -1}}
    splits = UsableSplits({"test": engine.Qrels(grades, 2)}, {"dev": "all grades are 0"})
    aspects = {"q": {"warm": frozenset("ce"), "cold": frozenset("b")}}
    queries = engine.Queries(("q", "r", "s"), ("one", "two", "three"))
    return engine.Dataset(corpus, queries, splits, aspects, None)


@pytest.mark.parametrize("texts", [TEXTS, StoredTexts(TEXTS)])
def test_judgements_of_copies_count_for_the_document_that_stays(texts):
    dataset = make_dataset(texts)
    smaller = engine.drop_duplicates(dataset)
    assert smaller.corpus.ids == tuple("abdf") and list(smaller.corpus.texts) == ["red", "blue", "crimson", "sky"]
    assert smaller.corpus.metadata == {"page": tuple("1246")} and smaller.corpus.name == "colours"
    assert smaller.corpus.digest not in (
        dataset.corpus.digest,
        engine.drop_duplicates(smaller, "near", embed_colours(smaller)).corpus.digest,
    )
    qrels = smaller.qrels["test"]
    assert qrels.grades == {"q": {"a": 2, "b": 1, "gone": 1}, "r": {"a": 1, "d": 1}, "s": {"a": -1}}
    assert qrels.relevant_from == 2 and smaller.qrels.refusals == {"dev": "all grades are 0"}
    assert smaller.aspects == {"q": {"warm": frozenset("a"), "cold": frozenset("b")}}
    assert [(notice.count, notice.first) for notice in smaller.notices] == [(2, ("c", "e")), (1, ("q a",))]
    assert engine.drop_duplicates(smaller).corpus is smaller.corpus


def test_the_kind_of_judgements_is_kept():
    for kind in ("auto", "complete", "pooled"):
        smaller = engine.drop_duplicates(make_dataset().with_judgements(kind))
        assert len(smaller.corpus) == 4
        assert (smaller.qrels["test"].judgements, smaller.qrels["test"].relevant_from) == (kind, 2)


def embed_colours(dataset):
    """The vectors of a data set's documents, as an encoder made them."""
    rows = [ord(doc_id) - ord("a") for doc_id in dataset.corpus.ids]
    return engine.Embeddings(dataset.corpus.ids, VECTORS[rows], EncoderRef("some", "0", "float32"))


def test_judgements_stay_pooled_when_the_only_zero_was_that_of_a_copy():
    dataset = replace(make_dataset(), qrels={"test": engine.Qrels({"q": {"a": 0, "c": 2, "b": 1}})})
    assert dataset.qrels["test"].is_pooled and dataset.qrels["test"].judgements == "auto"
    (kept,) = engine.drop_duplicates(dataset, threshold=None).qrels.values()
    assert kept.grades == {"q": {"a": 2, "b": 1}} and kept.is_pooled


def test_vectors_are_taken_over():
    dataset = make_dataset()
    embeddings = embed_colours(dataset)
    near = engine.drop_duplicates(dataset, "near", embeddings)
    # a, c, d and e are one group, whose members have three neighbours each: the first stays.
    assert near.corpus.ids == near.vectors.ids == tuple("abf") and near.vectors.encoder == embeddings.encoder
    assert torch.equal(near.vectors.vectors, VECTORS[[0, 1, 5]])
    assert near.qrels["test"].grades["r"] == {"a": 1}
    strict = engine.drop_duplicates(dataset, "near", embeddings, threshold=0.999)
    assert strict.corpus.ids == engine.drop_duplicates(dataset, "copies", embeddings).corpus.ids == tuple("abdf")
    found = find_near_duplicates(engine.Space(dataset.corpus, embeddings))
    assert keep_heads(dataset, found.find_heads(), embeddings).corpus.digest == near.corpus.digest
    assert len(engine.Space(near.corpus, near.vectors)) == 3


def test_a_notice_of_copies_goes_with_the_copies():
    copies, empty = Notice(COPIES_REMARK, 2, ("c", "e")), Notice("documents have neither title nor text", 1)
    dataset = replace(make_dataset(), notices=(copies, empty))
    dropped = Notice(DROPPED_REMARK, 2, ("c", "e"), singular=DROPPED_ONE_REMARK)
    assert engine.drop_duplicates(dataset).notices[:2] == (empty, dropped)
    single = replace(engine.drop_duplicates(dataset), notices=(copies, empty))
    assert engine.drop_duplicates(single).notices == (copies, empty), "nothing was dropped"


def test_wrong_requests_say_what_to_do():
    dataset = make_dataset()
    with pytest.raises(engine.ParamError, match="duplicates must be one of 'copies', 'near'; got 'all'"):
        engine.drop_duplicates(dataset, "all")
    with pytest.raises(engine.DataError, match=r"embeddings=engine\.embed"):
        engine.drop_duplicates(dataset, "near")
    with pytest.raises(engine.DataError, match="not of this corpus"):
        engine.drop_duplicates(dataset, "near", engine.Embeddings(("a",), [[1.0]]))
