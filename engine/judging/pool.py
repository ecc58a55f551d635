"""Pools of documents to judge: what several systems return (TREC pooling), and in which order it is best judged."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Literal, get_args

import numpy as np

from engine.decoder import SET_SIZE
from engine.errors import DataError, ParamError
from engine.evaluation.runs import RankedRun
from engine.feedback.records import is_whole

Pair = tuple[str, str]
"""Id of a query, id of a document."""
Order = Literal["separation", "depth"]
TOGETHER = 3
"""Documents of one query that are judged in a row."""


@dataclass(frozen=True, eq=False, kw_only=True)
class JudgingPool:
    """What systems return for queries, each to a depth."""

    systems: tuple[str, ...]  # their names
    depth: int
    documents: Mapping[str, tuple[str, ...]]  # query → what any of them returned, highest placed first
    ranks: Mapping[str, np.ndarray]  # query → (documents, systems) int64 rank from 1; 0 where not returned

    def __len__(self) -> int:
        """The number of pairs."""
        return sum(map(len, self.documents.values()))


def pool(runs: Sequence[RankedRun], queries: Iterable[str], depth: int = 10) -> JudgingPool:
    """The documents that runs return for queries, each to a depth: Spärck Jones & van Rijsbergen 1975, TREC.

    queries: ids, in the order in which they are to be judged. Raises ParamError or DataError.
    """
    depth = SET_SIZE.check(depth)
    names = tuple(run.name for run in runs)
    if not names or len(set(names)) < len(names):
        raise DataError(f"runs must be at least one, each with a name of its own; got {', '.join(names) or 'none'}")
    documents, ranks = {}, {}
    for query in dict.fromkeys(queries):
        lists = [run.documents.get(query, ())[:depth] for run in runs]
        found = dict.fromkeys(doc for row in zip_longest(*lists) for doc in row if doc is not None)
        row_of = {doc: row for row, doc in enumerate(found)}
        table = np.zeros((len(found), len(runs)), dtype=np.int64)
        for system, docs in enumerate(lists):
            table[[row_of[doc] for doc in docs], system] = range(1, len(docs) + 1)
        documents[query], ranks[query] = tuple(found), table
    return JudgingPool(systems=names, depth=depth, documents=documents, ranks=ranks)


def order(judging: JudgingPool, by: Order = "separation", together: int | None = TOGETHER) -> tuple[Pair, ...]:
    """All pairs of a pool in the order in which they are best judged.

    by: "depth", the highest placed first; or "separation", by what a judgement can change between systems: with w(s) =
    1 / log2(rank + 1) in system s, 0 where it did not return the document, Σ over pairs of systems of |w(s) − w(t)|,
    over the document's best rank, as it changes nothing unless it is relevant, which is likelier high up. A document
    that all have at one rank moves all alike, and has 0. together: so many documents of a query come in a row, then
    those of the next, and the queries begin again when all have had a turn; None: one list over all queries. Raises
    ParamError.
    """
    if by not in get_args(Order):
        raise ParamError(f"by must be one of {', '.join(get_args(Order))}; got {by!r}")
    if together is not None and (not is_whole(together) or together < 1):
        raise ParamError(f"together must be a whole number in [1, ∞) or none; got {together!r}")
    turns = []
    for number, (query, ranks) in enumerate(judging.ranks.items()):
        scores = separation(ranks) if by == "separation" else -highest(ranks)
        for place, row in enumerate(np.argsort(-scores, kind="stable").tolist()):
            turn = (-scores[row], number) if together is None else (place // together, number)
            turns.append((turn, place, (query, judging.documents[query][row])))
    return tuple(pair for *_, pair in sorted(turns))


def separation(ranks: np.ndarray) -> np.ndarray:
    """(documents,) what a judgement can change between systems, of (documents, systems) ranks; see `order`."""
    weights = np.sort(np.where(ranks > 0, 1 / np.log2(np.maximum(ranks, 1) + 1), 0.0), axis=1)
    # In rising order the i-th of S numbers is the larger one in i pairs and the smaller one in S − 1 − i.
    signs = 2 * np.arange(ranks.shape[1]) - ranks.shape[1] + 1
    scores: np.ndarray = np.round(weights @ signs / highest(ranks), 12)
    return scores


def highest(ranks: np.ndarray) -> np.ndarray:
    """(documents,) the best rank in any system, of (documents, systems) ranks."""
    best: np.ndarray = np.where(ranks > 0, ranks, np.iinfo(ranks.dtype).max).min(1)
    return best
