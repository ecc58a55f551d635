"""Several server processes on one host: started, supervised and ended together, and a proxy's lines."""

import os
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from dashboard.services.roots import MAX_UPLOAD_BYTES

WORKER_HOST = "127.0.0.1"
"""Address of the workers, unless the command line names another one."""
WORKER_COOKIE = "frontier_worker"
"""Cookie by which a proxy sends a visitor to the same worker, as sessions and uploads belong to one worker."""
HELD_VARIABLE = "FRONTIER_HELD"
"""Variable of a worker's process: the worker ends when its standard input is closed."""
END_GRACE_SECONDS = 20.0
"""Seconds that a worker has to end its jobs before it is killed."""
SHORT_LIFE_SECONDS, MAX_PAUSE_SECONDS = 20.0, 30.0
"""A worker that lived shorter is restarted after a pause, doubled each time up to the maximum."""
POLL_SECONDS = 0.2
"""Seconds between two polls of the workers."""
WORKER_CODE = "import sys; from dashboard.start import main; sys.argv[0] = 'frontier'; main()"
Say = Callable[[str], None]

NGINX_TEMPLATE = """\
# nginx, inside http {{ }}
map $http_upgrade $frontier_connection {{ default upgrade; "" ""; }}
map $cookie_{cookie} $frontier_visitor {{ default $cookie_{cookie}; "" $request_id; }}
map $cookie_{cookie} $frontier_cookie {{
    default "";
    "" "{cookie}=$request_id; Path={place}; HttpOnly; SameSite=Lax";
}}
upstream frontier {{
    hash $frontier_visitor consistent;
{servers}
}}
server {{
    listen 80;
    client_max_body_size {upload}m;
    location {place} {{
        proxy_pass http://frontier;
        proxy_http_version 1.1;
        proxy_set_header Host $http_host;
        proxy_set_header Upgrade $http_upgrade;
        proxy_set_header Connection $frontier_connection;
        proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
        proxy_set_header X-Forwarded-Proto $scheme;
        proxy_request_buffering off;
        proxy_buffering off;
        proxy_read_timeout 1d;
        proxy_send_timeout 1d;
        add_header Set-Cookie $frontier_cookie;
    }}
}}"""
CADDY_TEMPLATE = """\
# Caddyfile (Caddy keeps the Host, passes WebSockets on and has no limit on uploads)
:80 {{
	reverse_proxy {path}{servers} {{
		lb_policy cookie {cookie}
		lb_try_duration 5s
		fail_duration 10s
	}}
}}"""


def format_nginx(ports: Sequence[int], base_path: str = "", host: str = WORKER_HOST) -> str:
    """Format the configuration of an nginx proxy that keeps each visitor with one of the server's workers.

    base_path: the path that the pages lie below, with a leading slash and none at its end, "" for none; host: of the
    workers
    """
    servers = "\n".join(f"    server {format_host(host)}:{port};" for port in ports)
    # Without the final slash, a longer path of another site would match too.
    location, upload_mb = f"{base_path}/", MAX_UPLOAD_BYTES >> 20
    return NGINX_TEMPLATE.format(cookie=WORKER_COOKIE, place=location, servers=servers, upload=upload_mb)


def format_caddy(ports: Sequence[int], base_path: str = "", host: str = WORKER_HOST) -> str:
    """Format the configuration of a Caddy proxy that keeps each visitor with one of the server's workers.

    base_path: the path that the pages lie below, with a leading slash and none at its end, "" for none
    """
    server_names = " ".join(f"{format_host(host)}:{port}" for port in ports)
    return CADDY_TEMPLATE.format(cookie=WORKER_COOKIE, path=f"{base_path}* " if base_path else "", servers=server_names)


def format_host(host: str) -> str:
    """Format a host for a web address: IPv6 in brackets."""
    return f"[{host}]" if ":" in host else host


def list_taken_ports(ports: Sequence[int], host: str = WORKER_HOST) -> list[int]:
    """Return those of the ports that cannot be bound, as another process on this machine listens on them."""

    def is_taken(port: int) -> bool:
        """Return True if the port cannot be bound at `host`."""
        # The socket only tries to bind the port, and frees it at once.
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
            if os.name == "posix":  # where a port that was used a moment ago is free again
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, port))
            except OSError:
                return True
        return False

    return [port for port in ports if is_taken(port)]


class Worker:
    """Server process at one port; it ends with this one, and `poll` starts it again when it has died."""

    def __init__(self, number: int, port: int, flags: Sequence[str], variables: Mapping[str, str]) -> None:
        """Describe a worker, which `poll` starts; flags: of `frontier serve`, variables: of its environment."""
        self.number = number
        self.port = port
        self.process: subprocess.Popen[bytes] | None = None
        self._command = [sys.executable, "-c", WORKER_CODE, "serve", "--no-browser", "--port", str(port), *flags]
        self._variables = variables
        self._started = 0.0  # in monotonic seconds
        self._pause = 0.0  # seconds before the next start
        self._restart_time = 0.0  # in monotonic seconds, not before which it is started again

    def poll(self, say: Say) -> None:
        """Start the process if it does not run, after a pause that grows while it dies early; report an end.

        say: takes a line for people
        """
        if self.process is not None and (code := self.process.poll()) is not None:
            died_early = time.monotonic() - self._started < SHORT_LIFE_SECONDS
            # Exponential back-off, 1 s at first: a worker that dies at once must not spin.
            # (`or 1.0` replaces a pause of 0, the first time.)
            self._pause = min(MAX_PAUSE_SECONDS, 2 * self._pause or 1.0) if died_early else 0.0
            self._restart_time = time.monotonic() + self._pause
            pause = f" in {self._pause:.0f} s" if self._pause else ""
            ended = f"worker {self.number} (port {self.port}, process {self.process.pid}) ended with {code}"
            self.process = None
            say(f"{ended}: it is started again{pause}")
        if self.process is None and time.monotonic() >= self._restart_time:
            # A new process group: Ctrl-C in the terminal reaches only this process, which then ends them in order.
            self.process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, env={**os.environ, **self._variables}, start_new_session=True
            )
            self._started = time.monotonic()

    def close_input(self) -> None:
        """Close the process's standard input, which tells it to end its jobs and itself."""
        if self.process is not None and self.process.stdin is not None:
            with suppress(OSError):
                self.process.stdin.close()

    def wait_or_kill(self, deadline: float) -> None:
        """Wait until the process ends, and kill it at `deadline` (monotonic seconds)."""
        if self.process is None:
            return
        try:
            self.process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def supervise(ports: Sequence[int], flags: Sequence[str], echo_line: Say) -> None:
    """Run a server process (worker) at each port until Ctrl-C or SIGTERM; start one again that has died.

    flags: of `frontier serve`, the same for all; echo_line: takes a line for people
    """
    variables = _worker_variables(len(ports))
    workers = [Worker(number, port, flags, variables) for number, port in enumerate(ports, 1)]
    with _end_signals() as end_event:
        try:
            while not end_event.is_set():
                for worker in workers:
                    worker.poll(echo_line)
                end_event.wait(POLL_SECONDS)
        finally:
            # All are told to end before any is waited for, so that they share the time of grace.
            for worker in workers:
                worker.close_input()
            deadline = time.monotonic() + END_GRACE_SECONDS
            for worker in workers:
                worker.wait_or_kill(deadline)
    echo_line(f"{len(workers)} workers ended")


def _worker_variables(n_workers: int) -> dict[str, str]:
    """Return environment variables for all workers: their threads, and the secret that signs cookies.

    The secret is common to all, so that a cookie signed by one worker is valid at the others.
    """
    # Half of the cores, divided among the workers.
    n_threads = max(1, (os.cpu_count() or 2) // 2 // n_workers)
    defaults = {"FRONTIER_THREADS": str(n_threads), "STREAMLIT_SERVER_COOKIE_SECRET": secrets.token_hex(32)}
    # Values that the operator has set win.
    variables = {name: os.environ.get(name) or value for name, value in defaults.items()}
    # No module may come from the folder that the command was typed in.
    return {HELD_VARIABLE: "1", "PYTHONSAFEPATH": "1", **variables}


@contextmanager
def _end_signals() -> Iterator[threading.Event]:
    """Yield an event that is set by Ctrl-C or SIGTERM; restore the signal handlers afterwards."""
    end_event = threading.Event()

    def set_event(*_: Any) -> None:
        """Set the event, as the handler of a signal; its number and the stack frame are not used."""
        end_event.set()

    handlers = {number: signal.signal(number, set_event) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield end_event
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def end_with_parent() -> bool:
    """Return True if this process is a worker; let a worker end as by Ctrl-C once its parent is gone."""
    # Taken out of the environment, so that no process started from here counts as a worker.
    is_worker = bool(os.environ.pop(HELD_VARIABLE, ""))
    if is_worker:
        threading.Thread(target=_wait_for_end, name="wait for the end", daemon=True).start()
    return is_worker


def _wait_for_end() -> None:
    """Wait until the parent closes this worker's standard input, then end as by Ctrl-C."""
    # The parent holds the other end of the pipe: even if it is killed, the read ends.
    with suppress(OSError):
        while os.read(0, 1024):
            pass
    signal.raise_signal(signal.SIGINT)
