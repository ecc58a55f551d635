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
from dashboard.theory.study import COUNT, QueryChoice, StudyView, measure, query_row
from dashboard.widgets.choices import choose, select
from dashboard.widgets.parameters import counting, parameters
from dashboard.widgets.tables import draw_columns, number_column
from engine.decoder import SET_SIZE, Decoder
from engine.evaluation.metrics import title_of
from engine.evaluation.studies.rerank_depth import DEPTHS, ByDepth, by_depth
from engine.evaluation.sweep.cell import Cell
from engine.progress import counted
from engine.stages import Scorer, methods
from engine.wording import decimal

SHOWN = ("mrr", "ndcg", "recall", "budget_recall")
"""The metrics that are measured; the first is the paper's."""
LABELS = {decoders.RETRIEVE: "Retriever", decoders.RERANK: "Reranker"}
K = SET_SIZE.default
Cells = tuple[Cell, ...]


def _draw(loaded: Loaded, _: Question | None) -> None:
    """A metric over the rerank depth, for one decoder, and the least depth that is enough."""
    with query_row(loaded, 340) as choice:
        decoder = _decoder()
    if loaded.space.encoder is None:
        st.info("This needs an encoder for queries. This corpus has its own vectors and none.")
        return
    if decoder.rerank == decoder.retrieve:
        st.info("Choose another reranker: the retriever itself changes nothing.")
        return
    slow, most = decoder.rerank is not None and decoder.rerank.rerank_only, min(DEPTHS[-1], len(loaded.space))
    if slow:
        st.caption(f"Slow: a model reads up to {most * COUNT:,} pairs of query and document. Finished depths are kept.")
    draw = partial(_shown, decoder)
    title = f"Reranking up to {most:,} documents"
    work, by_itself = partial(_work, choice, decoder), choice.small and not slow
    measure(("depth", choice.key, decoder), title, work, draw, by_itself=by_itself, on_partial=draw)


def _decoder() -> Decoder:
    """The decoder that the controls show: a selector as it is set in Explore, behind the scorers chosen here."""
    known, key = methods("selector"), "theory.depth.decoder"
    with st.container(width=150):
        why = "With Explore's settings"
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


def _work(choice: QueryChoice, decoder: Decoder, job: Job) -> Cells:
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
            f"Mean of {counted(study.queries, 'query', 'queries')} · band: 95% bootstrap CI · dotted: "
            f"{decoder.retrieve.spec.title} without reranking · times: median of single calls"
        )
    with right:
        st.markdown(f"**{_headline(study, title)}**")
        st.caption(_details(study))
        number, milliseconds = number_column("%.3f"), st.column_config.NumberColumn("ms per query", format="%.2f")
        draw_columns(
            {
                "Reranked": (["none" if row.depth is None else f"{row.depth:,}" for row in study.rows], None),
                title: ([row.mean for row in study.rows], number),
                "from": ([row.low for row in study.rows], number),
                "to": ([row.high for row in study.rows], number),
                "ms": ([row.milliseconds for row in study.rows], milliseconds),
            }
        )


def _headline(study: ByDepth, title: str) -> str:
    """What reranking is worth, the better option first."""
    best = study.best
    plain = next((row for row in study.rows if row.depth is None), None)
    if plain is None:
        return f"Best at depth {best.depth:,}: {title} {decimal(best.mean)}."
    sign = "" if study.gain else " (difference not significant)"
    if study.gain == 1 or (not study.gain and best.mean > plain.mean):
        verdict = "Reranking helps" if study.gain else "Reranking may help"
        return f"{verdict}: {title} {decimal(best.mean)} at depth {best.depth:,}, {decimal(plain.mean)} without{sign}."
    return f"Reranking does not help here: {title} {decimal(plain.mean)} without, {decimal(best.mean)} at best{sign}."


def _details(study: ByDepth) -> str:
    """The least depth that is enough, and the test."""
    best, least = study.best, study.shallowest
    parts = []
    if least.depth and best.depth and least.depth < best.depth:
        saved = ""
        if least.milliseconds is not None and best.milliseconds is not None:
            saved = f" and takes {least.milliseconds:.2f} instead of {best.milliseconds:.2f} ms per query"
        parts.append(f"Depth {least.depth:,} is not significantly worse ({decimal(least.mean)}){saved}.")
    queries = counted(study.queries, "query", "queries")
    return " ".join([*parts, f"Paired randomisation test, α = 0.05 after Holm, {queries}."])


VIEW = StudyView(
    title="Rerank depth",
    caption="How many documents does a reranker have to read? The better the retriever, the fewer, the sparse-dense "
    "paper finds (Fig. 6). A reranker worse than the retriever does harm, the more it reads.",
    draw=_draw,
)
