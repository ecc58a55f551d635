"""Models by name: those of this machine, those of the hub, and a hub that does not answer."""

import socket
from threading import Event
from types import SimpleNamespace

import huggingface_hub
import pytest
import torch

from engine.data import encoders
from engine.data.encoders import embed
from engine.data.models import hub
from engine.errors import FrontierError
from support.datafiles import write_file
from support.encoders import TEXTS

pytestmark = pytest.mark.usefixtures("home")


@pytest.fixture
def hub_listing(monkeypatch, tmp_path):
    """Makes the hub list these files for every model; what is downloaded, if anything, is in the list."""
    monkeypatch.setenv("SENTENCE_TRANSFORMERS_HOME", str(tmp_path / "hub"))
    wanted, real = [], huggingface_hub.snapshot_download

    def download(name, *, allow_patterns=None, local_files_only=False, cache_dir, folder, **options):
        if local_files_only:
            return real(name, cache_dir=cache_dir, local_files_only=True)
        wanted.extend(allow_patterns)
        return str(folder)

    def make(names, folder=None):
        info = SimpleNamespace(siblings=[SimpleNamespace(rfilename=name) for name in names])
        monkeypatch.setattr(huggingface_hub.HfApi, "model_info", lambda self, name, timeout: info)
        monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda *a, **k: download(*a, folder=folder, **k))
        return wanted

    return make


def test_a_hub_name_is_found_in_the_models_of_this_machine(copy, tmp_path, monkeypatch):
    commit = "0" * 40
    for owner in ("acme", "sentence-transformers"):
        write_file(tmp_path / "hub" / f"models--{owner}--tiny", "refs/main", commit)
        copy(f"hub/models--{owner}--tiny/snapshots/{commit}")
    monkeypatch.setenv("SENTENCE_TRANSFORMERS_HOME", str(tmp_path / "hub"))
    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", lambda *a, **k: pytest.fail("asked the hub"))
    assert hub.list_local_encoders() == ("bundled", "acme/tiny", "sentence-transformers/tiny")
    for name in ("acme/tiny", "tiny"):
        result = embed(TEXTS[:2], name)
        assert result.encoder.name == name and torch.equal(result.vectors, embed(TEXTS[:2]).vectors)


def test_a_download_takes_only_what_torch_reads(copy, hub_listing):
    unread = ["pytorch_model.bin", "onnx/model.onnx", "tf_model.h5", "README.md", ".gitattributes", "openvino/a.bin"]
    names = ["config.json", "model.safetensors", *unread, "2_Dense/model.safetensors", "2_Dense/pytorch_model.bin"]
    wanted, seen = hub_listing(names, copy("downloaded")), []
    embed(TEXTS[:2], "acme/remote", progress=lambda *a: seen.append(a[2]))
    assert wanted == ["2_Dense/model.safetensors", "config.json", "model.safetensors"]
    assert encoders.DOWNLOADING in seen


@pytest.mark.threat("a model of the hub has pickles only", "refused with the line that converts it, nothing downloaded")
@pytest.mark.parametrize("pickle", ["pytorch_model.bin", "2_Dense/pytorch_model.bin"])
def test_pickles_are_not_downloaded(hub_listing, pickle):
    safe = [] if "/" not in pickle else ["model.safetensors"]
    wanted = hub_listing(["config.json", "modules.json", pickle, *safe])
    with pytest.raises(
        FrontierError, match=rf"acme/remote is refused.*unpickled \({pickle}\).*python -c .*'acme/remote'"
    ):
        embed(TEXTS[:2], "acme/remote")
    assert wanted == []


@pytest.fixture
def hanging_hub():
    """The address of a hub that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.threat(
    "the hub does not answer, or its name is never resolved", "a clear error after 3 seconds of patience"
)
@pytest.mark.parametrize("stage", ["answer", "name"])
@pytest.mark.timeout(60)
def test_nobody_waits_for_a_hub_that_hangs(hanging_hub, monkeypatch, stage):
    assert hub.HUB_TIMEOUT_SECONDS <= 3, "the person is told within five seconds"
    monkeypatch.setattr(hub, "HUB_TIMEOUT_SECONDS", 0.2)
    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", hanging_hub)
    requests = []
    if stage == "name":
        monkeypatch.setattr(huggingface_hub.HfApi, "model_info", lambda *a, **k: requests.append(a) or Event().wait(60))
    with pytest.raises(FrontierError, match=r"'no-such-model' .* \(the hub did not answer within 0\.2 seconds\)"):
        embed(["text"], encoder="no-such-model")
    assert len(requests) == (stage == "name"), "a hub that is silent is not asked for the other name"
