"""Runs of other programs and of our own decoders over a small corpus, for tests of identification."""

import numpy as np

import engine

N_DOCUMENTS, N_LISTED, N_QUERIES = 300, 40, 50


def make_world(seed=0, n_dimensions=12, unit=True, texts=False):
    """Return a clustered space and fifty queries; unit: vectors of length 1; texts: of a few words."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(15, n_dimensions))
    rows = centres[rng.integers(15, size=N_DOCUMENTS)] + 0.7 * rng.normal(size=(N_DOCUMENTS, n_dimensions))
    points = centres[rng.integers(15, size=N_QUERIES)] + 0.7 * rng.normal(size=(N_QUERIES, n_dimensions))
    if unit:
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    words = [f"word{index}" for index in range(60)]
    shares = 1 / np.arange(1, 61)
    draw = lambda count: " ".join(rng.choice(words, count, p=shares / shares.sum()))  # noqa: E731
    corpus = engine.Corpus(tuple(f"d{row}" for row in range(N_DOCUMENTS)), tuple(draw(12) for _ in range(N_DOCUMENTS)))
    space = engine.Space(corpus, engine.Embeddings(corpus.ids, rows.astype(np.float32)), "cpu")
    ids = tuple(f"q{index}" for index in range(N_QUERIES))
    query_texts = tuple(draw(4) for _ in range(N_QUERIES)) if texts else None
    return space, engine.Embeddings(ids, points.astype(np.float32), None, query_texts)


def name_lists(space, queries, rows):
    """Return lists of rows for the first queries as a run: query id → document ids."""
    ids = space.corpus.ids
    return {queries.ids[index]: [ids[row] for row in list_rows] for index, list_rows in enumerate(rows)}


def decode_run(space, queries, decoder, k=5, n_lists=N_LISTED):
    """Return the lists of one of our decoders for the first queries."""
    ranking = engine.decode(decoder, space, queries.take(list(range(n_lists))), k)
    return name_lists(space, queries, [ranking.rows(index) for index in range(n_lists)])


def fetch_pool(rows, query, depth, is_indexed=None):
    """Return the most relevant rows, of those that an index holds."""
    scores = rows @ query
    if is_indexed is not None:
        scores = np.where(is_indexed, scores, -np.inf)
    return np.argsort(-scores, kind="stable")[:depth]


def list_langchain(space, queries, weight, depth, k=5, is_indexed=None, rows=None, n_lists=N_LISTED):
    """Return rows by LangChain's utility over the nearest documents. rows: other vectors than the space's"""
    from langchain_core.vectorstores.utils import maximal_marginal_relevance

    rows = space.vectors.numpy() if rows is None else rows
    lists = []
    for query in queries.vectors[:n_lists].numpy():
        pool = fetch_pool(rows, query, depth, is_indexed)
        chosen = maximal_marginal_relevance(query, list(rows[pool]), lambda_mult=weight, k=k)
        lists.append([int(pool[index]) for index in chosen])
    return lists


def list_llama_index(space, queries, weight, depth, k=5, n_lists=N_LISTED):
    """Return rows by LlamaIndex's utility over the nearest documents."""
    from llama_index.core.indices.query.embedding_utils import get_top_k_mmr_embeddings

    rows, lists = space.vectors.numpy(), []
    for query in queries.vectors[:n_lists].numpy():
        pool = fetch_pool(rows, query, depth)
        _, chosen = get_top_k_mmr_embeddings(
            query.tolist(), rows[pool].tolist(), similarity_top_k=k, embedding_ids=pool.tolist(), mmr_threshold=weight
        )
        lists.append([int(row) for row in chosen])
    return lists


def make_qdrant(space):
    """Return Qdrant's client in memory, with the documents."""
    from qdrant_client import QdrantClient, models

    client = QdrantClient(":memory:")
    config = models.VectorParams(size=space.vectors.shape[1], distance=models.Distance.COSINE)
    client.create_collection("documents", vectors_config=config)
    points = [models.PointStruct(id=row, vector=vector) for row, vector in enumerate(space.vectors.tolist())]
    client.upsert("documents", points)
    return client


def list_qdrant(space, queries, weight, depth, k=5, n_lists=N_LISTED, client=None):
    """Return rows by Qdrant's client in memory, which takes diversity, 1 − λ. client: one with the documents."""
    from qdrant_client import models

    client = client or make_qdrant(space)
    lists = []
    for query in queries.vectors[:n_lists].tolist():
        mmr = models.Mmr(diversity=1 - weight, candidates_limit=depth)
        answer = client.query_points("documents", query=models.NearestQuery(nearest=query, mmr=mmr), limit=k)
        lists.append([point.id for point in answer.points])
    return lists
