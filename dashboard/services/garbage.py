"""Garbage collection of a server whose heap holds torch, corpora and up to a hundred sessions."""

import contextlib
import ctypes
import gc
import threading

from dashboard.services import jobs

COLLECT_SECONDS = 15.0
"""Seconds between two collections while pages are drawn; a session's figures and tables are cycles of objects."""
FULL_COLLECTION_EVERY = 20
"""So often a collection looks at everything: what was alive when the heap was frozen, such as sessions, may be dead."""
MIN_YOUNG_COLLECTIONS = 20
"""Collections of young objects, since the last look, from which on the server counts as at work."""


def freeze_heap() -> None:
    """Exempt everything alive from garbage collection, after a last collection.

    No other thread runs during a collection, which takes long with torch loaded.
    """
    gc.unfreeze()  # else what died since the last time would never be freed
    gc.collect()
    gc.freeze()
    return_memory()


def return_memory() -> None:
    """Give free memory back to the operating system, where the C library can."""
    # glibc keeps a heap for every thread, and each page is drawn in its own; elsewhere there is nothing to trim.
    with contextlib.suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)


def start_collecting() -> None:
    """Start a thread that collects garbage every COLLECT_SECONDS while pages are drawn, until the server ends.

    Streamlit would collect after every script run, over everything alive, which slows a busy server.
    """
    threading.Thread(target=_collect_until_shutdown, name="garbage collection", daemon=True).start()


def _collect_until_shutdown() -> None:
    """Collect garbage at intervals, in the thread for it."""
    n_seen, n_collections = _count_young_collections(), 0
    while not jobs.wait_for_shutdown(COLLECT_SECONDS):
        # An idle server makes no garbage, and should use no processor.
        if _count_young_collections() - n_seen >= MIN_YOUNG_COLLECTIONS:
            n_collections += 1
            if n_collections % FULL_COLLECTION_EVERY:
                gc.collect()
                return_memory()
            else:
                freeze_heap()
            n_seen = _count_young_collections()


def _count_young_collections() -> int:
    """Return how often Python itself has collected young objects: it grows with the objects that are made."""
    return int(gc.get_stats()[0]["collections"])
