"""`frontier serve`: where the server is found, what it allows, and its start, alone or as several workers."""

import contextlib
import socket
import threading
import time
import webbrowser
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import click
import streamlit as st
from click.core import ParameterSource
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from streamlit import config
from streamlit.web.bootstrap import load_config_options

from dashboard import gate, workers
from dashboard.components import vendor
from dashboard.services import corpora, jobs, login, roots
from dashboard.services.roots import MAX_UPLOAD_BYTES, Rules
from dashboard.services.source import STORE, Source
from engine.cli.group import use_threads
from engine.cli.output import echo

APP = Path(__file__).parent / "app.py"
CONFIG: dict[str, Any] = {
    "server.address": "127.0.0.1",
    "server.headless": True,
    "server.fileWatcherType": "none",
    "server.maxUploadSize": MAX_UPLOAD_BYTES >> 20,
    "browser.gatherUsageStats": False,
    "client.toolbarMode": "minimal",
    "client.showErrorDetails": "none",
    "client.allowedOrigins": [],  # of pages that may frame ours and speak to them: none
    # Both themes are named: a lone primaryColor would lock the page to light. No decoder has this colour.
    "theme.light.primaryColor": "#4F46E5",
    "theme.dark.primaryColor": "#A5B4FC",
}


FIRST_PORT = 8501
HEALTH = "/healthz"


def serve(
    port: int | None,
    corpus: tuple[str, ...],
    count: int,
    base: str,
    stores: tuple[str, ...],
    hosts: tuple[str, ...],
    address: str,
    roots: tuple[str, ...],
    allow_uploads: bool,
    browser: bool,
) -> None:
    # Refused at the prompt, not in the browser.
    for name in corpus:
        if name not in corpora.DEMOS and not Path(name).exists():
            demos = ", ".join(corpora.DEMOS)
            raise click.UsageError(f"--corpus: no such file or folder: {name!r} (the demos are {demos})")
    if stores:
        from engine.data.stores.config import read_entry

        for name in stores:
            read_entry(name)
        named = click.get_current_context().get_parameter_source("corpus") is not ParameterSource.DEFAULT
        corpus = (*(f"{STORE}{name}" for name in stores), *(corpus if named else ()))
    place = Listening(base, address.strip("[]"), hosts, roots, allow_uploads)
    if count > 1:
        _serve_many(port or FIRST_PORT, corpus, count, place)
    else:
        _serve_one(port, corpus, place, browser, is_worker=workers.end_when_let_go())


@dataclass(frozen=True)
class Listening:
    """Where a server is found, and what it allows those who find it."""

    base: str  # path of the pages
    address: str  # where it listens
    hosts: tuple[str, ...]  # names that it is known by
    roots: tuple[str, ...]  # folders in which typed paths may lie
    allow_uploads: bool  # though others can reach it

    @property
    def names(self) -> tuple[str, ...]:
        """The names that browsers may reach it by beside the loopback's."""
        return self.hosts if gate.is_wildcard(self.address) else (*self.hosts, self.address)

    @property
    def is_shared(self) -> bool:
        """Whether others than those at this machine can reach it."""
        return not all(map(gate.is_loopback, (self.address, *self.hosts)))

    @property
    def own_address(self) -> str:
        """Where this machine itself reaches it."""
        return workers.HOST if gate.is_wildcard(self.address) else self.address

    def flags(self) -> list[str]:
        """The flags by which `serve` finds the same place."""
        given: dict[str, Sequence[str]] = {"--base-path": [self.base] if self.base else [], "--address": [self.address]}
        given |= {"--allow-host": self.hosts, "--root": self.roots}
        flags = [part for flag, values in given.items() for value in values for part in (flag, value)]
        return [*flags, *(["--allow-uploads"] if self.allow_uploads else [])]

    def rules(self, corpus: tuple[str, ...]) -> Rules:
        """What visitors may reach, of what the command line names."""
        return Rules(
            roots=tuple(Path(root).absolute() for root in self.roots),
            corpora=tuple(Path(name).absolute() for name in corpus),
            shared=self.is_shared,
            uploads=self.allow_uploads or not self.is_shared,
        )

    def warn(self) -> None:
        """Say what it means that others can reach it, where nobody is asked who they are."""
        if self.is_shared and not login.is_required():
            echo(
                "Warning: whoever reaches this server can use it, as it asks for no password: read its corpora, run "
                "work, and change votes, judgements and saved views; put a proxy that asks for one before it, or set "
                f"up signing in ({login.MANUAL}).",
                err=True,
            )


def _serve_many(port: int, corpus: tuple[str, ...], count: int, place: Listening) -> None:
    """Print what a proxy needs, and run the workers. Raises UsageError where a port cannot be had."""
    base, host = place.base, place.own_address
    login.require()
    ports = range(port, port + count)
    if ports[-1] > 65535:
        raise click.UsageError(f"--port: {count} workers from {port} on would end at {ports[-1]}; the last is 65535")
    if busy := workers.taken(ports, host):
        names = ", ".join(map(str, busy))
        raise click.UsageError(
            f"--workers {count}: port {names} of {ports[0]} to {ports[-1]} is taken by another process; "
            "end that, or choose another --port"
        )
    echo(f"{count} workers on {place.address}, ports {ports[0]} to {ports[-1]}. Put a proxy before them that")
    echo("keeps each visitor with one worker, as a session, its uploads and its answers are that worker's alone:")
    echo(f"\n{workers.nginx_lines(ports, base, host)}\n\n{workers.caddy_lines(ports, base, host)}\n")
    echo(f"Each says at {base}{HEALTH} whether its corpora are loaded. Ctrl-C or SIGTERM ends all.")
    place.warn()
    if not place.hosts:
        echo("Browsers reach it as localhost only; for the proxy's name add --allow-host NAME.")
    flags = [flag for name in corpus for flag in _flag_of(name)]
    workers.supervise(ports, [*flags, *place.flags()], echo)


def _flag_of(name: str) -> tuple[str, str]:
    """The flag that names a corpus."""
    store = Source(name).store
    return ("--store", store) if store else ("--corpus", name)


def _serve_one(port: int | None, corpus: tuple[str, ...], place: Listening, browser: bool, is_worker: bool) -> None:
    base = place.base
    corpora.start_with(*corpus)
    roots.set_rules(rules := place.rules(corpus))
    config = CONFIG | {"server.address": place.address, "server.allowedHosts": [*gate.LOOPBACK, *place.names]}
    if gate.is_wildcard(place.address):  # else the address that the world sees is asked of another server, to be shown
        config["browser.serverAddress"] = "localhost"
    config |= ({"server.port": port} if port else {}) | ({"server.baseUrlPath": base} if base else {})

    @contextlib.asynccontextmanager
    async def lifespan(_: st.App) -> AsyncIterator[None]:
        # The corpus loads while the browser starts; the page shows its progress.
        threading.Thread(target=_prepare, args=(browser, place), daemon=True).start()
        try:
            yield
        finally:
            jobs.stop_all()

    def no_uploads(headers: gate.Headers) -> str:
        if not rules.uploads:
            return roots.UPLOADS_OFF
        return "" if not login.is_required() or login.has_cookie(headers) else "Sign in first."

    routes = [Route(f"{base}{HEALTH}", _health), *vendor.routes(base)]
    guard = Middleware(gate.Gate, names=place.names, say=partial(echo, err=True), no_uploads=no_uploads)
    app = st.App(APP, lifespan=lifespan, routes=routes, middleware=[guard])
    load_config_options(config)  # before anything reads an option: Streamlit warns of those that change later
    login.require()  # the application decides where its secrets lie
    if not is_worker:
        place.warn()
    with contextlib.suppress(KeyboardInterrupt):
        app.run(config=config)


async def _health(_: Request) -> Response:
    """Whether the corpora that this server was started with are loaded: 200, else 503; names at most, no paths."""
    found = corpora.health()
    if login.is_required():
        found = {"status": found["status"]}
    return JSONResponse(
        found, status_code=200 if found["status"] == "ok" else 503, headers={"Cache-Control": "no-store"}
    )


def _prepare(browser: bool, place: Listening) -> None:
    use_threads()
    corpora.loading()
    if browser:
        port = config.get_option("server.port")
        # The lifespan begins just before the port answers.
        for _ in range(100):
            with contextlib.suppress(OSError), socket.create_connection((place.own_address, port), timeout=1):
                break
            time.sleep(0.05)
        webbrowser.open(f"http://{workers.in_address(place.own_address)}:{port}{place.base}")
    corpora.warm_encoder(corpora.source_at_start())
    corpora.load_all()
