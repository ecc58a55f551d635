"""Quality over the rerank depth: the number of retrieved documents that a reranker sees."""

from functools import partial

import streamlit as st

import engine
from dashboard.charts.search import depth_figure
from dashboard.components.live_plot import is_dark, plot
from dashboard.services import sweeps
from dashboard.services.jobs import Job
from dashboard.services.source import Loaded
from dashboard.session import decoders
from dashboard.session.parameters import stage_of
from dashboard.session.query import Question
from dashboard.theory import query_source
from dashboard.theory.jobs import measure
from dashboard.widgets.choices import choose, select
from dashboard.widgets.parameters import counting, parameters
from dashboard.widgets.tables import draw_columns, number_column
from engine.decoder import SET_SIZE, Decoder
from engine.evaluation.metrics import title_of
from engine.evaluation.studies.rerank_depth import DEPTHS, ByDepth, by_depth
from engine.evaluation.sweep.cell import Cell
from engine.stages import Scorer, methods

SHOWN = ("mrr", "ndcg", "recall", "budget_recall")
"""The metrics that are measured; the first is the paper's."""
LABELS = {decoders.RETRIEVE: "Retrieved by", decoders.RERANK: "Reranked by"}
K = SET_SIZE.default
Cells = tuple[Cell, ...]


def show(loaded: Loaded, question: Question | None) -> None:
    """A metric over the rerank depth, for one decoder, and the least depth that is enough."""
    st.caption(
        "A reranker only sees what was retrieved before it, and reading takes time: how many documents does it have to "
        "see? The better the first scorer, the fewer (sparse-dense paper, Fig. 6). More is not always better: what "
        "reads worse than the first scorer does harm where it reads more."
    )
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        with st.container(width=340):
            choice = query_source.choose_queries(loaded)
        decoder = _decoder()
    if loaded.space.encoder is None:
        st.info("This corpus came with its own vectors, and no encoder to put queries beside them.")
        return
    if decoder.rerank == decoder.retrieve:
        st.info("A scorer that reranks its own documents changes nothing: choose another one.")
        return
    slow, most = decoder.rerank is not None and decoder.rerank.rerank_only, min(DEPTHS[-1], len(loaded.space))
    if slow:
        st.caption(
            f"A model reads up to {most * query_source.COUNT:,} pairs of query and document for this, which takes "
            "long. Every depth that is finished is kept."
        )
    draw = partial(_shown, decoder)
    title = f"Reranking up to {most:,} documents"
    work, by_itself = partial(_work, choice, decoder), choice.small and not slow
    measure(("depth", choice.key, decoder), title, work, draw, by_itself=by_itself, on_partial=draw)


def _decoder() -> Decoder:
    """The decoder that the controls show: a selector as it is set in Explore, behind the scorers chosen here."""
    known, key = methods("selector"), "theory.depth.decoder"
    with st.container(width=150):
        why = "As it is set in Explore."
        name = select("Decoder", known, key, format_func=lambda n: known[n].title, help=why)
    stages = {role: _scorer(role) for role in LABELS}
    return Decoder(decoders.decoder_of(name).select, stages[decoders.RETRIEVE], stages[decoders.RERANK])


def _scorer(role: str) -> Scorer:
    offered, key = decoders.offered(role), f"theory.depth.{role}"
    names = list(offered)
    # What reranks is another one than what retrieves, at first.
    first = names[min(len(names) - 1, list(LABELS).index(role))]
    with st.container(width=180):
        spec = offered[select(LABELS[role], names, key, default=first, format_func=lambda n: offered[n].title)]
    if not spec.params:
        return stage_of(spec, key)
    changed, short = counting(spec, key), LABELS[role].split()[0]
    with st.popover(f"{short} ({changed})" if changed else short):
        scorer: Scorer = parameters(spec, key)
    return scorer


def _work(choice: query_source.QueryChoice, decoder: Decoder, job: Job) -> Cells:
    queries, qrels = choice.task()
    vectors, space = choice.vectors(queries, job), choice.loaded.space
    options = {"metrics": SHOWN, "split": choice.split, "store": sweeps.store(), "stop": job.stop}
    plain = [Decoder(decoder.select, decoder.retrieve)]
    plain_cells = list(engine.sweep(plain, space, vectors, qrels, K, progress=job.report, **options))
    for cell in engine.rerank_depths([decoder], space, vectors, qrels, k=K, progress=job.report, **options):
        job.partial = job.partial or plain_cells  # a chart of the plain ones alone would be empty
        job.collect(cell)
    return tuple(job.partial or plain_cells)


def _shown(decoder: Decoder, points: Cells) -> None:
    chosen = choose("Metric", SHOWN, "theory.depth.metric", format_func=title_of)
    study = by_depth(points, chosen, K)
    title = f"{title_of(study.metric)}@{study.k}"
    left, right = st.columns([3, 2], gap="medium")
    with left:
        figure = depth_figure(study, title, is_dark())
        plot(figure, "theory.depth", file=f"depth-{study.metric}", label="Metric over depth")
        st.caption(
            f"{study.queries:,} queries. Band: 95 % intervals of the mean, a bootstrap over the queries. Dotted: "
            f"what {decoder.retrieve.spec.title} retrieves, not reranked. Times: median of single calls."
        )
    with right:
        st.text(_conclusions(study, title))
        number, milliseconds = number_column("%.4f"), st.column_config.NumberColumn("ms a query", format="%.2f")
        draw_columns(
            {
                "Reranked": (["none" if row.depth is None else f"{row.depth:,}" for row in study.rows], None),
                title: ([row.mean for row in study.rows], number),
                "from": ([row.low for row in study.rows], number),
                "to": ([row.high for row in study.rows], number),
                "ms": ([row.milliseconds for row in study.rows], milliseconds),
            }
        )


def _conclusions(study: ByDepth, title: str) -> str:
    """The differences that are significant, in words."""
    best, least = study.best, study.shallowest
    parts = [f"Most {title} at depth {best.depth:,}: {best.mean:.4f}."]
    if least.depth and best.depth and least.depth < best.depth:
        saved = ""
        if least.milliseconds is not None and best.milliseconds is not None:
            saved = f", and takes {least.milliseconds:.2f} ms a query instead of {best.milliseconds:.2f}"
        parts.append(f"Depth {least.depth:,} cannot be told to have less ({least.mean:.4f}){saved}.")
    plain = next((row for row in study.rows if row.depth is None), None)
    if plain is not None:
        verdict = {1: "reranking gains", -1: "reranking costs", 0: "no difference can be told"}[study.gain or 0]
        parts.append(f"Not reranked it is {plain.mean:.4f}: {verdict}.")
    parts.append(f"(Paired randomisation test, p < .05 after Holm, {study.queries:,} queries.)")
    return " ".join(parts)
