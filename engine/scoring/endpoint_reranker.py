"""endpoint_reranker: f(q, d) by a server of endpoints.toml that reads both texts (Nogueira & Cho 2019)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from engine.data.endpoints.rerank import (
    FIRST_ENDPOINT,
    EndpointRanker,
    find_reranker,
    fingerprint,
    list_rerankers,
)
from engine.params import Text, declare
from engine.progress import current_reporter, with_cancellation
from engine.space import QueryBatch, Space
from engine.stages import Scorer, register


@register(
    "endpoint_reranker",
    title="Endpoint reranker",
    paper="Nogueira & Cho 2019",
    equation=r"r_i = f(q, d_i)",
    cost="one request for some dozens of documents: only the pool's, at the price of who runs it",
    order=41,
)
@dataclass(frozen=True)
class EndpointReranker(Scorer):
    """Model of a server that reads query and document together, for reranking a pool; the texts are sent to it.

    Reports progress to engine.progress.report_to, and can be cancelled between requests.
    """

    words: ClassVar[bool] = True
    vectors: ClassVar[bool] = False
    rerank_only: ClassVar[bool] = True

    endpoint: str = declare(
        Text(FIRST_ENDPOINT, "f", choices=list_rerankers),
        "An entry of endpoints.toml with a model for rerank; first is the first of them.",
    )

    @classmethod
    def is_available(cls) -> bool:
        """Return True if endpoints.toml names a model for reranking."""
        return bool(list_rerankers())

    def consent_needed(self, space: Space) -> str | None:
        """Return what the user should agree to before scoring: that texts leave this machine."""
        host = find_reranker(self.endpoint).host
        return f"your agreement that queries and the texts of the pool are sent to {host}"

    def cache_dependencies(self, space: Space) -> Mapping[str, str]:
        """Return what cached scores depend on beside the parameters: the server and its model."""
        return {"model": fingerprint(find_reranker(self.endpoint))}

    def score(self, space: Space, queries: QueryBatch, rows: Tensor | None = None) -> Tensor:
        """Return the model's scores of queries with documents, (B, n), or (B, m) for given rows, (B, m).

        Only the texts of given rows are sent then. Raises Cancelled, ConsentNeededError and DataError.
        """
        ranker = EndpointRanker(find_reranker(self.endpoint))
        passages = space.corpus.passages
        documents_by_query = [range(len(passages))] * len(queries) if rows is None else rows.tolist()
        n_pairs = sum(map(len, documents_by_query))
        # The flag goes down to the requests, so that a wait for a busy server can be cancelled too.
        progress, stop = current_reporter()
        report_progress = with_cancellation(progress, stop, "scoring stopped at {done} of {total} pairs")
        scores = ranker.score(
            queries.required_texts,
            [[passages[row_index] for row_index in document_rows] for document_rows in documents_by_query],
            lambda n_done: report_progress(n_done, n_pairs, f"scoring pairs by {ranker.settings.host}"),
            stop,
        )
        return torch.tensor(scores, dtype=space.vectors.dtype, device=space.device)
