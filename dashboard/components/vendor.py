"""What the server gives to the views beside the page's messages: scripts, backdrops of charts, sliders' answers."""

from __future__ import annotations

import gzip
import hashlib
import json
import threading
from collections.abc import Callable, Mapping
from functools import cache, partial
from importlib.metadata import distribution
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from dashboard.services import jobs
from dashboard.services.memo import Memo
from engine.errors import FrontierError

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import BaseRoute

BACKDROPS, MODULES, ANSWERS = "/backdrop", "/module", "/answers"
MODULE_FOLDER = Path(__file__).parent / "scripts"
LIBRARY = "/vendor/plotly.min.js"
MOST_BACKDROPS = 16
"""Backdrops in memory, the least recently used goes first; a page that needs one gives it again."""
FOR_EVER = {"Cache-Control": "private, max-age=31536000, immutable"}

MOST_ANSWERS = 512
"""Answers that can still be asked for; a page that needs more offers them again."""


class Answerable(Protocol):
    """What a browser can ask for: data, and what JSON values are made of them."""

    def answer(self) -> Any: ...


_ANSWERS: Memo[str, Answerable] = Memo(MOST_ANSWERS)
_BACKDROPS: Memo[str, bytes] = Memo(MOST_BACKDROPS)
_SERVED = threading.Event()
_BASE = ""
"""The path that the server's routes lie below, with a leading slash, or nothing."""


def served() -> bool:
    """Whether this server has the routes; one that was started otherwise has not."""
    return _SERVED.is_set()


def library() -> str:
    """The address of the chart library, another one for another version."""
    return f"{_BASE}{LIBRARY}?{distribution('plotly').version}"


def keep(digest: str, content: bytes) -> str:
    """Serve a backdrop, JSON, from now on; returns its address."""
    _BACKDROPS[digest] = content
    return f"{_BASE}{BACKDROPS}/{digest}.json"


def address_of(digest: str) -> str | None:
    """The address of a backdrop, None for one that is not served."""
    return f"{_BASE}{BACKDROPS}/{digest}.json" if digest in _BACKDROPS else None


def module(name: str) -> str:
    """The address of a script of the views, another one for another version of any of them."""
    return f"{_BASE}{MODULES}/{_modules()}/{name}"


@cache
def _modules() -> str:
    files = sorted(MODULE_FOLDER.iterdir())
    return hashlib.sha256(b"".join(file.read_bytes() for file in files if file.is_file())).hexdigest()[:16]


def view(
    name: str, key: str, data: dict[str, Any], callbacks: Mapping[str, Callable[[Any], Any]], **options: Any
) -> None:
    """Draw the view of a module: messages carry its data, and a loader of a few lines in place of its script.

    callbacks: take what the view reports, by the event or value; options: `isolate_styles` of the component, and those
    of its element.
    """
    import streamlit as st

    isolated = options.pop("isolate_styles", True)
    # Registered anew in every run: a component belongs to the server's runtime, which outlives no test.
    loader = (MODULE_FOLDER / "loader.js").read_text(encoding="utf-8")
    component = st.components.v2.component(f"frontier_{name}", js=loader, isolate_styles=isolated)
    handlers: dict[str, Any] = {
        f"on_{event}_change": partial(_report, key, event, callback) for event, callback in callbacks.items()
    }
    component(key=key, data={**data, "module": module(f"{name}.js")}, **options, **handlers)


def _report(key: str, event: str, callback: Callable[[Any], Any]) -> None:
    import streamlit as st

    if (value := st.session_state[key].get(event)) is not None:
        callback(value)


def offer(digest: str, request: Answerable) -> str:
    """Serve the answer to a request from now on, computed when it is asked for; returns its address."""
    _ANSWERS[digest] = request
    return f"{_BASE}{ANSWERS}/{digest}.json"


def routes(base: str = "") -> list[BaseRoute]:
    """The routes for the server; `served` from now on.

    base: the path that all of them lie below, with its leading slash, "" for none; it stands in their addresses
    """
    from starlette.routing import Route

    global _BASE
    _BASE = base
    _SERVED.set()
    return [
        Route(f"{base}{LIBRARY}", _library),
        Route(f"{base}{BACKDROPS}/{{digest}}.json", _backdrop),
        Route(f"{base}{MODULES}/{{version}}/{{name}}", _module),
        Route(f"{base}{ANSWERS}/{{digest}}.json", _answers),
    ]


async def _library(_: Request) -> Response:
    from starlette.responses import FileResponse

    file = str(distribution("plotly").locate_file("plotly/package_data/plotly.min.js"))
    return FileResponse(file, media_type="text/javascript", headers=FOR_EVER)


async def _backdrop(request: Request) -> Response:
    from starlette.responses import PlainTextResponse, Response

    content = _BACKDROPS.get(request.path_params["digest"])
    if content is None:
        return PlainTextResponse("no such backdrop", status_code=404)
    return Response(content, media_type="application/json", headers=FOR_EVER)


async def _module(request: Request) -> Response:
    from starlette.responses import FileResponse, PlainTextResponse

    file = MODULE_FOLDER / request.path_params["name"]
    if file.parent != MODULE_FOLDER or file.suffix not in (".js", ".css") or not file.is_file():
        return PlainTextResponse("no such module", status_code=404)
    media_type = "text/javascript" if file.suffix == ".js" else "text/css"
    return FileResponse(file, media_type=media_type, headers=FOR_EVER)


async def _answers(request: Request) -> Response:
    from starlette.concurrency import run_in_threadpool
    from starlette.responses import PlainTextResponse, Response

    asked = _ANSWERS.get(request.path_params["digest"])
    if asked is None:
        return PlainTextResponse("no such answers", status_code=404)

    def content() -> bytes:
        with jobs.page_turn():
            values = asked.answer()
        return gzip.compress(json.dumps(values, separators=(",", ":"), ensure_ascii=False).encode(), 5)

    try:
        body = await run_in_threadpool(content)
    except FrontierError as error:
        return PlainTextResponse(str(error), status_code=422)
    return Response(body, media_type="application/json", headers=FOR_EVER | {"Content-Encoding": "gzip"})
