"""Proofs of answers from a vector engine, and the button that proves the others."""

from collections.abc import Mapping, Sequence

import streamlit as st

from dashboard.services.jobs import Job
from dashboard.services.source import Loaded
from dashboard.session.answers import Answer, answer_key, as_embeddings, store_proof
from dashboard.session.query import Question
from dashboard.widgets.job_panel import JobPanel, draw_run_button
from engine.dialogue import SCOPE_PROVEN
from engine.progress import counted, report_to
from engine.reach import Reach
from engine.values import Ranking

HELP = "The engine looks at all documents in place of its index, until nothing is found that an answer lacks."


def draw_proofs(loaded: Loaded, question: Question, answers: Mapping[str, Answer]) -> None:
    """Draw which answers hold for all documents, and a button that proves the others."""
    reach = loaded.reach
    if reach is None:
        return
    answers_info = [(answer, answer.ranking.info[0]) for answer in answers.values()]
    provable = [answer for answer, info in answers_info if info["scope"] != SCOPE_PROVEN and info["provable"]]
    panel = _proof_panel(reach, loaded.origin, question, provable)
    # While a proof runs, its progress replaces the summary.
    if provable and panel.job is not None:
        proofs = panel.result()
        if proofs is not None:
            for answer, ranking in zip(provable, proofs, strict=True):
                store_proof(loaded.origin, question, answer.decoder, ranking)
            st.rerun()
        return
    proven = [answer for answer, info in answers_info if info["scope"] == SCOPE_PROVEN]
    parts = [
        (f"proven for all {counted(loaded.size, 'document')}", proven),
        ("not proven", provable),
        ("of the documents that came back only", [a for a, _ in answers_info if a not in proven and a not in provable]),
    ]
    summary = " · ".join(f"{scope}: {', '.join(a.title for a in members)}" for scope, members in parts if members)
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="explore.proof"):
        st.caption(summary[:1].upper() + summary[1:], width="content")
        if provable:
            draw_run_button(
                "Prove", "prove.start", panel.purpose, help=HELP, on_click=panel.start_job, type="secondary"
            )


def _proof_panel(
    reach: Reach, corpus: Loaded, question: Question, answers: Sequence[Answer]
) -> JobPanel[list[Ranking]]:
    """Return the job that proves answers."""
    query = as_embeddings(corpus, question)

    def prove(job: Job) -> list[Ranking]:
        proofs = []
        for n_done, answer in enumerate(answers):
            job.report(n_done, len(answers), f"proving {answer.title}")
            with report_to(None, job.stop):
                proofs.append(reach.prove(answer.decoder, query, question.k))
        return proofs

    return JobPanel(
        purpose="prove",
        key=tuple(answer_key(corpus, question, answer.decoder) for answer in answers),
        title="prove answers",
        work=prove,
        resume_label="Prove",
        autostart=False,
        failed_text="This could not be proved.",
    )
