"""Systems whose lists are identified: packages that people use, worn indexes, and systems that are none of ours."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from harness import Judged

import engine
from support.identified_runs import fetch_pool, list_langchain, list_llama_index, list_qdrant, make_qdrant, name_lists

Array = np.ndarray
Lists = list[list[int]]

DEMO = "numpy-api"
N_SAMPLED = 200
"""Queries of a corpus, of which a run takes the first, or some that are drawn."""


@dataclass(eq=False)
class Corpus:
    """A corpus whose runs are identified: its space and its embedded queries."""

    name: str
    space: engine.Space
    queries: engine.Embeddings
    stores: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def rows(self) -> Array:
        """(n, d) vectors of the documents."""
        return self.space.vectors.numpy()

    def take(self, positions: Any) -> "Corpus":
        """Return the corpus with some of its queries."""
        return Corpus(self.name, self.space, self.queries.take(list(positions)), self.stores)

    def without_texts(self) -> engine.Embeddings:
        """Return the queries as vectors alone, so that scorers of words are no hypotheses."""
        return engine.Embeddings(self.queries.ids, self.queries.vectors)

    def name_lists(self, lists: Lists) -> dict[str, list[str]]:
        """Return lists of rows as a run."""
        return name_lists(self.space, self.queries, lists)


def load_corpus(name: str, data: Path) -> Corpus:
    """Return the demo, or a judged set of a folder, with a sample of its test queries."""
    judged = Judged(name if name == DEMO else data / name)
    queries = judged.data.judged("test").sample(N_SAMPLED)
    return Corpus(name, judged.space, engine.embed(queries, device="cpu"))


def list_pyversity(corpus: Corpus, weight: float, depth: int, k: int) -> Lists:
    """Return rows by pyversity's mmr over the nearest documents, which takes diversity, 1 − λ."""
    from pyversity import mmr

    lists = []
    for query in corpus.queries.vectors.numpy():
        pool = fetch_pool(corpus.rows, query, depth)
        result = mmr(corpus.rows[pool], corpus.rows[pool] @ query, k, diversity=1 - weight)
        lists.append([int(pool[index]) for index in result.indices])
    return lists


def list_haystack(corpus: Corpus, weight: float, depth: int, k: int) -> Lists:
    """Return rows by Haystack's store in memory: the most relevant ones, whatever the weight and the depth."""
    from haystack import Document
    from haystack.document_stores.in_memory import InMemoryDocumentStore

    if "haystack" not in corpus.stores:
        store = InMemoryDocumentStore(embedding_similarity_function="cosine")
        documents = [Document(id=str(row), content="", embedding=each.tolist()) for row, each in enumerate(corpus.rows)]
        store.write_documents(documents)
        corpus.stores["haystack"] = store
    store = corpus.stores["haystack"]
    vectors = corpus.queries.vectors.tolist()
    return [[int(document.id) for document in store.embedding_retrieval(vector, top_k=k)] for vector in vectors]


def _list_langchain(corpus: Corpus, weight: float, depth: int, k: int) -> Lists:
    return list_langchain(corpus.space, corpus.queries, weight, depth, k, n_lists=len(corpus.queries))


def _list_llama_index(corpus: Corpus, weight: float, depth: int, k: int) -> Lists:
    return list_llama_index(corpus.space, corpus.queries, weight, depth, k, n_lists=len(corpus.queries))


def _list_qdrant(corpus: Corpus, weight: float, depth: int, k: int) -> Lists:
    if "qdrant" not in corpus.stores:
        corpus.stores["qdrant"] = make_qdrant(corpus.space)
    client, n_lists = corpus.stores["qdrant"], len(corpus.queries)
    return list_qdrant(corpus.space, corpus.queries, weight, depth, k, n_lists, client)


@dataclass(frozen=True)
class Package:
    """A program whose lists are identified. selector, window: what it is."""

    list_rows: Callable[[Corpus, float, int, int], Lists]
    selector: str = "mmr"
    window: int | None = None


PACKAGES = {
    "langchain-core": Package(_list_langchain),
    "llama-index-core": Package(_list_llama_index, window=1),
    "qdrant-client": Package(_list_qdrant),
    "pyversity": Package(list_pyversity),
    "haystack-ai": Package(list_haystack, "top_k"),
}


def list_mmr(rows: Array, queries: Array, weight: float, depth: int, k: int, is_indexed: Array | None = None) -> Lists:
    """Return rows by MMR on any vectors; is_indexed: (Q, n) the documents that an index finds for each query."""
    lists = []
    for query_index, query in enumerate(queries):
        pool = fetch_pool(rows, query, depth, None if is_indexed is None else is_indexed[query_index])
        relevance, similarities = rows[pool] @ query, rows[pool] @ rows[pool].T
        nearest, chosen = np.zeros(len(pool)), [0]
        while len(chosen) < k:
            nearest = similarities[:, chosen].max(1)
            gains = weight * relevance - (1 - weight) * nearest
            gains[chosen] = -np.inf
            chosen.append(int(gains.argmax()))
        lists.append([int(pool[index]) for index in chosen])
    return lists


def wear_vectors(rows: Array, kind: str, rng: np.random.Generator) -> Array:
    """Return vectors as int8 or float16 keep them, or others whose cosine to these is as the kind says."""
    if kind == "int8":
        # One scale for all numbers, as scalar quantisation in vector stores has it.
        scale = np.quantile(np.abs(rows), 0.999) / 127
        return (np.clip(np.round(rows / scale), -127, 127) * scale).astype(np.float32)
    if kind == "float16":
        return rows.astype(np.float16).astype(np.float32)
    return turn_vectors(rows, float(kind.rpartition(" ")[2]), rng)


def turn_vectors(rows: Array, cosine: float, rng: np.random.Generator) -> Array:
    """Return unit vectors with a given cosine to the rows, in directions that are drawn."""
    noise = rng.normal(size=rows.shape)
    noise -= (noise * rows).sum(1, keepdims=True) * rows
    noise /= np.linalg.norm(noise, axis=1, keepdims=True)
    return (cosine * rows + np.sqrt(1 - cosine**2) * noise).astype(np.float32)


def draw_losses(n_queries: int, n_documents: int, kind: str, rng: np.random.Generator) -> Array:
    """Return (Q, n) False for lost documents: "5 % never" in every query, "5 % a query" in each others."""
    rate = float(kind.split(" ")[0]) / 100
    n_draws = 1 if kind.endswith("never") else n_queries
    return np.broadcast_to(rng.random((n_draws, n_documents)) >= rate, (n_queries, n_documents))


def list_shuffled(corpus: Corpus, k: int, rng: np.random.Generator) -> Lists:
    """Return the most relevant documents in random order."""
    depth = int(rng.choice([10, 20, 50]))
    return [rng.permutation(fetch_pool(corpus.rows, query, depth))[:k].tolist() for query in _queries(corpus)]


def list_recent(corpus: Corpus, k: int, rng: np.random.Generator) -> Lists:
    """Return the best documents by relevance and how new they are, by ages that are drawn."""
    ages = rng.exponential(size=len(corpus.rows))
    weight = float(rng.choice([0.01, 0.03, 0.1, 0.3]))
    return [np.argsort(-(corpus.rows @ query + weight * np.exp(-ages)))[:k].tolist() for query in _queries(corpus)]


def list_reranked(corpus: Corpus, k: int, rng: np.random.Generator) -> Lists:
    """Return the pool in another model's order: a bilinear form of query and document beside their cosine."""
    depth, share = int(rng.choice([20, 50, 100])), float(rng.choice([0.1, 0.3, 1.0]))
    dimension = corpus.rows.shape[1]
    form = np.eye(dimension) + share * rng.normal(size=(dimension, dimension)) / np.sqrt(dimension) * 3
    lists = []
    for query in _queries(corpus):
        pool = fetch_pool(corpus.rows, query, depth)
        lists.append(pool[np.argsort(-(corpus.rows[pool] @ form @ query))][:k].tolist())
    return lists


def list_other_vectors(corpus: Corpus, k: int, rng: np.random.Generator) -> Lists:
    """Return MMR on other vectors."""
    rows = turn_vectors(corpus.rows, float(rng.choice([0.5, 0.7, 0.8, 0.9, 0.95])), rng)
    weight, depth = float(rng.choice([0.3, 0.5, 0.7])), int(rng.choice([20, 50]))
    return list_mmr(rows, _queries(corpus), weight, depth, k)


FOREIGN = {
    "relevant documents in random order": list_shuffled,
    "recency mixed in": list_recent,
    "another model's order": list_reranked,
    "MMR on other vectors": list_other_vectors,
}


def _queries(corpus: Corpus) -> Array:
    return corpus.queries.vectors.numpy()
