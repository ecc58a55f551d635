"""What a simulated deployment sees: which query comes when, and what is answered about an item that is shown.

Judgements say what is right; feedback may lie: by mistake, on purpose, or for what everybody likes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from engine.errors import DataError
from engine.params import Choice, Real, Whole, declare, params_of
from engine.values import Qrels

POPULAR = 0.5
"""Popular documents: those most often right, until they hold this share of all right answers."""
_ORDER, _WHO = 1, 2


@dataclass(frozen=True)
class Stream:
    """How queries arrive, and how far feedback can be trusted. Raises ParamError."""

    order: str = declare(
        Choice(
            default="random",
            options=("random", "given", "sorted", "repeated"),
            symbol="order",
            help="Shuffled, as in the file, topic by topic, or one query again and again.",
        )
    )
    rounds: int | None = declare(
        Whole(
            default=None,
            low=1,
            comfortable=(100, 20_000),
            unset="all of them",
            symbol="T",
            help="Stop after so many rounds.",
        )
    )
    flips: float = declare(
        Real(default=0.0, low=0.0, high=1.0, comfortable=(0.0, 0.3), symbol="flips", help="Share of feedback reversed.")
    )
    adversary: float = declare(
        Real(
            default=0.0,
            low=0.0,
            high=1.0,
            comfortable=(0.0, 0.3),
            symbol="adversary",
            help="Share of feedback by someone who praises one document and damns all others.",
        )
    )
    popularity: float = declare(
        Real(
            default=0.0,
            low=0.0,
            high=1.0,
            comfortable=(0.0, 0.5),
            symbol="popularity",
            help="Share of feedback that praises whatever is right most often elsewhere.",
        )
    )

    def __post_init__(self) -> None:
        for param in params_of(self):
            object.__setattr__(self, param.name, param.check(getattr(self, param.name)))


@dataclass(frozen=True, eq=False)
class Arrivals:
    """A stream, drawn: T rounds.

    queries: (T,) which query comes; flipped, hostile, fashionable: (T,) bool, what befalls its feedback; promoted: the
    row that the adversary praises; popular: (n,) bool, the rows that are right most often.
    """

    queries: np.ndarray
    flipped: np.ndarray
    hostile: np.ndarray
    fashionable: np.ndarray
    promoted: int
    popular: np.ndarray

    def __len__(self) -> int:
        return len(self.queries)

    def feedback(self, at: int, row: int, right: bool) -> bool:
        """What is answered in round `at` when `row` is shown, and it is right or not."""
        if self.hostile[at]:
            said = row == self.promoted
        else:
            said = right or (bool(self.fashionable[at]) and bool(self.popular[row]))
        return said != bool(self.flipped[at])


def arrivals(stream: Stream, right: Sequence[np.ndarray], n: int, seed: int, exposure: int = 1) -> Arrivals:
    """Draw a stream. right: per query the rows judged right; n: how many documents there are; exposure: how often
    every query comes.

    A round's draws depend on the seed and its number alone, so a longer stream begins like a shorter one.
    """
    count = len(right)
    length = rounds_of(stream, count, exposure)
    passes = -(-length // count)
    match stream.order:
        case "given":
            one = np.arange(count)
        case "sorted":
            one = np.array(sorted(range(count), key=lambda i: (right[i].tolist(), i)))
        case "repeated":
            one = np.full(count, np.random.default_rng([seed, _ORDER]).integers(count))
        case _:
            one = None
    parts = [
        one if one is not None else np.random.default_rng([seed, _ORDER, at]).permutation(count) for at in range(passes)
    ]
    who = [np.random.Generator(np.random.Philox(key=[seed, _WHO + at])).random(length) for at in range(3)]
    times = right_counts(right, n)
    rare = np.flatnonzero(times == times[times > 0].min()) if times.any() else np.arange(n)
    promoted = int(rare[np.random.default_rng([seed, _WHO]).integers(len(rare))])
    return Arrivals(
        np.concatenate(parts)[:length].astype(np.int64),
        who[0] < stream.flips,
        who[1] < stream.adversary,
        who[2] < stream.popularity,
        promoted,
        popular_rows(times),
    )


def rounds_of(stream: Stream, queries: int, exposure: int = 1) -> int:
    """How many rounds a stream of so many queries has."""
    return min(stream.rounds or queries * exposure, queries * exposure)


def divided(
    ids: Sequence[str],
    position: Mapping[str, int],
    qrels: Qrels,
    held_out: Qrels | None = None,
    *,
    share: float,
    seed: int,
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray], int]:
    """Queries to learn from and queries to hold out, each with its right rows; and how many have none, which take no
    part.

    ids: of the queries there are; position: the row of a document; held_out: judgements of those to hold out, by
    default a seeded share of the others. Raises DataError.
    """
    judged = [q for q in ids if q in qrels.grades]
    apart = [] if held_out is None else [q for q in ids if q in held_out.grades]
    if held_out is None:
        count = round(share * len(judged))
        drawn = np.random.default_rng([seed, len(judged)]).permutation(len(judged))[:count]
        chosen = {judged[at] for at in drawn}
        apart = [q for q in judged if q in chosen]
        judged = [q for q in judged if q not in chosen]
    elif both := sorted(set(apart) & set(judged)):
        raise DataError(
            f"held_out must be of other queries than the stream's; {len(both)} are in both (first: {both[0]!r})"
        )
    learned = {q: rows for q, rows in zip(judged, right_rows(qrels, judged, position), strict=True) if len(rows)}
    if not learned:
        raise DataError("qrels must judge some of the queries, with a relevant document in the corpus; none is left")
    other = qrels if held_out is None else held_out
    kept = {q: rows for q, rows in zip(apart, right_rows(other, apart, position), strict=True) if len(rows)}
    return learned, kept, len(judged) + len(apart) - len(learned) - len(kept)


def right_counts(right: Sequence[np.ndarray], n: int) -> np.ndarray:
    """(n,) for how many queries each row is right."""
    return np.bincount(np.concatenate([*right, np.empty(0, np.int64)]).astype(np.int64), minlength=n)


def popular_rows(times: np.ndarray) -> np.ndarray:
    """(n,) bool: the rows most often right, the fewest that hold half of all right answers; ties go to the lower."""
    order = np.argsort(-times, kind="stable")
    before = np.cumsum(times[order]) - times[order]
    popular = np.zeros(len(times), dtype=bool)
    popular[order[(before < POPULAR * times.sum()) & (times[order] > 0)]] = True
    return popular


def rare_rows(times: np.ndarray) -> np.ndarray:
    """(n,) bool: the half of the rows that are right least often, with all that are right as often as the last of them;
    none where all are right equally often."""
    middle = np.median(times)
    return times <= middle if middle < times.max() else times < middle


def right_rows(qrels: Qrels, ids: Sequence[str], position: Mapping[str, int]) -> list[np.ndarray]:
    """Per query the rows judged right, ascending; judged documents that the corpus lacks are left out.

    ids: of the queries; position: the row of a document.
    """
    return [np.array(sorted(position[d] for d in qrels.relevant(q) if d in position), dtype=np.int64) for q in ids]
