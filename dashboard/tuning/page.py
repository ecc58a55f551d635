"""The Tune page: the form, the tuning under way or stopped, its result."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dashboard.services import jobs, passage_queries, trained
from dashboard.services.memo import get_or_compute
from dashboard.services.request import select_judged_queries
from dashboard.services.source import Loaded
from dashboard.session import decoders
from dashboard.tuning import form, result
from dashboard.tuning.request import PURPOSE, TuningOutcome, TuningRequest, file_of, run
from dashboard.widgets import passages
from dashboard.widgets.basics import show_failure
from dashboard.widgets.job_panel import JobPanel, draw_end, draw_run_button
from dashboard.widgets.tables import draw_table
from engine.errors import FrontierError
from engine.evaluation.aspects import digest_of_aspects
from engine.evaluation.sweep.cell import Cell
from engine.evaluation.sweep.store import Store
from engine.evaluation.tuning.history import HISTORY_HEADER, PastStudy, read_history
from engine.progress import counted, format_duration
from engine.values import digest_of
from engine.wording import visible

DATA = "screens/data.py"
OUTCOMES, SPLITS, AGAIN = "tune.outcomes", "tune.splits", "tune.again"
"""Where a session keeps what tunings found, the judgements as asked for last, and that a study is taken up again."""


@dataclass(frozen=True, eq=False)
class StartedTuning:
    """The key of a tuning job."""

    request: TuningRequest
    digest: str  # of what it is measured on
    corpus: str  # the name
    count: int  # of the settings, at most


def show(loaded: Loaded) -> None:
    """The form, what is under way, and the last result."""
    with_passages = passages.draw_toggle(loaded, "tune.passages", st.container())
    if not loaded.dataset.qrels and not with_passages:
        return _teach(
            "Tuning needs judgements: which documents answer which queries.",
            "Judge 25 queries under Data → Judge, or load a BEIR folder (corpus.jsonl, queries.jsonl, qrels/*.tsv)."
            + (f" Or turn on “{passage_queries.PASSAGES_TITLE}” above." if passage_queries.can_make(loaded) else ""),
        )
    if loaded.space.encoder is None:
        return _teach(
            "This corpus came with its own vectors, so there is no encoder to embed its queries with.",
            "Load the texts and choose an encoder, or tune with engine.tune, which takes the queries' vectors.",
        )
    if with_passages:
        judged = passages.replace_by_passages(loaded)
        if judged is None:
            return None
        loaded = judged
    request, end = form.ask(loaded)
    _plan(loaded, request, end)
    _history(loaded)
    if with_passages:
        passages.draw_explanation(loaded)
    job = jobs.get_session_jobs().get(PURPOSE)
    outcomes: dict[str, TuningOutcome] = st.session_state.setdefault(OUTCOMES, {})
    if job is not None and job.error:
        draw_end(job, "Tuning failed.")
    elif job is not None:
        outcome = _panel(loaded, job.key).result()
        if outcome is None:
            return None
        outcomes[job.key.digest] = outcome
    last = outcomes.get(_identity(loaded))
    return None if last is None else result.show(loaded, last, stale=last.request != request)


def _identity(loaded: Loaded) -> str:
    """Names what a result is of: the vectors, the judgements and the aspects."""
    judged = [part for split, qrels in loaded.dataset.qrels.items() for part in (split, qrels.digest)]
    return digest_of([loaded.space.embeddings.digest, digest_of_aspects(loaded.dataset.aspects), *judged])


def _teach(why: str, fix: str) -> None:
    st.info(why, icon=":material/tune:")
    st.text(fix)
    if st.button("Load a corpus", type="primary", key="tune.load"):
        st.switch_page(DATA)


def _plan(loaded: Loaded, request: TuningRequest, end: DeltaGenerator) -> None:
    """Draw the work of a run, or its obstacle, and the button. end: of the sentence."""
    problem, count = False, 0
    with end:
        try:
            count = request.count
            for decoder in request.chains:
                decoders.check_decoder(decoder, loaded.space)
            # For very many queries they take a second: the last ones are remembered.
            key = (_identity(loaded), request.choose, request.report, request.halve, request.most)
            splits = get_or_compute(SPLITS, key, lambda: request.splits(loaded.dataset), 1)
        except FrontierError as error:
            problem = True
            show_failure("These settings cannot be tuned.", error)
        else:
            queries = len(splits.queries[splits.dev])
            about = _seconds(loaded, request, count * queries)
            form.say(f"{counted(count, 'setting')} × {counted(queries, 'query', 'queries')}{about}")
        job = jobs.get_session_jobs().get(PURPOSE)
        blocked = problem or (job is not None and job.is_active)
        again = st.session_state.pop(AGAIN, False)
        if draw_run_button("Run", "tune.start", PURPOSE, disabled=blocked) or (again and not blocked):
            started = StartedTuning(request, _identity(loaded), loaded.space.corpus.name, count)
            _panel(loaded, started).start_job()
            st.rerun()
    if not problem:
        trained.warn_of_leakage(loaded, select_judged_queries(loaded.dataset, splits.qrels))


def _history(loaded: Loaded) -> None:
    """The studies of this corpus, newest first; a click takes one up again."""
    file = file_of(loaded)
    studies = read_history(Store(file)) if file.exists() else []
    if not studies:
        return
    with st.expander(f"History ({len(studies):,})"):
        # A new table after each study: else the row that was clicked would stay selected.
        key = f"tune.history.{digest_of([study.finished + study.chosen for study in studies])[:8]}"
        draw_table(
            [dict(zip(HISTORY_HEADER, map(visible, study.row), strict=True)) for study in studies],
            max_rows=8,
            key=key,
            on_select=partial(_take_up, loaded, studies, key),
            selection_mode="single-row",
        )
        st.caption("Kept, won: on the queries that confirm. Select a row to take it up again.")


def _take_up(loaded: Loaded, studies: Sequence[PastStudy], key: str) -> None:
    """Fill in the form as a study had it, and run it again: what it measured is kept."""
    row = next(iter(st.session_state[key].selection.rows), None)
    if row is not None:
        asked = studies[row].asked
        form.fill_in(asked, loaded)
        # Not with other judgements than those that were chosen by.
        st.session_state[AGAIN] = {asked["choose"], asked["report"]} <= {*loaded.dataset.qrels, None}


def _seconds(loaded: Loaded, request: TuningRequest, calls: int) -> str:
    """How long a run takes, by the pace of the same decoder's last one; "" before the first."""
    last = st.session_state[OUTCOMES].get(_identity(loaded)) if OUTCOMES in st.session_state else None
    if last is None or last.request.method != request.method:
        return ""
    paces = [cell.latency for cell in last.tuned.points if cell.latency is not None]
    return f" ≈ {format_duration(max(1.0, calls * sum(paces) / len(paces) / 1000))}" if paces else ""


def _panel(loaded: Loaded, started: StartedTuning) -> JobPanel[TuningOutcome]:
    """The panel of a tuning: what is known of it while it runs, and how to go on after a stop."""
    job, request = jobs.get_session_jobs().get(PURPOSE), started.request
    known = sum(map(request.tries, (job and job.partial) or ()))
    elsewhere = started.digest != _identity(loaded)
    named = f"Tuning {request.title}, goal: {request.objective.text}"
    return JobPanel(
        purpose=PURPOSE,
        key=started,
        title=f"tuning {request.title}",
        work=partial(run, request, loaded),
        autostart=False,
        on_partial=partial(_so_far, started),
        heading=visible(f"{named}, k = {request.k} on {started.corpus}"),
        stopped_text=f"Stopped after {known:,} of {started.count:,} settings. Progress is saved.",
        locked_reason="This run was on another corpus. Choose it on the Data page." if elsewhere else "",
        dismiss_help="Shows the last result again. Progress stays saved.",
    )


def _so_far(started: StartedTuning, cells: Sequence[Cell]) -> None:
    """Draw the settings measured until now."""
    measured = [cell for cell in cells if started.request.tries(cell)]
    base = next((cell for cell in cells if not started.request.tries(cell)), None)
    if base is None or not measured:
        return
    st.caption(f"So far: {len(measured):,} of {started.count:,} settings. None is chosen yet.")
    if started.request.every:
        return
    result.show_points(measured, base, started.request.k, started.request.objective)
