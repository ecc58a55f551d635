"""Quality against time of approximate search, on the corpus in use."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import streamlit as st

import engine
from dashboard.charts.search import approximate_figure
from dashboard.components.live_plot import is_dark, plot
from dashboard.services.jobs import Job
from dashboard.services.source import Loaded
from dashboard.session.query import Question
from dashboard.theory.study import COUNT, QueryChoice, StudyView, measure, query_row
from dashboard.widgets.choices import choose, choose_several
from dashboard.widgets.parameters import control, parameters
from dashboard.widgets.tables import draw_columns
from engine.decoder import SET_SIZE
from engine.errors import FrontierError
from engine.evaluation.metrics import title_of
from engine.evaluation.studies.ann import ENOUGH, Searched, conclusions, searchable
from engine.evaluation.studies.ann_indexes import INDEXES, faiss_module, usual
from engine.params import params_of
from engine.progress import counted
from engine.stages import Scorer
from engine.values import Embeddings, Qrels

EXACT = "exact"
"""What is shown of the searches beside the metrics: how much of the exact answer they find."""
K = SET_SIZE.default
Searches = tuple[Searched, ...]


def _draw(loaded: Loaded, _: Question | None) -> None:
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
        partial(_work, choice, scorers, fixed),
        _shown,
        by_itself=choice.small and all(scorer.inner_product for scorer in scorers),
        on_partial=_shown,
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
                stages[spec.name] = parameters(spec, "theory.ann")
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
                        values[param.name] = control(param, f"theory.ann.{kind}.{param.name}")
            st.caption("efSearch and nprobe are varied.")
    return searches


def _work(choice: QueryChoice, scorers: list[Scorer], fixed: dict[str, dict[str, Any]], job: Job) -> Searches:
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


def _shown(rows: Sequence[Searched]) -> None:
    measures = [EXACT, *rows[0].mean]
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        shown = choose("Quality", measures, f"theory.ann.quality.{len(measures)}", format_func=_title)
        share = control(ENOUGH, "theory.ann.share", st.container(width=260))
    quality = [row.share if shown == EXACT else row.mean[shown] for row in rows]
    title = _title(shown) if shown == EXACT else f"{_title(shown)}@{rows[0].k}"
    left, right = st.columns([3, 2], gap="medium")
    with left:
        figure = approximate_figure(rows, quality, title, list(INDEXES.values()), is_dark())
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


VIEW = StudyView(
    title="ANN",
    caption="An index looks at some vectors only: faster, but it may miss. How much it misses depends on the corpus "
    "(sparse-dense paper, Fig. 7).",
    draw=_draw,
)
