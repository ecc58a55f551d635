"""Feedback model: the order in which queries arrive, and the feedback on an item that is shown.

Judgements say what is right; feedback may be wrong: flipped, adversarial, or in favour of popular documents.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from engine.drift.round_metrics import popular_rows, right_counts, right_rows
from engine.errors import DataError
from engine.params import Choice, Declared, Real, Whole, declare
from engine.values import Qrels

_ORDER, _WHO = 1, 2


@dataclass(frozen=True)
class Stream(Declared):
    """How queries arrive, and how far feedback can be trusted. Raises ParamError."""

    order: str = declare(
        Choice("random", "order", ("random", "given", "sorted", "repeated")),
        "Shuffled, as in the file, topic by topic, or one query again and again.",
    )
    rounds: int | None = declare(
        Whole(None, "T", 1, comfortable=(100, 20_000), unset="all of them"), "Stop after so many rounds."
    )
    flips: float = declare(Real(0.0, "flips", 0.0, 1.0, comfortable=(0.0, 0.3)), "Share of feedback reversed.")
    adversary: float = declare(
        Real(0.0, "adversary", 0.0, 1.0, comfortable=(0.0, 0.3)),
        "Share of feedback by someone who praises one document and damns all others.",
    )
    popularity: float = declare(
        Real(0.0, "popularity", 0.0, 1.0, comfortable=(0.0, 0.5)),
        "Share of feedback that praises whatever is right most often elsewhere.",
    )


@dataclass(frozen=True, eq=False)
class Arrivals:
    """A stream, drawn: T rounds.

    queries: (T,) index of the query that comes.
    flipped, hostile, fashionable: (T,) bool, what befalls its feedback.
    promoted: the row that the adversary praises.
    popular: (n,) bool, the rows that are right most often.
    """

    queries: np.ndarray
    flipped: np.ndarray
    hostile: np.ndarray
    fashionable: np.ndarray
    promoted: int
    popular: np.ndarray

    def __len__(self) -> int:
        return len(self.queries)

    def feedback(self, index: int, row: int, right: bool) -> bool:
        """The feedback in a round, counted from 0, in which `row` is shown; right: whether that is right."""
        if self.hostile[index]:
            good = row == self.promoted
        else:
            good = right or (bool(self.fashionable[index]) and bool(self.popular[row]))
        return good != bool(self.flipped[index])


def arrivals(
    stream: Stream,
    right: Sequence[np.ndarray],
    n: int,
    seed: int,
    exposure: int = 1,
    groups: Sequence[np.ndarray] | None = None,
) -> Arrivals:
    """Draw a stream.

    right: per query the rows judged right; n: number of documents; exposure: how often every query comes; groups: the
    queries that come one after the other, in that order, by default each alone.

    A round's draws depend on the seed and its number alone, so a longer stream begins like a shorter one.
    """
    count = len(right)
    groups = [np.array([i]) for i in range(count)] if groups is None else groups
    length = rounds_of(stream, count, exposure)
    passes = -(-length // count)
    match stream.order:
        case "given":
            orders = [np.arange(len(groups))] * passes
        case "sorted":
            topics = [([right[i].tolist() for i in group], place) for place, group in enumerate(groups)]
            orders = [np.array([place for _, place in sorted(topics)])] * passes
        case "repeated":
            once = int(np.random.default_rng([seed, _ORDER]).integers(len(groups)))
            orders = [np.full(-(-count * passes // len(groups[once])), once)]
        case _:
            orders = [np.random.default_rng([seed, _ORDER, turn]).permutation(len(groups)) for turn in range(passes)]
    queries = np.concatenate([groups[place] for order in orders for place in order.tolist()])
    flips, hostile, fashionable = (
        np.random.Generator(np.random.Philox(key=[seed, _WHO + number])).random(length) for number in range(3)
    )
    times = right_counts(right, n)
    rare = np.flatnonzero(times == times[times > 0].min()) if times.any() else np.arange(n)
    promoted = int(rare[np.random.default_rng([seed, _WHO]).integers(len(rare))])
    return Arrivals(
        queries[:length].astype(np.int64),
        flips < stream.flips,
        hostile < stream.adversary,
        fashionable < stream.popularity,
        promoted,
        popular_rows(times),
    )


def rounds_of(stream: Stream, queries: int, exposure: int = 1) -> int:
    """The number of rounds of a stream; queries: their number."""
    return min(stream.rounds or queries * exposure, queries * exposure)


def divided(
    ids: Sequence[str],
    position: Mapping[str, int],
    qrels: Qrels,
    held_out: Qrels | None = None,
    *,
    share: float,
    seed: int,
    owner: Mapping[str, str] = MappingProxyType({}),
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray], int]:
    """Queries to learn from and to hold out, with their right rows, and the number of those without any.

    ids: of the queries there are; position: the row of a document; held_out: judgements of those to hold out, by
    default a seeded share of the others; owner: the question of a sub-query, which is held out whole. Raises DataError.
    """
    judged = [q for q in ids if q in qrels.grades]
    apart = [] if held_out is None else [q for q in ids if q in held_out.grades]
    if held_out is None:
        units = list(dict.fromkeys(owner.get(q, q) for q in judged))
        count = round(share * len(units))
        drawn = np.random.default_rng([seed, len(units)]).permutation(len(units))[:count]
        chosen = {units[position] for position in drawn}
        apart = [q for q in judged if owner.get(q, q) in chosen]
        judged = [q for q in judged if owner.get(q, q) not in chosen]
    elif both := sorted({owner.get(q, q) for q in apart} & {owner.get(q, q) for q in judged}):
        raise DataError(
            f"held_out must be of other queries than the stream's; {len(both)} are in both (first: {both[0]!r})"
        )
    learned = {q: rows for q, rows in zip(judged, right_rows(qrels, judged, position), strict=True) if len(rows)}
    if not learned:
        raise DataError("qrels must judge some of the queries, with a relevant document in the corpus; none is left")
    judgements = qrels if held_out is None else held_out
    measured = {q: rows for q, rows in zip(apart, right_rows(judgements, apart, position), strict=True) if len(rows)}
    return learned, measured, len(judged) + len(apart) - len(learned) - len(measured)
