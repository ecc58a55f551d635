"""The gate: which hosts and origins the server answers, by its own application and over the wire."""

import asyncio
import socket
from contextlib import closing

import pytest

from dashboard.components import vendor
from dashboard.gate import Gate, is_loopback, is_wildcard
from support import warm_home
from support.browser import Server

WIRE = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13"}
WIRE |= {"Sec-WebSocket-Key": "MDEyMzQ1Njc4OWFiY2RlZg==", "Sec-WebSocket-Protocol": "streamlit"}


def answered(host, origin=None, kind="http", method="GET", names=("papers.example",), path="/", more=(), **how):
    """(what the application behind the gate was reached by, status or close code, headers, what was said)."""
    reached, sent, said = [], [], []

    async def app(scope, receive, send):
        reached.append(scope["type"])
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def send(message):
        sent.append(message)

    given = [(b"host", host)] if isinstance(host, bytes) else [(b"host", own) for own in host or ()]
    given += [*([(b"origin", origin)] if origin is not None else []), *more]
    scope = {"type": kind, "method": method, "path": path, "headers": given}
    asyncio.run(Gate(app, names, said.append, **how)(scope, None, send))
    return reached, sent[0].get("status", sent[0].get("code")), dict(sent[0].get("headers", ())), said


@pytest.mark.parametrize("host", [b"localhost:8501", b"127.0.0.1", b"[::1]:8501", b"Papers.Example.", b"LOCALHOST"])
def test_names_that_it_is_known_by_are_answered_and_framed_by_nobody(host):
    reached, status, headers, said = answered(host)
    assert (reached, status, said) == (["http"], 200, [])
    assert headers[b"content-security-policy"] == b"frame-ancestors 'self'"


@pytest.mark.parametrize(
    "host",
    [b"evil.example", b"localhost.evil.example:8501", b"127.0.0.1@evil.example", b"localhost:port", b"",
     b"localhost/evil", b"2130706433", b"0.0.0.0:8501", [], [b"localhost", b"evil.example"]],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["http", "websocket"])
@pytest.mark.threat("a page's host name resolves to 127.0.0.1 (DNS rebinding)", "403, and the missing flag is named")
def test_other_names_are_refused_and_the_flag_is_named(host, kind):
    reached, status, _, _ = answered(host, b"http://" + host if isinstance(host, bytes) else None, kind)
    assert not reached and status == (403 if kind == "http" else 1008)


def test_refused_host_is_named_once_with_its_flag_and_harmlessly():
    said = []
    gate = Gate(None, say=said.append)
    for host in (b"evil.example", b"evil.example:80", b"\x1b]0;evil.example"):
        scope = {"type": "websocket", "headers": [(b"host", host)]}
        asyncio.run(gate(scope, None, lambda _: asyncio.sleep(0)))
    assert said[0] == "refused a request to 'evil.example'; if this server is known by it: --allow-host evil.example"
    assert not any("\x1b" in line for line in said) and len(said) <= 2


@pytest.mark.parametrize(
    ("origin", "kind", "method", "status"),
    [
        (None, "http", "GET", 200),
        (None, "http", "PUT", 403),
        (None, "websocket", "GET", 1008),
        (b"http://localhost:8501", "http", "PUT", 200),
        (b"http://localhost:8501", "websocket", "GET", 200),
        (b"https://localhost:8501", "websocket", "GET", 200),  # a proxy may have taken the s away
        (b"chrome-extension://localhost:8501", "websocket", "GET", 1008),
        (b"file://localhost:8501", "http", "PUT", 403),
        (b"http://[::1", "http", "GET", 403),
        (b"http://[::1", "websocket", "GET", 1008),
        (b"http://localhost:8502", "websocket", "GET", 1008),
        (b"http://localhost", "http", "GET", 403),
        (b"http://evil.example", "http", "GET", 403),
        (b"null", "http", "DELETE", 403),
    ],
)
def test_only_pages_of_the_very_host_and_port_change_anything(origin, kind, method, status):
    assert answered(b"localhost:8501", origin, kind, method)[1] == status


@pytest.mark.parametrize(
    ("site", "mode", "status"),
    [("cross-site", "no-cors", 403), ("cross-site", "cors", 403), ("same-site", "no-cors", 403),
     ("cross-site", "navigate", 200), ("same-origin", "cors", 200), ("none", "navigate", 200), (None, None, 200)],
)  # fmt: skip
@pytest.mark.threat("a page elsewhere that loads files of this server to see which are there", "403")
def test_pages_of_other_sites_may_link_here_and_load_nothing(site, mode, status):
    fetch = [(b"sec-fetch-site", site), (b"sec-fetch-mode", mode)]
    more = [(name, value.encode()) for name, value in fetch if value is not None]
    assert answered(b"localhost:8501", more=more)[1] == status


@pytest.mark.threat("a file sent to a server that takes none", "403, and the flag is named")
@pytest.mark.parametrize("path", ["/_stcore/upload_file/a/b", "/frontier/_stcore/upload_file/a/b"])
def test_uploads_are_refused_at_the_gate(path):
    for why, reached in (("Uploads are off", []), ("", ["http"])):
        got = answered(b"localhost", b"http://localhost", "http", "PUT", path=path, no_uploads=lambda _, w=why: w)
        assert got[0] == reached and got[1] == (403 if why else 200)
    assert answered(b"localhost", path=path, no_uploads=lambda _: "off")[1] == 200, "a look changes nothing"


@pytest.mark.parametrize(
    ("host", "own"),
    [("127.0.0.1", True), ("127.8.0.1", True), ("::1", True), ("[::1]", True), ("LocalHost", True),
     ("0.0.0.0", False), ("::", False), ("192.168.1.5", False), ("papers.example", False), ("localhost.evil", False)],
)  # fmt: skip
def test_loopback_is_known_by_its_names_and_addresses(host, own):
    assert is_loopback(host) is own
    assert is_wildcard(host) is (host in ("0.0.0.0", "::"))


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    home = warm_home.copy(tmp_path_factory.mktemp("gate") / "home")
    with closing(Server(home, "--allow-host", "papers.example")) as one:
        yield one


def status(server, path, method="GET", **headers):
    """The status of a request as it is written on the wire."""
    address = server.url.removeprefix("http://")
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    with socket.create_connection(address.split(":"), timeout=20) as wire:
        wire.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
        return int(wire.recv(64).split()[1])


@pytest.mark.threat("DNS rebinding on every route, over the wire", "403")
def test_server_is_reached_by_its_names_only(server):
    own = server.url.removeprefix("http://")
    port = own.partition(":")[2]
    for path in ("/", vendor.LIBRARY, "/healthz", "/_stcore/host-config"):
        assert status(server, path, Host=own) in (200, 503)
        assert status(server, path, Host=f"papers.example:{port}") in (200, 503)
        assert status(server, path, Host=f"evil.example:{port}") == 403
        assert status(server, path, Host=own, Origin="http://evil.example") == 403


@pytest.mark.threat("a WebSocket or an upload of another page, another local port or no page", "403")
def test_websocket_takes_pages_of_this_server_only(server):
    own = server.url.removeprefix("http://")
    port = int(own.partition(":")[2])
    for host, origin, expected in (
        (own, server.url, 101),
        (f"papers.example:{port}", f"http://papers.example:{port}", 101),
        (f"evil.example:{port}", f"http://evil.example:{port}", 403),
        (own, f"http://127.0.0.1:{port - 1}", 403),
        (own, None, 403),
    ):
        given = {"Host": host, **WIRE} | ({"Origin": origin} if origin else {})
        assert status(server, "/_stcore/stream", **given) == expected, (host, origin)
    assert status(server, "/_stcore/upload_file/a/b", "PUT", Host=own, **{"Content-Length": "0"}) == 403
