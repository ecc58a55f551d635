"""Check of what open pages send: messages that no page of ours sends end it, before Streamlit answers or logs them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

MAX_FILES = 1000
"""Files of one upload: each gets two addresses, and a name of one letter would be answered by two hundred."""
PROTOCOL_ERROR, UNSUPPORTED_DATA, POLICY_VIOLATION = 1002, 1003, 1008
"""WebSocket's codes of messages that cannot be read, are text, or ask for too much."""


class PageMessages:
    """Application that receives the messages of open pages; one that is refused closes its WebSocket."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or a page until it sends what it may not."""
        if scope["type"] != "websocket":
            return await self.app(scope, receive, send)
        is_closed = False

        async def receive_checked() -> Message:
            """Return the next message of the page, or its end if the message is refused."""
            nonlocal is_closed
            message = await receive()
            code = find_close_code(message.get("bytes")) if message["type"] == "websocket.receive" else None
            if code is None:
                return message
            await send({"type": "websocket.close", "code": code})
            is_closed = True
            return {"type": "websocket.disconnect", "code": code}

        async def send_while_open(message: Message) -> None:
            """Send a message; what the application had still to say to a closed page is dropped."""
            if not is_closed:
                await send(message)

        await self.app(scope, receive_checked, send_while_open)


def find_close_code(data: bytes | None) -> int | None:
    """Return the code by which a page that sent this message is closed, None for a message of Streamlit's script."""
    from google.protobuf.message import DecodeError
    from streamlit.proto.BackMsg_pb2 import BackMsg

    if data is None:
        return UNSUPPORTED_DATA
    try:
        parsed = BackMsg.FromString(data)
    except DecodeError:
        return PROTOCOL_ERROR
    # A widget without an id would raise, and fill the log with a traceback for each message.
    if parsed.WhichOneof("type") is None or not all(state.id for state in parsed.rerun_script.widget_states.widgets):
        return PROTOCOL_ERROR
    return POLICY_VIOLATION if len(parsed.file_urls_request.file_names) > MAX_FILES else None
