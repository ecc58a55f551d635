"""Splits of labelled queries: tuning and reporting never share a query."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from engine.errors import DataError
from engine.values import Embeddings, Qrels, Queries, digest_of, explain_missing_split


def split_in_half(qrels: Qrels, seed: int = 0) -> dict[str, Qrels]:
    """Split judgements into "dev" and "test" by a hash of the query's id."""
    dev_ids = {query_id for query_id in qrels.grades if int(digest_of([str(seed), query_id])[:8], 16) % 2 == 0}
    return {"dev": _restrict_qrels(qrels, dev_ids), "test": _restrict_qrels(qrels, qrels.grades.keys() - dev_ids)}


SPLIT_SHARES = (0.6, 0.2, 0.2)


def three_way(qrels: Qrels, seed: int = 0, shares: tuple[float, float, float] = SPLIT_SHARES) -> dict[str, Qrels]:
    """Split judgements into "train", "dev" and "test" by a hash of the query's id and a seed.

    Parameters
    ----------
    qrels : Qrels
        The judgements to split.
    seed : int
        Another seed gives another split.
    shares : tuple of float, float, float
        Of the queries in each split, with sum 1; every split gets at least one query.

    Returns
    -------
    dict
        Split → its judgements.

    Raises
    ------
    DataError
        If fewer than three queries are judged.

    Examples
    --------
    >>> import engine
    >>> qrels = engine.Qrels({str(query): {"a": 1} for query in range(10)})
    >>> {split: len(judged.grades) for split, judged in engine.parted(qrels).items()}
    {'train': 6, 'dev': 2, 'test': 2}
    """
    n_queries = len(qrels.grades)
    if n_queries < 3:
        raise DataError(f"three splits need three labelled queries at least; got {n_queries}: judge more of them")
    # Sorted by digests, the split does not depend on the order in which files list the queries.
    query_order = sorted(qrels.grades, key=lambda query_id: digest_of([str(seed), query_id]))
    n_dev, n_test = (max(1, round(share * n_queries)) for share in shares[1:])
    # Train takes what dev and test leave, so rounding never loses a query.
    dev_start, test_start = n_queries - n_dev - n_test, n_queries - n_test
    train_ids, dev_ids, test_ids = query_order[:dev_start], query_order[dev_start:test_start], query_order[test_start:]
    splits = {"train": train_ids, "dev": dev_ids, "test": test_ids}
    return {split_name: _restrict_qrels(qrels, query_ids) for split_name, query_ids in splits.items()}


def subsample(qrels: Qrels, max_queries: int, seed: int = 0) -> Qrels:
    """Return the judgements of at most `max_queries` queries; larger samples contain smaller ones."""
    query_order = sorted(qrels.grades, key=lambda query_id: digest_of([str(seed), query_id]))
    return _restrict_qrels(qrels, query_order[:max_queries])


def _restrict_qrels(qrels: Qrels, query_ids: Iterable[str]) -> Qrels:
    """Return the judgements of these queries alone."""
    # A set makes the membership test constant for large samples.
    selected_ids = set(query_ids)
    return replace(qrels, grades={query: grades for query, grades in qrels.grades.items() if query in selected_ids})


def select_judged_queries(
    queries: Queries | Embeddings, qrels: Mapping[str, Qrels], dev: str, test: str | None
) -> dict[str, Queries | Embeddings]:
    """Return the labelled queries of the dev and the test split, by the split's name, in the given order.

    qrels: judgements by split; test: None for dev alone. Raises DataError if the splits share a query.
    """
    if not isinstance(queries, Queries | Embeddings):
        raise DataError(f"queries must be engine.Queries or engine.Embeddings; got {type(queries).__name__}")
    if not isinstance(qrels, Mapping) or not all(isinstance(judgements, Qrels) for judgements in qrels.values()):
        raise DataError(
            "qrels must be judgements by split, as dataset.qrels is: {'dev': engine.Qrels, …}. "
            "engine.evaluation.splits.split_in_half makes two splits of one"
        )
    queries_by_split: dict[str, Queries | Embeddings] = {}
    for split in (dev, test):
        if split is None:
            continue
        if split not in qrels:
            raise DataError(explain_missing_split(qrels, split))
        rows = [row for row, query_id in enumerate(queries.ids) if query_id in qrels[split].grades]
        if not rows:
            raise DataError(f"none of the queries is judged by {split!r}")
        query_ids = [queries.ids[row] for row in rows]
        queries_by_split[split] = queries.only(query_ids) if isinstance(queries, Queries) else queries.take(rows)
    if test is not None and (n_shared := len(set(queries_by_split[dev].ids) & set(queries_by_split[test].ids))):
        problem = (
            f"{dev!r} and {test!r} share {n_shared:,} queries, and a setting chosen on a query looks good on it: take "
            "two splits without a common query"
        )
        raise DataError(
            f"{problem} (engine.evaluation.splits.split_in_half makes two of one), or test=None",
            f"{problem}, or confirm on half of one",
        )
    return queries_by_split
