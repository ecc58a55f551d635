"""Connections over the wire: half-sent headers are given up, there are so many at most, and requests go on."""

import resource
import socket
import threading
from contextlib import contextmanager

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route, WebSocketRoute

from engine.integrations import connections
from support.patience import patient, until

REQUEST = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"
UPGRADE = (
    b"GET /socket HTTP/1.1\r\nhost: x\r\nupgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-version: 13\r\n"
    b"sec-websocket-key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n\r\n"
)
MASKED_FRAME = b"\x81\x81\x00\x00\x00\x00a"


async def answer(_):
    return PlainTextResponse("answered")


async def echo(websocket):
    await websocket.accept()
    await websocket.send_text(await websocket.receive_text())
    await websocket.close()


@contextmanager
def serving(**options):
    """Run a server of this class in a thread; yield a function that connects to it."""
    app = Starlette(routes=[Route("/", answer), WebSocketRoute("/socket", echo)])
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="critical", **options))
    listener = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        yield lambda: socket.create_connection(listener.getsockname(), timeout=patient(20))
    finally:
        server.should_exit = True
        thread.join(patient(20))
        listener.close()


def read_all(wire):
    """Read until the server closes the connection."""
    received = b""
    while chunk := wire.recv(4096):
        received += chunk
    return received


@pytest.mark.threat(
    "connections that send half of a request's headers, or none, and stay open",
    "closed after twenty seconds, also after a request that was answered; WebSockets and whole requests go on",
)
@pytest.mark.parametrize("is_default", [False, True])
def test_half_sent_headers_are_given_up_and_open_sockets_are_not(monkeypatch, is_default):
    monkeypatch.setattr(connections, "HEADER_TIMEOUT_S", patient(0.2))
    monkeypatch.setattr(uvicorn.config, "HTTP_PROTOCOLS", dict(uvicorn.config.HTTP_PROTOCOLS))
    if is_default:
        connections.use_bounded_protocol()
    options = {} if is_default else {"http": connections.BoundedProtocol}
    with serving(**options, timeout_keep_alive=60) as connect:
        socket_wire = connect()
        socket_wire.sendall(UPGRADE)
        assert b" 101 " in socket_wire.recv(4096)
        for start in (b"", b"GET / HTTP/1.1\r\n", REQUEST + REQUEST[:20]):
            with connect() as wire:
                wire.sendall(start)
                assert read_all(wire).count(b"answered") == start.count(REQUEST)
        # All those seconds have passed for the WebSocket too.
        socket_wire.sendall(MASKED_FRAME)
        assert socket_wire.recv(4096).startswith(b"\x81\x01a")
        socket_wire.close()


@pytest.mark.threat("more connections than a server takes", "503 and a sentence at once; the others are answered")
def test_connections_beyond_the_limit_are_refused_by_a_sentence(monkeypatch):
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 2)
    with serving(http=connections.BoundedProtocol) as connect:
        wires = [connect(), connect()]
        assert ask_on(wires[0])
        assert b"503" in (refusal := read_all(connect())) and connections.BUSY_TEXT in refusal
        assert ask_on(wires[0])
        # The server forgets a connection some time after its client has.
        wires.pop().close()
        until(lambda: b"answered" in ask_once(connect))


def ask_on(wire):
    """Send a request and read until it is answered."""
    wire.sendall(REQUEST)
    received = b""
    while not received.endswith(b"answered"):
        chunk = wire.recv(4096)
        assert chunk, received
        received += chunk
    return received


def ask_once(connect):
    with connect() as wire:
        wire.sendall(REQUEST.replace(b"host", b"connection: close\r\nhost"))
        return read_all(wire)


def test_limit_of_open_files_is_raised_as_far_as_allowed(monkeypatch):
    calls = []
    monkeypatch.setattr(resource, "setrlimit", lambda *arguments: calls.append(arguments[1]))
    for limits, expected in (
        ((256, 1 << 20), [(4096, 1 << 20)]),
        ((256, 512), [(512, 512)]),
        ((256, resource.RLIM_INFINITY), [(4096, resource.RLIM_INFINITY)]),
        ((9000, 1 << 20), []),
        ((resource.RLIM_INFINITY, resource.RLIM_INFINITY), []),
    ):
        calls.clear()
        monkeypatch.setattr(resource, "getrlimit", lambda _, limits=limits: limits)
        connections.raise_handle_limit()
        assert calls == expected


@pytest.mark.threat(
    "messages of a WebSocket that take gigabytes, or never end", "beyond 4 MB the WebSocket is closed at once"
)
def test_message_of_a_websocket_beyond_the_limit_closes_it_before_it_is_there(monkeypatch):
    monkeypatch.setattr(connections, "MAX_MESSAGE_BYTES", 1000)
    with serving(http=connections.BoundedProtocol) as connect, connect() as wire:
        wire.sendall(UPGRADE)
        assert b" 101 " in wire.recv(4096)
        # The head of a message of 1,001 bytes, none of which are sent.
        wire.sendall(b"\x81\xfe\x03\xe9\x00\x00\x00\x00")
        # 1009 is the code of a message that is too big.
        assert read_all(wire)[2:4] == (1009).to_bytes(2)


@pytest.mark.threat(
    "one address that takes all connections", "it has at most half of them, and the others are answered"
)
def test_one_address_has_at_most_half_of_the_connections(monkeypatch):
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 4)
    # As if this machine were another one, whose own proxy speaks for nobody.
    monkeypatch.setattr(connections, "find_site", str)
    with serving(http=connections.BoundedProtocol, forwarded_allow_ips="192.0.2.1") as connect:
        wires = [connect(), connect()]
        assert all(map(ask_on, wires))
        assert connections.BUSY_TEXT in read_all(connect())
        assert ask_on(wires[0])


@pytest.mark.parametrize("trusted", ["127.0.0.0/8", "*", None])
def test_trusted_proxy_speaks_for_many(monkeypatch, trusted):
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 4)
    monkeypatch.setattr(connections, "find_site", str)
    monkeypatch.setenv("FORWARDED_ALLOW_IPS", "127.0.0.1")
    with serving(http=connections.BoundedProtocol, forwarded_allow_ips=trusted) as connect:
        wires = [connect() for _ in range(4)]
        assert all(map(ask_on, wires))
        assert connections.BUSY_TEXT in read_all(connect())
