"""Access check of the server: requests to its names only, and only from pages that it served itself.

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

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")
UPLOAD_PATH = "/_stcore/upload_file/"
SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
"""Methods that change nothing; browsers send them from the address bar without an Origin."""
OWN_FRAMES = "'self'"
"""Pages that may frame the server's: its own."""
NOTEBOOK_FRAMES = f"{OWN_FRAMES} http://localhost:* http://127.0.0.1:* vscode-webview: vscode-file:"
"""Pages that may frame those of a notebook's dashboard: of this machine's servers, and Visual Studio Code's."""
MAX_REFUSAL_LENGTH = 100
Headers = Iterable[tuple[bytes, bytes]]


class Gate:
    """Application that answers only requests meant for it; others get 403 and a sentence.

    names: its hosts besides the loopback's; say: receives a line for each refused host, once;
    no_uploads: returns why an upload with these headers is refused, "" if it is not; frames: the pages that may frame
    its own, as a Content-Security-Policy names them
    """

    def __init__(
        self,
        app: ASGIApp,
        names: Collection[str] = (),
        say: Callable[[str], None] = print,
        no_uploads: Callable[[Headers], str] = lambda _: "",
        frames: str = OWN_FRAMES,
    ) -> None:
        """Wrap the application.

        names: host names of the server besides those of the loopback; say: takes a line about a refused host;
        no_uploads: returns why an upload with these headers is refused, "" if it is not; frames: the pages that may
        frame the application's, as a Content-Security-Policy names them
        """
        self.frame_headers = [(b"content-security-policy", f"frame-ancestors {frames}".encode())]
        # The older header knows no other sites, and browsers that know the newer one ignore it.
        if frames == OWN_FRAMES:
            self.frame_headers.append((b"x-frame-options", b"SAMEORIGIN"))
        self.app, self.say, self.no_uploads = app, say, no_uploads
        self.names = {_normalise_host(name) for name in (*LOOPBACK_NAMES, *names)}
        self._announced: set[str] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request by the application, or refuse it; forbid other sites to frame the pages."""
        # The third kind, "lifespan", is the server's own start and end.
        if scope["type"] not in ("http", "websocket"):
            return await self.app(scope, receive, send)
        if refusal := self._refusal(scope):
            return await _refuse(refusal, scope, receive, send)

        async def send_framed(message: Message) -> None:
            """Send a message of the answer; its first one gets the headers that restrict framing."""
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", ()), *self.frame_headers]}
            await send(message)

        await self.app(scope, receive, send_framed)

    def _refusal(self, scope: Scope) -> str:
        """Return the reason why a request is refused; "" if it is not.

        It must be to one of this server's names, come from a page of this very host if it changes something or is no
        navigation, and be an upload only if those are allowed.
        """
        # All values of both headers: a second Host or Origin could mean something else to whoever reads it next.
        hosts = [value.decode("latin-1") for name, value in scope["headers"] if name == b"host"]
        origins = [value.decode("latin-1") for name, value in scope["headers"] if name == b"origin"]
        host = hosts[0] if len(hosts) == 1 else ""
        if (name := _host_name(host)) not in self.names:
            # The name comes from a stranger: it is cut, and printed in ASCII alone.
            printed = ascii(name[:MAX_REFUSAL_LENGTH])[1:-1]
            if name and printed not in self._announced and len(self._announced) < MAX_REFUSAL_LENGTH:
                self._announced.add(printed)
                self.say(f"refused a request to {printed!r}; if this server is known by it: --allow-host {printed}")
            return f"This server is not known as {printed!r}. If it should be, start it with --allow-host {printed}."
        needs_origin = scope["type"] == "websocket" or scope["method"] not in SAFE_METHODS
        # An Origin must match exactly one host, port included; a second header is refused too.
        if (origins or needs_origin) and [_web_host(origin) for origin in origins] != [host.lower()]:
            return "This request comes from a page of another address."
        # A page elsewhere may link here, but load nothing: whether a file is there would tell it what visitors look at.
        # Browsers that send no such header, and programs, are not refused.
        fetch = {name: value for name, value in scope["headers"] if name.startswith(b"sec-fetch-")}
        is_foreign = fetch.get(b"sec-fetch-site", b"same-origin") not in (b"same-origin", b"none")
        if scope["type"] == "http" and is_foreign and fetch.get(b"sec-fetch-mode") != b"navigate":
            return "This request comes from a page of another address."
        if scope["type"] == "http" and scope["method"] not in SAFE_METHODS and UPLOAD_PATH in scope["path"]:
            return self.no_uploads(scope["headers"])
        return ""


def _web_host(origin: str) -> str:
    """Return host and port of a web page's origin; "" for any other origin, such as a browser's extension."""
    try:
        parts = urlsplit(origin)
    except ValueError:  # such as http://[::1
        return ""
    return parts.netloc.lower() if parts.scheme in ("http", "https") else ""


def is_loopback(host: str) -> bool:
    """Return True if only this machine itself can reach it by this host name or address."""
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return _normalise_host(host) in LOOPBACK_NAMES


def is_wildcard(address: str) -> bool:
    """Return True if a server that listens on this address listens on all addresses of the machine."""
    try:
        return ip_address(address.strip("[]")).is_unspecified
    except ValueError:
        return False


def _host_name(host: str) -> str:
    """Return the name in a Host header, normalised and without its port; "" if the header is invalid."""
    try:
        parts = urlsplit(f"//{host}")
        parts.port  # noqa: B018  (raises where it is no number)
    except ValueError:
        return ""
    # A path or a user's name in it would make another program read another host.
    return _normalise_host(parts.hostname or "") if parts.netloc == host and "@" not in host else ""


def _normalise_host(name: str) -> str:
    """Return a host name in lower case, without spaces and the final dot."""
    return name.strip().lower().removesuffix(".")


async def _refuse(reason: str, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer a request with 403 and a sentence, or close a WebSocket with it."""
    from starlette.responses import PlainTextResponse

    if scope["type"] == "http":
        await PlainTextResponse(reason, status_code=403)(scope, receive, send)
    else:
        # 1008 is WebSocket's code of a violated policy.
        await send({"type": "websocket.close", "code": 1008, "reason": reason[:MAX_REFUSAL_LENGTH]})
