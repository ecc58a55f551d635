"""Where Frontier keeps what it made once: embeddings, and code compiled for this machine."""

from __future__ import annotations

import os
from pathlib import Path


def home() -> Path:
    """Where the cache lies: FRONTIER_HOME, else the user's cache folder. Nothing is created."""
    if given := os.environ.get("FRONTIER_HOME"):
        return Path(given).expanduser().absolute()
    from platformdirs import user_cache_path

    return user_cache_path("frontier", appauthor=False)
