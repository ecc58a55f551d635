"""Uploaded files, stored in FRONTIER_HOME by content, so that they are read as any other path."""

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

UPLOADS_SECTION = "uploads"
CORPUS_FILE = "corpus.jsonl"
SIDE_FILES = {"queries.jsonl", "aspects.tsv", "vectors.npy", "vectors.npz", "vectors.ids.txt"}
MAX_NAME_BYTES = 200
VISITOR_KEY = "visitor"
"""Session key of a name that no other session has."""
_SENDERS: dict[str, dict[str, str | None]] = defaultdict(dict)
"""Folder → who sent what is in it: a visitor's name → the session, None for one that no browser has."""


def save_uploads(files: Sequence[Any]) -> Path:
    """Store uploaded files; return the path of one file, or of the folder that several make up.

    Several are a BEIR folder (a corpus.jsonl, what belongs beside it, and judgements as .tsv), or one .npy and its
    ids as .txt. Raises DataError for any other combination.
    """
    # Streamlit runs a page again for every click; stored uploads are recognised by Streamlit's file id.
    paths: dict[tuple[str, ...], Path] = st.session_state.setdefault("uploads", {})
    file_ids = tuple(sorted(upload.file_id for upload in files))
    if file_ids not in paths or not paths[file_ids].exists():
        paths[file_ids] = _save_files([(_check_file_name(upload.name), upload.getvalue()) for upload in files])
    # The sender is noted on every upload, also of content that was stored before.
    _SENDERS[_folder_name(paths[file_ids])][get_visitor()] = jobs.get_session_jobs().session
    return paths[file_ids]


def is_own_upload(folder_name: str) -> bool:
    """Return True if this browser session has uploaded the content of the folder of this name."""
    return get_visitor() in _SENDERS.get(folder_name, ())


def belongs_to_others(folder_name: str) -> bool:
    """Return True if other visitors may need an upload's folder, so that this session must not delete it.

    On a server that others can reach, that is every folder that this session did not send; else one that another open
    window sent, as uploads of closed windows have no owner.
    """
    if is_own_upload(folder_name):
        return False
    senders = _SENDERS.get(folder_name, {}).values()
    return roots.get_rules().shared or any(sender is None or jobs.has_open_tab(sender) for sender in senders)


def find_upload_folder(path: str) -> str:
    """Return the name of the upload folder that contains a corpus's path; "" if it was not uploaded."""
    try:
        return _folder_name(Path(path))
    except ValueError:
        return ""


def _folder_name(path: Path) -> str:
    """Return the name of the folder of uploads that holds a path. Raises ValueError if it is elsewhere."""
    # Without a match the relative default makes `relative_to` raise the ValueError.
    folder = next(
        (r / UPLOADS_SECTION for r in cache_folders() if path.is_relative_to(r / UPLOADS_SECTION)),
        Path(UPLOADS_SECTION),
    )
    return path.relative_to(folder).parts[0]


def get_visitor() -> str:
    """Return the random name of this session."""
    name: str = st.session_state.setdefault(VISITOR_KEY, uuid.uuid4().hex)
    return name


def _save_files(files: list[tuple[str, bytes]]) -> Path:
    """Write uploaded names and contents to a folder named by content; return the path of the corpus in it."""
    targets = _plan_targets([name for name, _ in files])
    # The folder is named by content: the same files sent twice are stored once.
    digest = hashlib.sha256()
    for name, content in sorted(files):
        digest.update(hashlib.sha256(name.encode()).digest() + hashlib.sha256(content).digest())
    folder = cache.entry_path(UPLOADS_SECTION, digest.hexdigest()[:16])
    for name, content in files:
        target = folder / targets[name]
        # Content names the folder, so an existing file is identical.
        if not target.exists():
            cache.write(target, content)
    names = list(targets)
    # The ids in a .txt lie beside their vectors, whose file is the corpus then.
    if CORPUS_FILE in targets and len(names) > 1:
        return folder
    return folder / next((n for n in names if not n.endswith(".txt")), names[0])


def _plan_targets(names: list[str]) -> dict[str, str]:
    """Return uploaded name → path in the upload's folder. Raises DataError if they make no corpus.

    They make one as a BEIR folder (corpus.jsonl, queries.jsonl, judgements in qrels/), as vectors with their ids, or as
    one table.
    """
    if len(set(names)) < len(names):
        raise DataError("two of the files have the same name; upload them one by one, or as a folder by path")
    if CORPUS_FILE in names:
        stray = [n for n in names if n != CORPUS_FILE and n not in SIDE_FILES and not n.endswith(".tsv")]
        if stray:
            raise DataError(
                f"{stray[0]} is no part of a BEIR folder; beside {CORPUS_FILE} go {', '.join(sorted(SIDE_FILES))} "
                "and judgements as .tsv"
            )
        return {n: n if n == CORPUS_FILE or n in SIDE_FILES else f"qrels/{n}" for n in names}
    vectors = [n for n in names if n.endswith((".npy", ".npz"))]
    if len(names) == 2 and len(vectors) == 1 and any(n.endswith(".txt") for n in names):
        stem = vectors[0].rpartition(".")[0]
        return {n: n if n in vectors else f"{stem}.ids.txt" for n in names}
    if len(names) > 1:
        raise DataError(
            f"{len(names)} files make a corpus only with a {CORPUS_FILE} among them, or as vectors with their "
            "ids in a .txt; upload one table at a time"
        )
    return {names[0]: names[0]}


def _check_file_name(name: str) -> str:
    """Return the file name without any folder, as a browser must not choose one. Raises DataError."""
    file_name = Path(name.replace("\\", "/")).name
    if file_name in ("", ".", "..") or file_name.startswith(".") or len(file_name.encode()) > MAX_NAME_BYTES:
        raise DataError(f"a file cannot be called {name[:60]!r}; rename it")
    return file_name
