"""Every adapter of engine.integrations over a real store of its framework.

Each is a function of space and queries that returns fetch(query, n), the store's candidates, and adapt(decoder, k), a
function of query and candidates that returns the selected ids.
"""

import os

import numpy as np

import engine

os.environ.setdefault("HAYSTACK_TELEMETRY_ENABLED", "False")


class Vectors:
    """Vectors by text; an unknown text is an error, so that nothing is embedded by accident."""

    def __init__(self, space, queries):
        self.documents = dict(zip(space.corpus.passages, space.vectors.tolist(), strict=True))
        self.queries = dict(zip(queries.texts, queries.vectors.tolist(), strict=True))


def function(space, queries):
    """Adapt the framework-free function, over candidates by inner product."""
    rows, vectors_by_text = space.vectors.numpy(), Vectors(space, queries)

    def fetch(query, n):
        return np.argsort(-(rows @ np.float32(vectors_by_text.queries[query])), kind="stable")[:n]

    def adapt(decoder, k):
        answerer = engine.integrations.Answerer(decoder, k)

        def ask(query, near):
            ids = [space.corpus.ids[row] for row in near]
            point = np.float32(vectors_by_text.queries[query])
            return list(answerer(query, vectors=rows[near], query_vector=point, ids=ids).ids)

        return ask

    return fetch, adapt


def langchain(space, queries):
    """Adapt LangChain's own store, which keeps its vectors to itself."""
    from langchain_core.embeddings import Embeddings
    from langchain_core.vectorstores import InMemoryVectorStore

    from engine.integrations.langchain import FrontierCompressor

    vectors_by_text = Vectors(space, queries)

    class Given(Embeddings):
        def embed_documents(self, texts):
            return [vectors_by_text.documents[text] for text in texts]

        def embed_query(self, text):
            return vectors_by_text.queries[text]

    store = InMemoryVectorStore(Given())
    store.add_texts(list(space.corpus.passages), ids=list(space.corpus.ids))

    def adapt(decoder, k):
        compressor = FrontierCompressor(decoder=decoder, k=k, encoder=store.embeddings)
        return lambda query, fetched: [document.id for document in compressor.compress_documents(fetched, query)]

    return lambda query, n: store.similarity_search(query, k=n), adapt


def llama_index(space, queries):
    """Adapt LlamaIndex's own vector store index."""
    from llama_index.core import VectorStoreIndex
    from llama_index.core.embeddings import BaseEmbedding
    from llama_index.core.schema import TextNode

    from engine.integrations.llama_index import FrontierPostprocessor

    vectors_by_text = Vectors(space, queries)

    class Given(BaseEmbedding):
        def _get_text_embedding(self, text):
            return vectors_by_text.documents[text]

        def _get_query_embedding(self, query):
            return vectors_by_text.queries[query]

        async def _aget_query_embedding(self, query):
            return vectors_by_text.queries[query]

    model = Given()
    corpus = space.corpus
    nodes = [TextNode(id_=i, text=text) for i, text in zip(corpus.ids, corpus.passages, strict=True)]
    index = VectorStoreIndex(nodes, embed_model=model)

    def adapt(decoder, k):
        postprocessor = FrontierPostprocessor(decoder=decoder, k=k, encoder=model)
        return lambda query, fetched: [
            node.node_id for node in postprocessor.postprocess_nodes(fetched, query_str=query)
        ]

    return lambda query, n: index.as_retriever(similarity_top_k=n).retrieve(query), adapt


def haystack(space, queries):
    """Adapt Haystack's own store and retriever."""
    from haystack import Document
    from haystack.components.retrievers import InMemoryEmbeddingRetriever
    from haystack.document_stores.in_memory import InMemoryDocumentStore

    from engine.integrations.haystack import FrontierRanker

    vectors_by_text = Vectors(space, queries)
    store = InMemoryDocumentStore(embedding_similarity_function="dot_product")
    rows = zip(space.corpus.ids, space.corpus.passages, space.vectors.tolist(), strict=True)
    store.write_documents([Document(id=i, content=text, embedding=vector) for i, text, vector in rows])
    retriever = InMemoryEmbeddingRetriever(store, return_embedding=True)

    def fetch(query, n):
        return retriever.run(query_embedding=vectors_by_text.queries[query], top_k=n)["documents"]

    def adapt(decoder, k):
        ranker = FrontierRanker(decoder, k)

        def ask(query, fetched):
            result = ranker.run(query=query, documents=fetched, query_embedding=vectors_by_text.queries[query])
            return [document.id for document in result["documents"]]

        return ask

    return fetch, adapt


def sklearn(space, queries):
    """Adapt the estimator, which searches all that it was fitted on."""
    from engine.integrations.sklearn import FrontierRetriever

    vectors_by_text = Vectors(space, queries)

    def adapt(decoder, k):
        fitted = FrontierRetriever(decoder, k=k).fit(space.vectors.numpy(), space.corpus.ids)
        return lambda query, fetched: list(fitted.answers(np.float32([vectors_by_text.queries[query]]))[0].ids)

    return lambda query, n: None, adapt


ADAPTERS = {"function": function, "langchain": langchain, "llama_index": llama_index, "haystack": haystack}
ADAPTERS["sklearn"] = sklearn
PACKAGES = {"langchain": "langchain_core", "llama_index": "llama_index.core", "haystack": "haystack"}
"""What an adapter needs beside the engine's own dependencies."""
