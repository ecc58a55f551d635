"""What a vector engine's index finds of the best documents, for queries and for the questions that prove answers."""

import datetime
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from engine.candidates import Candidates
from engine.data.stores.milvus import MilvusStore
from engine.data.stores.pgvector import PgVectorStore
from engine.data.stores.recall import MeasuredRecall
from engine.errors import DataError, ParamError
from engine.matrix import Matrix, products
from engine.progress import Progress, Stop, with_cancellation
from engine.solvers.elastic_net.solve import elastic_nets
from engine.values import Embeddings

N = 500
ENOUGH = 0.95
EFFORTS = (40, 100, 200, 500, 1000)
NETS = ((0.1, 0.1), (0.01, 0.01))
"""(λ₁, λ₂) of the elastic nets whose residuals are asked."""
MEASURING = "asking the index"

Asked = PgVectorStore | MilvusStore


def store_recall(
    store: Any,
    points: Any,
    n: int = N,
    efforts: Sequence[int] = EFFORTS,
    enough: float = ENOUGH,
    progress: Progress | None = None,
    stop: Stop | None = None,
) -> list[MeasuredRecall]:
    """Recall at n of the index, at the store's own ef and then at rising ones until it is enough for both.

    points: (B, d) queries. Truth is an exact search, or all vectors read where the engine has none. Raises DataError
    for a store without an index, and ParamError.
    """
    if not isinstance(store, (PgVectorStore, MilvusStore)):
        raise DataError(f"{store.ref.collection} is looked at as a whole: it has no index to be measured")
    queries = np.atleast_2d(np.asarray(points, dtype=np.float64))
    if not len(queries):
        raise ParamError("points must hold one query at least")
    watch = with_cancellation(progress, stop)
    with store.snapshot():
        best, vectors = exact_best(store, queries, n)
        residuals = np.concatenate([_residuals(q, own) for q, own in zip(queries, vectors, strict=True)])
        truth = best + exact_best(store, residuals, n)[0]
        ref, rows = store.ref, list[MeasuredRecall]()
        tried = sorted({store.table.ef, *(effort for effort in efforts if effort > store.table.ef)})
        for done, ef in enumerate(tried):
            watch(done, len(tried), MEASURING)
            result = store.with_ef(ef).search(np.concatenate([queries, residuals]), n)
            shares = [len(own & set(ids)) / len(own) for own, ids in zip(truth, result.ids, strict=True)]
            row = MeasuredRecall(
                collection=ref.collection,
                ef=ef,
                n=n,
                queries=float(np.mean(shares[: len(queries)])),
                residuals=float(np.mean(shares[len(queries) :])),
                asked=len(queries),
                plan=result.plan,
                sequential=result.exact,
                date=datetime.date.today().isoformat(),
                digest=ref.digest,
            )
            rows.append(row)
            if min(row.queries, row.residuals) >= enough:
                break
    watch(len(tried), len(tried), MEASURING)
    return rows


def exact_best(store: Asked, points: np.ndarray, n: int) -> tuple[list[set[str]], list[np.ndarray]]:
    """Ids and vectors of the n best documents for each point, all documents compared."""
    if isinstance(store, PgVectorStore):
        found = store.search(points, n, exact=True)
        return [set(ids) for ids in found.ids], list(found.vectors)
    ids: list[np.ndarray] = [np.empty(0, dtype=object)] * len(points)
    scores, vectors = [np.empty(0)] * len(points), [np.empty((0, store.dimension), np.float32)] * len(points)
    for names, rows in store.scan(4096):
        own = rows.astype(np.float64) @ points.T
        for at in range(len(points)):
            all_scores = np.concatenate([scores[at], own[:, at]])
            kept = np.argsort(-all_scores, kind="stable")[:n]
            scores[at] = all_scores[kept]
            ids[at] = np.concatenate([ids[at], np.array(names, dtype=object)])[kept]
            vectors[at] = np.concatenate([vectors[at], rows])[kept]
    return [set(own) for own in ids], vectors


def _residuals(query: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """(nets, d) what elastic nets over the query's best documents leave of it: v − Uᵀw."""
    rows = torch.from_numpy(np.ascontiguousarray(vectors))
    point = torch.from_numpy(query).unsqueeze(0).to(rows)
    matrix = Matrix(rows, cached=True)
    left = []
    for l1, l2 in NETS:
        candidates = Candidates(matrix.vectors, products(matrix.vectors, point), point, matrix)
        solved = elastic_nets(candidates, np.array([[l1]]), np.array([l2]))
        weighted = solved.weights[:, None] * vectors[solved.members].astype(np.float64)
        left.append(query - weighted.sum(0))
    return np.stack(left)


def sample_queries(store: Any, count: int, seed: int = 0) -> np.ndarray:
    """(count, d) points between two documents each, drawn at random, for want of queries."""
    _, rows = store.sample(2 * count, seed)
    pairs = rows[: len(rows) // 2 * 2].astype(np.float64).reshape(-1, 2, rows.shape[1]).sum(1)
    lengths = np.linalg.norm(pairs, axis=1, keepdims=True)
    between: np.ndarray = pairs / np.where(lengths > 0, lengths, 1)
    return between


def query_vectors(store: Any, queries: Any, **report: Any) -> np.ndarray:
    """(B, d) queries embedded by the encoder that the store names. Raises DataError where it names none."""
    from engine.data.encoders import embed

    if store.encoder is None:
        raise DataError(
            f'nobody says what {store.ref.collection} was embedded with: write encoder = "…" in stores.toml, or check '
            "with --queries"
        )
    found: Embeddings = embed(queries, store.encoder.name, dtype=store.encoder.dtype, **report)
    if found.dimension != store.dimension:
        raise DataError(
            f"{store.encoder.name} makes vectors of {found.dimension} numbers; {store.ref.collection} has "
            f"{store.dimension}"
        )
    return found.vectors.double().numpy()
