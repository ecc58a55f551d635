"""The comparison: decoders and their parameters, a card each, and below what their sets look like."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import streamlit as st

from dashboard.charts import style_of
from dashboard.controls import stage_controls
from dashboard.explore import figures, map_view, ranked, redundancy, scorers, setting, weights
from dashboard.explore.answers import REPEATS, Answer, answer
from dashboard.explore.question import Asked
from dashboard.parts import method_heading
from dashboard.sharing import session
from dashboard.state import Loaded
from engine.decoder import Decoder
from engine.errors import FrontierError
from engine.stages import methods
from engine.views import trust

A_ROW = 4
"""So many cards stand beside each other at 1440 pixels."""
METRIC_WIDTHS = {1: 110, 2: 80, 3: 80, A_ROW: 68}
"""By the number of cards in a row: three figures fit side by side."""


@dataclass(frozen=True)
class View:
    """How sets are looked at. show: draws it; options: what it can be set to, beside the choice of views."""

    show: Callable[[Loaded, Asked, dict[str, Answer], str], None]
    options: Callable[[dict[str, Answer], str], None] | None = None


VIEWS = {
    setting.FIRST_VIEW: View(ranked.show, ranked.options),
    "Map": View(map_view.show, map_view.options),
    "Redundancy": View(redundancy.show, redundancy.options),
    "Weights": View(weights.show),
    "Figures": View(figures.show),
}


def show(loaded: Loaded, asked: Asked) -> None:
    """The main area of Explore."""
    st.text(asked.text if len(asked.text) < 400 else asked.text[:399] + "…")
    _compare(loaded, asked)


@st.fragment
def _compare(loaded: Loaded, asked: Asked) -> None:
    known = methods("selector")
    names = list(known)
    chosen = st.pills(
        "Decoders",
        names,
        selection_mode="multi",
        default=setting.chosen(),
        key=setting.DECODERS,
        persist_state="session",
        label_visibility="collapsed",
        format_func=lambda n: f"{style_of(n).sign} {known[n].title}",
        help="\n\n".join(
            [f"Changes are marked against {known[names[0]].title}."]
            + [f"**{spec.title}** {spec.summary}" for spec in known.values()]
        ),
    )
    if not chosen:
        st.info("Choose a decoder to see what it retrieves.")
        return
    shown = [name for name in names if name in chosen]
    plain = Decoder(known[names[0]].cls(), setting.first_scorer(), None, asked.depth)
    baseline = answer(loaded, asked, names[0], plain)
    # The baseline is there even where it has no card.
    answers: dict[str, Answer] = {names[0]: baseline}
    for at in range(0, len(shown), A_ROW):
        answers |= _cards(loaded, asked, shown[at : at + A_ROW], min(A_ROW, len(shown)), baseline)
    with st.container(horizontal=True, vertical_alignment="center", gap="medium"):
        first = next(iter(VIEWS))
        named = st.segmented_control(
            "View",
            list(VIEWS),
            default=first,
            required=True,
            key="view",
            persist_state="session",
            label_visibility="collapsed",
        )
        view = VIEWS[named or first]
        if view.options:
            view.options(answers, names[0])
    view.show(loaded, asked, answers, names[0])
    hints = [] if asked.judged else ["Without judgements there is no Recall."]
    if asked.depth is not None and asked.depth < asked.k:
        hints.append(f"The pool of {asked.depth} is smaller than k, {asked.k}: no decoder can return more.")
    if hints:
        st.caption(" ".join(hints))
    session.follow(loaded)


def _cards(loaded: Loaded, asked: Asked, row: list[str], columns: int, baseline: Answer) -> dict[str, Answer]:
    """One row of decoders: what they are set to, and their figures.

    Two rows of columns rather than one column a decoder: the cards then begin at one height.
    """
    known, found = methods("selector"), {}
    controls, cards = (st.columns(columns, gap="small") for _ in range(2))
    for at, name in enumerate(row):
        with controls[at]:
            spec = known[name]
            stage = stage_controls(
                spec,
                setting.PREFIX,
                partial(method_heading, spec),
                ("scorer", partial(scorers.picker, spec, loaded.space)),
                scorers.changed(spec),
            )
        with cards[at]:
            own = _answered(loaded, asked, name, setting.with_scorers(stage, name, asked.depth), baseline)
            if own is None:
                continue
            # The first selector behind other scorers is not the baseline, and stands beside it.
            same = own.decoder == baseline.decoder
            found[name if same or name != baseline.name else f"{name}.own"] = own
            against = None if same else baseline.title
            device, expected = loaded.space.device.type, baseline.figures.returned
            _card(own, asked.k, device, against, METRIC_WIDTHS[columns], expected)
    return found


def _answered(loaded: Loaded, asked: Asked, name: str, decoder: Decoder, baseline: Answer) -> Answer | None:
    """What a decoder answers; where it cannot, why not, and its last good answer to this question."""
    good: dict[str, tuple[tuple, Answer]] = st.session_state.setdefault("good", {})
    question = (loaded.space.embeddings.digest, asked.text, asked.k, asked.depth)
    try:
        own = answer(loaded, asked, name, decoder, baseline.ranking)
    except FrontierError as error:
        st.error("No answer at this setting.", icon=":material/error:")
        st.text(str(error))
        before, own = good.get(name, (None, None))
        if before != question:
            return None
        st.badge("stale: the last answer that could be given", color="orange")
        return own
    good[name] = (question, own)
    return own


def _card(own: Answer, k: int, device: str, against: str | None, width: int, expected: int) -> None:
    """expected: how many documents the baseline returned."""
    shown, milliseconds = own.figures, 1000 * own.seconds
    took = f"{milliseconds:.1f} ms" if milliseconds < 10 else f"{milliseconds:,.0f} ms"
    with st.container(border=True, gap="xsmall"):
        with st.container(horizontal=True, gap="xxsmall"):
            if shown.recall is not None:
                _metric(f"Recall@{k}", shown.recall, shown.recall_delta, against, width)
            # Distances in sets of different sizes do not compare: no arrow then.
            _metric(f"ILAD@{k}", shown.ilad, shown.ilad_delta, against, width, shown.returned == expected)
            st.metric(
                "Overlap",
                f"{shown.overlap:.0%}",
                "baseline" if against is None else f"with {against}",
                delta_color="off",
                delta_arrow="off",
                width=width,
            )
        short = [f"only {shown.returned} returned"] if shown.returned < k else []
        if by := setting.said(own.decoder):
            st.caption(by)
        said = " · ".join(filter(None, [*short, f"{took} on {device}", trust(own.ranking.info[0])]))
        st.caption(said, help=f"The time is of this query alone, the best of up to {REPEATS} runs.")


def _metric(
    label: str, value: float | None, delta: float | None, against: str | None, width: int, fair: bool = True
) -> None:
    shown = "–" if delta is None or against is None else f"{delta:+.3f}" if abs(delta) >= 5e-4 else "±0"
    still = shown in ("–", "±0") or not fair
    st.metric(
        label,
        "–" if value is None else f"{value:.3f}",
        shown,
        delta_color="off" if still else "normal",
        delta_arrow="off" if still else "auto",
        width=width,
    )
