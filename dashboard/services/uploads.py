"""Uploaded files, stored in FRONTIER_HOME by content, so that they are read as any other path."""

import hashlib
import tempfile
import uuid
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import streamlit as st

from dashboard.services import jobs, roots
from engine.data import cache
from engine.data.files import FOLDER_TABLE_SUFFIXES, find_table, split_suffix
from engine.data.judgement_files import JUDGEMENT_SUFFIXES, QRELS_NAME, has_judgement_suffix, is_judgement_name
from engine.errors import DataError
from engine.paths import cache_folders

UPLOADS_SECTION = "uploads"
CORPUS_FILE = "corpus.jsonl"
CORPUS_FILES = {f"corpus{suffix}" for suffix in FOLDER_TABLE_SUFFIXES}
SIDE_FILES = {
    *("queries.jsonl", "aspects.tsv", "answers.tsv", "vectors.npy", "vectors.npz", "vectors.ids.txt"),
    *("query_vectors.npy", "query_vectors.npz", "query_vectors.ids.txt"),
}
QUERIES_FILES = {f"queries{suffix}" for suffix in FOLDER_TABLE_SUFFIXES}
VECTOR_ENDINGS = (".npy", ".npz")
LINE_ENDINGS = (".csv", ".tsv", ".jsonl", ".ndjson", ".txt")
IDS_ENDING = "ids.txt"
"""Ending of the name of a file with the ids of vectors, one a line."""
MAX_NAME_BYTES = 200
#: Of a text file, from which its kind (documents, queries, judgements) is told.
HEAD_BYTES = 1 << 20
VISITOR_KEY = "visitor"
"""Session key of a name that no other session has."""
_SENDERS: dict[str, dict[str, str | None]] = defaultdict(dict)
"""Folder → who sent what is in it: a visitor's name → the session, None for one that no browser has."""
_SENT_NAMES: dict[str, dict[str, str]] = {}
"""Folder → path of a file in it → the name under which it was sent."""


def save_uploads(files: Sequence[Any]) -> Path:
    """Store uploaded files; return the path of one file, or of the folder that several make up.

    Several are a BEIR folder (a corpus.jsonl or another table of documents, what belongs beside it, and judgements),
    one .npy and its ids as .txt, or a table and the vectors of its rows. Raises DataError for any other combination.
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
    """Return True if others may need an upload's folder, so that this browser session must not delete it.

    On a server that others can reach, that is every folder that this browser session did not send; else one that
    another open window sent, as uploads of closed windows have no owner.
    """
    if is_own_upload(folder_name):
        return False
    senders = _SENDERS.get(folder_name, {}).values()
    # A sender is the id of a browser session, None for an upload outside of any.
    return roots.get_rules().shared or any(sender is None or jobs.has_open_tab(sender) for sender in senders)


def find_upload_folder(path: str) -> str:
    """Return the name of the upload folder that contains a corpus's path; "" if it was not uploaded."""
    try:
        return _folder_name(Path(path))
    except ValueError:
        return ""


def find_sent_files(path: str) -> tuple[str, dict[str, str]]:
    """Return a corpus's path as the person has it, and the options that read what was sent with it.

    Code that a page exports names these: an upload's path is one of the server. Any other path is as it is.
    """
    from engine.data.table_kinds import find_corpus_table

    if not find_upload_folder(path):
        return path, {}
    folder = Path(path)
    table = find_corpus_table(folder) if folder.is_dir() else None
    # A table is read with judgements of one file and the queries beside it, as they were sent. Vectors of queries and
    # several files of judgements need a folder, which the person has under a name of its own.
    judgement_files = [] if table is None else list((folder / QRELS_NAME).glob("*"))
    has_vectors = any(file.name.endswith(VECTOR_ENDINGS) for file in folder.glob("*"))
    if table is None or len(judgement_files) != 1 or has_vectors or find_table(folder, "queries") is None:
        return folder.name, {}
    return table.name, {"qrels": judgement_files[0].name}


def describe_sent_files(path: str) -> str:
    """Return which files must lie where for exported code to read an upload again; "" if nothing need be said.

    The person has the files under the names that they were sent by, and a corpus is read by names of its own.
    """
    if not (folder_name := find_upload_folder(path)):
        return ""
    corpus_path, sent_names = Path(path), _SENT_NAMES.get(folder_name, {})
    folder = corpus_path if corpus_path.is_dir() else corpus_path.parent
    corpus_name, options = find_sent_files(path)
    is_table = bool(options) or not corpus_path.is_dir()
    lines = []
    for file in sorted(filter(Path.is_file, folder.rglob("*"))):
        target = file.relative_to(folder).as_posix()
        # The code names the table and the file of judgements itself.
        if is_table and file.name in (corpus_name, options.get("qrels")):
            continue
        sent_name = sent_names.get(target, target)
        place = "must lie beside it" if is_table else "must lie in it"
        lines.append(f"{sent_name} {place}" + (f" as {target}" if sent_name != target else ""))
    return "; ".join(lines)


def _folder_name(path: Path) -> str:
    """Return the name of the folder of uploads that holds a path. Raises ValueError if it is elsewhere."""
    for cache_folder in cache_folders():
        uploads_folder = cache_folder / UPLOADS_SECTION
        # The folder of all uploads is in none of them.
        if path.is_relative_to(uploads_folder) and path != uploads_folder:
            return path.relative_to(uploads_folder).parts[0]
    raise ValueError(f"{path} is no upload")


def get_visitor() -> str:
    """Return the random name of this browser session, by which its uploads and previews are found again."""
    name: str = st.session_state.setdefault(VISITOR_KEY, uuid.uuid4().hex)
    return name


def _save_files(files: list[tuple[str, bytes]]) -> Path:
    """Write uploaded names and contents to a folder named by content; return the path of the corpus in it."""
    # A file that is still listed is easily chosen once more.
    files = list(dict.fromkeys(files))
    names = [name for name, _ in files]
    if len(set(names)) < len(names):
        raise DataError("two of the files have the same name; upload them one by one, or as a folder by path")
    corpus_name = _find_corpus_name(files)
    targets = _plan_folder(names, corpus_name, files) if corpus_name else _plan_table(names)
    # The folder is named by content: the same files sent twice are stored once.
    digest = hashlib.sha256()
    for name, content in sorted(files):
        digest.update(hashlib.sha256(name.encode()).digest() + hashlib.sha256(content).digest())
    folder = cache.entry_path(UPLOADS_SECTION, digest.hexdigest()[:16])
    # Pages call a folder by its name, which is that of the documents' file and never the digest.
    folder = folder / split_suffix(Path(corpus_name))[0] if corpus_name else folder
    _SENT_NAMES[_folder_name(folder)] = {target: name for name, target in targets.items()}
    for name, content in files:
        target = folder / targets[name]
        # Content names the folder, so an existing file is identical.
        if not target.exists():
            cache.write(target, content)
    if corpus_name:
        return folder
    # Otherwise the corpus is the table, or the one file that is not a list of ids (.txt), or the only file.
    sent_names = [name for name in names if not name.endswith(".txt")] or names
    return folder / min(sent_names, key=_is_vectors_name)


def _find_corpus_name(files: Sequence[tuple[str, bytes]]) -> str:
    """Return the name of the documents' table among files that make up a folder; "" if they make up none.

    Raises DataError if it is unclear which of several tables holds the documents.
    """
    names = [name for name, _ in files]
    if len(names) == 1:
        return ""
    if corpus_names := sorted(CORPUS_FILES.intersection(names), key=[CORPUS_FILE, *CORPUS_FILES].index):
        return corpus_names[0]
    # A text beside vectors lists their ids, unless its name says that it holds judgements.
    tables = [name for name in names if not name.endswith((*VECTOR_ENDINGS, ".txt")) or is_judgement_name(name)]
    # One table is a corpus by itself; vectors and texts of ids belong to it.
    if len(tables) < 2:
        return ""
    # Imported here and below: it brings the readers of tables, which a starting server does not need.
    from engine.data.table_kinds import DOCUMENTS, describe_unclear_documents

    documents = _sort_by_kind(files)[DOCUMENTS]
    if not documents:
        raise DataError(
            f"none of {', '.join(tables)} holds documents: upload the documents' file with them, and call it corpus.csv"
        )
    if len(documents) > 1:
        raise DataError(f"{describe_unclear_documents(documents)}, or upload one table at a time")
    return documents[0]


def _sort_by_kind(files: Sequence[tuple[str, bytes]]) -> dict[str, list[str]]:
    """Return kind → names of the uploaded files of that kind, without vectors and their ids."""
    from engine.data.table_kinds import sort_tables

    with tempfile.TemporaryDirectory() as folder:
        paths = []
        for name, content in files:
            if name.endswith((*VECTOR_ENDINGS, IDS_ENDING)) or name in SIDE_FILES - QUERIES_FILES:
                continue
            paths.append(Path(folder, name))
            # A table may have gigabytes, and the lines of a text tell its kind long before its end.
            head, line_end, _ = content[:HEAD_BYTES].rpartition(b"\n")
            is_cut = len(content) > HEAD_BYTES and name.endswith(LINE_ENDINGS)
            paths[-1].write_bytes(head + line_end if is_cut else content)
        return sort_tables(paths)


def _plan_folder(names: list[str], corpus_name: str, files: Sequence[tuple[str, bytes]]) -> dict[str, str]:
    """Return uploaded name → path in a BEIR folder: documents, queries, judgements in qrels/, vectors.

    Raises DataError for a file that is no part of one.
    """
    queries_targets = _plan_queries(names, corpus_name, files)
    vector_targets = _plan_vectors(names)
    fixed_targets = {name: name for name in names if name in {corpus_name, *SIDE_FILES, *QUERIES_FILES}}
    known_targets = fixed_targets | queries_targets | vector_targets
    strays = [name for name in names if name not in known_targets and not has_judgement_suffix(name)]
    if strays:
        raise DataError(
            f"{strays[0]} is no part of a BEIR folder; beside {corpus_name} go {', '.join(sorted(SIDE_FILES))} "
            f"and judgements ({', '.join(JUDGEMENT_SUFFIXES)})"
        )
    # Whatever has no name of its own in a data set holds judgements, by its ending.
    return {name: f"qrels/{name}" for name in names} | known_targets


def _plan_queries(names: list[str], corpus_name: str, files: Sequence[tuple[str, bytes]]) -> dict[str, str]:
    """Return the name of the file of queries → its name in a BEIR folder; {} if it is called queries, or is not there.

    Raises DataError if several files may hold the queries, or if a folder's queries are not read from such a file.
    """
    from engine.data.table_kinds import QUERIES, find_queries_suffix

    if QUERIES_FILES.intersection(names):
        return {}
    query_names = [name for name in _sort_by_kind(files)[QUERIES] if name != corpus_name]
    if len(query_names) > 1:
        raise DataError(f"{' and '.join(query_names)} may each hold the queries: call the queries' file queries.csv")
    targets = {}
    for name in query_names:
        if (suffix := find_queries_suffix(name)) is None:
            raise DataError(
                f"{name}: queries are read from {', '.join(FOLDER_TABLE_SUFFIXES)}; save them as queries.csv"
            )
        targets[name] = f"queries{suffix}"
    return targets


def _plan_table(names: list[str]) -> dict[str, str]:
    """Return uploaded name → path in the upload's folder, for a table or vectors with what belongs to them.

    Raises DataError if the files make no corpus.
    """
    vector_files = list(filter(_is_vectors_name, names))
    if len(names) == 2 and len(vector_files) == 1 and any(name.endswith(".txt") for name in names):
        # The ids are found by their name, which follows that of the vectors.
        stem, _, _ = vector_files[0].rpartition(".")
        return {name: name if name in vector_files else f"{stem}.ids.txt" for name in names}
    tables = [name for name in names if not _is_vectors_name(name) and not name.endswith(".txt")]
    if len(names) == 2 and len(tables) == len(vector_files) == 1:
        # Vectors of a table's rows are found by its name too.
        stem = split_suffix(Path(tables[0]))[0]
        return {tables[0]: tables[0], vector_files[0]: f"{stem}.vectors{Path(vector_files[0]).suffix}"}
    if len(names) > 1:
        raise DataError(
            f"{len(names)} files make a corpus as a table of documents with queries or judgements, as vectors with "
            "their ids in a .txt, or as a table with the vectors of its rows; call the documents' file corpus.csv"
        )
    return {names[0]: names[0]}


def _is_vectors_name(name: str) -> bool:
    return name.endswith(VECTOR_ENDINGS)


def _plan_vectors(names: list[str]) -> dict[str, str]:
    """Return uploaded name → name in a BEIR folder for files of vectors, and of their ids, whatever they are called.

    One whose name has "quer" in it holds the queries' vectors, another one the documents'.
    """
    targets: dict[str, str] = {}
    for name in names:
        if not name.endswith((*VECTOR_ENDINGS, IDS_ENDING)):
            continue
        # Ids are found by the name of their vectors, so that both are renamed alike.
        stem = "query_vectors" if "quer" in name.lower() else "vectors"
        target = f"{stem}.{IDS_ENDING}" if name.endswith(IDS_ENDING) else f"{stem}{Path(name).suffix}"
        if target in targets.values():
            raise DataError(f"{name} and another file may hold the same vectors; call them vectors and query_vectors")
        targets[name] = target
    return targets


def _check_file_name(name: str) -> str:
    """Return the file name without any folder, as a browser must not choose one. Raises DataError."""
    file_name = Path(name.replace("\\", "/")).name
    if file_name in ("", ".", "..") or file_name.startswith(".") or len(file_name.encode()) > MAX_NAME_BYTES:
        raise DataError(f"a file cannot be called {name[:60]!r}; rename it")
    return file_name
