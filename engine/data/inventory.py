"""Inventory of the cache: embeddings of a corpus by one encoder, uploads, stores of sweeps.

Entries are named by digests, which mean nothing to a person; a label beside them describes them. Entries without a
label are equally valid and are listed together.
"""

import json
import os
import shutil
import sqlite3
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path

from engine.data import cache
from engine.data.sqlite import READ_ONLY_CODES, primary_code
from engine.errors import FrontierError
from engine.paths import home

LABEL_SECTION = "labels"
STORE_SECTION = "stores"
CODE_SECTION = "code"
_COMPILED_SUFFIXES = {".nbi", ".nbc"}
_SQLITE_MAGIC = b"SQLite format 3\0"
_DATABASE_SUFFIXES = ("", "-wal", "-shm", "-journal")
QUIET_SECONDS = 60.0
"""A store that has not changed for this long counts as idle."""

Facts = Mapping[str, str | int]


@dataclass(frozen=True)
class Item:
    """Part of the cache that can be deleted as a unit.

    section: its folder; name: its label, folder or file, "" for all entries without one; facts: its description; files:
    its files and their bytes; used: time of its last use, in seconds since 1970; missing: number of entries that its
    label names and that do not exist.
    """

    section: str
    name: str
    facts: Facts
    files: Mapping[Path, int] = field(repr=False)
    used: float = 0.0
    missing: int = 0

    @property
    def bytes(self) -> int:
        return sum(self.files.values())

    @property
    def is_database(self) -> bool:
        """True for a database, which another process may be writing to."""
        return any(map(_is_store, self.files))

    @property
    def is_recent(self) -> bool:
        """True for a database that changed less than a minute ago."""
        # The second number is the time of a file's last change; one in the future comes from a clock that was set back.
        return self.is_database and abs(time.time() - max(_read_stat(path)[1] for path in self.files)) < QUIET_SECONDS


def label_entries(section_name: str, label_name: str, entry_keys: Sequence[str], facts: Facts) -> None:
    """Write a label for some entries of a section; the same label again marks them as used now.

    facts: description of the entries, for a person. Never raises: a label only helps.
    """
    label = {"section": section_name, "name": label_name, "facts": dict(facts), "keys": list(entry_keys)}
    label_content = json.dumps(label).encode()
    label_key = f"{section_name}.{label_name}"
    with suppress(FrontierError, OSError):
        if cache.get(LABEL_SECTION, label_key) == label_content:
            os.utime(home() / LABEL_SECTION / label_key)
        else:
            cache.put(LABEL_SECTION, label_key, label_content)


def find_labelled(section_name: str, facts: Facts) -> list[tuple[Facts, tuple[str, ...]]]:
    """Find the labels of a section that state some facts; return all facts and the entry keys of each, last used first.

    The entries themselves may be gone.
    """
    matching_labels = [
        label for label in _read_labels() if label.section == section_name and facts.items() <= label.facts.items()
    ]
    matching_labels.sort(key=lambda label: -_read_stat(label.path)[1])
    return [(label.facts, label.keys) for label in matching_labels]


def list_items() -> list[Item]:
    """List all items of the cache, parts that a person can delete as a unit, by section, last used first."""
    labels = list(_read_labels())
    section_items: list[Item] = []
    for section_folder in cache.list_sections():
        if section_folder.name != LABEL_SECTION:
            section_labels = [label for label in labels if label.section == section_folder.name]
            section_items += _list_section_items(section_folder, section_labels)
    return [*section_items, *_list_stores(), *_list_compiled_code()]


def remove_items(chosen_items: Iterable[Item]) -> int:
    """Delete items except the files that other items share; return the bytes freed.

    Raises FrontierError for a store in use, and if a file cannot be deleted or lies outside the cache.
    """
    chosen_items = list(chosen_items)
    for item in chosen_items:
        if obstacle := find_obstacle(item):
            raise FrontierError(f"{item.name or item.section} cannot be deleted: {obstacle}")
    shared_files = _collect_other_files(chosen_items, list_items())
    freed_bytes = 0
    for item in chosen_items:
        for path in item.files:
            home_folder = home().resolve()
            if not path.parent.resolve().is_relative_to(home_folder):
                raise FrontierError(f"{path} lies outside {home_folder}, so it is not deleted from here")
            if path not in shared_files:
                freed_bytes += cache.delete(path)
        # An item's label and folders are removed once they are empty.
        with suppress(OSError):
            (home() / LABEL_SECTION / f"{item.section}.{item.name}").unlink()
        for item_folder in sorted({path.parent for path in item.files}, key=lambda path: -len(path.parts)):
            # Empty folders inside a section are removed up to the section's own folder, which stays.
            while item_folder.parent != home() and item_folder != home():
                try:
                    item_folder.rmdir()
                except OSError:
                    break  # not empty, or gone
                item_folder = item_folder.parent
    return freed_bytes


def count_bytes(chosen_items: Iterable[Item]) -> int:
    """Return the total bytes of items of the cache; files that several of them share count once."""
    # Without further items, none of their files is spared.
    return count_freed_bytes(list(chosen_items), ())


def count_freed_bytes(chosen_items: Collection[Item], all_items: Iterable[Item]) -> int:
    """Return the bytes that deleting items would free, without files that other items share."""
    shared_files = _collect_other_files(chosen_items, all_items)
    # Files that several of the chosen items share count once.
    chosen_files: dict[Path, int] = {}
    for item in chosen_items:
        chosen_files |= item.files
    return sum(chosen_files[path] for path in chosen_files.keys() - shared_files)


def _collect_other_files(chosen_items: Collection[Item], all_items: Iterable[Item]) -> set[Path]:
    """Collect the files of the items that are not chosen.

    Deleting the chosen items must spare these files, as several items may share one.
    """
    chosen_keys = {(item.section, item.name) for item in chosen_items}
    return {path for item in all_items if (item.section, item.name) not in chosen_keys for path in item.files}


def find_obstacle(item: Item) -> str | None:
    """Return the reason why an item of the cache cannot be deleted now; None if nothing is in the way.

    Only a store, a SQLite database that holds the results of sweeps, may be in use by another program.
    """
    database_path = next(filter(_is_store, item.files), None)
    if database_path is None:
        return None
    if item.is_recent:
        return "it changed less than a minute ago, so something is at work on it"
    try:
        database_uri = f"{database_path.as_uri()}?mode=rw"
        with closing(sqlite3.connect(database_uri, uri=True, timeout=0, isolation_level=None)) as connection:
            # This fails while another program is writing.
            connection.execute("BEGIN EXCLUSIVE")
            connection.execute("ROLLBACK")
    except sqlite3.OperationalError as error:
        # A store that cannot be written is no obstacle here: deleting it raises its own error.
        return None if primary_code(error) in READ_ONLY_CODES else "another program has it open"
    except sqlite3.DatabaseError:
        return None  # damaged, so of no use to anybody
    # The last connection to a database deletes its write-ahead log, so an existing log means an open one.
    return "another program has it open" if database_path.with_name(f"{database_path.name}-wal").exists() else None


def count_free_bytes() -> int | None:
    """Return the free bytes of the cache's disk; None if the system cannot tell."""
    existing_folder = home()
    # The cache need not exist yet; the folder above it is on the same disk.
    while not existing_folder.exists() and existing_folder != existing_folder.parent:
        existing_folder = existing_folder.parent
    try:
        return shutil.disk_usage(existing_folder).free
    except OSError:
        return None


@dataclass(frozen=True)
class _Label:
    """Description of some entries of a section, as `label_entries` wrote it into the cache."""

    section: str
    name: str
    facts: Facts
    keys: tuple[str, ...]  # names of the entries
    path: Path  # of the label itself


def _read_labels() -> Iterator[_Label]:
    """Yield the valid labels in the cache; damaged ones are skipped."""
    section_folder = home() / LABEL_SECTION
    if section_folder not in cache.list_sections():
        return
    for path in sorted(cache.list_files(section_folder)):
        try:
            label = json.loads(cache.get(LABEL_SECTION, path.name) or b"")
            entry_keys = tuple(map(cache.check_name, label["keys"]))
            yield _Label(str(label["section"]), str(label["name"]), dict(label["facts"]), entry_keys, path)
        except (ValueError, KeyError, TypeError, FrontierError):
            continue  # damaged, or the remains of a killed run


def _list_section_items(section_folder: Path, labels: Collection[_Label]) -> list[Item]:
    """List the items of a cache section: labelled entries, folders and databases, last used first.

    A label is a file that describes some entries, such as those with one corpus's vectors. Entries that no label names
    and that are neither in a folder nor a database are one item at the end. Labels whose entries are all gone are
    deleted.
    """
    # A file's stat is its size and the time of its last change.
    bytes_by_path = {path: _read_stat(path)[0] for path in cache.list_files(section_folder)}
    claimed_paths: set[Path] = set()
    section_items = []
    for label in labels:
        labelled_paths = dict.fromkeys(map(section_folder.joinpath, label.keys))
        claimed_paths.update(labelled_paths)
        labelled_files = {path: bytes_by_path[path] for path in labelled_paths if path in bytes_by_path}
        if labelled_files:
            used, n_missing = _read_stat(label.path)[1], len(labelled_paths) - len(labelled_files)
            section_items.append(Item(section_folder.name, label.name, label.facts, labelled_files, used, n_missing))
        else:
            with suppress(OSError):  # what it names was deleted
                label.path.unlink()
    unlabelled_files: dict[str, list[Path]] = {}
    for path in bytes_by_path.keys() - claimed_paths:
        # Entries in a folder, or of a database with its journals, are one item; all others are listed together.
        item_name, *inner_names = path.relative_to(section_folder).parts
        if not inner_names:
            database_path = _database_path(path)
            item_name = database_path.name if _is_store(database_path) else ""
        unlabelled_files.setdefault(item_name, []).append(path)
    for item_name, item_files in sorted(unlabelled_files.items()):
        file_names = sorted({path.name for path in item_files})
        listed_names = ", ".join(file_names[:4]) + (", …" if len(file_names) > 4 else "")
        facts: Facts = {"files": listed_names} if item_name else {}
        section_items.append(_build_item(section_folder.name, item_name, facts, item_files))
    return sorted(section_items, key=lambda item: (item.name == "", -item.used))


def _list_stores() -> list[Item]:
    """List the stores, databases of sweeps in the cache's top folder, as items; the last used first."""
    try:
        # A link leads to a file that is not part of the cache.
        candidates = [path for path in home().iterdir() if path.is_file() and not path.is_symlink()]
        stores = sorted(filter(_is_store, candidates))
    except OSError:
        return []
    store_items: list[Item] = []
    for store_path in stores:
        store_paths = [store_path.with_name(store_path.name + name_suffix) for name_suffix in _DATABASE_SUFFIXES]
        store_files = list(filter(Path.is_file, store_paths))
        store_items.append(_build_item(STORE_SECTION, store_path.name, {"files": store_path.name}, store_files))
    return sorted(store_items, key=lambda item: -item.used)


def _list_compiled_code() -> list[Item]:
    """List the code that Numba compiled for this machine, in a folder that it does not tag, as one item."""
    section_folder = home() / CODE_SECTION
    if section_folder.is_symlink() or not section_folder.is_dir():
        return []
    compiled_files = [path for path in cache.list_files(section_folder) if path.suffix in _COMPILED_SUFFIXES]
    return [_build_item(CODE_SECTION, "", {}, compiled_files)] if compiled_files else []


def _build_item(section_name: str, item_name: str, facts: Facts, item_files: Collection[Path]) -> Item:
    """Build an item of the cache from its files; it was used when the newest of them last changed.

    facts: what its label says, such as corpus and encoder.
    """
    paths = sorted(item_files)
    file_sizes, change_times = zip(*map(_read_stat, paths), strict=True)
    return Item(section_name, item_name, facts, dict(zip(paths, file_sizes, strict=True)), max(change_times))


def _is_store(path: Path) -> bool:
    """Return True if a file is a SQLite database, by its first bytes."""
    if not path.suffix:
        return False  # an entry of the cache: it is named by a digest, and never a database
    try:
        with open(path, "rb") as opened_file:
            return opened_file.read(len(_SQLITE_MAGIC)) == _SQLITE_MAGIC
    except OSError:
        return False


def _database_path(path: Path) -> Path:
    """Return the database that a file belongs to: the file itself, or the one whose journal it is."""
    for journal_suffix in filter(None, _DATABASE_SUFFIXES):  # the empty suffix is the database's own
        if path.name.endswith(journal_suffix):
            return path.with_name(path.name.removesuffix(journal_suffix))
    return path


def _read_stat(path: Path) -> tuple[int, float]:
    """Return size in bytes and time of the last change; zeros for a file that was deleted."""
    try:
        file_stat = path.lstat()
    except OSError:
        return 0, 0.0  # gone since it was listed
    return file_stat.st_size, file_stat.st_mtime
