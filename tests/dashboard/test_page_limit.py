"""The limit on open pages: one more is refused by a sentence, what is open goes on, and a closed one makes room."""

import asyncio

import pytest

from dashboard import page_limit
from dashboard.page_limit import PageLimit

NAVIGATION = [(b"sec-fetch-mode", b"navigate")]


def scope_of(kind="websocket", headers=(), method="GET", extensions=()):
    return {"type": kind, "method": method, "headers": list(headers), "extensions": {name: {} for name in extensions}}


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
        for answered in ({"kind": "http"}, {"kind": "http", "headers": NAVIGATION, "method": "POST"}):
            assert await ask(limit, **answered) == []
        assert reached == ["websocket", "websocket", "http", "http"]
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
