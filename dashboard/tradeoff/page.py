"""The Trade-off page: what is swept, the frontier, the sets behind a point, and what can be told of the differences."""

from __future__ import annotations

import streamlit as st

from dashboard import jobs, passages
from dashboard.charts import frontier_figure, style_of
from dashboard.components.live_plot import plot
from dashboard.controls import control
from dashboard.explore import setting
from dashboard.explore.answers import query_of
from dashboard.explore.question import Asked, first_split
from dashboard.parts import POLL, show_progress
from dashboard.state import Loaded
from dashboard.tradeoff import cells, differences, memory, point_sets
from dashboard.tradeoff.cells import Cells, Sweep
from dashboard.training import kept
from engine.decoder import POOL, SET_SIZE, Decoder
from engine.errors import FrontierError
from engine.evaluation.frontier import Frontier, frontier
from engine.evaluation.metrics import METRICS, available
from engine.evaluation.statistics import RESAMPLES
from engine.evaluation.sweep import grid
from engine.params import Whole
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


def show(loaded: Loaded, asked: Asked | None) -> None:
    """The main area of Trade-off."""
    if st.session_state.pop(memory.LEAVE, False):
        setting.show()  # from a run of the whole page: from a fragment's, the sidebar would forget its question
    st.html(NARROW)
    known = methods("selector")
    split, qrels, queries = _labelled(loaded)
    row = st.container(horizontal=True, vertical_alignment="bottom", gap="small")
    with row:
        every = _scope(loaded, qrels)
    made = every and qrels is None
    if made:
        loaded = passages.judged(loaded)
        if loaded is None:
            return
        split, qrels, queries = _labelled(loaded)
    with row:
        axes = st.container(horizontal=True, width=460, gap="small")
        with st.popover("Grid", icon=":material/tune:"):
            values = control(VALUES, "tradeoff.values")
            if every and len(queries) > SAMPLES[0]:
                queries = _sampled(queries)
    names = st.pills(
        "Decoders",
        list(known),
        selection_mode="multi",
        default=list(known),
        key="tradeoff.decoders",
        persist_state="session",
        format_func=lambda n: f"{style_of(n).sign} {known[n].title}",
        help="Each is measured over its parameters' usual values, and as it is set in Explore. The first is always "
        "there: what the others are compared with.",
    )
    scorers = _scorers()
    if made:
        passages.explain(loaded)
    sweep = _sweep(loaded, asked, every, [n for n in known if n in names], scorers, values, (split, qrels, queries))
    if qrels is None:
        _teach(loaded)
    if sweep is None:
        st.info("Ask something in the sidebar: what each decoder makes of it appears here.")
        return
    if every:
        kept.warn(loaded, queries)
    with axes:
        x, y = _axes(sweep)
    if qrels is not None and not every and not asked.judged:
        st.caption(
            f"This query has no judgements, so there is no Recall for it; up goes {METRICS[y].title}, "
            f"{METRICS[y].formula}."
        )
    _board(loaded, asked, sweep, x, y)


def _labelled(loaded: Loaded) -> tuple[str, Qrels | None, Queries]:
    """The split that the sidebar shows, its judgements and its queries; none where nothing is judged."""
    dataset, splits = loaded.dataset, list(loaded.dataset.qrels)
    if not splits or loaded.space.encoder is None:
        return "", None, Queries((), ())
    split = st.session_state.get(f"split.{loaded.space.corpus.digest[:12]}")
    split = split if split in splits else first_split(dataset)
    queries = dataset.judged(split)
    return split, dataset.qrels[split] if len(queries) else None, queries


def _scope(loaded: Loaded, qrels: Qrels | None) -> bool:
    """Whether all labelled queries are meant, or the passages that stand in for them."""
    if qrels is None:
        ways = [ONE, *([passages.NAME] if passages.offered(loaded) else [])]
        key = f"tradeoff.one.{len(ways)}"
        way = st.segmented_control("Queries", ways, default=ONE, required=True, key=key, persist_state="session")
        return way == passages.NAME
    chosen = st.segmented_control(
        "Queries", [ALL, ONE], default=ALL, required=True, key="tradeoff.scope", persist_state="session"
    )
    return chosen != ONE


def _sampled(queries: Queries) -> Queries:
    sizes = [size for size in SAMPLES if size < len(queries)]
    first = ENOUGH if ENOUGH in sizes else len(queries)
    count = st.select_slider(
        "Labelled queries",
        [*sizes, len(queries)],
        first,
        key=f"tradeoff.sample.{queries.digest[:12]}",
        persist_state="session",
        format_func=lambda n: f"all {n:,}" if n == len(queries) else f"{n:,}",
        help="Fewer are drawn at random, always the same ones.",
    )
    return queries.sample(count)


def _axes(sweep: Sweep) -> tuple[str, str]:
    """The metrics of the axes: those that were measured and of which more is better."""
    there = [m for m in sweep.metrics if not METRICS[m].less]
    first = {"x": X, "y": Y if Y in there else INSTEAD}
    found = []
    for axis in ("x", "y"):
        kept = f"tradeoff.{axis}.{'judged' if Y in there else 'unjudged'}"
        found.append(
            st.selectbox(
                f"{axis} axis",
                there,
                there.index(first[axis]),
                key=kept,
                persist_state="session",
                format_func=lambda m: METRICS[m].title,
                help="; ".join(f"{METRICS[m].title}: {METRICS[m].formula}" for m in there),
            )
        )
    return found[0], found[1]


def _sweep(
    loaded: Loaded,
    asked: Asked | None,
    every: bool,
    names: list[str],
    scorers: list[Scorer],
    values: int,
    labelled: tuple[str, Qrels | None, Queries],
) -> Sweep | None:
    k = asked.k if asked is not None else st.session_state.get(setting.K_KEY, SET_SIZE.default)
    depth = asked.depth if asked is not None else st.session_state.get(setting.POOL_KEY, POOL.default)
    several = _decoders(loaded.space, names, scorers, values, depth)
    split, qrels, queries = labelled
    if every:
        vectors = cells.vectors_of(loaded, queries)
        some = Embeddings(loaded.space.embeddings.vectors[:1], ("",)) if vectors is None else vectors
        metrics = available(qrels, loaded.dataset.aspects, some)
        return Sweep(loaded, several, queries, vectors, qrels, split, k, metrics, True)
    if asked is None:
        return None
    vectors = query_of(loaded, asked)
    judged = asked.qrels if asked.judged else None
    aspects = loaded.dataset.aspects
    metrics = available(judged, aspects if aspects and aspects.get(asked.id) else None, vectors)
    return Sweep(loaded, several, Queries((asked.id,), (asked.text,)), vectors, judged, "", k, metrics, False)


def _scorers() -> list[Scorer]:
    """The scorers that every decoder is measured behind, at their usual parameters."""
    known = setting.offered(setting.RETRIEVE)
    first = next(iter(known))
    picked = st.pills(
        "Scorers",
        list(known),
        selection_mode="multi",
        default=[first],
        key="tradeoff.scorers",
        persist_state="session",
        format_func=lambda n: known[n].title,
        help="\n\n".join(
            [
                "Relevance comes from these, similarity between documents always from the dense vectors. A decoder is "
                "measured behind each, and behind the scorers that it has in Explore."
            ]
            + [f"**{spec.title}** {spec.summary}" for spec in known.values()]
        ),
    )
    return [known[n].cls() for n in known if n in picked]


def _decoders(
    space: Space, names: list[str], scorers: list[Scorer], values: int, depth: int | None
) -> tuple[Decoder, ...]:
    """What is measured, the baseline first; what cannot be is said."""
    known, chosen = methods("selector"), setting.chosen()
    first = next(iter(known))
    found = [Decoder(known[first].cls(), setting.first_scorer(), depth=depth)]
    lacking: dict[tuple[Scorer, Scorer | None], str] = {}
    for name in dict.fromkeys([first, *names]):
        current = setting.decoder_of(name)
        stages = [*(d.select for d in grid(name, values)), *([current.select] if name in chosen else [])]
        chains = [(scorer, None) for scorer in scorers]
        if name in names and name in chosen:
            chains.append((current.retrieve, current.rerank))
        for chain in chains:
            if chain not in lacking and (why := setting.hindered(Decoder(stages[0], *chain, depth), space)):
                lacking[chain] = why
        found += [
            setting.effective(Decoder(stage, retrieve, rerank, depth))
            for retrieve, rerank in dict.fromkeys(chains)
            if (retrieve, rerank) not in lacking
            for stage in stages
        ]
    if lacking:
        st.text("Left out: " + "; ".join(dict.fromkeys(lacking.values())))
    return tuple(dict.fromkeys(found))


def _teach(loaded: Loaded) -> None:
    """What there is where no labelled query can be measured, and what would add the rest."""
    if loaded.dataset.qrels and loaded.space.encoder is None:
        why = "This corpus came with its own vectors, and its labelled queries have none: they cannot be measured."
        rest = "Embed the corpus here to measure them."
    else:
        why = "This corpus has no judgements, so nothing says which documents are right: there is no Recall."
        rest = "Judgements (queries.jsonl and qrels/ beside the corpus) add the rest."
        if passages.offered(loaded):
            rest += f" “{passages.NAME}” make labelled queries of its own texts: those have Recall and MRR."
    st.info(
        f"{why} What stays is {METRICS[X].title}, how different the documents of a set are, against "
        f"{METRICS[INSTEAD].title}, how well they fit the query together. {rest}",
        icon=":material/school:",
    )


def _board(loaded: Loaded, asked: Asked | None, sweep: Sweep, x: str, y: str) -> None:
    """Chart, sets and tables; looked at again and again while a job is at work."""
    try:
        found = cells.find(sweep)
    except FrontierError as error:
        st.error("This cannot be measured.", icon=":material/error:")
        st.text(str(error))
        return
    other = jobs.busy(cells.PURPOSE)
    if found.missing and not found.running and cells.begins_by_itself(sweep) and other is None and not _failed(found):
        cells.begin(sweep)
        found = cells.find(sweep)
    drawn = st.fragment(_draw, run_every=POLL if found.running else None)
    drawn(loaded, asked, sweep, x, y, found.running)


def _failed(found: Cells) -> bool:
    return found.job is not None and found.job.error is not None


def _draw(loaded: Loaded, asked: Asked | None, sweep: Sweep, x: str, y: str, was_running: bool) -> None:
    found = cells.find(sweep)
    if st.session_state.pop(memory.ANEW, False):
        st.rerun()
    if was_running and not found.running:
        st.rerun()
    _progress(sweep, found)
    if not found.points:
        return
    try:
        curves = memory.remembered(
            (sweep.key, x, y, len(found.points), found.running), lambda: _frontier(found, x, y, sweep.k)
        )
    except FrontierError as error:
        st.info("These points cannot be drawn against these axes; choose others.", icon=":material/info:")
        st.text(str(error))
        return
    labels = [p.point.label for p in curves.points]
    current = [decoder.label for decoder in _current(sweep)]
    opened = memory.opened(labels, current)
    with st.container(key=BOARD):
        left, right = st.columns([2, 1], gap="medium")
    with left:
        titles = METRICS[x].title, METRICS[y].title
        dark = st.context.theme.type == "dark"
        banded = _banded(curves, current, opened)
        figure = frontier_figure(curves, titles, dark, current=current, opened=opened, banded=banded, one_entry=True)
        picked = plot(figure, "tradeoff.frontier", file=f"frontier-{x}-{y}")
        st.caption(_said(curves, sweep, len(_labelled(loaded)[2]), banded is not None))
        if picked.clicks != st.session_state.get("tradeoff.clicks", 0):
            st.session_state["tradeoff.clicks"] = picked.clicks
            memory.open_point(picked.clicked)
            st.rerun(scope="fragment")
    with right:
        point_sets.show(loaded, asked, sweep, curves, opened, opened == st.session_state.get(memory.OPEN))
    if sweep.kept and len(sweep.queries) > 1 and not found.running:
        differences.show(loaded, sweep, found, curves, opened)


def _frontier(found: Cells, x: str, y: str, k: int) -> Frontier:
    # Bands of what is still growing need not be fine.
    return frontier(found.points, x, y, k, **({"resamples": RESAMPLES.low} if found.running else {}))


def _current(sweep: Sweep) -> list[Decoder]:
    """The decoders of the sweep that are set in Explore."""
    now = {setting.effective(decoder) for decoder in setting.decoders().values()}
    return [decoder for decoder in sweep.decoders if decoder in now]


def _progress(sweep: Sweep, found: Cells) -> None:
    """What is being measured, or what there is to start; nothing where all is there."""
    job = found.job
    if found.running:
        bar, button = st.columns([5, 1], vertical_alignment="bottom")
        with bar:
            show_progress(job)
        if button.button("Cancel", key="tradeoff.cancel", disabled=job.stop.is_set()):
            cells.stop(sweep, job)
            st.rerun(scope="fragment")
        return
    if not found.missing:
        return
    if job is not None and job.error:
        st.error("Measuring ended early; what is finished is kept.", icon=":material/error:")
        st.text(job.error)
    total, n = len(sweep.decoders), len(sweep.queries)
    left, right = st.columns([5, 1], vertical_alignment="center")
    done = f"{len(found.points):,} of {total:,} settings are measured. " if found.points else ""
    lacking = f"{done}Not yet: {found.missing:,} settings on {n:,} queries × {len(sweep.loaded.space):,} documents."
    embedding = "" if sweep.vectors is not None else " The queries have to be embedded first."
    if sweep.pairs:
        embedding += f" A model reads up to {sweep.pairs:,} pairs of query and document for that, which takes long."
    left.text(f"{lacking}{embedding} Finished settings are kept; the time is known once it runs.")
    other = jobs.busy(cells.PURPOSE)
    if other is not None:
        left.text(f"{other.title} is still running; this can start when it is done.")
    if right.button(
        "Continue" if found.points else "Start", type="primary", disabled=other is not None, key="tradeoff.start"
    ):
        cells.begin(sweep)
        st.rerun()


def _banded(curves: Frontier, current: list[str], opened: str) -> set[str] | None:
    """The methods that have bands: all, or where those would hide each other what is set in Explore or opened."""
    if len({p.point.method for p in curves.points}) <= MOST_BANDED:
        return None
    return {p.point.method for p in curves.points if p.point.label in (*current, opened)}


def _said(curves: Frontier, sweep: Sweep, of: int, some: bool) -> str:
    parts = []
    if sweep.kept:
        drawn = f", drawn at random from {of:,}" if of > len(sweep.queries) else ""
        parts.append(f"Means over the {curves.queries:,} labelled queries that have both metrics everywhere{drawn}.")
        if curves.queries < curves.asked:
            parts.append(f"{curves.asked - curves.queries:,} of {curves.asked:,} do not.")
        if curves.points[0].x_low is not None:
            whose = "of what is set in Explore or opened, " if some else ""
            parts.append(
                f"Bands: 95 % intervals of the mean {whose}a paired bootstrap over these queries "
                f"({curves.resamples:,} draws), each for its point alone; methods of many curves have none."
            )
    else:
        parts.append("One query: no band, as one query says nothing of others.")
    parts.append("Outlined: no other point has as much of both. Dotted: the baseline. Click a point for its sets.")
    if curves.left_out:
        parts.append(f"{len(curves.left_out)} settings returned too little to be drawn.")
    return " ".join(parts)
