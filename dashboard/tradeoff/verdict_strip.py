"""The verdict above the chart: which setting to take, and the ways to take it along."""

from dataclasses import dataclass

import streamlit as st

from dashboard.charts.palette import style_of
from dashboard.services import trained
from dashboard.services.source import Loaded
from dashboard.session import decoders
from dashboard.tradeoff import selection
from engine.decoder import Decoder
from engine.evaluation.export import Snippet, export
from engine.evaluation.frontier import Frontier
from engine.evaluation.verdict import Verdict
from engine.values import replace_surrogates

KEY = "tradeoff-verdict"
STYLE = f"""<style>.st-key-{KEY} [data-testid=stText] {{font-size: 1.15rem; font-weight: 600; white-space: normal;
overflow-wrap: anywhere}}
.st-key-{KEY} > [data-testid=stElementContainer]:first-child {{flex: 1 1 20rem; width: auto}}</style>"""


@dataclass(frozen=True, eq=False, kw_only=True)
class CardFacts:
    """What a card says of a verdict."""

    frontier: Frontier
    verdict: Verdict  # .text the statement; .gain and .cost with their intervals, p-values and number of queries
    decoder: Decoder  # the setting
    corpus: str
    fingerprint: str  # of the vectors
    code: str  # in Python


def show(loaded: Loaded, curves: Frontier, found: Verdict, decoder: Decoder | None) -> None:
    """The sentence, and the buttons of its setting where there is one; decoder: the verdict's best."""
    st.html(STYLE)
    with st.container(key=KEY, border=True, horizontal=True, vertical_alignment="center", gap="small"):
        sign = f"{style_of(found.best.point.method).sign} " if found.best is not None else ""
        st.text(f"{sign}{replace_surrogates(found.text)}", width="stretch")
        if decoder is None or found.best is None:
            return
        st.button("Use in Explore", type="primary", key="tradeoff.use", on_click=to_explore, args=(decoder,))
        snippet = export(decoder, "python", trained.export_context(loaded, curves.k))
        _code(snippet)
        space = loaded.space
        _card_button(
            CardFacts(
                frontier=curves,
                verdict=found,
                decoder=decoder,
                corpus=space.corpus.name,
                fingerprint=space.embeddings.digest[:8],
                code=snippet.text,
            )
        )


def to_explore(decoder: Decoder) -> None:
    """Set Explore to a decoder and go there; for a callback."""
    decoders.apply(decoder)
    st.session_state[selection.LEAVE] = st.session_state[selection.ANEW] = True


def _code(snippet: Snippet) -> None:
    with st.popover("Code"):
        st.code(snippet.text, language=snippet.language)


def _card_button(facts: CardFacts) -> None:
    """The place of the verdict's card."""
