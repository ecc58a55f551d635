"""Connections of our servers: time for a request's headers, size of a WebSocket's messages, and how many there are."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from ipaddress import IPv6Address, ip_address
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

HEADER_TIMEOUT_S = 20.0
"""Seconds in which all headers of a request must arrive, from the connection or the last answer on."""
MAX_CONNECTIONS = 512
MAX_ADDRESS_SHARE = 0.5
"""Share of the connections, and of the open pages, that one address may take."""
MAX_MESSAGE_BYTES = 4_000_000
"""Limit of a WebSocket's message, the state of a page's controls: one that never ends would stay in memory."""
SITE_PREFIX_BITS = 64
"""First bits of an IPv6 address, which all addresses of one site share."""
BUSY_TEXT = b"Too many connections at a time. Try again in ten seconds.\n"
BUSY_RESPONSE = (
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: text/plain\r\nretry-after: 10\r\nconnection: close\r\n"
    b"content-length: %d\r\n\r\n%s" % (len(BUSY_TEXT), BUSY_TEXT)
)
MIN_HANDLES = 4096
"""Files that a server may have open, where the machine allows it: three for each page's thread, one a connection."""


class BoundedProtocol(H11Protocol):
    """HTTP/1.1 connection that is closed if its headers do not arrive in time, or if there are too many already.

    The library limits how long a connection is idle after a request, not how long one takes to begin.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        # A WebSocket's protocol is made of the same settings, once it takes the connection over.
        self.config.ws_max_size = min(self.config.ws_max_size, MAX_MESSAGE_BYTES)
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a connection, or refuse it in a sentence."""
        super().connection_made(transport)
        if len(self.connections) > MAX_CONNECTIONS or self._is_greedy():
            transport.write(BUSY_RESPONSE)
            transport.close()
            return
        self._start_deadline()

    def data_received(self, data: bytes) -> None:
        """Read bytes of a request, which is in time once its headers are there."""
        super().data_received(data)
        if self._is_waiting():
            self._start_deadline()
        else:
            self._cancel_deadline()

    def on_response_complete(self) -> None:
        """Begin the time limit of the next request, part of which may have arrived with the last one."""
        super().on_response_complete()
        self._start_deadline()

    def connection_lost(self, error: Exception | None) -> None:
        """Forget the time limit with the connection."""
        self._cancel_deadline()
        super().connection_lost(error)

    def _is_greedy(self) -> bool:
        """Return True if this connection's address has more than its share of all."""
        site = None if self.client is None else find_site(self.client[0])
        # Requests of a proxy that the server trusts are its visitors', whose pages are counted by their own addresses.
        if site is None or self._is_trusted() or len(self.connections) <= MAX_ADDRESS_SHARE * MAX_CONNECTIONS:
            return False
        # Not every protocol that the server may use knows its client.
        clients = filter(None, (getattr(connection, "client", None) for connection in self.connections))
        return sum(find_site(host) == site for host, _ in clients) > MAX_ADDRESS_SHARE * MAX_CONNECTIONS

    def _is_trusted(self) -> bool:
        """Return True if the server believes this peer who its visitors are, by FORWARDED_ALLOW_IPS or its settings."""
        trusted_hosts = getattr(self.config.loaded_app, "trusted_hosts", ())
        return self.client is not None and self.client[0] in trusted_hosts

    def _is_waiting(self) -> bool:
        """Return True if no request is being answered, so that what has arrived is part of its headers."""
        # A WebSocket takes the connection over: its own protocol pings its peer.
        is_taken_over = self.transport.get_protocol() is not self
        is_answering = self.cycle is not None and not self.cycle.response_complete
        return not is_taken_over and not is_answering

    def _start_deadline(self) -> None:
        """Start the time limit unless it runs already: bytes that trickle in do not extend it."""
        if self._deadline is None and not self.transport.is_closing():
            self._deadline = self.loop.call_later(HEADER_TIMEOUT_S, self._close_if_waiting)

    def _cancel_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _close_if_waiting(self) -> None:
        """Close a connection whose request has not begun in time."""
        self._deadline = None
        if self._is_waiting():
            self.transport.close()


def find_site(host: str) -> str | None:
    """Return what one visitor's addresses have in common; None for this machine, where a proxy may speak for many.

    A proxy on this machine that names its visitors is replaced by them before pages are counted.
    """
    try:
        address = ip_address(host)
    except ValueError:
        return host
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is None:
            prefix = int(address) >> (address.max_prefixlen - SITE_PREFIX_BITS)
            return None if address.is_loopback else f"{prefix:x}"
        address = address.ipv4_mapped
    return None if address.is_loopback else str(address)


def use_bounded_protocol() -> None:
    """Make this class the protocol of every server of this process that names none, as Streamlit's does."""
    import uvicorn.config

    uvicorn.config.HTTP_PROTOCOLS["auto"] = f"{BoundedProtocol.__module__}:{BoundedProtocol.__name__}"


def raise_handle_limit() -> None:
    """Raise the number of files that this process may have open to MIN_HANDLES, as far as the machine allows it."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return
    soft_limit, hard_limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MIN_HANDLES if hard_limit == resource.RLIM_INFINITY else min(MIN_HANDLES, hard_limit)
    if soft_limit != resource.RLIM_INFINITY and soft_limit < wanted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard_limit))
