"""Every adapter of engine.integrations over a real store of its framework: (query, n) → ids of what is selected."""

import os

import numpy as np

import engine

os.environ.setdefault("HAYSTACK_TELEMETRY_ENABLED", "False")


class Vectors:
    """Vectors by text; an unknown text is an error, so that nothing is embedded by accident."""

    def __init__(self, space, queries):
        self.documents = dict(zip(space.corpus.passages, space.vectors.tolist(), strict=True))
        self.queries = dict(zip(queries.texts, queries.vectors.tolist(), strict=True))


def function(decoder, space, queries, k):
    """The plain function, over candidates by inner product."""
    rows, given = space.vectors.numpy(), Vectors(space, queries)
    answerer = engine.integrations.Answerer(decoder, k)

    def ask(query, n):
        point = np.float32(given.queries[query])
        near = np.argsort(-(rows @ point), kind="stable")[:n]
        ids = [space.corpus.ids[row] for row in near]
        return list(answerer(query, vectors=rows[near], query_vector=point, ids=ids).ids)

    return ask


def langchain(decoder, space, queries, k):
    """LangChain's own store, which keeps its vectors to itself."""
    from langchain_core.embeddings import Embeddings
    from langchain_core.vectorstores import InMemoryVectorStore

    from engine.integrations.langchain import FrontierCompressor

    given = Vectors(space, queries)

    class Given(Embeddings):
        def embed_documents(self, texts):
            return [given.documents[text] for text in texts]

        def embed_query(self, text):
            return given.queries[text]

    store = InMemoryVectorStore(Given())
    store.add_texts(list(space.corpus.passages), ids=list(space.corpus.ids))
    compressor = FrontierCompressor(decoder=decoder, k=k, encoder=store.embeddings)

    def ask(query, n):
        return [document.id for document in compressor.compress_documents(store.similarity_search(query, k=n), query)]

    return ask


def llama_index(decoder, space, queries, k):
    """LlamaIndex's own vector store index."""
    from llama_index.core import VectorStoreIndex
    from llama_index.core.embeddings import BaseEmbedding
    from llama_index.core.schema import TextNode

    from engine.integrations.llama_index import FrontierPostprocessor

    given = Vectors(space, queries)

    class Given(BaseEmbedding):
        def _get_text_embedding(self, text):
            return given.documents[text]

        def _get_query_embedding(self, query):
            return given.queries[query]

        async def _aget_query_embedding(self, query):
            return given.queries[query]

    model = Given()
    corpus = space.corpus
    nodes = [TextNode(id_=i, text=text) for i, text in zip(corpus.ids, corpus.passages, strict=True)]
    index = VectorStoreIndex(nodes, embed_model=model)
    postprocessor = FrontierPostprocessor(decoder=decoder, k=k, encoder=model)

    def ask(query, n):
        fetched = index.as_retriever(similarity_top_k=n).retrieve(query)
        return [node.node_id for node in postprocessor.postprocess_nodes(fetched, query_str=query)]

    return ask


def haystack(decoder, space, queries, k):
    """Haystack's own store and retriever, in a pipeline."""
    from haystack import Document, Pipeline
    from haystack.components.retrievers import InMemoryEmbeddingRetriever
    from haystack.document_stores.in_memory import InMemoryDocumentStore

    from engine.integrations.haystack import FrontierRanker

    given = Vectors(space, queries)
    store = InMemoryDocumentStore(embedding_similarity_function="dot_product")
    rows = zip(space.corpus.ids, space.corpus.passages, space.vectors.tolist(), strict=True)
    store.write_documents([Document(id=i, content=text, embedding=vector) for i, text, vector in rows])
    pipeline = Pipeline()
    pipeline.add_component("retriever", InMemoryEmbeddingRetriever(store, return_embedding=True))
    pipeline.add_component("ranker", FrontierRanker(decoder, k))
    pipeline.connect("retriever.documents", "ranker.documents")

    def ask(query, n):
        point = given.queries[query]
        asked = {"query_embedding": point, "top_k": n}, {"query": query, "query_embedding": point}
        found = pipeline.run({"retriever": asked[0], "ranker": asked[1]})
        return [document.id for document in found["ranker"]["documents"]]

    return ask


def sklearn(decoder, space, queries, k):
    """The estimator, which searches all that it was fitted on."""
    from engine.integrations.sklearn import FrontierRetriever

    given = Vectors(space, queries)
    fitted = FrontierRetriever(decoder, k=k).fit(space.vectors.numpy(), space.corpus.ids)

    def ask(query, n):
        return list(fitted.answers(np.float32([given.queries[query]]))[0].ids)

    return ask


ADAPTERS = {"function": function, "langchain": langchain, "llama_index": llama_index, "haystack": haystack}
ADAPTERS["sklearn"] = sklearn
PACKAGES = {"langchain": "langchain_core", "llama_index": "llama_index.core", "haystack": "haystack"}
"""What an adapter needs beside the engine's own dependencies."""
