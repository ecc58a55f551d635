"""Roots of typed paths, and uploads: what this server reads of what its visitors name and send.

A path is resolved before it is compared, and so is every file that a reader would open in a folder. What is replaced
between that look and the reading (by somebody who can write on this machine) is not noticed.
"""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from engine.data.endpoints.config import is_endpoint
from engine.data.files import FOLDER_TABLE_SUFFIXES, split_suffix
from engine.data.judgement_files import list_candidates
from engine.errors import DataError
from engine.paths import cache_folders
from engine.wording import visible

REOPENED_FOLDERS = ("uploads", "judgements")
"""Folders of Frontier whose files pages open again, whatever a visitor may type."""
READABLE = (
    *(f"{stem}{suffix}" for stem in ("corpus", "queries") for suffix in FOLDER_TABLE_SUFFIXES),
    *(f"{stem}{suffix}" for stem in ("vectors", "query_vectors") for suffix in (".npy", ".npz", ".ids.txt")),
    *("aspects.tsv", "ids.txt", "data"),
)
MODEL_FILES = ("config.json", "modules.json")
MAX_MODEL_DEPTH = 3
"""Depth of folders in which a model's files are checked."""
_HUB_NAME = re.compile(r"\w[\w.-]*(/\w[\w.-]*)?", re.ASCII)
#: Of one file that a visitor sends.
MAX_UPLOAD_BYTES = 2 << 30
UPLOADS_OFF = "Uploads are off, as others can reach this server: frontier serve --allow-uploads turns them on."
PATHS_OFF = "Typed paths are off, as others can reach this server: frontier serve --root FOLDER opens a folder."


@dataclass(frozen=True, kw_only=True)
class Rules:
    """Rules, set by the command line, about the files of this machine that visitors may have read."""

    roots: tuple[Path, ...] = ()  # folders in which typed paths may lie
    corpora: tuple[Path, ...] = ()  # files and folders that it names, links in them included
    shared: bool = False  # True if others can reach the server: the user's home is no root then
    uploads: bool = True  # True if visitors may upload files


_SERVER_RULES = [Rules()]


def set_rules(rules: Rules) -> None:
    """Set the rules for all visitors of this server."""
    _SERVER_RULES[:] = [rules]


def get_rules() -> Rules:
    """Return the rules for all visitors of this server."""
    return _SERVER_RULES[0]


def accepts_typed_paths() -> bool:
    """Return True if pages accept typed paths at all."""
    return not get_rules().shared or bool(get_rules().roots)


def check_path(typed_path: str | Path) -> Path:
    """Return a path that a visitor typed, existing or not, if this server may read there.

    Raises DataError if not.
    """
    try:
        path = Path(typed_path).expanduser()
        if ".." in path.parts:  # else "guess/../file" would tell whether a folder called guess is there
            path = Path(os.path.abspath(path))
        real_path = path.resolve()
    except (OSError, RuntimeError, ValueError):  # no such user's home, links in a circle, a zero byte
        raise DataError(_format_refusal(typed_path)) from None
    # The error is the same for missing paths, so that it does not reveal which exist.
    if not any(real_path.is_relative_to(root) for root in _list_roots()):
        raise DataError(_format_refusal(typed_path))
    return path


def check_corpus(typed_path: str | Path) -> Path:
    """Return the path of a corpus or judgements, if the server may read all files that it would open.

    Each is checked, as a link in a permitted folder may lead elsewhere. Raises DataError otherwise.
    """
    path = check_path(typed_path)
    # Whoever started the server with this corpus has permitted the links in it.
    if path.absolute() in get_rules().corpora:
        return path
    if os.path.isdir(path):  # False for a name that no file can have, which the reader refuses by name
        # Imported here: it brings the readers of tables, which a starting server does not need.
        from engine.data.table_kinds import list_possible_documents

        file_paths = [*(path / name for name in READABLE), *list_candidates(path)]
        # Any table is the corpus if it lies alone beside queries or judgements.
        file_paths += list_possible_documents(path)
        # A folder without a corpus.jsonl may be one table, of all its Parquet files.
        file_paths += [*path.glob("*.parquet"), *path.glob("data/*.parquet")]
    else:
        stem, _ = split_suffix(path)
        names = ("ids.txt", f"{path.stem}.ids.txt", *(f"{stem}.vectors{end}" for end in (".npy", ".npz", ".ids.txt")))
        file_paths = list(map(path.with_name, names))
    for file_path in file_paths:
        check_path(file_path)
    return path


def check_model(model_name: str) -> None:
    """Raise DataError if an encoder is a folder that this server may not read, or has links out of it."""
    if not is_model_folder(model_name):
        return
    folder = check_path(model_name)
    # Only a folder that looks like a model is walked; loading refuses any other.
    if any(os.path.exists(folder / file_path) for file_path in MODEL_FILES):
        for file_path in _walk_folder(folder, MAX_MODEL_DEPTH):
            check_path(file_path)


def is_model_folder(model_name: str) -> bool:
    """Return True if a model's name is (or must be) a folder's path, and not a name on a hub."""
    # The name of a server of models is looked up in endpoints.toml, and nowhere else.
    if is_endpoint(model_name):
        return False
    # A name that could be on a hub may also be a folder where the server was started.
    return not _HUB_NAME.fullmatch(model_name) or os.path.exists(model_name)


def explain_refusal(typed_path: str) -> str | None:
    """Return the reason why this server may not read a corpus's path, for the page; None if it may."""
    try:
        check_corpus(typed_path)
    except DataError as error:
        return error.finding
    return None


def _list_roots() -> Iterator[Path]:
    """Yield the folders and files that visitors may read, with links resolved.

    They are those of the command line, and the user's home and caches, or, if others can reach the server, only what
    pages open again: uploads and judgements.
    """
    server_rules = get_rules()
    local_roots = (
        [folder / folder_name for folder in cache_folders() for folder_name in REOPENED_FOLDERS]
        if server_rules.shared
        else [Path.home(), *cache_folders()]
    )
    for root in (*server_rules.roots, *server_rules.corpora, *local_roots):
        yield root.resolve()


def _walk_folder(folder: Path, max_depth: int) -> Iterator[Path]:
    """Yield the paths of everything in a folder down to a depth (0: no inner folders), following links."""
    for inner_path in folder.iterdir():
        yield inner_path
        if max_depth and inner_path.is_dir():
            yield from _walk_folder(inner_path, max_depth - 1)


def _format_refusal(typed_path: str | Path) -> str:
    """Return the text of the error for a path outside of the folders that this server may read."""
    # A whole command, as its reader is on a page, where a bare flag says nothing.
    return (
        f"{visible(str(typed_path))[:300]!r} lies outside the folders that this server reads; start it by "
        '"frontier serve --root FOLDER", with a folder that contains it, to have it read'
    )
