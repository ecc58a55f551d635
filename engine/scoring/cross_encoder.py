"""cross_encoder: f(q, d), a model that reads both texts at once (Nogueira & Cho 2019; Luan et al. 2021, §4.1)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from engine.data.models.rerankers import CrossEncoderModel, fingerprint, load, needs_download
from engine.params import Text, Whole, declare
from engine.progress import current_reporter, with_cancellation
from engine.space import QueryBatch, Space
from engine.stages import Scorer, register


@register(
    "cross_encoder",
    title="Cross-encoder",
    paper="Nogueira & Cho 2019",
    equation=r"r_i = f(q, d_i)",
    cost="one pass of the model a document: n a query, as a reranker only the pool's",
    order=40,
)
@dataclass(frozen=True)
class CrossEncoder(Scorer):
    """Model that reads query and document together, for reranking a pool; a corpus of n costs n passes a query.

    Reports progress to engine.progress.report_to, and can be cancelled between batches.
    """

    words: ClassVar[bool] = True
    vectors: ClassVar[bool] = False
    rerank_only: ClassVar[bool] = True

    model: str = declare(
        Text("cross-encoder/ms-marco-MiniLM-L6-v2", "f"),
        "A sentence-transformers cross-encoder: a folder, or a name on the Hugging Face hub.",
    )
    batch_size: int = declare(
        Whole(32, "batch", 1, 4096, comfortable=(1, 128), advanced=True),
        "Number of documents that the model reads at a time.",
    )

    def consent_needed(self, space: Space) -> str | None:
        """Return what the user should agree to before scoring, the model's download; None if it is there."""
        return f"a download of {self.model!r}" if needs_download(self.model) else None

    def cache_dependencies(self, space: Space) -> Mapping[str, str]:
        """Return what cached scores depend on beside the parameters: the model's weights."""
        return {"model": fingerprint(self.model)}

    def prepare(self, space: Space) -> CrossEncoderModel:
        """Return the loaded model."""
        return load(self.model, str(space.device))

    def score(self, space: Space, queries: QueryBatch, rows: Tensor | None = None) -> Tensor:
        """Return the model's scores of queries with documents, (B, n), or (B, m) for given rows, (B, m).

        Only the given rows are read then. Raises Cancelled.
        """
        model = self.prepare(space)
        passages = space.corpus.passages
        documents_by_query = [range(len(passages))] * len(queries) if rows is None else rows.tolist()
        n_pairs = sum(map(len, documents_by_query))
        report_progress = with_cancellation(*current_reporter(), "scoring stopped at {done} of {total} pairs")
        scores: list[list[float]] = []
        n_done = 0

        def report_batch(n_scored: int) -> None:
            # Progress counts pairs over all queries, where the model reports the batches of one query.
            report_progress(n_done + n_scored, n_pairs, "scoring pairs")

        for query, document_rows in zip(queries.required_texts, documents_by_query, strict=True):
            documents = [passages[row_index] for row_index in document_rows]
            scores.append(model.score(query, documents, self.batch_size, report_batch))
            n_done += len(document_rows)
        # No pairs beyond those done: reports the last total, and lets a cancellation through.
        report_batch(0)
        return torch.tensor(scores, dtype=space.vectors.dtype, device=space.device)
