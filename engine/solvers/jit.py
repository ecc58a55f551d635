"""Compilation of loops: by Numba, once per machine, and again whenever a file of this folder changes.

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
import threading
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

SUM_FLAGS = {"reassoc", "contract", "nsz", "arcp"}
"""Sums may be taken in any order; NaN and infinity keep their meaning."""
MAXIMUM_FLAGS = {"nnan", "nsz"}
"""Loops that look for a largest number run in lanes; no number changes."""

INTERPRETING_SECONDS = 4.0
"""After so many CPU seconds of loops run as Python in this process it is time to compile them."""

Compiled = Callable[..., Any]
_interpreting: ContextVar[bool] = ContextVar("interpreting", default=False)
_awaiting_code: ContextVar[bool] = ContextVar("awaiting_code", default=False)
_interpreted_seconds = [0.0]
_compiling_threads: set[int] = set()
"""Threads that compile a loop now, or wait for another one's compilation."""
_compiled_loops: list[Any] = []


def jit_reassociating(function: Compiled) -> Compiled:
    """Decorate a loop to be compiled at its first call, cached on disk; sums may be reordered for speed."""
    return _jit_compile(function, SUM_FLAGS)


def jit_exact(function: Compiled) -> Compiled:
    """Decorate a loop to be compiled with every operation as written: equal input gives equal bits."""
    return _jit_compile(function, False)


def jit_dense(function: Compiled) -> Compiled:
    """Decorate a loop over all entries of the vectors: like `jit_exact`, and never run as Python.

    It compiles in under a second, while Python takes seconds for the entries of a few hundred vectors.
    """
    return _jit_compile(function, False, is_interpretable=False)


def jit_maxima(function: Compiled) -> Compiled:
    """Decorate a loop to be compiled like `jit_exact`, for numbers that are never NaN: maxima are faster."""
    return _jit_compile(function, MAXIMUM_FLAGS)


def _jit_compile(function: Compiled, fastmath: Any, is_interpretable: bool = True) -> Compiled:
    """Return a function that Numba compiles at its first call, with code cached in the user's own folder.

    fastmath: the freedoms of Numba's `njit` with floating-point operations, False for none; is_interpretable: it may
    run as Python until it is compiled, where that gives equal bits
    """
    # Numba reads the cache folder from a global setting, which is set for this one function and then restored.
    previous_folder = getattr(config, "CACHE_DIR")  # noqa: B009  (set when Numba reads its environment)
    # Numba renews cached code only if the function's own file changes, although functions of other files are built into
    # it; this folder is named by a digest of all these files.
    setattr(config, "CACHE_DIR", code_folder())  # noqa: B010
    try:
        loop: Any = numba.njit(cache=True, nogil=True, error_model="numpy", fastmath=fastmath)(function)
        loop.is_interpretable = is_interpretable and fastmath in (False, MAXIMUM_FLAGS)
        _guard_loop(loop)
        _compiled_loops.append(loop)
        restrict_access(Path(loop.stats.cache_path))
        machine_code: Compiled = loop
        return machine_code
    finally:
        setattr(config, "CACHE_DIR", previous_folder)  # noqa: B010


@cache
def code_folder() -> str:
    """Return the folder for compiled code, in NUMBA_CACHE_DIR or the cache, named by a digest of sources.

    So a changed source file gets a new folder. Falls back to a temporary folder of the user's, else to one that ends
    with the process.
    """
    solvers_folder = Path(__file__).parent
    source_digest = hashlib.sha256(
        b"".join(file.read_bytes() for file in sorted(solvers_folder.rglob("*.py")))
    ).hexdigest()[:16]
    user_name = os.getuid() if sys.platform != "win32" else os.environ.get("USERNAME", "")
    default_folder = Path(os.environ.get("NUMBA_CACHE_DIR") or home() / "code") / source_digest
    folder_choices = default_folder, Path(tempfile.gettempdir(), f"frontier-{user_name}-{source_digest}")
    # The first folder that only the user can write to.
    return str(next(filter(_is_safe, folder_choices), None) or process_folder() / "code" / source_digest)


def _is_safe(code_path: Path) -> bool:
    """Create a folder for compiled code; return True if the user, and only the user, can write to it.

    Logs a warning where others could: code that they put there would run.
    """
    try:
        make_folder(code_path.parent)
        # A folder that exists already is judged as it is; lstat takes a link for no folder, wherever it leads.
        with suppress(FileExistsError):
            code_path.mkdir(mode=0o700)
        is_closed = _is_closed(code_path.lstat(), allows_additions=False)
        if not (
            is_closed
            and all(_is_closed(parent_path.stat()) for parent_path in (code_path.parent, code_path.parent.parent))
        ):
            logging.getLogger("frontier").warning(
                "note: compiled code in %s is not used: others own the folder, or one above it, or can write to it; "
                "give it to yourself alone (chmod go-w), or set FRONTIER_HOME to a folder of your own",
                code_path,
            )
            return False
        return is_writable(code_path)
    except OSError:
        return False


def _is_closed(status: os.stat_result, allows_additions: bool = True) -> bool:
    """Return True if a path is a folder in which nobody but the user or the system can replace files.

    allows_additions: a folder like /tmp, where others may add files but not replace any (sticky bit), counts too
    """
    if sys.platform == "win32":
        return True
    foreign_write_bits = stat.S_IWOTH | (
        0 if status.st_gid == os.geteuid() else stat.S_IWGRP
    )  # a group of the user's own
    is_open_to_others = status.st_mode & foreign_write_bits and not (allows_additions and status.st_mode & stat.S_ISVTX)
    return stat.S_ISDIR(status.st_mode) and status.st_uid in (os.geteuid(), 0) and not is_open_to_others


@contextmanager
def interpreting() -> Iterator[None]:
    """Run loops that are not compiled yet as plain Python within the block, with results equal to the bit.

    Meant for a few problems of some hundred rows: Python takes a fraction of a second where compilation takes ten.
    Loops of `jit_reassociating` are compiled all the same, as Python would add in another order. Once blocks like this
    one have taken INTERPRETING_SECONDS in this process, all loops are compiled; while another thread compiles, which
    Numba lets only one do at a time, Python goes on.
    """
    is_patient = _interpreted_seconds[0] < INTERPRETING_SECONDS or bool(_compiling_threads)
    token, start_time = _interpreting.set(is_patient), time.thread_time()
    try:
        with np.errstate(all="ignore"):
            yield
    finally:
        _interpreting.reset(token)
        # The cache holds the loops that have run as Python; without any, the block took no time for them.
        if _python_namespace.cache_info().currsize:
            _interpreted_seconds[0] += time.thread_time() - start_time


@contextmanager
def compiling() -> Iterator[None]:
    """Compile all loops that the block calls, also where Python would be sooner; for warming up and for benches."""
    token = _awaiting_code.set(True)
    try:
        yield
    finally:
        _awaiting_code.reset(token)


def is_interpreted(loop: Any) -> bool:
    """Return True if a small problem should run this loop in a block of `interpreting`: it has no code yet."""
    return not _awaiting_code.get() and not is_compiled(loop)


def is_compiled(loop: Any) -> bool:
    """Return True if a loop's machine code is in this process or on disk, so a call need not compile it."""
    # Numba's index of a loop's compiled versions is a file called module.loop-….nbi.
    name = f"{loop.__module__.rpartition('.')[2]}.{loop.__name__}-*.nbi"
    return bool(loop.overloads) or any(Path(code_folder()).rglob(name))


def _guard_loop(loop: Any) -> None:
    """Make a compiled loop survive damaged code on disk, and run as Python inside `with interpreting():`.

    loop: Numba's dispatcher, changed in place; the block runs it as Python if it `is_interpretable`
    """
    compile_for = loop._compile_for_args  # what Numba calls for arguments of new types; it runs what that returns

    def compile_or_interpret(*arguments: Any, **keyword_arguments: Any) -> Any:
        """Return what runs the loop for these argument types: Python within `interpreting`, else machine code."""
        if loop.is_interpretable and _interpreting.get() and not is_compiled(loop):
            return _python_namespace(loop.__module__)[loop.__name__]
        # A damaged cache is deleted and, should that fail too, no longer used; a third failure is an error of the loop.
        for repair_cache in (_delete_code, _disable_code_cache):
            thread_id = threading.get_ident()
            is_outermost = thread_id not in _compiling_threads
            _compiling_threads.add(thread_id)
            try:
                return compile_for(*arguments, **keyword_arguments)
            except Exception:
                # Whatever failed, the next try compiles anew; an error of the loop itself is raised at the end.
                repair_cache()
            finally:
                if is_outermost:
                    _compiling_threads.discard(thread_id)
                # Numba makes files as the umask has it; its code is left to the user alone.
                if cache_path := loop.stats.cache_path:
                    for path in Path(cache_path).glob("*.nb[ci]"):
                        restrict_access(path)
        return compile_for(*arguments, **keyword_arguments)

    loop._compile_for_args = compile_or_interpret


def _delete_code() -> None:
    """Delete all compiled code on disk, which may be damaged, for instance half written before a crash.

    A full disk is left alone: code deleted there could not be written again.
    """
    with suppress(OSError):
        if is_writable(Path(code_folder())):
            for file in Path(code_folder()).rglob("*.nb[ci]"):
                file.unlink(missing_ok=True)


def _disable_code_cache() -> None:
    """Make all loops compile for this process only, as their code cannot be stored on disk."""
    for loop in _compiled_loops:
        loop._cache = NullCache()


@cache
def _python_namespace(module_name: str) -> dict[str, Any]:
    """Return a module's names with its interpretable loops replaced by the Python functions they were made of.

    Loops of other modules are replaced too, so that the Python functions call each other and no loop that has yet to be
    compiled, but for those of `jit_dense`.
    """
    namespace = dict(vars(sys.modules[module_name]))
    for name, value in list(namespace.items()):
        if isinstance(value, numba.core.dispatcher.Dispatcher) and getattr(value, "is_interpretable", False):
            is_local = value.__module__ == module_name
            python_function = (
                FunctionType(value.py_func.__code__, namespace, name, value.py_func.__defaults__) if is_local else None
            )
            namespace[name] = python_function or _python_namespace(value.__module__)[value.__name__]
    return namespace
