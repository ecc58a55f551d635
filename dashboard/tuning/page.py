"""The Tune page: the form, the tuning under way or stopped, its result."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import filterfalse

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dashboard.services import jobs, passage_queries, trained
from dashboard.services.memo import get_or_compute
from dashboard.services.request import select_judged_queries
from dashboard.services.source import Loaded
from dashboard.services.sweeps import estimate_plain_seconds
from dashboard.session import decoders
from dashboard.session.choices import identify_data
from dashboard.session.judging import set_request
from dashboard.tuning import budget_views, form, result
from dashboard.tuning.request import PURPOSE, Splits, TuningOutcome, TuningRequest, find_store_file, run_tuning
from dashboard.widgets import passages
from dashboard.widgets.basics import show_failure
from dashboard.widgets.common import as_label
from dashboard.widgets.job_panel import JobPanel, draw_end, draw_run_button
from dashboard.widgets.own_documents import draw_own_documents
from dashboard.widgets.tables import draw_table
from engine.errors import FrontierError
from engine.evaluation.sweep.cell import Cell
from engine.evaluation.sweep.store import Store
from engine.evaluation.tuning.history import HISTORY_HEADER, PastStudy, read_history
from engine.evaluation.tuning.objectives import describe_objective
from engine.evaluation.tuning.tuned import ask_lower_share
from engine.progress import counted, rough_duration
from engine.stages import spec_of
from engine.values import Queries, digest_of
from engine.wording import visible

FOLDED_CSS = "<style>.st-key-tune-form > details > summary {opacity: 1}</style>"
"""The folded form says what was tuned, and is as legible as the result."""
OUTCOMES, SPLITS, REPEAT_KEY = "tune.outcomes", "tune.splits", "tune.again"
"""Session keys: results of tunings, the last judgements, and True while a past study is to be repeated."""


@dataclass(frozen=True, eq=False)
class StartedTuning:
    """A started tuning with what it is measured on; it is the key of its job."""

    request: TuningRequest  # its settings
    digest: str  # of what it is measured on
    corpus: str  # the name
    count: int  # of the settings, at most


def draw_tuning(loaded: Loaded) -> None:
    """Draw the Tune page: the form, the running tuning, and the last result.

    A tuning tries settings of decoders on judged queries and confirms the best one on others.
    """
    with_passages = passages.draw_toggle(loaded, "tune.passages", st.container())
    if not loaded.dataset.qrels and not with_passages:
        return _draw_obstacle(
            "Tuning needs judgements: which documents answer which queries.",
            "Judge 25 queries under Data → Judge, or load a BEIR folder (corpus.jsonl, queries.jsonl, qrels/)."
            + (f" Or turn on “{passage_queries.PASSAGES_TITLE}” above." if passage_queries.can_make(loaded) else ""),
            can_judge=loaded.has_query_vectors,
        )
    if not loaded.has_query_vectors:
        return _draw_obstacle(
            "This corpus came with its own vectors, so there is no encoder to embed its queries with.",
            "Load it with the queries' own vectors (query_vectors.npy beside queries.jsonl, or the file named in the "
            "form), or load the texts and choose an encoder.",
        )
    # Passages replace the judgements on this page only.
    if with_passages:
        loaded_with_passages = passages.replace_by_passages(loaded)
        if loaded_with_passages is None:
            return None
        loaded = loaded_with_passages
    with _open_form(loaded):
        request, places = form.draw_form(loaded)
        splits = _draw_plan(loaded, request, places)
        if with_passages:
            passages.draw_explanation(loaded)
    # What limits the result is said beside it, with the form folded too.
    if splits is not None:
        queries = select_judged_queries(loaded.dataset, splits.qrels)
        trained.warn_of_leakage(loaded, queries)
        draw_own_documents(loaded, queries)
    _draw_results(loaded, request, splits)
    _draw_history(loaded)
    return None


def _open_form(loaded: Loaded) -> DeltaGenerator:
    """Return the container of the form: one line that opens once there is a result, which then stands at the top."""
    job, last = jobs.get_session_jobs().get(PURPOSE), _take_result(loaded)
    if last is None or (job is not None and job.result is None):
        return st.container()
    st.html(FOLDED_CSS)
    label = f"Tuned {last.request.title} for {_describe_goal(last.request)}, k = {last.request.k} · change"
    return st.expander(as_label(label), key="tune.form", icon=":material/tune:", type="compact")


def _take_result(loaded: Loaded) -> TuningOutcome | None:
    """Store the result of a tuning that has finished; return the last one on this corpus and these judgements."""
    job = jobs.get_session_jobs().get(PURPOSE)
    outcomes: dict[str, TuningOutcome] = st.session_state.setdefault(OUTCOMES, {})
    if job is not None and job.result is not None:
        outcomes[job.key.digest] = job.result
    # The result of another corpus or other judgements is not shown.
    return outcomes.get(identify_data(loaded))


def _describe_goal(request: TuningRequest) -> str:
    """Describe what a tuning looks for, in words."""
    return describe_objective(request.objective, spec_of(request.like.select.spec.name, "selector").title)


def _draw_results(loaded: Loaded, request: TuningRequest, splits: Splits | None) -> None:
    """Draw the running tuning, or the last result, or what is known before the first one.

    request: of the form; splits: that it would use, None if it cannot run
    """
    job = jobs.get_session_jobs().get(PURPOSE)
    if job is not None and job.error:
        draw_end(job, "Tuning failed.")
    elif job is not None and _build_panel(loaded, job.key).draw_until_result() is None:
        return None
    last = _take_result(loaded)
    if last is not None:
        on_lower = partial(_take_lower_share, loaded, last)
        return result.draw_result(loaded, last, last.request != request, on_lower)
    if splits is not None and request.objective.constrained and (job is None or not job.is_active):
        budget_views.draw_known(loaded, request, splits)
    return None


def _take_lower_share(loaded: Loaded, outcome: TuningOutcome) -> None:
    """Ask a choice for the share that both splits are sure it keeps, here and in the form; for a callback."""
    tuned = ask_lower_share(outcome.tuned)
    request = replace(outcome.request, objective=tuned.objective)
    st.session_state[OUTCOMES][identify_data(loaded)] = replace(outcome, request=request, tuned=tuned)
    # The job has the first result, which the page would take over again.
    jobs.get_session_jobs().pop(PURPOSE, None)
    st.session_state[form.SHARE_KEY] = tuned.objective.share


def _draw_obstacle(reason: str, remedy: str, can_judge: bool = False) -> None:
    """Draw the reason why nothing can be tuned on this corpus, and the remedy; can_judge: offer to judge searches."""
    st.info(reason, icon=":material/tune:")
    st.text(remedy)
    with st.container(horizontal=True):
        # A callback cannot change the page: it sets what the Data page opens with, the change comes after it.
        judge_callback = partial(set_request, None)
        if can_judge and st.button("Judge searches", type="primary", key="tune.judge.none", on_click=judge_callback):
            st.switch_page(decoders.DATA_SCREEN)
        if st.button("Load a corpus", type="secondary" if can_judge else "primary", key="tune.load"):
            st.switch_page(decoders.DATA_SCREEN)


def _draw_plan(loaded: Loaded, request: TuningRequest, places: form.FormPlaces) -> Splits | None:
    """Draw how much the tuning would measure, or why it cannot run, and the button that starts it.

    Return the judged queries that it would use, None if it cannot run. places: containers of the form, where both go
    """
    problem, n_settings, splits, cost_text = False, 0, None, ""
    with places.start:
        try:
            # Impossible settings raise here, and the form shows the reason.
            n_settings = request.count
            for decoder in request.chains:
                decoders.check_decoder(decoder, loaded.space)
            # For very many queries they take a second: the last ones are remembered.
            key = (identify_data(loaded), request.choose, request.report, request.halve, request.most)
            splits = get_or_compute(SPLITS, key, lambda: request.splits(loaded.dataset), 1)
        except FrontierError as error:
            problem = True
            show_failure("These settings cannot be tuned.", error)
        else:
            n_queries = len(splits.queries[splits.dev])
            time_text = _estimate_text(loaded, request, n_settings, splits.queries[splits.dev])
            cost_text = f"{counted(n_settings, 'setting')} × {counted(n_queries, 'query', 'queries')}{time_text}"
            with places.splits:
                budget_views.draw_sealed_split(loaded, request, splits)
        job = jobs.get_session_jobs().get(PURPOSE)
        blocked = problem or (job is not None and job.is_active)
        # A click on a past tuning asks for a run without the button.
        again = st.session_state.pop(REPEAT_KEY, False)
        if draw_run_button("Run", "tune.start", PURPOSE, disabled=blocked) or (again and not blocked):
            started = StartedTuning(request, identify_data(loaded), loaded.space.corpus.name, n_settings)
            _build_panel(loaded, started).start_job()
            st.rerun()
        if cost_text:
            form.draw_words(cost_text)
    return splits


def _draw_history(loaded: Loaded) -> None:
    """Draw the table of past tunings of this corpus, the newest first; a click on a row repeats one."""
    store_file = find_store_file(loaded)
    studies = read_history(Store(store_file)) if store_file.exists() else []
    if not studies:
        return
    with st.expander(f"History ({len(studies):,})"):
        # A new table after each study: else the row that was clicked would stay selected.
        table_key = f"tune.history.{digest_of([study.finished + study.chosen for study in studies])[:8]}"
        rows = [dict(zip(HISTORY_HEADER, map(visible, study.row), strict=True)) for study in studies]
        on_select = partial(_repeat_study, loaded, studies, table_key)
        draw_table(rows, max_rows=8, key=table_key, on_select=on_select, selection_mode="single-row")
        st.caption("Kept, won: on the queries that confirm. Select a row to take it up again.")


def _repeat_study(loaded: Loaded, studies: Sequence[PastStudy], table_key: str) -> None:
    """Set the form to the tuning clicked in the history, and ask for its run; for a callback.

    The run is quick, as its measurements are stored. table_key: of the history's table
    """
    row_index = next(iter(st.session_state[table_key].selection.rows), None)
    if row_index is not None:
        study_request = studies[row_index].asked
        form.fill_form(study_request, loaded)
        # It can run only if both of its splits still exist; None stands for a study that did not confirm on any.
        available_splits = {*loaded.dataset.qrels, None}
        st.session_state[REPEAT_KEY] = available_splits.issuperset([study_request["choose"], study_request["report"]])


def _estimate_text(loaded: Loaded, request: TuningRequest, n_settings: int, queries: Queries) -> str:
    """Format how long a tuning takes, by the pace of the last one of the same decoder, else of Trade-off.

    "" where other scorers than the default one are read, whose pace is not known. queries: those to choose on
    """
    last_outcome = st.session_state[OUTCOMES].get(identify_data(loaded)) if OUTCOMES in st.session_state else None
    seconds = 0.0
    # Runs of other decoders have another pace.
    if last_outcome is not None and last_outcome.request.method == request.method:
        paces = [cell.latency for cell in last_outcome.tuned.points if cell.latency is not None]
        seconds = n_settings * len(queries) * sum(paces) / len(paces) / 1000 if paces else 0.0
    elif request.is_plain:
        seconds = estimate_plain_seconds(loaded, queries, request.k, n_settings, request.n_curves)
    return f" · about {rough_duration(seconds)}" if seconds else ""


def _build_panel(loaded: Loaded, started: StartedTuning) -> JobPanel[TuningOutcome]:
    """Return the panel of a tuning's job: its progress while it runs, and its button after a stop.

    started: the tuning, which may be of another corpus than `loaded`; then it cannot be resumed here
    """
    request = started.request
    is_elsewhere = started.digest != identify_data(loaded)
    heading = f"Tuning {request.title}, goal: {_describe_goal(request)}"
    return JobPanel(
        purpose=PURPOSE,
        key=started,
        title=f"tuning {request.title}",
        work=partial(run_tuning, request, loaded),
        autostart=False,
        on_partial=partial(_draw_partial, started),
        heading=visible(f"{heading}, k = {request.k} on {started.corpus}"),
        # How many settings are measured is said below, beside them: the one under way may end between the two.
        stopped_text="Stopped. Progress is saved.",
        locked_reason="This run was on another corpus. Choose it on the Data page." if is_elsewhere else "",
        dismiss_help="Shows the last result again. Progress stays saved.",
    )


def _draw_partial(started: StartedTuning, cells: Sequence[Cell]) -> None:
    """Draw the settings that a running tuning has measured so far, once its baseline is measured.

    cells: a decoder with its metrics by query each, the baseline among them
    """
    # `tries` is False for the baseline alone.
    measured = list(filter(started.request.tries, cells))
    baseline = next(filterfalse(started.request.tries, cells), None)
    # Settings are drawn against the baseline, so they wait for it.
    if baseline is None or not measured:
        return
    if started.request.objective.constrained:
        return budget_views.draw_so_far(measured, baseline, started.request, started.count)
    st.caption(f"So far: {len(measured):,} of {started.count:,} settings. None is chosen yet.")
    # The settings of several decoders have no common parameters to be drawn over.
    if not started.request.every:
        result.draw_points(measured, baseline, started.request.k, started.request.objective)
    return None
