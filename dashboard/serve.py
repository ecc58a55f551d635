"""The console command: the engine's commands and `serve`, which starts the dashboard."""

import contextlib
import socket
import sys
import threading
import time
import webbrowser
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import click

from dashboard import report  # noqa: F401  (adds its command to the group)
from engine.cli.group import main, use_threads
from engine.cli.options import CORPUS

APP = Path(__file__).parent / "app.py"
CONFIG: dict[str, Any] = {
    "server.address": "127.0.0.1",
    "server.headless": True,
    "server.fileWatcherType": "none",
    "server.maxUploadSize": 2048,
    "browser.gatherUsageStats": False,
    "client.toolbarMode": "minimal",
    "client.showErrorDetails": "none",
    # Both themes are named: a lone primaryColor would lock the page to light. No decoder has this colour.
    "theme.light.primaryColor": "#4F46E5",
    "theme.dark.primaryColor": "#A5B4FC",
}


@main.command()
@click.option(
    "--port", type=click.IntRange(1, 65535), default=None, help="Default: 8501, or the next one that is free."
)
@CORPUS
@click.option("--browser/--no-browser", default=True, help="Open a browser window.")
def serve(port: int | None, corpus: str, browser: bool) -> None:
    """Open the dashboard (the default command). It listens on 127.0.0.1 only."""
    import streamlit as st

    from dashboard.components import vendor
    from dashboard.services import corpora, jobs

    # Refused at the prompt, not in the browser.
    if corpus not in corpora.DEMOS and not Path(corpus).exists():
        demos = ", ".join(corpora.DEMOS)
        raise click.UsageError(f"--corpus: no such file or folder: {corpus!r} (the demos are {demos})")
    corpora.start_with(corpus)
    config = CONFIG | ({"server.port": port} if port else {})

    @contextlib.asynccontextmanager
    async def lifespan(_: st.App) -> AsyncIterator[None]:
        # The corpus loads while the browser starts; the page shows its progress.
        threading.Thread(target=_prepare, args=(browser,), daemon=True).start()
        try:
            yield
        finally:
            jobs.stop_all()

    with contextlib.suppress(KeyboardInterrupt):
        st.App(APP, lifespan=lifespan, routes=vendor.routes()).run(config=config)


def _prepare(browser: bool) -> None:
    from streamlit import config

    from dashboard.services import corpora

    use_threads()
    corpora.loading()
    if browser:
        _open_browser(config.get_option("server.port"))
    corpora.warm_encoder(corpora.source_at_start())


def _open_browser(port: int) -> None:
    # The lifespan begins just before the port answers.
    for _ in range(100):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            break
        time.sleep(0.05)
    webbrowser.open(f"http://127.0.0.1:{port}")


main.default = "serve"

if __name__ == "__main__":
    sys.exit(main())
