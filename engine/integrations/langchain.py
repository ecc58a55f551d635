"""LangChain: any decoder as a document compressor."""

from collections.abc import Sequence
from typing import Any

from engine.data.encoders import TextEncoder
from engine.data.models.encoder_model import Role
from engine.integrations.candidates import Answerer, Selection, encode_with, require_package, require_values

with require_package("langchain-core", "langchain"):
    from langchain_core.callbacks import Callbacks
    from langchain_core.documents import BaseDocumentCompressor, Document
    from langchain_core.embeddings import Embeddings
    from pydantic import ConfigDict, PrivateAttr


class FrontierCompressor(BaseDocumentCompressor):
    """The documents that a decoder selects of those that a retriever fetched.

    decoder, k: as of `Answerer`; encoder: as there, or the store's LangChain Embeddings; vector_key, score_key: where
    documents have vector and score in their metadata, if they have them: others are embedded. A document comes back
    with what the selector ranks by under "frontier_score".
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    decoder: Any
    k: int | None = None
    encoder: Any = None
    vector_key: str = "vector"
    score_key: str = "score"
    _answerer: Answerer = PrivateAttr()

    def model_post_init(self, context: Any, /) -> None:
        """Read the decoder, so that an error in it is raised at once."""
        encoder = self.encoder
        if isinstance(encoder, Embeddings):
            encoder = encode_with(encoder.embed_documents, encoder.embed_query)
        self._answerer = Answerer(self.decoder, self.k, encoder)

    def answer(self, documents: Sequence[Document], query: str) -> Selection:
        """Select from the documents that a retriever fetched; return their rows, scores and certificate."""
        metadata = [document.metadata for document in documents]
        # Either all documents must have them in their metadata, or none.
        vectors, scores = ([entry.get(key) for entry in metadata] for key in (self.vector_key, self.score_key))
        return self._answerer(
            query,
            [document.page_content for document in documents],
            vectors=require_values(vectors, f"metadata[{self.vector_key!r}]"),
            scores=require_values(scores, f"metadata[{self.score_key!r}]"),
            sources=self._answerer.list_sources(metadata),
        )

    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks | None = None
    ) -> list[Document]:
        """Select from the documents that a retriever fetched; return copies of the selected ones, best first.

        Each copy has its score, by which the selector ranks, in its metadata.
        """
        selection = self.answer(documents, query)
        return [
            documents[row].model_copy(update={"metadata": {**documents[row].metadata, "frontier_score": score}})
            for row, score in zip(selection.rows, selection.scores, strict=True)
        ]


class FrontierEmbeddings(Embeddings):
    """The vectors that `engine.embed` gives, for a store that is to hold those that were measured.

    encoder, dtype: as of `engine.embed`.
    """

    def __init__(self, encoder: str = "bundled", dtype: str = "auto") -> None:
        self._encode = TextEncoder(encoder, dtype=dtype)

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return a unit vector for each document."""
        return self._vectors(texts, "document")

    def embed_query(self, text: str) -> list[float]:
        """Return the vector of a query."""
        return self._vectors([text], "query")[0]

    def _vectors(self, texts: list[str], role: Role) -> list[list[float]]:
        return self._encode(texts, role).tolist()
