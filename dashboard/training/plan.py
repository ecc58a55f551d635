"""What a training would take, and its start."""

from __future__ import annotations

from functools import partial

import streamlit as st

from dashboard import jobs
from dashboard.jobs import Job
from dashboard.parts import watch
from dashboard.state import Loaded
from dashboard.training import earlier, runs
from dashboard.training.request import LOOK, Request, look
from engine.learning.training.course import Foreseen
from engine.learning.training.recipes import RECIPES, declared
from engine.progress import spoken
from engine.values import showable

LOOKED, OUTCOMES, MINE = "train.looked", "train.outcomes", "train.mine"
"""Where a session keeps what was foreseen, what came of runs, and the run that its job is."""


def show(plain: Loaded, request: Request, digest: str) -> None:
    """What training would do; the buttons that say how long it takes, and that start it."""
    what, estimate, train = st.columns([5, 1, 1], vertical_alignment="center")
    recipe, qrels = RECIPES[request.method], request.qrels(plain.dataset)
    with what:
        st.title("Train")
        parts = [f"{len(qrels[request.train]):,} queries of {request.train} to learn from"]
        parts.append(f"{len(qrels[request.dev]):,} of {request.dev} to choose by")
        if request.test is not None:
            parts.append(f"{len(qrels[request.test]):,} of {request.test} to report on")
        st.text(showable(f"{recipe.title}: {', '.join(parts)}."))
        if request.divide is not None:
            st.text(
                showable(
                    f"They are the {len(plain.dataset.qrels[request.divide]):,} queries of {request.divide}, divided "
                    f"at random with seed {request.parting}: no query is in two parts."
                )
            )
    known: dict[str, Foreseen] = st.session_state.setdefault(LOOKED, {})
    going = runs.under_way(digest) is not None
    job = jobs.mine().get(LOOK)
    looking_now = job is not None and job.running
    blocked = jobs.busy()
    waits = f"{blocked.title} is still running: one piece of long work at a time." if blocked else None
    if estimate.button(
        "Estimate",
        key="train.look",
        disabled=blocked is not None,
        help=waits or "Times the first steps of every stage.",
        width="stretch",
    ):
        jobs.start(LOOK, "timing the first steps", partial(_looked, request, plain, digest))
        st.rerun()
    if train.button(
        "Train",
        type="primary",
        key="train.start",
        disabled=blocked is not None or going,
        help=waits,
        width="stretch",
    ):
        begin(plain, request)
        st.rerun()
    if looking_now:
        watch(job, "train.look.cancel")
    elif job is not None and job.result is not None:
        known[job.result[0]] = job.result[1]
    elif job is not None and job.error:
        st.error("How long it takes cannot be told.", icon=":material/error:")
        st.text(showable(job.error))
    if digest in known:
        _foreseen(known[digest], request)


def _looked(request: Request, plain: Loaded, digest: str, job: Job) -> tuple[str, Foreseen]:
    return digest, look(request, plain, job)


def _foreseen(found: Foreseen, request: Request) -> None:
    own = found.method
    with st.container(horizontal=True, border=True):
        st.metric("Queries to learn from", f"{own.queries:,}")
        st.metric("Mean |S|", f"{own.mean_relevant:.2f}", help="Relevant documents a query.")
        st.metric("Left out", f"{own.left_out:,}", help="Queries without a relevant document in the corpus.")
        st.metric("Repeated", f"{found.repeated:,}", help="Queries left out as another split has the same text.")
        st.metric("Steps an epoch", f"{own.steps:,}")
        st.metric("An epoch", _seconds(found.seconds_an_epoch), help="With its look at dev.")
        st.metric(
            "At most, in all",
            _seconds(found.seconds),
            help="All epochs of every stage: "
            + ", ".join(f"{name} {_seconds(stage.seconds)}" for name, stage in found.stages.items())
            + ". Most stop earlier.",
        )
    given = dict(request.params)
    late = RECIPES[request.method].late
    if unset := [p.symbol for p in declared(request.method) if p.name in late and p.name not in given]:
        st.caption(f"Choosing {', '.join(unset)} by the data comes on top, where that means trying them on dev.")


def _seconds(seconds: float) -> str:
    return spoken(seconds) if seconds >= 1 else "< 1 s"


def begin(plain: Loaded, request: Request) -> None:
    """Train, go on, or read what is finished; and look at it."""
    digest = runs.start(plain, request)
    st.session_state.setdefault(OUTCOMES, {}).pop(digest, None)
    st.session_state[MINE] = digest
    earlier.look_at(plain, digest)
