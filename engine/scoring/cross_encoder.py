"""cross_encoder: f(q, d), a model that reads both at once; Nogueira & Cho 2019, Luan et al. 2021, §4.1."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from engine.data.rerankers import Reranker, absent, fingerprint, load
from engine.errors import Cancelled
from engine.params import Text, Whole, declare
from engine.progress import watcher
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

    Inside engine.progress.watched it says how far it is, and can be stopped between batches.
    """

    words: ClassVar[bool] = True
    for_pools: ClassVar[bool] = True

    model: str = declare(
        Text(
            default="cross-encoder/ms-marco-MiniLM-L6-v2",
            symbol="f",
            help="A sentence-transformers cross-encoder: a folder, or a name on the Hugging Face hub.",
        )
    )
    batch_size: int = declare(
        Whole(
            default=32,
            low=1,
            high=4096,
            comfortable=(1, 128),
            symbol="batch",
            help="How many documents the model reads at a time.",
            advanced=True,
        )
    )

    def missing(self, space: Space) -> str | None:
        return f"a download of {self.model!r}" if absent(self.model) else None

    def reads(self, space: Space) -> Mapping[str, str]:
        return {"model": fingerprint(self.model)}

    def prepare(self, space: Space) -> None:
        load(self.model, str(space.device))

    def reader(self, space: Space) -> Reranker:
        """The loaded model."""
        return load(self.model, str(space.device))

    def score(self, space: Space, queries: QueryBatch, rows: Tensor | None = None) -> Tensor:
        """(B, n), or (B, m) for given rows: no other document is read. Raises Cancelled where it is stopped."""
        model = self.reader(space)
        texts = space.corpus.passages
        chosen = [range(len(texts))] * len(queries) if rows is None else rows.tolist()
        total = sum(map(len, chosen))
        progress, stop = watcher()
        scores: list[list[float]] = []
        done = 0

        def told(more: int) -> None:
            if stop is not None and stop.is_set():
                raise Cancelled(f"scoring stopped at {done + more:,} of {total:,} pairs")
            if progress is not None:
                progress(done + more, total, "scoring pairs")

        for query, own in zip(queries.texts, chosen, strict=True):
            scores.append(model.score(query, [texts[row] for row in own], self.batch_size, told))
            done += len(own)
        told(0)
        return torch.tensor(scores, dtype=space.vectors.dtype, device=space.device)
