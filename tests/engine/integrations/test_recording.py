import json
import threading
from types import SimpleNamespace

import pytest

import engine
from engine import Cancelled, DataError, ParamError
from engine.integrations import record

CORPUS = engine.Corpus(("a", "b", "c"), ("red house", "blue door", "green roof"))
QUERIES = engine.Queries(("q1", "q2"), ("houses", "doors"))


def make_langchain_retriever():
    from langchain_core.documents import Document
    from langchain_core.runnables import RunnableLambda

    documents = [Document("blue door", metadata={"key": "b"}), Document("red house", metadata={"key": "a"})]
    return RunnableLambda(lambda query: documents)


def make_llama_index_retriever():
    from llama_index.core.schema import NodeWithScore, TextNode

    nodes = [NodeWithScore(node=TextNode(text=text), score=1.0) for text in ("blue door", "red house")]
    return SimpleNamespace(retrieve=lambda query: nodes)


def make_haystack_component():
    from haystack import Document

    documents = [Document(content=text, meta={"key": key}) for text, key in (("blue door", "b"), ("red house", "a"))]
    return SimpleNamespace(run=lambda query: {"documents": documents})


@pytest.mark.parametrize(
    "make_retriever, arguments",
    [
        (make_langchain_retriever, {"id_field": "key"}),
        (make_langchain_retriever, {"corpus": CORPUS}),
        (make_llama_index_retriever, {"corpus": CORPUS}),
        (make_haystack_component, {"id_field": "key", "corpus": CORPUS}),
        (lambda: lambda query: [("b", 0.9), ("a", 0.8)], {}),
        (lambda: lambda query, k: ["b", "a", "c"][:k], {}),
        (lambda: lambda query: [{"id": "b"}, {"text": "red house "}], {"corpus": CORPUS}),
    ],
)
def test_retrievers_of_all_kinds_give_a_run_with_ids_of_the_corpus(make_retriever, arguments, tmp_path):
    run = record(make_retriever(), QUERIES, 2, file=tmp_path / "mine.json", **arguments)
    assert run.documents == {"q1": ("b", "a"), "q2": ("b", "a")} and run.name == "mine"
    assert json.loads((tmp_path / "mine.json").read_text()) == {"q1": ["b", "a"], "q2": ["b", "a"]}


def test_what_cannot_be_recorded_is_refused_and_nothing_is_written(tmp_path):
    with pytest.raises(ParamError, match="retriever must be"):
        record(3, QUERIES)
    with pytest.raises(DataError, match="rank 1 of query 'q1' has no id"):
        record(lambda query: ["unknown"], QUERIES, corpus=CORPUS, file=tmp_path / "run.json")
    stop = threading.Event()
    stop.set()
    with pytest.raises(Cancelled):
        record(lambda query: ["a"], QUERIES, stop=stop, file=tmp_path / "run.json")
    assert list(tmp_path.iterdir()) == []


def test_a_function_with_a_number_of_its_own_is_recorded_as_it_answers():
    def search(query, k=2):
        return ["a", "b", "c"][:k]

    assert set(record(search, QUERIES).documents.values()) == {("a", "b")}
    assert set(record(search, QUERIES, 3).documents.values()) == {("a", "b", "c")}
    assert set(record(lambda query, n: [f"d{i}" for i in range(n)], QUERIES).documents.values()) == {
        tuple(f"d{i}" for i in range(10))
    }


def test_repeated_documents_and_no_answer_are_said():
    run = record(lambda query: ["a", "b", "a"], QUERIES)
    assert set(run.documents.values()) == {("a", "b")}
    assert "1 document came more than once in a list" in str(run.notices[0]) and "'a'" in str(run.notices[0])
    with pytest.raises(DataError, match=r"retriever must return documents for every query; query '.*' got None"):
        record(lambda query: None, QUERIES)
