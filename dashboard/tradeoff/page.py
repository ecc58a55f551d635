"""The Trade-off page: the sweep, the frontier, the sets behind a point, the significant differences."""

from functools import partial

import streamlit as st

from dashboard.charts.frontier import frontier_figure
from dashboard.charts.palette import style_of
from dashboard.components.live_plot import is_dark, plot
from dashboard.services import passage_queries, sweeps, trained
from dashboard.services.memo import remembered
from dashboard.services.query_vectors import known_vectors
from dashboard.services.source import Loaded
from dashboard.services.sweeps import Cells, Sweep
from dashboard.session import decoders
from dashboard.session.answers import query_of
from dashboard.session.query import Question, corpus_key, first_split
from dashboard.tradeoff import differences, point_sets, selection
from dashboard.widgets import passages
from dashboard.widgets.choices import choose, choose_several, select
from dashboard.widgets.failure import show_failure
from dashboard.widgets.job_panel import JobPanel
from dashboard.widgets.parameters import control
from engine.decoder import POOL, SET_SIZE, Decoder
from engine.errors import FrontierError
from engine.evaluation.frontier import BAND_RESAMPLES, TIME, Frontier, frontier, title_of_axis
from engine.evaluation.metrics import METRICS, available
from engine.evaluation.statistics import RESAMPLES
from engine.evaluation.sweep.sweep import grid
from engine.params import Whole
from engine.progress import counted
from engine.space import Space
from engine.stages import Scorer, methods
from engine.values import Embeddings, Qrels, Queries

ALL, ONE = "All labelled queries", "This query"
X, Y, INSTEAD = "ilad", "recall", "cos_sum"
"""The axes at first, and the upper one where nothing is judged."""
VALUES = Whole(
    default=6,
    low=2,
    high=41,
    comfortable=(2, 21),
    symbol="values_of_each_parameter",
    name="values_of_each_parameter",
    help="How many values of a parameter are measured, from end to end of its usual range; some name their own.",
)
BOARD = "tradeoff-board"
NARROW = f"""<style>@media (max-width: 1200px) {{
.st-key-{BOARD} > [data-testid=stLayoutWrapper] > [data-testid=stHorizontalBlock] {{flex-wrap: wrap}}
.st-key-{BOARD} > [data-testid=stLayoutWrapper] > [data-testid=stHorizontalBlock] > [data-testid=stColumn]
{{min-width: 100%}} }}</style>"""
"""Side by side the chart and the sets need more room than a small screen has: there they stand one below the other."""
SAMPLES = (100, 500, 2000)
MOST_BANDED = 4
ENOUGH = 500
"""Of more labelled queries so many are drawn at first: their means are known well enough to choose by."""


def show(loaded: Loaded, question: Question | None) -> None:
    """The main area of Trade-off."""
    if st.session_state.pop(selection.LEAVE, False):
        decoders.show()  # from a run of the whole page: from a fragment's, the sidebar would forget its question
    st.html(NARROW)
    known = methods("selector")
    split, qrels, queries = _labelled(loaded)
    row = st.container(horizontal=True, vertical_alignment="bottom", gap="small")
    with row:
        every = _scope(loaded, qrels)
    with_passages = every and qrels is None
    if with_passages:
        if (judged := passages.judged(loaded)) is None:
            return
        loaded = judged
        split, qrels, queries = _labelled(loaded)
    with row:
        axes = st.container(horizontal=True, width=460, gap="small")
        with st.popover("Grid", icon=":material/tune:"):
            values = control(VALUES, "tradeoff.values")
            if every and len(queries) > SAMPLES[0]:
                queries = _sampled(queries)
    names = choose_several(
        "Decoders",
        known,
        "tradeoff.decoders",
        format_func=lambda n: f"{style_of(n).sign} {known[n].title}",
        help="Each is measured over its parameters' usual values, and as it is set in Explore. The first is always "
        "there: what the others are compared with.",
    )
    scorers = _scorers()
    if with_passages:
        passages.explain(loaded)
    sweep = _sweep(loaded, question, every, names, scorers, values, (split, qrels, queries))
    if qrels is None:
        _teach(loaded)
    if sweep is None:
        st.info("Ask something in the sidebar: what each decoder makes of it appears here.")
        return
    if every:
        trained.warn(loaded, queries)
    with axes:
        x, y = _axes(sweep)
    if qrels is not None and not every and question is not None and not question.judged:
        st.caption(
            f"This query has no judgements, so there is no Recall for it; up goes {METRICS[y].title}, "
            f"{METRICS[y].formula}."
        )
    _board(loaded, question, sweep, x, y)


def _labelled(loaded: Loaded) -> tuple[str, Qrels | None, Queries]:
    """The split that the sidebar shows, its judgements and its queries; none where nothing is judged."""
    dataset, splits = loaded.dataset, list(loaded.dataset.qrels)
    if not splits or loaded.space.encoder is None:
        return "", None, Queries((), ())
    picked: str | None = st.session_state.get(f"split.{corpus_key(loaded)}")
    split = picked if picked in splits else first_split(dataset) or splits[0]
    queries = dataset.judged(split)
    return split, dataset.qrels[split] if len(queries) else None, queries


def _scope(loaded: Loaded, qrels: Qrels | None) -> bool:
    """Draw the choice of queries: whether all labelled ones are meant, or the passages that stand in for them."""
    if qrels is not None:
        return choose("Queries", [ALL, ONE], "tradeoff.scope", named=True) != ONE
    ways = [ONE, *([passage_queries.NAME] if passage_queries.offered(loaded) else [])]
    return choose("Queries", ways, f"tradeoff.one.{len(ways)}", named=True) != ONE


def _sampled(queries: Queries) -> Queries:
    sizes = [*(size for size in SAMPLES if size < len(queries)), len(queries)]
    count = st.select_slider(
        "Labelled queries",
        sizes,
        ENOUGH if ENOUGH in sizes else len(queries),
        key=f"tradeoff.sample.{queries.digest[:12]}",
        persist_state="session",
        format_func=lambda n: f"all {n:,}" if n == len(queries) else f"{n:,}",
        help="Fewer are drawn at random, always the same ones.",
    )
    return queries.sample(count)


def _axes(sweep: Sweep) -> tuple[str, str]:
    """The metrics of the axes: those measured of which more is better, and for x the time too."""
    measured = [m for m in sweep.metrics if not METRICS[m].lower_is_better]
    first = {"x": X, "y": Y if Y in measured else INSTEAD}
    kind = "judged" if Y in measured else "unjudged"
    why = "; ".join(f"{METRICS[m].title}: {METRICS[m].formula}" for m in measured)

    def axis(name: str, options: list[str]) -> str:
        key = f"tradeoff.{name}.{kind}"
        return select(f"{name} axis", options, key, default=first[name], format_func=title_of_axis, help=why)

    return axis("x", [*measured, *([TIME] if sweep.stored else [])]), axis("y", measured)


def _sweep(
    loaded: Loaded,
    question: Question | None,
    every: bool,
    names: list[str],
    scorers: list[Scorer],
    values: int,
    labelled: tuple[str, Qrels | None, Queries],
) -> Sweep | None:
    k = question.k if question is not None else st.session_state.get(decoders.K_KEY, SET_SIZE.default)
    depth = question.depth if question is not None else st.session_state.get(decoders.POOL_KEY, POOL.default)
    several = _decoders(loaded.space, names, scorers, values, depth)
    split, qrels, queries = labelled
    make = partial(Sweep, loaded=loaded, decoders=several, k=k, plain=all(map(decoders.has_default_scorers, several)))
    aspects = loaded.dataset.aspects
    if every:
        vectors = known_vectors(loaded, queries)
        sample = Embeddings(loaded.space.embeddings.vectors[:1], ("",)) if vectors is None else vectors
        metrics = available(qrels, aspects, sample)
        return make(queries=queries, vectors=vectors, qrels=qrels, split=split, metrics=metrics, stored=True)
    if question is None:
        return None
    vectors, judged = query_of(loaded, question), question.qrels if question.judged else None
    metrics = available(judged, aspects if aspects and aspects.get(question.id) else None, vectors)
    query = Queries((question.id,), (question.text,))
    return make(queries=query, vectors=vectors, qrels=judged, split="", metrics=metrics, stored=False)


def _scorers() -> list[Scorer]:
    """The scorers that every decoder is measured behind, at their usual parameters."""
    known = decoders.offered(decoders.RETRIEVE)
    why = (
        "Relevance comes from these, similarity between documents always from the dense vectors. A decoder is "
        "measured behind each, and behind the scorers that it has in Explore."
    )
    picked = choose_several(
        "Scorers",
        known,
        "tradeoff.scorers",
        default=[next(iter(known))],
        format_func=lambda n: known[n].title,
        help="\n\n".join([why, *(f"**{spec.title}** {spec.summary}" for spec in known.values())]),
    )
    return [known[n].cls() for n in picked]


def _decoders(
    space: Space, names: list[str], scorers: list[Scorer], values: int, depth: int | None
) -> tuple[Decoder, ...]:
    """The decoders to measure, the baseline first; draws what is left out."""
    known, chosen = methods("selector"), decoders.chosen()
    first = next(iter(known))
    settings = [Decoder(known[first].cls(), decoders.first_scorer(), depth=depth)]
    lacking: dict[tuple[Scorer, Scorer | None], str] = {}
    for name in dict.fromkeys([first, *names]):
        current = decoders.decoder_of(name)
        stages = [*(d.select for d in grid(name, values)), *([current.select] if name in chosen else [])]
        chains: list[tuple[Scorer, Scorer | None]] = [(scorer, None) for scorer in scorers]
        if name in names and name in chosen:
            chains.append((current.retrieve, current.rerank))
        for chain in chains:
            if chain not in lacking and (why := decoders.lacks(Decoder(stages[0], *chain, depth), space)):
                lacking[chain] = why
        settings += [
            decoders.effective(Decoder(stage, retrieve, rerank, depth))
            for retrieve, rerank in dict.fromkeys(chains)
            if (retrieve, rerank) not in lacking
            for stage in stages
        ]
    if lacking:
        st.text("Left out: " + "; ".join(dict.fromkeys(lacking.values())))
    return tuple(dict.fromkeys(settings))


def _teach(loaded: Loaded) -> None:
    """Explain the axes without labelled queries, and what would add Recall."""
    if loaded.dataset.qrels and loaded.space.encoder is None:
        why = "This corpus came with its own vectors, and its labelled queries have none: they cannot be measured."
        rest = "Embed the corpus here to measure them."
    else:
        why = "This corpus has no judgements, so nothing says which documents are right: there is no Recall."
        rest = "Judgements (queries.jsonl and qrels/ beside the corpus) add the rest."
        if passage_queries.offered(loaded):
            rest += f" “{passage_queries.NAME}” make labelled queries of its own texts: those have Recall and MRR."
    st.info(
        f"{why} What stays is {METRICS[X].title}, how different the documents of a set are, against "
        f"{METRICS[INSTEAD].title}, how well they fit the query together. {rest}",
        icon=":material/school:",
    )


def _board(loaded: Loaded, question: Question | None, sweep: Sweep, x: str, y: str) -> None:
    """Chart, sets and tables; while a job is at work, of what is finished."""
    draw = partial(st.fragment(_draw), loaded, question, sweep, x, y)
    try:
        cells = sweeps.find(sweep)
    except FrontierError as error:
        show_failure("This cannot be measured.", error)
        return
    if cells.missing:
        panel = JobPanel(
            purpose=sweeps.PURPOSE,
            key=sweep.key,
            title="Measuring the trade-off",
            work=partial(sweeps.work, sweep),
            start="Resume" if cells.points else "Run",
            offer=_lacking(sweep, cells),
            by_itself=sweeps.is_small(sweep) and len(cells.points) < len(sweep.decoders),
            on_partial=lambda _: draw(),
            failed="Measuring ended early; what is finished is kept.",
        )
        if panel.result() is None and (job := panel.job) is not None and (job.going or job.partial):
            return  # the panel draws it
    draw()


def _lacking(sweep: Sweep, cells: Cells) -> str:
    """What is still to be measured."""
    done = f"{len(cells.points):,} of {len(sweep.decoders):,} settings are measured. " if cells.points else ""
    size = f"{len(sweep.queries):,} queries × {len(sweep.loaded.space):,} documents"
    embedding = "" if sweep.vectors is not None else " The queries have to be embedded first."
    if sweep.pairs:
        embedding += f" A model reads up to {sweep.pairs:,} pairs of query and document for that, which takes long."
    settings, curves = len(sweep.decoders) - len(cells.points), len(sweep.exact) - len(cells.curves)
    lacking = [f"{settings:,} settings"] if settings else []
    lacking += [f"every value of the parameter of {counted(curves, 'decoder')}"] if curves else []
    return (
        f"{done}Not yet: {' and '.join(lacking)} on {size}.{embedding} What is finished is kept; the time is known "
        "once it runs."
    )


def _draw(loaded: Loaded, question: Question | None, sweep: Sweep, x: str, y: str) -> None:
    if st.session_state.pop(selection.ANEW, False):
        st.rerun()
    cells = sweeps.find(sweep)
    if not cells.points:
        return
    # Bands of what is still growing need not be fine.
    resamples = RESAMPLES.low if cells.running else BAND_RESAMPLES
    try:
        curves = remembered(
            selection.MEMORY,
            (sweep.key, x, y, len(cells.points), cells.running),
            lambda: frontier(cells.points, x, y, sweep.k, resamples=resamples),
        )
    except FrontierError as error:
        st.info("These points cannot be drawn against these axes; choose others.", icon=":material/info:")
        st.text(str(error))
        return
    labels = [p.point.label for p in curves.points]
    explored = {decoders.effective(decoder) for decoder in decoders.decoders().values()}
    current = [decoder.label for decoder in sweep.decoders if decoder in explored]
    opened = selection.opened(labels, current)
    with st.container(key=BOARD):
        left, right = st.columns([2, 1], gap="medium")
    with left:
        banded = _banded(curves, current, opened)
        titles = title_of_axis(x), title_of_axis(y)
        # A mean over other queries than the points' would lie beside them.
        exact = [curve for curve in cells.curves if not curve.left_out and len(curve.queries) == curves.queries]
        figure = frontier_figure(
            curves, titles, is_dark(), current=current, opened=opened, banded=banded, one_entry=True, exact=exact
        )
        picked = plot(figure, "tradeoff.frontier", file=f"frontier-{x}-{y}")
        caption = _caption(curves, sweep, len(_labelled(loaded)[2]), banded is not None)
        st.caption(f"{caption} Lines without a gap: every value of the parameter, exactly." if exact else caption)
        if picked.clicks != st.session_state.get("tradeoff.clicks", 0):
            st.session_state["tradeoff.clicks"] = picked.clicks
            selection.open_point(picked.clicked)
            st.rerun(scope="fragment")
    with right:
        point_sets.show(loaded, question, sweep, curves, opened, opened == st.session_state.get(selection.OPEN))
    if sweep.stored and len(sweep.queries) > 1 and not cells.running:
        differences.show(loaded, sweep, cells, curves, opened)


def _banded(curves: Frontier, current: list[str], opened: str) -> set[str] | None:
    """The methods that have bands: all, or where those would hide each other what is set in Explore or opened."""
    if len({p.point.method for p in curves.points}) <= MOST_BANDED:
        return None
    return {p.point.method for p in curves.points if p.point.label in (*current, opened)}


def _caption(curves: Frontier, sweep: Sweep, available_count: int, partly_banded: bool) -> str:
    both = "both metrics" if len(curves.metrics) == 2 else "the metric"
    parts = []
    if sweep.stored:
        drawn = f", drawn at random from {available_count:,}" if available_count > len(sweep.queries) else ""
        parts.append(f"Means over the {curves.queries:,} labelled queries that have {both} everywhere{drawn}.")
        if curves.queries < curves.asked:
            parts.append(f"{curves.asked - curves.queries:,} of {curves.asked:,} do not.")
        if curves.points[0].x_low is not None:
            whose = "of what is set in Explore or opened, " if partly_banded else ""
            parts.append(
                f"Bands: 95 % intervals of the mean {whose}a paired bootstrap over these queries "
                f"({curves.resamples:,} draws), each for its point alone; methods of many curves have none."
            )
    else:
        parts.append("One query: no band, as one query says nothing of others.")
    if curves.x == TIME:
        parts.append("Times: the median of a few single calls, taken when a setting was measured.")
    better = "as much of both" if curves.x != TIME else "as much in as little time"
    parts.append(f"Outlined: no other point has {better}. Dotted: the baseline. Click a point for its sets.")
    parts.append(curves.remark)
    if curves.left_out:
        parts.append(f"{len(curves.left_out)} settings returned too little to be drawn.")
    return " ".join(filter(None, parts))
