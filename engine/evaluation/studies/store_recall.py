"""Recall of a vector engine's index, for queries and for the certificate queries that prove answers."""

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
from engine.progress import Progress, Stop, counted, with_cancellation
from engine.solvers.elastic_net.solve import elastic_nets
from engine.values import Embeddings

RECALL_DEPTH = 500
MIN_STORE_RECALL = 0.95
SEARCH_EFFORTS = (40, 100, 200, 500, 1000)
NET_WEIGHTS = ((0.1, 0.1), (0.01, 0.01))
"""(λ₁, λ₂) of the elastic nets whose residuals are the certificate queries."""
MEASURING_LABEL = "asking the index"

IndexedStore = PgVectorStore | MilvusStore


def measure_store_recall(
    store: Any,
    points: Any,
    n: int = RECALL_DEPTH,
    efforts: Sequence[int] = SEARCH_EFFORTS,
    min_recall: float = MIN_STORE_RECALL,
    progress: Progress | None = None,
    stop: Stop | None = None,
) -> list[MeasuredRecall]:
    """Measure the recall of a vector store's index at rising search effort (ef) until it suffices.

    Recall is measured for queries, and for certificate queries: inner products with what an elastic net leaves of a
    query, its residual, prove that no unseen document belongs to an answer.

    points: (B, d) queries; n: depth of the recall; efforts: values of ef to try above the store's own; min_recall: what
    suffices. The true answers come from an exact search of the vector engine or, if it has none, from reading all
    vectors. Raises DataError for a store without an index, and ParamError.
    """
    if not isinstance(store, (PgVectorStore, MilvusStore)):
        raise DataError(f"{store.ref.collection} is looked at as a whole: it has no index to be measured")
    queries = np.atleast_2d(np.asarray(points, dtype=np.float64))
    if not len(queries):
        raise ParamError("points must hold one query at least")
    progress_step = with_cancellation(progress, stop)
    with store.snapshot():
        # Proofs ask the index for products with residuals, which point elsewhere than queries: it may fail them alone.
        query_ids, vectors = find_exact_best(store, queries, n)
        residuals = np.concatenate(list(map(_compute_residuals, queries, vectors)))
        residual_ids, _vectors = find_exact_best(store, residuals, n)
        true_ids = query_ids + residual_ids
        store_ref, recalls = store.ref, list[MeasuredRecall]()
        tried_efforts = sorted({store.table.ef, *(effort for effort in efforts if effort > store.table.ef)})
        for n_done, ef in enumerate(tried_efforts):
            progress_step(n_done, len(tried_efforts), MEASURING_LABEL)
            result = store.with_ef(ef).search(np.concatenate([queries, residuals]), n)
            pairs = zip(true_ids, result.ids, strict=True)
            # Of the queries first, then of their residuals.
            recall_shares = [len(top_ids & set(found_ids)) / len(top_ids) for top_ids, found_ids in pairs]
            recall = MeasuredRecall(
                collection=store_ref.collection, ef=ef, n=n, queries=float(np.mean(recall_shares[: len(queries)])),
                residuals=float(np.mean(recall_shares[len(queries) :])), asked=len(queries), plan=result.plan,
                sequential=result.exact, date=datetime.date.today().isoformat(), digest=store_ref.digest,
            )  # fmt: skip
            recalls.append(recall)
            # Recall rises with ef, and so does time: the first effort that suffices is the one to use.
            if min(recall.queries, recall.residuals) >= min_recall:
                break
    progress_step(len(tried_efforts), len(tried_efforts), MEASURING_LABEL)
    return recalls


def find_exact_best(store: IndexedStore, points: np.ndarray, n: int) -> tuple[list[set[str]], list[np.ndarray]]:
    """Find exactly the n documents with the largest inner product with each point: ids and vectors.

    Ids come as sets, one a point; vectors as (n, d) arrays.
    """
    if isinstance(store, PgVectorStore):
        search_result = store.search(points, n, exact=True)
        return list(map(set, search_result.ids)), list(search_result.vectors)
    # A vector engine without an exact search is read block by block; each query keeps its n best so far.
    top_ids: list[np.ndarray] = [np.empty(0, dtype=object)] * len(points)
    top_scores, top_vectors = [np.empty(0)] * len(points), [np.empty((0, store.dimension), np.float32)] * len(points)
    for block_ids, block_vectors in store.scan(4096):
        block_scores = block_vectors.astype(np.float64) @ points.T
        for query_index in range(len(points)):
            all_scores = np.concatenate([top_scores[query_index], block_scores[:, query_index]])
            top_order = np.argsort(-all_scores, kind="stable")[:n]
            top_scores[query_index] = all_scores[top_order]
            top_ids[query_index] = np.concatenate([top_ids[query_index], np.array(block_ids, dtype=object)])[top_order]
            top_vectors[query_index] = np.concatenate([top_vectors[query_index], block_vectors])[top_order]
    return list(map(set, top_ids)), top_vectors


def _compute_residuals(query: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """Return (nets, d) residuals v − Uᵀw: what elastic nets leave of a query v.

    An elastic net approximates the query by a sum of its best documents U with weights w. A search with a residual
    shows whether an unseen document belongs to the answer: these are certificate queries. query: (d,); vectors: (n, d),
    the documents U. There is a net for each pair of penalties in NET_WEIGHTS.
    """
    document_vectors = torch.from_numpy(np.ascontiguousarray(vectors))
    query_point = torch.from_numpy(query).unsqueeze(0).to(document_vectors)
    matrix = Matrix(document_vectors, cached=True)
    residuals = []
    for l1, l2 in NET_WEIGHTS:
        candidates = Candidates(matrix.vectors, products(matrix.vectors, query_point), query_point, matrix)
        solution = elastic_nets(candidates, np.array([[l1]]), np.array([l2]))
        weighted = solution.weights[:, None] * vectors[solution.members].astype(np.float64)
        residuals.append(query - weighted.sum(0))
    return np.stack(residuals)


def sample_queries(store: Any, n_queries: int, seed: int = 0) -> np.ndarray:
    """Sample (n_queries, d) points, each midway between two random documents, as stand-in queries."""
    _ids, sampled = store.sample(2 * n_queries, seed)
    pair_sums = sampled[: len(sampled) // 2 * 2].astype(np.float64).reshape(-1, 2, sampled.shape[1]).sum(1)
    # Opposite documents have no direction between them: their point stays 0.
    lengths = np.linalg.norm(pair_sums, axis=1, keepdims=True)
    midpoints: np.ndarray = pair_sums / np.where(lengths > 0, lengths, 1)
    return midpoints


def embed_for_store(store: Any, queries: Any, **report: Any) -> np.ndarray:
    """Embed queries by the store's encoder to (B, d). Raises DataError if the store names none."""
    from engine.data.encoders import embed

    if store.encoder is None:
        raise DataError(
            f'nobody says what {store.ref.collection} was embedded with: write encoder = "…" in stores.toml, or check '
            "with --queries"
        )
    embedded: Embeddings = embed(queries, store.encoder.name, dtype=store.encoder.dtype, **report)
    if embedded.dimension != store.dimension:
        raise DataError(
            f"{store.encoder.name} makes vectors of {counted(embedded.dimension, 'number')}; {store.ref.collection} "
            "has "
            f"{store.dimension}"
        )
    return embedded.vectors.double().numpy()
