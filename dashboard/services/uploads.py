"""Uploaded files, kept in FRONTIER_HOME by content, so that they are read as any other path."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import streamlit as st

from engine.data import cache
from engine.errors import DataError

SECTION = "uploads"
WHOLE = "corpus.jsonl"
BESIDE = {"queries.jsonl", "aspects.tsv", "vectors.npy", "vectors.npz", "vectors.ids.txt"}
LONGEST_NAME = 200


def keep(files: Sequence[Any]) -> Path:
    """The path of an uploaded file, or of the folder that several make up.

    Several are a BEIR folder (a corpus.jsonl, what belongs beside it, and judgements as .tsv), or one .npy and its
    ids as .txt. Raises DataError for any other handful.
    """
    # Streamlit runs a page anew for every click; what was kept once is known by the upload's own id.
    paths: dict[tuple[str, ...], Path] = st.session_state.setdefault("uploads", {})
    key = tuple(sorted(f.file_id for f in files))
    if key not in paths or not paths[key].exists():
        paths[key] = _keep([(_safe(f.name), f.getvalue()) for f in files])
    return paths[key]


def _keep(files: list[tuple[str, bytes]]) -> Path:
    places = _places([name for name, _ in files])
    digest = hashlib.sha256()
    for name, data in sorted(files):
        digest.update(hashlib.sha256(name.encode()).digest() + hashlib.sha256(data).digest())
    folder = cache.section(SECTION) / digest.hexdigest()[:16]
    for name, data in files:
        target = folder / places[name]
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists():
            cache.write(target, data)
    names = list(places)
    if WHOLE in places and len(names) > 1:
        return folder
    return folder / next((n for n in names if not n.endswith(".txt")), names[0])


def _places(names: list[str]) -> dict[str, str]:
    """Where each file goes in the folder."""
    if len(set(names)) < len(names):
        raise DataError("two of the files have the same name; upload them one by one, or as a folder by path")
    if WHOLE in names:
        stray = [n for n in names if n != WHOLE and n not in BESIDE and not n.endswith(".tsv")]
        if stray:
            raise DataError(
                f"{stray[0]} is no part of a BEIR folder; beside {WHOLE} go {', '.join(sorted(BESIDE))} "
                "and judgements as .tsv"
            )
        return {n: n if n == WHOLE or n in BESIDE else f"qrels/{n}" for n in names}
    vectors = [n for n in names if n.endswith((".npy", ".npz"))]
    if len(names) == 2 and len(vectors) == 1 and any(n.endswith(".txt") for n in names):
        stem = vectors[0].rpartition(".")[0]
        return {n: n if n in vectors else f"{stem}.ids.txt" for n in names}
    if len(names) > 1:
        raise DataError(
            f"{len(names)} files make a corpus only with a {WHOLE} among them, or as vectors with their "
            "ids in a .txt; upload one table at a time"
        )
    return {names[0]: names[0]}


def _safe(name: str) -> str:
    """The last part of a name: a name from a browser must not choose a folder."""
    last = Path(name.replace("\\", "/")).name
    if last in ("", ".", "..") or last.startswith(".") or len(last.encode()) > LONGEST_NAME:
        raise DataError(f"a file cannot be called {name[:60]!r}; rename it")
    return last
