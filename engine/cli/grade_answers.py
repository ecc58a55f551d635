"""The command `grade-answers`: a language model answers queries from decoders' sets; relevant documents support it."""

from typing import Any

from engine.cli.group import Meter, stop_on_interrupt
from engine.cli.inputs import JudgedOptions
from engine.cli.judge import list_systems
from engine.cli.output import echo, echo_json, echo_lines, format_columns
from engine.judging.answers import make_reader
from engine.judging.grade_answers import AnswerGrading, begin_session, summarize_answers
from engine.wording import decimal, gain, percent


def grade_answers(
    judged: JudgedOptions,
    endpoint: str,
    selectors: tuple[str, ...],
    runs: tuple[str, ...],
    k: int,
    prompt: bool,
    person: str | None,
    sheet: str | None,
    as_json: bool,
) -> None:
    """Have a language model answer queries from each decoder's set, and grade its answers by the relevant documents.

    Parameters
    ----------
    judged : JudgedOptions
        The corpus, its encoder and the labelled queries.
    endpoint : str
        The entry of endpoints.toml whose chat model is asked.
    selectors : tuple of str
        Selectors whose sets are read; empty for all.
    runs : tuple of str
        Files of other systems' results.
    k : int
        Documents of each set.
    prompt : bool
        Print the prompts instead.
    person : str or None
        A CSV file with a person's grades.
    sheet : str or None
        A CSV file to write, for a person to grade answers in.
    as_json : bool
        Print one JSON object.

    Raises
    ------
    FrontierError
        If no query has relevant documents, the service fails, or nobody allowed to send so much.
    """
    # An unknown endpoint, or a wrong prompt, is said before the corpus is embedded.
    models = make_reader(endpoint)
    if prompt:
        return echo_lines(f"{setting}:\n{model.prompt}\n" for setting, model in zip(PROMPTS, models, strict=True))
    with Meter() as meter, stop_on_interrupt() as stop_event:
        _, space, queries, qrels = judged.load_judged(meter)
        systems = list_systems(space, queries, selectors, runs, k)
        session = begin_session(systems, space, queries, qrels, endpoint, k=k, person=person)
        estimate = session.estimate()
        # People should know what leaves this machine, before it does.
        if estimate.n_texts:
            meter.clear()
            echo(f"asking {session.writer.model} for answers and their grades: {estimate}", err=True)
        session.run(meter, stop_event)
    grading = summarize_answers(session, k, person, judged.seed)
    if sheet is not None:
        grading.write_sheet(sheet, judged.seed)
    if as_json:
        return echo_json({**grading.as_json(), "sheet": sheet})
    echo(_format_table(grading) + "\n")
    echo_lines(grading.sentences)
    if sheet is not None:
        echo(f"answers to grade from the top on are in {sheet}: give it back by --person")


PROMPTS = ("answer_prompt", "support_prompt")
"""Settings of endpoints.toml that change the prompts of writer and grader."""


def _format_table(grading: AnswerGrading) -> str:
    """Format a row for each system: share of supported answers, difference to the baseline, both with intervals."""
    baseline = grading.support.systems[0].name
    rows: list[tuple[Any, ...]] = [("", "supported", "95% CI", f"vs {baseline}", "95% CI", "p (Holm)")]
    for system in grading.support.systems:
        cells = [system.name, percent(system.rate), f"{percent(system.low)} to {percent(system.high)}"]
        row = system.comparison
        if row is None:
            cells += ["", "", ""]
        else:
            # A single query has no interval.
            ends = [decimal(end) for end in (row.low, row.high) if end is not None]
            cells += [gain(row.difference), " to ".join(ends), f"{row.p_holm:.3f}"]
        rows.append(tuple(cells))
    return format_columns(rows, "lrrrrr")
