"""Negatives to train against: uniformly drawn documents, and BM25's best irrelevant ones.

Luan et al. 2021, §4.2: a softmax over 7 documents drawn from a list of 100 of BM25's and 100 others, and over the
documents of the batch's other queries.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import zip_longest

import torch
from torch import Tensor

from engine.errors import DataError
from engine.progress import current_reporter, stoppable
from engine.space import QueryBatch
from engine.stages import make
from engine.training.dataset import Samples

BLOCK_NUMBERS = 1 << 22
"""Scores sorted at a time."""
RANKING = "looking for hard negatives"


def hardest(samples: Samples, most: int) -> Tensor:
    """(Q, at most `most`) rows of BM25's best documents that are not relevant to a training query, −1 pads.

    Best first, of equal ones the lower row; documents that share no word with the query are left out. Raises DataError
    where the queries' texts are not known, and Cancelled.
    """
    space, train = samples.space, samples.train
    if train.texts is None:
        raise DataError(
            "hard (negatives that BM25 chooses) reads the queries' words, and these are vectors alone; pass "
            "engine.Queries, or Embeddings with their texts, or hard=0"
        )
    scorer, n = make("bm25"), len(space)
    rows = torch.full((len(samples), min(most, n)), -1)
    step = max(1, BLOCK_NUMBERS // n)
    report = stoppable(*current_reporter(), f"stopped while {RANKING}")
    for start in range(0, len(samples), step):
        report(start, len(samples), RANKING)
        block = slice(start, min(start + step, len(samples)))
        batch = QueryBatch(train.ids[block], train.vectors[:0], train.texts[block])
        score = scorer.score(space, batch).cpu()
        relevant = samples.batch(torch.arange(block.start, block.stop))
        score[relevant.query.cpu(), relevant.document.cpu()] = 0
        best = score.sort(dim=1, descending=True, stable=True)
        rows[block] = torch.where(best.values > 0, best.indices, -1)[:, : rows.shape[1]]
    report(len(samples), len(samples), RANKING)
    return rows


@dataclass(frozen=True, eq=False)
class Negatives:
    """Source of an epoch's negatives."""

    relevant: tuple[tuple[int, ...], ...]  # rows of each training query's relevant documents, ascending
    documents: int  # size of the corpus
    pool: Tensor | None  # (Q, p) the result of `hardest`, None where no hard ones are drawn
    uniform: int  # uniform negatives a query
    hard: int  # hard negatives a query, fewer where the pool has fewer

    def draw(self, generator: torch.Generator) -> Tensor:
        """(Q, uniform + hard) rows that are not relevant, −1 where there are no more.

        Uniform ones are independent, so that one may come twice, and it counts once; hard ones of a query differ.
        """
        return torch.cat([self._uniform(generator), self._hard(generator)], dim=1)

    def _uniform(self, generator: torch.Generator) -> Tensor:
        queries = len(self.relevant)
        irrelevant = self.documents - torch.tensor([len(rows) for rows in self.relevant])
        share = torch.rand(queries, self.uniform, generator=generator, dtype=torch.float64)
        # The r-th irrelevant document: every relevant one up to it moves it on by one.
        row = (share * irrelevant.unsqueeze(1)).long().minimum((irrelevant - 1).clamp_min(0).unsqueeze(1))
        for place in self._places:
            row += row >= place.unsqueeze(1)
        return torch.where(irrelevant.unsqueeze(1) > 0, row, -1)

    @cached_property
    def _places(self) -> tuple[Tensor, ...]:
        """(Q,) the first relevant row of each query, the second …; beyond all rows where it has no more."""
        return tuple(torch.tensor(rows) for rows in zip_longest(*self.relevant, fillvalue=self.documents))

    def _hard(self, generator: torch.Generator) -> Tensor:
        if self.pool is None:
            return torch.empty(len(self.relevant), 0, dtype=torch.long)
        key = torch.rand(self.pool.shape, generator=generator).masked_fill(self.pool < 0, 2.0)
        return self.pool.gather(1, key.argsort(dim=1)[:, : self.hard])
