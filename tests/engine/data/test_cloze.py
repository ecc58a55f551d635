"""The containing-passage task: what it promises of every query, and corpora that make it hard."""

import re

import pytest

import engine
from engine.data.cloze import are_passages, find_containing_rows
from engine.theory.text_vectors import text_vectors
from support.random_texts import corpus_of

TEXT = (
    "The boundary layer grows along the plate, and its thickness follows from the momentum integral.",
    "Heat moves through a slab of metal; the temperature at the far side rises late, and slowly.",
    "A wing in supersonic flow meets a shock wave at its leading edge. The pressure jumps there.",
    "Rotating discs carry stresses that grow with the square of the speed, whatever the material may be.",
    "Small holes in a panel weaken it less than long cracks do, which tests at low load have shown.",
)


def normalise(text):
    return " ".join(re.findall(r"\w+", text.lower()))


def holds(text, span):
    return f" {normalise(span)} " in f" {normalise(text)} "


@pytest.mark.parametrize("seed", range(5))
def test_cloze_queries_are_in_their_documents_and_distractors_differ(seed):
    corpus = corpus_of(TEXT, [f"title {i}" for i in range(5)])
    data = engine.containing_passages(corpus, distractors=3, seed=seed)
    n = len(corpus)
    assert data.corpus.ids[:n] == corpus.ids and data.corpus.texts[:n] == corpus.texts
    assert len(data.queries) == n and len(data.corpus) == n + 3 * n and data.notices == ()
    assert data.queries.ids == tuple(f"{doc}?" for doc in corpus.ids)
    for doc, text, query, span in zip(corpus.ids, TEXT, data.queries.ids, data.queries.texts, strict=True):
        assert holds(text, span) and 5 <= len(normalise(span).split()) <= 25 and span in text
        assert data.qrels["test"].grades[query] == {doc: 1}
        for number in (1, 2, 3):
            row = data.corpus.position[f"{doc}~{number}"]
            changed_words, changed = normalise(data.corpus.texts[row]).split(), 1 + (number - 1) % 2
            source = normalise(text).split()
            differ = [i for i, (a, b) in enumerate(zip(source, changed_words, strict=True)) if a != b]
            start = f" {' '.join(source)} ".index(f" {normalise(span)} ")
            first = len(" ".join(source)[:start].split())
            assert len(differ) == changed and first <= differ[0] and differ[-1] < first + len(normalise(span).split())
            assert data.corpus.titles[row] == corpus.titles[corpus.position[doc]]
            assert set(changed_words) <= set(normalise(" ".join(TEXT)).split())


def test_same_seed_same_task_and_fewer_are_some_of_more():
    corpus = corpus_of(TEXT)
    first, again, reseeded = (engine.containing_passages(corpus, seed=seed) for seed in (1, 1, 2))
    assert (first.corpus, first.queries, first.qrels["test"]) == (again.corpus, again.queries, again.qrels["test"])
    assert first.queries != reseeded.queries
    fewer = engine.containing_passages(corpus, 2, seed=1)
    texts = dict(zip(first.queries.ids, first.queries.texts, strict=True))
    assert len(fewer.queries) == 2
    assert all(texts[i] == t for i, t in zip(fewer.queries.ids, fewer.queries.texts, strict=True))
    # A document's passage does not hang on its neighbours.
    alone = engine.containing_passages(engine.Corpus(("d3",), (TEXT[3],)), distractors=0, seed=1)
    assert alone.queries.texts[0] == texts["d3?"]


def test_a_passage_that_occurs_in_several_documents_has_them_all():
    twin = TEXT[0].upper().replace(",", " --")
    data = engine.containing_passages(corpus_of([TEXT[0], TEXT[1], twin, TEXT[0]]))
    for query in ("d0?", "d3?"):
        assert {d for d in data.qrels["test"].relevant(query) if "~" not in d} == {"d0", "d2", "d3"}
    assert data.qrels["test"].relevant("d1?") == {"d1"}
    assert any("occur in several documents" in notice.remark and notice.count == 3 for notice in data.notices)


def test_a_distractor_that_contains_another_query_is_relevant_to_it():
    data = engine.containing_passages(corpus_of([TEXT[0], TEXT[0]]), shortest=5, longest=5, seed=3)
    for query, span in zip(data.queries.ids, data.queries.texts, strict=True):
        expected = {doc for doc, text in zip(data.corpus.ids, data.corpus.texts, strict=True) if holds(text, span)}
        assert data.qrels["test"].relevant(query) == expected


def test_short_documents_give_no_query_and_a_notice():
    data = engine.containing_passages(corpus_of(["too short", TEXT[0], "", "one two three four five"]))
    assert data.queries.ids == ("d1?", "d3?") and data.queries.texts[1] == "one two three four five"
    assert [(n.count, n.first) for n in data.notices] == [(2, ("d0", "d2"))]
    for texts, longest in ((["too short"], "the longest of 1 has 2; lower"), ([], "the longest of 0 has 0")):
        with pytest.raises(engine.DataError, match=f"no document has a passage of 5 words .* {longest}"):
            engine.containing_passages(corpus_of(texts))


def test_impossible_distractors_are_omitted_with_a_notice():
    data = engine.containing_passages(corpus_of(["la la la la la la la"]))
    assert len(data.corpus) == 1 and data.qrels["test"].relevant("d0?") == {"d0"}
    assert any("could not be made" in notice.remark and notice.count == 2 for notice in data.notices)


def test_passages_of_a_length_are_the_documents():
    """Sparse-dense §5: l words each, none of them twice, whatever the documents' own lengths."""
    corpus = corpus_of([f"{TEXT[0]} {TEXT[1]}", TEXT[2]], ["one", "two"])
    data = engine.containing_passages(corpus, distractors=1, shortest=3, longest=5, length=12)
    n = sum(-(-len(text.split()) // 12) for text in corpus.texts)
    assert data.corpus.ids[:3] == ("d0#0", "d0#1", "d0#2") and len(data.queries) <= n == len(data.corpus) - len(
        data.queries
    )
    assert {len(text.split()) for text in data.corpus.texts[:2]} == {12}
    joined = " ".join(t for name, t in zip(data.corpus.ids[:n], data.corpus.texts, strict=False) if name < "d1")
    assert joined.split() == corpus.texts[0].split()
    for query, span in zip(data.queries.ids, data.queries.texts, strict=True):
        assert query.removesuffix("?") in data.qrels["test"].grades[query] and len(normalise(span).split()) <= 5
    full = engine.containing_passages(corpus, distractors=1, shortest=3, longest=5)
    assert (
        full.corpus.digest
        == engine.containing_passages(corpus, distractors=1, shortest=3, longest=5, length=None).corpus.digest
    )
    with pytest.raises(engine.ParamError, match=r"length \(l\) must be a whole number in \[1, ∞\) or none"):
        engine.containing_passages(corpus, length=0)


def test_distractor_ids_do_not_collide():
    corpus = engine.Corpus(("a", "a~1"), TEXT[:2])
    data = engine.containing_passages(corpus, distractors=1)
    assert data.corpus.ids == ("a", "a~1", "a~1~", "a~1~1")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"count": 0}, r"count must be a whole number in \[1, ∞\); got 0"),
        ({"shortest": 9, "longest": 8}, r"longest must be a whole number in \[9, ∞\), shortest being 9; got 8"),
        ({"distractors": -1}, r"distractors must be a whole number in \[0, 100\]; got -1"),
        ({"changed": 0}, r"changed must be a whole number in \[1, ∞\); got 0"),
        ({"seed": 0.5}, "seed must be a whole number"),
    ],
)
def test_bad_option_raises_error_with_range_and_value(options, message):
    with pytest.raises(engine.ParamError, match=message):
        engine.containing_passages(corpus_of(TEXT), **options)


def test_containing_finds_whole_words_only():
    texts = ["the cat sat", "The CAT, sat!", "thecat sat", "cats sat", ""]
    assert find_containing_rows(texts, ["cat sat", "sat", "unknown word"]) == [[0, 1], [0, 1, 2, 3], []]


def test_cloze_data_set_works_with_the_engine():
    data = engine.containing_passages(corpus_of(TEXT))
    words = text_vectors(data.corpus, data.queries, "bm25")
    space = engine.Space(data.corpus, engine.Embeddings(data.corpus.ids, words.documents.toarray()), "cpu")
    embedded = engine.Embeddings(data.queries.ids, words.queries.toarray())
    ranking = engine.decode(engine.Decoder(engine.make("top_k")), space, embedded, k=3)
    got = engine.measure(ranking, space, embedded, data.qrels["test"], 3, ("recall", "mrr", "ndcg"))
    # A document with all the words beats its copies without one of them.
    assert got.mean == {"recall": 1, "mrr": 1, "ndcg": 1} and got.left_out == 0


@pytest.mark.parametrize(
    ("split", "ids", "expected"),
    [
        ("passages", ["a?"], True),
        ("half 1 of passages", ["a?"], True),
        ("passages", ["a"], False),
        ("test", ["a?"], False),
    ],
)
def test_passages_are_known_by_their_split_and_their_ids(split, ids, expected):
    assert are_passages(split, ids) is expected
