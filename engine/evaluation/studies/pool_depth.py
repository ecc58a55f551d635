"""Smallest pool depth whose answers equal those of the full corpus."""

from dataclasses import dataclass, replace

from engine.decoder import Decoder, decode
from engine.display import OneLine
from engine.evaluation.sweep.compute import embed_for_space
from engine.params import Real
from engine.space import Space
from engine.values import Embeddings, Queries

STABLE_SHARE = Real(0.99, "share", 0.0, 1.0, name="share", help="Of the queries, whose answers stay the same.")


@dataclass(frozen=True, slots=True)
class PoolDepth(OneLine):
    """A number of candidates, the share of queries that get the full answer from as many, and all queries."""

    depth: int
    share: float
    queries: int


def pool_depth(
    decoder: Decoder, space: Space, queries: Queries | Embeddings, k: int = 10, share: float = 0.99
) -> PoolDepth:
    """Find the smallest depth at which a share of the queries gets the same documents in the same order.

    The reference is the decoder at its own depth, or over the full corpus. Deeper pools are assumed to be no worse: the
    depth is doubled from k on, then the interval between the last two is bisected.

    Parameters
    ----------
    decoder : Decoder
        The decoder.
    space : Space
        The corpus to search.
    queries : Queries or Embeddings
        The queries.
    k : int
        The size of the retrieved sets.
    share : float
        The share of the queries.

    Returns
    -------
    PoolDepth
        The depth and the share that it reaches.

    Raises
    ------
    ParamError, DataError
        If an argument is invalid or inputs do not belong together.

    Examples
    --------
    >>> import engine, torch
    >>> corpus = engine.Corpus(("a", "b", "c"), ("red apple", "green apple", "blue sky"))
    >>> space = engine.Space(corpus, engine.Embeddings(("a", "b", "c"), torch.eye(3)))
    >>> queries, qrels = engine.Embeddings(("q",), torch.tensor([[1.0, 0.5, 0.1]])), engine.Qrels({"q": {"a": 1}})
    >>> engine.pool_depth(engine.Decoder(engine.make("mmr")), space, queries, k=1).depth
    1
    """
    min_share, vectors = STABLE_SHARE.check(share), embed_for_space(space, queries)
    full_rows = decode(decoder, space, vectors, k).index

    def measure_share(depth: int) -> float:
        """Return the share of queries with the same answer, in order, from so many candidates as from all."""
        rows = decode(replace(decoder, depth=depth), space, vectors, k).index
        return float((rows == full_rows).all(1).double().mean())

    # The decoder's own depth is the reference itself, so it is never measured: its share is 1.
    max_depth = min(decoder.depth or len(space), len(space))
    low_depth, high_depth = 0, min(k, max_depth)
    while high_depth < max_depth and (depth_share := measure_share(high_depth)) < min_share:
        low_depth, high_depth = high_depth, min(2 * high_depth, max_depth)
    high_share = 1.0 if high_depth == max_depth else depth_share
    while high_depth - low_depth > 1:
        mid_depth = (low_depth + high_depth) // 2
        if (depth_share := measure_share(mid_depth)) < min_share:
            low_depth = mid_depth
        else:
            high_depth, high_share = mid_depth, depth_share
    return PoolDepth(high_depth, high_share, len(vectors))
