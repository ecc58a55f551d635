"""What feedback did to the documents: drift over time, answers then and now, what moved, and what it cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from engine.decoder import Decoder, decode, query_batch
from engine.learning.checkpoints import ALL, HELD_OUT, MEASURED, Checkpoint, adapted, called
from engine.learning.drift import DEPTH, MEASURES, Drift, Measure, Origin, answers, drift, origin, shared
from engine.learning.orag import Session
from engine.learning.simulation import Simulated
from engine.learning.streams import right_rows
from engine.space import Space
from engine.values import Embeddings, Qrels, showable
from engine.views.decision import relevances
from engine.views.sets import Card, Row, card, diff

SHOWN = 400
"""A curve of more rounds is drawn at so many of them."""
LEAST = 0.001
"""Sentences give distances to so much."""


@dataclass(frozen=True)
class Timeline:
    """Drift over time. steps: rising; columns: measure → one value a step, None where it could not be measured;
    measures: those that were, with their meaning in words; alarms, lights: one a step."""

    steps: tuple[int, ...]
    columns: Mapping[str, tuple[float | None, ...]]
    measures: tuple[Measure, ...]
    alarms: tuple[bool, ...]
    lights: tuple[str, ...]


def timeline(drifts: Sequence[Drift]) -> Timeline:
    """Drift at several steps as columns, measures that were never there left out."""
    columns = {name: tuple(d.figures[name] for d in drifts) for name in MEASURES}
    there = {name: column for name, column in columns.items() if any(v is not None for v in column)}
    return Timeline(
        tuple(d.step for d in drifts),
        there,
        tuple(MEASURES[name] for name in there),
        tuple(d.alarm for d in drifts),
        tuple(d.light for d in drifts),
    )


@dataclass(frozen=True)
class Line:
    """A decoder's metric over time. title: of the metric; queries: over how many."""

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
    checkpoints: Sequence[Checkpoint], metrics: Sequence[str] = tuple(MEASURED), part: str = HELD_OUT, group: str = ALL
) -> tuple[Line, ...]:
    """What every decoder reached at every checkpoint, on one part ("held-out" or "stream") and group of queries ("all",
    "head" or "tail"); nothing where there are no such queries."""
    found: dict[str, list[Any]] = {}
    for checkpoint in checkpoints:
        for cell in checkpoint.cells:
            if (cell.part, cell.group) == (part, group) and cell.queries:
                found.setdefault(cell.label, []).append((checkpoint.step, cell))
    return tuple(
        Line(
            cells[0][1].decoder, label, metric, MEASURED[metric], part, group, cells[0][1].queries,
            tuple(step for step, _ in cells), tuple(_plain(cell.mean[metric]) for _, cell in cells),
        )
        for label, cells in found.items()
        for metric in metrics
    )  # fmt: skip


@dataclass(frozen=True)
class ThenNow:
    """One decoder's answer to one query, then and now.

    rows: as it is now, each with what changed against then; dropped: what was there then; before: row → the relevance
    that it had then; card: the figures of now against then, ILAD in the space of the start.
    """

    decoder: str
    label: str
    rows: tuple[Row, ...]
    dropped: tuple[Row, ...]
    before: Mapping[int, float]
    card: Card

    @property
    def same(self) -> bool:
        """Whether the answer is the same, order and all."""
        return not self.dropped and all(row.change == 0 for row in self.rows)


def then_and_now(
    then: Space, now: Space, decoders: Sequence[Decoder], query: Any, k: int = 10, qrels: Qrels | None = None
) -> tuple[ThenNow, ...]:
    """What every decoder answers one query, in two spaces of one corpus. query: text, or Embeddings of one row."""
    asked = query_batch(then, query)
    given = Embeddings(asked.vectors.cpu(), asked.ids, then.embeddings.encoder, asked.texts)
    found = []
    for decoder, name in zip(decoders, called(decoders), strict=True):
        here, there = decode(decoder, now, given, k), decode(decoder, then, given, k)
        rows, dropped = diff(now, asked.vectors[0], asked.ids[0], here, there, qrels)
        listed = [row.row for row in (*rows, *dropped)]
        before = dict(zip(listed, relevances(then, asked.vectors[0], listed), strict=True)) if listed else {}
        figures = card(then, asked.ids[0], here, there, qrels, k)
        found.append(ThenNow(name, decoder.label, tuple(rows), tuple(dropped), before, figures))
    return tuple(found)


@dataclass(frozen=True)
class Moved:
    """A document that moved. distance: beyond the common shift; length: of its vector now."""

    row: int
    id: str
    title: str
    text: str
    distance: float
    length: float


def movers(found: Drift, space: Space, now: np.ndarray, then: np.ndarray | None = None) -> tuple[Moved, ...]:
    """The documents that moved most, with their text; none that is bit by bit where it was.

    now: (n, d) Θ_t; then: (n, d) what the drift is from, by default the space's own vectors.
    """
    corpus, start = space.corpus, space.matrix.host.numpy() if then is None else then
    return tuple(
        Moved(
            row, showable(corpus.ids[row]), showable(corpus.titles[row]), showable(corpus.texts[row]), distance,
            float(np.linalg.norm(now[row].astype(np.float64))),
        )
        for row, distance in found.movers
        if not np.array_equal(start[row], now[row])
    )  # fmt: skip


@dataclass(frozen=True)
class Changed:
    """A probe query whose answer changed: its place among the probes, id, text where known, and the share of its first
    answers that both states have."""

    place: int
    id: str
    text: str
    overlap: float


@dataclass(frozen=True)
class Between:
    """From one state to another: the drift, the documents that moved most, the probe queries whose answers changed
    most, and whether anything differs at all."""

    drift: Drift
    movers: tuple[Moved, ...]
    queries: tuple[Changed, ...]
    same: bool


def between(
    space: Space,
    one: np.ndarray,
    other: np.ndarray,
    probes: Embeddings | None = None,
    *,
    qrels: Qrels | None = None,
    temperature: float = 1.0,
    ball: bool = True,
    most: int = 20,
) -> Between:
    """Compare two states of the documents, two snapshots for example. one, other: (n, d), Θ at both; most: queries."""
    right = None if probes is None or qrels is None else right_rows(qrels, probes.ids, space.corpus.position)
    start = origin(one, probes, right=right, temperature=temperature)
    found = drift(start, other, ball=ball)
    return Between(
        found, movers(found, space, other, one), changed(start, other, probes, most), bool(np.array_equal(one, other))
    )


def changed(start: Origin, now: np.ndarray, probes: Embeddings | None, most: int = 20) -> tuple[Changed, ...]:
    """The probe queries whose first answers changed, most changed first."""
    if probes is None or start.probes is None:
        return ()
    kept = shared(start.answers, answers(now.astype(np.float64), start.probes))
    order = np.lexsort((np.arange(len(kept)), kept))
    texts = probes.texts or ("",) * len(probes)
    return tuple(
        Changed(at, showable(probes.ids[at]), showable(texts[at]), float(kept[at]))
        for at in order[:most].tolist()
        if kept[at] < 1
    )


@dataclass(frozen=True)
class Entry:
    """One piece of feedback, as a log shows it. document: its id; said: in words; status: "counts", "undone" or
    "replaced"; propensity: the chance with which it was shown, None where it was not drawn; time: when a log took it,
    in seconds since 1970, None where none did."""

    id: str
    round: int
    kind: str
    query: str
    row: int
    document: str
    said: str
    good: bool
    propensity: float | None
    person: str | None
    status: str
    time: float | None


SAID = {
    ("thumb", True): "thumb up",
    ("thumb", False): "thumb down",
    ("right_one", True): "this is the right one",
    ("sampled", True): "it worked",
    ("sampled", False): "it did not work",
    ("full", True): "the whole truth",
}


def feedback(session: Session, most: int | None = 200) -> tuple[Entry, ...]:
    """What was said, newest first, undone or not."""
    newest = session.history[::-1][:most]
    return tuple(
        Entry(
            event.id, event.round, event.kind, showable(event.query.text or ""), event.item,
            showable(session.space.corpus.ids[event.item]), SAID[event.kind, event.good], event.good, event.propensity,
            event.person, session.status(event.id), event.time,
        )
        for event in newest
    )  # fmt: skip


@dataclass(frozen=True)
class RegretLines:
    """Regret, added up. steps: rounds from 1; lines: what → one value a step; notes: what to know of them, in words;
    rate: the η of Corollary 5.2, and corollary: the regret it would allow after all rounds; None where it says nothing.
    """

    steps: tuple[int, ...]
    lines: Mapping[str, tuple[float, ...]]
    notes: tuple[str, ...]
    rate: float | None
    corollary: float | None


def regret(found: Simulated, most: int = SHOWN) -> RegretLines:
    """A simulation's regret and what theory promises of it, at no more than so many rounds."""
    told, count = found.regret, len(found.trail)
    at = np.unique(np.rint(np.linspace(0, count - 1, min(most, count))).astype(int))
    bounds = told.bounds
    columns = {
        "against the full-information oracle": told.oracle,
        "against the best in hindsight": told.best,
        "promised by Theorem 5.1": None if bounds is None else bounds.theorem,
    }
    lines = {name: tuple(column[at].tolist()) for name, column in columns.items() if column is not None}
    notes = list(told.doubts)
    if found.hindsight is not None and found.hindsight.gap > 0:
        each = found.hindsight.gap / count
        notes.append(f"the best in hindsight is known to within {each:.3f} nats a round")
    return RegretLines(
        tuple((at + 1).tolist()), lines, tuple(notes), None if bounds is None else bounds.rate,
        None if bounds is None else bounds.corollary,
    )  # fmt: skip


def conclusions(found: Drift) -> tuple[str, ...]:
    """What drift amounts to, in sentences."""
    said = []
    if found.q99 == 0 and not found.movers:
        return ("Nothing has moved.",)
    half = f"by {found.median:.3f} or more" if found.median >= LEAST else f"by less than {LEAST:g}"
    few = f", one in a hundred by {found.q99:.3f} or more" if found.q99 >= LEAST else ""
    farthest = f", the farthest by {found.movers[0].distance:.3f}" if found.movers else ""
    moved = f"Half of the documents moved {half}{few}{farthest}"
    common = f"; a shift of {found.shift:.3f} that all share changes no ranking." if found.shift > LEAST else "."
    said.append(moved + common)
    if found.churn is not None:
        said.append(f"Of {DEPTH} documents that a probe query got, {DEPTH * found.churn:.2g} are others now.")
    if found.alarm:
        said.append(
            f"Some documents crowd the answers: the Gini of how often each is there rose from {found.start:.3f} to "
            f"{found.hubs:.3f}."
        )
    if found.light != "green":
        said.append(f"The longest vector has length {found.longest:.2f}: some documents gain by length alone.")
    return tuple(said)


def at_step(found: Simulated, step: int) -> Space:
    """The space as a simulation had it at a checkpoint, the last one that is kept at or before the step."""
    there = [s for s in found.snapshots if s.step <= step]
    start = found.begun.space
    return adapted(start, there[-1].vectors(found.begun.origin)) if there else start


def _plain(value: float) -> float | None:
    return None if np.isnan(value) else value
