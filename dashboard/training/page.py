"""The Train view of the Tune page: the form, what it would take, the training under way or stopped, what came of it."""

from __future__ import annotations

import streamlit as st

from dashboard import jobs, passages
from dashboard.jobs import Job
from dashboard.parts import POLL, show_progress
from dashboard.state import Loaded
from dashboard.training import earlier, form, looking, plan, result, runs
from dashboard.training.plan import MINE, OUTCOMES
from dashboard.training.request import LOOK, PURPOSE, Outcome, Request, Seen
from engine.errors import FrontierError
from engine.learning.training.course import histories
from engine.learning.training.recipes import made
from engine.values import showable


def show(loaded: Loaded) -> None:
    """The main area of Train, and its form in the sidebar."""
    # Training begins with the encoder's own embeddings, whatever the session looks at.
    plain = loaded.plain
    made = passages.offered(plain) and _passages_wanted()
    if plain.space.encoder is None:
        return _teach(
            loaded,
            "This corpus came with its own vectors, so there is no encoder to embed its queries with.",
            "Load the texts on the Data page and choose an encoder there, or train with engine.train, which takes the "
            "queries' vectors.",
        )
    dataset = plain.dataset
    if not any(len(dataset.judged(split)) for split in dataset.qrels) and not made:
        more = (
            f"\n\n“{passages.NAME}” in the sidebar stand in for them: the embeddings then learn to find a text again "
            "by a part of it, which is less than to answer people's questions."
        )
        return _teach(
            loaded,
            "Training needs judgements: which documents answer which queries. There are none to learn from.",
            "A BEIR folder (corpus.jsonl, queries.jsonl, qrels/*.tsv) on the Data page brings them, and the built-in "
            "demo of NumPy's functions has them. Some hundred judged queries are few, some thousand are good."
            + (more if passages.offered(plain) else ""),
        )
    if made and (plain := passages.judged(plain)) is None:
        return None
    try:
        with st.sidebar:
            request = form.ask(plain, made)
        digest = request.digest(plain)
    except FrontierError as error:
        return _refused(showable(str(error)))
    _join(plain)
    plan.show(plain, request, digest)
    result.in_use(loaded)
    if made:
        passages.explain(plain)
    at = earlier.looked_at(plain)
    if at is None:
        _introduce(request)
    else:
        _run(loaded, plain, at, stale=at != digest)
    earlier.show(plain)
    return None


def _passages_wanted() -> bool:
    with st.sidebar:
        return st.toggle(
            passages.NAME,
            key="train.passages",
            persist_state="session",
            help="As labelled queries: parts of the corpus's own texts; right is the document that contains them.",
        )


def _teach(loaded: Loaded, why: str, fix: str) -> None:
    st.title("Train")
    st.info(why, icon=":material/model_training:")
    st.text(fix)
    result.in_use(loaded)


def _refused(why: str) -> None:
    st.title("Train")
    st.error("This cannot be trained as it is asked.", icon=":material/error:")
    st.text(why)


def _introduce(request: Request) -> None:
    learns = made(request.method, **dict(request.params)).learns
    st.text(
        f"What is trained: {learns}. After every epoch other queries, those to choose by, say whether it got better, "
        "and the best weights are kept. The same start is trained on for as long without the method: that is the "
        "control, and a method that does not beat it is not worth its training. "
        + (
            "The table at the end is of queries that nothing was learnt from or chosen by."
            if request.test is not None
            else "The table at the end is of the queries to choose by, as none are left to report on."
        )
    )
    estimate = jobs.mine().get(LOOK)
    if estimate is None or not estimate.running:
        st.text("Choose a method in the sidebar, estimate what it takes, then train.")


def _join(plain: Loaded) -> None:
    """Take up what another window of this corpus has under way, as after a reload, where this one has nothing."""
    if PURPOSE in jobs.mine() or earlier.looked_at(plain) is not None or jobs.busy(PURPOSE):
        return
    for one in runs.of(plain):
        if (job := runs.under_way(one.digest)) is not None:
            jobs.share(PURPOSE, job)
            st.session_state[MINE] = one.digest
            earlier.look_at(plain, one.digest)
            return


def _run(loaded: Loaded, plain: Loaded, digest: str, stale: bool) -> None:
    """The run that is looked at: under way, stopped, failed or finished."""
    request = earlier.request_of(plain, digest)
    if request is None:
        st.info("This training has been deleted.")
        earlier.look_at(plain, None)
        return
    outcomes: dict[str, Outcome] = st.session_state.setdefault(OUTCOMES, {})
    job = jobs.mine().get(PURPOSE) if st.session_state.get(MINE) == digest else None
    if job is not None and job.running:
        return _running(job, earlier.named(request))
    if job is not None and isinstance(job.result, Outcome):
        outcomes[digest] = job.result
    outcome = outcomes.get(digest)
    with st.container(horizontal=True, vertical_alignment="center"):
        st.text(showable(earlier.named(request)))
        if stale:
            st.badge("of an earlier form", icon=":material/history:", color="gray")
    if job is not None and job.error:
        return _failed(plain, request, digest, job.error)
    if outcome is None or outcome.table is None:
        return _stopped(loaded, plain, request, digest, outcome)
    result.unlearnt(outcome.stages)
    result.table(outcome, digest)
    result.use(loaded, digest, outcome.stages)
    st.subheader("How it went", anchor=False)
    looking.show(outcome.seen, "train.after")
    result.ends(outcome)
    return None


@st.fragment(run_every=POLL)
def _running(job: Job, name: str) -> None:
    if not job.running:
        st.rerun()
    with st.container(border=True):
        st.text(showable(name))
        bar, cancel = st.columns([5, 1], vertical_alignment="center")
        with bar:
            show_progress(job)
        stopping = job.stop.is_set()
        cancel.button(
            "Stopping" if stopping else "Cancel",
            key="train.cancel",
            on_click=job.cancel,
            disabled=stopping,
            width="stretch",
            help="After the step under way; the best so far is kept.",
        )
    if isinstance(job.partial, Seen):
        looking.show(job.partial, "train.now")


def _is(plain: Loaded, request: Request, digest: str) -> bool:
    """Whether a request still means this run: judgements may have changed, and passages be off."""
    try:
        return request.digest(plain) == digest
    except FrontierError:
        return False


def _failed(plain: Loaded, request: Request, digest: str, why: str) -> None:
    st.error("Training ended early.", icon=":material/error:")
    st.text(showable(why))
    blocked = jobs.busy() is not None or not _is(plain, request, digest)
    with st.container(horizontal=True):
        if _readable(request, digest):
            st.button(
                "Go on",
                type="primary",
                key="train.on",
                on_click=plan.begin,
                args=(plain, request),
                disabled=blocked,
                help="From the last whole epoch, which is kept.",
            )
        st.button(
            "Train anew",
            key="train.anew",
            on_click=_anew,
            args=(plain, request, digest),
            disabled=blocked,
            help="Deletes this training's checkpoints and begins again. Embeddings in use stay.",
        )


def _readable(request: Request, digest: str) -> bool:
    """Whether there is something to go on from."""
    try:
        return bool(histories(runs.folder(digest), request.method))
    except FrontierError:
        return False


def _anew(plain: Loaded, request: Request, digest: str) -> None:
    runs.forget(digest)
    plan.begin(plain, request)


def _stopped(loaded: Loaded, plain: Loaded, request: Request, digest: str, outcome: Outcome | None) -> None:
    """What is known of a run that is not over, and how to go on."""
    try:
        seen = outcome.seen if outcome is not None else Seen(histories(runs.folder(digest), request.method), {})
        stages = runs.stages(digest, request)
    except FrontierError as error:
        return _failed(plain, request, digest, str(error))
    over = runs.over(digest, request)
    known = [name for name, history in seen.histories.items() if history]
    other = not _is(plain, request, digest)
    # Not where a person has just cancelled that.
    if over and outcome is None and not other and jobs.busy() is None:
        plan.begin(plain, request)
        st.rerun()
    if over:
        st.info("This training is finished; its table is to be made again.", icon=":material/check:")
    else:
        at = f"Stopped in {known[-1]}" if known else "Stopped before its first epoch"
        if outcome is not None and outcome.stages:
            at = f"{outcome.stages[-1].name}: {outcome.stages[-1].stopped}"
        st.info(
            f"{at}. The best so far is kept: going on starts from the last whole epoch.",
            icon=":material/pause:",
        )
    with st.container(horizontal=True):
        if st.button(
            "Show the table" if over else "Go on",
            type="primary",
            key="train.on",
            disabled=other or jobs.busy() is not None,
            help="It was of other judgements than these." if other else None,
        ):
            plan.begin(plain, request)
            st.rerun()
        if st.button("Close", key="train.close", help="It stays below, among the trainings of this corpus."):
            earlier.look_at(plain, None)
            st.rerun()
    if known:
        looking.show(seen, "train.stopped")
        result.use(loaded, digest, stages)
    return None
