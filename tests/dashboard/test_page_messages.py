"""What open pages send: text, bytes that mean nothing, and requests for a million addresses end the page."""

import asyncio

import pytest
from streamlit.proto.BackMsg_pb2 import BackMsg

from dashboard.page_messages import MAX_FILES, PageMessages


def ask_for_files(n_files):
    message = BackMsg()
    message.file_urls_request.file_names.extend(["f"] * n_files)
    return message.SerializeToString()


def name_widget(name):
    message = BackMsg()
    message.rerun_script.widget_states.widgets.add(id=name, json_value="{}")
    return message.SerializeToString()


def answer_page(message, kind="websocket"):
    """Let a page send a message; return what the application received, and what was sent."""
    received, sent = [], []

    async def app(scope, receive, send):
        received.append(await receive())
        await send({"type": f"{kind}.send", "bytes": b"answer"})

    async def receive():
        return message

    async def send(each):
        sent.append(each)

    asyncio.run(PageMessages(app)({"type": kind}, receive, send))
    return received, sent


@pytest.mark.threat(
    "WebSockets that send text, garbage, nothing in a message, a widget without an id, or ask for a million addresses",
    "the page is closed with a code, before anything is answered or logged",
)
@pytest.mark.parametrize(
    ("message", "code"),
    [
        ({"text": "hello"}, 1003),
        ({"bytes": None, "text": "hello"}, 1003),
        ({"bytes": b""}, 1002),
        ({"bytes": b"\xff" * 50}, 1002),
        ({"bytes": name_widget("")}, 1002),
        ({"bytes": ask_for_files(MAX_FILES + 1)}, 1008),
    ],
)
def test_message_that_no_page_sends_closes_it(message, code):
    received, sent = answer_page({"type": "websocket.receive"} | message)
    # The application sees a page that has gone, and what it says to that is dropped.
    assert received == [{"type": "websocket.disconnect", "code": code}]
    assert sent == [{"type": "websocket.close", "code": code}]


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("websocket", {"type": "websocket.connect"}),
        ("websocket", {"type": "websocket.receive", "bytes": BackMsg(stop_script=True).SerializeToString()}),
        ("websocket", {"type": "websocket.receive", "bytes": ask_for_files(MAX_FILES)}),
        ("websocket", {"type": "websocket.receive", "bytes": name_widget("explore.k")}),
        ("http", {"type": "http.request", "body": b""}),
    ],
)
def test_other_messages_arrive_as_they_are(kind, message):
    received, sent = answer_page(message, kind)
    assert received == [message] and len(sent) == 1
