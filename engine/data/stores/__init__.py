"""Vector engines as oracles: what an engine returned for some points, and a bound on all that it did not return."""

from engine.data.stores.store import SearchResult, Store, StoreRef, Where

__all__ = ["SearchResult", "Store", "StoreRef", "Where"]
