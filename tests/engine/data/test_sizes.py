"""A data set in numbers, by hand, and as the command line prints it."""

import json

import engine
from engine.data.sizes import Spread, measure_sizes
from support.cli import run
from support.datafiles import beir


def test_sizes_by_hand():
    corpus = engine.Corpus(("a", "b", "c"), ("one two", "three", "four five six"), ("t", "", ""))
    queries = engine.Queries(("p", "q", "r", "s"), ("x", "x y", "x y z", "w"))
    qrels = {
        "train": engine.Qrels({"p": {"a": 1, "b": 2}, "q": {"c": 1}}),
        "test": engine.Qrels({"r": {"b": 1, "a": 1, "c": 0}, "s": {"a": 0, "b": 0}, "q": {"gone": 1}}),
    }
    sizes = measure_sizes(
        engine.Dataset(corpus, queries, qrels, {"p": {"x": frozenset("a"), "y": frozenset("b")}, "q": {}})
    )
    assert (sizes.documents, sizes.queries) == (3, 4)
    assert sizes.document_words == Spread(1, 3.0, 7 / 3, 3) and sizes.query_words == Spread(1, 1.5, 7 / 4, 3)
    assert sizes.aspects == Spread(2, 2.0, 2.0, 2)
    train, test = sizes.splits
    assert (train.split, train.queries, train.answerable, train.judgements, train.missing) == ("train", 2, 2, 3, 0)
    assert train.relevant == Spread(1, 1.5, 1.5, 2) and (train.shared, test.shared) == (1, 1)
    assert (test.queries, test.answerable, test.judgements, test.missing) == (3, 2, 6, 1)
    empty = measure_sizes(engine.Dataset(corpus, engine.Queries((), ())))
    assert empty.splits == () and empty.query_words is None


def test_the_command_prints_them(tmp_path):
    documents = [{"_id": name, "text": text} for name, text in (("a", "a red cat"), ("b", "a dog"))]
    folder = beir(tmp_path, documents, [{"_id": "q", "text": "red dog"}], qrels__test="q\ta\t1\nq\tb\t1\n")
    output = run("data", "--corpus", str(folder))
    assert "2 documents, words: 2 / 2.50 / 3" in output and "1 query, words: 2 / 2.00 / 2" in output
    (line,) = [line for line in output.splitlines() if line.startswith("test ")]
    assert line.split() == ["test", "1", "1", "2", "2", "/", "2.00", "/", "2", "0", "0"]
    sizes = json.loads(run("data", "--corpus", str(folder), "--json"))
    assert sizes["splits"][0]["relevant"] == {"least": 2, "median": 2.0, "mean": 2.0, "most": 2}
