"""How loops are compiled: by Numba, once a machine, and anew whenever a file of this folder changes.

Until then a small problem is solved sooner by the Python that the loops are written in.
Arrays are copied by loops: for `a[:] = b` Numba compiles the making of its error message too, for seconds.
"""

import hashlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Any

import numba
import numpy as np
from numba.core import config

from engine.paths import home

ARITHMETIC = {"reassoc", "contract", "nsz", "arcp"}
"""Sums may be taken in any order; NaN and infinity keep their meaning."""
MAXIMA = {"nnan", "nsz"}
"""Loops that look for a largest number run in lanes; no number changes."""

PATIENCE = 4.0
"""After so many seconds of loops run as Python in this process it is time to compile them."""

Compiled = Callable[..., Any]
_interpreting: ContextVar[bool] = ContextVar("interpreting", default=False)
_spent = [0.0]


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
        loop: Any = numba.njit(cache=True, nogil=True, error_model="numpy", fastmath=fastmath)(function)
        _guard(loop, interpretable=fastmath in (False, MAXIMA))
        machine_code: Compiled = loop
        return machine_code
    finally:
        setattr(config, "CACHE_DIR", before)  # noqa: B010


@cache
def folder() -> str:
    """Where the code lies: a folder for each state of the files, in NUMBA_CACHE_DIR, or Frontier's cache."""
    here = Path(__file__).parent
    state = hashlib.sha256(b"".join(file.read_bytes() for file in sorted(here.rglob("*.py")))).hexdigest()[:16]
    return str(Path(os.environ.get("NUMBA_CACHE_DIR") or home() / "code") / state)


@contextmanager
def interpreting() -> Iterator[None]:
    """Within, `exactly` and `maxima` loops that are not compiled run as Python, to the same bits.

    For a few problems of some hundred rows, which take a fraction of a second where compilation takes ten.
    """
    token, began = _interpreting.set(_spent[0] < PATIENCE), time.perf_counter()
    try:
        with np.errstate(all="ignore"):
            yield
    finally:
        _interpreting.reset(token)
        if _namespace.cache_info().currsize:
            _spent[0] += time.perf_counter() - began


def is_compiled(loop: Any) -> bool:
    """Whether a loop's machine code is in this process or on the disk."""
    name = f"{loop.__module__.rpartition('.')[2]}.{loop.__name__}-*.nbi"
    return bool(loop.signatures) or any(Path(folder()).rglob(name))


def _guard(loop: Any, interpretable: bool) -> None:
    """Compile a loop anew where its code on the disk is damaged; within `interpreting`, run it as Python instead."""
    compile_for = loop._compile_for_args  # what Numba calls for arguments of new types; it runs what that returns

    def compile_or_interpret(*arguments: Any, **named: Any) -> Any:
        if interpretable and _interpreting.get() and not is_compiled(loop):
            return _namespace(loop.__module__)[loop.__name__]
        try:
            return compile_for(*arguments, **named)
        except Exception:
            # Half a file, after a crash or on a full disk, reads as anything.
            for file in Path(folder()).rglob("*.nb[ci]"):
                file.unlink(missing_ok=True)
            return compile_for(*arguments, **named)

    loop._compile_for_args = compile_or_interpret


@cache
def _namespace(module: str) -> dict[str, Any]:
    """The names of a module, its loops and those of others as Python functions that call each other."""
    names = dict(vars(sys.modules[module]))
    for name, value in list(names.items()):
        if isinstance(value, numba.core.dispatcher.Dispatcher):
            own = value.__module__ == module
            python = FunctionType(value.py_func.__code__, names, name, value.py_func.__defaults__) if own else None
            names[name] = python or _namespace(value.__module__)[value.__name__]
    return names
