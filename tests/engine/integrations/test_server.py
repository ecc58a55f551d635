"""One decoder over HTTP: answers, what is refused, and who is let in."""

import asyncio
import json
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from starlette.testclient import TestClient

import engine
from engine.integrations import server
from engine.integrations.server import Service, build_app
from support.instances import random_rows
from support.model_server import KEY, KEY_ENV, ModelServer
from support.patience import patient
from support.rankings import space_of

MMR = engine.Decoder(engine.make("mmr", relevance_weight=0.4))
ROWS = random_rows(np.random.default_rng(0), 30, 4).astype(np.float32)
HERE = "http://127.0.0.1"
JSON = {"content-type": "application/json; charset=utf-8"}
ONE = {"vectors": ROWS[:1].tolist()}


@pytest.fixture(scope="module")
def own():
    """A client of a service over a corpus with vectors of its own."""
    return TestClient(build_app(Service(MMR, space_of(ROWS), k=4)), base_url=HERE)


@pytest.fixture(scope="module")
def embedded(demo):
    """A client of a service over the demo."""
    return TestClient(build_app(Service(MMR, demo[1], k=5)), base_url=HERE)


@pytest.mark.threat(
    "a request of a thousand long texts, which takes a minute to embed",
    "it is embedded in pieces, and the requests of others are answered between them",
)
def test_other_requests_are_answered_between_the_pieces_of_a_long_one(monkeypatch):
    service, embedded, others = Service(MMR, space_of(ROWS), k=2), [], []
    monkeypatch.setattr(server, "PIECE_SIZE", 1)

    def embed_slowly(texts, role):
        if not embedded:
            others.append(threading.Thread(target=service.answer, args=({"queries": ["of another"]},)))
            others[0].start()
        embedded.append(texts[0])
        time.sleep(0.01)
        return torch.from_numpy(ROWS[:1])

    embed_slowly.reference = None
    service._encode = embed_slowly
    assert len(service.answer({"queries": [f"text {number}" for number in range(200)]})["answers"]) == 200
    others[0].join(patient(20))
    assert "of another" in embedded[1:150] and embedded.index("text 0") == 0


def test_vectors_are_answered_with_ids_scores_and_certificates(own):
    ranking = engine.select(MMR.select, ROWS, ROWS[:3], k=4)
    found = own.post("/answer", json={"vectors": ROWS[:3].tolist()}).json()
    assert found["k"] == 4
    assert [one["ids"] for one in found["answers"]] == [[f"d{row}" for row in ranking.rows(b)] for b in range(3)]
    assert [one["scores"] for one in found["answers"]] == ranking.gain.tolist()
    assert [one["certificate"] for one in found["answers"]] == list(ranking.info)
    assert len(own.post("/answer", json={"vectors": ROWS[:1].tolist(), "k": 10**6}).json()["answers"][0]["ids"]) == 30


def test_texts_are_answered_as_decode_does_and_the_disk_is_left_alone(embedded, demo):
    from engine.data import cache, encoders

    dataset, space = demo
    before = set(cache.list_files(cache.home() / encoders.EMBEDDING_SECTION))
    texts = ["sort along two axes, asked for the first time", "mean of what is no number"]
    found = embedded.post("/answer", json={"queries": texts}).json()
    assert set(cache.list_files(cache.home() / encoders.EMBEDDING_SECTION)) == before
    ranking = engine.decode(MMR, space, texts, k=5)
    assert [one["ids"] for one in found["answers"]] == [
        [dataset.corpus.ids[r] for r in ranking.rows(b)] for b in (0, 1)
    ]


def test_a_decoder_that_reads_words_takes_them_with_the_vectors(demo):
    _, space = demo
    words = engine.Decoder(engine.make("top_k"), retrieve=engine.make("bm25"))
    client = TestClient(build_app(Service(words, space, k=3)), base_url=HERE)
    texts = ["sort array"]
    vectors = engine.embed(texts).vectors.tolist()
    both = client.post("/answer", json={"queries": texts, "vectors": vectors}).json()
    plain = client.post("/answer", json={"queries": texts}).json()
    assert both == plain and len(plain["answers"][0]["ids"]) == 3
    assert "reads the queries' words" in client.post("/answer", json={"vectors": vectors}).json()["error"]


def test_health_says_what_is_served(own, embedded):
    assert own.get("/health").json() == {
        "status": "ok",
        "decoder": MMR.label,
        "k": 4,
        "documents": 30,
        "corpus": "corpus",
        "encoder": None,
    }
    assert embedded.get("/health").json()["encoder"] == "bundled"


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"{", "Expecting"),
        (b"\xff", "decode"),
        (b"[" * 100_000, "recursion"),
        (b"[]", 'send {"queries"'),
        (b'{"k": 3}', 'send {"queries"'),
        (b'{"vectors": [[1, 0, 0, 0]], "k": 3, "k": 4}', "the key 'k' stands twice in one object"),
        (b'{"vectors": [[1, 0, 0, 0]], "other": 1}', 'send {"queries"'),
        (b'{"queries": "sort"}', "queries must be a list"),
        (b'{"queries": [1]}', "queries must be texts"),
        (b'{"queries": ["sort"]}', "own vectors, and no encoder"),
        (b'{"queries": []}', "queries (B) must be a whole number in [1, 1000]"),
        (b'{"vectors": [[1, 0]]}', "dimension"),
        (b'{"vectors": [[1, 0, 0, 0], [1]]}', "vectors must be a numeric array"),
        (b'{"vectors": [["a", 0, 0, 0]]}', "vectors must"),
        (b'{"vectors": [[NaN, 0, 0, 0]]}', "finite"),
        (b'{"vectors": [[1, 0, 0, 0]], "queries": ["a", "b"]}', "must be of one length; got 2 and 1"),
        (b'{"vectors": [[1, 0, 0, 0]], "k": 0}', "k must be a whole number"),
        (b'{"vectors": [[1, 0, 0, 0]], "k": "4"}', "k must be a whole number"),
    ],
)
def test_what_cannot_be_answered_is_said(own, body, why):
    found = own.post("/answer", content=body, headers=JSON)
    assert found.status_code == 400 and why in found.json()["error"]


def test_limits_of_size_and_way(own, monkeypatch):
    assert own.get("/answer").status_code == 405 and own.get("/other").status_code == 404
    monkeypatch.setattr(server, "MAX_REQUEST_BYTES", 100)
    assert own.post("/answer", content=b" " * 101, headers=JSON).status_code == 413


def test_on_loopback_only_loopback_names_are_answered():
    service = Service(MMR, space_of(ROWS))
    for host, name, status in (
        ("127.0.0.1", "evil.example", 400),
        ("127.0.0.1", "localhost:8600", 200),
        ("::1", "[::1]:8600", 200),
        ("0.0.0.0", "search.example", 200),
    ):
        client = TestClient(build_app(service, host), base_url=HERE)
        assert client.get("/health", headers={"host": name}).status_code == status, (host, name)


@pytest.mark.threat("a request of a few MB that becomes gigabytes, or that no answer was thought of", "4xx, a sentence")
@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b'{"vectors":[' + b"[]," * (1 << 19) + b"[]]}", 413),
        (b'{"queries":["x"],"k":' + b"9" * 5000 + b"}", 400),
        (b'{"queries":null}', 400),
        (b'{"vectors":null,"queries":null}', 400),
    ],
)
def test_requests_of_a_stranger_are_refused_by_a_sentence(own, body, status):
    found = own.post("/answer", content=body, headers=JSON)
    assert found.status_code == status and found.json()["error"]


def test_requests_do_not_add_up_to_the_limit_of_the_command(home, monkeypatch):
    monkeypatch.setenv(KEY_ENV, KEY)
    with ModelServer() as models:
        models.write_settings(home)
        corpus = engine.Corpus(("a", "b"), ("red apple", "blue sky"))
        service = Service(MMR, engine.Space(corpus, engine.embed(corpus, "endpoint:mine")), k=1)
        with engine.allow_tokens(100, ask=lambda estimate: pytest.fail("asked inside a request")):
            for number in range(4):
                assert service.answer({"queries": [f"query {number} {'word ' * 40}"]})["answers"]
        texts = models.texts()
        with engine.allow_tokens(100), pytest.raises(engine.FrontierError, match="would send"):
            service.answer({"queries": ["word " * 400]})
        assert models.texts() == texts


@pytest.mark.threat("a page of another site that has a browser ask the service", "403 or 415, nothing computed")
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"content-type": "text/plain"}, 415),
        ({"content-type": ""}, 415),
        ({"origin": "https://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "http://[::1"}, 403),
        ({"origin": "http://127.0.0.1:9999"}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
        ({"origin": HERE, "sec-fetch-site": "same-origin"}, 200),
    ],
)
def test_other_sites_pages_are_refused(own, monkeypatch, headers, status):
    n_answered = []
    answer = Service.answer
    monkeypatch.setattr(Service, "answer", lambda self, request: n_answered.append(1) or answer(self, request))
    response = own.post("/answer", content=json.dumps(ONE), headers={**JSON, **headers})
    assert response.status_code == status and len(n_answered) == (status == 200)
    assert status == 200 or response.json()["error"]


def test_long_texts_are_cut_and_that_is_said(embedded, monkeypatch):
    monkeypatch.setattr(server, "MAX_TEXT_CHARACTERS", 20)
    texts = ["sort along two axes, then take the mean", "sort an array"]
    response = embedded.post("/answer", json={"queries": texts}).json()
    assert response["notices"] == ["1 query cut to 20 characters"]
    cut = embedded.post("/answer", json={"queries": [texts[0][:20], texts[1]]}).json()
    assert response["answers"] == cut["answers"] and "notices" not in cut


@pytest.mark.threat("bodies that never end, or many large ones at a time", "408 or 503, and the memory is free again")
def test_unfinished_bodies_are_given_up_and_all_together_are_bounded(monkeypatch):
    monkeypatch.setattr(server, "BODY_TIMEOUT_S", 0.2)
    monkeypatch.setattr(server, "MAX_OPEN_BYTES", 1000)

    async def read(sizes, pause_s, hold_s=0.0):
        async def stream():
            for size in sizes:
                yield b" " * size
                await asyncio.sleep(pause_s)

        async with reader.read(SimpleNamespace(stream=stream)) as body:
            await asyncio.sleep(hold_s)
            return len(body)

    async def attack():
        with pytest.raises(server.RefusedRequest, match=r"within 0\.2 seconds") as refusal:
            await read([10, 10], 30)
        assert refusal.value.status == 408 and reader.n_open_bytes == 0
        # One body is being answered while another comes: the second does not fit beside it.
        first, second = await asyncio.gather(read([600], 0, 0.1), read([300, 300], 0.01), return_exceptions=True)
        assert first == 600 and second.status == 503 and reader.n_open_bytes == 0
        assert await read([600], 0) == 600

    reader = server.BodyReader()
    asyncio.run(attack())
