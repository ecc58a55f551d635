"""The Tune screen: the form, the work under way or stopped, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import streamlit as st

from dashboard import jobs, passages
from dashboard.explore import setting
from dashboard.jobs import Job
from dashboard.parts import POLL, show_progress
from dashboard.state import Loaded
from dashboard.training import kept
from dashboard.tuning import form, result, views
from dashboard.tuning.request import PURPOSE, Outcome, Request, Splits, run
from engine.errors import FrontierError
from engine.evaluation.aspects import digest_of_aspects
from engine.values import digest_of, showable

OUTCOMES, STARTED = "tune.outcomes", "tune.started"


@dataclass(frozen=True, eq=False)
class Started:
    """What was started last: on which corpus, and how many settings that is at most."""

    request: Request
    digest: str
    corpus: str
    count: int


def show(loaded: Loaded) -> None:
    """The main area of Tune, and its form in the sidebar."""
    made = passages.offered(loaded) and _passages_wanted()
    if not loaded.dataset.qrels and not made:
        return _teach(
            "Tuning needs judgements: which documents answer which queries. Without them nobody can say what a setting "
            "costs, so there is no objective that does without.",
            "A BEIR folder (corpus.jsonl, queries.jsonl, qrels/*.tsv) on the Data page brings them, and the built-in "
            "demo of NumPy's functions has them. Explore works without."
            + (
                f"\n\n“{passages.NAME}” in the sidebar stand in for them: to see what a setting does to finding texts "
                "again, not to people's questions."
                if passages.offered(loaded)
                else ""
            ),
        )
    if loaded.space.encoder is None:
        return _teach(
            "This corpus came with its own vectors, so there is no encoder to embed its queries with.",
            "Load the texts on the Data page and choose an encoder there, or tune with engine.tune, which takes the "
            "queries' vectors.",
        )
    if made and (loaded := passages.judged(loaded)) is None:
        return None
    with st.sidebar:
        request = form.ask(loaded)
    _plan(loaded, request)
    if made:
        passages.explain(loaded)
    job = jobs.mine().get(PURPOSE)
    started: Started | None = st.session_state.get(STARTED)
    digest = _identity(loaded)
    outcomes: dict[str, Outcome] = st.session_state.setdefault(OUTCOMES, {})
    if job is not None and started is not None:
        # Asked before the result: it may come between the two.
        going = job.running and not job.stop.is_set()
        if isinstance(job.result, Outcome):
            outcomes[started.digest] = job.result
        elif going:
            return _running(job, started)
        elif job.error is None:
            return _stopped(loaded, job, started, digest)
        else:
            st.error("Tuning ended early.", icon=":material/error:")
            st.text(showable(job.error))
    if digest in outcomes:
        result.show(loaded, outcomes[digest], stale=outcomes[digest].request != request)
    else:
        _introduce()
    return None


def _passages_wanted() -> bool:
    with st.sidebar:
        return st.toggle(
            passages.NAME,
            key="tune.passages",
            persist_state="session",
            help="As labelled queries: parts of the corpus's own texts; right is the document that contains them.",
        )


def _identity(loaded: Loaded) -> str:
    """Names what a result is of: the vectors, the judgements and the aspects."""
    judged = [part for split, qrels in loaded.dataset.qrels.items() for part in (split, qrels.digest)]
    return digest_of([loaded.space.embeddings.digest, digest_of_aspects(loaded.dataset.aspects), *judged])


def _splits(loaded: Loaded, request: Request) -> Splits:
    """The judgements as asked for, which for very many queries takes a second: the last ones are remembered."""
    key = (_identity(loaded), request.choose, request.report, request.halve, request.most)
    last = st.session_state.get("tune.splits")
    if last is None or last[0] != key:
        last = st.session_state["tune.splits"] = (key, request.splits(loaded.dataset))
    return last[1]


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


def _plan(loaded: Loaded, request: Request) -> None:
    """What starting would do, or why it cannot; and the button."""
    what, start = st.columns([5, 1], vertical_alignment="center")
    problem = count = None
    try:
        count = request.settings.count(request.trials)
        setting.usable(request.like, loaded.space)
        splits = _splits(loaded, request)
    except FrontierError as error:
        problem = showable(str(error))
    with what:
        st.title("Tune")
        if problem:
            st.error("This cannot be tuned as it is asked.", icon=":material/error:")
            st.text(problem)
        else:
            named = request.settings.spec.title
            then = (
                ""
                if splits.test is None
                else f", then the best one on {len(splits.queries[splits.test]):,} of {splits.test}"
            )
            st.text(
                showable(
                    f"{named}, {count:,} settings and the baseline on {len(splits.queries[splits.dev]):,} queries of "
                    f"{splits.dev}{then}, for {request.objective.text}."
                )
            )
            kept.warn(loaded, splits.asked)
    job = jobs.mine().get(PURPOSE)
    going = job is not None and job.running and not job.stop.is_set()
    other = jobs.busy(PURPOSE)
    if start.button(
        "Start",
        type="primary",
        key="tune.start",
        disabled=bool(problem or going or other),
        help=f"{other.title} is still running: one piece of long work at a time." if other else None,
        width="stretch",
    ):
        _start(loaded, request, count)
        st.rerun()


def _start(loaded: Loaded, request: Request, count: int) -> None:
    jobs.start(PURPOSE, f"tuning {request.method}", partial(run, request, loaded))
    space = loaded.space
    st.session_state[STARTED] = Started(request, _identity(loaded), space.corpus.name, count)


@st.fragment(run_every=POLL)
def _running(job: Job, started: Started) -> None:
    if not job.running or job.stop.is_set():
        st.rerun()
    with st.container(border=True):
        st.text(showable(f"{_named(started)} on {started.corpus}"))
        bar, cancel = st.columns([5, 1], vertical_alignment="center")
        with bar:
            show_progress(job)
        cancel.button("Cancel", key="tune.cancel", on_click=job.cancel, width="stretch")
    _so_far(job, started)


def _stopped(loaded: Loaded, job: Job, started: Started, digest: str) -> None:
    """What is known of a run that was cancelled, and how to go on."""
    known = len([p for p in job.partial or () if p.method == started.request.method])
    kept = "What is finished is kept: going on starts from there."
    st.info(
        f"Stopped with {known:,} of {started.count:,} settings measured. {kept}",
        icon=":material/pause:",
    )
    st.text(showable(f"{_named(started)} on {started.corpus}"))
    with st.container(horizontal=True):
        elsewhere = started.digest != digest
        if st.button(
            "Go on",
            type="primary",
            key="tune.on",
            disabled=elsewhere or jobs.busy(PURPOSE) is not None,
            help="It was of another corpus: choose that one on the Data page." if elsewhere else None,
        ):
            _start(loaded, started.request, started.count)
            st.rerun()
        if st.button("Dismiss", key="tune.dismiss", help="Shows the last result again. What was measured stays kept."):
            jobs.mine().pop(PURPOSE)
            st.session_state.pop(STARTED)
            st.rerun()
    _so_far(job, started)


def _named(started: Started) -> str:
    request = started.request
    return f"{request.settings.spec.title} for {request.objective.text}, k = {request.k}"


def _so_far(job: Job, started: Started) -> None:
    """The settings measured until now."""
    found: list[Any] = job.partial or []
    own = [p for p in found if p.method == started.request.method]
    base = next((p for p in found if p.method != started.request.method), None)
    if base is None or not own:
        if job.running:
            st.caption("What is measured appears here as it is finished.")
        return
    st.caption(f"So far: {len(own):,} of {started.count:,} settings, on the queries to choose on. None is chosen yet.")
    views.show(own, base, started.request.k, started.request.objective)
