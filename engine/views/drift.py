"""Drift views: measures over time, answers before and after, documents that moved, the log, regret."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from types import MappingProxyType
from typing import Any

import numpy as np

from engine.decoder import Decoder, decode, query_batch
from engine.drift.measures import (
    AMBER_LENGTH,
    DEPTH,
    HUB_ALARM,
    MEASURES,
    RED_LENGTH,
    Drift,
    DriftBaseline,
    Measure,
    answers,
    drift,
    mark_reordered,
    origin,
    shared,
)
from engine.drift.round_metrics import ALL, HELD_OUT, MEASURED, RoundCell, RoundMetrics, called, right_rows
from engine.feedback import Session
from engine.progress import counted
from engine.simulation.simulate import Simulated
from engine.space import Space
from engine.values import Embeddings, Qrels, replace_surrogates
from engine.views.decision import relevances
from engine.views.document import ShownDocument, shown_fields
from engine.views.sets import Card, Row, card, diff
from engine.wording import decimal, percent, signed

MAX_CURVE_POINTS = 400
"""Rounds at which a longer curve is drawn."""
MIN_REPORTED_SHIFT = 0.001
"""Least distance that sentences give."""
NOISE_CHANGE = 0.01
"""A smaller change of a measure says nothing."""
MIN_AXIS_SPAN = 0.05
"""Least range of the axis of a measure without an alarm: a change that says nothing fills a fifth of it at most."""


@dataclass(frozen=True)
class Timeline:
    """Measures of drift over time, as columns for charts."""

    steps: tuple[int, ...]  # rising
    columns: Mapping[str, tuple[float | None, ...]]  # measure → one value a step, None where it could not be measured
    measures: tuple[Measure, ...]  # those of the columns
    alarms: tuple[bool, ...]  # one a step
    lights: tuple[str, ...]  # one a step


def timeline(drifts: Sequence[Drift]) -> Timeline:
    """Arrange several steps' measures of drift as columns over time, with each step's alarms and traffic light.

    A measure that no step has is left out.
    """
    columns = {}
    for measure_name in MEASURES:
        column = tuple(measured.figures[measure_name] for measured in drifts)
        is_measured = bool(_drop_missing(column))
        if is_measured:
            columns[measure_name] = column
    rows = [(measured.step, measured.alarm, measured.light) for measured in drifts]
    steps, alarms, lights = zip(*rows, strict=True) if rows else ((), (), ())
    return Timeline(steps, columns, tuple(map(MEASURES.__getitem__, columns)), alarms, lights)


def _drop_missing(values: Iterable[float | None]) -> list[float]:
    """Return the values of the steps at which a measure was known, without None."""
    return [value for value in values if value is not None]


@dataclass(frozen=True, kw_only=True)
class Sparkline:
    """A measure over time, with an axis that no noise leaves."""

    measure: Measure
    values: tuple[float | None, ...]  # one a step, None where it could not be measured
    low: float  # end of the axis
    high: float  # end of the axis
    alarm: float | None  # the value from which on it is an alarm
    unexplored: tuple[float | None, ...] = ()  # the values if nothing were explored, () where nobody knows

    def value_and_change(self, position: int) -> tuple[str, str, bool]:
        """Return a measure's latest value up to a step, and its change since the start, as texts.

        The third result is True for a change too small to tell from noise.
        """
        measured_values = _drop_missing(self.values[: position + 1])
        if not measured_values:
            return "–", "", True
        change = measured_values[-1] - measured_values[0]
        return decimal(measured_values[-1]), signed(change), abs(change) < NOISE_CHANGE


def sparklines(
    drifts: Sequence[Drift], unexplored: Mapping[str, Sequence[float | None]] = MappingProxyType({})
) -> tuple[Sparkline, ...]:
    """Return the measures of drift over time as small lines, whose axes show noise as noise.

    An axis with an alarm ends at the alarm, so that the height tells how far trouble is: that of hubs has the start in
    its middle, that of lengths begins at 0. Other axes reach over the values, but over MIN_AXIS_SPAN at least.
    unexplored: measure → its values had every round shown the best document, not one drawn at random; they are drawn
    beside the others.
    """
    lines = []
    for measure_name, values in timeline(drifts).columns.items():
        line = _sparkline(drifts, measure_name, values)
        unexplored_values = tuple(unexplored.get(line.measure.name, ()))
        # Both lines of a measure have to fit its axis.
        if measured_values := _drop_missing(unexplored_values):
            low, high = min(line.low, *measured_values), max(line.high, *measured_values)
            line = replace(line, unexplored=unexplored_values, low=low, high=high)
        lines.append(line)
    return tuple(lines)


def share_axes(lines: Sequence[Sparkline]) -> tuple[Sparkline, ...]:
    """Return lines that are drawn together with one axis for those of one kind, so that they can be compared."""
    shared_lines = []
    for line in lines:
        # A measure without a kind has an axis of its own.
        kind = line.measure.kind
        same_kind = [drawn_line for drawn_line in lines if kind and drawn_line.measure.kind == kind] or [line]
        lows, highs = zip(*[(drawn_line.low, drawn_line.high) for drawn_line in same_kind], strict=True)
        shared_lines.append(replace(line, low=min(lows), high=max(highs)))
    return tuple(shared_lines)


def _sparkline(drifts: Sequence[Drift], name: str, values: tuple[float | None, ...]) -> Sparkline:
    """Build the line of one drift measure over time, with its axis and the level of its alarm.

    name: of the measure; values: one a step, None where it could not be measured
    """
    measured_values, alarm, alarm_axis_low = _drop_missing(values), None, 0.0
    if name == "hubs":
        # The alarm is a rise over the value before feedback.
        start = next((measured.start for measured in drifts if measured.start is not None), measured_values[0])
        alarm, alarm_axis_low = start + HUB_ALARM, start - HUB_ALARM
    elif name == "longest":
        # Where vectors are not kept in the unit ball they can grow freely, so the warning comes earlier.
        is_bounded = all(measured.ball for measured in drifts)
        alarm = RED_LENGTH if is_bounded else AMBER_LENGTH
    # A value off the axis extends it rather than being cut.
    minimum, maximum = min(measured_values), max(measured_values)
    if alarm is not None:
        minimum, maximum = min(minimum, alarm_axis_low), max(maximum, alarm)
    elif maximum - minimum < MIN_AXIS_SPAN:
        # All these measures lie between 0 and 1, as the axis does.
        middle = min(max((minimum + maximum) / 2, MIN_AXIS_SPAN / 2), 1 - MIN_AXIS_SPAN / 2)
        minimum, maximum = min(minimum, middle - MIN_AXIS_SPAN / 2), max(maximum, middle + MIN_AXIS_SPAN / 2)
    return Sparkline(measure=MEASURES[name], values=values, alarm=alarm, low=minimum, high=maximum)


@dataclass(frozen=True, kw_only=True)
class Line:
    """A metric of one decoder over time, on one part and group of the queries.

    title: of the metric; queries: their number.
    """

    decoder: str
    label: str
    metric: str
    title: str
    part: str
    group: str
    queries: int
    steps: tuple[int, ...]
    values: tuple[float | None, ...]


def quality(
    checkpoints: Sequence[RoundMetrics],
    metrics: Sequence[str] = tuple(MEASURED),
    part: str = HELD_OUT,
    group: str = ALL,
) -> tuple[Line, ...]:
    """Collect the metrics of every decoder over time, on one part and group of queries, as lines.

    checkpoints: measurements between rounds of feedback; part: "held-out" for the queries that got no feedback,
    "stream" for those that did; group: "tail" for the queries whose right documents are all among the half that is
    right least often in the stream, "head" for the other queries, "all" for both.
    """
    cells: dict[str, list[tuple[int, RoundCell]]] = {}
    for checkpoint in checkpoints:
        for cell in checkpoint.cells:
            if (cell.part, cell.group) == (part, group) and cell.queries:
                cells.setdefault(cell.label, []).append((checkpoint.step, cell))
    metric_lines = []
    for (label, step_cells), metric in product(cells.items(), metrics):
        steps, line_cells = zip(*step_cells, strict=True)
        values = tuple(None if np.isnan(cell.mean[metric]) else cell.mean[metric] for cell in line_cells)
        metric_lines.append(Line(
            decoder=line_cells[0].decoder, label=label, metric=metric, title=MEASURED[metric], part=part, group=group,
            queries=line_cells[0].queries, steps=steps, values=values,
        ))  # fmt: skip
    return tuple(metric_lines)


@dataclass(frozen=True)
class ThenNow:
    """One decoder's answers to one query, before feedback and now, with their metrics."""

    decoder: str
    label: str
    rows: tuple[Row, ...]  # the answer now, each row with its change against then
    dropped: tuple[Row, ...]  # rows of the answer then that are not in it now
    before: Mapping[int, float]  # row → its relevance then
    card: Card  # the metrics of now against then, ILAD in the space of the start

    @property
    def same(self) -> bool:
        """True if the answer is unchanged, including its order."""
        return not self.dropped and all(row.change == 0 for row in self.rows)


def then_and_now(
    then: Space, now: Space, decoders: Sequence[Decoder], query: Any, k: int = 10, qrels: Qrels | None = None
) -> tuple[ThenNow, ...]:
    """Return every decoder's answer to one query in two spaces of one corpus, before and after feedback.

    query: text, or Embeddings of one row; k: length of the answers; qrels: judgements, for the metrics
    """
    batch = query_batch(then, query)
    queries = Embeddings(batch.ids, batch.vectors.cpu(), then.embeddings.encoder, batch.texts)
    answers = []
    for decoder, decoder_name in zip(decoders, called(decoders), strict=True):
        new_ranking, old_ranking = decode(decoder, now, queries, k), decode(decoder, then, queries, k)
        rows, dropped = diff(now, batch.vectors[0], batch.ids[0], new_ranking, old_ranking, qrels)
        # Dropped documents are listed too, with the relevance that they had.
        listed = [row.row for row in (*rows, *dropped)]
        old_relevance = dict(zip(listed, relevances(then, batch.vectors[0], listed), strict=True)) if listed else {}
        metrics = card(then, batch.ids[0], new_ranking, old_ranking, qrels, k)
        answers.append(ThenNow(decoder_name, decoder.label, tuple(rows), tuple(dropped), old_relevance, metrics))
    return tuple(answers)


@dataclass(frozen=True, kw_only=True)
class Moved(ShownDocument):
    """A document that moved."""

    distance: float  # beyond the common shift
    length: float  # of its vector now


def movers(measured: Drift, space: Space, now: np.ndarray, then: np.ndarray | None = None) -> tuple[Moved, ...]:
    """List the documents that feedback moved most, with their texts, distances and lengths.

    measured: the drift from the vectors before feedback to the current ones, with the documents that moved farthest;
    now: (n, d) current vectors; then: (n, d) vectors before feedback, by default the space's own. Documents whose two
    vectors are equal bit for bit are left out.
    """
    start_vectors = space.matrix.on_cpu.numpy() if then is None else then
    moved_documents = []
    for row, distance in measured.movers:
        # Distances are counted from the mean displacement of all documents, so one that stayed has a distance too.
        if not np.array_equal(start_vectors[row], now[row]):
            length = float(np.linalg.norm(now[row].astype(np.float64)))
            moved_documents.append(Moved(**shown_fields(space.corpus, row), distance=distance, length=length))
    return tuple(moved_documents)


@dataclass(frozen=True)
class ChangedQuery:
    """A probe query whose answer changed: its documents, or their order alone."""

    index: int  # its index among the probes
    id: str
    text: str  # empty where unknown
    overlap: float  # the share of its first answers that both states have; 1 where only their order changed


@dataclass(frozen=True)
class Between:
    """Changes from one state of the documents' vectors to another."""

    drift: Drift
    movers: tuple[Moved, ...]  # the documents that moved most
    queries: tuple[ChangedQuery, ...]  # the probe queries whose answers changed most
    same: bool  # True if nothing differs


def compare_states(
    space: Space,
    first: np.ndarray,
    second: np.ndarray,
    probes: Embeddings | None = None,
    *,
    qrels: Qrels | None = None,
    temperature: float = 1.0,
    ball: bool = True,
    max_queries: int = 20,
) -> Between:
    """Compare two states of the documents' vectors: drift, moved documents, changed answers.

    first, second: (n, d) vectors of the documents in either state; probes: queries whose answers are compared; qrels:
    their judgements; temperature: τ of the softmax by which documents are drawn; ball: True if rows are kept in the
    unit ball; max_queries: number of changed queries to list
    """
    right_answers = None if probes is None or qrels is None else right_rows(qrels, probes.ids, space.corpus.position)
    baseline = origin(first, probes, right=right_answers, temperature=temperature)
    measured, is_same = drift(baseline, second, ball=ball), bool(np.array_equal(first, second))
    changed = find_changed_queries(baseline, second, probes, max_queries)
    return Between(measured, movers(measured, space, second, first), changed, is_same)


def find_changed_queries(
    start: DriftBaseline, now: np.ndarray, probes: Embeddings | None, max_queries: int = 20
) -> tuple[ChangedQuery, ...]:
    """Find the queries whose first answers feedback has changed, most changed first; those with another order last.

    start: the documents before feedback; now: (n, d) their present vectors; probes: the queries whose answers are
    followed, None for none; max_queries: number of queries at most
    """
    if probes is None or start.probes is None:
        return ()
    # For each query the share of its ten first answers before feedback that are still among the ten first.
    answers_now = answers(now.astype(np.float64), start.probes)
    overlap, is_reordered = shared(start.answers, answers_now), mark_reordered(start.answers, answers_now)
    # The smallest share first, then those in another order, ties in the order of the queries.
    most_changed_first = np.lexsort((np.arange(len(overlap)), ~is_reordered, overlap))
    texts, changed = probes.texts or ("",) * len(probes), []
    for index in most_changed_first[:max_queries].tolist():
        if overlap[index] < 1 or is_reordered[index]:
            query_id, text = replace_surrogates(probes.ids[index]), replace_surrogates(texts[index])
            changed.append(ChangedQuery(index, query_id, text, float(overlap[index])))
    return tuple(changed)


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One piece of feedback, as a log shows it."""

    id: str
    round: int
    kind: str
    query: str
    row: int  # of the document
    document: str  # its id
    said: str  # in words
    good: bool
    propensity: float | None  # the probability with which it was shown, None where it was not drawn
    person: str | None
    status: str  # "counts", "undone" or "replaced"
    time: float | None  # seconds since 1970 at which a log took it, None where none did


FEEDBACK_WORDS = {
    ("thumb", True): "more like this",
    ("thumb", False): "less like this",
    ("right_one", True): "correct answer",
    ("sampled", True): "more like this",
    ("sampled", False): "less like this",
    ("full", True): "the whole truth",
}


def feedback(session: Session, max_entries: int | None = 200) -> tuple[Entry, ...]:
    """List a feedback session's events for a log, the newest first, undone ones included."""
    ids = session.space.corpus.ids
    return tuple(
        Entry(
            id=event.id, round=event.round, kind=event.kind, query=replace_surrogates(event.query.text or ""),
            row=event.item, document=replace_surrogates(ids[event.item]), said=FEEDBACK_WORDS[event.kind, event.good],
            good=event.good, propensity=event.propensity, person=event.person, status=session.status(event.id),
            time=event.time,
        )
        for event in session.history[::-1][:max_entries]
    )  # fmt: skip


@dataclass(frozen=True)
class RegretLines:
    """Cumulative regret."""

    steps: tuple[int, ...]  # rounds from 1
    lines: Mapping[str, tuple[float, ...]]  # name → one value a step
    notes: tuple[str, ...]  # reservations, in words
    rate: float | None  # the η of Corollary 5.2, None where it does not apply
    corollary: float | None  # the regret that it would allow after all rounds


def regret(simulated: Simulated, max_points: int = MAX_CURVE_POINTS) -> RegretLines:
    """Return a simulation's regret and theory's bounds as lines over rounds, at a limited number of them.

    Regret is the loss beyond that of somebody who knows more, summed over rounds, in nats. Two are compared with: a
    learner with full information (the oracle), and the best fixed embeddings, chosen at the end (in hindsight). The
    bounds are Theorem 5.1 and Corollary 5.2 of the ORAG paper. max_points: number of rounds at most.
    """
    totals, n_rounds = simulated.regret, len(simulated.trail)
    # At most one point per round, the first and the last among them.
    round_index = np.unique(np.rint(np.linspace(0, n_rounds - 1, min(max_points, n_rounds))).astype(int))
    bounds = totals.bounds
    columns = {
        "against the full-information oracle": totals.oracle,
        "against the best in hindsight": totals.best,
        "promised by Theorem 5.1": None if bounds is None else bounds.theorem,
    }
    regret_lines = {name: tuple(column[round_index].tolist()) for name, column in columns.items() if column is not None}
    notes = list(totals.doubts)
    if simulated.hindsight is not None and simulated.hindsight.gap > 0:
        nats_per_round = simulated.hindsight.gap / n_rounds
        notes.append(f"the best in hindsight is known to within {decimal(nats_per_round)} nats a round")
    rate, corollary = (None, None) if bounds is None else (bounds.rate, bounds.corollary)
    return RegretLines(tuple((round_index + 1).tolist()), regret_lines, tuple(notes), rate, corollary)


def describe_shift(measured: Drift) -> str | None:
    """Say how far all documents moved together, if that is worth a word."""
    if measured.shift <= MIN_REPORTED_SHIFT:
        return None
    return f"All moved together by {decimal(measured.shift)}, which changes no ranking."


def _describe_movement(measured: Drift) -> str:
    """Say how far half of the documents moved, nearly all of them, and the farthest one."""
    # One vote moves its own document, and all others by figures with too many zeros to be read.
    median, high = map(_format_bound, (measured.median, measured.q99))
    figures = [f"99% of the documents by {high}"]
    if median != high:
        figures.insert(0, f"half of the documents by {median}")
        figures[1] = f"99% by {high}"
    farthest = [f"the farthest by {decimal(measured.movers[0].distance)}"] if measured.movers else []
    return f"Moved: {', '.join([*figures, *farthest])}."


def _format_bound(distance: float) -> str:
    """Format a distance that a share of the documents stays within, "at most 0.012"."""
    return f"less than {MIN_REPORTED_SHIFT}" if distance < MIN_REPORTED_SHIFT else f"at most {decimal(distance)}"


def conclusions(measured: Drift, n_probes: int | None = None) -> tuple[str, ...]:
    """Say in sentences how far documents moved, how answers changed, and what to watch out for.

    n_probes: number of the queries whose answers are followed, None where it is not at hand
    """
    if measured.q99 == 0 and not measured.movers:
        return ("Nothing has moved.",)
    sentences = [_describe_movement(measured)]
    if measured.churn is not None:
        probes = "the probe queries" if n_probes is None else counted(n_probes, "query", "queries")
        changed_text = f"{percent(measured.churn, 1)} of the top {DEPTH} changed, on average over {probes}."
        # A vote that swaps two results replaces none, and must not read as if it had done nothing.
        if measured.reordered and measured.churn == 0:
            reordered_text = counted(measured.reordered, "query", "queries")
            changed_text = f"The top {DEPTH} of {probes}: same documents, order changed on {reordered_text}."
        sentences.append(changed_text)
    if measured.alarm and measured.start is not None and measured.hubs is not None:
        gini = f"Gini {decimal(measured.start)} → {decimal(measured.hubs)}"
        sentences.append(f"Hub alarm: a few documents crowd the results ({gini}).")
    # The light, a warning colour, is not green if vectors have grown longer than they should.
    if measured.light != "green":
        sentences.append(f"The longest vector has length {measured.longest:.2f}: some documents win by length alone.")
    return tuple(sentences)
