"""Judge by a model: which service is asked, what that sends, its grades as they come, and how they agree with people's.

Services are those of endpoints.toml; no address is typed on a page.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import streamlit as st

from dashboard.data.judging_task import JudgingTask
from dashboard.services.jobs import Job
from dashboard.services.memo import get_or_compute
from dashboard.services.source import Loaded
from dashboard.widgets.basics import show_failure
from dashboard.widgets.choices import choose
from dashboard.widgets.job_panel import JobPanel
from engine.data.endpoints.config import ENDPOINTS_FILE, list_endpoints
from engine.data.endpoints.consent import allow_tokens
from engine.errors import FrontierError
from engine.judging import corrected
from engine.judging.by_model import (
    ModelJudge,
    ModelJudging,
    compare_with_people,
    count_answers,
    estimate_judging,
    find_open_pairs,
    judge_by_model,
    make_judge,
)
from engine.judging.corrected import (
    CorrectedStanding,
    build_cells,
    compute_corrected_standing,
    find_complete_queries,
)
from engine.judging.log import Judged, JudgingLog
from engine.judging.pool import Pair
from engine.judging.qrels import merge_grades
from engine.progress import counted
from engine.values import Qrels
from engine.wording import visible

ENDPOINT_KEY, MODEL_PURPOSE, OPEN_KEY = "judge.model.endpoint", "judge.model", "judge.model.open"


def draw_model(loaded: Loaded, log: JudgingLog, judged: Judged, task: JudgingTask) -> None:
    """Draw the part in which a language model grades the pairs that people grade, in their order.

    log: of the open corpus; judged: its contents; task: what people judge
    """
    with st.expander("Ask a model", key=OPEN_KEY, on_change="rerun") as expander:
        # What would be sent is counted only where it is seen.
        if not expander.open:
            return
        try:
            names = list_endpoints("chat")
        except FrontierError as error:
            show_failure("The services cannot be read.", error)
            return
        if not names:
            st.text(
                "A language model can grade these documents as well. Its grades are kept apart from yours, which tell "
                "how far it can be trusted."
            )
            st.caption(f"Name a service with a chat model in {ENDPOINTS_FILE.file_name}, in Frontier's folder.")
            return
        name = choose("Service", names, ENDPOINT_KEY, default=names[0], show_label=True)
        try:
            judge = make_judge(name)
        except FrontierError as error:
            show_failure("This service cannot be asked.", error)
            return
        _draw_job(loaded, log, judge, judged, task.pooled_pairs)
        _draw_result(judged, judge, task.pooled_pairs)


def _draw_job(loaded: Loaded, log: JudgingLog, judge: ModelJudge, judged: Judged, pairs: Sequence[Pair]) -> None:
    """Draw what would be sent and the button that sends it; the progress while the model is asked."""
    # Counted from the log in every run: other sessions, and the command line, add to it as well.
    open_pairs = find_open_pairs(judged, judge.name, pairs)
    queries, corpus = judged.queries(loaded.dataset.queries), loaded.space.corpus

    def ask_model(job: Job) -> ModelJudging:
        """Ask for the grades of all pairs, in a job."""
        # The button was clicked below the estimate: that is the consent.
        with allow_tokens():
            return judge_by_model(log, judge, pairs, queries, corpus, progress=job.report, stop=job.stop)

    if not open_pairs:
        return
    estimate = estimate_judging(judge, open_pairs, queries, corpus)
    panel = JobPanel(
        purpose=MODEL_PURPOSE,
        key=(loaded.key, judge.name, pairs, queries.digest),
        title=f"asking {judge.model}",
        work=ask_model,
        start_label=f"Ask {judge.model} for {counted(len(open_pairs), 'grade')}",
        resume_label=f"Ask {judge.model} for {counted(len(open_pairs), 'more grade')}",
        offer_text=f"This sends {estimate}. Each grade is kept as it comes.",
        autostart=False,
        failed_text=f"{judge.model} could not be asked for every grade; those that came are kept.",
    )
    panel.draw_until_result()


def _draw_result(judged: Judged, judge: ModelJudge, pairs: Sequence[Pair]) -> None:
    """Draw how many grades there are, and how far they agree with people's."""
    if judge.name not in judged.models:
        return
    st.text(visible(f"{count_answers(judged, judge.name, pairs)}."))
    agreement = compare_with_people(judged, judge.name)
    if agreement is None:
        st.text("Grade some of these documents yourself: that tells how far the model can be trusted.")
    else:
        st.text(visible(agreement.sentence))


def find_model(judged: Judged, pairs: Sequence[Pair]) -> str | None:
    """Return the model that has been asked for every pair, the last one of several; None if none gave a grade."""
    # Several models may have judged; one that was asked for a part would favour the systems of that part.
    for name in reversed(judged.models):
        answers = judged.of_model(name)
        if all(pair in answers for pair in pairs) and any(answers[pair].grade is not None for pair in pairs):
            return name
    return None


def order_for_people(loaded: Loaded, judged: Judged, task: JudgingTask) -> JudgingTask:
    """Return the documents to judge, in the order in which people's grades correct a model's, if one has judged all."""
    model = find_model(judged, task.pooled_pairs)
    if model is None:
        return task
    sampled_queries = _find_sampled_queries(judged, model, task)
    key = (*_build_key(loaded, task, model), frozenset(sampled_queries))

    def order() -> tuple[Pair, ...]:
        """Order the pairs by the model's grades."""
        cells = build_cells(task.runs, loaded.space, task.vectors, merge_grades(judged.only_model(model)), task.k)
        return corrected.order_for_people(task.pairs, _list_done(judged), sampled_queries, cells)

    # Fixed while people judge, so that what they do not see yet does not change places.
    return replace(task, pairs=get_or_compute("judge.model.order", key, order, 8))


def draw_standing(loaded: Loaded, judged: Judged, task: JudgingTask, people: Qrels) -> None:
    """Draw what the model's grades tell, corrected by people's, if a model has graded every document.

    people: their grades, and from which one a document counts as relevant
    """
    model = find_model(judged, task.pooled_pairs)
    if model is None:
        return
    sampled_queries = _find_sampled_queries(judged, model, task)
    file_pairs = frozenset(task.pooled_pairs).difference(task.pairs)
    complete_queries = find_complete_queries(task.pooled_pairs, _list_done(judged) | file_pairs)
    complete_queries = tuple(query for query in complete_queries if query in sampled_queries)
    model_grades = merge_grades(judged.only_model(model)).grades
    grades = Qrels({q: model_grades[q] for q in sampled_queries if q in model_grades}, people.relevant_from)
    key = (*_build_key(loaded, task, model), people.digest, grades.digest, complete_queries)

    def compute() -> CorrectedStanding:
        """Decide between the systems by both judges."""
        return compute_corrected_standing(
            task.runs, people, grades, model, loaded.space, task.vectors, complete_queries, task.k
        )

    st.header("With the model's grades")
    for sentence in get_or_compute("judge.model.standing", key, compute).sentences:
        st.text(visible(sentence))


def _build_key(loaded: Loaded, task: JudgingTask, model: str) -> tuple[Any, ...]:
    """Return the key of what depends on the systems' lists, the documents to judge and a model."""
    return loaded.key, task.vectors.digest, tuple(run.digest for run in task.runs), task.pairs, model, task.k


def _find_sampled_queries(judged: Judged, model: str, task: JudgingTask) -> set[str]:
    """Return the queries of which those that people complete are a random sample."""
    file_pairs = frozenset(task.pooled_pairs).difference(task.pairs)
    return corrected.find_sampled_queries(task.pooled_pairs, file_pairs, judged, model)


def _list_done(judged: Judged) -> frozenset[Pair]:
    """Return the pairs that people graded or skipped."""
    return frozenset((item.query, item.document) for item in judged.judgements)
