"""Quality against time of approximate search, on the corpus in use."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import pandas as pd
import streamlit as st

import engine
from dashboard.charts.search import approximate_figure
from dashboard.components.live_plot import plot
from dashboard.controls import control, parameters
from dashboard.explore.question import Asked
from dashboard.jobs import Job
from dashboard.state import Loaded
from dashboard.theory import questions
from dashboard.theory.measured import measured
from engine.decoder import SET_SIZE
from engine.errors import FrontierError
from engine.evaluation.approximate import ENOUGH, Searched, conclusions, searchable
from engine.evaluation.indexes import INDEXES, faiss_module, usual
from engine.evaluation.metrics import METRICS
from engine.params import params_of
from engine.stages import Scorer
from engine.values import Embeddings

EXACT = "exact"
"""What is shown of the searches beside the metrics: how much of the exact answer they find."""
K = SET_SIZE.default
Found = tuple[Searched, ...]


def show(loaded: Loaded, asked: Asked | None) -> None:
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
            choice = questions.choose(loaded)
        scorers, fixed = _scorers(), _indexes()
    if not scorers or not fixed:
        st.info("Choose at least one scorer and one kind of index.")
        return
    key = tuple((kind, *sorted(values.items(), key=str)) for kind, values in fixed.items())
    found: Found | None = measured(
        ("approximate", choice.key, tuple(scorers), key),
        "Searching approximately",
        partial(_work, choice, scorers, fixed),
        by_itself=choice.small and all(scorer.inner_product for scorer in scorers),
        early=_shown,
    )
    if found is not None:
        _shown(found)


def _scorers() -> list[Scorer]:
    """Those chosen, with their parameters."""
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
    found = [known[name] for name in known if name in picked]
    some = [spec for spec in found if spec.params]
    stages = {spec.name: spec.cls() for spec in found}
    if some:
        with st.popover("Vectors"):
            for spec in some:
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
    found: dict[str, dict[str, Any]] = {kind: {} for kind in INDEXES if kind in picked}
    if found:
        with st.popover("Indexes"):
            for kind, values in found.items():
                for param in params_of(INDEXES[kind]):
                    if param.name != INDEXES[kind].effort:
                        values[param.name] = control(param, f"theory.ann.{kind}.{param.name}")
            st.caption("What is set for a search, efSearch and nprobe, goes from little to much.")
    return found


def _work(choice: questions.Choice, scorers: list[Scorer], fixed: dict[str, dict[str, Any]], job: Job) -> Found:
    space = choice.loaded.space
    if space.encoder is None:
        # No encoder to put queries beside these vectors: some of them ask for what is like them.
        rows = range(0, len(space), max(1, len(space) // questions.COUNT))
        queries: Embeddings = space.embeddings.take(list(rows)[: questions.COUNT])
        qrels = None
    else:
        asked, qrels = choice.task()
        queries = choice.vectors(asked, job)
    rows_: list[Searched] = []
    settings = partial(usual, kinds=tuple(fixed), fixed=fixed)
    for row in engine.approximate(
        scorers, space, queries, qrels, indexes=settings, k=K, progress=job.report, stop=job.stop
    ):
        rows_.append(row)
        job.partial = tuple(rows_)
    return tuple(rows_)


def _shown(rows: Sequence[Searched]) -> None:
    there = [EXACT, *rows[0].mean]
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        shown = st.segmented_control(
            "Quality",
            there,
            default=EXACT,
            required=True,
            key=f"theory.ann.quality.{len(there)}",
            persist_state="session",
            format_func=_title,
            label_visibility="collapsed",
        )
        with st.container(width=260):
            share = control(ENOUGH, "theory.ann.share")
    shown = shown or EXACT
    quality = [row.share if shown == EXACT else row.mean[shown] for row in rows]
    title = _title(shown) if shown == EXACT else f"{_title(shown)}@{rows[0].k}"
    left, right = st.columns([3, 2], gap="medium")
    with left:
        dark = st.context.theme.type == "dark"
        figure = approximate_figure(rows, quality, title, list(INDEXES.values()), dark)
        plot(figure, "theory.approximate", file="approximate", label="Quality against time of approximate search")
        own = "" if rows[0].mean else " There is no encoder for queries here: some of the vectors ask for their like."
        st.caption(
            f"{len(rows[0].queries):,} queries, one at a time on one thread, the query's vector given; medians. Star "
            f"and lines: the exact search. Both axes are of this machine and this corpus.{own}"
        )
    with right:
        for sentence in conclusions(rows, share):
            st.text(sentence)
    st.dataframe(_table(rows), hide_index=True, column_config=_columns(rows))


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
