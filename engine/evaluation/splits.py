"""Splits of judged queries: those to choose on and those to report on share none."""

from collections.abc import Iterable, Mapping

from engine.errors import DataError
from engine.values import Embeddings, Qrels, Queries, digest_of, explain_missing_split


def split_in_half(qrels: Qrels, seed: int = 0) -> dict[str, Qrels]:
    """Judgements as two splits, "dev" and "test", for a data set that has one: a query's id decides."""
    in_dev = {query: int(digest_of([str(seed), query])[:8], 16) % 2 == 0 for query in qrels.grades}
    sides = {"dev": True, "test": False}
    return {name: _only(qrels, [q for q, own in in_dev.items() if own is side]) for name, side in sides.items()}


SHARES = (0.6, 0.2, 0.2)


def three_way(qrels: Qrels, seed: int = 0, shares: tuple[float, float, float] = SHARES) -> dict[str, Qrels]:
    """Judgements as three splits, "train", "dev" and "test", for a data set that has fewer; drawn by ids and a seed.

    shares: of the queries, their sum 1; every part has one at least. Raises DataError for fewer than three queries.
    """
    count = len(qrels.grades)
    if count < 3:
        raise DataError(f"three splits need three judged queries at least; got {count}: judge more of them")
    order = sorted(qrels.grades, key=lambda query: digest_of([str(seed), query]))
    dev, test = (max(1, round(share * count)) for share in shares[1:])
    ends = (0, count - dev - test, count - test, count)
    return {name: _only(qrels, order[ends[i] : ends[i + 1]]) for i, name in enumerate(("train", "dev", "test"))}


def subsample(qrels: Qrels, most: int, seed: int = 0) -> Qrels:
    """Judgements of `most` queries, or of all where there are no more; ids decide, so that fewer are among more."""
    return _only(qrels, sorted(qrels.grades, key=lambda query: digest_of([str(seed), query]))[:most])


def _only(qrels: Qrels, queries: Iterable[str]) -> Qrels:
    chosen = set(queries)
    return Qrels({query: grades for query, grades in qrels.grades.items() if query in chosen})


def judged_by(
    queries: Queries | Embeddings, qrels: Mapping[str, Qrels], dev: str, test: str | None
) -> dict[str, Queries | Embeddings]:
    """Split → the queries that it judges, in their own order. Raises DataError, also where the two share queries."""
    if not isinstance(queries, Queries | Embeddings):
        raise DataError(f"queries must be engine.Queries or engine.Embeddings; got {type(queries).__name__}")
    if not isinstance(qrels, Mapping) or not all(isinstance(judgements, Qrels) for judgements in qrels.values()):
        raise DataError("qrels must be judgements by split, as dataset.qrels is: {'dev': engine.Qrels, …}")
    judged: dict[str, Queries | Embeddings] = {}
    for split in (dev, test):
        if split is None:
            continue
        if split not in qrels:
            raise DataError(explain_missing_split(qrels, split))
        rows = [row for row, query in enumerate(queries.ids) if query in qrels[split].grades]
        if not rows:
            raise DataError(f"none of the queries is judged by {split!r}")
        ids = [queries.ids[row] for row in rows]
        judged[split] = queries.only(ids) if isinstance(queries, Queries) else queries.take(rows)
    if test is not None and (both := len(set(judged[dev].ids) & set(judged[test].ids))):
        raise DataError(
            f"{dev!r} and {test!r} share {both:,} queries, and a setting chosen on a query looks good on it: take two "
            "splits without a common query (engine.evaluation.splits.split_in_half makes two of one), or test=None"
        )
    return judged
