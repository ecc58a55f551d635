"""The Train view of the Tune page: the form, what it would take, the training under way or stopped, what came of it."""

from __future__ import annotations

from functools import partial

import streamlit as st

from dashboard import jobs, passages
from dashboard.jobs import Job
from dashboard.parts import POLL, show_progress, watch
from dashboard.state import Loaded
from dashboard.training import earlier, form, looking, result, runs
from dashboard.training.request import LOOK, PURPOSE, Outcome, Request, Seen, look
from engine.errors import FrontierError
from engine.learning.training.course import Foreseen, histories
from engine.learning.training.recipes import RECIPES, declared
from engine.progress import spoken
from engine.values import showable

LOOKED, OUTCOMES, MINE = "train.looked", "train.outcomes", "train.mine"
"""Where a session keeps what was foreseen, what came of runs, and the run that its job is."""


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
    _plan(plain, request, digest)
    result.in_use(loaded)
    if made:
        passages.explain(plain)
    at = earlier.looked_at(plain)
    if at is None:
        _introduce()
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


def _introduce() -> None:
    st.text(
        "Small adapters over the frozen embeddings learn from the queries to learn from; after every epoch the queries "
        "to choose by say whether it got better, and the best weights are kept. The same start is trained on for as "
        "long without the method: that is the control, and a method that does not beat it is not worth its training. "
        "The table at the end is of queries that nothing was learnt from or chosen by.\n\nChoose a method in the "
        "sidebar, estimate what it takes, then train."
    )


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


def _plan(plain: Loaded, request: Request, digest: str) -> None:
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
        _start(plain, request)
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


def _start(plain: Loaded, request: Request) -> None:
    digest = runs.start(plain, request)
    st.session_state.setdefault(OUTCOMES, {}).pop(digest, None)
    st.session_state[MINE] = digest
    earlier.look_at(plain, digest)


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
    result.table(outcome, digest)
    result.use(loaded, digest, [stage.name for stage in outcome.stages])
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
    st.button(
        "Train anew",
        key="train.anew",
        on_click=_anew,
        args=(plain, request, digest),
        disabled=jobs.busy() is not None or not _is(plain, request, digest),
        help="Deletes this training's checkpoints and begins again. Embeddings in use stay.",
    )


def _anew(plain: Loaded, request: Request, digest: str) -> None:
    runs.forget(digest)
    _start(plain, request)


def _stopped(loaded: Loaded, plain: Loaded, request: Request, digest: str, outcome: Outcome | None) -> None:
    """What is known of a run that is not over, and how to go on."""
    try:
        seen = outcome.seen if outcome is not None else Seen(histories(runs.folder(digest), request.method), {})
    except FrontierError as error:
        return _failed(plain, request, digest, str(error))
    over = runs.over(digest, request)
    known = [name for name, history in seen.histories.items() if history]
    if over:
        st.info("This training is finished; its table is made again in a moment.", icon=":material/check:")
    else:
        at = f"Stopped in {known[-1]}" if known else "Stopped before its first epoch"
        if outcome is not None and outcome.stages:
            at = f"{outcome.stages[-1].name}: {outcome.stages[-1].stopped}"
        st.info(
            f"{at}. The best so far is kept: going on starts from the last whole epoch.",
            icon=":material/pause:",
        )
    with st.container(horizontal=True):
        other = not _is(plain, request, digest)
        if st.button(
            "Show the table" if over else "Go on",
            type="primary",
            key="train.on",
            disabled=other or jobs.busy() is not None,
            help="It was of other judgements than these." if other else None,
        ):
            _start(plain, request)
            st.rerun()
        if st.button("Close", key="train.close", help="It stays below, among the trainings of this corpus."):
            earlier.look_at(plain, None)
            st.rerun()
    if known:
        looking.show(seen, "train.stopped")
        result.use(loaded, digest, known)
    return None
