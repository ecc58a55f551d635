"""The server's side of the live plot: plotly's own script, and the backdrops of charts by digest."""

from __future__ import annotations

import threading
from importlib.metadata import distribution
from typing import TYPE_CHECKING

from dashboard.services.memo import Memo

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import BaseRoute

BACKDROPS = "/backdrop"
LIBRARY = "/vendor/plotly.min.js"
MOST_BACKDROPS = 16
"""Backdrops in memory, the least recently used goes first; a page that needs one gives it again."""
FOR_EVER = {"Cache-Control": "private, max-age=31536000, immutable"}

_BACKDROPS: Memo[str, bytes] = Memo(MOST_BACKDROPS)
_SERVED = threading.Event()


def served() -> bool:
    """Whether this server has the routes; one that was started otherwise has not."""
    return _SERVED.is_set()


def library() -> str:
    """The address of the chart library, another one for another version."""
    return f"{LIBRARY}?{distribution('plotly').version}"


def keep(digest: str, content: bytes) -> str:
    """Serve a backdrop, JSON, from now on; returns its address."""
    _BACKDROPS[digest] = content
    return f"{BACKDROPS}/{digest}.json"


def address_of(digest: str) -> str | None:
    """The address of a backdrop, None for one that is not served."""
    return f"{BACKDROPS}/{digest}.json" if digest in _BACKDROPS else None


def routes() -> list[BaseRoute]:
    """The routes for the server; `served` from now on."""
    from starlette.routing import Route

    _SERVED.set()
    return [Route(LIBRARY, _library), Route(f"{BACKDROPS}/{{digest}}.json", _backdrop)]


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
