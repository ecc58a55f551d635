"""Pools of documents to judge, from the results of several systems (TREC pooling), and the order of judging."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, count, zip_longest
from typing import Literal, get_args

import numpy as np

from engine.decoder import SET_SIZE
from engine.errors import DataError, ParamError
from engine.evaluation.runs import RankedRun
from engine.feedback.records import is_whole

#: Ids of a query and a document.
Pair = tuple[str, str]
Order = Literal["separation", "depth"]
#: Documents of one query that are judged in a row, before the next query.
QUERY_RUN_LENGTH = 3


@dataclass(frozen=True, eq=False, kw_only=True)
class JudgingPool:
    """Documents that systems return for queries, each down to a depth."""

    systems: tuple[str, ...]  # names of the systems
    depth: int
    documents: Mapping[str, tuple[str, ...]]  # map from query to returned documents, the highest ranked first
    ranks: Mapping[str, np.ndarray]  # map from query to (documents, systems) int64 ranks from 1; 0 if not returned

    def __len__(self) -> int:
        """Return the number of pairs."""
        return sum(map(len, self.documents.values()))


def build_pool(runs: Sequence[RankedRun], queries: Iterable[str], depth: int = 10) -> JudgingPool:
    """Collect the documents to judge: all that some run returns for a query down to a depth.

    This is TREC's pooling (Spärck Jones & van Rijsbergen 1975). queries: ids, in the order in which they are to be
    judged. Raises ParamError or DataError.
    """
    depth = SET_SIZE.check(depth)
    system_names = tuple(run.name for run in runs)
    if not system_names or len(set(system_names)) < len(system_names):
        names_text = ", ".join(system_names) or "none"
        raise DataError(f"runs must be at least one, each with a name of its own; got {names_text}")
    documents, ranks = {}, {}
    for query_id in dict.fromkeys(queries):
        run_lists = [run.documents.get(query_id, ())[:depth] for run in runs]
        # Ranks are walked across all systems, so that documents are in the order of their best rank.
        pooled_ids = dict.fromkeys(chain.from_iterable(zip_longest(*run_lists)))
        # zip_longest has filled shorter lists with None.
        pooled_ids.pop(None, None)
        row_by_id = dict(zip(pooled_ids, count()))
        rank_table = np.zeros((len(pooled_ids), len(runs)), dtype=np.int64)
        for system, returned_ids in enumerate(run_lists):
            for rank, doc_id in enumerate(returned_ids, 1):
                rank_table[row_by_id[doc_id], system] = rank
        documents[query_id], ranks[query_id] = tuple(pooled_ids), rank_table
    return JudgingPool(systems=system_names, depth=depth, documents=documents, ranks=ranks)


def order_pairs(
    judging: JudgingPool, by: Order = "separation", run_length: int | None = QUERY_RUN_LENGTH
) -> tuple[Pair, ...]:
    """Order the pairs of query and document of a pool so that the most informative judgements come first.

    judging: the documents that the systems returned, with their ranks; by: "depth", the highest ranked first; or
    "separation", the largest effect on differences between systems first. With w(s) = 1 / log2(rank + 1) in system s,
    0 if it did not return the document, this is Σ over pairs of systems of |w(s) − w(t)|, divided by the document's
    best rank: only a relevant document has an effect, and those are likelier at the top. run_length: documents of one
    query in a row, before the next query's; queries take turns. None: one list over all queries. Raises ParamError.
    """
    if by not in get_args(Order):
        raise ParamError(f"by must be one of {', '.join(get_args(Order))}; got {by!r}")
    if run_length is not None and (not is_whole(run_length) or run_length < 1):
        raise ParamError(f"run_length must be a whole number in [1, ∞) or none; got {run_length!r}")
    sortable_pairs = []
    for query_number, (query_id, ranks) in enumerate(judging.ranks.items()):
        scores = separation_scores(ranks) if by == "separation" else -best_ranks(ranks)
        for score_rank, document_index in enumerate(np.argsort(-scores, kind="stable").tolist()):
            # Without runs all pairs are sorted by score; with them, queries take turns of `run_length` documents.
            turn = -scores[document_index] if run_length is None else score_rank // run_length
            pair = query_id, judging.documents[query_id][document_index]
            sortable_pairs.append(((turn, query_number, score_rank), pair))
    return tuple(pair for _sort_key, pair in sorted(sortable_pairs))


def separation_scores(ranks: np.ndarray) -> np.ndarray:
    """Return, for each document, how much a judgement of it could tell the systems apart, (documents,).

    It is Σ over pairs of systems of |w(s) − w(t)|, divided by the document's best rank, where w(s) = 1 / log2(rank + 1)
    in system s, 0 if it did not return the document. ranks: (documents, systems), from 1, 0 if not returned.
    """
    weights = np.sort(np.where(ranks > 0, 1 / np.log2(np.maximum(ranks, 1) + 1), 0.0), axis=1)
    # In rising order the i-th of S numbers is the larger one in i pairs and the smaller one in S − 1 − i.
    signs = 2 * np.arange(ranks.shape[1]) - ranks.shape[1] + 1
    scores: np.ndarray = np.round(weights @ signs / best_ranks(ranks), 12)
    return scores


def best_ranks(ranks: np.ndarray) -> np.ndarray:
    """Return the best rank of each document in any system, (documents,).

    ranks: (documents, systems), from 1, 0 if not returned; a document that no system returned has the largest integer.
    """
    best_rank: np.ndarray = np.where(ranks > 0, ranks, np.iinfo(ranks.dtype).max).min(1)
    return best_rank
