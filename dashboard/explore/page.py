"""The Explore page: decoders and their parameters, a card for each, and a view of their sets."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import streamlit as st

from dashboard.charts.palette import style_of
from dashboard.explore import map_view, metrics_table, ranked_diff, redundancy, weights
from dashboard.services.source import Loaded
from dashboard.session import decoders, restore, view_names
from dashboard.session.answers import REPEATS, Answer, answer
from dashboard.session.query import Question
from dashboard.widgets import confirm, scorers
from dashboard.widgets.choices import choose, choose_several
from dashboard.widgets.common import method_heading
from dashboard.widgets.failure import show_failure
from dashboard.widgets.parameters import stage_controls
from engine.decoder import Decoder
from engine.errors import FrontierError
from engine.progress import shorten
from engine.stages import methods
from engine.views import trust

CARDS_PER_ROW = 4
"""At a width of 1440 pixels."""
METRIC_WIDTHS = {1: 110, 2: 80, 3: 80, CARDS_PER_ROW: 68}
"""By the number of cards in a row: three metrics fit side by side."""
STILL: dict[str, Any] = {"delta_color": "off", "delta_arrow": "off"}
"""Of a metric without an arrow."""


@dataclass(frozen=True)
class View:
    """A view of the retrieved sets: what draws it, and its options beside the choice of views."""

    show: Callable[[Loaded, Question, dict[str, Answer], str], None]
    options: Callable[[dict[str, Answer], str], None] = lambda *_: None


VIEWS = {
    view_names.RANKED_DIFF: View(ranked_diff.show, ranked_diff.options),
    view_names.MAP: View(map_view.show, map_view.options),
    view_names.REDUNDANCY: View(redundancy.show, redundancy.options),
    view_names.WEIGHTS: View(weights.show),
    view_names.METRICS: View(metrics_table.show),
}


def show(loaded: Loaded, question: Question) -> None:
    """Draw the main area of Explore."""
    st.text(shorten(question.text, 400))
    _compare(loaded, question)


@st.fragment
def _compare(loaded: Loaded, question: Question) -> None:
    confirm.rerun_if_stale()
    specs = methods("selector")
    names = list(specs)
    shown = choose_several(
        "Decoders",
        names,
        decoders.DECODERS,
        default=decoders.chosen(),
        named=False,
        format_func=lambda n: f"{style_of(n).sign} {specs[n].title}",
        help="\n\n".join(
            [f"Changes are marked against {specs[names[0]].title}."]
            + [f"**{spec.title}** {spec.summary}" for spec in specs.values()]
        ),
    )
    if not shown:
        st.info("Choose a decoder to see what it retrieves.")
        return
    first = Decoder(specs[names[0]].cls(), decoders.first_scorer(), None, question.depth)
    baseline = answer(loaded, question, names[0], first)
    # Views compare with the baseline even where it has no card.
    answers: dict[str, Answer] = {names[0]: baseline}
    columns = min(CARDS_PER_ROW, len(shown))
    for start in range(0, len(shown), CARDS_PER_ROW):
        answers |= _cards(loaded, question, shown[start : start + CARDS_PER_ROW], columns, baseline)
    with st.container(horizontal=True, vertical_alignment="center", gap="medium"):
        view = VIEWS[choose("View", VIEWS, "view")]
        view.options(answers, names[0])
    view.show(loaded, question, answers, names[0])
    hints = [] if question.judged else ["Without judgements there is no Recall."]
    if question.depth is not None and question.depth < question.k:
        hints.append(f"The pool of {question.depth} is smaller than k, {question.k}: no decoder can return more.")
    if hints:
        st.caption(" ".join(hints))
    restore.follow(loaded)


def _cards(loaded: Loaded, question: Question, row: list[str], columns: int, baseline: Answer) -> dict[str, Answer]:
    """Draw one row of decoders, their controls and below them their cards; returns their answers.

    Two rows of columns rather than one column for each decoder: the cards then begin at one height.
    """
    specs, answers = methods("selector"), {}
    controls, cards = (st.columns(columns, gap="small")[: len(row)] for _ in range(2))
    for name, control, card in zip(row, controls, cards, strict=True):
        spec = specs[name]
        with control:
            heading, picker = partial(method_heading, spec), partial(scorers.picker, spec, loaded.space)
            stage = stage_controls(spec, decoders.PREFIX, heading, ("scorer", picker), scorers.changed(spec))
        with card:
            decoder = decoders.with_scorers(stage, name, question.depth)
            result = _answer_or_last(loaded, question, name, decoder, baseline)
            if result is None:
                continue
            # The first selector behind other scorers is not the baseline, and stands beside it.
            is_baseline = result.decoder == baseline.decoder
            answers[name if is_baseline or name != baseline.name else f"{name}.own"] = result
            _card(result, question.k, loaded.space.device.type, baseline, METRIC_WIDTHS[columns])
    return answers


def _answer_or_last(loaded: Loaded, question: Question, name: str, decoder: Decoder, baseline: Answer) -> Answer | None:
    """A decoder's answer; where it fails, draw why, and return its last answer to this query."""
    last: dict[str, tuple[tuple[Any, ...], Answer]] = st.session_state.setdefault("good", {})
    query = (loaded.space.embeddings.digest, question.text, question.k, question.depth)
    try:
        result = answer(loaded, question, name, decoder, baseline.ranking)
    except FrontierError as error:
        show_failure("No answer at this setting.", error)
        last_query, last_answer = last.get(name, (None, None))
        if last_query != query:
            return None
        st.badge("stale: the last answer that could be given", color="orange")
        return last_answer
    last[name] = (query, result)
    return result


def _card(result: Answer, k: int, device: str, baseline: Answer, width: int) -> None:
    """Draw a decoder's metrics against the baseline's, its scorers and its time."""
    figures = result.figures
    against = None if result.decoder == baseline.decoder else baseline.title
    with st.container(border=True, gap="xsmall"):
        with st.container(horizontal=True, gap="xxsmall"):
            if figures.recall is not None:
                _metric(f"Recall@{k}", figures.recall, figures.recall_delta, against, width)
            # Distances in sets of different sizes do not compare: no arrow then.
            same_size = figures.returned == baseline.figures.returned
            _metric(f"ILAD@{k}", figures.ilad, figures.ilad_delta, against, width, same_size)
            beside = "baseline" if against is None else f"with {against}"
            st.metric("Overlap", f"{figures.overlap:.0%}", beside, **STILL, width=width)
        if description := decoders.describe_scorers(result.decoder):
            st.caption(description)
        short = f"only {figures.returned} returned" if figures.returned < k else ""
        notes = filter(None, [short, _duration(result.seconds, device), trust(result.ranking.info[0])])
        st.caption(" · ".join(notes), help=f"The time is of this query alone, the median of up to {REPEATS} calls.")


def _duration(seconds: float | None, device: str) -> str:
    """The time of an answer in words, "" where there is none."""
    return "" if seconds is None else f"{1000 * seconds:,.{int(seconds < 0.01)}f} ms on {device}"


def _metric(
    label: str, value: float | None, delta: float | None, against: str | None, width: int, comparable: bool = True
) -> None:
    """Draw a metric and its difference to the baseline, without an arrow where they do not compare."""
    difference = "–" if delta is None or against is None else f"{delta:+.3f}" if abs(delta) >= 5e-4 else "±0"
    how = STILL if difference in ("–", "±0") or not comparable else {}
    st.metric(label, "–" if value is None else f"{value:.3f}", difference, **how, width=width)
