"""top_k: the k most relevant documents; the baseline of every paper."""

from dataclasses import dataclass

from engine.candidates import Candidates
from engine.solvers.contest import ranked
from engine.stages import Selector, register
from engine.values import Ranking


@register("top_k", title="Top-k", paper="baseline", equation=r"\arg\max_{|Y|=k} \sum_{i\in Y} r_i", cost="n·d", order=0)
@dataclass(frozen=True)
class TopK(Selector):
    """The k most relevant documents, whatever they have in common."""

    def select(self, candidates: Candidates, k: int) -> Ranking:
        """The k largest relevances; gain is the relevance."""
        index, gain = ranked(candidates.relevance, k, candidates.relevance_error, candidates.exact_relevance)
        return Ranking(index, gain, tuple({"candidates": candidates.count} for _ in range(candidates.batch)))
