"""Quality against time of approximate search, on the corpus in use."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import pandas as pd
import streamlit as st

import engine
from dashboard.charts.search import approximate_figure
from dashboard.components.live_plot import is_dark, plot
from dashboard.services.jobs import Job
from dashboard.services.source import Loaded
from dashboard.session.query import Question
from dashboard.theory import query_source
from dashboard.theory.jobs import measure
from dashboard.widgets.choices import choose
from dashboard.widgets.parameters import control, parameters
from dashboard.widgets.tables import draw_table
from engine.decoder import SET_SIZE
from engine.errors import FrontierError
from engine.evaluation.metrics import METRICS
from engine.evaluation.studies.ann import ENOUGH, Searched, conclusions, searchable
from engine.evaluation.studies.ann_indexes import INDEXES, faiss_module, usual
from engine.params import params_of
from engine.stages import Scorer
from engine.values import Embeddings, Qrels

EXACT = "exact"
"""What is shown of the searches beside the metrics: how much of the exact answer they find."""
K = SET_SIZE.default
Searches = tuple[Searched, ...]


def show(loaded: Loaded, question: Question | None) -> None:
    """Every chosen scorer's vectors in every kind of index, over rising effort, beside the exact search."""
    st.caption(
        "A search that compares the query with every vector finds the best ones; an index looks at some of them only, "
        "and may miss. How much it misses for the time it saves depends on the corpus, and with several vectors a "
        "document there are more to look through (sparse-dense paper, Fig. 7). Up to some thousand vectors the exact "
        "search is hard to beat."
    )
    try:
        faiss_module()
    except FrontierError as error:
        st.info(str(error), icon=":material/extension:")
        return
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        with st.container(width=340):
            choice = query_source.choose_queries(loaded)
        scorers, fixed = _scorers(), _indexes()
    if not scorers or not fixed:
        st.info("Choose at least one scorer and one kind of index.")
        return
    key = tuple((kind, *sorted(values.items(), key=str)) for kind, values in fixed.items())
    searches: Searches | None = measure(
        ("approximate", choice.key, tuple(scorers), key),
        "Searching approximately",
        partial(_work, choice, scorers, fixed),
        by_itself=choice.small and all(scorer.inner_product for scorer in scorers),
        on_partial=_shown,
    )
    if searches is not None:
        _shown(searches)


def _scorers() -> list[Scorer]:
    """The chosen scorers, with their parameters."""
    known = searchable()
    picked = st.pills(
        "Vectors of",
        list(known),
        selection_mode="multi",
        default=list(known)[:1],
        key="theory.ann.scorers",
        persist_state="session",
        format_func=lambda n: known[n].title,
        help="\n\n".join(f"**{spec.title}** {spec.summary}" for spec in known.values()),
    )
    searches = [known[name] for name in known if name in picked]
    adjustable = [spec for spec in searches if spec.params]
    stages = {spec.name: spec.cls() for spec in searches}
    if adjustable:
        with st.popover("Vectors"):
            for spec in adjustable:
                st.text(spec.title)
                stages[spec.name] = parameters(spec, "theory.ann")
    return list(stages.values())


def _indexes() -> dict[str, dict[str, Any]]:
    """Kind → what of its parameters does not vary."""
    picked = st.pills(
        "Indexes",
        list(INDEXES),
        selection_mode="multi",
        default=list(INDEXES),
        key="theory.ann.kinds",
        persist_state="session",
        format_func=lambda kind: INDEXES[kind].title,
        help="\n\n".join(f"**{cls.title}** {(cls.__doc__ or '').splitlines()[0]}" for cls in INDEXES.values()),
    )
    searches: dict[str, dict[str, Any]] = {kind: {} for kind in INDEXES if kind in picked}
    if searches:
        with st.popover("Indexes"):
            for kind, values in searches.items():
                for param in params_of(INDEXES[kind]):
                    if param.name != INDEXES[kind].effort:
                        values[param.name] = control(param, f"theory.ann.{kind}.{param.name}")
            st.caption("What is set for a search, efSearch and nprobe, goes from little to much.")
    return searches


def _work(
    choice: query_source.QueryChoice, scorers: list[Scorer], fixed: dict[str, dict[str, Any]], job: Job
) -> Searches:
    space = choice.loaded.space
    queries: Embeddings | None
    qrels: Qrels | None = None
    if space.encoder is None:
        # No encoder to put queries beside these vectors: some of them ask for what is like them.
        rows = range(0, len(space), max(1, len(space) // query_source.COUNT))
        queries = space.embeddings.take(list(rows)[: query_source.COUNT])
    else:
        question, qrels = choice.task()
        queries = choice.vectors(question, job)
    settings = partial(usual, kinds=tuple(fixed), fixed=fixed)
    for row in engine.approximate(
        scorers, space, queries, qrels, indexes=settings, k=K, progress=job.report, stop=job.stop
    ):
        job.collect(row)
    return tuple(job.partial or ())


def _shown(rows: Sequence[Searched]) -> None:
    measures = [EXACT, *rows[0].mean]
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        shown = choose("Quality", measures, f"theory.ann.quality.{len(measures)}", format_func=_title)
        with st.container(width=260):
            share = control(ENOUGH, "theory.ann.share")
    quality = [row.share if shown == EXACT else row.mean[shown] for row in rows]
    title = _title(shown) if shown == EXACT else f"{_title(shown)}@{rows[0].k}"
    left, right = st.columns([3, 2], gap="medium")
    with left:
        figure = approximate_figure(rows, quality, title, list(INDEXES.values()), is_dark())
        plot(figure, "theory.approximate", file="approximate", label="Quality against time of approximate search")
        note = "" if rows[0].mean else " There is no encoder for queries here: some of the vectors ask for their like."
        st.caption(
            f"{len(rows[0].queries):,} queries, one at a time on one thread, the query's vector given; medians. Star "
            f"and lines: the exact search. Both axes are of this machine and this corpus.{note}"
        )
    with right:
        for sentence in conclusions(rows, share):
            st.text(sentence)
    draw_table(_table(rows), _columns(rows))


def _title(name: str) -> str:
    return f"Share of the exact top {K}" if name == EXACT else METRICS[name].title


def _table(rows: Sequence[Searched]) -> pd.DataFrame:
    several = len({row.scorer for row in rows}) > 1
    return pd.DataFrame(
        {
            **({"Vectors": [row.title for row in rows]} if several else {}),
            "Search": [row.label for row in rows],
            "Exact": [row.share for row in rows],
            **{METRICS[m].title: [row.mean[m] for row in rows] for m in rows[0].mean},
            "ms": [row.milliseconds for row in rows],
            "Built in s": [row.build for row in rows],
            "MB": [row.megabytes for row in rows],
        }
    )


def _columns(rows: Sequence[Searched]) -> dict[str, Any]:
    number = st.column_config.NumberColumn
    return {
        "Exact": number(format="%.4f", help="Share of the exact answer that was found."),
        **{METRICS[m].title: number(format="%.4f") for m in rows[0].mean},
        "ms": number("ms a query", format="%.3f"),
        "Built in s": number(format="%.2f"),
        "MB": number(format="%.1f"),
    }
