"""Haystack: any decoder as a ranker component."""

import json
from dataclasses import replace
from typing import Any

from engine.evaluation.export_decoder import export
from engine.integrations.candidates import Answerer, require_package, require_values

with require_package("haystack-ai", "haystack"):
    from haystack import Document, component, default_from_dict, default_to_dict


@component
class FrontierRanker:
    """The documents that a decoder selects of those that a retriever fetched.

    decoder, k, encoder: as of `Answerer`. Vectors are `query_embedding` and the documents' own, where a retriever has
    return_embedding=True; else all are embedded. A document's score is what the selector ranks by. A saved pipeline
    is loaded with allowed_modules=["engine.integrations.haystack"].
    """

    def __init__(self, decoder: Any, k: int | None = None, encoder: str | None = None) -> None:
        self._answerer = Answerer(decoder, k, encoder)

    def to_dict(self) -> Any:
        """Serialise the component for a saved pipeline."""
        setting = json.loads(export(self._answerer.decoder, "json", self._answerer.context).text)
        return default_to_dict(self, decoder=setting, k=self._answerer.k, encoder=self._answerer.encoder)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Any:
        """Load the component of a saved pipeline."""
        return default_from_dict(cls, data)

    @component.output_types(documents=list[Document], certificate=dict[str, Any])
    def run(
        self,
        query: str,
        documents: list[Document],
        query_embedding: list[float] | None = None,
        top_k: int | None = None,
    ) -> dict[str, Any]:
        """Select from the documents that a retriever fetched; return the selected ones, best first.

        top_k: number to select, None for the ranker's own k. The result has "documents", and "certificate": facts by
        which the selector tells how its answer was computed and what is proven of it.
        """
        # Haystack passes None for what a retriever did not return.
        selection = self._answerer(
            query,
            [document.content or "" for document in documents],
            vectors=require_values([document.embedding for document in documents], "embedding"),
            query_vector=query_embedding,
            scores=require_values([document.score for document in documents], "score"),
            sources=self._answerer.list_sources([document.meta for document in documents]),
            k=top_k,
        )
        scored_rows = zip(selection.rows, selection.scores, strict=True)
        ranked_documents = [replace(documents[row_index], score=score) for row_index, score in scored_rows]
        return {"documents": ranked_documents, "certificate": dict(selection.certificate)}
