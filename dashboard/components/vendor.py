"""What the live plot's browser side fetches from this server: plotly's own file, and charts' backdrops by digest."""

from __future__ import annotations

import threading
from collections import OrderedDict
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import BaseRoute

BACKDROPS = "/backdrop"
LIBRARY = "/vendor/plotly.min.js"
MOST_KEPT = 16
"""So many backdrops are kept, the one not asked for longest goes first; a page that needs one gives it again."""
FOR_EVER = {"Cache-Control": "private, max-age=31536000, immutable"}

_KEPT: OrderedDict[str, bytes] = OrderedDict()
_LOCK = threading.Lock()
_SERVED = threading.Event()


def served() -> bool:
    """Whether this server has the routes; one that was started otherwise has not."""
    return _SERVED.is_set()


def library() -> str:
    """The address of the chart library, another one for another version."""
    return f"{LIBRARY}?{version('plotly')}"


def keep(digest: str, content: bytes) -> str:
    """The address of a backdrop, JSON, from now on."""
    with _LOCK:
        _KEPT[digest] = content
        _KEPT.move_to_end(digest)
        while len(_KEPT) > MOST_KEPT:
            _KEPT.popitem(last=False)
    return f"{BACKDROPS}/{digest}.json"


def kept(digest: str) -> str | None:
    """The address of a backdrop that is there."""
    with _LOCK:
        if digest not in _KEPT:
            return None
        _KEPT.move_to_end(digest)
    return f"{BACKDROPS}/{digest}.json"


def routes() -> list[BaseRoute]:
    """For the server; from now on `served`."""
    from starlette.routing import Route

    _SERVED.set()
    return [Route(LIBRARY, _library), Route(f"{BACKDROPS}/{{digest}}.json", _backdrop)]


async def _library(_: Request) -> Response:
    from starlette.responses import FileResponse

    file = Path(find_spec("plotly").submodule_search_locations[0]) / "package_data" / "plotly.min.js"
    return FileResponse(file, media_type="text/javascript", headers=FOR_EVER)


async def _backdrop(request: Request) -> Response:
    from starlette.responses import PlainTextResponse, Response

    with _LOCK:
        content = _KEPT.get(request.path_params["digest"])
    if content is None:
        return PlainTextResponse("no such backdrop", status_code=404)
    return Response(content, media_type="application/json", headers=FOR_EVER)
