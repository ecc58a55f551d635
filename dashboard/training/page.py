"""The Train view of the Tune page: the form, the estimate, the training under way, its result, and the list of all."""

from contextlib import suppress
from functools import partial
from typing import Any

import streamlit as st

from dashboard.charts.training import plot_gains, plot_training
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
from dashboard.session import decoders
from dashboard.session.query import count_judged
from dashboard.training import form, result
from dashboard.widgets import passages
from dashboard.widgets.basics import show_failure, step_button
from dashboard.widgets.choices import choose
from dashboard.widgets.job_panel import JobPanel, draw_run_button, draw_running
from engine.errors import FrontierError, ParamError
from engine.evidence.run import load_shipped
from engine.progress import counted, format_duration
from engine.training.experiment import Foreseen, histories
from engine.training.recipe import QUERY_SIDE
from engine.training.recipes import RECIPES, declared_params, make_recipe
from engine.views.training import curves, find_best_epoch, select_compared_systems
from engine.wording import visible

ESTIMATES, OUTCOMES, MINE = "train.looked", "train.outcomes", "train.mine"
"""Session keys: estimates, results, and the digest of the training that its job runs."""
OPEN_KEY, MAX_LISTED = "train.at", 12
EXAMPLE_CLAIM = "N14"
"""Claim of a paper on what a training brings beside its control, with our measurements."""


def draw_training(loaded: Loaded) -> None:
    """Draw the Train page: the form, the open training, and the list of all trainings of this corpus.

    loaded: the corpus as the browser session searches it, perhaps with trained embeddings
    """
    # Training begins with the encoder's own embeddings, whatever the session searches.
    untrained = loaded.without_training
    with_passages = passages.draw_toggle(untrained, "train.passages", st.container())
    if not untrained.has_query_vectors:
        return _draw_obstacle(
            loaded,
            "This corpus came with its own vectors, so there is no encoder to embed its queries with, and they have "
            "no vectors of their own.",
            "Load it with the queries' own vectors (query_vectors.npy beside queries.jsonl, or the file named in the "
            "form), or load the texts and choose an encoder.",
        )
    if not count_judged(untrained.dataset) and not with_passages:
        remedy = f" Or turn on “{passage_queries.PASSAGES_TITLE}” above." if passage_queries.can_make(untrained) else ""
        return _draw_obstacle(
            loaded,
            "Training needs judgements: which documents answer which queries.",
            "Load a BEIR folder (corpus.jsonl, queries.jsonl, qrels/), or judge under Data → Judge. "
            f"A few hundred labelled queries are few, a few thousand are good.{remedy}",
        )
    if with_passages:
        untrained_with_passages = passages.replace_by_passages(untrained)
        if untrained_with_passages is None:
            return None
        untrained = untrained_with_passages
    try:
        request = form.draw_form(untrained, with_passages)
        _check_encoder(untrained, request)
        digest = request.digest(untrained) if request is not None else ""
    except FrontierError as error:
        return show_failure("These settings cannot be trained.", error)
    _attach_running(untrained)
    if request is not None:
        _draw_start(untrained, request, digest)
    result.draw_in_use(loaded)
    if with_passages:
        passages.draw_explanation(untrained)
    open_digest = _get_open_digest(untrained)
    if open_digest is None and request is not None:
        _draw_introduction(request)
        _draw_example()
    if open_digest is not None:
        _draw_run(loaded, untrained, open_digest, stale=open_digest != digest)
    _draw_trainings(untrained)
    return None


def _check_encoder(untrained: Loaded, request: TrainingRequest | None) -> None:
    """Raise a ParamError if a training of the encoder itself is asked for, and the vectors came without one."""
    if request is None or untrained.space.encoder is not None:
        return
    if make_recipe(request.method, **dict(request.params)).text_use == "encoder":
        raise ParamError(
            f"{QUERY_SIDE.symbol} must be adapter, as this corpus came with its own vectors and no encoder; got encoder"
        )


def _draw_obstacle(loaded: Loaded, help_text: str, remedy: str) -> None:
    """Draw the reason why nothing can be trained on this corpus, and the remedy."""
    st.info(help_text, icon=":material/model_training:")
    st.text(remedy)
    if st.button("Load a corpus", type="primary", key="train.load"):
        st.switch_page(decoders.DATA_SCREEN)
    result.draw_in_use(loaded)


def _draw_introduction(request: TrainingRequest) -> None:
    """Draw in words what this training changes, and how it will be judged.

    The start is the encoder before training; `learns` says what is trained.
    """
    learns = make_recipe(request.method, **dict(request.params)).learns
    reported = "the table is of the test queries"
    if request.test is None:
        reported = "the table is of the validation queries, as there are no test queries"
    st.text(
        f"Trains {learns}. The best epoch on the validation queries is kept; {reported}. The control is the same start "
        "trained as long without the method: a method that does not beat it is not worth its training."
    )


def _draw_example() -> None:
    """Draw what a training has brought on other data: a claim that Evidence has measured."""
    for row in load_shipped().rows:
        if row.claim.id == EXAMPLE_CLAIM and row.ruling.effects:
            effects = row.ruling.effects
            n_certain = sum(effect.sign == 1 for effect in effects)
            st.caption(f"An example, claim {row.claim.id} of Evidence")
            # The sentence is what was tested: what came of it on each data set is said beside it.
            st.text(f"{row.claim.sentence} Certain on {n_certain} of {counted(len(effects), 'data set')}.")
            plot(plot_gains(effects, is_dark()), "train.example", file=row.claim.id, label=row.claim.sentence)


def _attach_running(untrained: Loaded) -> None:
    """Open a training of this corpus that another window runs, as after a reload of the page.

    untrained: the corpus with the encoder's own embeddings
    """
    if TRAINING in jobs.get_session_jobs() or _get_open_digest(untrained) is not None or jobs.find_blocker(TRAINING):
        return
    for training in training_runs.list_trainings(untrained):
        if (job := training_runs.find_training_job(training.digest)) is not None:
            jobs.attach_job(TRAINING, job)
            st.session_state[MINE] = training.digest
            _open_training(untrained, training.digest)
            return


def _draw_run(loaded: Loaded, untrained: Loaded, digest: str, stale: bool) -> None:
    """Draw the open training: running, stopped, failed or finished; or a notice if it was deleted.

    loaded: the corpus as the browser session searches it; untrained: with the encoder's own embeddings; digest: of the
    training; stale: True if the form has changed since
    """
    requests = {training.digest: training.request for training in training_runs.list_trainings(untrained)}
    request = requests.get(digest)
    if request is None:
        st.info("This training has been deleted.")
        _open_training(untrained, None)
        return
    outcomes: dict[str, TrainingOutcome] = st.session_state.setdefault(OUTCOMES, {})
    # The session's training job, if it is of this training and not of another one.
    training_job = jobs.get_session_jobs().get(TRAINING) if st.session_state.get(MINE) == digest else None
    title = visible(_describe_request(request))
    if training_job is not None and training_job.running and not jobs.runs_for_others_only(training_job):
        help_text = "Stops after this step; progress is saved."
        draw_partial = partial(_draw_curves, "train.now")
        return draw_running(training_job, "train.cancel", draw_partial, title=title, to_end=True, cancel_help=help_text)
    if training_job is not None and isinstance(training_job.result, TrainingOutcome):
        outcomes[digest] = training_job.result
    outcome = outcomes.get(digest)
    with st.container(horizontal=True, vertical_alignment="center"):
        st.text(title)
        if stale:
            st.badge("from earlier settings", icon=":material/history:", color="gray")
    if training_job is not None and training_job.error:
        return _draw_failure(untrained, request, digest, training_job.error)
    # A finished training has a table that compares it with its start and its control.
    if outcome is None or outcome.table is None:
        return _draw_stopped(loaded, untrained, request, digest, outcome)
    result.warn_of_unlearnt(outcome.stages)
    result.draw_comparison(outcome, outcome.table, digest)
    result.draw_use_buttons(loaded, digest, outcome.stages)
    st.header("Training curves", anchor=False)
    _draw_curves("train.after", outcome.progress)
    result.draw_stage_ends(outcome)
    return None


def _draw_curves(key: str, progress: TrainingProgress | None) -> None:
    """Draw the training curves of one stage, by default of the newest one.

    A training has several stages, trained one after the other: the start, its control, the method. key: of
    the chart; progress: the stages' epochs so far, None for none.
    """
    if progress is None:
        return
    stages = [name for name, history in progress.histories.items() if history]
    if not stages:
        st.caption("The first validation appears here.")
        return
    help_text = "The start, its control (the start trained on for as long), and the method."
    # The key has the number of stages, so that a new stage is chosen when it begins.
    stage = choose("Stage", stages, f"{key}.stage.{len(stages)}", default=stages[-1], show_label=True, help=help_text)
    history = progress.histories[stage]
    lines = select_compared_systems(stage, progress.histories, progress.lines)
    points = curves(history, lines)
    figure = plot_training(stage, points, is_dark())
    plot(figure, f"{key}.{stage}", file=f"training-{stage}", label=f"Training of {stage}")
    best = find_best_epoch(history)
    best_text = "before the first epoch" if best.epoch < 0 else f"after epoch {best.epoch}"
    st.caption(
        f"Best on dev {best_text}; those weights are kept. Epoch −1 is before training."
        + (f" Lines: what {stage} is compared with, each at its own best on dev." if lines else "")
    )


def _is_same_training(untrained: Loaded, request: TrainingRequest, digest: str) -> bool:
    """Return True if a request still gives this digest: judgements, which it depends on, may have changed.

    Also False if the request is no longer possible. Only if it is True can the training be resumed.
    """
    with suppress(FrontierError):
        return request.digest(untrained) == digest
    return False


def _draw_failure(untrained: Loaded, request: TrainingRequest, digest: str, help_text: str) -> None:
    """Draw the error of a training, and the buttons that resume it or start it again.

    help_text: the error's message
    """
    show_failure("Training failed.", help_text)
    blocked = jobs.find_blocker() is not None or not _is_same_training(untrained, request, digest)
    is_readable = False
    # A checkpoint may be damaged: then only a new start helps.
    with suppress(FrontierError):
        is_readable = bool(histories(training_runs.training_folder(digest), request.method))

    def retry() -> None:
        """Delete the checkpoints and start the training again; for a callback."""
        training_runs.delete_training(digest)
        _begin_training(untrained, request)

    with st.container(horizontal=True):
        # Without a readable checkpoint there is nothing to resume from.
        if is_readable:
            resume_help = "Continues from the last complete epoch."
            options: dict[str, Any] = {"type": "primary", "disabled": blocked, "help": resume_help}
            step_button("Resume", "train.on", _begin_training, untrained, request, **options)
        retry_help = "Deletes this training's checkpoints and starts again. Embeddings in use stay."
        step_button("Retry", "train.anew", retry, disabled=blocked, help=retry_help)


def _draw_stopped(
    loaded: Loaded, untrained: Loaded, request: TrainingRequest, digest: str, outcome: TrainingOutcome | None
) -> None:
    """Draw an unfinished training: how far it came, its curves, and the buttons to resume or close it.

    outcome: what this browser session has of the training, None after a restart: then its checkpoints on disk are read
    """
    try:
        progress = None if outcome is None else outcome.progress
        progress = progress or TrainingProgress(histories(training_runs.training_folder(digest), request.method), {})
        stages = training_runs.load_stages(digest, request)
    except FrontierError as error:
        return _draw_failure(untrained, request, digest, error.finding)
    # Finished: all stages are trained, and only the table that compares them is missing.
    finished = training_runs.is_training_finished(digest, request)
    # With other judgements the same settings would be another training.
    changed = not _is_same_training(untrained, request, digest)
    begun = [name for name, history in progress.histories.items() if history]
    # The missing table is made at once, unless a person has just cancelled that.
    if finished and outcome is None and not changed and jobs.find_blocker() is None:
        _begin_training(untrained, request)
        st.rerun()
    if finished:
        st.info("This training is finished. Its table is not there yet.", icon=":material/check:")
    else:
        reason = f"Stopped in {begun[-1]}" if begun else "Stopped before its first epoch"
        if outcome is not None and outcome.stages:
            reason = f"{outcome.stages[-1].name}: {outcome.stages[-1].stopped}"
        stop_text = f"{reason}. Progress is saved."
        st.info(stop_text, icon=":material/stop_circle:")
    with st.container(horizontal=True):
        # A blocker is another job of this browser session that has to end first.
        is_blocked = changed or jobs.find_blocker() is not None
        why_blocked = "Trained on different judgements." if changed else None
        options: dict[str, Any] = {"type": "primary", "disabled": is_blocked, "help": why_blocked}
        label = "Show the table" if finished else "Resume"
        step_button(label, "train.on", _begin_training, untrained, request, **options)
        close_help = "It stays in the list of trainings below."
        step_button("Close", "train.close", _open_training, untrained, None, help=close_help)
    if begun:
        _draw_curves("train.stopped", progress)
        result.draw_use_buttons(loaded, digest, stages)
    return None


def _draw_start(untrained: Loaded, request: TrainingRequest, digest: str) -> None:
    """Draw the buttons that start a training and that estimate its time, and the estimate.

    digest: identifies the training with all its settings
    """
    estimates: dict[str, Foreseen] = st.session_state.setdefault(ESTIMATES, {})
    panel = JobPanel(
        purpose=ESTIMATE_PURPOSE,
        # One panel for all settings: its result has the digest of those that were timed.
        key=None,
        title="Timing the first steps",
        work=lambda job: (digest, estimate_training(request, untrained, job)),
        resume_label="",
        autostart=False,
        failed_text="The time cannot be estimated.",
    )
    with st.container(horizontal=True, vertical_alignment="center"):
        session_job = jobs.get_session_jobs().get(TRAINING)
        busy = training_runs.find_training_job(digest) is not None or (session_job is not None and session_job.running)
        if draw_run_button("Run", "train.start", TRAINING, disabled=busy):
            _begin_training(untrained, request)
            st.rerun()
        help_text = "Times the first steps of every stage."
        if st.button("Estimate time", key="train.look", disabled=jobs.find_blocker() is not None, help=help_text):
            panel.start_job()
            st.rerun()
    if (timed := panel.draw_until_result()) is not None:
        # The form may have changed since the job began: the estimate is stored by the digest of what was timed.
        timed_digest, estimate = timed
        estimates[timed_digest] = estimate
    if digest in estimates:
        _draw_estimate(estimates[digest], request)


def _draw_estimate(estimated: Foreseen, request: TrainingRequest) -> None:
    """Draw how many queries a training learns from, and how long it takes at most.

    estimated: from timing its first steps
    """
    method = estimated.method
    with st.container(horizontal=True, border=True):
        st.metric("Training queries", f"{method.queries:,}")
        st.metric("Relevant per query", f"{method.mean_relevant:.2f}")
        st.metric("Left out", f"{method.left_out:,}", help="Queries without a relevant document in the corpus.")
        st.metric("Repeated", f"{estimated.repeated:,}", help="Queries left out, as another part has the same text.")
        st.metric("Steps per epoch", f"{method.steps:,}")
        st.metric("Time per epoch", _format_seconds(estimated.seconds_an_epoch), help="With validation.")
        stages = ", ".join(f"{name} {_format_seconds(stage.seconds)}" for name, stage in estimated.stages.items())
        stages_help = f"All epochs of every stage: {stages}. Most stop earlier."
        # Training stops early, so the estimate is an upper bound.
        st.metric("Total, at most", _format_seconds(estimated.seconds), help=stages_help)
    params = dict(request.params)
    late_params = RECIPES[request.method].late
    if unset := [p.symbol for p in declared_params(request.method) if p.name in late_params and p.name not in params]:
        st.caption(f"Choosing {', '.join(unset)} on the validation queries takes extra time.")


def _format_seconds(seconds: float) -> str:
    """Format a time, "< 1 s" below a second."""
    return format_duration(seconds) if seconds >= 1 else "< 1 s"


def _begin_training(untrained: Loaded, request: TrainingRequest) -> None:
    """Start a training, resume a stopped one or make a finished one's table, and open it on this page."""
    digest = training_runs.start_training(untrained, request)
    # An earlier result of the same training must not hide the new one.
    st.session_state.setdefault(OUTCOMES, {}).pop(digest, None)
    st.session_state[MINE] = digest
    _open_training(untrained, digest)


def _get_open_digest(untrained: Loaded) -> str | None:
    """Return the digest of the training that is open for these embeddings; None without one."""
    open_digests: dict[str, str | None] = st.session_state.setdefault(OPEN_KEY, {})
    return open_digests.get(untrained.space.embeddings.digest)


def _open_training(untrained: Loaded, digest: str | None) -> None:
    """Show another training on this page from the next run on; None for none."""
    st.session_state.setdefault(OPEN_KEY, {})[untrained.space.embeddings.digest] = digest


def _describe_request(request: TrainingRequest) -> str:
    """Describe a training in a line: method, parameters that differ from the defaults, queries and seed."""
    params = dict(request.params)
    recipe = RECIPES[request.method]
    changed = []
    for param in declared_params(request.method):
        value = params.get(param.name, param.default)
        # Parameters in `late` have no fixed default, as the data choose them: a given value is always named.
        if param.name in params and (value != param.default or param.name in recipe.late):
            changed.append(f"{param.symbol} = {param.text(value)}")
    # `divide`: the one set of queries that is split at random, with the seed `parting`, to train, validate and test.
    source = request.train if request.divide is None else f"parts of {request.divide} (seed {request.parting})"
    return ", ".join([recipe.title, *changed, f"learnt from {source}", f"seed {request.seed}"])


def _draw_trainings(untrained: Loaded) -> None:
    """Draw the list of trainings on this corpus, with buttons to open and delete each."""
    if not (trainings := training_runs.list_trainings(untrained)):
        return
    with st.expander(f"Trainings ({len(trainings):,})"):
        for training in trainings[:MAX_LISTED]:
            with st.container(horizontal=True, vertical_alignment="center", gap="small"):
                described = f"{_describe_request(training.request)} · {training_runs.describe_status(training)}"
                st.text(visible(described), width="stretch")
                current = training.digest == _get_open_digest(untrained)
                label, digest = "Shown" if current else "Open", training.digest
                step_button(label, f"train.open.{digest}", _open_training, untrained, digest, disabled=current)
                hint = "Deletes its checkpoints. Embeddings in use stay (Data page, Cache)."
                busy = training_runs.find_training_job(digest) is not None
                step_button(
                    "Delete", f"train.delete.{digest}", _delete_training, untrained, digest, disabled=busy, help=hint
                )


def _delete_training(untrained: Loaded, digest: str) -> None:
    """Delete a training and close it if it is open; for a callback."""
    try:
        training_runs.delete_training(digest)
    except FrontierError as error:
        st.toast(visible(error.finding), icon=":material/error:")
    # Also after an error, as some of its files may be gone.
    if _get_open_digest(untrained) == digest:
        _open_training(untrained, None)
