"""Judge by a model: which service is asked, what that sends, its grades as they come, and how they agree with people's.

Services are those of endpoints.toml; no address is typed on a page.
"""

from collections.abc import Sequence

import streamlit as st

from dashboard.services.jobs import Job
from dashboard.services.source import Loaded
from dashboard.widgets.basics import show_failure
from dashboard.widgets.choices import choose
from dashboard.widgets.job_panel import JobPanel
from engine.data.endpoints.config import ENDPOINTS_FILE, list_endpoints
from engine.data.endpoints.consent import allow_tokens
from engine.errors import FrontierError
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
from engine.judging.log import Judged, JudgingLog
from engine.judging.pool import Pair
from engine.progress import counted
from engine.wording import visible

ENDPOINT_KEY, MODEL_PURPOSE = "judge.model.endpoint", "judge.model"


def draw_model(loaded: Loaded, log: JudgingLog, judged: Judged, pairs: Sequence[Pair]) -> None:
    """Draw the part in which a language model grades the pairs that people grade, in their order.

    log: of the open corpus; judged: its contents; pairs: ids of a query and a document
    """
    with st.expander("Ask a model", expanded=False):
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
        _draw_job(loaded, log, judge, judged, pairs)
        _draw_result(judged, judge, pairs)


def _draw_job(loaded: Loaded, log: JudgingLog, judge: ModelJudge, judged: Judged, pairs: Sequence[Pair]) -> None:
    """Draw what would be sent and the button that sends it; the progress while the model is asked."""
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
