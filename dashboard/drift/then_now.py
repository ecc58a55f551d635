"""The answers to the sidebar's question then and now, for every decoder that Explore shows."""

from __future__ import annotations

import streamlit as st

from dashboard.drift import form
from dashboard.drift.layout import pair
from dashboard.drift.story import Story, remembered, step_of
from dashboard.explore import ranked, setting
from dashboard.explore.answers import query_of
from dashboard.explore.question import Asked
from dashboard.parts import method_heading
from engine.decoder import Decoder
from engine.errors import FrontierError
from engine.values import Embeddings
from engine.views.drift import ThenNow, then_and_now

WIDTH = 244
"""Of the column of documents, with two tables beside each other."""


def show(story: Story, asked: Asked | None) -> None:
    """Two tables a decoder: the set at the start, and the set at the step with what changed."""
    if asked is None:
        st.info("Ask something in the sidebar: its answers then and now appear here.")
        return
    with st.container(width=520):
        step = step_of(story)
    st.text(asked.text if len(asked.text) < 300 else asked.text[:299] + "…")
    query = query_of(story.loaded, asked)
    for decoder in form.decoders():
        try:
            setting.usable(decoder, story.space)
            with st.spinner(f"Decoding with {setting.title(decoder)}"):
                then, now = (_found(story, decoder, query, asked, at) for at in (0, step))
        except FrontierError as error:
            st.error("No answer at this setting.", icon=":material/error:")
            st.text(str(error))
            continue
        _pair(story, decoder, then, now, step)


def _found(story: Story, decoder: Decoder, query: Embeddings, asked: Asked, step: int) -> ThenNow:
    judged = asked.qrels.digest if asked.qrels is not None else ""
    key = ("then and now", story.key, decoder.label, query.digest, judged, asked.k, step)
    own = [decoder]
    return remembered(
        key, lambda: then_and_now(story.space, story.at(step), own, query, asked.k, asked.qrels)[0], "drift.answers", 64
    )


def _pair(story: Story, decoder: Decoder, then: ThenNow, now: ThenNow, step: int) -> None:
    title, spec = setting.title(decoder), decoder.select.spec
    key = f"drift.set.{spec.name}"
    left, right = pair(f"drift-pair-{spec.name}")
    with left:
        method_heading(spec, f"{title} at the start")
        _table(f"{key}.then", then, False)
    with right:
        method_heading(spec, f"{title} {story.said(step)}")
        _table(f"{key}.now", now, True)
    figures = now.card
    said = ["The same answer, in the same order." if now.same else f"Overlap {figures.overlap:.0%}."]
    if figures.recall is not None:
        said.append(f"Recall {figures.recall:.3f} ({figures.recall_delta:+.3f}).")
    if figures.ilad is not None and figures.ilad_delta is not None:
        said.append(f"ILAD in the space of the start {figures.ilad:.3f} ({figures.ilad_delta:+.3f}).")
    st.caption(" ".join(said))


def _table(key: str, found: ThenNow, compared: bool) -> None:
    rows = [*found.rows, *(found.dropped if compared else ())]
    if not rows:
        st.caption("Nothing was retrieved.")
        return
    width = WIDTH if compared else WIDTH + 78
    ranked.set_table(key, rows, len(found.rows), compared, width, ranked.RELEVANCE)
