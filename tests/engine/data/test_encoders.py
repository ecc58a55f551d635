"""Texts to vectors: the same ones every time, from the cache where known, whatever interrupted the last run."""

import errno
import json
import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import huggingface_hub
import pytest
import torch

from engine.data import encoders, line_texts
from engine.data.encoders import embed
from engine.data.models import precision
from engine.data.readers import load_dataset
from engine.errors import Cancelled, DataError, FrontierError
from engine.paths import storage_warning
from engine.values import Corpus, Dataset, Queries, TextSource
from support.draws import deepen
from support.encoders import TEXTS, entries, load_encoder, python, sentences
from support.paths import ROOT
from support.patience import until
from support.random_texts import corpus_of as corpus

pytestmark = pytest.mark.usefixtures("home")

# What comes out


def test_rows_are_unit_float32_in_the_order_of_the_ids():
    result = embed(corpus(TEXTS), dtype="float32")
    assert result.vectors.shape == (60, 384) and result.vectors.dtype == torch.float32
    assert not result.vectors.is_inference(), "training needs ordinary tensors"
    assert torch.allclose(result.vectors.norm(dim=1), torch.ones(60), atol=1e-6)
    assert result.ids == corpus(TEXTS).ids
    assert result.encoder.name == "bundled" and result.encoder.dtype == "float32" and len(result.encoder.digest) == 64
    alone = load_encoder().model.encode(TEXTS[:5], batch_size=1, convert_to_tensor=True)
    assert torch.allclose(result.vectors[:5], alone, atol=1e-5)


def test_queries_strings_and_titles():
    listed = embed(TEXTS[:3])
    assert listed.ids == ("0", "1", "2")
    assert torch.equal(embed(Queries.of(TEXTS[:3])).vectors, listed.vectors)
    assert embed("one query").vectors.shape == (1, 384)
    titled = Corpus(("a",), ("a stone",), ("The river",))
    assert torch.equal(embed(titled, cache=False).vectors, embed(["The river a stone"], cache=False).vectors)


def test_embed_accepts_odd_texts():
    odd = ["", " ", "\x00", "lone \ud800 surrogate", "水" * 3000, "word " * 5000, "🜁"]
    vectors = embed(odd).vectors
    assert torch.isfinite(vectors).all() and torch.allclose(vectors.norm(dim=1), torch.ones(len(odd)), atol=1e-6)


def test_bfloat16_agrees_with_float32():
    full, half = (embed(TEXTS, dtype=dtype).vectors for dtype in ("float32", "bfloat16"))
    assert not torch.equal(full, half)
    assert (full * half).sum(1).min() > precision.MIN_FIDELITY
    assert torch.allclose(half.norm(dim=1), torch.ones(60), atol=1e-6)


def test_a_zero_vector_stays_zero_and_one_that_is_not_finite_is_refused(monkeypatch):
    encoder, rows = load_encoder(), torch.tensor([[0.0, 0.0], [3.0, 4.0]])
    monkeypatch.setattr(encoder.model, "encode_query", lambda texts, **k: rows)
    assert encoder.encode(["a", "b"]).tolist() == [[0.0, 0.0], [pytest.approx(0.6), pytest.approx(0.8)]]
    rows[1, 1] = torch.nan
    with pytest.raises(DataError, match="not finite for the text 'b'"):
        encoder.encode(["a", "b"])


# What is refused


@pytest.mark.parametrize(
    "texts, options, message",
    [
        ([], {}, "nothing to embed"),
        (Corpus((), ()), {}, "nothing to embed"),
        (["fine", None], {}, "text 1 .* NoneType"),
        (["fine", 3.5], {}, "text 1 .* float"),
        (b"bytes", {}, "bytes"),
        ({"a": "b"}, {}, "dict"),
        (7, {}, "int"),
        (Dataset(Corpus((), ()), Queries((), ())), {}, r"\.corpus or its \.queries"),
        (["text"], {"dtype": "float16"}, "dtype must be one of"),
        (["text"], {"device": "abacus"}, "device 'abacus'"),
        (["text"], {"role": "reader"}, "role must be"),
        (["text"], {"batch_size": 0}, "batch_size"),
        (["text"], {"batch_size": True}, "batch_size"),
        (["text"], {"encoder": ""}, "encoder must be"),
        (["text"], {"encoder": "./no/such/folder"}, "looks like a folder"),
        (["text"], {"encoder": "a b/c"}, "Check the spelling"),
        (["text"], {"encoder": str(ROOT / "tests")}, "is no model folder"),
        (["text"], {"encoder": __file__}, "is no model folder"),
    ],
)
def test_embed_of_bad_input_raises_error(texts, options, message):
    with pytest.raises(FrontierError if options else DataError, match=message):
        embed(texts, **options)


def test_an_unknown_encoder_says_what_was_tried(monkeypatch):
    def unreachable(*args, **kwargs):
        raise OSError("Name or service not known")

    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", unreachable)
    with pytest.raises(FrontierError) as caught:
        embed(["text"], encoder="nobody/no-such-model")
    for part in ("nobody/no-such-model", "cache of this machine", "Name or service", "spelling", "path", "bundled"):
        assert part in str(caught.value)


def test_a_model_that_does_not_load_is_explained(copy):
    broken = copy(config__json={"model_type": "bert", "hidden_size": 7})
    with pytest.raises(FrontierError, match=r"cannot be loaded from .*/model"):
        embed(["text"], encoder=str(broken), dtype="float32")
    shardless = copy("other", **{"model__safetensors__index__json": {"weight_map": {"w": "model-1.safetensors"}}})
    with pytest.raises(FrontierError, match="is no model folder"):
        embed(["text"], encoder=str(shardless))


# The cache


def test_a_second_call_encodes_nothing(batches):
    # The encoder's precision is probed before the first text, once a process.
    embed("another text")
    batches.clear()
    first = embed(TEXTS)
    assert sum(map(len, batches)) == 60
    batches.clear()
    again = embed(TEXTS, batch_size=7)
    assert not batches and again == first and again.encoder == first.encoder
    assert embed(TEXTS, cache=False) == first and batches


def test_the_time_of_embedding_is_foreseen_from_a_few_texts_and_is_0_once_they_are_cached(batches, monkeypatch):
    monkeypatch.setattr(encoders, "_MIN_TIMED_TOKENS", 100)
    monkeypatch.setattr(encoders, "_TIMED_TEXTS", 4)
    texts = corpus(TEXTS)
    assert encoders.estimate_seconds(texts, dtype="float32") > 0 and sum(map(len, batches)) <= 8
    embed(texts, dtype="float32")
    n_encoded = sum(map(len, batches))
    assert encoders.estimate_seconds(texts, dtype="float32") == 0 and sum(map(len, batches)) == n_encoded
    monkeypatch.setattr(encoders, "_MIN_TIMED_TOKENS", 1e9)
    assert encoders.estimate_seconds(corpus([*TEXTS, "one more"]), dtype="float32") == 0, "few texts take no time"


def test_without_the_cache_nothing_touches_the_disk(home):
    embed(TEXTS[:2], cache=False)
    assert not home.exists()


def test_typed_queries_are_cached_in_memory_and_query_sets_on_disk(batches, monkeypatch):
    embed(TEXTS[:9])  # as many as a table of texts: with them the probe of the precision is kept too
    stored = entries()
    first = embed("typed once")
    batches.clear()
    assert embed(["typed once"]) == first and not batches and entries() == stored
    embed(Queries.of("typed once"))
    assert len(entries()) == len(stored) + 1 and embed("typed once", cache=False) == first
    monkeypatch.setattr(encoders, "_MAX_TYPED_TEXTS", 2)
    for text in ("b", "c", "d"):
        embed(text)
    assert len(encoders._TYPED_VECTORS) == 2


def test_dtype_and_role_have_entries_of_their_own(batches):
    embed(TEXTS, dtype="bfloat16")
    for changes in ({"dtype": "float32"}, {"role": "document"}):
        batches.clear()
        embed(TEXTS, **{"dtype": "bfloat16", **changes})
        assert batches


def test_changed_text_reembeds_only_nearby_chunks(batches):
    texts = sentences(1500)
    spans = list(encoders.split_chunks(texts))
    assert [i for span in spans for i in span] == list(range(1500))
    assert max(map(len, spans)) <= 256 and len(spans) >= 10
    contents = {tuple(texts[i] for i in span) for span in spans}
    for edited in (["a new text", *texts], [*texts[:700], "changed", *texts[701:]], texts[3:]):
        lost = [s for s in encoders.split_chunks(edited) if tuple(edited[i] for i in s) not in contents]
        assert sum(map(len, lost)) <= 400


def test_long_texts_make_small_chunks_and_batches():
    spans = list(encoders.split_chunks(["word " * 1000] * 100))
    assert max(map(len, spans)) == 16
    assert {len(b) for b in encoders._split_batches(["word " * 1000] * 10, 32, "cpu")} <= {4, 2}
    assert [len(b) for b in encoders._split_batches(["word " * 1000] * 10, 32, "cuda")] == [10]
    assert list(encoders._split_batches(["a", "word " * 9, "word"], 2, "cpu")) == [[1, 2], [0]]


@pytest.mark.parametrize(
    "damage", deepen(["truncated", "flipped", "empty", "swapped", "a folder"], ["truncated", "empty"])
)
def test_a_damaged_chunk_is_embedded_again(damage, batches, monkeypatch):
    monkeypatch.setattr(encoders, "_MAX_CHUNK_TEXTS", 20)
    first = embed(TEXTS)
    one, second = entries()[:2]
    raw = one.read_bytes()
    match damage:
        case "truncated":
            one.write_bytes(raw[: len(raw) // 2])
        case "flipped":
            one.write_bytes(raw[:5000] + bytes([raw[5000] ^ 16]) + raw[5001:])
        case "empty":
            one.write_bytes(b"")
        case "swapped":
            one.write_bytes(second.read_bytes())
        case "a folder":
            one.unlink()
            one.mkdir()
            assert embed(TEXTS) == first and "Is a directory" in storage_warning()
            one.rmdir()
    batches.clear()
    assert embed(TEXTS) == first
    assert sum(map(len, batches)) == 20
    batches.clear()
    assert embed(TEXTS) == first and not batches


@pytest.mark.deep
def test_a_cold_start_is_silent_and_offline_and_a_warm_one_loads_no_model(home):
    code = f"""
import socket, sys
def refuse(*a, **k): raise SystemExit(f"connection attempted: {{a}}")
socket.socket.connect = socket.socket.connect_ex = socket.getaddrinfo = refuse
from engine.data.encoders import embed
digest = embed({TEXTS!r}).digest
import json, os
os.write(1, json.dumps([digest, [m for m in ("sentence_transformers", "transformers") if m in sys.modules]]).encode())
"""
    answers = []
    for _ in range(2):
        out, err = (run := python(code, home)).communicate()
        assert run.returncode == 0 and not err, err
        answers.append(json.loads(out))  # any other output would not parse
    assert answers[0][1] and not answers[1][1]
    assert answers[0][0] == answers[1][0]


@pytest.mark.deep
def test_a_killed_run_loses_at_most_one_chunk(home, batches, monkeypatch):
    texts = sentences(500)
    monkeypatch.setattr(encoders, "_MAX_CHUNK_TEXTS", 100)
    code = (
        f"from engine.data import encoders\nencoders._MAX_CHUNK_TEXTS = 100\nencoders.embed({texts!r}, dtype='float32')"
    )
    run = python(code, home)
    until(lambda: len(entries()) > 1 or run.poll() is not None)
    run.send_signal(signal.SIGKILL)
    run.communicate()
    assert run.returncode == -signal.SIGKILL
    spans, n_stored = list(encoders.split_chunks(texts)), len(entries())
    assert 2 <= n_stored < len(spans)
    result = embed(texts, dtype="float32")
    assert sum(map(len, batches)) == sum(map(len, spans[n_stored:])), "chunks are finished in order"
    assert len(entries()) == len(spans)
    rows = [0, 1, 400, 499]
    direct = embed([texts[i] for i in rows], dtype="float32", cache=False)
    assert torch.allclose(result.vectors[rows], direct.vectors, atol=1e-5)


def test_a_large_matrix_is_a_mapped_file_with_the_same_vectors(home, batches, monkeypatch):
    monkeypatch.setattr(encoders, "MAPPED_MATRIX_BYTES", 4 * 60 * 384)
    docs = corpus(TEXTS)
    in_memory, stored = embed(docs).vectors, set(entries())
    seen = len(batches)
    monkeypatch.setattr(encoders, "MAPPED_MATRIX_BYTES", 4 * 60 * 384 - 1)
    mapped = embed(docs).vectors
    assert torch.equal(mapped, in_memory) and len(batches) == seen, "the chunks of one are those of the other"
    assert set(entries()) == stored and not list((home / encoders.EMBEDDING_SECTION).glob(".*.tmp")), (
        "the file has no name"
    )
    maps = Path("/proc/self/maps")
    if maps.exists():
        prefix = f"{home.resolve() / encoders.EMBEDDING_SECTION}/"
        assert [line for line in maps.read_text().splitlines() if prefix in line]
    assert torch.equal(embed(docs, cache=False).vectors, in_memory), "without the cache it is in memory"


def test_a_disk_without_room_for_a_large_matrix_is_named(monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(encoders, "MAPPED_MATRIX_BYTES", 0)
    monkeypatch.setattr(os, "posix_fallocate", full, raising=False)
    with pytest.raises(FrontierError, match=r"cannot write .*embeddings: No space left on device; free some room"):
        embed(corpus(TEXTS[:9]))


def test_texts_that_stay_in_their_file_are_embedded_chunk_by_chunk(tmp_path, batches, monkeypatch):
    folder = tmp_path / "set"
    folder.mkdir()
    rows = [json.dumps({"_id": str(row), "title": f"t{row}", "text": text}) for row, text in enumerate(TEXTS)]
    (folder / "corpus.jsonl").write_text("\n".join(rows))
    in_memory = embed(load_dataset(folder).corpus).vectors
    seen = len(batches)
    monkeypatch.setattr(line_texts, "LARGE_FILE_BYTES", 0)
    stays = load_dataset(folder).corpus
    assert isinstance(stays.texts, TextSource)
    assert torch.equal(embed(stays).vectors, in_memory) and len(batches) == seen
    assert torch.equal(embed(stays, cache=False).vectors, in_memory)


def test_threads_may_embed_the_same_texts_at_once():
    with ThreadPoolExecutor(4) as pool:
        result = list(pool.map(lambda _: embed(TEXTS, dtype="float32"), range(4)))
    assert all(f == result[0] for f in result) and len(entries()) == 1


# Progress and stopping


def test_progress_never_falls_and_ends_at_the_total(monkeypatch):
    monkeypatch.setattr(encoders, "_MAX_CHUNK_TEXTS", 20)
    seen = []
    for label in (encoders.EMBEDDING, encoders.READING):
        seen.clear()
        embed(TEXTS, dtype="float32", progress=lambda *a: seen.append(a))
        done = [d for d, _, _ in seen]
        assert seen[0] == (0, 60, encoders.LOADING)
        assert done == sorted(done) and seen[-1] == (60, 60, label)
        assert len(done) >= 4 and {t for _, t, _ in seen} == {60}


def test_stopping_keeps_finished_chunks(monkeypatch, batches):
    monkeypatch.setattr(encoders, "_MAX_CHUNK_TEXTS", 20)
    stop = threading.Event()
    with pytest.raises(Cancelled, match="stopped at 45 of 60"):
        embed(TEXTS, batch_size=5, stop=stop, progress=lambda done, *_: done >= 45 and stop.set())
    assert len(entries()) == 2
    with pytest.raises(Cancelled):
        embed(TEXTS, stop=stop)
    batches.clear()
    stop.clear()
    assert len(embed(TEXTS, stop=stop)) == 60 and sum(map(len, batches)) == 20
