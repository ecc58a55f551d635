"""What is proven of answers from a vector engine, and the button that has the rest proved."""

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

WHY = "The engine looks at all documents in place of its index, until nothing is found that an answer lacks."


def offer(loaded: Loaded, question: Question, answers: Mapping[str, Answer]) -> None:
    """Say which answers hold for all documents, and draw the button for the others; nothing for a corpus here."""
    reach = loaded.reach
    if reach is None:
        return
    told = [(answer, answer.ranking.info[0]) for answer in answers.values()]
    provable = [answer for answer, info in told if info["scope"] != SCOPE_PROVEN and info["provable"]]
    panel = _panel(reach, loaded.origin, question, provable)
    if provable and panel.job is not None:
        proofs = panel.result()
        if proofs is not None:
            for answer, ranking in zip(provable, proofs, strict=True):
                store_proof(loaded.origin, question, answer.decoder, ranking)
            st.rerun()
        return
    proven = [answer for answer, info in told if info["scope"] == SCOPE_PROVEN]
    parts = [
        (f"proven for all {counted(loaded.size, 'document')}", proven),
        ("not proven", provable),
        ("of the documents that came back only", [a for a, _ in told if a not in proven and a not in provable]),
    ]
    words = " · ".join(f"{what}: {', '.join(a.title for a in which)}" for what, which in parts if which)
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="explore.proof"):
        st.caption(words[:1].upper() + words[1:], width="content")
        if provable:
            draw_run_button("Prove", "prove.start", panel.purpose, help=WHY, on_click=panel.start_job, type="secondary")


def _panel(reach: Reach, whole: Loaded, question: Question, answers: Sequence[Answer]) -> JobPanel[list[Ranking]]:
    """The job that proves answers."""
    query = as_embeddings(whole, question)

    def prove(job: Job) -> list[Ranking]:
        proofs = []
        for at, answer in enumerate(answers):
            job.report(at, len(answers), f"proving {answer.title}")
            with report_to(None, job.stop):
                proofs.append(reach.prove(answer.decoder, query, question.k))
        return proofs

    return JobPanel(
        purpose="prove",
        key=tuple(answer_key(whole, question, answer.decoder) for answer in answers),
        title="prove answers",
        work=prove,
        resume_label="Prove",
        autostart=False,
        failed_text="This could not be proved.",
    )
