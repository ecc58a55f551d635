"""Time limit for the bodies of uploads, each of which holds a connection and part of a disk until it has arrived."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from dashboard.gate import SAFE_METHODS

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

BODY_TIMEOUT_S = 60.0
"""Seconds that any body may take."""
MIN_BYTES_PER_SECOND = 20_000
"""Each so many bytes that have arrived allow for a second more: a slow line may send a large file."""
REQUEST_TIMEOUT = 408
"""HTTP's status of a request that did not arrive in time."""


class SlowUploads:
    """Application that gives up bodies which arrive too slowly, with 408 and a sentence."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, whose body must arrive in time."""
        if scope["type"] != "http" or scope["method"] in SAFE_METHODS:
            return await self.app(scope, receive, send)
        loop = asyncio.get_running_loop()
        start, n_bytes, is_complete, has_begun = loop.time(), 0, False, False

        async def receive_in_time() -> Message:
            """Return the next part of the body. Raises _TooSlowError if it does not arrive in time."""
            nonlocal n_bytes, is_complete
            # What follows a body is its sender's leaving, which may be waited for.
            if is_complete:
                return await receive()
            try:
                async with asyncio.timeout_at(start + BODY_TIMEOUT_S + n_bytes / MIN_BYTES_PER_SECOND):
                    message = await receive()
            except TimeoutError:
                raise _TooSlowError from None
            n_bytes += len(message.get("body", b""))
            is_complete = not message.get("more_body", False)
            return message

        async def send_noted(message: Message) -> None:
            """Send a part of the answer."""
            nonlocal has_begun
            has_begun = True
            await send(message)

        try:
            await self.app(scope, receive_in_time, send_noted)
        except _TooSlowError:
            # An answer that has begun cannot be replaced; the server closes its connection.
            if has_begun:
                raise
            await _refuse(scope, receive, send)


class _TooSlowError(Exception):
    """A body did not arrive in time."""


async def _refuse(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with 408 and a sentence, after which the connection is closed."""
    from starlette.responses import PlainTextResponse

    reason = f"The file arrived too slowly: {MIN_BYTES_PER_SECOND // 1000} kB a second are needed. Try again."
    response = PlainTextResponse(reason, status_code=REQUEST_TIMEOUT, headers={"Connection": "close"})
    await response(scope, receive, send)
