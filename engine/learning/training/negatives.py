"""What a relevant document is told apart from: uniformly drawn documents, BM25's best wrong ones, and the batch's.

Luan et al. 2021, §4.2: a softmax over 7 documents drawn from a list of 100 of BM25's and 100 others, and over the
documents of the batch's other queries.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from functools import cached_property
from itertools import zip_longest

import torch
from torch import Tensor

from engine.errors import Cancelled, DataError
from engine.learning.training.adapters import Adapters
from engine.learning.training.encoder import below, like
from engine.learning.training.history import Losses
from engine.learning.training.losses import NEVER, info_nce
from engine.learning.training.projections import Projected, drawn
from engine.learning.training.recipe import Recipe
from engine.learning.training.recipes_projections import MultiVector, Projects
from engine.learning.training.samples import Batch, Samples
from engine.progress import Progress, Stop
from engine.space import QueryBatch, Space
from engine.stages import make

BLOCK_NUMBERS = 1 << 22
"""How many scores are sorted at a time."""
RANKING = "looking for hard negatives"


def hardest(
    space: Space, samples: Samples, most: int, progress: Progress | None = None, stop: Stop | None = None
) -> Tensor:
    """(Q, at most `most`) rows of BM25's best documents that are not relevant to a training query, −1 pads.

    Best first, of equal ones the lower row; a document that shares no word with the query is none of them. Raises
    DataError where the queries' texts are not known, and Cancelled.
    """
    train = samples.train
    if train.texts is None:
        raise DataError(
            "hard (negatives that BM25 chooses) reads the queries' words, and these are vectors alone; pass "
            "engine.Queries, or Embeddings with their texts, or hard=0"
        )
    scorer, n = make("bm25"), len(space)
    found = torch.full((len(samples), min(most, n)), -1)
    step = max(1, BLOCK_NUMBERS // n)
    for at in range(0, len(samples), step):
        if stop is not None and stop.is_set():
            raise Cancelled(f"stopped while {RANKING}")
        if progress is not None:
            progress(at, len(samples), RANKING)
        some = range(at, min(at + step, len(samples)))
        texts = train.texts[some.start : some.stop]
        score = scorer.score(space, QueryBatch(train.ids[some.start : some.stop], train.vectors[:0], texts)).cpu()
        relevant = samples.batch(torch.arange(some.start, some.stop))
        score[relevant.query.cpu(), relevant.document.cpu()] = 0
        best = score.sort(dim=1, descending=True, stable=True)
        found[some.start : some.stop] = torch.where(best.values > 0, best.indices, -1)[:, : found.shape[1]]
    if progress is not None:
        progress(len(samples), len(samples), RANKING)
    return found


@dataclass(frozen=True, eq=False)
class Negatives:
    """What negatives are drawn from.

    relevant: per training query the rows of its relevant documents, rising; documents: how many there are; pool: (Q, p)
    what `hardest` gives, None where none are wanted; uniform, hard: how many of each a query gets, where there are.
    """

    relevant: tuple[tuple[int, ...], ...]
    documents: int
    pool: Tensor | None
    uniform: int
    hard: int

    def draw(self, generator: torch.Generator) -> Tensor:
        """(Q, uniform + hard) rows that are not relevant, −1 where there are no more.

        Uniform ones are independent, so that one may come twice, and it counts once; hard ones of a query differ.
        """
        return torch.cat([self._uniform(generator), self._hard(generator)], dim=1)

    def _uniform(self, generator: torch.Generator) -> Tensor:
        queries = len(self.relevant)
        left = self.documents - torch.tensor([len(own) for own in self.relevant])
        share = torch.rand(queries, self.uniform, generator=generator, dtype=torch.float64)
        # The r-th of the documents that are not relevant: every relevant one up to there moves it on by one.
        row = (share * left.unsqueeze(1)).long().minimum((left - 1).clamp_min(0).unsqueeze(1))
        for place in self._places:
            row += row >= place.unsqueeze(1)
        return torch.where(left.unsqueeze(1) > 0, row, -1)

    @cached_property
    def _places(self) -> tuple[Tensor, ...]:
        """(Q,) the first relevant row of each query, the second …; beyond all rows where it has no more."""
        return tuple(torch.tensor(own) for own in zip_longest(*self.relevant, fillvalue=self.documents))

    def _hard(self, generator: torch.Generator) -> Tensor:
        if self.pool is None:
            return torch.empty(len(self.relevant), 0, dtype=torch.long)
        key = torch.rand(self.pool.shape, generator=generator).masked_fill(self.pool < 0, 2.0)
        return self.pool.gather(1, key.argsort(dim=1)[:, : self.hard])


class SampledSoftmax:
    """Cross-entropy of a relevant document's share among negatives; max over j of ⟨q, u_j⟩ where documents have
    several vectors. The mean over a query's relevant documents, each without the others: as `info_nce`."""

    def __init__(self, model: Projected, recipe: Projects, negatives: Negatives) -> None:
        self.model, self.recipe, self.negatives = model, recipe, negatives
        self.drawn = torch.empty(0)

    def begin(self, generator: torch.Generator) -> None:
        """Other negatives are drawn."""
        self.drawn = self.negatives.draw(generator)

    def __call__(self, batch: Batch) -> Losses:
        own = self.drawn[batch.at.cpu()].to(batch.at.device)
        asking, slot = (own >= 0).nonzero(as_tuple=True)
        some, column = torch.cat([batch.document, own[asking, slot]]).unique(return_inverse=True)
        right, wrong = column.split([len(batch.document), len(asking)])
        relevant = torch.zeros(len(batch), len(some), dtype=torch.bool, device=some.device)
        relevant[batch.query, right] = True
        score = best(self.model.encode_query(batch.at), self.model.encode_parts(some))
        if not self.recipe.in_batch:
            listed = relevant.clone()
            listed[asking, wrong] = True
            score = score.masked_fill(~listed, NEVER)
        return Losses(info_nce(score, relevant, self.recipe.tau))


def best(queries: Tensor, documents: Tensor) -> Tensor:
    """(B, c) inner products, the largest of a document's; queries: (B, k), documents: (c, k) or (c, m, k)."""
    if documents.ndim == 2:
        return queries @ documents.T
    return (queries @ documents.flatten(0, 1).T).view(len(queries), *documents.shape[:2]).amax(-1)


def reads_words(recipe: Recipe, samples: Samples) -> bool:
    """Whether what is learnt depends on the words of the queries, which their vectors' digest leaves out."""
    return isinstance(recipe, Projects) and recipe.hard > 0 and samples.train.texts is not None


def projecting(
    recipe: Projects,
    space: Space,
    samples: Samples,
    before: Adapters,
    generator: torch.Generator,
    progress: Progress | None = None,
    stop: Stop | None = None,
) -> tuple[Projected, SampledSoftmax]:
    """What learns projections of a space that stands as it is; before: the adapters it has, whose parts are copied.

    Raises ParamError for too many dimensions, and what `hardest` raises.
    """
    several, spread = (recipe.vectors, recipe.spread) if isinstance(recipe, MultiVector) else (None, 0.0)
    heads = drawn(space.vectors, recipe.dimension, several, recipe.init, spread, generator)
    pool = hardest(space, samples, recipe.pool, progress, stop) if recipe.hard else None
    with torch.no_grad():
        asked = before.encode_query(below(space, samples, before))
    stages = copy.deepcopy(tuple(before.corpus))
    adapters = like(before, copy.deepcopy(before.query), stages, before.table, heads)
    model = Projected(adapters.to(space.device), asked, space.vectors)
    return model, SampledSoftmax(
        model, recipe, Negatives(samples.relevant, len(space), pool, recipe.uniform, recipe.hard)
    )
