"""Least-recently-used tables for computed values: of one session, or of all."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, MutableMapping
from typing import Any, TypeVar

import streamlit as st

from dashboard.services.jobs import turn

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Memo(MutableMapping[K, V]):
    """A table that threads may share; beyond its limits the entry not used for longest goes, never the newest.

    entries: at most this many; weigh: an entry's weight; most: a limit on their sum.
    """

    def __init__(self, entries: float, weigh: Callable[[V], int] | None = None, most: int = 0) -> None:
        self._entries, self._weigh, self._most = entries, weigh, most
        self._values: OrderedDict[K, V] = OrderedDict()
        self._lock = threading.RLock()

    def __getitem__(self, key: K) -> V:
        with self._lock:
            self._values.move_to_end(key)
            return self._values[key]

    def __setitem__(self, key: K, value: V) -> None:
        with self._lock:
            self._values[key] = value
            self._values.move_to_end(key)
            while len(self._values) > 1:
                weight = 0 if self._weigh is None else sum(map(self._weigh, self._values.values()))
                if len(self._values) <= self._entries and weight <= self._most:
                    break
                self._values.popitem(last=False)

    def __delitem__(self, key: K) -> None:
        with self._lock:
            del self._values[key]

    def forget(self, key: K) -> None:
        """Drop an entry, if it is there."""
        with self._lock:
            self._values.pop(key, None)

    def __iter__(self) -> Iterator[K]:
        with self._lock:
            return iter(list(self._values))

    def __len__(self) -> int:
        return len(self._values)


def session_memo(table: str, entries: int) -> Memo[Any, Any]:
    """This session's table of a name."""
    memo: Memo[Any, Any] = st.session_state.setdefault(table, Memo(entries))
    return memo


def remembered(table: str, key: Hashable, make: Callable[[], V], entries: int = 24) -> V:
    """This session's value for a key, made where it is not in the table; `key` names all that it depends on."""
    memo: Memo[Hashable, V] = session_memo(table, entries)
    if key not in memo:
        with turn():
            value = make()
        memo[key] = value
    return memo[key]
