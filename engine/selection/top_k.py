"""top_k: the k most relevant documents; the baseline of every paper."""

from dataclasses import dataclass

from engine.candidates import Candidates
from engine.solvers.questions import LinearQuestion, by_relevance
from engine.solvers.tie_breaking import ranked
from engine.stages import Selector, register
from engine.values import Ranking


@register("top_k", title="Top-k", paper="baseline", equation=r"\arg\max_{|Y|=k} \sum_{i\in Y} r_i", cost="n·d", order=0)
@dataclass(frozen=True)
class TopK(Selector):
    """The k most relevant documents, whatever they have in common."""

    nested = True

    def select(self, candidates: Candidates, k: int) -> Ranking:
        """The k largest relevances; gain is the relevance, in float64 where near-ties needed it."""
        c = candidates
        index, gain = ranked(c.relevance, k, c.relevance_error, c.exact_relevance, all_=False)
        return Ranking(index, gain, tuple({"candidates": c.count} for _ in range(c.batch)))

    def questions(self, candidates: Candidates, ranking: Ranking) -> list[LinearQuestion]:
        """Whether any document outside is more relevant."""
        return by_relevance(candidates, ranking)
