"""A search over HTTP as a function of a query: what it is sent, and every answer that is refused."""

import json

import pytest

import engine
from engine.data.endpoints import transport
from engine.integrations.endpoint import SearchEndpoint
from support.endpoints import serve


def test_a_query_and_its_headers_are_sent_and_ids_come_back_in_order():
    with serve(lambda request: {"answers": [{"ids": ["b", 7], "scores": [2, 1]}]}) as (url, requests):
        assert SearchEndpoint(url, {"Authorization": "Bearer key"})("héllo", 2) == ["b", "7"]
    assert [body for body, _ in requests] == [{"queries": ["héllo"], "k": 2}]
    assert requests[0][1]["Authorization"] == "Bearer key"


@pytest.mark.parametrize(
    "answer, words",
    [
        ({"answers": []}, "must answer one query"),
        ({"answers": [{"ids": ["a"]}, {"ids": ["b"]}]}, "must answer one query"),
        ({"answers": [{"ids": [None]}]}, "must answer one query"),
        ({"answers": [{"documents": ["a"]}]}, "must answer one query"),
        (["a"], "must answer one query"),
        (b"<html>", "got a web page"),
        (b"\xff", "must answer one query"),
        (b"x" * 2000, "more than 0 MiB"),
        (404, "status 404"),
        (302, "status 302"),
    ],
)
def test_other_answers_are_refused_and_quoted(answer, words, monkeypatch):
    monkeypatch.setattr(transport, "MAX_RESPONSE_BYTES", 1000)
    with serve(lambda request: answer) as (url, _), pytest.raises(engine.DataError, match=words):
        SearchEndpoint(url)("a query", 3)


def test_a_redirect_is_not_followed():
    with (
        serve(lambda request: {"answers": [{"ids": ["a"]}]}) as (target, requests),
        serve(lambda request: 302, location=target) as (url, _),
        pytest.raises(engine.DataError, match="302"),
    ):
        SearchEndpoint(url, {"Authorization": "Bearer key"})("a query", 3)
    assert not requests


def test_other_addresses_are_refused_and_a_silent_one_is_named():
    for url in ("file:///etc/passwd", "ftp://host/x", "127.0.0.1:8600/answer", "http://", ""):
        with pytest.raises(engine.ParamError, match="url must be an address of http or https"):
            SearchEndpoint(url)
    with serve(lambda request: 200) as (url, _):
        pass
    with pytest.raises(engine.DataError, match="is the service running"):
        SearchEndpoint(url)("a query", 3)
    with pytest.raises(engine.DataError, match="HTTP cannot carry") as caught:
        SearchEndpoint(url, {"Bad": "line\nbreak"})("a query", 3)
    assert "break" not in str(caught.value)


def test_an_answer_that_repeats_a_header_is_not_quoted():
    with (
        serve(lambda request: b'{"error": "not Bearer hunter2-secret-key"}') as (url, _),
        pytest.raises(engine.DataError, match="repeats the key") as caught,
    ):
        SearchEndpoint(url, {"Authorization": "Bearer hunter2-secret-key"})("a query", 3)
    assert "hunter2" not in str(caught.value)


def test_numbers_of_json_are_ids_as_they_are_written():
    with serve(lambda request: json.dumps({"answers": [{"ids": [12345678901234567890]}]}).encode()) as (url, _):
        assert SearchEndpoint(url)("a query", 1) == ["12345678901234567890"]
