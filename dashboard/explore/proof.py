"""Proofs of answers from a vector engine, and the button that proves the others."""

from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st

from dashboard.charts.figure import read_column
from dashboard.services.jobs import Job
from dashboard.services.source import Loaded
from dashboard.session.answers import Answer, answer_key, as_embeddings, leave_out_document, store_proof
from dashboard.session.query import Question
from dashboard.widgets.job_panel import JobPanel, draw_run_button
from engine.progress import counted, report_to
from engine.reach import Reach
from engine.remote_certificate import SCOPE_PROVEN
from engine.values import Ranking

HELP = (
    "The engine looks at all documents in place of its index, until nothing is found that an answer lacks. Proven "
    "means as far as the engine tells the truth: figures of its own that contradict each other are an error."
)


def draw_proofs(loaded: Loaded, question: Question, answers: Mapping[str, Answer]) -> None:
    """Draw which answers from a vector engine are proven for all its documents, and a button for others.

    An engine's index returns some documents only: an answer is proven if no unseen one could change it.
    """
    reach = loaded.reach
    if reach is None:
        return
    proven, provable, partial_answers = list[Answer](), list[Answer](), list[Answer]()
    for answer in answers.values():
        info = answer.ranking.info[0]
        unproven = provable if info["provable"] else partial_answers
        (proven if info["scope"] == SCOPE_PROVEN else unproven).append(answer)
    panel = _proof_panel(reach, loaded.origin, question, provable)
    # While a proof runs, its progress replaces the summary.
    if provable and panel.job is not None:
        proofs = panel.draw_until_result()
        if proofs is not None:
            for answer, ranking in zip(provable, proofs, strict=True):
                store_proof(loaded.origin, question, answer.decoder, ranking)
            st.rerun()
        return
    scopes = {
        f"proven for all {counted(loaded.size, 'document')}": proven,
        "not proven": provable,
        "of the documents that came back only": partial_answers,
    }
    parts = [f"{scope}: {', '.join(read_column(members, 'title'))}" for scope, members in scopes.items() if members]
    summary = " · ".join(parts)
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="explore.proof"):
        st.caption(summary[:1].upper() + summary[1:], width="content")
        if provable:
            look = {"help": HELP, "type": "secondary"}
            draw_run_button("Prove", "prove.start", panel.purpose, on_click=panel.start_job, **look)


def _proof_panel(
    reach: Reach, corpus: Loaded, question: Question, answers: Sequence[Answer]
) -> JobPanel[list[Ranking]]:
    """Return the panel of the job that proves these answers for all documents of the vector engine.

    reach: the connection to the vector engine; corpus: the one whose answers are proven
    """
    query = as_embeddings(corpus, question)

    def prove(job: Job) -> list[Ranking]:
        """Prove each answer by asking the vector engine until no unseen document could change it."""
        proofs = []
        for n_done, answer in enumerate(answers):
            job.report(n_done, len(answers), f"proving {answer.title}")
            # Progress counts answers, so the steps of one proof report none; they only stop with the job.
            with report_to(None, job.stop):
                decoder = leave_out_document(question, answer.decoder)
                proofs.append(reach.prove(decoder, query, question.k))
        return proofs

    key = tuple(answer_key(corpus, question, answer.decoder) for answer in answers)
    texts: Any = {"title": "prove answers", "resume_label": "Prove", "failed_text": "This could not be proved."}
    return JobPanel(purpose="prove", key=key, work=prove, autostart=False, **texts)
