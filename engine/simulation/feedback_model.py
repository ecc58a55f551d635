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

# Random streams of one seed, so that the order of arrival does not depend on the errors of the feedback.
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
    """The queries of a simulation in the order in which they come, and which rounds' feedback is wrong.

    queries: (T,) index of the query that comes. flipped, hostile, fashionable: (T,) bool, the distortion of its
    feedback: reversed, by an adversary, or in favour of popular documents. promoted: the row that the adversary
    praises. popular: (n,) bool, the rows that are right most often.
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
        """Return True if the document shown in a round (from 0) is praised, rightly or by wrong feedback.

        row: the document; is_right: judged relevant
        """
        # A flip comes last: it reverses the adversary's and the fashionable feedback too.
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
    """Draw the order in which a simulation's queries arrive, and the rounds whose feedback is wrong.

    stream: the kind of order, and the rates of three kinds of wrong feedback; right_rows: by query the rows judged
    right; exposure: the number of times that every query comes; groups: queries that come one after the other, in that
    order, such as the sub-queries (hops) of a question; by default each alone. A round's draws depend on the seed and
    its number alone, so a longer stream begins like a shorter one.
    """
    n_queries = len(right_rows)
    groups = list(np.arange(n_queries)[:, None]) if groups is None else groups
    n_rounds, n_groups = count_rounds(stream, n_queries, exposure), len(groups)
    n_passes = -(-n_rounds // n_queries)
    match stream.order:
        case "given":
            orders = [np.arange(n_groups)] * n_passes
        case "sorted":
            # Queries with the same right documents are a topic; a stable sort keeps the order of the file within it.
            by_topic = sorted(range(n_groups), key=lambda group: [right_rows[i].tolist() for i in groups[group]])
            orders = [np.array(by_topic)] * n_passes
        case "repeated":
            repeated = int(np.random.default_rng([seed, _ORDER_STREAM]).integers(n_groups))
            # Ceiling division: enough repetitions for all rounds.
            orders = [np.full(-(-n_queries * n_passes // len(groups[repeated])), repeated)]
        case _:
            # Each pass has a generator of its own: more exposure adds passes and changes none.
            orders = [np.random.default_rng([seed, _ORDER_STREAM, i]).permutation(n_groups) for i in range(n_passes)]
    queries = np.concatenate([groups[position] for position in np.concatenate(orders).tolist()])
    # One generator for each kind of error: a rate of one kind does not move the draws of another.
    flipped, hostile, fashionable = (
        np.random.Generator(np.random.Philox(key=[seed, _WHO_STREAM + kind])).random(n_rounds) < rate
        for kind, rate in enumerate((stream.flips, stream.adversary, stream.popularity))
    )
    # The adversary praises a document that is right as rarely as any, so that its praise is nearly always wrong.
    n_right = right_counts(right_rows, n_documents)
    rare_rows = np.flatnonzero(n_right == n_right[n_right > 0].min()) if n_right.any() else np.arange(n_documents)
    promoted = int(rare_rows[np.random.default_rng([seed, _WHO_STREAM]).integers(len(rare_rows))])
    arrived = queries[:n_rounds].astype(np.int64)
    return Arrivals(arrived, flipped, hostile, fashionable, promoted, popular_rows(n_right))


def count_rounds(stream: Stream, n_queries: int, exposure: int = 1) -> int:
    """Return how many rounds a stream over `n_queries` queries plays."""
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
    """Divide the judged queries into those to learn from and those held out to measure on.

    Return both as query → rows of its right documents, and the number of queries left out. A query is left out if the
    corpus has none of its right documents. ids: of all queries, judged or not; position: document id → row; held_out:
    judgements of the queries to hold out, by default a seeded share of the judged ones; owner: sub-query → its
    question, whose sub-queries are held out together. Raises DataError.
    """

    def question_of(query: str) -> str:
        return owner.get(query, query)

    judged_ids = [query for query in ids if query in qrels.grades]
    # Questions are divided, not queries: a hop in the stream would give its held-out question away.
    questions = list(dict.fromkeys(map(question_of, judged_ids)))
    if held_out is None:
        n_held_out = round(share * len(questions))
        held_positions = np.random.default_rng([seed, len(questions)]).permutation(len(questions))[:n_held_out]
        held_questions = {questions[position] for position in held_positions}
        held_queries = [query for query in judged_ids if question_of(query) in held_questions]
        judged_ids = [query for query in judged_ids if question_of(query) not in held_questions]
    else:
        held_queries = [query for query in ids if query in held_out.grades]
        if shared := sorted(set(questions).intersection(map(question_of, held_queries))):
            raise DataError(
                f"held_out must be of other queries than the stream's; {len(shared)} are in both (first: {shared[0]!r})"
            )
    learned_rows = _find_right_rows(qrels, judged_ids, position)
    if not learned_rows:
        raise DataError("qrels must judge some of the queries, with a relevant document in the corpus; none is left")
    measured_rows = _find_right_rows(qrels if held_out is None else held_out, held_queries, position)
    n_left_out = len(judged_ids) + len(held_queries) - len(learned_rows) - len(measured_rows)
    return learned_rows, measured_rows, n_left_out


def _find_right_rows(qrels: Qrels, queries: Sequence[str], position: Mapping[str, int]) -> dict[str, np.ndarray]:
    """Return query → rows of its right documents; queries without any are left out."""
    all_rows = zip(queries, right_rows(qrels, queries, position), strict=True)
    return {query: rows for query, rows in all_rows if len(rows)}
