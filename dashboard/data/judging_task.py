"""Documents to judge for a corpus, and the ranked lists of the systems that returned them."""

from dataclasses import dataclass

from engine.evaluation.runs import RankedRun
from engine.judging.pool import Pair
from engine.values import Embeddings


@dataclass(frozen=True, eq=False)
class JudgingTask:
    """Ranked lists of all systems that are judged, and the documents in them for people to grade.

    A system is a decoder, or another program of which a file with its lists was added.
    """

    vectors: Embeddings  # of the queries
    runs: tuple[RankedRun, ...]  # a system's list for each query
    pooled_pairs: tuple[Pair, ...]  # ids of a query and a document in the lists, the most informative grade first
    pairs: tuple[Pair, ...]  # those that the judgements of the corpus do not have
    k: int  # documents of each list

    @property
    def n_known(self) -> int:
        """Number of pairs that the judgements of the corpus have."""
        return len(self.pooled_pairs) - len(self.pairs)
