"""Relevance by an endpoint: the scores, what is sent and kept, and every answer that is refused."""

import threading

import pytest

import engine
from engine.data.endpoints.config import read_endpoint
from engine.data.endpoints.rerank import EndpointRanker, find_reranker, fingerprint, list_rerankers
from engine.errors import Cancelled, DataError, FrontierError
from support.model_server import RERANK, changed_answer, status_fault, word_overlap

DOCUMENTS = [f"sort the array {number}" if number % 3 else f"words {number}" for number in range(20)]


def ranker():
    return EndpointRanker(find_reranker("mine"))


def edit(change):
    """A fault: the right answer after its results were changed."""
    return changed_answer(lambda answer: {"results": change(answer["results"]) or answer["results"]})


def test_scores_are_those_of_the_server_and_pairs_are_sent_once(server, home):
    server.write_settings(home, batch=6)
    queries = ["sort an array", "words"]
    expected = [[word_overlap(query, text) for text in [*DOCUMENTS, DOCUMENTS[0]]] for query in queries]
    done = []
    assert ranker().score(queries, [[*DOCUMENTS, DOCUMENTS[0]]] * 2, done.append) == expected
    assert len(server.requests) == 8 and len(server.texts(RERANK)) == 40 and done == sorted(done)
    assert {body["top_n"] for _, body in server.requests} == {6, 2}
    assert ranker().score(queries[:1], [[DOCUMENTS[3], "a new text"]])[0][0] == expected[0][3]
    assert server.requests[8:] == [(RERANK, {**server.requests[0][1], "documents": ["a new text"], "top_n": 1})]


def test_the_first_endpoint_and_its_version_decide_the_key(server, home):
    assert list_rerankers() == ["first", "mine"] and find_reranker("first") == read_endpoint("mine")
    digests = {fingerprint(find_reranker("first"))}
    for changed in ({"rerank": "b"}, {"version": "2"}, {"url": "http://127.0.0.1:1/v1"}, {"batch": 3}):
        server.write_settings(home, **changed)
        digests.add(fingerprint(find_reranker("first")))
    assert len(digests) == 4  # how many texts a request has does not matter
    server.write_settings(home, rerank=None)
    assert list_rerankers() == []
    with pytest.raises(DataError, match=r"\[mine\] names no model for rerank"):
        find_reranker("mine")
    with pytest.raises(DataError, match="no endpoint 'first', it has mine"):
        find_reranker("first")
    (home / "endpoints.toml").write_text("no toml")
    assert list_rerankers() == ["first"]


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (edit(lambda results: results[1:]), "scored 2 of 3 documents"),
        (edit(lambda results: [*results, results[0]]), "scored 4 of 3 documents"),
        (edit(lambda results: results[0].update(index=results[1]["index"])), "must number its scores by index, 0 to 2"),
        (edit(lambda results: results[0].update(index=7)), "must number its scores by index"),
        (edit(lambda results: results[0].update(index=None)), "must number its scores by index"),
        (edit(lambda results: results[0].update(relevance_score=float("nan"))), "no finite number"),
        (edit(lambda results: results[0].update(relevance_score="0.5")), "no finite number"),
        (edit(lambda results: results[0].pop("relevance_score") and None), "no finite number"),
        (edit(lambda results: results[0].update(relevance_score=True)), "no finite number"),
        (edit(lambda results: [1, 2, 3]), 'must answer with {"results"'),
        (changed_answer(lambda answer: answer["results"]), 'must answer with {"results"'),
        (changed_answer(lambda answer: {"results": {}}), 'must answer with {"results"'),
    ],
)  # fmt: skip
def test_wrong_answers_are_refused_by_a_sentence_and_not_kept(server, fault, message):
    server.faults.append(fault)
    with pytest.raises(DataError, match=message) as caught:
        ranker().score(["a"], [["a", "b", "c"]])
    assert str(caught.value).startswith("endpoint 'mine' at 127.0.0.1:")
    assert ranker().score(["a"], [["a", "b", "c"]]) == [[4.0, -4.0, -4.0]]
    assert len(server.requests) == 2


def test_what_came_back_before_an_error_or_a_stop_is_kept(server, home):
    server.write_settings(home, batch=5, requests=1)
    server.faults += [None, None, status_fault(402)]
    with pytest.raises(DataError, match="status 402"):
        ranker().score(["words"], [DOCUMENTS])
    stop = threading.Event()
    server.faults.append(lambda handler, body: stop.set())
    with pytest.raises(Cancelled):
        ranker().score(["words"], [DOCUMENTS], stop=stop)
    ranker().score(["words"], [DOCUMENTS])
    sizes = [len(body["documents"]) for _, body in server.requests]
    # One request was refused; that in flight as the work was stopped is asked again if it came too late.
    assert sizes in ([5] * 5, [5] * 6) and set(server.texts(RERANK)) == set(DOCUMENTS)


def test_large_pools_need_consent(server):
    pools = [[f"{number} {'word ' * 700}" for number in range(100)]]
    with pytest.raises(FrontierError, match=r"100 texts, about 117 k tokens, to 127"):
        ranker().score(["words"], pools)
    assert server.requests == []
    with engine.allow_tokens(120_000):
        assert len(ranker().score(["words"], pools)[0]) == 100
