"""How deep a pool must be for its answers to be those of the whole corpus."""

from dataclasses import dataclass, replace

from engine.decoder import Decoder, decode
from engine.evaluation.sweep.compute import embed_for_space
from engine.params import Real
from engine.space import Space
from engine.values import Embeddings, Queries

SAME = Real(0.99, "share", 0.0, 1.0, name="share", help="Of the queries, whose answers stay the same.")


@dataclass(frozen=True, slots=True)
class PoolDepth:
    """A depth, the share of queries whose answers are the same there as from the decoder's own pool, and how many."""

    depth: int
    share: float
    queries: int


def pool_depth(
    decoder: Decoder, space: Space, queries: Queries | Embeddings, k: int = 10, share: float = 0.99
) -> PoolDepth:
    """The smallest depth at which a share of the queries gets the same documents, in the same order.

    Compared with the decoder's own depth, else the whole corpus. Deeper pools are taken to be no worse: depths are
    doubled from k on, then halved between the last two. Raises ParamError or DataError.
    """
    least = SAME.check(share)
    asked = embed_for_space(space, queries)
    whole = decode(decoder, space, asked, k).index

    def same(depth: int) -> float:
        return float((decode(replace(decoder, depth=depth), space, asked, k).index == whole).all(1).double().mean())

    most = min(decoder.depth or len(space), len(space))
    low, high = 0, min(k, most)
    while high < most and (reached := same(high)) < least:
        low, high = high, min(2 * high, most)
    found = 1.0 if high == most else reached
    while high - low > 1:
        middle = (low + high) // 2
        if (reached := same(middle)) < least:
            low = middle
        else:
            high, found = middle, reached
    return PoolDepth(high, found, len(asked))
