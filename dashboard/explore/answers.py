"""What each decoder answered, computed once a setting and question, and what Explore's tabs share."""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import streamlit as st

from dashboard import jobs
from dashboard.explore import setting
from dashboard.explore.question import Asked
from dashboard.state import Loaded
from engine.decoder import Decoder, Scored, choose, decode, scored
from engine.progress import watched
from engine.stages import Selector
from engine.values import Embeddings, Ranking
from engine.views import Card, Relevance, card, relevance

REPEATS, LONG = 3, 0.02
"""A decoder is timed up to so often, as a busy machine only ever adds to a time; not after a run of so many seconds."""
REMEMBERED = 64
SCORED = 12
"""So many questions' scores are remembered: a slider then moves without scoring anew."""
SHOWN_AFTER = 0.5
"""Seconds after which scoring shows how far it is."""

MOST_BESIDE = 3
"""So many decoders fit beside each other and stay readable at 1440 pixels, the baseline among them."""
NARROW = 1200
"""Pixels of a screen on which three tables with names are too narrow to be read."""
ROW_HEIGHT = 32
"""Of a table, in pixels."""


@dataclass(frozen=True)
class Answer:
    """What one decoder made of the question.

    name: of its selector; ranking: of this query alone; figures: against the baseline; seconds: it took; relevance:
    what the selector saw, None where that is the inner product with the query.
    """

    name: str
    decoder: Decoder
    ranking: Ranking
    figures: Card
    seconds: float
    relevance: Relevance | None = None

    @property
    def stage(self) -> Selector:
        return self.decoder.select

    @property
    def title(self) -> str:
        """The decoder's name as people write it."""
        return setting.title(self.decoder)


def query_of(loaded: Loaded, asked: Asked) -> Embeddings:
    """The question as the engine takes it."""
    return Embeddings(asked.vector.unsqueeze(0), (asked.id,), loaded.space.embeddings.encoder, (asked.text,))


def answer(loaded: Loaded, asked: Asked, name: str, decoder: Decoder, baseline: Ranking | None = None) -> Answer:
    """What a decoder answers; baseline: the baseline's ranking of this question, by default this decoder's own."""
    setting.usable(decoder, loaded.space)
    memory: OrderedDict[tuple, Answer] = _memory(loaded, "answers")
    judged = asked.qrels.digest if asked.qrels is not None else None
    key = (*_question(loaded, asked), judged, decoder.label, *_read(loaded, decoder), asked.k)
    if key not in memory:
        found, before = (None, 0.0) if setting.plain(decoder) else scores_of(loaded, asked, decoder)
        with jobs.turn():
            ranking, seconds = _timed(loaded, asked, decoder, found)
            against = ranking if baseline is None else baseline
            saw = None if found is None else relevance(decoder.select, found)
            figures = card(loaded.space, asked.id, ranking, against, asked.qrels, asked.k)
        memory[key] = Answer(name, decoder, ranking, figures, before + seconds, saw)
        while len(memory) > REMEMBERED:
            memory.popitem(last=False)
    memory.move_to_end(key)
    return memory[key]


def _memory(loaded: Loaded, name: str) -> OrderedDict[tuple, Any]:
    """What this session remembers of this corpus; another's vectors are let go."""
    own = loaded.space.embeddings.digest
    of, memory = st.session_state.get(name, ("", OrderedDict()))
    if of != own:
        memory = OrderedDict()
        st.session_state[name] = own, memory
    return memory


def _read(loaded: Loaded, decoder: Decoder) -> tuple[Any, ...]:
    """What the answer depends on besides the question and the decoder."""
    scorers = filter(None, (decoder.retrieve, decoder.rerank))
    return tuple(tuple(sorted(scorer.reads(loaded.space).items())) for scorer in scorers)


def _question(loaded: Loaded, asked: Asked) -> tuple[str, ...]:
    vector = hashlib.sha256(asked.vector.numpy().tobytes()).hexdigest()
    return loaded.space.embeddings.digest, loaded.space.corpus.digest, vector, asked.id, asked.text


def scores_of(loaded: Loaded, asked: Asked, decoder: Decoder) -> tuple[Scored, float]:
    """What is left to the selector, and the seconds that scoring took: remembered, as it may take long."""
    memory: OrderedDict[tuple, tuple[Scored, float]] = _memory(loaded, "scored")
    scorers = decoder.retrieve.label, decoder.rerank.label if decoder.rerank else None
    key = (*_question(loaded, asked), *scorers, *_read(loaded, decoder), decoder.depth)
    if key not in memory:
        place, began = st.empty(), time.monotonic()

        def told(done: int, total: int, label: str) -> None:
            if total and time.monotonic() - began > SHOWN_AFTER:
                place.progress(min(1.0, done / total))  # a click elsewhere ends the run here

        titles = " and ".join(s.spec.title for s in (decoder.retrieve, decoder.rerank) if s is not None)
        words = f"Scoring by {titles}; the first time an index is made or a model is loaded"
        query, best = query_of(loaded, asked), float("inf")
        with st.spinner(words), jobs.turn(), watched(told):
            # What is made once for a corpus is no part of a query's time.
            for scorer in filter(None, (decoder.retrieve, decoder.rerank)):
                scorer.prepare(loaded.space)
            for _ in range(REPEATS):
                started = time.perf_counter()
                found = scored(decoder, loaded.space, query)
                if loaded.space.device.type == "cuda":
                    found.candidates.relevance.cpu()
                best = min(best, took := time.perf_counter() - started)
                if took > LONG:
                    break
        place.empty()
        memory[key] = found, best
        while len(memory) > SCORED:
            memory.popitem(last=False)
    memory.move_to_end(key)
    return memory[key]


def _timed(loaded: Loaded, asked: Asked, decoder: Decoder, found: Scored | None) -> tuple[Ranking, float]:
    """The ranking, and the seconds it took: of scored documents those of the selector alone."""
    query, stage = query_of(loaded, asked), decoder.select
    type(stage).warm()  # what a process's first call has to make ready is no part of a query's time
    best = float("inf")
    for _ in range(REPEATS):
        started = time.perf_counter()
        ranking = decode(decoder, loaded.space, query, k=asked.k) if found is None else choose(stage, found, asked.k)
        if loaded.space.device.type == "cuda":
            ranking.index.cpu()  # waits for the device
        took = time.perf_counter() - started
        best = min(best, took)
        if took > LONG:
            break
    return ranking, best


def pick_beside(answers: Mapping[str, Answer], baseline: str, key: str) -> None:
    """Let a person pick which are shown next to the baseline, where there are more than fit."""
    others = [name for name in answers if name != baseline]
    if len(others) < MOST_BESIDE:
        return
    st.session_state[key] = beside(answers, baseline, key)[1:]
    st.multiselect(
        f"Beside {answers[baseline].title}",
        others,
        max_selections=MOST_BESIDE - 1,
        key=key,
        persist_state="session",
        format_func=lambda name: answers[name].title,
        label_visibility="collapsed",
        placeholder=f"Beside {answers[baseline].title}",
        width=320,
    )


def beside(answers: Mapping[str, Answer], baseline: str, key: str) -> list[str]:
    """The baseline and those shown next to it: what was picked, else the first that fit."""
    others = [name for name in answers if name != baseline]
    if len(others) < MOST_BESIDE:
        return [baseline, *others]
    # What is no longer compared cannot stay picked.
    picked = st.session_state.get(key, others[: MOST_BESIDE - 1])
    return [baseline, *(name for name in others if name in picked)]


def columns(count: int, key: str) -> list[Any]:
    """So many columns for tables; on a narrow screen two of them beside each other, the third below."""
    st.html(
        f"<style>@media (max-width: {NARROW}px) {{.st-key-{key} .stColumn {{min-width: calc(50% - 1rem)}}}}</style>"
    )
    with st.container(key=key):
        return st.columns(count, gap="small")


def clicked(key: str, event: Any, count: int) -> int | None:
    """The row of a table that was clicked just now, None for none.

    key: of the table, which was drawn with selection_mode="single-cell" and returned `event`; count: of its rows.
    """
    # The grid remembers a place, not a document: only a change of place is a click.
    cells = event.selection.cells
    place = cells[0][0] if cells and cells[0][0] < count else None
    places = st.session_state.setdefault("places", {})
    before = places.get(key)
    if place == before:
        return None
    places[key] = place
    last, st.session_state["places.last"] = st.session_state.get("places.last"), key
    # A cell that was still marked when another table was clicked: the click that unmarks it means it.
    return before if place is None and last != key and before is not None and before < count else place
