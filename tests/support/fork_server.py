"""A process that has imported engine and dashboard and forks a child for every server or client that tests start.

Each would take some seconds of a core to import the same packages. The run's first process starts it and names its
socket in the environment; it ends with that process. Without it, each starts as a process of its own.
"""

import array
import gc
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from pathlib import Path

from support import processes, warm_home
from support.processes import environment

SOCKET_VARIABLE = "FRONTIER_TESTS_FORK_SERVER"
FORKED_VARIABLES = {"FRONTIER_HOME", "TRAIL", "PACE", "FATAL"}
"""Variables that a child may have of its own; others are read while packages are imported."""
PRELOADED = (
    "sentence_transformers",
    "transformers.models.bert.modeling_bert",
    "openTSNE",
    "dashboard.serve",
    "dashboard.server",
    *(f"dashboard.{name}.page" for name in ("explore", "tradeoff", "tuning", "training", "drift", "theory")),
)
MAX_REQUEST_BYTES = 1_000_000


class Child:
    """A forked process, with those parts of subprocess.Popen that tests of servers use."""

    def __init__(
        self, code: str, arguments: list[str], variables: dict[str, str], *, apart: bool = False, quiet: bool = False
    ) -> None:
        """Run code with these arguments and variables; what it prints, errors too, is read from `stdout`.

        apart: errors are read from `stderr`; quiet: nothing is read, and both are None
        """
        self.returncode: int | None = None
        self.stdout = self.stderr = None
        if quiet:
            child_out = child_errors = os.open(os.devnull, os.O_WRONLY)
        else:
            out, child_out = os.pipe()
            self.stdout, child_errors = os.fdopen(out, encoding="utf-8"), child_out
            if apart:
                errors, child_errors = os.pipe()
                self.stderr = os.fdopen(errors, encoding="utf-8")
        self._status, child_status = os.pipe()
        around = environment(**variables)
        request = {"code": code, "arguments": arguments, "variables": around, "folder": os.getcwd()}
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(os.environ[SOCKET_VARIABLE])
            descriptors = array.array("i", [child_out, child_errors, child_status])
            ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptors)]
            connection.sendmsg([b"+"], ancillary)
            connection.sendall(json.dumps(request).encode())
            connection.shutdown(socket.SHUT_WR)
            if not (answer := connection.recv(64)):
                raise ConnectionError("the fork server ended")
            self.pid = int(answer)
        for descriptor in {child_out, child_errors, child_status}:
            os.close(descriptor)

    def __enter__(self) -> "Child":
        return self

    def __exit__(self, *_: object) -> None:
        for stream in filter(None, (self.stdout, self.stderr)):
            stream.close()
        self.wait()

    def poll(self) -> int | None:
        """Return the exit code, None while the process runs."""
        with suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code once the process has ended; a signal's number counts as negative."""
        if self.returncode is None:
            if not select.select([self._status], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)
            self.returncode = int(os.read(self._status, 64))
            os.close(self._status)
        return self.returncode

    def communicate(self, timeout: float | None = None) -> tuple[str | None, str | None]:
        """Return what it prints until it ends, and its errors."""
        printed: dict[str, str] = {}

        def read(name: str) -> None:
            printed[name] = getattr(self, name).read()

        names = [name for name in ("stdout", "stderr") if getattr(self, name) is not None]
        readers = [threading.Thread(target=read, args=(name,), daemon=True) for name in names]
        for reader in readers:
            reader.start()
        self.wait(timeout)
        for reader in readers:
            reader.join()
        return printed.get("stdout"), printed.get("stderr")

    def send_signal(self, number: int) -> None:
        """Send a signal, unless the process has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End the process at once."""
        self.send_signal(signal.SIGKILL)


def start_python(code: str, arguments: list[str], **variables: str) -> Child | subprocess.Popen[str]:
    """Start a process that runs code and whose errors are printed to its output, forked where it can be."""
    if SOCKET_VARIABLE in os.environ and variables.keys() <= FORKED_VARIABLES:
        # A fork server that has ended must not fail the tests: they then start servers as without one.
        with suppress(OSError):
            return Child(code, arguments, variables)
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment(**variables),
    )


def fork_python(*arguments: str, quiet: bool = False, **variables: str) -> Child | subprocess.Popen[str]:
    """Do what `processes.start_python` does, forked where it can be: for tests of what is done, not of a start.

    arguments: "-c", code and the code's arguments, or "-m", a module and its arguments
    """
    how, code, *others = arguments
    if SOCKET_VARIABLE in os.environ and variables.keys() <= FORKED_VARIABLES:
        if how == "-m":
            code = f"import runpy; runpy.run_module({code!r}, run_name='__main__', alter_sys=True)"
        with suppress(OSError):
            return Child(code, others, variables, apart=True, quiet=quiet)
    return processes.start_python(*arguments, quiet=quiet, **variables)


def start() -> subprocess.Popen[bytes] | None:
    """Start the fork server of this run and name its socket in the environment; None where there is no Linux."""
    if not sys.platform.startswith("linux"):
        return None
    path = str(Path(tempfile.mkdtemp(prefix="frontier-fork-")) / "socket")
    # It listens at once and answers when it has imported all: whoever asks before waits.
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(64)
    command = [sys.executable, "-m", "support.fork_server", str(listener.fileno())]
    process = subprocess.Popen(command, env=environment(), stdin=subprocess.PIPE, pass_fds=[listener.fileno()])
    listener.close()
    os.environ[SOCKET_VARIABLE] = path
    return process


def stop(process: subprocess.Popen[bytes]) -> None:
    """End the fork server, which leaves its children alone, and delete its socket."""
    path = Path(os.environ.pop(SOCKET_VARIABLE))
    process.stdin.close()
    process.wait()
    path.unlink()
    path.parent.rmdir()


def _receive(connection: socket.socket) -> tuple[dict, list[int]]:
    """Return a request and the descriptors of its output, of its errors and of its status."""
    _, ancillary, _, _ = connection.recvmsg(1, socket.CMSG_SPACE(3 * array.array("i").itemsize))
    descriptors = array.array("i", ancillary[0][2])
    parts = []
    while part := connection.recv(MAX_REQUEST_BYTES):
        parts.append(part)
    return json.loads(b"".join(parts)), list(descriptors)


def _become_child(request: dict, out: int, errors: int) -> str:
    """Give this process the output, folder, arguments and variables of a request; return the code to run."""
    with open(os.devnull) as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(out, 1)
    os.dup2(errors, 2)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["variables"])
    sys.argv = ["-c", *request["arguments"]]
    return request["code"]


def _fork_and_report(connection: socket.socket, status: int) -> bool:
    """Fork a child, answer with its id and, when it has ended, with its exit code; return True in the child."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    pid = os.fork()
    if not pid:
        return True
    connection.sendall(str(pid).encode())
    connection.close()
    os.write(status, str(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])).encode())
    os._exit(0)


def serve(listener: socket.socket) -> str | None:
    """Answer requests until the input ends, then return None; in a child return the code that it is to run."""
    while True:
        ready, _, _ = select.select([listener, 0], [], [])
        if 0 in ready:
            return None
        connection, _ = listener.accept()
        with connection:
            request, (out, errors, status) = _receive(connection)
            # A process between the two waits for the child, so that this one never has to.
            is_child = not os.fork() and _fork_and_report(connection, status)
        if is_child:
            listener.close()
            code = _become_child(request, out, errors)
        for descriptor in (out, errors, status):
            os.close(descriptor)
        if is_child:
            return code


def _prepare_shared_home() -> None:
    """Embed the demo and compile the loops of every selector, so that no worker has to beside the others."""
    import engine

    warm_home.make()
    for name in engine.methods("selector"):
        type(engine.make(name)).warm()


def main(descriptor: str) -> str | None:
    """Import the packages, have the shared home prepared beside this process, and serve."""
    # Not above: who only asks this process for a child imports none of it.
    import torch

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for those who forked
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the processes that wait
    torch.set_num_threads(1)
    for name in PRELOADED:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()
    preparing = os.fork()
    if not preparing:
        _prepare_shared_home()
        os._exit(0)
    code = serve(socket.socket(fileno=int(descriptor)))
    if code is None:
        with suppress(ProcessLookupError):
            os.kill(preparing, signal.SIGKILL)
    return code


if __name__ == "__main__":
    forked_code = main(*sys.argv[1:])
    if forked_code is not None:
        # A main module of its own, which the code is the whole of.
        namespace = {"__name__": "__main__", "__builtins__": __builtins__}
        exec(compile(forked_code, "<string>", "exec"), namespace)
