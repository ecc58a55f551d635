"""What a reranker is worth by how much it gets to see (sparse-dense paper, Fig. 6)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from engine.decoder import DEPTH, Decoder
from engine.errors import ParamError
from engine.evaluation.points import Point
from engine.evaluation.sweep import sweep
from engine.space import Space
from engine.values import Embeddings, Qrels, Queries

DEPTHS = (10, 20, 50, 100, 200, 500, 1000)


def rerank_depths(
    decoders: Sequence[Decoder],
    space: Space,
    queries: Queries | Embeddings,
    qrels: Qrels,
    *,
    depths: Sequence[int] = DEPTHS,
    k: int = 10,
    metrics: Sequence[str] = ("mrr",),
    **options: Any,
) -> Iterator[Point]:
    """Every decoder at every rerank depth, as Points, MRR@10 by default; `decoder["depth"]` of a point is its depth.

    decoders: each with a rerank stage, their own depth passed over; depths: how many of the retrieved documents are
    reranked, from k on; in place of those beyond the corpus, the whole of it once; options: as `sweep` takes them.
    Raises ParamError or DataError before the first.
    """
    decoders = [decoders] if isinstance(decoders, Decoder) else list(decoders)
    for decoder in decoders:
        if not isinstance(decoder, Decoder):
            raise ParamError(f"decoders must be a list of engine.Decoder; got {decoder!r} among them")
        if decoder.rerank is None:
            raise ParamError(
                f"decoders must have a rerank stage, engine.Decoder(rerank=…), for the depth to matter; "
                f"{decoder.label} has none"
            )
    if isinstance(depths, int | str) or not len(depths):
        raise ParamError(f"depths must be a list of whole numbers in [{k}, ∞); got {depths!r}")
    wanted = sorted({min(DEPTH.check(depth) or len(space), len(space)) for depth in depths})
    if wanted[0] < min(k, len(space)):
        raise ParamError(f"depths must be whole numbers in [{k}, ∞), k being {k}; got {wanted[0]!r} among them")
    cells = [replace(decoder, depth=depth) for decoder in decoders for depth in wanted]
    return sweep(cells, space, queries, qrels, k, metrics, **options)
