"""Make the vectors and maps that come with the demo: of its tasks, and of its documents in the NumPy versions named.

python tests/bench/demo_vectors.py [--maps] 3.11=2.0.0,2.0.2 3.12=2.5.0 …

Each Python (pythonX.Y on the path, or a path) reads the documentation of the versions behind its "=", which its pip
installs into a folder of their own; all texts are embedded here, by the bundled encoder in float32. --maps: leave the
vectors as they are, and make the maps of the documents from them.
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
from engine.maps import layout

READ = "import json; from engine.data import demo; print(json.dumps(demo.numpy_api_documents()))"


def read_corpus(python: str, version: str) -> engine.Corpus:
    """Return the demo's documents in a version of NumPy, as a Python reads them."""
    command = python if os.sep in python else f"python{python}"
    with tempfile.TemporaryDirectory() as folder:
        options = ["--quiet", "--no-deps", "--only-binary=:all:", "--target", folder]
        subprocess.run([command, "-m", "pip", "install", *options, f"numpy=={version}"], check=True)
        paths = {"PYTHONPATH": os.pathsep.join((folder, str(ROOT)))}
        done = subprocess.run([command, "-c", READ], env=os.environ | paths, check=True, capture_output=True)
    ids, titles, texts = zip(*json.loads(done.stdout), strict=True)
    return engine.Corpus(ids, texts, titles)


def write_vectors(corpora: list[engine.Corpus]) -> None:
    """Embed all texts of the corpora and of the demo's tasks, and write the file of their vectors."""
    texts = {text: "document" for corpus in corpora for text in corpus.passages}
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


def write_maps(corpora: list[engine.Corpus]) -> None:
    """Lay out each corpus by its shipped vectors, with a page's settings, and write the file of all maps."""
    points, perplexities = {}, {}
    for corpus in corpora:
        # A home of its own: texts that an earlier corpus left in the cache would not be taken from the shipped ones.
        with tempfile.TemporaryDirectory() as home:
            os.environ["FRONTIER_HOME"] = home
            space = engine.Space(corpus, engine.embed(corpus), "cpu")
        chart = layout.layout(space, cache=False)
        key = layout.LayoutRequest.check(space, chart.method, chart.asked, chart.seed, len(corpus)).key
        points[key], perplexities[key] = torch.from_numpy(chart.points.copy()), repr(chart.perplexity)
    save_file(points, shipped.shipped_maps_file(), perplexities)
    print(f"{len(points)} maps, {shipped.shipped_maps_file().stat().st_size:,} bytes")


def main() -> None:
    versions = [argument for argument in sys.argv[1:] if argument != "--maps"]
    corpora = []
    for argument in versions:
        python, _, numbers = argument.rpartition("=")
        for number in numbers.split(","):
            corpora.append(read_corpus(python, number))
            print(f"NumPy {number}: {len(corpora[-1])} documents", flush=True)
    if "--maps" not in sys.argv:
        write_vectors(corpora)
    write_maps(corpora)


if __name__ == "__main__":
    main()
