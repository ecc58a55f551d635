"""Several server processes on one host: started, watched and ended together, and the lines of a proxy before them."""

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

HOST = "127.0.0.1"
"""Where workers listen, unless the command line names another address."""
COOKIE = "frontier_worker"
"""The cookie by which a proxy sends a visitor to the same worker: sessions and uploads are that worker's alone."""
HELD = "FRONTIER_HELD"
"""Variable of a worker's process: it ends itself when the process that holds its standard input is gone."""
GRACE = 20.0
"""Seconds that a worker has to end its jobs before it is killed."""
SHORT_LIFE, LONGEST_PAUSE = 20.0, 30.0
"""Seconds: a worker that lived shorter is started again after a pause, twice as long each time, up to the longest."""
LOOK = 0.2
"""Seconds between two looks at the workers."""
CODE = "import sys; from dashboard.serve import main; sys.argv[0] = 'frontier'; main()"
Say = Callable[[str], None]

NGINX = """\
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
CADDY = """\
# Caddyfile (Caddy keeps the Host, passes WebSockets on and has no limit on uploads)
:80 {{
	reverse_proxy {path}{servers} {{
		lb_policy cookie {cookie}
		lb_try_duration 5s
		fail_duration 10s
	}}
}}"""


def nginx_lines(ports: Sequence[int], base: str = "", host: str = HOST) -> str:
    """The lines of an nginx before workers: a cookie keeps each visitor with one, and none goes to one that is down.

    base: the path that the pages lie below, with its leading slash and no other, "" for none; host: of the workers
    """
    servers = "\n".join(f"    server {in_address(host)}:{port};" for port in ports)
    # Without a slash after it a path of another site that begins alike would be taken too.
    return NGINX.format(cookie=COOKIE, place=f"{base}/", servers=servers, upload=MAX_UPLOAD_BYTES >> 20)


def caddy_lines(ports: Sequence[int], base: str = "", host: str = HOST) -> str:
    """The lines of a Caddy before workers, with the same cookie's name; base, host: as of `nginx_lines`."""
    servers = " ".join(f"{in_address(host)}:{port}" for port in ports)
    return CADDY.format(cookie=COOKIE, path=f"{base}* " if base else "", servers=servers)


def in_address(host: str) -> str:
    """A host as an address of the web has it."""
    return f"[{host}]" if ":" in host else host


def taken(ports: Sequence[int], host: str = HOST) -> list[int]:
    """The ports of an address of this machine that another process has."""

    def is_taken(port: int) -> bool:
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
    """One server process, which ends with this one, and is started again when it dies."""

    def __init__(self, number: int, port: int, flags: Sequence[str], variables: Mapping[str, str]) -> None:
        self.number = number
        self.port = port
        self.process: subprocess.Popen[bytes] | None = None
        self._command = [sys.executable, "-c", CODE, "serve", "--no-browser", "--port", str(port), *flags]
        self._variables = variables
        self._started = 0.0
        self._pause = 0.0
        self._due = 0.0

    def look(self, say: Say) -> None:
        """Start it where it does not run and its pause is over; say that it has died."""
        if self.process is not None and (code := self.process.poll()) is not None:
            lived = time.monotonic() - self._started
            self._pause = min(LONGEST_PAUSE, 2 * self._pause or 1.0) if lived < SHORT_LIFE else 0.0
            self._due, pid, self.process = time.monotonic() + self._pause, self.process.pid, None
            after = f" in {self._pause:.0f} s" if self._pause else ""
            say(f"worker {self.number} (port {self.port}, process {pid}) ended with {code}: it is started again{after}")
        if self.process is None and time.monotonic() >= self._due:
            # A session of its own: Ctrl-C in the terminal reaches this process alone, which then ends them in order.
            self.process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, env={**os.environ, **self._variables}, start_new_session=True
            )
            self._started = time.monotonic()

    def ask_to_end(self) -> None:
        """Let go of it, whereupon it ends its jobs and itself."""
        if self.process is not None and self.process.stdin is not None:
            with suppress(OSError):
                self.process.stdin.close()

    def end(self, until: float) -> None:
        """Wait for its end, and kill it when the clock (monotonic, in seconds) says `until`."""
        if self.process is None:
            return
        try:
            self.process.wait(max(0.0, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def supervise(ports: Sequence[int], flags: Sequence[str], say: Say) -> None:
    """Run a worker at each port until Ctrl-C or SIGTERM, which end them all; one that dies is started again.

    flags: of `frontier serve`, the same for all; say: takes a line for people
    """
    variables = _variables(len(ports))
    workers = [Worker(number, port, flags, variables) for number, port in enumerate(ports, 1)]
    with _signalled() as over:
        try:
            while not over.is_set():
                for worker in workers:
                    worker.look(say)
                over.wait(LOOK)
        finally:
            for worker in workers:
                worker.ask_to_end()
            until = time.monotonic() + GRACE
            for worker in workers:
                worker.end(until)
    say(f"{len(workers)} workers ended")


def _variables(count: int) -> dict[str, str]:
    """What the workers share beside FRONTIER_HOME: the cores, and the secret that signs a visitor's cookies."""
    threads = max(1, (os.cpu_count() or 2) // 2 // count)
    given = {"FRONTIER_THREADS": str(threads), "STREAMLIT_SERVER_COOKIE_SECRET": secrets.token_hex(32)}
    # No module may come from the folder that the command was typed in.
    return {HELD: "1", "PYTHONSAFEPATH": "1", **{name: os.environ.get(name) or value for name, value in given.items()}}


@contextmanager
def _signalled() -> Iterator[threading.Event]:
    """An event that Ctrl-C and SIGTERM set."""
    over = threading.Event()

    def end(*_: Any) -> None:
        over.set()

    before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield over
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def end_when_let_go() -> bool:
    """Have this process end by itself, as by Ctrl-C, once the one that started it as a worker is gone.

    Returns whether it is a worker.
    """
    is_worker = bool(os.environ.pop(HELD, ""))
    if is_worker:
        threading.Thread(target=_wait_for_end, name="wait for the end", daemon=True).start()
    return is_worker


def _wait_for_end() -> None:
    with suppress(OSError):
        while os.read(0, 1024):
            pass
    signal.raise_signal(signal.SIGINT)
