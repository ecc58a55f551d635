"""Limit on pages that are open at a time: each has a thread and an event loop, four handles of files in all."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

MAX_OPEN_PAGES = 100
RETRY_SECONDS = 60
TRY_AGAIN_LATER = 1013
"""WebSocket's code of a server that has no room."""


class PageLimit:
    """Application that answers up to MAX_OPEN_PAGES pages at a time; others get 503 and a sentence.

    A page is open as long as its WebSocket is. Requests of open pages are always answered, and so are health checks:
    refused are new WebSockets, and the documents that would open one.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app, self.n_open_pages = app, 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse what would open one page too many."""
        is_page = scope["type"] == "websocket"
        if (is_page or _is_navigation(scope)) and self.n_open_pages >= MAX_OPEN_PAGES:
            return await _refuse(scope, receive, send)
        self.n_open_pages += is_page
        try:
            await self.app(scope, receive, send)
        finally:
            self.n_open_pages -= is_page


def _is_navigation(scope: Scope) -> bool:
    """Return True for a request of a browser that opens a page."""
    is_read = scope["type"] == "http" and scope["method"] == "GET"
    return is_read and any(header == (b"sec-fetch-mode", b"navigate") for header in scope["headers"])


async def _refuse(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with 503 and a sentence, or close a WebSocket with it."""
    from starlette.responses import PlainTextResponse

    reason = f"This server has as many open pages as it takes, {MAX_OPEN_PAGES}. Close one, or try again in a minute."
    if scope["type"] == "websocket" and "websocket.http.response" not in scope.get("extensions", {}):
        return await send({"type": "websocket.close", "code": TRY_AGAIN_LATER, "reason": reason})
    response = PlainTextResponse(reason, status_code=503, headers={"Retry-After": str(RETRY_SECONDS)})
    await response(scope, receive, send)
