"""How loops are compiled: by Numba, once a machine, and anew whenever a file of this folder changes.

Until then a small problem is solved sooner by the Python that the loops are written in.
Numba's index of compiled code is a pickle, the one that Frontier reads: whoever could write it could run code. So the
folder is the user's alone; one that others own, or can write to, is not read.
Arrays are copied by loops: for `a[:] = b` Numba compiles the making of its error message too, for seconds.
"""

import hashlib
import logging
import os
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Any

import numba
import numpy as np
from numba.core import config
from numba.core.caching import NullCache

from engine.paths import home, is_writable, make_folder, process_folder, restrict_access

ARITHMETIC = {"reassoc", "contract", "nsz", "arcp"}
"""Sums may be taken in any order; NaN and infinity keep their meaning."""
MAXIMA = {"nnan", "nsz"}
"""Loops that look for a largest number run in lanes; no number changes."""

PATIENCE = 4.0
"""After so many seconds of loops run as Python in this process it is time to compile them."""

Compiled = Callable[..., Any]
_interpreting: ContextVar[bool] = ContextVar("interpreting", default=False)
_spent = [0.0]
_loops: list[Any] = []


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
        _loops.append(loop)
        restrict_access(Path(loop.stats.cache_path))
        machine_code: Compiled = loop
        return machine_code
    finally:
        setattr(config, "CACHE_DIR", before)  # noqa: B010


@cache
def folder() -> str:
    """Where the code lies: a folder for each state of the files, in NUMBA_CACHE_DIR, or Frontier's cache.

    Where that cannot be, in one of the user's for temporary files, else in one that ends with the process.
    """
    here = Path(__file__).parent
    state = hashlib.sha256(b"".join(file.read_bytes() for file in sorted(here.rglob("*.py")))).hexdigest()[:16]
    user = os.getuid() if sys.platform != "win32" else os.environ.get("USERNAME", "")
    usual = Path(os.environ.get("NUMBA_CACHE_DIR") or home() / "code") / state
    places = usual, Path(tempfile.gettempdir(), f"frontier-{user}-{state}")
    return str(next(filter(_is_safe, places), None) or process_folder() / "code" / state)


def _is_safe(place: Path) -> bool:
    """Whether code can be kept in a folder, which is made, and nobody but the user can have put any there."""
    try:
        make_folder(place.parent)
        with suppress(FileExistsError):
            place.mkdir(mode=0o700)
        closed = _is_closed(place.lstat(), shared=False)
        if not (closed and all(_is_closed(each.stat()) for each in (place.parent, place.parent.parent))):
            logging.getLogger("frontier").warning(
                "note: compiled code in %s is not used: others own the folder, or one above it, or can write to it; "
                "give it to yourself alone (chmod go-w), or set FRONTIER_HOME to a folder of your own",
                place,
            )
            return False
        return is_writable(place)
    except OSError:
        return False


def _is_closed(status: os.stat_result, shared: bool = True) -> bool:
    """Whether nobody but the user, or the system's, can replace what is in a folder; shared: others may add to it."""
    if sys.platform == "win32":
        return True
    others = stat.S_IWOTH | (0 if status.st_gid == os.geteuid() else stat.S_IWGRP)  # a group of the user's own
    open_to_others = status.st_mode & others and not (shared and status.st_mode & stat.S_ISVTX)
    return stat.S_ISDIR(status.st_mode) and status.st_uid in (os.geteuid(), 0) and not open_to_others


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
        for mend in (_delete_code, _keep_no_code):
            try:
                return compile_for(*arguments, **named)
            except Exception:
                mend()
            finally:
                # Numba makes files as the umask has it; its code is left to the user alone.
                if place := loop.stats.cache_path:
                    for path in Path(place).glob("*.nb[ci]"):
                        restrict_access(path)
        return compile_for(*arguments, **named)

    loop._compile_for_args = compile_or_interpret


def _delete_code() -> None:
    """Delete all code on the disk, unless that is full: half a file, after a crash say, reads as anything."""
    with suppress(OSError):
        for file in Path(folder()).rglob("*.nb[ci]") if is_writable(Path(folder())) else ():
            file.unlink(missing_ok=True)


def _keep_no_code() -> None:
    """Compile for this process only, from now on: nothing can be written."""
    for loop in _loops:
        loop._cache = NullCache()


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
