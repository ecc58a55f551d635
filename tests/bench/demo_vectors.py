"""Make the vectors that come with the demo: of its tasks, and of its documents in the NumPy versions named.

python tests/bench/demo_vectors.py 3.11=2.0.0,2.0.2 3.12=2.5.0 …

Each Python (pythonX.Y on the path, or a path) reads the documentation of the versions behind its "=", which its pip
installs into a folder of their own; all texts are embedded here, by the bundled encoder in float32.
"""

import json
import os
import subprocess
import sys
import tempfile

import torch
from harness import ROOT
from safetensors.torch import save_file

import engine
from engine.data import shipped
from engine.data.models import encoder_model

READ = "import json; from engine.data import demo; print(json.dumps(demo.numpy_api_documents()))"


def passages(python: str, version: str) -> tuple[str, ...]:
    """The texts of the demo's documents in a version of NumPy, as a Python reads them."""
    command = python if os.sep in python else f"python{python}"
    with tempfile.TemporaryDirectory() as folder:
        options = ["--quiet", "--no-deps", "--only-binary=:all:", "--target", folder]
        subprocess.run([command, "-m", "pip", "install", *options, f"numpy=={version}"], check=True)
        paths = {"PYTHONPATH": os.pathsep.join((folder, str(ROOT)))}
        done = subprocess.run([command, "-c", READ], env=os.environ | paths, check=True, capture_output=True)
    ids, titles, texts = zip(*json.loads(done.stdout), strict=True)
    return engine.Corpus(ids, texts, titles).passages


def main() -> None:
    texts = {}
    for argument in sys.argv[1:]:
        python, _, versions = argument.rpartition("=")
        for version in versions.split(","):
            read = passages(python, version)
            print(f"NumPy {version}: {len(read)} documents, {len(set(read) - texts.keys())} of them new", flush=True)
            texts |= dict.fromkeys(read, "document")
    texts |= dict.fromkeys(engine.load_dataset("numpy-api").queries.texts, "query")
    source = encoder_model.find_source("bundled")
    names, parts = [], []
    for role in ("document", "query"):
        role_texts = [text for text, its_role in texts.items() if its_role == role]
        parts.append(
            engine.embed(role_texts, dtype=shipped.SHIPPED_ARITHMETIC, device="cpu", role=role, cache=False).vectors
        )
        names += [shipped.text_digest(role, source.prompt(role), text) for text in role_texts]
    save_file(
        shipped.pack_vectors(names, torch.cat(parts)), shipped.shipped_file(), {shipped.WEIGHTS_FIELD: source.digest}
    )
    print(f"{len(names):,} texts, {shipped.shipped_file().stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
