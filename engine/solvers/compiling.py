"""How loops are compiled: by Numba, once a machine, and anew whenever a file of this folder changes."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TypeVar

import numba
from numba.core import config

from engine.home import home

F = TypeVar("F", bound=Callable[..., object])

ARITHMETIC = {"reassoc", "contract", "nsz", "arcp"}
"""Sums may be taken in any order; NaN and infinity keep their meaning."""


def compiled(function: F) -> F:
    """The function as machine code, made at its first call and kept on the disk; it runs without Python's lock."""
    before = config.CACHE_DIR
    # Numba looks at a function's own file only, and would keep code in which functions of other files are built in.
    config.CACHE_DIR = folder()
    try:
        return numba.njit(cache=True, nogil=True, error_model="numpy", fastmath=ARITHMETIC)(function)
    finally:
        config.CACHE_DIR = before


@cache
def folder() -> str:
    """Where the code lies: a folder for each state of the files, in NUMBA_CACHE_DIR, or Frontier's cache."""
    here = Path(__file__).parent
    state = hashlib.sha256(b"".join(file.read_bytes() for file in sorted(here.glob("*.py")))).hexdigest()[:16]
    return str(Path(os.environ.get("NUMBA_CACHE_DIR") or home() / "code") / state)
