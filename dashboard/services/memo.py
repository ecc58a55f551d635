"""Least-recently-used tables for computed values: of one session, or of all."""

import contextlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, MutableMapping
from typing import Any, TypeVar

import streamlit as st

from dashboard.services.jobs import limit_page_computations

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Memo(MutableMapping[K, V]):
    """Cache that threads share; beyond its limits the least recently used entry goes, never the newest.

    max_entries: limit on their number; weigh_value: returns an entry's weight, such as its size, None for no weights;
    max_weight: limit on the sum of the weights
    """

    def __init__(self, max_entries: float, weigh_value: Callable[[V], int] | None = None, max_weight: int = 0) -> None:
        """Create an empty cache that drops the least recently used values beyond either limit.

        weigh_value: returns a value's weight, such as its bytes, if their sum is limited to max_weight
        """
        self._max_entries, self._weigh, self._max_weight = max_entries, weigh_value, max_weight
        self._values: OrderedDict[K, V] = OrderedDict()
        self._lock = threading.RLock()

    def __getitem__(self, key: K) -> V:
        """Return a value, which counts as used now. Raises KeyError if there is none."""
        with self._lock:
            self._values.move_to_end(key)
            return self._values[key]

    def __setitem__(self, key: K, value: V) -> None:
        """Store a value as the newest entry, then drop the least recently used ones beyond the limits."""
        with self._lock:
            self._values[key] = value
            self._values.move_to_end(key)
            # Evict in order of use; the entry just written is last and always stays.
            while len(self._values) > 1:
                weight = 0 if self._weigh is None else sum(map(self._weigh, self._values.values()))
                if len(self._values) <= self._max_entries and weight <= self._max_weight:
                    break
                self._values.popitem(last=False)

    def __delitem__(self, key: K) -> None:
        """Drop an entry. Raises KeyError if there is none."""
        with self._lock:
            del self._values[key]

    def forget(self, key: K) -> None:
        """Drop an entry, if it is there."""
        with self._lock:
            self._values.pop(key, None)

    def __iter__(self) -> Iterator[K]:
        """Return an iterator over the keys that are in the cache now, the least recently used first."""
        with self._lock:
            # A copy, as another thread may evict entries during the iteration.
            return iter(list(self._values))

    def __len__(self) -> int:
        return len(self._values)


MAX_SHARED = 32
"""Frontiers, estimates and comparisons that all sessions share; an estimate of 200 settings takes some MB."""
_SHARED_TABLES: dict[str, Memo[Any, Any]] = {}
"""Name → table of values that all sessions share."""


def shared_memo(table_name: str, max_entries: int) -> Memo[Any, Any]:
    """Return the table of cached values with this name that all sessions share, created if there is none.

    Its keys must tell all that a value depends on: digests of the data, never the name of a file alone.
    """
    return _SHARED_TABLES.setdefault(table_name, Memo(max_entries))


def session_memo(table_name: str, max_entries: int) -> Memo[Any, Any]:
    """Return this browser session's table of cached values with this name, created if there is none."""
    memo: Memo[Any, Any] = st.session_state.setdefault(table_name, Memo(max_entries))
    return memo


def get_or_compute(
    table_name: str, key: Hashable, compute_value: Callable[[], V], max_entries: int = 24, *, is_shared: bool = False
) -> V:
    """Return the cached value for a key in the named table of this browser session, computed if missing.

    max_entries: values that the table holds, if this call creates it; the least recently used one goes first;
    is_shared: the table is that of all sessions, see `shared_memo`
    """
    memo: Memo[Hashable, V] = (shared_memo if is_shared else session_memo)(table_name, max_entries)
    # One look-up, as another thread may evict the value between two; None is a value too.
    with contextlib.suppress(KeyError):
        return memo[key]
    # The turn is held only while computing, so that cached values never wait.
    with limit_page_computations():
        value = compute_value()
    memo[key] = value
    return value
