"""Limit on pages that are open at a time: each has a thread and an event loop, four handles of files in all."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from engine.integrations.connections import MAX_ADDRESS_SHARE, find_site

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

MAX_OPEN_PAGES = 100
RETRY_SECONDS = 60
RELOAD_VALUES = {b"max-age=0", b"no-cache"}
TRY_AGAIN_LATER = 1013
"""WebSocket's code of a server that has no room."""


class PageLimit:
    """Application that answers up to MAX_OPEN_PAGES pages at a time; others get 503 and a sentence.

    A page is open as long as its WebSocket is. One address has at most half of them, so that one visitor cannot take
    all. Requests of open pages are always answered, and so are health checks: refused are new WebSockets, and the
    documents that would open one. A page that is loaded again is answered: its own WebSocket is still counted then.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self._n_pages_by_site: Counter[str | None] = Counter()

    @property
    def n_open_pages(self) -> int:
        """Number of open pages, of all addresses."""
        return self._n_pages_by_site.total()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse what would open one page too many."""
        is_page = scope["type"] == "websocket"
        # Behind a proxy on this machine the client is the visitor whom it names.
        site = find_site(scope["client"][0]) if scope.get("client") else None
        # The old page goes once the new one is there, so that a refusal would lose it.
        is_reload = self._n_pages_by_site[site] > 0 and _is_reload(scope)
        opens_page = is_page or (_is_navigation(scope) and not is_reload)
        if opens_page and (cause := self._find_full(site)):
            return await _refuse(cause, scope, receive, send)
        if not is_page:
            return await self.app(scope, receive, send)
        self._n_pages_by_site[site] += 1
        try:
            await self.app(scope, receive, send)
        finally:
            self._n_pages_by_site[site] -= 1
            # Addresses that have gone are forgotten.
            self._n_pages_by_site += Counter()

    def _find_full(self, site: str | None) -> str:
        """Return which limit a site has reached, in a sentence; "" for none."""
        if self.n_open_pages >= MAX_OPEN_PAGES:
            return f"This server has as many open pages as it takes, {MAX_OPEN_PAGES}."
        max_site_pages = int(MAX_ADDRESS_SHARE * MAX_OPEN_PAGES)
        if site is not None and self._n_pages_by_site[site] >= max_site_pages:
            return f"Your address has as many open pages as one may have, {max_site_pages}."
        return ""


def _is_navigation(scope: Scope) -> bool:
    """Return True for a request of a browser that opens a page."""
    is_read = scope["type"] == "http" and scope["method"] == "GET"
    return is_read and any(header == (b"sec-fetch-mode", b"navigate") for header in scope["headers"])


def _is_reload(scope: Scope) -> bool:
    """Return True for a request of a browser that loads a page again, which asks for no kept copy of it."""
    return any(name == b"cache-control" and value in RELOAD_VALUES for name, value in scope["headers"])


async def _refuse(cause: str, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with 503 and the cause in a sentence, or close a WebSocket with them."""
    from starlette.responses import PlainTextResponse

    reason = f"{cause} Close one, or try again in a minute."
    if scope["type"] == "websocket" and "websocket.http.response" not in scope.get("extensions", {}):
        return await send({"type": "websocket.close", "code": TRY_AGAIN_LATER, "reason": reason})
    response = PlainTextResponse(reason, status_code=503, headers={"Retry-After": str(RETRY_SECONDS)})
    await response(scope, receive, send)
