"""Uploaded files, kept in FRONTIER_HOME by content, so that they are read as any other path."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from engine.data import cache

BEIR = {"corpus.jsonl", "queries.jsonl", "aspects.tsv"}


def keep(files: Sequence[Any]) -> Path:
    """The file, or the BEIR folder that several files make up: .tsv files beside a corpus.jsonl are judgements."""
    # Only the last part of a name is used: a name from a browser must not choose a folder.
    contents = {Path(f.name).name: f.getvalue() for f in files}
    digest = hashlib.sha256()
    for name in sorted(contents):
        digest.update(name.encode())
        digest.update(hashlib.sha256(contents[name]).digest())
    folder = cache.section("uploads") / digest.hexdigest()[:16]
    whole = "corpus.jsonl" in contents and len(contents) > 1
    for name, data in contents.items():
        part = folder / "qrels" if whole and name not in BEIR and name.endswith(".tsv") else folder
        part.mkdir(parents=True, exist_ok=True)
        if not (part / name).exists():
            cache.write(part / name, data)
    return folder if whole else folder / next(iter(contents))
