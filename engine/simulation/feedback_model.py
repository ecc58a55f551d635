"""Feedback model: the order in which queries arrive, and the feedback on an item that is shown.

Judgements define what is right; feedback may be wrong: flipped, adversarial, or in favour of popular documents.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from engine.drift.round_metrics import popular_rows, right_counts, right_rows
from engine.errors import DataError
from engine.params import Choice, Declared, Real, Whole, declare
from engine.values import Qrels

_ORDER_STREAM, _WHO_STREAM = 1, 2


@dataclass(frozen=True)
class Stream(Declared):
    """Order of arrival of queries, and reliability of the feedback. Raises ParamError."""

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
    """A drawn stream of T rounds.

    queries: (T,) index of the query that comes.
    flipped, hostile, fashionable: (T,) bool, the distortion of its feedback.
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

    def give_feedback(self, round_index: int, row: int, is_right: bool) -> bool:
        """The feedback in a round, counted from 0, in which `row` is shown; is_right: whether that is right."""
        if self.hostile[round_index]:
            is_good = row == self.promoted
        else:
            is_good = is_right or (bool(self.fashionable[round_index]) and bool(self.popular[row]))
        return is_good != bool(self.flipped[round_index])


def draw_arrivals(
    stream: Stream,
    right_rows: Sequence[np.ndarray],
    n_documents: int,
    seed: int,
    exposure: int = 1,
    groups: Sequence[np.ndarray] | None = None,
) -> Arrivals:
    """Draw a stream.

    right_rows: per query the rows judged right; exposure: how often every query comes; groups: the queries that come
    one after the other, in that order, by default each alone.

    A round's draws depend on the seed and its number alone, so a longer stream begins like a shorter one.
    """
    n_queries = len(right_rows)
    groups = [np.array([query_index]) for query_index in range(n_queries)] if groups is None else groups
    n_rounds = count_rounds(stream, n_queries, exposure)
    n_passes = -(-n_rounds // n_queries)
    match stream.order:
        case "given":
            orders = [np.arange(len(groups))] * n_passes
        case "sorted":
            topics = [([right_rows[i].tolist() for i in group], position) for position, group in enumerate(groups)]
            orders = [np.array([position for _, position in sorted(topics)])] * n_passes
        case "repeated":
            repeated = int(np.random.default_rng([seed, _ORDER_STREAM]).integers(len(groups)))
            orders = [np.full(-(-n_queries * n_passes // len(groups[repeated])), repeated)]
        case _:
            rngs = [np.random.default_rng([seed, _ORDER_STREAM, pass_index]) for pass_index in range(n_passes)]
            orders = [rng.permutation(len(groups)) for rng in rngs]
    queries = np.concatenate([groups[position] for order in orders for position in order.tolist()])
    flip_draws, hostile, fashionable = (
        np.random.Generator(np.random.Philox(key=[seed, _WHO_STREAM + kind])).random(n_rounds) for kind in range(3)
    )
    n_right = right_counts(right_rows, n_documents)
    rare_rows = np.flatnonzero(n_right == n_right[n_right > 0].min()) if n_right.any() else np.arange(n_documents)
    promoted = int(rare_rows[np.random.default_rng([seed, _WHO_STREAM]).integers(len(rare_rows))])
    return Arrivals(
        queries[:n_rounds].astype(np.int64),
        flip_draws < stream.flips,
        hostile < stream.adversary,
        fashionable < stream.popularity,
        promoted,
        popular_rows(n_right),
    )


def count_rounds(stream: Stream, n_queries: int, exposure: int = 1) -> int:
    """Return the number of rounds of a stream over `n_queries` queries."""
    return min(stream.rounds or n_queries * exposure, n_queries * exposure)


def divide_queries(
    ids: Sequence[str],
    position: Mapping[str, int],
    qrels: Qrels,
    held_out: Qrels | None = None,
    *,
    share: float,
    seed: int,
    owner: Mapping[str, str] = MappingProxyType({}),
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray], int]:
    """Divide queries into those to learn from and those to hold out, with their right rows; count those without any.

    ids: of the queries there are; position: the row of a document; held_out: judgements of those to hold out, by
    default a seeded share of the others; owner: the question of a sub-query, which is held out whole. Raises DataError.
    """
    judged = [query for query in ids if query in qrels.grades]
    held_queries = [] if held_out is None else [query for query in ids if query in held_out.grades]
    if held_out is None:
        questions = list(dict.fromkeys(owner.get(query, query) for query in judged))
        n_held_out = round(share * len(questions))
        held_positions = np.random.default_rng([seed, len(questions)]).permutation(len(questions))[:n_held_out]
        held_questions = {questions[position] for position in held_positions}
        held_queries = [query for query in judged if owner.get(query, query) in held_questions]
        judged = [query for query in judged if owner.get(query, query) not in held_questions]
    elif shared := sorted({owner.get(q, q) for q in held_queries} & {owner.get(q, q) for q in judged}):
        raise DataError(
            f"held_out must be of other queries than the stream's; {len(shared)} are in both (first: {shared[0]!r})"
        )
    judged_rows = zip(judged, right_rows(qrels, judged, position), strict=True)
    learned_rows = {query: rows for query, rows in judged_rows if len(rows)}
    if not learned_rows:
        raise DataError("qrels must judge some of the queries, with a relevant document in the corpus; none is left")
    judgements = qrels if held_out is None else held_out
    held_rows = zip(held_queries, right_rows(judgements, held_queries, position), strict=True)
    measured_rows = {query: rows for query, rows in held_rows if len(rows)}
    return learned_rows, measured_rows, len(judged) + len(held_queries) - len(learned_rows) - len(measured_rows)
