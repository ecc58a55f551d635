"""top_k: the k most relevant documents; the baseline of every paper."""

from dataclasses import dataclass

from engine.candidates import Candidates
from engine.solvers.certificate_queries import LinearQuestion, ask_relevance_order
from engine.solvers.tie_breaking import rank_exactly
from engine.stages import Selector, register
from engine.values import Ranking


@register("top_k", title="Top-k", paper="baseline", equation=r"\arg\max_{|Y|=k} \sum_{i\in Y} r_i", cost="n·d", order=0)
@dataclass(frozen=True)
class TopK(Selector):
    """The k most relevant documents, whatever they have in common."""

    nested = True
    sequential = True
    reads_vectors = False

    def select(self, candidates: Candidates, k: int) -> Ranking:
        """Return the k largest relevances; gain is the relevance, in float64 where near-ties needed it."""
        c = candidates
        row_ids, scores = rank_exactly(c.relevance, k, c.relevance_error, c.exact_relevance, rescore_all=False)
        return Ranking(row_ids, scores, tuple({"candidates": c.count} for _ in range(c.batch)))

    def questions(self, candidates: Candidates, ranking: Ranking) -> list[LinearQuestion]:
        """Return questions to a vector engine: is an unseen document more relevant than one of the ranking."""
        return ask_relevance_order(candidates, ranking)
