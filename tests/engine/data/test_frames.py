"""Documents and judgements from data frames, dictionaries and rows."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import engine

DOCUMENTS = pd.DataFrame(
    {
        "doc_id": [11, 12, 13],
        "title": ["A", None, "C"],
        "text": ["one", "two", "three"],
        "emb": list(np.array([[3.0, 0.0], [0.0, 1.0], [1.0, 1.0]], np.float32)),
        "lang": ["en", "de", "en"],
    }
)
JUDGEMENTS = pd.DataFrame({"query_id": ["q1", "q1", "q2"], "docno": [11, 12, 13], "rel": [2, 0, 1]})
GRADES = {"q1": {"11": 2, "12": 0}, "q2": {"13": 1}}


def as_polars(frame):
    """Return a frame of pandas as one of polars, skipping the test without polars."""
    polars = pytest.importorskip("polars")
    return polars.from_arrow(pa.Table.from_pandas(frame))


KINDS = {"pandas": lambda frame: frame, "polars": as_polars, "pyarrow": pa.Table.from_pandas}


@pytest.mark.parametrize("kind", KINDS)
def test_frame_of_any_kind_is_a_corpus_with_vectors(kind):
    frame = KINDS[kind](DOCUMENTS)
    options = {"columns": {"vectors": "emb"}, "metadata": ["lang"], "normalize": True}
    dataset = engine.load_dataset(frame, **options)
    assert dataset.corpus.ids == ("11", "12", "13") and dataset.corpus.titles == ("A", "", "C")
    assert dataset.corpus.metadata == {"lang": ("en", "de", "en")}
    np.testing.assert_allclose(dataset.vectors.vectors[0], [1.0, 0.0])
    space = engine.Space(dataset.corpus, dataset.vectors)
    decoder = engine.Decoder(engine.make("top_k"))
    assert engine.decode(decoder, space, [0.0, 1.0], k=1).to_frame(space)["document"].tolist() == ["12"]
    assert engine.load_dataset(frame, where={"lang": ["de"]}).corpus.ids == ("12",)


@pytest.mark.parametrize("kind", KINDS)
def test_frame_of_any_kind_is_judgements(kind):
    assert engine.load_qrels(KINDS[kind](JUDGEMENTS)).grades == GRADES


@pytest.mark.parametrize(
    "source,expected",
    [
        (GRADES, GRADES),
        ({"q1": ["a", "b"]}, {"q1": {"a": 1, "b": 1}}),
        # Its values alone would pass for rows of a query and a document.
        (pd.Series({"q1": ["a", "b"]}), {"q1": {"a": 1, "b": 1}}),
        ([("q1", "a", 2.0), ("q1", "b")], {"q1": {"a": 2, "b": 1}}),
        (JUDGEMENTS.drop(columns="rel"), {"q1": {"11": 1, "12": 1}, "q2": {"13": 1}}),
    ],
)
def test_dictionaries_and_rows_are_judgements(source, expected):
    qrels = engine.load_qrels(source, relevant_from=2)
    assert qrels.grades == expected and qrels.relevant_from == 2
    # The digest reads grades as text, in which 2.0 and 2 differ.
    assert qrels == engine.Qrels(expected, 2)


@pytest.mark.parametrize(
    "source,message",
    [
        (JUDGEMENTS.assign(rel=0.5), "grades must be whole numbers; got 0.5"),
        (JUDGEMENTS.drop(columns="docno"), "it has query_id, rel. Call the column of documents document_id"),
        ([("q", "a", 1), ("q", "a", 2)], "must grade a document once .* got 1 and 2"),
        (3, "qrels must be a data frame .* got int"),
        ({"q": 1}, "qrels must map each query"),
    ],
)
def test_judgements_that_cannot_be_read_are_refused(source, message):
    with pytest.raises(engine.DataError, match=message):
        engine.load_qrels(source)


def test_frame_that_is_no_corpus_is_refused_with_the_fix():
    with pytest.raises(engine.DataError, match="a frame must have the columns 'body'; it has doc_id"):
        engine.load_dataset(DOCUMENTS, columns={"text": "body"})
    with pytest.raises(engine.DataError, match="qrels= is for files, and a frame holds documents alone"):
        engine.load_dataset(DOCUMENTS, qrels="other")
    with pytest.raises(engine.DataError, match="row 1 of the frame: 'text' must be text; got 2"):
        engine.load_dataset(DOCUMENTS.assign(text=["a", 2, "b"]))
    with pytest.raises(engine.DataError, match="1 id more than once"):
        engine.load_dataset(DOCUMENTS.assign(doc_id=[1, 1, 2]), columns={"id": "doc_id"})
