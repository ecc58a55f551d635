"""A look at a whole corpus before it is embedded: repeated ids, copies, empty texts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import streamlit as st

from dashboard.services import corpora
from dashboard.services.memo import remembered
from dashboard.services.source import Source
from dashboard.widgets.common import as_label, notices
from dashboard.widgets.failure import show_failure
from engine.errors import FrontierError, RepeatedIdError
from engine.progress import counted
from engine.values import Dataset

MOST_BYTES = 16 << 20
"""Larger corpora, which take more than a second or two to read, are read when they are loaded only."""
MOST_VALUES = 100
"""A column of more values is no way to choose documents."""
WAYS = {"refuse": "Refuse", "first": "Keep the first", "number": "Number the others"}
MEMORY = "data.looked"


@dataclass(frozen=True)
class _Look:
    """What reading a corpus said."""

    documents: int
    notices: tuple[object, ...]
    values: Mapping[str, Sequence[str]]  # of kept columns with few of them
    error: FrontierError | None = None


def checked(source: Source) -> Source | None:
    """The source, with what is done about repeated ids, below what is odd about it; None where it cannot be read."""
    files = _files(Path(source.path))
    if sum(size for _, _, size in files) > MOST_BYTES:
        st.caption("Ids, copies and empty texts of a corpus as large as this are checked while it loads.")
        return replace(source, repeated=_way(source, list(WAYS)) or "refuse")
    found = _look(source, files)
    if isinstance(found.error, RepeatedIdError):
        before = st.container()
        way = _way(source, [way for way in WAYS if way != "refuse"])
        if way is None:
            with before:
                show_failure("Some ids occur more than once.", found.error)
            return None
        source = replace(source, repeated=way)
        found = _look(source, files)
    if chosen := _where(source, found.values):
        source = replace(source, where=chosen)
        found = _look(source, files)
    if found.error is not None:
        show_failure("This cannot be read.", found.error)
        return None
    st.text(counted(found.documents, "document"))
    notices(found)
    return source


def _where(source: Source, values: Mapping[str, Sequence[str]]) -> tuple[tuple[str, str], ...]:
    """Draw, for each kept column, the choice of values that documents must have; none chosen leaves it open."""
    chosen = []
    for column, options in values.items():
        key = f"data.where.{source.path}.{column}"
        only = st.multiselect(f"Only with {as_label(column)}", options, key=key, persist_state="session")
        chosen += [(column, value) for value in only]
    return tuple(chosen)


def _way(source: Source, ways: list[str]) -> str | None:
    """Draw the choice of what is done about repeated ids; None before it is made."""
    key = f"data.repeated.{source.path}"
    return st.segmented_control("Repeated ids", ways, format_func=WAYS.__getitem__, key=key, persist_state="session")


def _look(source: Source, files: tuple[tuple[str, int, int], ...]) -> _Look:
    def read() -> _Look:
        try:
            dataset: Dataset = corpora.read(source)
        except FrontierError as error:
            return _Look(0, (), {}, error)
        distinct = {column: sorted(set(values)) for column, values in dataset.corpus.metadata.items()}
        few = {column: values for column, values in distinct.items() if 1 < len(values) <= MOST_VALUES}
        return _Look(len(dataset.corpus), dataset.notices, few)

    return remembered(MEMORY, (source, files), read, entries=4)


def _files(path: Path) -> tuple[tuple[str, int, int], ...]:
    """Name, time of the last change and bytes of each file that a corpus is read from."""
    files = [path] if path.is_file() else sorted(file for file in (*path.glob("*"), *path.glob("*/*.tsv")))
    stats = [(str(file), file.stat()) for file in files if file.is_file()]
    return tuple((name, stat.st_mtime_ns, stat.st_size) for name, stat in stats)
