"""What the cache holds, item by item: a corpus's embeddings by one encoder, an upload, a store of sweeps.

Entries are named by digests that say nothing to a person; a label beside them says what they are. Entries without one
are as good, and are listed together.
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
from engine.data.sqlite import READ_ONLY, code_of
from engine.errors import FrontierError
from engine.paths import home

LABELS = "labels"
STORES = "stores"
CODE = "code"
_COMPILED = {".nbi", ".nbc"}
_SQLITE = b"SQLite format 3\0"
_BESIDE = ("", "-wal", "-shm", "-journal")
QUIET = 60.0
"""Seconds without a change after which a store counts as left alone."""

Facts = Mapping[str, str | int]


@dataclass(frozen=True)
class Item:
    """Something in the cache that can be deleted as one.

    section: where it lies; name: its label, folder or file, "" for all that has none; facts: what is known of it;
    files: its files and their bytes; used: when it was last used, in seconds since 1970; missing: how many of the
    entries that its label names are not there.
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
    def store(self) -> bool:
        """Whether it is a database, which somebody may be writing to."""
        return any(map(_is_store, self.files))

    @property
    def fresh(self) -> bool:
        """Whether it is a database that changed less than a minute ago."""
        # A date ahead is of a clock that was set back since.
        return self.store and abs(time.time() - max(_stat(path)[1] for path in self.files)) < QUIET


def describe(section: str, name: str, keys: Sequence[str], facts: Facts) -> None:
    """Label the entries `keys` of a section; said again, it counts as used now. Raises nothing where it cannot."""
    content = json.dumps({"section": section, "name": name, "facts": dict(facts), "keys": list(keys)}).encode()
    key = f"{section}.{name}"
    with suppress(FrontierError, OSError):
        if cache.get(LABELS, key) == content:
            os.utime(home() / LABELS / key)
        else:
            cache.put(LABELS, key, content)


def items() -> list[Item]:
    """All that the cache holds, by section; what is used last comes first."""
    labels = list(_labels())
    folders = [folder for folder in cache.sections() if folder.name != LABELS]
    listed = [item for f in folders for item in _of_section(f, [label for label in labels if label.section == f.name])]
    return [*listed, *_stores(), *_code()]


def remove(chosen: Iterable[Item]) -> int:
    """Delete items, but not the entries that others share; returns the bytes freed.

    Raises FrontierError for a store in use, and where a file cannot be deleted or lies outside the cache.
    """
    chosen = list(chosen)
    for item in chosen:
        if reason := held(item):
            raise FrontierError(f"{item.name or item.section} cannot be deleted: {reason}")
    shared = _files_of_others(chosen, items())
    freed = 0
    for item in chosen:
        for path in item.files:
            place = home().resolve()
            if not path.parent.resolve().is_relative_to(place):
                raise FrontierError(f"{path} lies outside {place}, so it is not deleted from here")
            if path not in shared:
                freed += cache.delete(path)
        # Take away an item's label and folder, once they name and hold nothing.
        with suppress(OSError):
            (home() / LABELS / f"{item.section}.{item.name}").unlink()
        for folder in sorted({path.parent for path in item.files}, key=lambda p: -len(p.parts)):
            while folder.parent != home() and folder != home():
                try:
                    folder.rmdir()
                except OSError:
                    break  # not empty, or gone
                folder = folder.parent
    return freed


def weight(chosen: Iterable[Item]) -> int:
    """The bytes of items together; files that several share count once."""
    return frees(list(chosen), ())


def frees(chosen: Collection[Item], among: Iterable[Item]) -> int:
    """The bytes that `remove` would free: without the files that others of `among` share."""
    shared = _files_of_others(chosen, among)
    return sum({p: size for item in chosen for p, size in item.files.items() if p not in shared}.values())


def _files_of_others(chosen: Collection[Item], among: Iterable[Item]) -> set[Path]:
    """Files of the items that are not chosen."""
    gone = {(item.section, item.name) for item in chosen}
    return {path for item in among if (item.section, item.name) not in gone for path in item.files}


def held(item: Item) -> str | None:
    """Why a store cannot be deleted now; None where nothing is in the way, as for anything else."""
    store = next(filter(_is_store, item.files), None)
    if store is None:
        return None
    if item.fresh:
        return "it changed less than a minute ago, so something is at work on it"
    try:
        with closing(sqlite3.connect(f"{store.as_uri()}?mode=rw", uri=True, timeout=0, isolation_level=None)) as db:
            db.execute("BEGIN EXCLUSIVE")
            db.execute("ROLLBACK")
    except sqlite3.OperationalError as error:
        # Where it cannot be written, deleting it says so.
        return None if code_of(error) in READ_ONLY else "another program has it open"
    except sqlite3.DatabaseError:
        return None  # damaged, so of no use to anybody
    # The last one to close it takes the log away.
    return "another program has it open" if store.with_name(f"{store.name}-wal").exists() else None


def free() -> int | None:
    """Bytes free on the disk that the cache is on; None where the system does not say."""
    place = home()
    while not place.exists() and place != place.parent:
        place = place.parent
    try:
        return shutil.disk_usage(place).free
    except OSError:
        return None


@dataclass(frozen=True)
class _Label:
    section: str
    name: str
    facts: Facts
    keys: tuple[str, ...]
    path: Path


def _labels() -> Iterator[_Label]:
    folder = next((f for f in cache.sections() if f.name == LABELS), None)
    for path in sorted(cache.files_of(folder)) if folder else ():
        try:
            content = json.loads(cache.get(LABELS, path.name) or b"")
            keys = tuple(map(cache.checked, content["keys"]))
            yield _Label(str(content["section"]), str(content["name"]), dict(content["facts"]), keys, path)
        except (ValueError, KeyError, TypeError, FrontierError):
            continue  # damaged, or the remains of a killed run


def _of_section(folder: Path, labels: Collection[_Label]) -> list[Item]:
    sizes_of = {path: _stat(path)[0] for path in cache.files_of(folder)}
    claimed = {folder / key for label in labels for key in label.keys}
    listed = []
    for label in labels:
        files = [path for path in dict.fromkeys(folder / key for key in label.keys) if path in sizes_of]
        if not files:
            with suppress(OSError):  # what it names was deleted
                label.path.unlink()
            continue
        missing = len(set(label.keys)) - len(files)
        sizes = {path: sizes_of[path] for path in files}
        listed.append(Item(folder.name, label.name, label.facts, sizes, _stat(label.path)[1], missing))
    rest: dict[str, list[Path]] = {}
    for path in sizes_of.keys() - claimed:
        inner = path.relative_to(folder).parts
        name = inner[0] if len(inner) > 1 else _base(path).name if _is_store(_base(path)) else ""
        rest.setdefault(name, []).append(path)
    for name, files in sorted(rest.items()):
        names = sorted({path.name for path in files}) if name else []
        facts: Facts = {"files": ", ".join(names[:4]) + (", …" if len(names) > 4 else "")} if names else {}
        listed.append(_item(folder.name, name, facts, files))
    return sorted(listed, key=lambda item: (item.name == "", -item.used))


def _stores() -> list[Item]:
    """Databases that lie in the cache's own folder."""
    try:
        stores = sorted(p for p in home().iterdir() if p.is_file() and not p.is_symlink() and _is_store(p))
    except OSError:
        return []
    beside = [[p for end in _BESIDE if (p := path.with_name(path.name + end)).is_file()] for path in stores]
    listed = [_item(STORES, path.name, {"files": path.name}, files) for path, files in zip(stores, beside, strict=True)]
    return sorted(listed, key=lambda item: -item.used)


def _code() -> list[Item]:
    """Code compiled for this machine, which its library keeps without a tag."""
    folder = home() / CODE
    if folder.is_symlink() or not folder.is_dir():
        return []
    files = [path for path in cache.files_of(folder) if path.suffix in _COMPILED]
    return [_item(CODE, "", {}, files)] if files else []


def _item(section: str, name: str, facts: Facts, files: Collection[Path]) -> Item:
    stats = {path: _stat(path) for path in sorted(files)}
    return Item(section, name, facts, {p: size for p, (size, _) in stats.items()}, max(t for _, t in stats.values()))


def _is_store(path: Path) -> bool:
    if not path.suffix:
        return False  # an entry named by its digest
    try:
        with open(path, "rb") as file:
            return file.read(len(_SQLITE)) == _SQLITE
    except OSError:
        return False


def _base(path: Path) -> Path:
    """The database that a file belongs to."""
    end = next((end for end in _BESIDE[1:] if path.name.endswith(end)), "")
    return path.with_name(path.name.removesuffix(end))


def _stat(path: Path) -> tuple[int, float]:
    """Bytes, and when it was last changed."""
    try:
        stat = path.lstat()
    except OSError:
        return 0, 0.0  # gone since it was listed
    return stat.st_size, stat.st_mtime
