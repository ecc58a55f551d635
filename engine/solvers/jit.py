"""How loops are compiled: by Numba, once a machine, and anew whenever a file of this folder changes.

Arrays are copied by loops: for `a[:] = b` Numba compiles the making of its error message too, for seconds.
"""

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
MAXIMA = {"nnan", "nsz"}
"""Loops that look for a largest number run in lanes; no number changes."""

Compiled = Callable[..., Any]


def compiled(function: Compiled) -> Compiled:
    """The function as machine code, made at its first call and kept on the disk; it runs without Python's lock."""
    return _compiled(function, ARITHMETIC)


def exactly(function: Compiled) -> Compiled:
    """The same, with every operation rounded as it is written: equal input gives equal bits wherever it is built in."""
    return _compiled(function, False)


def maxima(function: Compiled) -> Compiled:
    """The same as `exactly`, for numbers that are no NaN."""
    return _compiled(function, MAXIMA)


def _compiled(function: Compiled, fastmath: Any) -> Compiled:
    before = getattr(config, "CACHE_DIR")  # noqa: B009  (set when Numba reads its environment)
    # Numba looks at a function's own file only, and would keep code in which functions of other files are built in.
    setattr(config, "CACHE_DIR", folder())  # noqa: B010
    try:
        machine_code: Compiled = numba.njit(cache=True, nogil=True, error_model="numpy", fastmath=fastmath)(function)
        return machine_code
    finally:
        setattr(config, "CACHE_DIR", before)  # noqa: B010


@cache
def folder() -> str:
    """Where the code lies: a folder for each state of the files, in NUMBA_CACHE_DIR, or Frontier's cache."""
    here = Path(__file__).parent
    state = hashlib.sha256(b"".join(file.read_bytes() for file in sorted(here.rglob("*.py")))).hexdigest()[:16]
    return str(Path(os.environ.get("NUMBA_CACHE_DIR") or home() / "code") / state)
