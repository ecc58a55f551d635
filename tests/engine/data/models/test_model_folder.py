"""Model folders that would run code, unpickle, lead elsewhere or fill memory: refused before a library sees them."""

import json
import os
import re
import struct

import pytest
import torch

from engine.data.models import encoder_model, model_folder, rerankers
from engine.errors import FrontierError
from support.fork_server import fork_python
from support.tiny_models import tiny_cross_encoder, tiny_encoder

pytestmark = pytest.mark.usefixtures("home")

MODULES = "modules.json"
SETTINGS = "sentence_bert_config.json"


class Canary:
    """A pickle of it opens a file when it is read."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


@pytest.fixture
def canary(tmp_path):
    """The file that code of a model would leave."""
    return tmp_path / "ran"


@pytest.fixture
def model(tmp_path):
    return tiny_encoder(tmp_path / "model", ("river", "stone"))


def change(folder, file, **values):
    path = folder / file
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({**(json.loads(path.read_text()) if path.exists() else {}), **values}))


def list_module(folder, kind, path=""):
    modules = json.loads((folder / MODULES).read_text())
    (folder / MODULES).write_text(json.dumps([*modules, {"idx": 9, "name": "9", "path": path, "type": kind}]))


def load(folder):
    return encoder_model.load(encoder_model.find_source(str(folder)), "cpu", "float32")


def assert_refused(folder, reason):
    """Both kinds of loader refuse the folder, and no library is asked."""
    for loader in (load, lambda where: rerankers.load(str(where))):
        with pytest.raises(FrontierError, match=reason) as caught:
            loader(folder)
        assert str(folder) in str(caught.value)


# Code


def test_every_hostile_model_is_refused(model, tmp_path):
    assert load(model).encode(["river"]).shape == (1, 32)
    assert not list(model_folder.find_refusals(model))
    assert not list(model_folder.find_refusals(tiny_cross_encoder(tmp_path / "cross")))
    for kind in (
        "sentence_transformers.models.Dense",
        "sentence_transformers.base.modules.router.Router",
        "sentence_transformers.sentence_transformer.modules.Pooling",
        "sentence_transformers.cross_encoder.modules.logit_score.LogitScore",
    ):
        list_module(model, kind, "3_More")
    change(model, "3_More/config.json", activation_function="torch.nn.modules.activation.Tanh")
    change(model, "config.json", activation_function="gelu_new", rope_scaling={"type": "yarn"})
    change(model, "tokenizer_config.json", tokenizer_class="BertTokenizer")
    assert not list(model_folder.find_refusals(model))


@pytest.mark.threat(
    "a model folder lists a module of its own, or one that is installed", "refused by name, not imported"
)
@pytest.mark.parametrize(
    "kind",
    [
        "canary_module.Module",
        "canary_module",
        "os.path.Module",
        "sentence_transformersX.models.Dense",
        "sentence_transformers.SentenceTransformer",
        "sentence_transformers.base.modules.module.torch",
        "torch.hub.Load",
        7,
    ],
)
def test_only_the_librarys_modules_are_loaded(model, canary, monkeypatch, tmp_path, kind):
    for folder in (model, tmp_path / "path"):
        folder.mkdir(exist_ok=True)
        (folder / "canary_module.py").write_text(f"open({str(canary)!r}, 'w')\nclass Module: pass\n")
    monkeypatch.syspath_prepend(tmp_path / "path")
    list_module(model, kind)
    assert_refused(model, f"modules.json names {kind!r}, .* no code of its own")
    assert not canary.exists()


@pytest.mark.threat("a setting of a model names code or how to load it", "refused by file and name")
@pytest.mark.parametrize(
    "file, values, named",
    [
        ("3_Dense/config.json", {"activation_function": "canary_module.Tanh"}, "canary_module.Tanh"),
        ("3_Dense/config.json", {"activation_function": "torch.hub.Load"}, "torch.hub.Load"),
        ("3_Words/wordembedding_config.json", {"tokenizer_class": "canary_module.Words"}, "canary_module.Words"),
        ("router_config.json", {"types": {"3_Own": "canary_module.Module"}, "structure": {}}, "canary_module.Module"),
        ("config.json", {"auto_map": {"AutoModel": "canary_module.Model"}}, "auto_map"),
        ("config.json", {"text_config": {"auto_map": {"AutoModel": "other/repo--canary.Model"}}}, "auto_map"),
        ("tokenizer_config.json", {"auto_map": {"AutoTokenizer": [None, "canary_module.Words"]}}, "auto_map"),
        ("config.json", {"sentence_transformers": {"activation_fn": "canary_module.Tanh"}}, "canary_module.Tanh"),
        ("config.json", {"sbert_ce_default_activation_function": "torch.seed"}, "torch.seed"),
        ("config.json", {"transformers_weights": "adapter_model.bin"}, "transformers_weights"),
        ("adapter_config.json", {"base_model_name_or_path": "/elsewhere"}, "base_model_name_or_path"),
        (SETTINGS, {"model_kwargs": {"weights_only": False}}, "weights_only"),
        (SETTINGS, {"model_args": {"use_safetensors": False}}, "use_safetensors"),
        (SETTINGS, {"config_kwargs": {"trust_remote_code": True}}, "trust_remote_code"),
        (SETTINGS, {"model_kwargs": {"attn_implementation": "somebody/kernel"}}, "somebody/kernel"),
        (SETTINGS, {"tokenizer_name_or_path": "/elsewhere"}, "tokenizer_name_or_path"),
        (SETTINGS, {"model_kwargs": {"device_map": {"": "disk"}}}, "device_map"),
        (SETTINGS, {"model_args": {"offload_folder": "/elsewhere"}}, "offload_folder"),
        (SETTINGS, {"model_kwargs": {"ignore_mismatched_sizes": True}}, "ignore_mismatched_sizes"),
    ],
)
def test_settings_name_no_code_and_choose_no_loader(model, file, values, named):
    change(model, file, **values)
    assert_refused(model, f"{re.escape(file)} (names|sets) .*{re.escape(named)}")


@pytest.mark.threat("a model's limit of tokens is none", "refused by file and name")
@pytest.mark.parametrize("limit", [-5, 0, "32", True, float("nan")])
def test_limits_are_numbers_of_tokens(model, limit):
    change(model, SETTINGS, max_seq_length=limit)
    assert_refused(model, f"{SETTINGS} sets max_seq_length to")
    change(model, SETTINGS, max_seq_length=None)
    change(model, "tokenizer_config.json", model_max_length=10**30)
    assert not list(model_folder.find_refusals(model))


# Places


@pytest.mark.threat("a module of a model lies outside its folder, where no fingerprint covers it", "refused by name")
@pytest.mark.parametrize(
    "path", ["../other", "a/../../other", "/etc", "C:\\other", "linked", ".hidden", "onnx", "a/b/c/d", 3]
)
def test_module_outside_the_folder_is_refused(model, tmp_path, path):
    (tmp_path / "other").mkdir()
    (model / "linked").symlink_to(tmp_path / "other", target_is_directory=True)
    list_module(model, "sentence_transformers.models.Dense", path)
    assert_refused(model, r"modules\.json names .* no folder of the model's own")


def test_router_modules_lie_in_the_folder(model):
    change(model, "router_config.json", types={"../other": "sentence_transformers.models.Transformer"})
    assert_refused(model, r"router_config\.json names '\./\.\./other'")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no FIFOs here")
def test_a_fifo_is_not_opened(model):
    os.mkfifo(model / "README.md")
    assert_refused(model, r"README\.md is no regular file")


# Pickles


@pytest.mark.threat("a model's weights are a pickle that runs code", "refused with the line that converts it, not read")
@pytest.mark.parametrize(
    "name", ["pytorch_model.bin", "model.pt", "weights.ckpt", "2_Dense/pytorch_model.bin", "a/b/vocab.pkl"]
)
def test_pickled_weights_are_refused(model, canary, name):
    target = model / name
    target.parent.mkdir(exist_ok=True, parents=True)
    torch.save(Canary(canary), target)
    if target.parent == model:
        (model / "model.safetensors").rename(model / "weights.safetensors")
    assert_refused(model, rf"unpickled \({name}\).*python -c .*save_pretrained\('model-safe'\)")
    assert not canary.exists()


def test_the_line_that_converts_a_model_works(model):
    vectors = load(model).encode(["river stone"])
    from safetensors.torch import load_file

    torch.save(load_file(model / "model.safetensors"), model / "pytorch_model.bin")
    (model / "model.safetensors").unlink()
    with pytest.raises(FrontierError) as caught:
        load(model)
    line = json.loads(str(caught.value).partition("python -c ")[2])
    line = line.replace("'model-safe'", repr(str(model.with_name("model-safe"))))
    done = fork_python("-c", line)
    assert done.wait() == 0, done.communicate()
    assert torch.equal(load(model.with_name("model-safe")).encode(["river stone"]), vectors)


@pytest.mark.threat("a pickle lies beside harmless weights, or an index names it", "never read; not part of the model")
def test_pickles_beside_safetensors_are_not_read(model, canary, monkeypatch):
    monkeypatch.setattr(torch, "load", lambda *a, **k: pytest.fail("unpickled"))
    digest = encoder_model.find_source(str(model)).digest
    for name in ("pytorch_model.bin", "training_args.bin", "optimizer.pt"):
        torch.save(Canary(canary), model / name)
    assert encoder_model.find_source(str(model)).digest == digest
    assert load(model).encode(["river"]).shape == (1, 32) and not canary.exists()
    (model / "model.safetensors").unlink()
    (model / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"w": "pytorch_model.bin"}}))
    with pytest.raises(FrontierError, match="no model folder"):
        load(model)


# Memory


def header(declared, body=b"\0" * 4):
    raw = json.dumps(declared).encode()
    return struct.pack("<Q", len(raw)) + raw + body


def one_tensor(*shape):
    return header({"w": {"dtype": "F32", "shape": shape, "data_offsets": [0, 4]}})


HOSTILE = {
    "a header of 8 EiB": ("model.safetensors", struct.pack("<Q", 1 << 63) + b"{}"),
    "a header of 90 MB": ("model.safetensors", struct.pack("<Q", 90 << 20) + b"{}"),
    "a shape that overflows": ("model.safetensors", one_tensor(1 << 40, 1 << 40)),
    "a shape of 32 GiB": ("model.safetensors", one_tensor(1 << 33)),
    "weights cut off": ("model.safetensors", None),
    "no weights": ("model.safetensors", header({}, b"")),
    "a million layers": ("config.json", {"num_hidden_layers": 1_000_000}),
    "words of 100 GB": ("config.json", {"vocab_size": 1_000_000_000}),
    "nested settings": ("config.json", b"[" * 100_000 + b"]" * 100_000),
    "settings of 3 MB": ("config.json", b"[" + b"[]," * 1_000_000 + b"0]"),
    "a nested tokenizer": ("tokenizer.json", b'{"a":' * 100_000 + b"1" + b"}" * 100_000),
    "no tokenizer": ("tokenizer.json", b"{}"),
}
MEASURE = """
import resource, sys
import sentence_transformers, transformers
from transformers import AutoModel, AutoTokenizer, BertModel
from sentence_transformers import SentenceTransformer
from engine.data.models import encoder_model
from engine.errors import FrontierError
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
for folder in sys.argv[1:]:
    before = peak()
    try:
        encoder_model.load(encoder_model.find_source(folder), "cpu", "float32")
        said = "loaded"
    except FrontierError as error:
        said = str(error).replace(chr(10), " ")
    print(peak() - before, said)
"""


@pytest.mark.threat("small files of a model declare gigabytes", "refused, under 512 MB over the import")
def test_hostile_files_fill_no_memory(model, home, tmp_path):
    import shutil

    folders = []
    for number, (file, content) in enumerate(HOSTILE.values()):
        folder = shutil.copytree(model, tmp_path / f"hostile-{number}")
        if isinstance(content, dict):
            change(folder, file, **content)
        else:
            path = folder / file
            path.write_bytes(path.read_bytes()[:5000] if content is None else content)
        folders.append(str(folder))
    done = fork_python("-c", MEASURE, *folders, FRONTIER_HOME=str(home))
    printed, errors = done.communicate()
    rows = [row.split(" ", 1) for row in printed.splitlines()]
    assert len(rows) == len(HOSTILE), errors
    for case, (peak, message) in zip(HOSTILE, rows, strict=True):
        assert message.startswith("the encoder") and int(peak) < 512, (case, peak, message)


def test_a_tokenizer_that_knows_more_words_than_the_weights_is_explained(model):
    words = json.loads((model / "tokenizer.json").read_text())
    words["model"]["vocab"]["river"] = 4_000_000_000
    (model / "tokenizer.json").write_text(json.dumps(words))
    with pytest.raises(FrontierError, match="its tokenizer knows words that its weights do not"):
        load(model).encode(["river"])
