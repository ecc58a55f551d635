"""Views of search: quality over the number of documents that a reranker sees, and against time where it is inexact."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import streamlit as st

import engine
from dashboard.charts.search import plot_approximate, plot_rerank_depth
from dashboard.components.live_plot import is_dark, plot
from dashboard.services import sweeps
from dashboard.services.jobs import Job
from dashboard.services.source import Loaded
from dashboard.session import decoders
from dashboard.session.parameters import read_stage
from dashboard.session.query import Question
from dashboard.theory.study import COUNT, QueryChoice, StudyView, measure, query_row
from dashboard.widgets.choices import choose, choose_several, select
from dashboard.widgets.parameters import count_changed, draw_parameter, draw_stage
from dashboard.widgets.tables import draw_columns, number_column
from engine.decoder import SET_SIZE, Decoder
from engine.errors import FrontierError
from engine.evaluation.metrics import title_of
from engine.evaluation.studies.ann import ENOUGH, Searched, conclusions, searchable
from engine.evaluation.studies.ann_indexes import INDEXES, faiss_module, usual
from engine.evaluation.studies.rerank_depth import DEPTHS, ByDepth, by_depth
from engine.evaluation.sweep.cell import Cell
from engine.params import params_of
from engine.progress import counted
from engine.stages import Scorer, methods
from engine.values import Embeddings, Qrels
from engine.wording import decimal

SHOWN = ("mrr", "ndcg", "recall", "budget_recall")
"""The metrics that are measured; the first is the paper's."""
LABELS = {decoders.RETRIEVE: "Retriever", decoders.RERANK: "Reranker"}
K = SET_SIZE.default
Cells = tuple[Cell, ...]
EXACT = "exact"
"""What is shown of the searches beside the metrics: how much of the exact answer they find."""
Searches = tuple[Searched, ...]


def _draw_depths(loaded: Loaded, _: Question | None) -> None:
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
    draw = partial(_show_depths, decoder)
    title = f"Reranking up to {most:,} documents"
    work, by_itself = partial(_rerank, choice, decoder), choice.small and not slow
    measure(("depth", choice.key, decoder), title, work, draw, by_itself=by_itself, on_partial=draw)


def _decoder() -> Decoder:
    """The decoder that the controls show: a selector as it is set in Explore, behind the scorers chosen here."""
    known, key = methods("selector"), "theory.depth.decoder"
    with st.container(width=150):
        why = "With Explore's settings"
        name = select("Decoder", known, key, format_func=lambda n: known[n].title, help=why)
    stages = {role: _scorer(role) for role in LABELS}
    return Decoder(decoders.get_decoder(name).select, stages[decoders.RETRIEVE], stages[decoders.RERANK])


def _scorer(role: str) -> Scorer:
    offered, key = decoders.list_scorers(role), f"theory.depth.{role}"
    names = list(offered)
    # What reranks is another one than what retrieves, at first.
    first = names[min(len(names) - 1, list(LABELS).index(role))]
    with st.container(width=180):
        spec = offered[select(LABELS[role], names, key, default=first, format_func=lambda n: offered[n].title)]
    if not spec.params:
        return read_stage(spec, key)
    changed, short = count_changed(spec, key), LABELS[role].split()[0]
    with st.popover(f"{short} ({changed})" if changed else short):
        scorer: Scorer = draw_stage(spec, key)
    return scorer


def _rerank(choice: QueryChoice, decoder: Decoder, job: Job) -> Cells:
    queries, qrels = choice.task()
    vectors, space = choice.vectors(queries, job), choice.loaded.space
    options = {"metrics": SHOWN, "split": choice.split, "store": sweeps.open_store(), "stop": job.stop}
    plain = [Decoder(decoder.select, decoder.retrieve)]
    plain_cells = list(engine.sweep(plain, space, vectors, qrels, K, progress=job.report, **options))
    for cell in engine.rerank_depths([decoder], space, vectors, qrels, k=K, progress=job.report, **options):
        job.partial = job.partial or plain_cells  # a chart of the plain ones alone would be empty
        job.collect(cell)
    return tuple(job.partial or plain_cells)


def _show_depths(decoder: Decoder, points: Cells) -> None:
    chosen = choose("Metric", SHOWN, "theory.depth.metric", format_func=title_of)
    study = by_depth(points, chosen, K)
    title = f"{title_of(study.metric)}@{study.k}"
    left, right = st.columns([3, 2], gap="medium")
    with left:
        figure = plot_rerank_depth(study, title, is_dark())
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


DEPTH = StudyView(
    title="Rerank depth",
    caption="How many documents does a reranker have to read? The better the retriever, the fewer, the sparse-dense "
    "paper finds (Fig. 6). A reranker worse than the retriever does harm, the more it reads.",
    draw=_draw_depths,
)


def _draw_approximate(loaded: Loaded, _: Question | None) -> None:
    """Every chosen scorer's vectors in every kind of index, over rising effort, beside the exact search."""
    try:
        faiss_module()
    except FrontierError as error:
        st.info(str(error), icon=":material/extension:")
        return
    with query_row(loaded, 340) as choice:
        scorers, fixed = _scorers(), _indexes()
    if not scorers or not fixed:
        st.info("Choose at least one scorer and one index.")
        return
    key = tuple((kind, *sorted(values.items(), key=str)) for kind, values in fixed.items())
    measure(
        ("approximate", choice.key, tuple(scorers), key),
        "Approximate search",
        partial(_search, choice, scorers, fixed),
        _show_searches,
        by_itself=choice.small and all(scorer.inner_product for scorer in scorers),
        on_partial=_show_searches,
    )


def _scorers() -> list[Scorer]:
    """The chosen scorers, with their parameters."""
    known = searchable()
    picked = choose_several(
        "Vectors of",
        known,
        "theory.ann.scorers",
        default=list(known)[:1],
        format_func=lambda n: known[n].title,
        help="\n\n".join(f"**{spec.title}** {spec.summary}" for spec in known.values()),
    )
    stages = {name: known[name].cls() for name in picked}
    if adjustable := [known[name] for name in picked if known[name].params]:
        with st.popover("Vectors"):
            for spec in adjustable:
                st.text(spec.title)
                stages[spec.name] = draw_stage(spec, "theory.ann")
    return list(stages.values())


def _indexes() -> dict[str, dict[str, Any]]:
    """Kind → what of its parameters does not vary."""
    picked = choose_several(
        "Indexes",
        INDEXES,
        "theory.ann.kinds",
        format_func=lambda kind: INDEXES[kind].title,
        help="\n\n".join(f"**{cls.title}** {(cls.__doc__ or '').splitlines()[0]}" for cls in INDEXES.values()),
    )
    searches: dict[str, dict[str, Any]] = {kind: {} for kind in picked}
    if searches:
        with st.popover("Indexes"):
            for kind, values in searches.items():
                for param in params_of(INDEXES[kind]):
                    if param.name != INDEXES[kind].effort:
                        values[param.name] = draw_parameter(param, f"theory.ann.{kind}.{param.name}")
            st.caption("efSearch and nprobe are varied.")
    return searches


def _search(choice: QueryChoice, scorers: list[Scorer], fixed: dict[str, dict[str, Any]], job: Job) -> Searches:
    space = choice.loaded.space
    queries: Embeddings | None
    qrels: Qrels | None = None
    if space.encoder is None:
        # No encoder to put queries beside these vectors: some of them ask for what is like them.
        rows = range(0, len(space), max(1, len(space) // COUNT))
        queries = space.embeddings.take(list(rows)[:COUNT])
    else:
        question, qrels = choice.task()
        queries = choice.vectors(question, job)
    settings = partial(usual, kinds=tuple(fixed), fixed=fixed)
    for row in engine.approximate(
        scorers, space, queries, qrels, indexes=settings, k=K, progress=job.report, stop=job.stop
    ):
        job.collect(row)
    return tuple(job.partial or ())


def _show_searches(rows: Sequence[Searched]) -> None:
    measures = [EXACT, *rows[0].mean]
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        shown = choose("Quality", measures, f"theory.ann.quality.{len(measures)}", format_func=_title)
        share = draw_parameter(ENOUGH, "theory.ann.share", st.container(width=260))
    quality = [row.share if shown == EXACT else row.mean[shown] for row in rows]
    title = _title(shown) if shown == EXACT else f"{_title(shown)}@{rows[0].k}"
    left, right = st.columns([3, 2], gap="medium")
    with left:
        figure = plot_approximate(rows, quality, title, list(INDEXES.values()), is_dark())
        plot(figure, "theory.approximate", file="approximate", label="Quality against time of approximate search")
        note = "" if rows[0].mean else " · no encoder for queries: documents are the queries"
        st.caption(
            f"{counted(len(rows[0].queries), 'query', 'queries')}, one at a time on one thread of this machine, median "
            f"time without embedding · star and lines: exact search{note}"
        )
    with right:
        for sentence in conclusions(rows, share):
            st.text(sentence)
    _table(rows)


def _title(name: str) -> str:
    return f"Share of the exact top {K}" if name == EXACT else title_of(name)


def _table(rows: Sequence[Searched]) -> None:
    number = st.column_config.NumberColumn
    three = number(format="%.3f")
    vectors = ([row.title for row in rows], None) if len({row.scorer for row in rows}) > 1 else None
    draw_columns(
        {
            **({"Vectors": vectors} if vectors else {}),
            "Search": ([row.label for row in rows], None),
            "Exact": ([r.share for r in rows], number(format="%.3f", help="Share of the exact answer that was found")),
            **{title_of(m): ([row.mean[m] for row in rows], three) for m in rows[0].mean},
            "ms": ([row.milliseconds for row in rows], number("ms per query", format="%.3f")),
            "Built in s": ([row.build for row in rows], number(format="%.2f")),
            "MB": ([row.megabytes for row in rows], number(format="%.1f")),
        }
    )


APPROXIMATE = StudyView(
    title="ANN",
    caption="An index looks at some vectors only: faster, but it may miss. How much it misses depends on the corpus "
    "(sparse-dense paper, Fig. 7).",
    draw=_draw_approximate,
)
