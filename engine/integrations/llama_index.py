"""LlamaIndex: any decoder as a node postprocessor."""

from collections.abc import Sequence
from typing import Any

from engine.integrations.candidates import Answerer, Selection, encode_with, require_package, require_values

with require_package("llama-index-core", "llama-index"):
    from llama_index.core.base.embeddings.base import BaseEmbedding
    from llama_index.core.bridge.pydantic import PrivateAttr
    from llama_index.core.postprocessor.types import BaseNodePostprocessor
    from llama_index.core.schema import MetadataMode, NodeWithScore, QueryBundle


class FrontierPostprocessor(BaseNodePostprocessor):
    """The nodes that a decoder selects of those that a retriever fetched.

    decoder, k: as of `Answerer`; encoder: as there, or the index's embedding model. Vectors are those of the nodes
    and of the query bundle, where all nodes have one; else all are embedded. A node's score is what the selector ranks
    by.
    """

    decoder: Any
    k: int | None = None
    encoder: Any = None
    _answerer: Answerer = PrivateAttr()

    def __init__(self, decoder: Any, k: int | None = None, encoder: Any = None, **attributes: Any) -> None:
        """Read the decoder; an embedding model of LlamaIndex may stand for the encoder."""
        super().__init__(decoder=decoder, k=k, encoder=encoder, **attributes)
        if isinstance(encoder, BaseEmbedding):
            encoder = encode_with(encoder.get_text_embedding_batch, encoder.get_query_embedding)
        self._answerer = Answerer(decoder, k, encoder)

    @classmethod
    def class_name(cls) -> str:
        return "FrontierPostprocessor"

    def answer(self, nodes: Sequence[NodeWithScore], query: QueryBundle) -> Selection:
        """Select from the nodes that a retriever fetched; return their rows, scores and certificate."""
        # The text is the one that the index embedded, metadata included.
        return self._answerer(
            query.query_str,
            [node.node.get_content(metadata_mode=MetadataMode.EMBED) for node in nodes],
            vectors=require_values([node.node.embedding for node in nodes], "embedding"),
            query_vector=query.embedding,
            scores=require_values([node.score for node in nodes], "score"),
            sources=self._answerer.list_sources([node.node.metadata for node in nodes]),
        )

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        """Return the selected nodes, best first, with the selector's scores."""
        if query_bundle is None:
            raise ValueError("the nodes are selected for a query: pass query_bundle or query_str")
        selection = self.answer(nodes, query_bundle)
        selected_nodes = []
        for row_index, score in zip(selection.rows, selection.scores, strict=True):
            selected_nodes.append(NodeWithScore(node=nodes[row_index].node, score=score))
        return selected_nodes
