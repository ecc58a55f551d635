"""The verdict above the chart: which setting to take, and the ways to take it along."""

from collections.abc import Callable

import streamlit as st

from dashboard.charts.frontier import method_name
from dashboard.charts.palette import style_of
from dashboard.charts.verdict_card import HEIGHT, WIDTH, verdict_svg
from dashboard.components.picture import picture
from dashboard.services import trained
from dashboard.services.source import Loaded
from dashboard.session import decoders
from dashboard.tradeoff import selection
from engine.decoder import Decoder
from engine.evaluation.export import export, short_code
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
        snippet = export(decoder, "python", context)
        with st.popover("Code"):
            st.code(snippet.text, language=snippet.language)
        code = short_code(decoder, context)
        card_button(lambda: _card(loaded, curves, found, code), "tradeoff.card")


def to_explore(decoder: Decoder) -> None:
    """Set Explore to a decoder and go there; for a callback."""
    decoders.apply(decoder)
    st.session_state[selection.LEAVE] = st.session_state[selection.ANEW] = True


def card_button(make: Callable[[], VerdictCard], key: str) -> None:
    """Draw a button that opens a card in a dialog, as one picture to paste; make: called on the click only."""

    def preview(card: VerdictCard) -> None:
        svg = verdict_svg(card)
        picture(svg, (WIDTH, HEIGHT), f"{key}.picture", file="frontier-card", label=visible(card.sentence))

    if st.button("Card", key=key, icon=":material/image:", help="One picture to paste into a chat or a report"):
        st.dialog("Card", width="large")(preview)(make())


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
