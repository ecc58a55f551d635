"""The Train view of the Tune page: the form, the estimate, the training under way, its result, and the list of all."""

from contextlib import suppress
from functools import partial
from typing import Any

import streamlit as st

from dashboard.charts.training import plot_training
from dashboard.components.live_plot import is_dark, plot
from dashboard.services import jobs, passage_queries, training_runs
from dashboard.services.source import Loaded
from dashboard.services.training_request import (
    ESTIMATE_PURPOSE,
    TRAINING,
    TrainingOutcome,
    TrainingProgress,
    TrainingRequest,
    estimate_training,
)
from dashboard.session.query import count_judged
from dashboard.training import form, result
from dashboard.widgets import passages
from dashboard.widgets.basics import show_failure, step_button
from dashboard.widgets.choices import choose
from dashboard.widgets.job_panel import JobPanel, draw_run_button, draw_running
from engine.errors import FrontierError
from engine.progress import format_duration
from engine.training.experiment import Foreseen, histories
from engine.training.recipes import RECIPES, declared_params, make_recipe
from engine.views.training import curves, find_best_epoch, select_compared_systems
from engine.wording import visible

DATA = "screens/data.py"
LOOKED, OUTCOMES, MINE = "train.looked", "train.outcomes", "train.mine"
"""Where a session keeps estimates, results, and the digest of the training that its job runs."""
AT, MOST_LISTED = "train.at", 12


def show(loaded: Loaded) -> None:
    """The form, the training that is shown, and the list of all."""
    # Training begins with the encoder's own embeddings, whatever the session looks at.
    plain = loaded.without_training
    with_passages = passages.draw_toggle(plain, "train.passages", st.container())
    if plain.space.encoder is None:
        return _teach(
            loaded,
            "This corpus came with its own vectors, so there is no encoder to embed its queries with.",
            "Load the texts and choose an encoder, or train with engine.train, which takes the queries' vectors.",
        )
    if not count_judged(plain.dataset) and not with_passages:
        more = f" Or turn on “{passage_queries.PASSAGES_TITLE}” above." if passage_queries.can_make(plain) else ""
        return _teach(
            loaded,
            "Training needs judgements: which documents answer which queries.",
            "Load a BEIR folder (corpus.jsonl, queries.jsonl, qrels/*.tsv), or judge under Data → Judge. "
            f"A few hundred judged queries are few, a few thousand are good.{more}",
        )
    if with_passages:
        judged = passages.replace_by_passages(plain)
        if judged is None:
            return None
        plain = judged
    try:
        request = form.ask(plain, with_passages)
        digest = request.digest(plain) if request is not None else ""
    except FrontierError as error:
        return show_failure("These settings cannot be trained.", error)
    _join(plain)
    if request is not None:
        _start_and_estimate(plain, request, digest)
    result.in_use(loaded)
    if with_passages:
        passages.draw_explanation(plain)
    shown = _shown_digest(plain)
    if shown is None and request is not None:
        _introduce(request)
    if shown is not None:
        _run(loaded, plain, shown, stale=shown != digest)
    _list_trainings(plain)
    return None


def _teach(loaded: Loaded, why: str, fix: str) -> None:
    st.info(why, icon=":material/model_training:")
    st.text(fix)
    if st.button("Load a corpus", type="primary", key="train.load"):
        st.switch_page(DATA)
    result.in_use(loaded)


def _introduce(request: TrainingRequest) -> None:
    learns = make_recipe(request.method, **dict(request.params)).learns
    reported = "the table is of the test queries"
    if request.test is None:
        reported = "the table is of the validation queries, as there are no test queries"
    st.text(
        f"Trains {learns}. The best epoch on the validation queries is kept; {reported}. The control is the same start "
        "trained as long without the method: a method that does not beat it is not worth its training."
    )


def _join(plain: Loaded) -> None:
    """Join a training that another window of this corpus has under way, as after a reload."""
    if TRAINING in jobs.get_session_jobs() or _shown_digest(plain) is not None or jobs.find_blocker(TRAINING):
        return
    for training in training_runs.list_trainings(plain):
        if (job := training_runs.find_training_job(training.digest)) is not None:
            jobs.attach_job(TRAINING, job)
            st.session_state[MINE] = training.digest
            _look_at(plain, training.digest)
            return


def _run(loaded: Loaded, plain: Loaded, digest: str, stale: bool) -> None:
    """Draw the training that is shown: under way, stopped, failed or finished."""
    requests = {training.digest: training.request for training in training_runs.list_trainings(plain)}
    request = requests.get(digest)
    if request is None:
        st.info("This training has been deleted.")
        _look_at(plain, None)
        return
    outcomes: dict[str, TrainingOutcome] = st.session_state.setdefault(OUTCOMES, {})
    job = jobs.get_session_jobs().get(TRAINING) if st.session_state.get(MINE) == digest else None
    title = visible(_describe(request))
    if job is not None and job.running and not jobs.is_unsubscribed(job):
        why = "Stops after this step; progress is saved."
        return draw_running(
            job, "train.cancel", partial(_draw_curves, "train.now"), title=title, to_end=True, cancel_help=why
        )
    if job is not None and isinstance(job.result, TrainingOutcome):
        outcomes[digest] = job.result
    outcome = outcomes.get(digest)
    with st.container(horizontal=True, vertical_alignment="center"):
        st.text(title)
        if stale:
            st.badge("from earlier settings", icon=":material/history:", color="gray")
    if job is not None and job.error:
        return _failed(plain, request, digest, job.error)
    if outcome is None or outcome.table is None:
        return _stopped(loaded, plain, request, digest, outcome)
    result.warn_of_unlearnt(outcome.stages)
    result.table(outcome, outcome.table, digest)
    result.use_buttons(loaded, digest, outcome.stages)
    st.subheader("Training curves", anchor=False)
    _draw_curves("train.after", outcome.progress)
    result.ends(outcome)
    return None


def _draw_curves(key: str, progress: TrainingProgress | None) -> None:
    """The curves of the stage that a person chose, the newest one at first."""
    if progress is None:
        return
    stages = [name for name, history in progress.histories.items() if history]
    if not stages:
        st.caption("The first validation appears here.")
        return
    why = "The start, its control (the start trained on for as long), and the method."
    # Where a stage has begun since, it is what people look for.
    stage = choose("Stage", stages, f"{key}.stage.{len(stages)}", default=stages[-1], show_label=True, help=why)
    history = progress.histories[stage]
    lines = select_compared_systems(stage, progress.histories, progress.lines)
    points = curves(history, lines)
    figure = plot_training(stage, points, is_dark())
    plot(figure, f"{key}.{stage}", file=f"training-{stage}", label=f"Training of {stage}")
    best = find_best_epoch(history)
    when = "before the first epoch" if best.epoch < 0 else f"after epoch {best.epoch}"
    st.caption(
        f"Best on dev {when}; those weights are kept. Epoch −1 is before training."
        + (f" Lines: what {stage} is compared with, each at its own best on dev." if lines else "")
    )


def _still_means(plain: Loaded, request: TrainingRequest, digest: str) -> bool:
    """Whether a request still means this training: judgements may have changed, and passages be off."""
    with suppress(FrontierError):
        return request.digest(plain) == digest
    return False


def _failed(plain: Loaded, request: TrainingRequest, digest: str, why: str) -> None:
    show_failure("Training failed.", why)
    blocked = jobs.find_blocker() is not None or not _still_means(plain, request, digest)
    readable = False
    with suppress(FrontierError):
        readable = bool(histories(training_runs.training_folder(digest), request.method))

    def retry() -> None:
        training_runs.delete_training(digest)
        _begin(plain, request)

    with st.container(horizontal=True):
        if readable:
            why = "Continues from the last complete epoch."
            how: dict[str, Any] = {"type": "primary", "disabled": blocked, "help": why}
            step_button("Resume", "train.on", _begin, plain, request, **how)
        why = "Deletes this training's checkpoints and starts again. Embeddings in use stay."
        step_button("Retry", "train.anew", retry, disabled=blocked, help=why)


def _stopped(
    loaded: Loaded, plain: Loaded, request: TrainingRequest, digest: str, outcome: TrainingOutcome | None
) -> None:
    """Draw what is known of a training that is not over, and how to go on."""
    try:
        known = outcome and outcome.progress
        progress = known or TrainingProgress(histories(training_runs.training_folder(digest), request.method), {})
        stages = training_runs.load_stages(digest, request)
    except FrontierError as error:
        return _failed(plain, request, digest, str(error))
    finished, changed = training_runs.is_training_finished(digest, request), not _still_means(plain, request, digest)
    begun = [name for name, history in progress.histories.items() if history]
    # Not where a person has just cancelled that.
    if finished and outcome is None and not changed and jobs.find_blocker() is None:
        _begin(plain, request)
        st.rerun()
    if finished:
        st.info("This training is finished. Its table is not there yet.", icon=":material/check:")
    else:
        reason = f"Stopped in {begun[-1]}" if begun else "Stopped before its first epoch"
        if outcome is not None and outcome.stages:
            reason = f"{outcome.stages[-1].name}: {outcome.stages[-1].stopped}"
        kept = f"{reason}. Progress is saved."
        st.info(kept, icon=":material/stop_circle:")
    with st.container(horizontal=True):
        label, why = "Show the table" if finished else "Resume", "Trained on different judgements."
        how: dict[str, Any] = {"disabled": changed or jobs.find_blocker() is not None, "help": why if changed else None}
        step_button(label, "train.on", _begin, plain, request, type="primary", **how)
        why = "It stays in the list of trainings below."
        step_button("Close", "train.close", _look_at, plain, None, help=why)
    if begun:
        _draw_curves("train.stopped", progress)
        result.use_buttons(loaded, digest, stages)
    return None


def _start_and_estimate(plain: Loaded, request: TrainingRequest, digest: str) -> None:
    """Draw the buttons that start and estimate a training, and the estimate."""
    estimates: dict[str, Foreseen] = st.session_state.setdefault(LOOKED, {})
    panel = JobPanel(
        purpose=ESTIMATE_PURPOSE,
        key=None,
        title="Timing the first steps",
        work=lambda job: (digest, estimate_training(request, plain, job)),
        resume_label="",
        autostart=False,
        failed_text="The time cannot be estimated.",
    )
    with st.container(horizontal=True, vertical_alignment="center"):
        mine = jobs.get_session_jobs().get(TRAINING)
        going = training_runs.find_training_job(digest) is not None or (mine is not None and mine.running)
        if draw_run_button("Run", "train.start", TRAINING, disabled=going):
            _begin(plain, request)
            st.rerun()
        why = "Times the first steps of every stage."
        if st.button("Estimate time", key="train.look", disabled=jobs.find_blocker() is not None, help=why):
            panel.start_job()
            st.rerun()
    if (timed := panel.result()) is not None:
        estimates[timed[0]] = timed[1]
    if digest in estimates:
        _figures(estimates[digest], request)


def _figures(estimated: Foreseen, request: TrainingRequest) -> None:
    method = estimated.method
    with st.container(horizontal=True, border=True):
        st.metric("Training queries", f"{method.queries:,}")
        st.metric("Relevant per query", f"{method.mean_relevant:.2f}")
        st.metric("Left out", f"{method.left_out:,}", help="Queries without a relevant document in the corpus.")
        st.metric("Repeated", f"{estimated.repeated:,}", help="Queries left out, as another part has the same text.")
        st.metric("Steps per epoch", f"{method.steps:,}")
        st.metric("Time per epoch", _seconds(estimated.seconds_an_epoch), help="With validation.")
        stages = ", ".join(f"{name} {_seconds(stage.seconds)}" for name, stage in estimated.stages.items())
        every = f"All epochs of every stage: {stages}. Most stop earlier."
        st.metric("Total, at most", _seconds(estimated.seconds), help=every)
    params = dict(request.params)
    late = RECIPES[request.method].late
    if unset := [p.symbol for p in declared_params(request.method) if p.name in late and p.name not in params]:
        st.caption(f"Choosing {', '.join(unset)} on the validation queries takes extra time.")


def _seconds(seconds: float) -> str:
    return format_duration(seconds) if seconds >= 1 else "< 1 s"


def _begin(plain: Loaded, request: TrainingRequest) -> None:
    """Train, go on, or read what is finished; and show it."""
    digest = training_runs.start_training(plain, request)
    st.session_state.setdefault(OUTCOMES, {}).pop(digest, None)
    st.session_state[MINE] = digest
    _look_at(plain, digest)


def _shown_digest(plain: Loaded) -> str | None:
    """The training that the session shows on these embeddings."""
    shown: dict[str, str | None] = st.session_state.setdefault(AT, {})
    return shown.get(plain.space.embeddings.digest)


def _look_at(plain: Loaded, digest: str | None) -> None:
    """Show another training, None for none, from the next run of the page on."""
    st.session_state.setdefault(AT, {})[plain.space.embeddings.digest] = digest


def _describe(request: TrainingRequest) -> str:
    """A training in words: its method, what is not at its default, its splits and its seed."""
    params = dict(request.params)
    recipe = RECIPES[request.method]
    changed = [
        f"{p.symbol} = {p.text(params[p.name])}"
        for p in declared_params(request.method)
        if p.name in params and (params[p.name] != p.default or p.name in recipe.late)
    ]
    where = request.train if request.divide is None else f"parts of {request.divide} (seed {request.parting})"
    return ", ".join([recipe.title, *changed, f"learnt from {where}", f"seed {request.seed}"])


def _list_trainings(plain: Loaded) -> None:
    """Draw the list of trainings, each with buttons to open and delete it."""
    if not (trainings := training_runs.list_trainings(plain)):
        return
    with st.expander(f"Trainings ({len(trainings):,})"):
        for training in trainings[:MOST_LISTED]:
            with st.container(horizontal=True, vertical_alignment="center", gap="small"):
                described = f"{_describe(training.request)} · {training_runs.describe_status(training)}"
                st.text(visible(described), width="stretch")
                current = training.digest == _shown_digest(plain)
                label, digest = "Shown" if current else "Open", training.digest
                step_button(label, f"train.open.{digest}", _look_at, plain, digest, disabled=current)
                why = "Deletes its checkpoints. Embeddings in use stay (Data page, Cache)."
                going = training_runs.find_training_job(digest) is not None
                step_button("Delete", f"train.delete.{digest}", _delete, plain, digest, disabled=going, help=why)


def _delete(plain: Loaded, digest: str) -> None:
    try:
        training_runs.delete_training(digest)
    except FrontierError as error:
        st.toast(visible(str(error)), icon=":material/error:")
    if _shown_digest(plain) == digest:
        _look_at(plain, None)
