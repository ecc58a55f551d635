"""Whom the server answers: requests to the names that it is known by, and of pages that it served itself.

A page of any host may send its visitor's browser to a name that resolves to 127.0.0.1 (DNS rebinding): only the Host
header tells. What changes something, and the WebSocket by which pages work, must come from a page of that very host
and port, as the Origin header says, which no page can set.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from ipaddress import ip_address
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOOPBACK = ("localhost", "127.0.0.1", "::1")
UPLOAD = "/_stcore/upload_file/"
SAFE = ("GET", "HEAD", "OPTIONS")
"""Methods that change nothing, which a browser sends without an Origin where its address bar does."""
NO_FRAMES = [(b"content-security-policy", b"frame-ancestors 'self'"), (b"x-frame-options", b"SAMEORIGIN")]
LONGEST = 100
Headers = Iterable[tuple[bytes, bytes]]


class Gate:
    """An application that answers only what was meant for it; others get 403 and a sentence.

    names: hosts that it is known by beside the loopback's; say: takes a line for people, once for each host refused;
    no_uploads: why the headers of an upload are not enough for it, "" where they are
    """

    def __init__(
        self,
        app: ASGIApp,
        names: Collection[str] = (),
        say: Callable[[str], None] = print,
        no_uploads: Callable[[Headers], str] = lambda _: "",
    ) -> None:
        self.app, self.say, self.no_uploads = app, say, no_uploads
        self.names = {_plain(name) for name in (*LOOPBACK, *names)}
        self._said: set[str] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            return await self.app(scope, receive, send)
        if refusal := self._refusal(scope):
            return await _refuse(refusal, scope, receive, send)

        async def framed(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", ()), *NO_FRAMES]}
            await send(message)

        await self.app(scope, receive, framed)

    def _refusal(self, scope: Scope) -> str:
        """Why a request is not answered; "" where it is."""
        hosts, origins = ([v.decode("latin-1") for k, v in scope["headers"] if k == n] for n in (b"host", b"origin"))
        host = hosts[0] if len(hosts) == 1 else ""
        if (name := _name_of(host)) not in self.names:
            shown = ascii(name[:LONGEST])[1:-1]
            if name and shown not in self._said and len(self._said) < LONGEST:
                self._said.add(shown)
                self.say(f"refused a request to {shown!r}; if this server is known by it: --allow-host {shown}")
            return f"This server is not known as {shown!r}. If it should be, start it with --allow-host {shown}."
        needed = scope["type"] == "websocket" or scope["method"] not in SAFE
        if (origins or needed) and [_of_web(one) for one in origins] != [host.lower()]:
            return "This request comes from a page of another address."
        if scope["type"] == "http" and scope["method"] not in SAFE and UPLOAD in scope["path"]:
            return self.no_uploads(scope["headers"])
        return ""


def _of_web(origin: str) -> str:
    """Host and port of an origin of a web page, "" for any other, such as a browser's extension."""
    parts = urlsplit(origin)
    return parts.netloc.lower() if parts.scheme in ("http", "https") else ""


def is_loopback(host: str) -> bool:
    """Whether a name or an address is this machine's for itself alone."""
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return _plain(host) in LOOPBACK


def is_wildcard(address: str) -> bool:
    """Whether an address to listen on stands for all that this machine has."""
    try:
        return ip_address(address.strip("[]")).is_unspecified
    except ValueError:
        return False


def _name_of(host: str) -> str:
    """The name in a Host header, "" for what is none."""
    try:
        parts = urlsplit(f"//{host}")
        parts.port  # noqa: B018  (raises where it is no number)
    except ValueError:
        return ""
    return _plain(parts.hostname or "") if parts.netloc == host and "@" not in host else ""


def _plain(name: str) -> str:
    return name.strip().lower().removesuffix(".")


async def _refuse(why: str, scope: Scope, receive: Receive, send: Send) -> None:
    from starlette.responses import PlainTextResponse

    if scope["type"] == "http":
        await PlainTextResponse(why, status_code=403)(scope, receive, send)
    else:
        await send({"type": "websocket.close", "code": 1008, "reason": why[:LONGEST]})
