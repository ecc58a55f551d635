"""The limit on open pages: one more is refused by a sentence, what is open goes on, and a closed one makes room."""

import asyncio

import pytest

from dashboard import page_limit
from dashboard.page_limit import PageLimit

NAVIGATION = [(b"sec-fetch-mode", b"navigate")]
RELOAD = [*NAVIGATION, (b"cache-control", b"max-age=0")]


def scope_of(kind="websocket", headers=(), method="GET", extensions=(), host="127.0.0.1"):
    names = {name: {} for name in extensions}
    return {"type": kind, "method": method, "headers": list(headers), "extensions": names, "client": (host, 5)}


@pytest.mark.threat(
    "hundreds of WebSockets opened at a time",
    "a hundred are pages, more and new documents get 503 and a sentence; open pages go on, a closed one makes room",
)
def test_pages_beyond_the_limit_are_refused_and_open_ones_go_on(monkeypatch):
    monkeypatch.setattr(page_limit, "MAX_OPEN_PAGES", 2)
    closing, reached = [], []

    async def app(scope, receive, send):
        reached.append(scope["type"])
        if scope["type"] == "websocket":
            await closing[-1].wait()

    async def ask(limit, **scope):
        sent = []

        async def send(message):
            sent.append(message)

        await limit(scope_of(**scope), None, send)
        return sent

    async def attack():
        limit = PageLimit(app)
        closing.append(asyncio.Event())
        pages = [asyncio.create_task(ask(limit)) for _ in range(2)]
        await asyncio.sleep(0)
        (close,) = await ask(limit)
        assert close["code"] == 1013 and "as many open pages as it takes, 2" in close["reason"]
        for refused in ({"extensions": ["websocket.http.response"]}, {"kind": "http", "headers": NAVIGATION}):
            start, body = await ask(limit, **refused)
            assert start["status"] == 503 and b"2" in body["body"]
            assert (b"retry-after", b"60") in start["headers"]
        # Requests of pages that are open, and health checks.
        navigation = {"kind": "http", "headers": NAVIGATION}
        for answered in ({"kind": "http"}, {**navigation, "method": "POST"}, {**navigation, "headers": RELOAD}):
            assert await ask(limit, **answered) == []
        assert reached == ["websocket", "websocket", "http", "http", "http"]
        # Who has no open page loads none again.
        start, _ = await ask(limit, kind="http", headers=RELOAD, host="192.0.2.1")
        assert start["status"] == 503
        closing[0].set()
        await asyncio.gather(*pages)
        assert await ask(limit) == [] and limit.n_open_pages == 0

    asyncio.run(attack())


def test_page_whose_work_fails_makes_room():
    async def fail(scope, receive, send):
        raise OSError

    limit = PageLimit(fail)
    with pytest.raises(OSError):
        asyncio.run(limit(scope_of(), None, None))
    assert limit.n_open_pages == 0


@pytest.mark.threat(
    "one visitor who opens pages until nobody else can",
    "half of the pages are the most of one address, an IPv6 site being one; a proxy's own address counts as many",
)
@pytest.mark.parametrize(
    ("hosts", "is_refused"),
    [
        (["192.0.2.1", "192.0.2.1", "192.0.2.1"], True),
        (["192.0.2.1", "::ffff:192.0.2.1", "192.0.2.1"], True),
        (["2001:db8::1", "2001:db8::2", "2001:db8::3"], True),
        (["192.0.2.1", "192.0.2.1", "192.0.2.2"], False),
        (["2001:db8::1", "2001:db8::2", "2001:db8:0:1::3"], False),
        (["127.0.0.1", "127.0.0.1", "127.0.0.1"], False),
        (["::1", "::1", "::1"], False),
    ],
)
def test_one_address_has_at_most_half_of_the_pages(monkeypatch, hosts, is_refused):
    monkeypatch.setattr(page_limit, "MAX_OPEN_PAGES", 4)

    async def attack():
        closing, sent = asyncio.Event(), []

        async def app(scope, receive, send):
            await closing.wait()

        async def send(message):
            sent.append(message)

        limit = PageLimit(app)
        pages = [asyncio.create_task(limit(scope_of(host=host), None, send)) for host in hosts]
        await asyncio.sleep(0)
        assert [message.get("code") for message in sent] == [1013] * is_refused
        # The number is the address's own, and a WebSocket's reason has room for 123 bytes.
        reasons = [message["reason"] for message in sent]
        assert all("Your address" in reason and "have, 2." in reason and len(reason) < 120 for reason in reasons)
        closing.set()
        await asyncio.gather(*pages)
        assert not limit._n_pages_by_site

    asyncio.run(attack())
