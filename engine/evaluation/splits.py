"""Splits of judged queries: those to choose on and those to report on share none."""

from collections.abc import Iterable, Mapping

from engine.errors import DataError
from engine.values import Embeddings, Qrels, Queries, digest_of, no_split


def split_in_half(qrels: Qrels, seed: int = 0) -> dict[str, Qrels]:
    """Judgements as two splits, "dev" and "test", for a data set that has one: a query's id decides."""
    is_in_dev = {query_id: int(digest_of([str(seed), query_id])[:8], 16) % 2 == 0 for query_id in qrels.grades}
    split_sides = {"dev": True, "test": False}
    return {
        split_name: _restrict_qrels(
            qrels, [query_id for query_id, is_member in is_in_dev.items() if is_member is is_wanted]
        )
        for split_name, is_wanted in split_sides.items()
    }


SPLIT_SHARES = (0.6, 0.2, 0.2)


def three_way(qrels: Qrels, seed: int = 0, shares: tuple[float, float, float] = SPLIT_SHARES) -> dict[str, Qrels]:
    """Judgements as three splits, "train", "dev" and "test", for a data set that has fewer; drawn by ids and a seed.

    shares: of the queries, their sum 1; every part has one at least. Raises DataError for fewer than three queries.
    """
    n_queries = len(qrels.grades)
    if n_queries < 3:
        raise DataError(f"three splits need three judged queries at least; got {n_queries}: judge more of them")
    query_order = sorted(qrels.grades, key=lambda query_id: digest_of([str(seed), query_id]))
    n_dev, n_test = (max(1, round(share * n_queries)) for share in shares[1:])
    split_ends = (0, n_queries - n_dev - n_test, n_queries - n_test, n_queries)
    return {
        split_name: _restrict_qrels(qrels, query_order[split_ends[split_index] : split_ends[split_index + 1]])
        for split_index, split_name in enumerate(("train", "dev", "test"))
    }


def subsample(qrels: Qrels, max_queries: int, seed: int = 0) -> Qrels:
    """Judgements of `max_queries` queries, or of all where there are no more; ids decide, so that fewer are among more."""
    return _restrict_qrels(
        qrels, sorted(qrels.grades, key=lambda query_id: digest_of([str(seed), query_id]))[:max_queries]
    )


def _restrict_qrels(qrels: Qrels, query_ids: Iterable[str]) -> Qrels:
    selected_ids = set(query_ids)
    return Qrels({query_id: grades for query_id, grades in qrels.grades.items() if query_id in selected_ids})


def select_judged_queries(
    queries: Queries | Embeddings, qrels: Mapping[str, Qrels], dev: str, test: str | None
) -> dict[str, Queries | Embeddings]:
    """Split → the queries that it judges, in their own order. Raises DataError, also where the two share queries."""
    if not isinstance(queries, Queries | Embeddings):
        raise DataError(f"queries must be engine.Queries or engine.Embeddings; got {type(queries).__name__}")
    if not isinstance(qrels, Mapping) or not all(isinstance(judgements, Qrels) for judgements in qrels.values()):
        raise DataError("qrels must be judgements by split, as dataset.qrels is: {'dev': engine.Qrels, …}")
    judged_queries: dict[str, Queries | Embeddings] = {}
    for split in (dev, test):
        if split is None:
            continue
        if split not in qrels:
            raise DataError(no_split(qrels, split))
        query_rows = [query_row for query_row, query_id in enumerate(queries.ids) if query_id in qrels[split].grades]
        if not query_rows:
            raise DataError(f"none of the queries is judged by {split!r}")
        query_ids = [queries.ids[query_row] for query_row in query_rows]
        judged_queries[split] = queries.only(query_ids) if isinstance(queries, Queries) else queries.take(query_rows)
    if test is not None and (n_shared := len(set(judged_queries[dev].ids) & set(judged_queries[test].ids))):
        raise DataError(
            f"{dev!r} and {test!r} share {n_shared:,} queries, and a setting chosen on a query looks good on it: take two "
            "splits without a common query (engine.evaluation.splits.split_in_half makes two of one), or test=None"
        )
    return judged_queries
