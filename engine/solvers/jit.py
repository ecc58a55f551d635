"""How loops are compiled: by Numba, once a machine, and anew whenever a file of this folder changes."""

import hashlib
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numba
from numba.core import config

from engine.paths import home

ARITHMETIC = {"reassoc", "contract", "nsz", "arcp"}
"""Sums may be taken in any order; NaN and infinity keep their meaning."""


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function as machine code, made at its first call and kept on the disk; it runs without Python's lock."""
    before = getattr(config, "CACHE_DIR")  # noqa: B009  (set when Numba reads its environment)
    # Numba looks at a function's own file only, and would keep code in which functions of other files are built in.
    setattr(config, "CACHE_DIR", folder())  # noqa: B010
    try:
        machine_code: Callable[..., Any] = numba.njit(cache=True, nogil=True, error_model="numpy", fastmath=ARITHMETIC)(
            function
        )
        return machine_code
    finally:
        setattr(config, "CACHE_DIR", before)  # noqa: B010


@cache
def folder() -> str:
    """Where the code lies: a folder for each state of the files, in NUMBA_CACHE_DIR, or Frontier's cache."""
    here = Path(__file__).parent
    state = hashlib.sha256(b"".join(file.read_bytes() for file in sorted(here.rglob("*.py")))).hexdigest()[:16]
    return str(Path(os.environ.get("NUMBA_CACHE_DIR") or home() / "code") / state)
