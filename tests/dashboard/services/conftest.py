"""What tests of feedback on pages share."""

import json

import numpy as np
import pytest

from support.live_feedback import corpus, vectors


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A corpus on disk whose texts try to be markup, with its vectors."""
    path = tmp_path_factory.mktemp("live") / "hostile"
    path.mkdir()
    made = corpus().space.corpus
    rows = ({"_id": i, "title": "", "text": t} for i, t in zip(made.ids, made.texts, strict=True))
    (path / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    np.save(path / "vectors.npy", vectors())
    return path
