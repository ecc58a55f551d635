"""What a reranker is worth by how many of the retrieved documents it gets to see."""

from __future__ import annotations

from functools import partial

import pandas as pd
import streamlit as st

import engine
from dashboard.charts.search import depth_figure
from dashboard.components.live_plot import plot
from dashboard.controls import counting, parameters, stage_of
from dashboard.explore import setting
from dashboard.explore.question import Asked
from dashboard.jobs import Job
from dashboard.state import Loaded
from dashboard.theory import questions
from dashboard.theory.measured import measured
from dashboard.tradeoff import cells
from engine.decoder import SET_SIZE, Decoder
from engine.evaluation.depths import DEPTHS, ByDepth, by_depth
from engine.evaluation.metrics import METRICS
from engine.evaluation.points import Point
from engine.stages import Scorer, methods

SHOWN = ("mrr", "ndcg", "recall", "budget_recall")
"""The metrics that are measured; the first is the paper's."""
LABELS = {setting.RETRIEVE: "Retrieved by", setting.RERANK: "Reranked by"}
K = SET_SIZE.default
Found = tuple[Point, ...]


def show(loaded: Loaded, asked: Asked | None) -> None:
    """A metric over the rerank depth, for one decoder, and the least depth that is enough."""
    st.caption(
        "A reranker only sees what was retrieved before it, and reading takes time: how many documents does it have to "
        "see? The better the first scorer, the fewer (sparse-dense paper, Fig. 6). More is not always better: what "
        "reads worse than the first scorer does harm where it reads more."
    )
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        with st.container(width=340):
            choice = questions.choose(loaded)
        decoder = _decoder()
    if loaded.space.encoder is None:
        st.info("This corpus came with its own vectors, and no encoder to put queries beside them.")
        return
    if decoder.rerank == decoder.retrieve:
        st.info("A scorer that reranks its own documents changes nothing: choose another one.")
        return
    slow, most = decoder.rerank.for_pools, min(DEPTHS[-1], len(loaded.space))
    if slow:
        st.caption(
            f"A model reads up to {most * questions.COUNT:,} pairs of query and document for this, which takes long. "
            "Every depth that is finished is kept."
        )
    found: Found | None = measured(
        ("depth", choice.key, decoder),
        f"Reranking up to {most:,} documents",
        partial(_work, choice, decoder),
        by_itself=choice.small and not slow,
        early=partial(_shown, decoder),
    )
    if found is not None:
        _shown(decoder, found)


def _decoder() -> Decoder:
    """The decoder that the controls show: a selector as it is set in Explore, behind the scorers chosen here."""
    known = methods("selector")
    with st.container(width=150):
        name = st.selectbox(
            "Decoder",
            list(known),
            key="theory.depth.decoder",
            persist_state="session",
            format_func=lambda n: known[n].title,
            help="As it is set in Explore.",
        )
    stages = {role: _scorer(role) for role in LABELS}
    return Decoder(setting.decoder_of(name).select, stages[setting.RETRIEVE], stages[setting.RERANK])


def _scorer(role: str) -> Scorer:
    offered, key = setting.offered(role), f"theory.depth.{role}"
    names = list(offered)
    with st.container(width=180):
        name = st.selectbox(
            LABELS[role],
            names,
            # What reranks is another one than what retrieves, at first.
            index=min(len(names) - 1, list(LABELS).index(role)),
            key=key,
            persist_state="session",
            format_func=lambda n: offered[n].title,
        )
    spec = offered[name]
    if not spec.params:
        return stage_of(spec, key)
    changed = counting(spec, key)
    with st.popover(f"{LABELS[role].split()[0]} ({changed})" if changed else LABELS[role].split()[0]):
        return parameters(spec, key)


def _work(choice: questions.Choice, decoder: Decoder, job: Job) -> Found:
    queries, qrels = choice.task()
    vectors, space = choice.vectors(queries, job), choice.loaded.space
    points: list[Point] = []
    how = {"metrics": SHOWN, "split": choice.split, "store": cells.store(), "stop": job.stop}
    plain = [Decoder(decoder.select, decoder.retrieve)]
    for point in engine.sweep(plain, space, vectors, qrels, K, progress=job.report, **how):
        points.append(point)
    for point in engine.rerank_depths([decoder], space, vectors, qrels, k=K, progress=job.report, **how):
        points.append(point)
        job.partial = tuple(points)
    return tuple(points)


def _shown(decoder: Decoder, points: Found) -> None:
    chosen = st.segmented_control(
        "Metric",
        SHOWN,
        default=SHOWN[0],
        required=True,
        key="theory.depth.metric",
        persist_state="session",
        format_func=lambda m: METRICS[m].title,
        label_visibility="collapsed",
    )
    found = by_depth(points, chosen or SHOWN[0], K)
    title = f"{METRICS[found.metric].title}@{found.k}"
    left, right = st.columns([3, 2], gap="medium")
    with left:
        dark = st.context.theme.type == "dark"
        plot(depth_figure(found, title, dark), "theory.depth", file=f"depth-{found.metric}", label="Metric over depth")
        st.caption(
            f"{found.queries:,} queries. Band: 95 % intervals of the mean, a bootstrap over the queries. Dotted: "
            f"what {decoder.retrieve.spec.title} retrieves, not reranked. Times are of many queries together."
        )
    with right:
        st.text(_said(found, title))
        st.dataframe(
            pd.DataFrame(
                {
                    "Reranked": ["none" if row.depth is None else f"{row.depth:,}" for row in found.rows],
                    title: [row.mean for row in found.rows],
                    "from": [row.low for row in found.rows],
                    "to": [row.high for row in found.rows],
                    "ms": [row.milliseconds for row in found.rows],
                }
            ),
            hide_index=True,
            column_config={name: st.column_config.NumberColumn(format="%.4f") for name in (title, "from", "to")}
            | {"ms": st.column_config.NumberColumn("ms a query", format="%.2f")},
        )


def _said(found: ByDepth, title: str) -> str:
    """What can be told, in words."""
    best, least = found.best, found.shallowest
    parts = [f"Most {title} at depth {best.depth:,}: {best.mean:.4f}."]
    if least.depth < best.depth:
        parts.append(
            f"Depth {least.depth:,} cannot be told to have less ({least.mean:.4f}), and takes {least.milliseconds:.2f} "
            f"ms a query instead of {best.milliseconds:.2f}."
        )
    plain = next((row for row in found.rows if row.depth is None), None)
    if plain is not None:
        told = {1: "reranking gains", -1: "reranking costs", 0: "no difference can be told"}[found.gain]
        parts.append(f"Not reranked it is {plain.mean:.4f}: {told}.")
    parts.append(f"(Paired randomisation test, p < .05 after Holm, {found.queries:,} queries.)")
    return " ".join(parts)
