"""The command `identify`: which decoder made a run, or whether it is the one that was expected."""

from typing import Any

import click

import engine
from engine.cli.group import Meter, stop_on_interrupt, use_threads
from engine.cli.inputs import CorpusOptions, make_stages, parse_name, space_and_decoder
from engine.cli.output import echo, echo_json, echo_notices, format_columns, or_dash
from engine.decoder import DEPTH
from engine.errors import FrontierError
from engine.evaluation.export_decoder import read_setting
from engine.identification.hypotheses import Hypothesis
from engine.identification.identification import Identification
from engine.identification.monitor import check_expectation
from engine.identification.run_vectors import find_dataset_vectors

N_ROWS = 8
"""Hypotheses of the printed table."""
N_EXAMPLES = 5
EXIT_CHANGED, EXIT_UNDECIDED = 1, 2


def identify(
    source: CorpusOptions,
    run: str,
    selectors: tuple[str, ...],
    depth: str | None,
    seed: int,
    expected: str | None,
    as_json: bool,
) -> None:
    """Print which decoder made a run, or compare the run with a setting.

    Parameters
    ----------
    source : CorpusOptions
        The corpus and its encoder.
    run : str
        The file of the run.
    selectors : tuple of str
        The selectors that are tried; none for all.
    depth : str or None
        The depth of the pool, if it is known.
    seed : int
        Of the resampling.
    expected : str or None
        The file of the setting that should have made the run.
    as_json : bool
        Print one JSON object.
    """
    use_threads()
    # The exit code is the answer that a nightly job reads.
    if expected is not None:
        click.get_current_context().exit(_compare(source, run, expected, seed, as_json))
    decoders = _read_selectors(selectors)
    with Meter() as meter, stop_on_interrupt() as stop_event:
        dataset = source.load(meter)
        space = space_and_decoder(dataset, source, progress=meter)[0]
        # Narrower hypotheses are about the decoder: other encoders are not asked for.
        embeddings = find_dataset_vectors(space, dataset) if decoders is None else ()
        identification = engine.identify(
            run, space, dataset.queries, decoders=decoders, depth=None if depth is None else DEPTH.parse(depth),
            seed=seed, embeddings=embeddings, progress=meter, stop=stop_event,
        )  # fmt: skip
    if as_json:
        return echo_json(identification.as_json(), allow_nan=False)
    echo_notices(identification.notices)
    _echo_identification(identification, len(space))


def _read_selectors(selectors: tuple[str, ...]) -> list[Any] | None:
    """Return the selectors that flags name: with parameters as they are, else with every window; None for all."""
    if not selectors:
        return None
    chosen: list[Any] = []
    for text in selectors:
        method_name, param_texts = parse_name(text, "select")
        # A bare name stands for all of its windows, as without the flag.
        chosen.append(make_stages([text], "select")[0] if param_texts else method_name)
    return chosen


def _compare(source: CorpusOptions, run: str, expected: str, seed: int, as_json: bool) -> int:
    """Compare a run with the setting of a file; print the result and return the exit code.

    0 where the setting explains the run, 1 where it does not, 2 where that could not be judged.
    """
    try:
        decoder, _ = read_setting(expected)
        with Meter() as meter, stop_on_interrupt() as stop_event:
            dataset = source.load(meter)
            space = space_and_decoder(dataset, source, progress=meter)[0]
            expectation = check_expectation(
                run, space, dataset.queries, decoder, seed=seed, progress=meter, stop=stop_event
            )
    except FrontierError as error:
        # An error is no answer: 1 would say that the system has changed.
        if as_json:
            echo_json({"expected": None, "error": str(error)})
        else:
            echo(f"could not be judged: {error}", err=True)
        return EXIT_UNDECIDED
    if as_json:
        echo_json(expectation.as_json(), allow_nan=False)
    else:
        echo_notices(expectation.notices)
        for sentence in expectation.sentences:
            echo(sentence)
    if expectation.is_met is None:
        return EXIT_UNDECIDED
    return 0 if expectation.is_met else EXIT_CHANGED


def _echo_identification(identification: Identification, n_documents: int) -> None:
    """Print the sentences, the best hypotheses as a table, and picks that the best does not explain."""
    for sentence in identification.sentences:
        echo(sentence)
    rows = [("explained", "λ", "interval", "pool", "hypothesis")]
    rows += [_format_hypothesis(each, n_documents) for each in identification.hypotheses[:N_ROWS]]
    echo()
    echo(format_columns(rows, "rrrrl"))
    if unexplained := identification.best.unexplained:
        echo()
        examples = [("query", "place", "returned", "expected")]
        for pick in unexplained[:N_EXAMPLES]:
            examples.append((pick.query, str(pick.rank), pick.document, pick.expected or "– (outside the pool)"))
        echo(format_columns(examples, "lrll"))


def _format_hypothesis(hypothesis: Hypothesis, n_documents: int) -> tuple[str, str, str, str, str]:
    """Return the row of a hypothesis in the table."""
    weight, interval = getattr(hypothesis.decoder.select, "relevance_weight", None), hypothesis.interval
    ends = "–" if interval is None else f"{interval[0]:.3f} to {interval[1]:.3f}"
    pool = " to ".join("all" if end == n_documents else f"{end:,}" for end in dict.fromkeys(hypothesis.depth))
    return f"{hypothesis.explained:.1%}", or_dash(weight, 3), ends, pool, hypothesis.label
