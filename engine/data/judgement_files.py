"""Files of judgements in a data set's folder: which are read, as which split; and which files are not read, and why."""

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

from engine.data.files import GZIP_SUFFIX, find_table, is_present, split_suffix
from engine.errors import DataError

JUDGEMENT_SUFFIXES = (".tsv", ".txt", ".csv", ".qrels", ".qrel", ".trec", ".jsonl", ".ndjson", ".json", ".parquet")
"""Suffixes of files of judgements, the preferred first; all but .parquet may be compressed, as .tsv.gz."""
QRELS_NAME = "qrels"
"""The usual name of judgements in a data set's folder, and the default."""
SINGLE_SPLIT = "test"
"""The split of judgements in a single file whose name tells none."""

# Splits are listed in this order; those with other names follow alphabetically.
_SPLIT_RANKS = {"train": 0, "dev": 1, "validation": 1, "test": 2}
_QRELS_WORDS = frozenset({"qrel", "qrels", "judgement", "judgements", "judgment", "judgments"})
_SHARD_ENDING = re.compile(r"-[0-9]{5}-of-[0-9]{5}$")
_NAME_MARKS = re.compile(r"[._ -]+")
_DOCUMENTATION_NAMES = frozenset({"readme", "license", "licence", "citation", "changelog", "notice", "notes"})
_DOCUMENTATION_SUFFIXES = frozenset({".md", ".rst", ".pdf", ".html", ".bib"})
# Stores of sweeps and logs of votes, which one may keep beside the data.
_DATABASE_SUFFIXES = frozenset({".db", ".db-wal", ".db-shm", ".db-journal"})
# Kinds of files that are no judgements even where their name begins with qrels.
_OTHER_KINDS = frozenset(
    {
        ".xlsx", ".xls", ".ods", ".zip", ".bz2", ".xz", ".zst", ".lz4", ".tar", ".tgz", ".7z", ".npy", ".npz",
        ".sqlite", ".db", ".pkl", ".pickle", ".feather", ".h5", ".docx",
    }
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class JudgementFiles:
    """The files of judgements of a folder.

    by_split: split → its file, or the parts of one; unread: files that are not read, by the reason; other_folders:
    folders that may hold judgements, where there are no others
    """

    by_split: dict[str, list[Path]]
    unread: dict[str, list[str]]
    other_folders: tuple[str, ...] = ()

    @property
    def paths(self) -> list[Path]:
        """All files that are read."""
        return list(chain.from_iterable(self.by_split.values()))


@dataclass(frozen=True, kw_only=True)
class JudgementPlace:
    """Files with the judgements of a data set, and the folder of the queries that they belong to.

    files: those of the judgements; queries_folder: the folder whose queries replace those of the data set, None for its
    own queries
    """

    files: JudgementFiles
    queries_folder: Path | None = None


def locate_judgements(own_folder: Path | None, qrels_name: str) -> JudgementPlace:
    """Locate the judgements that a name means: those in the data set's own folder, else those at a path elsewhere.

    The default name, "qrels", means nothing elsewhere. own_folder: None for a data set that is no folder. Raises
    DataError if there are no such judgements, or no queries for them.
    """
    is_default = qrels_name == QRELS_NAME
    if own_folder is not None:
        # A folder that is named by its full path may have queries of its own.
        is_inner = not os.path.isabs(qrels_name) and os.path.exists(own_folder / qrels_name)
        if is_default or is_inner:
            return JudgementPlace(files=_find_own_judgements(own_folder, qrels_name))
    if is_default:
        return JudgementPlace(files=JudgementFiles(by_split={}, unread={}))
    outer_path = Path(os.path.abspath(os.path.expanduser(qrels_name)))
    # `os.path` takes a name that no file can have for that of a missing one.
    is_file = os.path.isfile(outer_path)
    if not is_file and not os.path.isdir(outer_path):
        raise DataError(_explain_missing(own_folder, qrels_name))
    if not is_file and find_table(outer_path, "queries") is not None:
        return JudgementPlace(files=_find_own_judgements(outer_path, QRELS_NAME), queries_folder=outer_path)
    files = _take_single_file(outer_path) if is_file else _sort_into_splits(list_files(outer_path), "")
    if not files.by_split:
        raise DataError(f"{qrels_name} holds no judgements: its files must be {_format_suffixes()}")
    if own_folder is not None and find_table(own_folder, "queries") is not None:
        return JudgementPlace(files=files)
    # As in a BEIR folder, queries lie beside a file of judgements, or beside the folder that it is in.
    for folder in list(outer_path.parents)[: 2 if is_file else 1]:
        if find_table(folder, "queries") is not None:
            return JudgementPlace(files=files, queries_folder=folder)
    raise DataError(
        f"{qrels_name} has judgements, and the corpus has no queries: put queries.csv or queries.jsonl "
        f"(_id, text) beside {outer_path.name}, or name a folder with queries.jsonl and qrels/"
    )


def _find_own_judgements(folder_path: Path, qrels_name: str) -> JudgementFiles:
    """Find the judgements of a folder: the files of its subfolder qrels_name; else those beside the corpus.

    Beside the corpus, a file of judgements has qrels or judgements in its name. qrels_name may also be a single file.
    """
    qrels_folder = folder_path / qrels_name
    if os.path.isfile(qrels_folder):
        return _take_single_file(qrels_folder)
    beside_files = [path for path in list_files(folder_path) if _has_qrels_word(path)]
    if is_present(qrels_folder):
        # Listed, not matched by a pattern: a glob silently returns nothing for a folder that cannot be read.
        judgement_files = _sort_into_splits(list_files(qrels_folder), f"{qrels_name}/")
        if judgement_files.by_split or not any(map(has_judgement_suffix, beside_files)):
            _add_unread(judgement_files, f"judgements are those of the folder {qrels_name}", beside_files)
            inner_files = [path for path in qrels_folder.glob("*/*") if has_judgement_suffix(path)]
            _add_unread(judgement_files, f"judgements lie in {qrels_name}, in no folder inside it", inner_files)
            return judgement_files
    judgement_files = _sort_into_splits(beside_files, "")
    if not judgement_files.by_split:
        return replace(judgement_files, other_folders=tuple(_list_judgement_folders(folder_path)))
    if len(judgement_files.paths) == 1:
        return replace(_take_single_file(judgement_files.paths[0]), unread=judgement_files.unread)
    return judgement_files


def _take_single_file(path: Path) -> JudgementFiles:
    """Return the only file of judgements, with the split that its name tells."""
    return JudgementFiles(by_split={_name_single_split(path): [path]}, unread={})


def _explain_missing(own_folder: Path | None, qrels_name: str) -> str:
    """Return the message for judgements that are neither in the data set's folder nor elsewhere, with the choices."""
    if own_folder is None:
        return (
            f"qrels={qrels_name!r} must be a folder with queries.jsonl and qrels/, or a file of judgements beside "
            "queries.jsonl; there is no such file or folder"
        )
    beside_names = [path.name for path in list_files(own_folder) if _has_qrels_word(path)]
    choices = [*_list_judgement_folders(own_folder), *beside_names]
    return f"{own_folder} has no judgements {qrels_name!r}; it has {', '.join(choices) or 'none'}"


def _format_suffixes() -> str:
    """List the endings of files of judgements."""
    return f"{', '.join(JUDGEMENT_SUFFIXES)}, or those with .gz behind"


def find_aspects_file(folder_path: Path) -> Path | None:
    """Return the file "aspects" of a folder, with any of the suffixes of judgements; None if there is none."""
    names = [f"aspects{suffix}{packing}" for suffix in JUDGEMENT_SUFFIXES for packing in ("", GZIP_SUFFIX)]
    return next((folder_path / name for name in names if is_present(folder_path / name)), None)


def list_candidates(folder_path: Path) -> list[Path]:
    """List all files and folders that might be read as judgements or aspects of a data set, whichever is chosen."""
    beside = [path for path in folder_path.glob("*") if is_judgement_name(path.name) or path.match("aspects.*")]
    inside = [path for path in folder_path.glob("*/*") if has_judgement_suffix(path)]
    return [*beside, *folder_path.glob("qrels*"), *inside]


def is_judgement_name(file_name: str) -> bool:
    """Return True if a file beside a corpus is read as judgements by its name."""
    return _has_qrels_word(Path(file_name)) and has_judgement_suffix(file_name)


def _has_qrels_word(path: Path) -> bool:
    """Return True if the name of a file that is not hidden says that it holds judgements."""
    stem, suffix = split_suffix(path)
    words = {*_NAME_MARKS.split(stem.lower()), suffix.removeprefix(".")}
    return not words.isdisjoint(_QRELS_WORDS) and not path.name.startswith(".")


def has_judgement_suffix(path: str | Path) -> bool:
    """Return True if a file's ending is that of judgements; one that is called qrels… may have any ending."""
    path = Path(path)
    stem, suffix = split_suffix(path)
    if suffix == ".parquet":
        return not path.name.lower().endswith(GZIP_SUFFIX)
    is_trec_name = _NAME_MARKS.split(stem.lower())[0] in ("qrel", "qrels") and suffix not in _OTHER_KINDS
    return suffix in JUDGEMENT_SUFFIXES or suffix == "" or is_trec_name


def name_split(path: Path) -> str:
    """Return the split of a file of judgements by its name, without the word qrels; "test" if nothing else is left."""
    stem, suffix = split_suffix(path)
    # The ending of a name such as qrels.adhoc is no kind of file.
    stem = stem if suffix in JUDGEMENT_SUFFIXES else f"{stem}{suffix}"
    stem = _SHARD_ENDING.sub("", stem)
    words = _NAME_MARKS.split(stem)
    if _QRELS_WORDS.isdisjoint(map(str.lower, words)):
        return stem
    return "-".join(word for word in words if word and word.lower() not in _QRELS_WORDS) or SINGLE_SPLIT


def _list_judgement_folders(folder_path: Path) -> list[str]:
    """List the subfolders that hold files which may be judgements."""
    inner_files = [path for path in folder_path.glob("*/*") if has_judgement_suffix(path) and not path.is_dir()]
    return sorted({path.parent.name for path in inner_files if not path.parent.name.startswith(".")})


def list_files(folder_path: Path) -> list[Path]:
    """List the files of a folder by name, without hidden ones, databases and documentation (README, LICENSE …)."""
    files = [path for path in folder_path.iterdir() if not path.is_dir() and not path.name.startswith(".")]
    return sorted(path for path in files if not _is_documentation(path) and path.suffix not in _DATABASE_SUFFIXES)


def _name_single_split(path: Path) -> str:
    """Return the split of the only file of judgements: by its name if that tells a usual one, else "test"."""
    words = [word for word in _NAME_MARKS.split(name_split(path).lower()) if word in _SPLIT_RANKS]
    return words[0] if len(words) == 1 else SINGLE_SPLIT


def _is_documentation(path: Path) -> bool:
    """Return True for a README, a licence and the like."""
    stem, suffix = split_suffix(path)
    return stem.lower() in _DOCUMENTATION_NAMES or suffix in _DOCUMENTATION_SUFFIXES


def _sort_into_splits(paths: Iterable[Path], prefix: str) -> JudgementFiles:
    """Sort files into splits; of several kinds of one split, the first of JUDGEMENT_SUFFIXES is read.

    prefix: of the files' names in notices
    """
    paths_by_split: dict[str, list[Path]] = {}
    unread: dict[str, list[str]] = {}
    for path in paths:
        if has_judgement_suffix(path):
            paths_by_split.setdefault(name_split(path), []).append(path)
        else:
            reason = f"judgements are {_format_suffixes()}"
            unread.setdefault(reason, []).append(f"{prefix}{path.name}")
    by_split: dict[str, list[Path]] = {}
    for split in order_splits(paths_by_split):
        chosen_paths = _choose_parts(paths_by_split[split])
        by_split[split] = chosen_paths
        remaining = [f"{prefix}{path.name}" for path in paths_by_split[split] if path not in chosen_paths]
        if remaining:
            unread[f"the split {split} is read from {prefix}{chosen_paths[0].name}"] = remaining
    return JudgementFiles(by_split=by_split, unread=unread)


def order_splits(split_names: Iterable[str]) -> list[str]:
    """Return names of splits in order: the usual ones in their usual order, then all others by name."""
    return sorted(split_names, key=lambda split: (_SPLIT_RANKS.get(split, len(_SPLIT_RANKS)), split))


def _choose_parts(paths: Sequence[Path]) -> list[Path]:
    """Choose the file of a split, or all parts of one: of several kinds the preferred, uncompressed before .gz."""

    def rank(path: Path) -> tuple[int, bool, str]:
        """Return the rank of a file's kind."""
        suffix = split_suffix(path)[1]
        suffix_rank = JUDGEMENT_SUFFIXES.index(suffix) if suffix in JUDGEMENT_SUFFIXES else len(JUDGEMENT_SUFFIXES)
        return suffix_rank, path.name.lower().endswith(GZIP_SUFFIX), path.name

    ordered_paths = sorted(paths, key=rank)
    first_kind = rank(ordered_paths[0])[:2]
    parts = [path for path in ordered_paths if rank(path)[:2] == first_kind]
    are_shards = all(_SHARD_ENDING.search(split_suffix(path)[0]) for path in parts)
    return parts if are_shards else parts[:1]


def _add_unread(judgement_files: JudgementFiles, reason: str, paths: Iterable[Path]) -> None:
    """Add files that are not read, with the reason."""
    if names := [path.name for path in paths]:
        judgement_files.unread[reason] = names
