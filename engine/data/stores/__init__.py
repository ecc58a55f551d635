"""Vector engines as oracles: what an engine returned for some points, and a bound on all that it did not return."""

from engine.data.stores.results import StoreRef
from engine.data.stores.store import SearchResult, VectorStore, Where

Store = VectorStore
"""The name by which it is known from outside; among ourselves a `Store` is where sweeps keep their cells."""

__all__ = ["SearchResult", "Store", "StoreRef", "VectorStore", "Where"]
