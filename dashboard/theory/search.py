"""Views of search: quality over the rerank depth, and against time for approximate search."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import streamlit as st

import engine
from dashboard.charts.figure import read_column
from dashboard.charts.search import plot_approximate, plot_rerank_depth
from dashboard.components.live_plot import is_dark, plot
from dashboard.services import sweeps
from dashboard.services.jobs import Job
from dashboard.services.source import Loaded
from dashboard.session import decoders
from dashboard.session.parameters import read_stage
from dashboard.session.query import Question
from dashboard.theory.study import BESIDE_ROWS, N_QUERIES, QueryChoice, StudyView, query_row, run_study
from dashboard.widgets.choices import choose, choose_several, select
from dashboard.widgets.parameters import count_changed, draw_parameter, draw_stage
from dashboard.widgets.tables import draw_columns, name_metric, number_column
from engine.decoder import SET_SIZE, Decoder
from engine.errors import FrontierError
from engine.evaluation.metrics import title_of
from engine.evaluation.studies.ann import EXACT_SHARE, AnnResult, list_searchable, write_conclusions
from engine.evaluation.studies.ann_indexes import INDEXES, import_faiss, usual_indexes
from engine.evaluation.studies.rerank_depth import RERANK_DEPTHS, DepthComparison, compare_depths
from engine.evaluation.sweep.cell import Cell
from engine.params import params_of
from engine.progress import counted
from engine.stages import Scorer, methods
from engine.values import Embeddings, Qrels
from engine.wording import decimal

SEARCH_METRICS = ("mrr", "ndcg", "recall", "budget_recall")
"""Measured metrics; the first is the paper's."""
ROLE_TITLES = {decoders.RETRIEVE: "Retriever", decoders.RERANK: "Reranker"}
SEARCH_K = SET_SIZE.default
Cells = tuple[Cell, ...]
EXACT = "exact"
"""Quality of a search besides the metrics: its share of the exact answer."""
Searches = tuple[AnnResult, ...]


def _draw_depths(loaded: Loaded, _: Question | None) -> None:
    """Draw how a metric grows with the number of documents reranked, and the smallest sufficient number.

    It is measured on many queries at once, so the current Question is ignored.
    """
    with query_row(loaded, 340) as choice:
        decoder = _draw_decoder()
    if not choice.has_vectors:
        st.info("This needs an encoder for queries, or their vectors. This corpus has its own vectors and none.")
        return
    # Reranking by the retriever's own scores cannot change the order.
    if decoder.rerank == decoder.retrieve:
        st.info("Choose another reranker: the retriever itself changes nothing.")
        return
    # A scorer for reranking only reads each pair of query and document with a model.
    is_slow = decoder.rerank is not None and decoder.rerank.rerank_only
    limit = min(RERANK_DEPTHS[-1], len(loaded.space))
    if is_slow:
        pairs = f"{limit * N_QUERIES:,} pairs"
        st.caption(f"Slow: a model reads up to {pairs} of query and document. Finished depths are kept.")
    draw = partial(_show_depths, decoder)
    title = f"Reranking up to {limit:,} documents"
    measure_depths, autostart = partial(_measure_depths, choice, decoder), choice.is_small and not is_slow
    run_study(
        ("depth", choice.key, decoder),
        title,
        measure_depths,
        draw,
        autostart=autostart,
        on_partial=draw,
        rows=(*BESIDE_ROWS, (1, 330)),
    )


def _draw_decoder() -> Decoder:
    """Draw the choice of a decoder: a selector as set in Explore, a retriever and a reranker."""
    # Selectors that read the vectors alone would ignore a reranker.
    specs = {name: spec for name, spec in methods("selector").items() if spec.cls.by_scores}
    key = "theory.depth.decoder"
    with st.container(width=150):
        help_text = "With Explore's settings"
        name = select("Decoder", specs, key, format_func=lambda n: specs[n].title, help=help_text)
    stages = {role: _draw_scorer(role) for role in ROLE_TITLES}
    return Decoder(decoders.get_decoder(name).select, stages[decoders.RETRIEVE], stages[decoders.RERANK])


def _draw_scorer(role: str) -> Scorer:
    """Draw the choice of the scorer for a role, "retrieve" or "rerank", with its parameters; return it."""
    specs, key = decoders.list_scorers(role), f"theory.depth.{role}"
    names = list(specs)
    # By default the reranker differs from the retriever.
    first = names[min(len(names) - 1, list(ROLE_TITLES).index(role))]
    with st.container(width=180):
        spec = specs[select(ROLE_TITLES[role], names, key, default=first, format_func=lambda name: specs[name].title)]
    # A popover without parameters would be empty.
    if not spec.params:
        return read_stage(spec, key)
    # The label is short, with the number of parameters that were changed.
    n_changed, role_name = count_changed(spec, key), ROLE_TITLES[role].split()[0]
    with st.popover(f"{role_name} ({n_changed})" if n_changed else role_name):
        scorer: Scorer = draw_stage(spec, key)
    return scorer


def _measure_depths(choice: QueryChoice, decoder: Decoder, job: Job) -> Cells:
    """Measure a decoder at rising numbers of reranked documents, in a job; return a cell for each.

    The cell without reranking comes first. A cell is a decoder with its metrics by query.
    """
    queries, qrels = choice.load_task()
    vectors, space = choice.embed(queries, job), choice.loaded.space
    options = {"metrics": SEARCH_METRICS, "split": choice.split, "store": sweeps.open_store(), "stop": job.stop}
    baselines = [Decoder(decoder.select, decoder.retrieve)]
    baseline_cells = list(engine.sweep(baselines, space, vectors, qrels, SEARCH_K, progress=job.report, **options))
    # Finished depths are stored, so that a stopped run resumes.
    for cell in engine.rerank_depths([decoder], space, vectors, qrels, k=SEARCH_K, progress=job.report, **options):
        # A chart of the cells without reranking alone would be empty.
        job.partial = job.partial or baseline_cells
        job.collect(cell)
    return tuple(job.partial or baseline_cells)


def _show_depths(decoder: Decoder, points: Cells) -> None:
    """Draw a metric over the number of documents reranked, the conclusion in words, and the table.

    decoder: the measured one; points: its measurements, a cell per depth
    """
    metric = choose("Metric", SEARCH_METRICS, "theory.depth.metric", format_func=title_of)
    study = compare_depths(points, metric, SEARCH_K)
    title = f"{title_of(study.metric)}@{study.k}"
    chart_column, table_column = st.columns([3, 2], gap="medium")
    with chart_column:
        figure = plot_rerank_depth(study, title, is_dark())
        plot(figure, "theory.depth", file=f"depth-{study.metric}", label="Metric over depth")
        st.caption(
            f"Mean of {counted(study.queries, 'query', 'queries')} · band: 95% bootstrap CI · dotted: "
            f"{decoder.retrieve.spec.title} without reranking · times: median of single calls"
        )
    with table_column:
        st.markdown(f"**{_format_headline(study, title)}**")
        st.caption(_format_details(study))
        value_column, milliseconds = number_column("%.3f"), st.column_config.NumberColumn("ms per query", format="%.2f")
        draw_columns(
            {
                "Reranked": (["none" if row.depth is None else f"{row.depth:,}" for row in study.rows], None),
                title: (read_column(study.rows, "mean"), value_column),
                "from": (read_column(study.rows, "low"), value_column),
                "to": (read_column(study.rows, "high"), value_column),
                "ms": (read_column(study.rows, "milliseconds"), milliseconds),
            }
        )


def _format_headline(study: DepthComparison, title: str) -> str:
    """Say in a sentence if reranking helps, by how much, and if the difference is significant.

    title: of the metric. `study.gain` is 1 or −1 for a significant difference to no reranking, else 0.
    """
    best = study.best
    # The row without a depth is the search without reranking.
    base = next((row for row in study.rows if row.depth is None), None)
    if base is None:
        return f"Best at depth {best.depth:,}: {title} {decimal(best.mean)}."
    note = "" if study.gain else " (difference not significant)"
    may_help = not study.gain and best.mean > base.mean
    if study.gain == 1 or may_help:
        verdict = "Reranking may help" if may_help else "Reranking helps"
        return f"{verdict}: {title} {decimal(best.mean)} at depth {best.depth:,}, {decimal(base.mean)} without{note}."
    return f"Reranking does not help here: {title} {decimal(base.mean)} without, {decimal(best.mean)} at best{note}."


def _format_details(study: DepthComparison) -> str:
    """Name the smallest rerank depth not significantly worse than the best one, and the statistical test."""
    best_row, shallowest = study.best, study.shallowest
    parts = []
    if shallowest.depth and best_row.depth and shallowest.depth < best_row.depth:
        time_text = ""
        if shallowest.milliseconds is not None and best_row.milliseconds is not None:
            time_text = f" and takes {shallowest.milliseconds:.2f} instead of {best_row.milliseconds:.2f} ms per query"
        parts.append(f"Depth {shallowest.depth:,} is not significantly worse ({decimal(shallowest.mean)}){time_text}.")
    queries = counted(study.queries, "query", "queries")
    return " ".join([*parts, f"Paired randomisation test, α = 0.05 after Holm, {queries}."])


DEPTH = StudyView(
    title="Rerank depth",
    caption="How many documents does a reranker have to read? The better the retriever, the fewer, the sparse-dense "
    "paper finds (Fig. 6). A reranker worse than the retriever does harm, the more it reads.",
    draw=_draw_depths,
)


def _draw_approximate(loaded: Loaded, _: Question | None) -> None:
    """Draw the speed and quality of approximate search, a curve per scorer and index, beside exact search.

    It is measured on many queries at once, so the current Question is ignored.
    """
    try:
        import_faiss()
    except FrontierError as error:
        st.info(error.finding, icon=":material/extension:")
        return
    with query_row(loaded, 340) as choice:
        scorers, fixed_params = _draw_scorers(), _draw_indexes()
    if not scorers or not fixed_params:
        st.info("Choose at least one scorer and one index.")
        return
    # Parameters are sorted, so that equal settings have equal keys.
    key = tuple((kind, *sorted(values.items(), key=str)) for kind, values in fixed_params.items())
    run_study(
        ("approximate", choice.key, tuple(scorers), key),
        "Approximate search",
        partial(_time_searches, choice, scorers, fixed_params),
        _show_searches,
        autostart=choice.is_small and all(scorer.inner_product for scorer in scorers),
        on_partial=_show_searches,
        rows=(*BESIDE_ROWS, (1, 330)),
    )


def _draw_scorers() -> list[Scorer]:
    """Draw the choice of scorers whose vectors are searched, with their parameters; return the scorers."""
    specs = list_searchable()
    names = choose_several(
        "Vectors of",
        specs,
        "theory.ann.scorers",
        default=list(specs)[:1],
        format_func=lambda n: specs[n].title,
        help="\n\n".join(f"**{spec.title}** {spec.summary}" for spec in specs.values()),
    )
    stages = {name: specs[name].cls() for name in names}
    if adjustable := [specs[name] for name in names if specs[name].params]:
        with st.popover("Vectors"):
            for spec in adjustable:
                st.text(spec.title)
                stages[spec.name] = draw_stage(spec, "theory.ann")
    return list(stages.values())


def _draw_indexes() -> dict[str, dict[str, Any]]:
    """Draw the choice of indexes and their parameters; return index → its parameters that stay fixed.

    The parameter of effort, how many vectors a search looks at, is what the study varies.
    """
    kinds = choose_several(
        "Indexes",
        INDEXES,
        "theory.ann.kinds",
        format_func=lambda kind: INDEXES[kind].title,
        help="\n\n".join(f"**{cls.title}** {(cls.__doc__ or '').splitlines()[0]}" for cls in INDEXES.values()),
    )
    searches: dict[str, dict[str, Any]] = {kind: {} for kind in kinds}
    if searches:
        with st.popover("Indexes"):
            for kind, values in searches.items():
                for param in params_of(INDEXES[kind]):
                    # The parameter of effort is what the study varies.
                    if param.name != INDEXES[kind].effort:
                        values[param.name] = draw_parameter(param, f"theory.ann.{kind}.{param.name}")
            st.caption("efSearch and nprobe are varied.")
    return searches


def _time_searches(choice: QueryChoice, scorers: list[Scorer], fixed: dict[str, dict[str, Any]], job: Job) -> Searches:
    """Measure quality and time of every scorer in every index, in a job; return a row for each search.

    fixed: index → its parameters that are not varied
    """
    space = choice.loaded.space
    queries: Embeddings | None
    qrels: Qrels | None = None
    if not choice.has_vectors:
        # Without vectors of queries, a sample of the documents' vectors are the queries.
        row_indices = range(0, len(space), max(1, len(space) // N_QUERIES))
        queries = space.embeddings.take(list(row_indices)[:N_QUERIES])
    else:
        query_texts, qrels = choice.load_task()
        queries = choice.embed(query_texts, job)
    make_indexes = partial(usual_indexes, kinds=tuple(fixed), fixed=fixed)
    options = {"indexes": make_indexes, "progress": job.report, "stop": job.stop}
    for row in engine.approximate(scorers, space, queries, qrels, k=SEARCH_K, **options):
        job.collect(row)
    return tuple(job.partial or ())


def _show_searches(rows: Sequence[AnnResult]) -> None:
    """Draw quality against time of all searches, the conclusions in words, and the table.

    rows: one for each search, which is a scorer's vectors in one index at one effort
    """
    measures = [EXACT, *rows[0].mean]
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        metric = choose("Quality", measures, f"theory.ann.quality.{len(measures)}", format_func=_quality_title)
        share = draw_parameter(EXACT_SHARE, "theory.ann.share", st.container(width=260))
    quality = [row.share if metric == EXACT else row.mean[metric] for row in rows]
    title = _quality_title(metric) if metric == EXACT else f"{_quality_title(metric)}@{rows[0].k}"
    chart_column, text_column = st.columns([3, 2], gap="medium")
    with chart_column:
        figure = plot_approximate(rows, quality, title, list(INDEXES.values()), is_dark())
        plot(figure, "theory.approximate", file="approximate", label="Quality against time of approximate search")
        note = "" if rows[0].mean else " · no encoder for queries: documents are the queries"
        st.caption(
            f"{counted(len(rows[0].queries), 'query', 'queries')}, one at a time on one thread of this machine, median "
            f"time without embedding · star and lines: exact search{note}"
        )
    with text_column:
        for sentence in write_conclusions(rows, share):
            st.text(sentence)
    _draw_searches(rows)


def _quality_title(name: str) -> str:
    """Return the title of a quality measure: the share of the exact answer, or a metric."""
    return f"Share of the exact top {SEARCH_K}" if name == EXACT else title_of(name)


def _draw_searches(rows: Sequence[AnnResult]) -> None:
    """Draw the table of searches; the column of scorers only if there are several.

    rows: one for each search, which is a scorer's vectors in one index at one effort
    """
    make_column, columns = st.column_config.NumberColumn, dict[str, tuple[list[Any], Any]]()
    # One scorer needs no column of its own.
    if len(set(read_column(rows, "scorer"))) > 1:
        columns["Vectors"] = read_column(rows, "title"), None
    columns["Search"] = read_column(rows, "label"), None
    exact_column = make_column(format="%.3f", help="Share of the exact answer that was found")
    columns["Exact"] = read_column(rows, "share"), exact_column
    for metric in rows[0].mean:
        columns[name_metric(metric)] = [row.mean[metric] for row in rows], make_column(format="%.3f")
    columns["ms"] = read_column(rows, "milliseconds"), make_column("ms per query", format="%.3f")
    columns["Built in s"] = read_column(rows, "build"), make_column(format="%.2f")
    columns["MB"] = read_column(rows, "megabytes"), make_column(format="%.1f")
    draw_columns(columns)


APPROXIMATE = StudyView(
    title="ANN",
    caption="An index looks at some vectors only: faster, but it may miss. How much it misses depends on the corpus "
    "(sparse-dense paper, Fig. 7).",
    draw=_draw_approximate,
)
