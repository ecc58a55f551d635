"""Uploaded files, kept in FRONTIER_HOME by content, so that they are read as any other path."""

import hashlib
import uuid
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import streamlit as st

from dashboard.services import jobs, roots
from engine.data import cache
from engine.errors import DataError
from engine.paths import cache_folders

SECTION = "uploads"
WHOLE = "corpus.jsonl"
BESIDE = {"queries.jsonl", "aspects.tsv", "vectors.npy", "vectors.npz", "vectors.ids.txt"}
LONGEST_NAME = 200
VISITOR = "visitor"
"""Session key of a name that no other session has."""
_SENT: dict[str, dict[str, str | None]] = defaultdict(dict)
"""Folder → who sent what is in it: a visitor's name → the session, None for one that no browser has."""


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
    _SENT[_name_of(paths[key])][visitor()] = jobs.mine().session
    return paths[key]


def is_mine(name: str) -> bool:
    """Whether this session sent what is in a folder of this name."""
    return visitor() in _SENT.get(name, ())


def is_of_others(name: str) -> bool:
    """Whether a folder is none of this session's affair: another sent it, and is there or may come back.

    On a server that only its own machine reaches, what was sent by windows that are closed is anybody's to delete.
    """
    if is_mine(name):
        return False
    senders = _SENT.get(name, {}).values()
    return roots.rules().shared or any(sender is None or jobs.has_tab(sender) for sender in senders)


def folder_of(path: str) -> str:
    """The name of the folder of uploads that a corpus lies in; "" for one that was not sent."""
    try:
        return _name_of(Path(path))
    except ValueError:
        return ""


def _name_of(path: Path) -> str:
    folder = next((own / SECTION for own in cache_folders() if path.is_relative_to(own / SECTION)), Path(SECTION))
    return path.relative_to(folder).parts[0]


def visitor() -> str:
    """A name of this session that no other has."""
    name: str = st.session_state.setdefault(VISITOR, uuid.uuid4().hex)
    return name


def _keep(files: list[tuple[str, bytes]]) -> Path:
    places = _places([name for name, _ in files])
    digest = hashlib.sha256()
    for name, data in sorted(files):
        digest.update(hashlib.sha256(name.encode()).digest() + hashlib.sha256(data).digest())
    folder = cache.entry_path(SECTION, digest.hexdigest()[:16])
    for name, data in files:
        target = folder / places[name]
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
