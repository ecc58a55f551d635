"""The time limit of uploads: bodies that trickle or stop are given up, those that go on arrive whole."""

import asyncio

import pytest

from dashboard import slow_uploads
from dashboard.slow_uploads import SlowUploads


def answer_upload(parts, method="PUT"):
    """Send parts of a body, None for a sender that falls silent; return what was received and what was answered."""
    received, sent, waiting = bytearray(), [], list(parts)

    async def receive():
        part = waiting.pop(0)
        if part is None:
            await asyncio.sleep(3600)
        if received:
            await asyncio.sleep(0.001)
        return {"type": "http.request", "body": part, "more_body": bool(waiting)}

    async def app(scope, receive, send):
        while True:
            message = await receive()
            received.extend(message["body"])
            if not message["more_body"]:
                break
        await send({"type": "http.response.start", "status": 204, "headers": []})

    async def send(message):
        sent.append(message)

    asyncio.run(SlowUploads(app)({"type": "http", "method": method}, receive, send))
    return bytes(received), sent


@pytest.mark.threat(
    "uploads that never end, or arrive byte by byte", "408 after a minute and the time that 20 kB a second take"
)
@pytest.mark.parametrize("parts", [[None], [b"a" * 100, None], [b"a"] * 100_000])
def test_upload_that_is_too_slow_is_given_up_by_a_sentence(monkeypatch, parts):
    monkeypatch.setattr(slow_uploads, "BODY_TIMEOUT_S", 0.05)
    received, (start, body) = answer_upload(parts)
    assert start["status"] == 408 and b"20 kB a second" in body["body"]
    assert (b"connection", b"close") in start["headers"] and len(received) < 100_000


def test_upload_that_goes_on_arrives_whole(monkeypatch):
    # Each part allows for the next one, although the first seconds have passed.
    monkeypatch.setattr(slow_uploads, "BODY_TIMEOUT_S", 0.05)
    monkeypatch.setattr(slow_uploads, "MIN_BYTES_PER_SECOND", 1)
    # The first part is there at once, as a busy machine may let those seconds pass before a second one.
    received, (start,) = answer_upload([b"a" * 100] * 100)
    assert received == b"a" * 10_000 and start["status"] == 204


def test_requests_without_a_body_are_not_timed(monkeypatch):
    monkeypatch.setattr(slow_uploads, "BODY_TIMEOUT_S", -1.0)
    received, (start,) = answer_upload([b""], "GET")
    assert received == b"" and start["status"] == 204
