"""Routes of the server for the views, beside the page's messages: scripts, backdrops of charts, sliders' answers."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import threading
from collections.abc import Callable, Mapping
from functools import cache, partial
from importlib.metadata import distribution
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dashboard.services import answer_jobs, login
from dashboard.services.answer_jobs import Answerable
from dashboard.services.memo import Memo

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import BaseRoute

BACKDROPS, MODULES, ANSWERS = "/backdrop", "/module", "/answers"
MODULE_FOLDER = Path(__file__).parent / "scripts"
LIBRARY = "/vendor/plotly.min.js"
MAX_BACKDROPS = 16
"""Backdrops in memory, the least recently used goes first; a page that needs one serves it again."""
MAX_ANSWERS = 512
"""Requests that can still be answered; a page that needs more serves them again."""
#: Every URL holds a version or a digest of its content, so a browser never needs to ask again.
CACHE_FOREVER = {"Cache-Control": "private, max-age=31536000, immutable"}


_ANSWERS: Memo[str, Answerable] = Memo(MAX_ANSWERS)
_BACKDROPS: Memo[str, bytes] = Memo(MAX_BACKDROPS)
_SECRET = secrets.token_bytes(32)
"""Key of the names of backdrops and answers."""
_SERVED = threading.Event()
_BASE = ""
"""Path that the server's routes lie below, with a leading slash, or ""."""


def is_serving() -> bool:
    """Return True if this server has the routes; one that was started otherwise has not."""
    return _SERVED.is_set()


def library_url() -> str:
    """Return the URL of the chart library, which names its version."""
    return f"{_BASE}{LIBRARY}?{distribution('plotly').version}"


def serve_backdrop(digest: str, content: bytes) -> str:
    """Serve the traces of a backdrop, as JSON, from now on; return their URL."""
    name = _name_content(digest)
    _BACKDROPS[name] = content
    return f"{_BASE}{BACKDROPS}/{name}.json"


def backdrop_url(digest: str) -> str | None:
    """Return the URL of a backdrop's traces; None if they are not served yet."""
    name = _name_content(digest)
    return f"{_BASE}{BACKDROPS}/{name}.json" if name in _BACKDROPS else None


def _name_content(digest: str) -> str:
    """Return the name under which content of visitors is served, from the digest of all that it depends on.

    Nobody can compute the name without the secret of this process, so that an answer of 200 or 404 tells nothing about
    other visitors, and no browser takes what an earlier version has computed from its cache.
    """
    return hashlib.blake2b(digest.encode(), key=_SECRET, digest_size=16).hexdigest()


def module_url(name: str) -> str:
    """Return the URL of a script of the views, which names the version of all scripts."""
    return f"{_BASE}{MODULES}/{_modules_version()}/{name}"


@cache
def _modules_version() -> str:
    """Return a digest of all scripts, which their URLs have in them, so that browsers may cache them."""
    # One version for all: the scripts import each other by relative URLs.
    files = sorted(MODULE_FOLDER.iterdir())
    return hashlib.sha256(b"".join(file.read_bytes() for file in files if file.is_file())).hexdigest()[:16]


def draw_view(
    name: str, key: str, data: dict[str, Any], callbacks: Mapping[str, Callable[[Any], Any]], **options: Any
) -> None:
    """Draw a view: a component of the page that a script draws in the browser.

    A short loader fetches the script, and messages carry its data. name: of the script; key: of the component in the
    session; callbacks: event → function that takes the value that the view reports; options: `isolate_styles` of the
    component, and those of its element, such as `height`
    """
    import streamlit as st

    is_isolated = options.pop("isolate_styles", True)
    # Registered anew in every run: a component belongs to the server's runtime, which outlives no test.
    loader = (MODULE_FOLDER / "loader.js").read_text(encoding="utf-8")
    component = st.components.v2.component(f"frontier_{name}", js=loader, isolate_styles=is_isolated)
    handlers: dict[str, Any] = {
        f"on_{event}_change": partial(_report, key, event, callback) for event, callback in callbacks.items()
    }
    component(key=key, data={**data, "module": module_url(f"{name}.js")}, **options, **handlers)


def _report(key: str, event: str, callback: Callable[[Any], Any]) -> None:
    """Call back with the value that a view in the browser reported for an event, if there is one."""
    import streamlit as st

    if (value := st.session_state[key].get(event)) is not None:
        callback(value)


def serve_answer(digest: str, request: Answerable) -> str:
    """Serve a request's answer, such as a slider's, computed when the browser asks for it; return its URL."""
    name = _name_content(digest)
    _ANSWERS[name] = request
    return f"{_BASE}{ANSWERS}/{name}.json"


def build_routes(base: str = "") -> list[BaseRoute]:
    """Build the server's routes for scripts, backdrops and answers; `is_serving` is True from now on.

    base: the path that all of them lie below, with its leading slash, "" for none; it is part of their URLs
    """
    from starlette.routing import Route

    # The URLs that pages send are built without a request, so the path is stored for them.
    global _BASE
    _BASE = base
    _SERVED.set()
    return [
        Route(f"{base}{LIBRARY}", _send_library),
        Route(f"{base}{BACKDROPS}/{{name}}.json", _send_backdrop),
        Route(f"{base}{MODULES}/{{version}}/{{name}}", _send_module),
        Route(f"{base}{ANSWERS}/{{name}}.json", _send_answer),
    ]


async def _send_library(_: Request) -> Response:
    """Send the chart library that is installed with plotly."""
    from starlette.responses import FileResponse

    file = str(distribution("plotly").locate_file("plotly/package_data/plotly.min.js"))
    return FileResponse(file, media_type="text/javascript", headers=CACHE_FOREVER)


async def _send_backdrop(request: Request) -> Response:
    """Send the traces of a backdrop (the fixed part of a chart) to the browser, or 404; 403 before signing in."""
    from starlette.responses import PlainTextResponse, Response

    if not _may_see_content(request):
        return PlainTextResponse(login.SIGN_IN_FIRST, status_code=403)
    content = _BACKDROPS.get(request.path_params["name"])
    if content is None:
        return PlainTextResponse("no such backdrop", status_code=404)
    return Response(content, media_type="application/json", headers=CACHE_FOREVER)


async def _send_module(request: Request) -> Response:
    """Send a script or style file of the pages' charts and widgets to the browser, or 404."""
    from starlette.responses import FileResponse, PlainTextResponse

    file = MODULE_FOLDER / request.path_params["name"]
    # A name with a slash or dots could lead out of the folder.
    if file.parent != MODULE_FOLDER or file.suffix not in (".js", ".css") or not file.is_file():
        return PlainTextResponse("no such module", status_code=404)
    media_type = "text/javascript" if file.suffix == ".js" else "text/css"
    return FileResponse(file, media_type=media_type, headers=CACHE_FOREVER)


def _may_see_content(request: Request) -> bool:
    """Return True if whoever sends a request may see what pages show: everybody, or those who have signed in."""
    return not login.is_login_required() or login.has_login_cookie(request.scope["headers"])


async def _send_answer(request: Request) -> Response:
    """Compute and send the answer to a request that a page has offered to the browser, or 404; 403 before signing in.

    An answer that cannot be computed is 422, with the reason; one that fails otherwise is 500, without; one that was
    stopped is 503.
    """
    from starlette.responses import PlainTextResponse, Response

    if not _may_see_content(request):
        return PlainTextResponse(login.SIGN_IN_FIRST, status_code=403)
    name = request.path_params["name"]
    answerable = _ANSWERS.get(name)
    if answerable is None:
        return PlainTextResponse("no such answers", status_code=404)
    try:
        body = await answer_jobs.fetch_body(name, answerable, request.is_disconnected)
    except asyncio.CancelledError:
        # The server ends while this waits; uvicorn would print the cancellation as an error with its traceback.
        return PlainTextResponse("stopped before the end", status_code=503)
    if isinstance(body, bytes):
        return Response(body, media_type="application/json", headers=CACHE_FOREVER | {"Content-Encoding": "gzip"})
    if body.error is not None and body.is_finding:
        return PlainTextResponse(body.error, status_code=422)
    if body.error is not None:
        return PlainTextResponse("the answer failed", status_code=500)
    return PlainTextResponse("stopped before the end", status_code=503)
