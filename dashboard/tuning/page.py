"""The Tune page: the form, the tuning under way or stopped, its result."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import streamlit as st

from dashboard.services import jobs, passage_queries, trained
from dashboard.services.memo import remembered
from dashboard.services.source import Loaded
from dashboard.session import decoders
from dashboard.tuning import form, result, views
from dashboard.tuning.request import PURPOSE, Splits, TuningOutcome, TuningRequest, run
from dashboard.widgets import passages
from dashboard.widgets.failure import show_failure
from dashboard.widgets.job_panel import JobPanel, blocked_by, show_end
from engine.errors import FrontierError
from engine.evaluation.aspects import digest_of_aspects
from engine.evaluation.sweep.cell import Cell
from engine.values import digest_of, replace_surrogates

OUTCOMES, SPLITS = "tune.outcomes", "tune.splits"
"""Where a session keeps what tunings found, and the judgements as asked for last."""


@dataclass(frozen=True, eq=False)
class StartedTuning:
    """The key of a tuning job."""

    request: TuningRequest
    digest: str  # of what it is measured on
    corpus: str  # the name
    count: int  # of the settings, at most


def show(loaded: Loaded) -> None:
    """The main area of Tune, and its form in the sidebar."""
    with_passages = passages.toggle(loaded, "tune.passages")
    if not loaded.dataset.qrels and not with_passages:
        return _teach(
            "Tuning needs judgements: which documents answer which queries. Without them nobody can say what a setting "
            "costs, so there is no objective that does without.",
            "A BEIR folder (corpus.jsonl, queries.jsonl, qrels/*.tsv) on the Data page brings them, and the built-in "
            "demo of NumPy's functions has them. Explore works without."
            + (
                f"\n\n“{passage_queries.NAME}” in the sidebar stand in for them: to see what a setting does to finding "
                "texts again, not to people's questions."
                if passage_queries.offered(loaded)
                else ""
            ),
        )
    if loaded.space.encoder is None:
        return _teach(
            "This corpus came with its own vectors, so there is no encoder to embed its queries with.",
            "Load the texts on the Data page and choose an encoder there, or tune with engine.tune, which takes the "
            "queries' vectors.",
        )
    if with_passages:
        judged = passages.judged(loaded)
        if judged is None:
            return None
        loaded = judged
    with st.sidebar:
        request = form.ask(loaded)
    _plan(loaded, request)
    if with_passages:
        passages.explain(loaded)
    job = jobs.mine().get(PURPOSE)
    outcomes: dict[str, TuningOutcome] = st.session_state.setdefault(OUTCOMES, {})
    if job is not None and job.error:
        show_end(job, "Tuning ended early.")
    elif job is not None:
        outcome = _panel(loaded, job.key).result()
        if outcome is None:
            return None
        outcomes[job.key.digest] = outcome
    last = outcomes.get(_identity(loaded))
    return _introduce() if last is None else result.show(loaded, last, stale=last.request != request)


def _identity(loaded: Loaded) -> str:
    """Names what a result is of: the vectors, the judgements and the aspects."""
    judged = [part for split, qrels in loaded.dataset.qrels.items() for part in (split, qrels.digest)]
    return digest_of([loaded.space.embeddings.digest, digest_of_aspects(loaded.dataset.aspects), *judged])


def _splits(loaded: Loaded, request: TuningRequest) -> Splits:
    """The judgements as asked for, which for very many queries takes a second: the last ones are remembered."""
    key = (_identity(loaded), request.choose, request.report, request.halve, request.most)
    return remembered(SPLITS, key, lambda: request.splits(loaded.dataset), 1)


def _teach(why: str, fix: str) -> None:
    st.title("Tune")
    st.info(why, icon=":material/tune:")
    st.text(fix)


def _introduce() -> None:
    st.text(
        "Every setting is measured on the queries to choose on. The best one for the objective is then measured once "
        "on the queries to report on, beside the baseline: what it gains there is what you can expect of it, with "
        "intervals and a test.\n\nChoose a decoder and an objective in the sidebar, then start."
    )


def _plan(loaded: Loaded, request: TuningRequest) -> None:
    """Draw the work of a start or its obstacle, and the button."""
    summary, start = st.columns([5, 1], vertical_alignment="center")
    problem, count = False, 0
    with summary:
        st.title("Tune")
        try:
            count = request.settings.count(request.trials)
            decoders.checked(request.like, loaded.space)
            splits = _splits(loaded, request)
        except FrontierError as error:
            problem = True
            show_failure("This cannot be tuned as it is asked.", error)
        else:
            named, test = request.settings.spec.title, splits.test
            then = "" if test is None else f", then the best one on {len(splits.queries[test]):,} of {test}"
            plan = f"{named}, {count:,} settings and the baseline on {len(splits.queries[splits.dev]):,} queries"
            st.text(replace_surrogates(f"{plan} of {splits.dev}{then}, for {request.objective.text}."))
            trained.warn(loaded, splits.all_queries)
    job, waits = jobs.mine().get(PURPOSE), blocked_by(PURPOSE)
    locked = bool(problem or waits or (job is not None and job.going))
    if start.button("Start", type="primary", key="tune.start", disabled=locked, help=waits, width="stretch"):
        started = StartedTuning(request, _identity(loaded), loaded.space.corpus.name, count)
        _panel(loaded, started).begin()
        st.rerun()


def _panel(loaded: Loaded, started: StartedTuning) -> JobPanel[TuningOutcome]:
    """The panel of a tuning: what is known of it while it runs, and how to go on after a stop."""
    job, request = jobs.mine().get(PURPOSE), started.request
    known = sum(cell.method == request.method for cell in (job and job.partial) or ())
    elsewhere = started.digest != _identity(loaded)
    named = f"{request.settings.spec.title} for {request.objective.text}"
    return JobPanel(
        purpose=PURPOSE,
        key=started,
        title=f"tuning {request.method}",
        work=partial(run, request, loaded),
        by_itself=False,
        on_partial=partial(_so_far, started),
        heading=replace_surrogates(f"{named}, k = {request.k} on {started.corpus}"),
        caption="" if known else "What is measured appears here as it is finished.",
        stopped=f"Stopped with {known:,} of {started.count:,} settings measured. What is finished is kept: going on "
        "starts from there.",
        locked="It was of another corpus: choose that one on the Data page." if elsewhere else "",
        dismiss="Shows the last result again. What was measured stays kept.",
    )


def _so_far(started: StartedTuning, cells: Sequence[Cell]) -> None:
    """Draw the settings measured until now."""
    measured = [cell for cell in cells if cell.method == started.request.method]
    base = next((cell for cell in cells if cell.method != started.request.method), None)
    if base is None or not measured:
        return
    st.caption(
        f"So far: {len(measured):,} of {started.count:,} settings, on the queries to choose on. None is chosen yet."
    )
    views.show(measured, base, started.request.k, started.request.objective)
