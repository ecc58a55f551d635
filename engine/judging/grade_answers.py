"""Support of the answers that a chat model writes from decoders' sets: asked for, graded, compared and put in words."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from engine.decoder import Decoder
from engine.display import OneLine
from engine.errors import DataError, ParamError
from engine.evaluation.answer_support import MIN_GRADED_QUERIES, SupportEstimate, estimate_support, spread_sample
from engine.evaluation.judge_agreement import JudgeAgreement, check_judge, compute_judge_agreement
from engine.evaluation.runs import RankedRun, decode_runs
from engine.evaluation.statistics import describe_comparison
from engine.judging.answer_log import SUPPORTED_GRADE, AnswerLog, locate_answers
from engine.judging.answer_sheet import MAX_CELL_CHARACTERS, order_queries, read_sheet, write_sheet
from engine.judging.answers import AnswerSession, build_task, make_reader
from engine.judging.chat import REFUSED
from engine.judging.pool import Pair
from engine.progress import Progress, Stop, counted, shorten
from engine.space import Space
from engine.values import Embeddings, Qrels

ANSWER_ITEM = "answer"
"""Word for the item that model and person grade, in sentences."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GradedAnswer:
    """Answer from one system's set to a query, with the grade of its support."""

    query: str  # id
    system: str
    text: str | None  # "" if the set holds no answer, None if there is no answer
    grade: int | None  # 0 for an empty answer; None if there is no grade
    reason: str

    @property
    def outcome(self) -> str:
        """Outcome in a word: "graded", "empty", "refused" or "unreadable"."""
        if self.text == "":
            return "empty"
        if self.grade is not None:
            return "graded"
        return "refused" if self.reason.startswith(REFUSED) else "unreadable"


@dataclass(frozen=True, slots=True)
class AnswerJudgement:
    """Support of systems' answers, and whose judgement that is."""

    support: SupportEstimate
    origin: str  # who judged how many queries
    agreement: JudgeAgreement | None = None  # of the model with the person; None if the person graded no answer
    remark: str = ""  # why the person's grades do not correct the model's


@dataclass(frozen=True, eq=False, kw_only=True)
class AnswerGrading(OneLine):
    """Answers from several systems' sets with their grades, and how many are supported."""

    reader: str  # name of the model that writes and grades
    k: int  # documents of each set
    answers: tuple[GradedAnswer, ...]
    person_grades: Mapping[Pair, int]  # a person's, by query and system
    judgement: AnswerJudgement
    session: AnswerSession

    def __str__(self) -> str:
        """Return the sentences, one on each line."""
        return "\n".join(self.sentences)

    def _describe(self) -> str:
        """Return how many answers there are, of how many systems, and who graded them."""
        n_systems = counted(len(self.support.systems), "system")
        return f"{counted(len(self.answers), ANSWER_ITEM)} of {n_systems} by {self.reader}, k={self.k}"

    @property
    def support(self) -> SupportEstimate:
        """Shares of supported answers, and differences to the baseline."""
        return self.judgement.support

    @property
    def outcomes(self) -> dict[str, int]:
        """Number of answers by their outcome."""
        # Outcomes that no answer has are counted as 0, so that JSON has them all.
        return dict.fromkeys(("graded", "empty", "refused", "unreadable"), 0) | Counter(
            answer.outcome for answer in self.answers
        )

    @property
    def sentences(self) -> tuple[str, ...]:
        """The judges, the queries and answers that are left out, and each difference to the baseline."""
        support, task, outcomes = self.support, self.session.task, self.outcomes
        agreement, remark = self.judgement.agreement, self.judgement.remark
        lacking = [f"{outcomes[name]:,} {name}" for name in ("empty", "refused", "unreadable") if outcomes[name]]
        n_answers = f"{counted(len(self.answers), ANSWER_ITEM)} by {self.reader}"
        counts = f"{n_answers}: {', '.join(lacking)}" if lacking else n_answers
        left_out = (
            (support.n_left_out, "have no grade of every answer, and are left out"),
            (task.n_unsupportable, "have no relevant document, and are not asked"),
            (task.n_cut, "have more relevant documents than the model reads"),
        )
        sentences = [f"Support, {self.judgement.origin}.", f"{counts}."]
        sentences += [f"{counted(n_queries, 'query', 'queries')}: {what}." for n_queries, what in left_out if n_queries]
        sentences += [] if agreement is None else [agreement.sentence]
        sentences += [remark] if remark else []
        rows = (system.comparison for system in support.systems)
        return (*sentences, *(describe_comparison(row) for row in rows if row is not None))

    def as_json(self) -> dict[str, Any]:
        """Return shares, differences and counts as plain JSON values."""
        return {
            "reader": self.reader, "k": self.k, **asdict(self.judgement), "outcomes": self.outcomes,
            "sentences": list(self.sentences),
        }  # fmt: skip

    def write_sheet(self, path: str | Path, seed: int = 0) -> Path:
        """Write the answers as a CSV file for a person to grade from its top, each answer of a query once.

        The person's grades that there are stand in it. Raises FrontierError if it cannot be written.
        """
        person, task = self.person_grades, self.session.task
        # What is empty is supported by nothing, whoever judges; the sample is of queries with something to read.
        readable = {answer.query for answer in self.answers if answer.text}
        answers = [answer for answer in self.answers if answer.query in readable]
        by_query: dict[str, list[GradedAnswer]] = {}
        for answer in answers:
            by_query.setdefault(answer.query, []).append(answer)
        graded_queries = [query for query in dict.fromkeys(query for query, _ in person) if query in readable]
        table = _tabulate(answers, {(item.query, item.system): item.grade for item in answers}) if answers else None
        rows = []
        for query in () if table is None else order_queries(list(by_query), table, graded_queries, seed):
            texts = set()
            for answer in by_query[query]:
                # Equal answers have one grade.
                if not answer.text or answer.text in texts:
                    continue
                texts.add(answer.text)
                evidence = shorten("\n\n".join(task.evidence[query]), MAX_CELL_CHARACTERS)
                reading = task.readings[query, answer.system]
                rows.append({
                    "query": query, "decoder": answer.system, "grade": person.get((query, answer.system)),
                    "text": reading.query, "answer": answer.text, "relevant documents": evidence,
                })  # fmt: skip
        return write_sheet(path, rows)


def grade_answers(
    systems: Sequence[Decoder | RankedRun],
    space: Space,
    queries: Embeddings,
    qrels: Qrels,
    endpoint: str,
    *,
    k: int = 10,
    person: str | Path | None = None,
    seed: int = 0,
    log: AnswerLog | None = None,
    progress: Progress | None = None,
    stop: Stop | None = None,
) -> AnswerGrading:
    """Have a chat model answer queries from each decoder's set, and grade if the relevant documents support that.

    Every answer and grade is kept as it comes, so that a run which was stopped goes on, and nothing is asked twice.
    What the model refuses, and what is no answer or no grade, is counted and left out. A person's grades of some of the
    answers correct the model's (prediction-powered inference, as in `engine.decide`).

    Parameters
    ----------
    systems : sequence of Decoder or RankedRun
        What returns the sets; the first is the baseline.
    space : Space
        The corpus.
    queries : Embeddings
        The queries, embedded from texts.
    qrels : Qrels
        Their judgements; answers are graded by the documents that these call relevant.
    endpoint : str
        An entry of endpoints.toml with a chat model.
    k : int
        Documents of each set.
    person : str or Path, optional
        A CSV file with a person's grades: query, decoder, grade, as `AnswerGrading.write_sheet` begins it.
    seed : int
        Of the bootstrap.
    log : AnswerLog, optional
        Where answers are kept; by default the corpus's, in Frontier's folder.
    progress : callable, optional
        Called as progress(done, total, label).
    stop : Stop, optional
        Checked while answers are waited for.

    Returns
    -------
    AnswerGrading
        Share of supported answers and difference to the baseline for each system, and the answers.

    Raises
    ------
    ParamError
        If the prompts lack a text, or k is out of range.
    DataError
        If there is no such endpoint, no query has a relevant document, or a file of grades is wrong.
    Cancelled
        If `stop` was set; what came is kept.
    FrontierError
        If nobody allowed to send as much (see `engine.allow_tokens`), or the service fails.

    Examples
    --------
    >>> import engine
    >>> engine.grade_answers([], None, None, None, "none")
    Traceback (most recent call last):
        ...
    engine.errors.ParamError: systems must hold a decoder or a run; got none
    """
    session = begin_session(systems, space, queries, qrels, endpoint, k=k, person=person, log=log)
    session.run(progress, stop)
    return summarize_answers(session, k, person, seed)


def begin_session(
    systems: Sequence[Decoder | RankedRun], space: Space, queries: Embeddings, qrels: Qrels, endpoint: str, *,
    k: int = 10, person: str | Path | None = None, log: AnswerLog | None = None,
) -> AnswerSession:  # fmt: skip
    """Return the session that `grade_answers` runs; nothing is sent yet. Raises its errors."""
    if not systems:
        raise ParamError("systems must hold a decoder or a run; got none")
    writer, grader = make_reader(endpoint)
    decoders = [system for system in systems if isinstance(system, Decoder)]
    # Decoded together, so that their names tell apart two settings of one selector.
    decoded = iter(decode_runs(decoders, space, queries, k))
    runs = [next(decoded) if isinstance(system, Decoder) else system for system in systems]
    name, n_same = Counter(run.name for run in runs).most_common(1)[0]
    # Answers are kept by name, so the second would silently take the place of the first.
    if n_same > 1:
        raise ParamError(f"systems must have different names; got {n_same} of the name {name!r}")
    task = build_task(runs, space.corpus, queries, qrels, k)
    if person is not None:
        # What is wrong with the person's file is said before anything is paid for.
        read_sheet(person, dict.fromkeys(task.readings))
    return AnswerSession(task=task, writer=writer, grader=grader, log=log or AnswerLog(locate_answers(space.corpus)))


def summarize_answers(session: AnswerSession, k: int, person: str | Path | None = None, seed: int = 0) -> AnswerGrading:
    """Return what the log holds for a session, with shares and differences; person, seed: as in `grade_answers`."""
    # From the log alone, so that a summary costs nothing, and is the same whoever asked the model.
    answers = collect_answers(session)
    texts = {(answer.query, answer.system): answer.text for answer in answers}
    person_grades = spread_grades({} if person is None else read_sheet(person, texts), texts)
    judgement = _estimate(session, answers, person_grades, k, seed)
    return AnswerGrading(
        reader=session.grader.name, k=k, answers=answers, person_grades=person_grades, judgement=judgement,
        session=session,
    )  # fmt: skip


def collect_answers(session: AnswerSession) -> tuple[GradedAnswer, ...]:
    """Return what the log holds of each query and system; an answer that was never asked has none."""
    logged, answers = session.log.read(), []
    for (query, system), reading in session.task.readings.items():
        text, grade, reason = session.find_text(logged, reading), None, ""
        if text:
            entry = logged.grades.get((session.grader.name, session.key_grade(reading, text)))
            grade, reason = (None, "") if entry is None else (entry.grade, entry.reason)
        elif text == "":
            # Nothing was said, so nothing is supported.
            grade = 0
        else:
            written = logged.written.get((session.writer.name, reading.key))
            reason = "" if written is None else written.reason
        answers.append(GradedAnswer(query=query, system=system, text=text, grade=grade, reason=reason))
    return tuple(answers)


def spread_grades(grades: Mapping[Pair, int], texts: Mapping[Pair, str | None]) -> dict[Pair, int]:
    """Give a person's grade of an answer to every system that has the same answer to the query.

    An empty answer has grade 0 on the queries of which the person graded something. texts: answers by query and system
    """
    # There is nothing to grade where the model refused, and all refusals look alike.
    spread = {pair: grade for pair, grade in grades.items() if texts[pair] is not None}
    by_answer = {(query, texts[query, system]): grade for (query, system), grade in spread.items()}
    graded_queries = {query for query, _ in spread}
    # A sheet shows equal answers of a query once.
    for (query, system), text in texts.items():
        if text == "" and query in graded_queries:
            spread[query, system] = 0
        elif (query, text) in by_answer:
            spread.setdefault((query, system), by_answer[query, text])
    return spread


def _estimate(
    session: AnswerSession, answers: Sequence[GradedAnswer], person_grades: Mapping[Pair, int], k: int, seed: int
) -> AnswerJudgement:
    """Return the support of each system, by the model alone or corrected by the person."""
    systems, judge = session.task.systems, session.grader.name
    model_grades = {(item.query, item.system): item.grade for item in answers}
    model_table, person_table = _tabulate(answers, model_grades), _tabulate(answers, person_grades)
    person, model = _as_qrels(answers, person_grades), _as_qrels(answers, model_grades)
    # No person is asked for queries of which every answer is empty.
    is_empty = ~np.isin(list(dict.fromkeys(a.query for a in answers)), [a.query for a in answers if a.text != ""])
    person_table[is_empty] = np.nan
    estimate = partial(estimate_support, systems, is_empty=is_empty, judge=judge, k=k, seed=seed)
    # The model's own result comes first: without grades of every answer there is nothing to correct.
    by_model = estimate(model_table)
    origin = f"judged by {judge} on {counted(by_model.n_queries, 'query', 'queries')}"
    if not any(grades.keys() & model.grades.get(query, {}).keys() for query, grades in person.grades.items()):
        return AnswerJudgement(by_model, f"{origin}, and by nobody else")
    agreement = compute_judge_agreement(person, model, judge, ANSWER_ITEM)
    try:
        support = estimate(model_table, person_table)
        if not support.is_corrected:
            return AnswerJudgement(support, origin, agreement, _ask_for_grades(support))
        # Of few grades chance alone makes a model look useless.
        check_judge(person, model, judge, ANSWER_ITEM)
    except DataError as error:
        # A judge that is no help leaves the person's own grades, as those of a judge of all that they graded.
        own = replace(estimate(person_table), n_left_out=0)
        support = spread_sample(own, by_model.n_gradable, by_model.n_queries)
        own_origin = f"judged by you on {counted(own.n_queries, 'query', 'queries')}"
        return AnswerJudgement(support, own_origin, agreement, f"{error}.")
    return AnswerJudgement(support, f"{origin}, corrected by {support.n_person:,} of yours", agreement)


def _ask_for_grades(support: SupportEstimate) -> str:
    """Return what a person must grade before their grades correct the model's."""
    if support.lacking:
        # A random sample needs the grades of every system's answers on the queries that it has.
        parts = [f"{counted(n_answers, ANSWER_ITEM)} of {name}" for name, n_answers in support.lacking.items()]
        return (
            f"Grade {' and '.join(parts)} first, on queries of which you graded others: only then do your grades count."
        )
    if support.n_gradable < MIN_GRADED_QUERIES:
        n_queries = counted(support.n_gradable, "query has an answer", "queries have answers")
        return f"Your grades correct the model's from {MIN_GRADED_QUERIES} queries on; {n_queries}."
    wanted = counted(MIN_GRADED_QUERIES - support.n_person, "more query", "more queries")
    return f"Grade every decoder's answer to {wanted}: then your grades correct the model's."


def _tabulate(answers: Sequence[GradedAnswer], grades: Mapping[Pair, int | None]) -> np.ndarray:
    """Return (n_queries, n_systems) ones for supported answers and zeros, NaN where there is no grade."""
    queries, systems = (
        list(dict.fromkeys(column)) for column in zip(*((a.query, a.system) for a in answers), strict=True)
    )
    table = np.full((len(queries), len(systems)), np.nan)
    row_of, column_of = (dict(zip(names, range(len(names)), strict=True)) for names in (queries, systems))
    for (query, system), grade in grades.items():
        if grade is not None:
            table[row_of[query], column_of[system]] = grade >= SUPPORTED_GRADE
    return table


def _as_qrels(answers: Sequence[GradedAnswer], grades: Mapping[Pair, int | None]) -> Qrels:
    """Return the grades of answers as judgements of texts, each once: empty answers are no agreement."""
    by_query: dict[str, dict[str, int]] = {}
    for answer in answers:
        grade = grades.get((answer.query, answer.system))
        if answer.text and grade is not None:
            by_query.setdefault(answer.query, {})[answer.text] = grade
    return Qrels(by_query, judgements="pooled")
