"""The verdict above the chart: which setting to take, and the ways to take it along."""

import streamlit as st

from dashboard.charts.frontier import method_name
from dashboard.charts.palette import style_of
from dashboard.services import trained
from dashboard.services.source import Loaded
from dashboard.session import decoders
from dashboard.tradeoff import selection
from dashboard.widgets import verdict_card
from engine.decoder import Decoder
from engine.evaluation.export import Snippet, export, short_code
from engine.evaluation.frontier import Frontier, title_of_axis
from engine.evaluation.verdict import Verdict
from engine.views.verdict_card import CardCurve, VerdictCard
from engine.wording import signed, visible

KEY = "tradeoff-verdict"
STYLE = f"""<style>.st-key-{KEY} [data-testid=stText] {{font-size: 1.15rem; font-weight: 600; white-space: normal;
overflow-wrap: anywhere}}
.st-key-{KEY} > [data-testid=stElementContainer]:first-child {{flex: 1 1 20rem; width: auto}}</style>"""


def show(loaded: Loaded, curves: Frontier, found: Verdict, decoder: Decoder | None) -> None:
    """The sentence, and the buttons of its setting where there is one; decoder: the verdict's best."""
    st.html(STYLE)
    with st.container(key=KEY, border=True, horizontal=True, vertical_alignment="center", gap="small"):
        sign = f"{style_of(found.best.point.method).sign} " if found.best is not None else ""
        st.text(f"{sign}{visible(found.text)}", width="stretch")
        if decoder is None or found.best is None:
            return
        st.button("Use in Explore", type="primary", key="tradeoff.use", on_click=to_explore, args=(decoder,))
        context = trained.export_context(loaded, curves.k)
        _code(export(decoder, "python", context))
        code = short_code(decoder, context)
        verdict_card.button(lambda: _card(loaded, curves, found, code), "tradeoff.card")


def to_explore(decoder: Decoder) -> None:
    """Set Explore to a decoder and go there; for a callback."""
    decoders.apply(decoder)
    st.session_state[selection.LEAVE] = st.session_state[selection.ANEW] = True


def _code(snippet: Snippet) -> None:
    with st.popover("Code"):
        st.code(snippet.text, language=snippet.language)


def _card(loaded: Loaded, curves: Frontier, found: Verdict, code: tuple[str, ...]) -> VerdictCard:
    """The verdict as a picture."""
    best, gain = found.best, found.gain
    interval = ""
    if gain is not None and gain.low is not None and gain.high is not None:
        interval = f"95% CI {signed(gain.low)} to {signed(gain.high)} {title_of_axis(curves.x)}"
    return VerdictCard(
        sentence=found.text,
        curves=tuple(
            CardCurve(
                method=points[0].point.method,
                label=method_name(points[0]),
                x=tuple(p.x for p in points),
                y=tuple(p.y for p in points),
            )
            for points in curves.curves.values()
        ),
        titles=(f"{title_of_axis(curves.x)}@{curves.k}", f"{title_of_axis(curves.y)}@{curves.k}"),
        chosen=None if best is None else (best.x, best.y),
        chosen_label="" if best is None else best.name,
        queries=curves.queries,
        interval=interval,
        corpus=loaded.space.corpus.name,
        fingerprint=loaded.space.embeddings.digest[:8],
        code=code,
    )
