"""Embeddings by an endpoint: the vectors, what is sent, kept and asked again, and every answer that is refused."""

import base64
import json
import random
import threading
import time
from collections import Counter

import numpy as np
import pytest

import engine
from engine.data.encoders import TextEncoder, count_truncated, estimate_sending, split_chunks
from engine.data.endpoints import embeddings
from engine.data.endpoints.consent import estimate_tokens
from engine.errors import Cancelled, DataError, FrontierError, ParamError
from support.fork_server import fork_python
from support.model_server import (
    EMBEDDINGS,
    KEY,
    KEY_ENV,
    bundled_vectors,
    changed_answer,
    hashed_vectors,
    make_texts,
    status_fault,
    too_long_fault,
)
from support.random_texts import corpus_of

TEXTS = [f"text {number}{' word' * (number % 7)}" for number in range(200)]
PROBES = embeddings.PROBE_TEXTS[: embeddings.N_PROBES]
PROBE_TOKENS = sum(map(estimate_tokens, map(str.encode, PROBES)))
MINE = "endpoint:mine"


@pytest.fixture(autouse=True)
def probed_anew(monkeypatch):
    """Have each call of `embed` ask for the probes, as a new process would."""
    monkeypatch.setattr(embeddings, "PROBE_SECONDS", 0.0)


def sent_texts(server):
    """List the texts that were sent beside the probes."""
    return [text for text in server.texts() if text not in PROBES]


@pytest.mark.parametrize("encoding_format", ["float", "base64"])
def test_vectors_are_those_of_the_server_at_unit_length_and_sent_once(server, home, encoding_format):
    server.write_settings(home, encoding_format=encoding_format, batch=7)
    corpus = corpus_of(TEXTS)
    vectors = engine.embed(corpus, MINE)
    expected = hashed_vectors(TEXTS)
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    assert np.allclose(vectors.vectors.numpy(), expected, atol=1e-6)
    assert vectors.encoder.name == MINE and vectors.encoder.dtype == "float32"
    assert sorted(sent_texts(server)) == sorted(TEXTS)
    assert max(len(body["input"]) for _, body in server.requests if body["input"][0] not in PROBES) == 7
    n_requests = len(server.requests)
    assert engine.embed(corpus, MINE) == vectors and len(server.requests) == n_requests


def test_prompts_and_dimensions_are_sent_and_part_of_the_key(server, home):
    server.write_settings(home, query_prompt="query: ", document_prompt="passage: ", dimensions=5)
    assert engine.embed(["a"], MINE).vectors.shape == (1, 5)
    engine.embed(corpus_of(["a"]), MINE)
    assert [text for text in sent_texts(server) if text.endswith(": a")] == ["query: a", "passage: a"]
    assert {body["dimensions"] for _, body in server.requests} == {5}
    digests = set()
    for changed in ({}, {"dimensions": 6}, {"embeddings": "b"}, {"query_prompt": "q"}, {"document_prompt": "d"}):
        for more in ({}, {"version": "2"}, {"max_characters": 9}, {"url": "http://127.0.0.1:1/v1"}):
            server.write_settings(home, **changed, **more)
            digests.add(TextEncoder(MINE).reference.digest)
    assert len(digests) == 20
    server.write_settings(home, batch=3, requests=5, timeout=3, name="mine")
    assert TextEncoder(MINE).reference.digest in digests  # how it is asked does not matter


def test_typed_texts_stay_in_memory_and_a_text_encoder_asks_the_same_model(server):
    vector = engine.embed(["a typed text"], MINE).vectors
    assert engine.embed(["a typed text"], MINE).vectors.equal(vector)
    assert sent_texts(server).count("a typed text") == 1
    assert TextEncoder(MINE)(["a typed text"], "query").allclose(vector, atol=1e-6)


def test_an_interrupted_run_sends_no_finished_chunk_again(server, home):
    server.write_settings(home, requests=1)
    stop = threading.Event()
    corpus = corpus_of(TEXTS)

    def stop_midway(done, total, label):
        if "tokens" in label and done > total / 2:
            stop.set()

    with pytest.raises(Cancelled):
        engine.embed(corpus, MINE, progress=stop_midway, stop=stop)
    first_texts = sent_texts(server)
    assert 0 < len(first_texts) < len(TEXTS)
    engine.embed(corpus, MINE)
    sent_twice = len(sent_texts(server)) - len(TEXTS)
    # At most the chunk that was in flight.
    assert 0 <= sent_twice <= 64 and set(sent_texts(server)) == set(TEXTS)


def test_an_error_keeps_what_came_back(server, home):
    server.write_settings(home, requests=1)
    server.faults += [None, None, status_fault(402)]
    with pytest.raises(DataError, match="status 402: not now"):
        engine.embed(corpus_of(TEXTS), MINE)
    n_sent = len(sent_texts(server))
    engine.embed(corpus_of(TEXTS), MINE)
    # The chunk of the refused request, whose first request was answered, is asked again as a whole.
    n_refused = len(server.requests[1][1]["input"]) + len(server.requests[2][1]["input"])
    assert len(sent_texts(server)) == len(TEXTS) + n_refused and n_sent < len(TEXTS)


def test_progress_counts_tokens_up_to_the_estimate(server):
    seen = []
    corpus = corpus_of(TEXTS)
    estimate = estimate_sending([corpus], MINE)
    engine.embed(corpus, MINE, progress=lambda *report: seen.append(report))
    tokens = [(done, total) for done, total, label in seen if label.endswith("tokens")]
    # The estimate counts the probes too, which are sent before.
    n_tokens = estimate.n_tokens - PROBE_TOKENS
    assert tokens[0] == (0, n_tokens) and tokens[-1] == (n_tokens, n_tokens)
    assert tokens == sorted(tokens) and (estimate.n_texts, estimate.n_probes) == (200, 10)
    assert estimate_sending([corpus], MINE) is None and estimate_sending([corpus], "bundled") is None


def test_large_sends_need_consent_and_small_ones_none(server):
    corpus = corpus_of(["many words " * 400] * 90)
    with pytest.raises(
        FrontierError, match=r"90 texts and 10 probe texts, about 133 k tokens.*allow_tokens\(13"
    ) as caught:
        engine.embed(corpus, MINE)
    assert server.requests == [] and caught.value.finding.startswith("This would send 90 texts")
    with engine.allow_tokens(100), pytest.raises(FrontierError, match="would send"):
        engine.embed(corpus_of(TEXTS), MINE)
    assert server.requests == []
    with engine.allow_tokens(140_000) as allowance:
        engine.embed(corpus, MINE)
        assert 130_000 < allowance.n_tokens < 140_000
        with pytest.raises(FrontierError, match="600 texts"):
            engine.embed(corpus_of([f"another {text} {'and more words ' * 3}" for text in TEXTS * 3]), MINE)


def test_prompts_are_estimated_and_cut_as_they_are_sent(server, home):
    corpus = corpus_of(TEXTS[:20])
    server.write_settings(home, document_prompt="p" * 3000, query_prompt="q" * 3000)
    # Each of 20 documents and 10 probes has a prompt of 3,000 characters.
    assert 30_000 < estimate_sending([corpus], MINE).n_tokens < 31_000
    for send in (lambda: engine.embed(corpus, MINE), lambda: TextEncoder(MINE)(["a"], "query")):
        with engine.allow_tokens(500), pytest.raises(FrontierError, match="would send"):
            send()
    assert server.requests == []
    server.write_settings(home, document_prompt="p" * 3000, max_characters=30)
    assert estimate_sending([corpus], MINE).n_tokens == 30 * 12
    with engine.allow_tokens(30 * 12) as allowance:
        engine.embed(corpus, MINE)
    assert allowance.n_tokens == 30 * 12 and max(map(len, server.texts())) == 30


def test_a_fast_server_is_not_kept_waiting_by_the_probes_of_a_slow_one(server, home, go):
    server.faults.append(lambda handler, body: go.wait())
    slow = TextEncoder(MINE)
    asking = threading.Thread(target=lambda: slow(["a"], "query"))
    asking.start()
    try:
        while not server.requests:
            time.sleep(0.01)
        server.write_settings(home, version="2")
        fast = TextEncoder(MINE)(["a"], "query")
        assert fast.shape == (1, 16) and not go.is_set()
        # Who asks the slow one too can go away.
        server.write_settings(home)
        stop = threading.Event()
        threading.Timer(0.05, stop.set).start()
        with pytest.raises(Cancelled):
            engine.embed(["b"], MINE, stop=stop)
        assert not go.is_set()
    finally:
        go.set()
        asking.join()


@pytest.mark.parametrize("count_tokens", [False, True])
def test_texts_too_long_are_cut_and_counted(server, count_tokens):
    server.always = too_long_fault(300, count_tokens)
    texts = [*TEXTS[:20], "long " * 200, *TEXTS[20:40], "longer " * 90]
    corpus = corpus_of(texts)
    vectors = engine.embed(corpus, MINE)
    assert count_truncated(corpus, MINE) == 2 and vectors.vectors.norm(dim=1).allclose(vectors.vectors.new_ones(42))
    assert count_truncated(corpus_of(TEXTS), MINE) == 0


def test_texts_are_cut_at_the_characters_of_the_file(server, home):
    server.write_settings(home, max_characters=8)
    corpus = corpus_of(["a short", "a text that is longer"])
    engine.embed(corpus, MINE)
    assert count_truncated(corpus, MINE) == 1 and server.texts()[-2:] == ["a short", "a text t"]


def test_a_text_that_is_refused_at_any_length_is_an_error(server):
    server.always = status_fault(413)
    with pytest.raises(DataError, match="status 413"):
        engine.embed(["some words"], MINE, cache=False)


def test_blank_texts_are_not_sent_and_have_zeros(server):
    vectors = engine.embed(corpus_of(["", "words", " \n"]), MINE).vectors
    assert vectors.norm(dim=1).tolist() == pytest.approx([0, 1, 0]) and sent_texts(server) == ["words"]
    assert engine.embed([""], MINE).vectors.shape == (1, 16)


def edit(change):
    """A fault: the right answer after its vectors were changed in place."""

    def apply(answer):
        answer["data"] = change(answer["data"]) or answer["data"]
        return answer

    return changed_answer(apply)


def set_first(value):
    return edit(lambda data: data[0].update(embedding=value))


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (edit(lambda data: data[:-1]), "answered 3 texts with 2 vectors"),
        (edit(lambda data: [*data, data[0]]), "answered 3 texts with 4 vectors"),
        (edit(lambda data: data[0].update(index=1)), "must number its vectors by index, 0 to 2, each once"),
        (edit(lambda data: data[0].update(index="0")), "must number its vectors by index"),
        (edit(lambda data: data[0].pop("index") and None), "must number its vectors by index"),
        (edit(lambda data: data[0].update(index=True)), "must number its vectors by index"),
        (set_first([float("nan")] * 16), "zero, or has numbers that are not finite"),
        (set_first([1e39] * 16), "zero, or has numbers that are not finite"),
        (set_first([0.0] * 16), "zero, or has numbers that are not finite"),
        (set_first(base64.b64encode(np.full(16, np.inf, "<f4").tobytes()).decode()), "not finite"),
        (set_first([1.0] * 15), "a vector of 15 numbers where 16 were expected"),
        (edit(lambda data: [{**row, "embedding": [1.0] * 4} for row in data]), "a vector of 4 numbers where 16"),
        (set_first("no base64!"), "neither a list of numbers nor base64"),
        (set_first("AAA="), "neither a list of numbers nor base64"),
        (set_first(["1.0"] * 16), "neither a list of numbers nor base64"),
        (set_first([True] * 16), "neither a list of numbers nor base64"),
        (set_first([10**400] * 16), "neither a list of numbers nor base64"),
        (set_first(None), "neither a list of numbers nor base64"),
        (set_first([]), "neither a list of numbers nor base64"),
        (edit(lambda data: ["a", "b", "c"]), 'must answer with {"data"'),
        (changed_answer(lambda answer: [answer]), 'must answer with {"data"'),
        (changed_answer(lambda answer: {"data": {"0": 1}}), 'must answer with {"data"'),
        (changed_answer(lambda answer: None), 'must answer with {"data"'),
    ],
)  # fmt: skip
def test_wrong_answers_are_refused_by_a_sentence_and_not_kept(server, fault, message):
    engine.embed(["an earlier text"], MINE)  # so that the probes are known
    server.faults += [None, fault]
    with pytest.raises(DataError, match=message) as caught:
        engine.embed(corpus_of(["a", "b", "c"]), MINE)
    assert str(caught.value).startswith("endpoint 'mine' at 127.0.0.1:")
    engine.embed(corpus_of(["a", "b", "c"]), MINE)
    assert sent_texts(server).count("a") == 2


def test_vectors_in_another_order_are_put_back(server):
    server.faults += [None, edit(lambda data: data[::-1])]
    vectors = engine.embed(corpus_of(["a", "b", "c"]), MINE)
    expected = hashed_vectors(["a", "b", "c"])
    assert np.allclose(vectors.vectors.numpy(), expected / np.linalg.norm(expected, axis=1, keepdims=True), atol=1e-6)


def test_a_model_that_changed_is_said_and_not_mixed(server, home):
    engine.embed(corpus_of(TEXTS), MINE)
    server.embed = lambda texts: hashed_vectors(texts) + hashed_vectors([f"{text}!" for text in texts]) / 10
    n_requests = len(server.requests)
    assert engine.embed(corpus_of(TEXTS), MINE)  # nothing is sent: nothing can be mixed
    assert len(server.requests) == n_requests
    for ask in (lambda: engine.embed(["typed"], MINE), lambda: TextEncoder(MINE)(["typed"], "query")):
        with pytest.raises(FrontierError, match=r'gives other vectors .*cosine 0\.9.*version = "2".*\[mine\]'):
            ask()
    assert "typed" not in server.texts()
    server.write_settings(home, version="2")
    assert len(engine.embed(["typed"], MINE)) == 1
    # Noise in the last digits is no other model.
    server.embed = lambda texts: hashed_vectors(texts) + hashed_vectors([f"{text}!" for text in texts]) / 10 + 1e-5
    assert len(engine.embed(["typed again"], MINE)) == 1


def test_probes_are_asked_and_estimated_once_an_hour(server, monkeypatch):
    monkeypatch.setattr(embeddings, "PROBE_SECONDS", 3600.0)
    with engine.allow_tokens(PROBE_TOKENS + 3 * 2 - 1), pytest.raises(FrontierError, match="would send 3 texts and 10"):
        engine.embed(["a", "b", "c"], MINE)
    assert server.requests == []
    with engine.allow_tokens() as allowance:
        for text in ("a", "b", "c"):
            engine.embed([text], MINE)
    assert server.texts().count(PROBES[0]) == 1 and allowance.n_tokens == PROBE_TOKENS + 3 * 2


def test_an_encoder_that_no_file_names_is_refused(server):
    with pytest.raises(DataError, match=r"no endpoint 'other', it has mine"):
        engine.embed(["a"], "endpoint:other")
    with pytest.raises(DataError, match=r"no endpoint 'https://evil.example/v1'"):
        engine.embed(["a"], "endpoint:https://evil.example/v1")
    with pytest.raises((FrontierError, ParamError)):
        engine.embed(["a"], "https://evil.example/v1")
    assert server.requests == []


def test_the_key_is_nowhere_but_in_the_requests(server, home, capfd, caplog):
    caplog.set_level(0)
    engine.embed(corpus_of(TEXTS), MINE)
    server.always = status_fault(400, {"error": {"message": f"bad {KEY}"}})
    with pytest.raises(DataError) as caught:
        engine.embed(["typed"], MINE)
    source = embeddings.find_endpoint(MINE)
    said = [str(caught.value), repr(caught.value), *capfd.readouterr(), caplog.text, repr(source)]
    assert KEY not in "".join(said)
    files = [path for path in home.rglob("*") if path.is_file()]
    assert len(files) > 3 and not [path for path in files if KEY.encode() in path.read_bytes()]


@pytest.mark.deep
def test_the_demo_gets_the_same_sets_as_by_the_bundled_encoder(server, demo):
    dataset, _ = demo
    corpus = engine.Corpus(dataset.corpus.ids[::50], dataset.corpus.texts[::50])
    check_sets(server, corpus, dataset.judged("dev").sample(8))


@pytest.mark.deep
def test_the_demo_gets_the_same_sets_for_all_its_queries(server, demo):
    dataset, _ = demo
    queries = dataset.queries.only([*dataset.qrels["dev"].grades, *dataset.qrels["test"].grades])
    check_sets(server, engine.Corpus(dataset.corpus.ids[::4], dataset.corpus.texts[::4]), queries)


def check_sets(server, corpus, queries):
    """Compare the sets of three decoders by the bundled encoder with those by a server that has the same encoder."""
    server.embed = bundled_vectors
    decoders = [engine.Decoder(engine.make(name)) for name in ("top_k", "mmr", "dpp")]
    sets = []
    for encoder in ("bundled", MINE):
        with engine.allow_tokens():
            # Without the cache, as the demo came with vectors that were rounded.
            space = engine.Space(corpus, engine.embed(corpus, encoder, dtype="float32", cache=False))
            vectors = engine.embed(queries, encoder, dtype="float32", cache=False)
        sets.append([engine.decode(decoder, space, vectors, k=10).index.sort(1).values for decoder in decoders])
    print(f"{len(corpus):,} documents, {len(queries)} queries, {len(server.requests)} requests")
    for bundled, by_endpoint in zip(*sets, strict=True):
        assert bundled.equal(by_endpoint)
    assert {path for path, _ in server.requests} == {EMBEDDINGS}


CLIENT = """
import sys, engine
from support.processes import start_python
from support.random_texts import corpus_of
from support.model_server import make_texts
print(engine.embed(corpus_of(make_texts()), "endpoint:mine").digest)
"""


@pytest.mark.deep
def test_killed_at_random_moments_no_text_is_paid_twice_but_those_in_flight(home, tmp_path, monkeypatch):
    """Kill a client twenty times, and compare what the server answered with the texts and the chunks in flight."""
    monkeypatch.setenv(KEY_ENV, KEY)
    draw, n_kills, n_requests = random.Random(5), 20, 2
    with fork_python("-m", "support.model_server", "0", str(tmp_path / "log")) as process:
        url = process.stdout.readline().strip()
        home.mkdir()
        lines = ["[mine]", f'url = "{url}"', f'key_env = "{KEY_ENV}"', 'embeddings = "bundled"', "batch = 256"]
        (home / "endpoints.toml").write_text("\n".join([*lines, f"requests = {n_requests}"]))
        for _ in range(n_kills):
            client = fork_python("-c", CLIENT, quiet=True)
            n_before = count_lines(tmp_path / "log")
            # The moment counts from the first chunk of this run, as the start takes most of a short one.
            while client.poll() is None and count_lines(tmp_path / "log") <= n_before:
                time.sleep(0.005)
            time.sleep(draw.uniform(0, 0.3))
            client.kill()
            client.wait()
        with fork_python("-c", CLIENT) as client:
            first_digest = client.communicate()[0]
        n_answered = count_lines(tmp_path / "log")
        with fork_python("-c", CLIENT) as client:
            assert client.communicate()[0] == first_digest
        assert count_lines(tmp_path / "log") == n_answered  # all of them are kept
        process.kill()
    answered = Counter()
    for line in (tmp_path / "log").read_text().splitlines():
        answered.update(set(json.loads(line)) - set(PROBES))
    texts = make_texts()
    chunk_of = {texts[index]: number for number, span in enumerate(split_chunks(texts)) for index in span}
    repeated = Counter(chunk_of[text] for text in texts if answered[text] > 1)
    n_again = sum(max(answered[text] for text in texts if chunk_of[text] == chunk) - 1 for chunk in repeated)
    print(f"{len(texts):,} texts in {len(set(chunk_of.values()))} chunks, {n_kills} kills: {n_again} chunks sent again")
    assert set(answered) == set(texts) and n_again <= n_kills * n_requests


def count_lines(path):
    return path.read_text().count("\n") if path.exists() else 0
