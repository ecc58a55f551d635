"""`frontier serve`: the server's address, its rules, and its start, alone or as several workers."""

import contextlib
import socket
import threading
import time
import webbrowser
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import click
import streamlit as st
from click.core import ParameterSource
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route
from streamlit import config
from streamlit.web.bootstrap import load_config_options

from dashboard import gate, page_documents, page_limit, page_messages, slow_uploads, workers
from dashboard.components import vendor
from dashboard.services import corpora, garbage, jobs, login, roots
from dashboard.services.roots import MAX_UPLOAD_BYTES, Rules
from dashboard.services.source import STORE_PREFIX, Source
from engine import paths
from engine.cli.group import use_threads
from engine.cli.output import echo, echo_lines
from engine.integrations.connections import raise_handle_limit, use_bounded_protocol
from engine.integrations.end_by_signal import EndBySignal

APP_FILE = Path(__file__).parent / "app.py"
STREAMLIT_CONFIG: dict[str, Any] = {
    "server.address": "127.0.0.1",
    "server.headless": True,
    "server.fileWatcherType": "none",
    "runner.postScriptGC": False,  # `garbage` collects, for all sessions at once
    # No page draws by an expression alone, and threads that parse at once may fail on Python 3.11 (gh-106905).
    "runner.magicEnabled": False,
    "server.maxUploadSize": MAX_UPLOAD_BYTES >> 20,
    "browser.gatherUsageStats": False,
    "logger.hideWelcomeMessage": True,  # ours names Frontier and its folders, and asks no server for an address
    # A view that a link names is a value and has a default, which is no mistake.
    "global.disableWidgetStateDuplicationWarning": True,
    "client.toolbarMode": "minimal",
    "client.showErrorDetails": "none",
    "client.allowedOrigins": [],  # of pages that may frame ours and speak to them: none
    # Both themes are named: a lone primaryColor would lock the page to light. No decoder has this colour.
    "theme.light.primaryColor": "#4F46E5",
    "theme.dark.primaryColor": "#A5B4FC",
}


FIRST_PORT = 8501
HEALTH_PATH = "/healthz"
Report = Callable[[int], None]


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
    """Run the server of the pages, alone or as several processes, until it is stopped.

    The parameters are the options of `frontier serve`. count: of processes; base: path that the pages lie below;
    stores: corpora in vector engines; hosts: names of the server for browsers; roots: folders of paths that visitors
    may type; browser: open a window. Raises UsageError for a missing corpus or a taken port.
    """
    # A missing corpus is refused at the prompt, not in the browser.
    for name in corpus:
        if name not in corpora.DEMOS and not Path(name).exists():
            demos = ", ".join(corpora.DEMOS)
            raise click.UsageError(f"--corpus: no such file or folder: {name!r} (the demos are {demos})")
    if stores:
        from engine.data.stores.config import read_entry

        for name in stores:
            read_entry(name)  # raises here, at the prompt, for a name that the configuration lacks
        # With --store alone, the demo that --corpus defaults to is not served beside it.
        is_corpus_given = click.get_current_context().get_parameter_source("corpus") is not ParameterSource.DEFAULT
        corpus = (*(f"{STORE_PREFIX}{name}" for name in stores), *(corpus if is_corpus_given else ()))
    server = Listening(base, address.strip("[]"), hosts, roots, allow_uploads)
    if count > 1:
        _serve_many(port or FIRST_PORT, corpus, count, server)
    else:
        _serve_one(port, corpus, server, browser, is_worker=workers.end_with_parent())


@dataclass(frozen=True)
class Listening:
    """Address that a server listens on, and its rules for visitors: names, folders and uploads."""

    base: str  # path of the pages
    address: str  # to listen on
    hosts: tuple[str, ...]  # names of the server
    roots: tuple[str, ...]  # folders in which typed paths may lie
    allow_uploads: bool  # even if others can reach it
    # True for a notebook's own dashboard, in a frame of its page: who knows the secret base path may use it.
    is_private: bool = False

    @property
    def host_names(self) -> tuple[str, ...]:
        """Names by which browsers may reach the server, besides those of this machine itself."""
        return self.hosts if gate.is_wildcard(self.address) else (*self.hosts, self.address)

    @property
    def is_shared(self) -> bool:
        """True if people at other machines can reach the server."""
        return not all(map(gate.is_loopback, (self.address, *self.hosts)))

    @property
    def local_address(self) -> str:
        """Address by which this machine itself reaches the server."""
        return workers.WORKER_HOST if gate.is_wildcard(self.address) else self.address

    def format_flags(self) -> list[str]:
        """Return flags of `frontier serve` by which a worker process listens with the same rules."""
        flags_by: dict[str, Sequence[str]] = {
            "--base-path": [self.base] if self.base else [],
            "--address": [self.address],
        }
        flags_by |= {"--allow-host": self.hosts, "--root": self.roots}
        flags: list[str] = []
        for flag, values in flags_by.items():
            for value in values:
                flags += (flag, value)
        return [*flags, *(["--allow-uploads"] if self.allow_uploads else [])]

    def build_rules(self, corpus: tuple[str, ...]) -> Rules:
        """Return the rules about paths and uploads for visitors of this server; corpus: paths that it opens."""
        # Paths become absolute, but their symbolic links stay: they are compared with paths as people type them.
        return Rules(
            roots=tuple(Path(root).absolute() for root in self.roots),
            corpora=tuple(Path(name).absolute() for name in corpus),
            shared=self.is_shared,
            uploads=self.allow_uploads or not self.is_shared,
        )

    def warn_if_open(self) -> None:
        """Print a warning if others than this machine's users can reach the server without signing in."""
        if self.is_shared and not login.is_login_required():
            echo(
                "Warning: whoever reaches this server can use it, as it asks for no password: read its corpora, run "
                "work, and change votes, judgements and saved views; put a proxy that asks for one before it, or set "
                f"up signing in ({login.LOGIN_MANUAL}).",
                err=True,
            )


def _serve_many(port: int, corpus: tuple[str, ...], count: int, server: Listening) -> None:
    """Run server processes at ports that follow each other, after printing a proxy's settings for them.

    Raises UsageError if a port is taken.
    """
    base_path, host = server.base, server.local_address
    # Every worker checks it too; here a mistake is told once, at the prompt.
    login.check_login_setup()
    ports = range(port, port + count)
    if ports[-1] > 65535:
        raise click.UsageError(f"--port: {count} workers from {port} on would end at {ports[-1]}; the last is 65535")
    if taken_ports := workers.list_taken_ports(ports, host):
        port_names = ", ".join(map(str, taken_ports))
        raise click.UsageError(
            f"--workers {count}: port {port_names} of {ports[0]} to {ports[-1]} is taken by another process; "
            "end that, or choose another --port"
        )
    echo(f"{count} workers on {server.address}, ports {ports[0]} to {ports[-1]}. Put a proxy before them that")
    echo("keeps each visitor with one worker, as a session, its uploads and its answers are that worker's alone:")
    echo(f"\n{workers.format_nginx(ports, base_path, host)}\n\n{workers.format_caddy(ports, base_path, host)}\n")
    echo(f"Each says at {base_path}{HEALTH_PATH} whether its corpora are loaded. Ctrl-C or SIGTERM ends all.")
    server.warn_if_open()
    if not server.hosts:
        echo("Browsers reach it as localhost only; for the proxy's name add --allow-host NAME.")
    corpus_flags = chain.from_iterable(map(_format_corpus_flag, corpus))
    workers.supervise(ports, [*corpus_flags, *server.format_flags()], echo)


def _format_corpus_flag(name: str) -> tuple[str, str]:
    """Return the flag and value by which `frontier serve` opens a corpus.

    name: a demo, a path, or a corpus in a vector engine (a database of vectors), which has a flag of its own
    """
    store = Source(name).store
    return ("--store", store) if store else ("--corpus", name)


def _serve_one(port: int | None, corpus: tuple[str, ...], server: Listening, browser: bool, is_worker: bool) -> None:
    """Run one server process until it is stopped.

    is_worker: it is one of several, whose parent has printed the warnings
    """
    corpora.set_start_sources(*corpus)
    run_server(port, server, server.build_rules(corpus), browser, is_worker)


def run_server(
    port: int | None, server: Listening, rules: Rules, browser: bool, is_worker: bool, report_port: Report | None = None
) -> None:
    """Run this process's server until it is stopped; it loads its start corpora in the background.

    port: None for the usual one, 0 for any; rules: of paths and uploads; is_worker: a parent has printed the warnings;
    report_port: called with the port once it is bound
    """
    base_path = server.base
    roots.set_rules(rules)
    config = STREAMLIT_CONFIG | {
        "server.address": server.address,
        "server.allowedHosts": [*gate.LOOPBACK_NAMES, *server.host_names],
    }
    if server.is_private:
        # Browsers keep the cookie of this check from a frame; the gate refuses other sites by their origin anyhow.
        config["server.enableXsrfProtection"] = False
    config |= {"server.port": port} if port is not None else {}
    config |= {"server.baseUrlPath": base_path} if base_path else {}

    @contextlib.asynccontextmanager
    async def lifespan(_: st.App) -> AsyncIterator[None]:
        """Prepare the server when it begins, and stop all jobs when it ends."""
        # By now the application has set its own handlers, which these call.
        if threading.current_thread() is threading.main_thread():
            EndBySignal(partial(echo, err=True), jobs.is_at_work, jobs.stop_all_jobs).install()
        if report_port is not None:
            report_port(st.get_option("server.port"))
        # The corpus loads while the browser starts; the page shows its progress.
        is_silent = is_worker or server.is_private
        threading.Thread(target=_prepare_server, args=(browser, server, is_silent), daemon=True).start()
        try:
            yield
        finally:
            jobs.stop_all_jobs()

    def refuse_upload(headers: gate.Headers) -> str:
        """Return the reason why a request's upload is refused, by rules and sign-in cookie; "" if it is not."""
        if not rules.uploads:
            return roots.UPLOADS_OFF
        return "" if not login.is_login_required() or login.has_login_cookie(headers) else login.SIGN_IN_FIRST

    # The health check needs no sign-in, as load balancers cannot sign in.
    routes = [Route(f"{base_path}{HEALTH_PATH}", _answer_health), *_build_page_routes(base_path)]
    frames = gate.NOTEBOOK_FRAMES if server.is_private else gate.OWN_FRAMES
    guard = Middleware(
        gate.Gate, names=server.host_names, say=partial(echo, err=True), no_uploads=refuse_upload, frames=frames
    )
    # Inside the gate, so that what strangers send opens no page.
    limits = [Middleware(each) for each in (page_limit.PageLimit, page_messages.PageMessages, slow_uploads.SlowUploads)]
    app = st.App(APP_FILE, lifespan=lifespan, routes=routes, middleware=[guard, *limits])
    load_config_options(config)  # before anything reads an option: Streamlit warns of those that change later
    # Signing in returns people to the address of another server, and whoever knows this one's has its key.
    if not server.is_private:
        login.check_login_setup()  # the application decides where its secrets lie
    if not is_worker:
        server.warn_if_open()
    raise_handle_limit()
    use_bounded_protocol()
    with contextlib.suppress(KeyboardInterrupt):
        app.run(config=config)
    # The libraries must not be taken down under a thread that computes in them.
    with contextlib.suppress(KeyboardInterrupt):
        jobs.stop_all_jobs()


def _build_page_routes(base_path: str) -> list[BaseRoute]:
    """Return the routes of the pages below `base_path`, and of what they load."""
    return [*vendor.build_routes(base_path), *page_documents.build_routes(base_path)]


async def _answer_health(_: Request) -> Response:
    """Answer the health check: 200 once the corpora to be served are loaded, else 503."""
    health = corpora.report_health()
    # Nobody signs in for it: then the names of the corpora stay private.
    if login.is_login_required():
        health = {"status": health["status"]}
    status_code = 200 if health["status"] == "ok" else 503
    return JSONResponse(health, status_code, headers={"Cache-Control": "no-store"})


def _prepare_server(browser: bool, server: Listening, is_silent: bool) -> None:
    """Load the corpora in the background, say where the server is once its port answers, and compile the selectors.

    browser: open one there; is_silent: say nothing, as a parent process does
    """
    use_threads()
    garbage.start_collecting()
    corpora.get_loading_job()  # the first corpus, whose job runs while the browser starts
    port = config.get_option("server.port")
    # The lifespan begins just before the port answers.
    for _ in range(100):
        with contextlib.suppress(OSError), socket.create_connection((server.local_address, port), timeout=1):
            break
        time.sleep(0.05)
    address = f"http://{workers.format_host(server.local_address)}:{port}{server.base}"
    # A parent process has said where its workers are, and a notebook shows the page itself.
    if not is_silent:
        # Nobody may read: a closed terminal must not keep the corpora from loading.
        with contextlib.suppress(OSError):
            echo_lines([f"Frontier is at {address}", f"Folder: {paths.home()}", "Ctrl-C ends it."])
    if browser:
        webbrowser.open(address)
    corpora.warm_selectors(corpora.get_start_source())
    corpora.load_start_corpora()
