"""The Train view of the Tune page: the form, the estimate, the training under way, its result."""

from contextlib import suppress
from functools import partial
from typing import Any

import streamlit as st

from dashboard.charts.training import training_figure
from dashboard.components.live_plot import is_dark, plot
from dashboard.services import jobs, passage_queries, training_runs
from dashboard.services.source import Loaded
from dashboard.services.training_request import PURPOSE, TrainingOutcome, TrainingProgress, TrainingRequest
from dashboard.session.query import judged_splits
from dashboard.training import estimate, form, result, run_list
from dashboard.training.estimate import MINE, OUTCOMES
from dashboard.widgets import passages
from dashboard.widgets.buttons import step_button
from dashboard.widgets.choices import choose
from dashboard.widgets.failure import show_failure
from dashboard.widgets.job_panel import watch
from engine.errors import FrontierError
from engine.training.experiment import histories
from engine.training.recipes import make_recipe
from engine.views.training import best_of, compared_with, curves
from engine.wording import visible

DATA = "screens/data.py"


def show(loaded: Loaded) -> None:
    """The form, the training that is shown, and the list of all."""
    # Training begins with the encoder's own embeddings, whatever the session looks at.
    plain = loaded.plain
    with_passages = passages.toggle(plain, "train.passages", st.container())
    if plain.space.encoder is None:
        return _teach(
            loaded,
            "This corpus came with its own vectors, so there is no encoder to embed its queries with.",
            "Load the texts and choose an encoder, or train with engine.train, which takes the queries' vectors.",
        )
    if not judged_splits(plain.dataset) and not with_passages:
        more = f" Or turn on “{passage_queries.NAME}” above." if passage_queries.offered(plain) else ""
        return _teach(
            loaded,
            "Training needs judgements: which documents answer which queries.",
            "Load a BEIR folder (corpus.jsonl, queries.jsonl, qrels/*.tsv), or judge under Data → Judge. "
            f"A few hundred judged queries are few, a few thousand are good.{more}",
        )
    if with_passages:
        judged = passages.judged(plain)
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
        estimate.show(plain, request, digest)
    result.in_use(loaded)
    if with_passages:
        passages.explain(plain)
    shown = run_list.shown_digest(plain)
    if shown is None and request is not None:
        _introduce(request)
    if shown is not None:
        _run(loaded, plain, shown, stale=shown != digest)
    run_list.show(plain)
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
    if PURPOSE in jobs.mine() or run_list.shown_digest(plain) is not None or jobs.busy(PURPOSE):
        return
    for training in training_runs.trainings_of(plain):
        if (job := training_runs.under_way(training.digest)) is not None:
            jobs.share(PURPOSE, job)
            st.session_state[MINE] = training.digest
            run_list.look_at(plain, training.digest)
            return


def _run(loaded: Loaded, plain: Loaded, digest: str, stale: bool) -> None:
    """Draw the training that is shown: under way, stopped, failed or finished."""
    request = run_list.request_of(plain, digest)
    if request is None:
        st.info("This training has been deleted.")
        run_list.look_at(plain, None)
        return
    outcomes: dict[str, TrainingOutcome] = st.session_state.setdefault(OUTCOMES, {})
    job = jobs.mine().get(PURPOSE) if st.session_state.get(MINE) == digest else None
    title = visible(run_list.describe(request))
    if job is not None and job.running and not jobs.is_left(job):
        why = "Stops after this step; progress is saved."
        return watch(job, "train.cancel", partial(_draw_curves, "train.now"), title=title, to_end=True, cancel_help=why)
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
    stage = choose("Stage", stages, f"{key}.stage.{len(stages)}", default=stages[-1], named=True, help=why)
    history = progress.histories[stage]
    lines = compared_with(stage, progress.histories, progress.lines)
    points = curves(history, lines)
    figure = training_figure(stage, points, is_dark())
    plot(figure, f"{key}.{stage}", file=f"training-{stage}", label=f"Training of {stage}")
    best = best_of(history)
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
    blocked = jobs.busy() is not None or not _still_means(plain, request, digest)
    with st.container(horizontal=True):
        if _readable(request, digest):
            why = "Continues from the last complete epoch."
            how: dict[str, Any] = {"type": "primary", "disabled": blocked, "help": why}
            step_button("Resume", "train.on", estimate.begin, plain, request, **how)
        why = "Deletes this training's checkpoints and starts again. Embeddings in use stay."
        step_button("Retry", "train.anew", _anew, plain, request, digest, disabled=blocked, help=why)


def _readable(request: TrainingRequest, digest: str) -> bool:
    """Whether there is something to go on from."""
    with suppress(FrontierError):
        return bool(histories(training_runs.folder(digest), request.method))
    return False


def _anew(plain: Loaded, request: TrainingRequest, digest: str) -> None:
    training_runs.forget(digest)
    estimate.begin(plain, request)


def _stopped(
    loaded: Loaded, plain: Loaded, request: TrainingRequest, digest: str, outcome: TrainingOutcome | None
) -> None:
    """Draw what is known of a training that is not over, and how to go on."""
    try:
        known = outcome and outcome.progress
        progress = known or TrainingProgress(histories(training_runs.folder(digest), request.method), {})
        stages = training_runs.stages(digest, request)
    except FrontierError as error:
        return _failed(plain, request, digest, str(error))
    finished, changed = training_runs.is_finished(digest, request), not _still_means(plain, request, digest)
    begun = [name for name, history in progress.histories.items() if history]
    # Not where a person has just cancelled that.
    if finished and outcome is None and not changed and jobs.busy() is None:
        estimate.begin(plain, request)
        st.rerun()
    if finished:
        st.info("This training is finished. Its table is not there yet.", icon=":material/check:")
    else:
        reason = f"Stopped in {begun[-1]}" if begun else "Stopped before its first epoch"
        if outcome is not None and outcome.stages:
            reason = f"{outcome.stages[-1].name}: {outcome.stages[-1].stopped}"
        kept = f"{reason}. Progress is saved."
        st.info(kept, icon=":material/pause:")
    with st.container(horizontal=True):
        label, why = "Show the table" if finished else "Resume", "Trained on different judgements."
        how: dict[str, Any] = {"disabled": changed or jobs.busy() is not None, "help": why if changed else None}
        step_button(label, "train.on", estimate.begin, plain, request, type="primary", **how)
        why = "It stays in the list of trainings below."
        step_button("Close", "train.close", run_list.look_at, plain, None, help=why)
    if begun:
        _draw_curves("train.stopped", progress)
        result.use_buttons(loaded, digest, stages)
    return None
