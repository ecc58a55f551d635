"""cross_encoder: f(q, d), a model that reads both at once; Nogueira & Cho 2019, Luan et al. 2021, §4.1."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from engine.data.models.rerankers import CrossEncoderModel, absent, fingerprint, load
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
    """A model reads query and document together: made to rerank a pool; over a whole corpus it costs n passes a query.

    Reports to engine.progress.report_to, and can be stopped between batches.
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
        "How many documents the model reads at a time.",
    )

    def consent_needed(self, space: Space) -> str | None:
        return f"a download of {self.model!r}" if absent(self.model) else None

    def cache_dependencies(self, space: Space) -> Mapping[str, str]:
        return {"model": fingerprint(self.model)}

    def prepare(self, space: Space) -> CrossEncoderModel:
        """The loaded model."""
        return load(self.model, str(space.device))

    def score(self, space: Space, queries: QueryBatch, rows: Tensor | None = None) -> Tensor:
        """(B, n), or (B, m) for given rows: no other document is read. Raises Cancelled."""
        model = self.prepare(space)
        texts = space.corpus.passages
        chosen = [range(len(texts))] * len(queries) if rows is None else rows.tolist()
        total = sum(map(len, chosen))
        report = with_cancellation(*current_reporter(), "scoring stopped at {done} of {total} pairs")
        scores: list[list[float]] = []
        done = 0

        def tell(more: int) -> None:
            report(done + more, total, "scoring pairs")

        for query, documents in zip(queries.required_texts, chosen, strict=True):
            scores.append(model.score(query, [texts[row] for row in documents], self.batch_size, tell))
            done += len(documents)
        tell(0)
        return torch.tensor(scores, dtype=space.vectors.dtype, device=space.device)
