"""facility_location: relevance and coverage of a ground set, Lin & Bilmes 2011, §4, lazily greedy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.candidates import Candidates
from engine.errors import ParamError
from engine.params import Whole, declare
from engine.solvers.exact_dot import ExactProducts
from engine.solvers.greedy.lambda_path import coverage_paths
from engine.solvers.lines import LambdaPath
from engine.solvers.tie_breaking import ranked
from engine.stages import RELEVANCE_WEIGHT, Selector, register
from engine.values import Ranking

KEPT_ROWS = 4096
"""Up to so many documents in the ground set all their similarities are kept (128 MiB); beyond, made when asked for."""
BLOCK = 64
"""How many documents' similarities are looked at in one go."""
FRESH = 16
"""How many gains are brought up to date at first; every further look at the same pick takes twice as many."""


@register(
    "facility_location",
    title="Facility location",
    paper="Lin & Bilmes 2011",
    equation=(
        r"\max_{|Y|=k} \lambda\sum_{i\in Y} r_i"
        r"+(1-\lambda)\frac{k}{|P|}\sum_{j\in P}\max\Bigl(0,\max_{i\in Y}s_{ij}\Bigr)"
    ),
    cost="|P|²·d",
    order=70,
)
@dataclass(frozen=True)
class FacilityLocation(Selector):
    """Relevant documents that between them stand for all relevant ones."""

    relevance_weight: float = declare(RELEVANCE_WEIGHT, "1 is pure relevance, 0 pure coverage.")
    ground_set: int | None = declare(
        Whole(1000, "P", 1, comfortable=(10, 2000), unset="the whole corpus", advanced=True),
        "How many of the most relevant documents are chosen from, and are to be represented.",
    )

    @classmethod
    def select_grid(cls, stages: Sequence[FacilityLocation], candidates: Candidates, k: int) -> list[Ranking]:
        """Greedy: one document of P at a time, whichever adds most to the objective; of k = 1, the most relevant.

        P: the `ground_set` most relevant candidates, but no fewer than k. gain: what the pick added. info: pool = |P|,
        whole = P is every candidate, objective = the sum of the gains, evaluations = how many gains were computed.
        Similarities are computed once for all stages with the same ground set.
        """
        c = candidates
        answers: dict[int, Ranking] = {}
        sizes = [max(k, min(stage.ground_set or c.count, c.count)) for stage in stages]
        for size in dict.fromkeys(sizes):
            alike = [at for at, other in enumerate(sizes) if other == size]
            answers |= zip(alike, _answers(c, k, size, [stages[at].relevance_weight for at in alike]), strict=True)
        return [answers[at] for at in range(len(stages))]

    def lambda_path(self, candidates: Candidates, k: int, interval: tuple[float, float]) -> list[LambdaPath]:
        """The same at every λ, for a ground set whose similarities are kept."""
        size = max(k, min(self.ground_set or candidates.count, candidates.count))
        if size > KEPT_ROWS:
            raise ParamError(
                f"facility_location has a path for ground sets of up to {KEPT_ROWS} documents; got {size}: pass "
                f"ground_set={KEPT_ROWS} or fewer"
            )
        return coverage_paths(candidates, k, interval, size)


def _answers(c: Candidates, k: int, size: int, weights: list[float]) -> list[Ranking]:
    """The ranking of each weight, over ground sets of `size` candidates."""
    ground, relevance = ranked(c.relevance, size, c.relevance_error, c.exact_relevance)
    ground, order = ground.sort(dim=1)
    relevance = relevance.gather(1, order)
    whole = size == c.count
    found: list[list[tuple[Tensor, Tensor, int]]] = [[] for _ in weights]
    covering: _Covering | None = None
    for b in range(c.batch):
        if covering is None or not (whole and c.shared):
            covering = _Covering(c.vectors[ground[b]] if c.shared else c.vectors[b, ground[b]])
        for answers, weight in zip(found, weights, strict=True):
            # Greed alone could begin, and at k = 1 end, with another document than the most relevant.
            only = order[b].argmin() if k == 1 else None
            answers.append(covering.greedy(relevance[b], weight, k, only))
    rankings = []
    for answers in found:
        index = torch.stack([ground[b, pick] for b, (pick, _, _) in enumerate(answers)])
        gain = torch.stack([gain for _, gain, _ in answers])
        values = zip(gain.sum(1).tolist(), answers, strict=True)
        info = tuple(
            {"candidates": c.count, "pool": size, "whole": whole, "objective": value, "evaluations": evaluations}
            for value, (_, _, evaluations) in values
        )
        rankings.append(Ranking(index, gain, info))
    return rankings


class _Covering:
    """A ground set's similarities, and what covers it."""

    def __init__(self, rows: Tensor) -> None:
        self.size = len(rows)
        self.products = ExactProducts(rows)
        self.kept = self.products.gram() if self.size <= KEPT_ROWS else None
        nothing = rows.new_zeros(self.size, dtype=torch.float64)
        # What each document covers alone: the same for all queries and weights.
        self.alone = self.covered(torch.arange(self.size, device=rows.device), nothing)

    def similarities(self, index: Tensor) -> Tensor:
        """(m, p) of the documents at `index` to all."""
        return self.products.of(index) if self.kept is None else self.kept[index]

    def covered(self, index: Tensor, cover: Tensor) -> Tensor:
        """(m,) by how much each document at `index` raises the cover, (p,), in total."""
        return torch.cat([(self.similarities(i) - cover).clamp_min_(0).sum(1) for i in index.split(BLOCK)])

    def greedy(self, relevance: Tensor, weight: float, k: int, only: Tensor | None) -> tuple[Tensor, Tensor, int]:
        """(k,) picks and their (k,) gains, and how many gains were computed; `only`: the first pick, where given.

        Minoux 1978: gains only fall, also as computed (rounding is monotone, and each sum runs in a fixed order), so a
        gain of an earlier pick bounds the present one, and nothing bounded by less than the best needs another look.
        """
        own = weight * relevance
        share = (1 - weight) * k / self.size
        bound = own + share * self.alone
        fresh = torch.ones(self.size, dtype=torch.bool, device=bound.device)
        cover = torch.zeros_like(bound)
        picks, gains, evaluations = [], [], self.size
        for step in range(k):
            width = FRESH
            while step:
                top, index = torch.where(fresh, -torch.inf, bound).topk(min(width, self.size))
                # Who may equal the best is looked at too: of equals the lowest row wins.
                index = index[(top >= torch.where(fresh, bound, -torch.inf).max()) & (top > -torch.inf)]
                if not len(index):
                    break
                bound[index] = own[index] + share * self.covered(index, cover)
                fresh[index] = True
                evaluations += len(index)
                width *= 2
            pick = bound.argmax() if only is None else only
            picks.append(pick)
            gains.append(bound[pick].clone())
            cover = torch.maximum(cover, self.similarities(pick.view(1))[0])
            bound[pick] = -torch.inf
            fresh.fill_(False)
        return torch.stack(picks), torch.stack(gains), evaluations
