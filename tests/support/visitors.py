"""Visitors who speak the page's own protocol over a WebSocket, as a browser does, and draw nothing."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets.asyncio.client import connect

TILES, LISTS, METHOD, PARAM = "frontier_tiles", "frontier_lists", "mmr", "relevance_weight"
PATIENCE = 120
"""Seconds for which a visitor waits for one answer."""


@dataclass
class Visitor:
    """One person's page: what it was sent, and what came of what it did."""

    serial: int = 0
    slider_state: dict[str, Any] = field(default_factory=dict)  # what its sliders were let go at last
    ids: dict[str, str] = field(default_factory=dict)  # component → its element's id
    page: str = ""  # the page's hash
    fragments: dict[str, str] = field(default_factory=dict)  # component → the fragment that it is drawn in
    runs: Counter[int] = field(default_factory=Counter)  # how script runs ended, by Streamlit's number of it
    data: dict[str, Any] = field(default_factory=dict)  # component → what it was given last
    seconds: list[float] = field(default_factory=list)  # that each move took
    votes: int = 0  # acknowledged
    voted_rows: int = 0  # rows that it has tried to give a vote
    errors: Counter[str] = field(default_factory=Counter)
    socket: Any = None

    @asynccontextmanager
    async def open(self, url: str, page: str = "", query: str = "", cookie: str = "") -> AsyncIterator[None]:
        """Open a page of the server at `url`, and wait until it is drawn.

        page: its name, "" for the first; query: the address's part after "?"; cookie: what a proxy knows visitors by
        """
        self.ids, self.fragments, self.data, self.slider_state, self.page = {}, {}, {}, {}, ""
        async with connect(
            f"{url.replace('http', 'ws', 1).rstrip('/')}/_stcore/stream",
            origin="/".join(url.split("/")[:3]),  # type: ignore[arg-type]
            subprotocols=["streamlit"],  # type: ignore[list-item]
            additional_headers={"Cookie": cookie} if cookie else None,
            compression=None,
            max_size=None,
        ) as self.socket:
            message = BackMsg()
            message.rerun_script.page_name, message.rerun_script.query_string = page, query
            await self._run(message)
            yield

    async def move(self, value: float) -> float:
        """Let go of MMR's λ at a value; returns the seconds until the script run's end."""
        self.serial += 1
        self.slider_state = {"committed": {"serial": self.serial, "values": {METHOD: {PARAM: value}}}}
        started = time.monotonic()
        await self._run(self._describe_page(self.fragments[TILES]))
        seconds = time.monotonic() - started
        tile = next(d for d in self.data[TILES]["decoders"] if d["key"] == METHOD)
        if next(s for s in tile["sliders"] if s["param"] == PARAM)["value"] != value:
            self.errors["a move that the page does not show"] += 1
        return seconds

    async def vote(self) -> None:
        """Give a document that has none of this page a thumb; it is acknowledged when the page shows it."""
        row = self.voted_rows
        self.voted_rows += 1
        message = self._describe_page(self.fragments[LISTS])
        event = {"event": "voted", "value": {"row": row, "kind": "up", "source": ""}}
        message.rerun_script.widget_states.widgets.add(
            id=f"$$STREAMLIT_INTERNAL_KEY_{self.ids[LISTS]}__events", json_trigger_value=json.dumps([event])
        )
        await self._run(message)
        if (self.data[LISTS]["votes"] or {}).get(str(row)) == "up":
            self.votes += 1
        else:
            self.errors["a vote that the page does not show"] += 1

    def _describe_page(self, fragment: str) -> BackMsg:
        """A message that has a fragment run, with the state of all that is shown: a page sends it every time."""
        message = BackMsg()
        for name, state in ((TILES, self.slider_state), (LISTS, {})):
            if name in self.ids:
                message.rerun_script.widget_states.widgets.add(id=self.ids[name], json_value=json.dumps(state))
        message.rerun_script.page_script_hash, message.rerun_script.fragment_id = self.page, fragment
        return message

    async def _run(self, message: BackMsg) -> None:
        """Have the script run, and read until its end."""
        message.rerun_script.SetInParent()
        await self.socket.send(message.SerializeToString())
        try:
            async with asyncio.timeout(PATIENCE):
                while not self._has_ended(ForwardMsg.FromString(await self.socket.recv())):
                    pass
        except TimeoutError:
            self.errors["no answer"] += 1

    def _has_ended(self, message: ForwardMsg) -> bool:
        """Take a message of the page; whether a script run has ended for good."""
        kind = message.WhichOneof("type")
        if kind == "new_session":
            self.page = message.new_session.page_script_hash
        if kind == "delta" and message.delta.WhichOneof("type") == "new_element":
            element = message.delta.new_element
            if element.WhichOneof("type") == "exception":
                self.errors[element.exception.message] += 1
            elif element.WhichOneof("type") == "bidi_component":
                component = element.bidi_component
                name = component.component_name.rpartition(".")[2]
                self.ids[name] = component.id
                self.fragments[name] = message.delta.fragment_id
                self.data[name] = json.loads(component.json or component.mixed.json)
        ended = ForwardMsg.ScriptFinishedStatus
        if kind == "script_finished":
            self.runs[message.script_finished] += 1
        if kind == "script_finished" and message.script_finished == ended.Value("FINISHED_WITH_COMPILE_ERROR"):
            self.errors["compile error"] += 1
        finished, fragment_finished = map(ended.Value, ("FINISHED_SUCCESSFULLY", "FINISHED_FRAGMENT_RUN_SUCCESSFULLY"))
        return kind == "script_finished" and message.script_finished in (finished, fragment_finished)
