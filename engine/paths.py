"""Path of the cache: embeddings, and code compiled for this machine."""

import os
from pathlib import Path


def home() -> Path:
    """The cache's folder: FRONTIER_HOME, else the user's cache folder. Nothing is created."""
    if folder := os.environ.get("FRONTIER_HOME"):
        return Path(folder).expanduser().absolute()
    from platformdirs import user_cache_path

    return user_cache_path("frontier", appauthor=False)
