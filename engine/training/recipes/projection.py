"""dual_encoder, multi_vector: projections trained against sampled and hard negatives. Luan et al. 2021.

Negatives, §4.2: a softmax over 7 documents drawn from a list of 100 of BM25's and 100 others, and over the documents of
the batch's other queries.
"""

import copy
from dataclasses import dataclass
from functools import cached_property
from itertools import zip_longest
from typing import ClassVar, Literal

import torch
from torch import Tensor

from engine.decoder import Decoder
from engine.errors import DataError, ParamError
from engine.params import Choice, Flag, Real, Whole, declare
from engine.progress import current_reporter, with_cancellation
from engine.space import QueryBatch
from engine.stages import make
from engine.training.adapters import Adapters, TrainableEncoder, adapters_of
from engine.training.dataset import Samples, TrainingBatch
from engine.training.encoder import copy_adapters, query_vectors
from engine.training.loop import BuiltModel, parameter_groups
from engine.training.losses import MASKED_SCORE, info_nce
from engine.training.metrics import Losses
from engine.training.projections import Heads, initial_heads
from engine.training.recipe import CLIP, TEMPERATURE, Recipe, rate_of

PROJECTION_SOURCE = "Luan et al. 2021, "
BLOCK_NUMBERS = 1 << 22
"""Scores sorted at a time."""
RANKING_LABEL = "looking for hard negatives"


@dataclass(frozen=True, kw_only=True)
class ProjectionRecipe(Recipe):
    """Base of the recipes that learn projections: DE-k and ME-k."""

    listed_last: ClassVar[tuple[str, ...]] = ("clip",)

    dimension: int = declare(
        Whole(64, "k", 1, 65_536, comfortable=(32, 128), source="§4.1"),
        "Dimensions of the projection, at most those of the embeddings.",
    )
    uniform: int = declare(
        Whole(4, "uniform", 0, 100_000, comfortable=(0, 32), source="§4.2"),
        "Negatives a query that are any irrelevant documents, others every epoch.",
    )
    hard: int = declare(
        Whole(4, "hard", 0, 100_000, comfortable=(0, 32), source="§4.2"),
        "Negatives a query from among BM25's best irrelevant documents, others every epoch; 0: none.",
    )
    pool: int = declare(
        Whole(100, "pool", 1, comfortable=(10, 500), source="§4.2", advanced=True),
        "How many of BM25's best irrelevant documents hard negatives are drawn from.",
    )
    in_batch: bool = declare(
        Flag(True, "in batch", source="§4.2"),
        "Whatever the batch's other queries have counts as a negative too, if it is irrelevant.",
    )
    init: str = declare(
        Choice("pca", "init", ("pca", "random")),
        "What training begins with. pca: the corpus's principal axes. random: any directions.",
    )
    tau: float = declare(TEMPERATURE)
    rate: float = declare(rate_of(1e-3, "η", "Step size."))
    clip: float = declare(CLIP)

    def __post_init__(self) -> None:
        """Raise a ParamError if the settings give no negatives."""
        super().__post_init__()
        if not (self.uniform or self.hard or self.in_batch):
            raise ParamError("uniform, hard and in_batch give no negatives at all; at least one must")

    @property
    def learns(self) -> str:
        return "a projection of the frozen embeddings"

    @property
    def max_gradient(self) -> float:
        return self.clip

    @property
    def text_use(self) -> Literal["", "words", "encoder"]:
        return "words" if self.hard else ""

    @property
    def document_vectors(self) -> tuple[int | None, float]:
        """Number m of vectors per document, None for one, and the noise between their projections at first.

        Each of the m vectors has a projection of its own. The noise is a share of their weights.
        """
        return None, 0.0

    def build(self, samples: Samples, generator: torch.Generator) -> BuiltModel:
        """Build the model: projections to fewer dimensions, which learn over frozen vectors.

        A document may get several short vectors. The loss is a softmax over each query's relevant documents and drawn
        negatives: `uniform` irrelevant documents of the whole corpus, and `hard` ones that BM25 ranks high.
        """
        space = samples.space
        # Number of vectors per document, None for one. Each has a projection of its own; these start at the same
        # weights but for noise, and the spread is the noise's size as a share of the weights'.
        vectors, spread = self.document_vectors
        # The adapters of an earlier training, if any, stay below the projections, frozen.
        previous = adapters_of(space)
        heads = initial_heads(space.vectors, self.dimension, vectors, self.init, spread, generator)
        hard_pool = find_hardest(samples, self.pool) if self.hard else None
        with torch.no_grad():
            queries = previous.encode_query(query_vectors(samples, previous))
        # The networks are copied, so that the space's own adapters stay as they are. `previous.table` has documents'
        # vectors that an earlier training has learnt, None without.
        query_adapter, corpus_adapters = copy.deepcopy((previous.query, previous.corpus_adapters))
        adapters = copy_adapters(previous, Adapters(query_adapter, corpus_adapters, previous.table, heads))
        model = Projected(adapters.to(space.device), heads, queries, space.vectors)
        optimizer = torch.optim.AdamW(parameter_groups((model, self.rate)), weight_decay=self.weight_decay)
        negatives = Negatives(samples.relevant, len(space), hard_pool, self.uniform, self.hard)
        # With several vectors per document, `encode_parts` returns them all: (n, m, k).
        part_encoder = None if vectors is None else model.encode_parts
        return BuiltModel(model, optimizer, SampledSoftmax(model, self, negatives), part_encoder)


@dataclass(frozen=True, kw_only=True)
class DualEncoderRecipe(ProjectionRecipe):
    """One vector of k dimensions: a projection of the embeddings, learnt against sampled and hard negatives."""

    name, title, source, order = "dual_encoder", "DE-k", PROJECTION_SOURCE + "§4", 3


@dataclass(frozen=True, kw_only=True)
class MultiVectorRecipe(ProjectionRecipe):
    """Several vectors of k dimensions a document, the best of which counts; learnt as one is."""

    name, title, source, order = "multi_vector", "ME-k", PROJECTION_SOURCE + "§3 and §4", 4
    listed_last = ("clip", "vectors", "spread")

    vectors: int = declare(
        Whole(4, "m", 1, 1024, comfortable=(2, 8), source="§3"), "Vectors a document; the index grows as many times."
    )
    spread: float = declare(
        Real(0.1, "spread", 0.0, comfortable=(0.01, 1.0), scale="log", advanced=True),
        "How unlike the m projections are at the start; at 0 only rounding tells them apart.",
    )

    @property
    def document_vectors(self) -> tuple[int | None, float]:
        return self.vectors, self.spread

    def decoder(self) -> Decoder:
        return Decoder(make("top_k"), make("max_sim"))


def find_hardest(samples: Samples, max_hard: int) -> Tensor:
    """Find BM25's best irrelevant documents for each training query: its hard negatives.

    Return (Q, at most `max_hard`) rows, best first; of equal scores the lower row comes first. Documents that share no
    word with the query are left out: −1 stands in their place. Raises DataError where the queries' texts are not known,
    and Cancelled.
    """
    space, train = samples.space, samples.train
    if train.texts is None:
        raise DataError(
            "hard (negatives that BM25 chooses) reads the queries' words, and these are vectors alone; pass "
            "engine.Queries, or Embeddings with their texts, or hard=0"
        )
    scorer, n_documents = make("bm25"), len(space)
    hardest = torch.full((len(samples), min(max_hard, n_documents)), -1)
    block_size = max(1, BLOCK_NUMBERS // n_documents)
    report_progress = with_cancellation(*current_reporter(), f"stopped while {RANKING_LABEL}")
    for start in range(0, len(samples), block_size):
        report_progress(start, len(samples), RANKING_LABEL)
        block_slice = slice(start, min(start + block_size, len(samples)))
        # BM25 reads texts alone, so the batch goes without vectors.
        query_batch = QueryBatch(train.ids[block_slice], train.vectors[:0], train.texts[block_slice])
        bm25_scores = scorer.score(space, query_batch).cpu()
        # BM25 is 0 for documents without a common word, and relevant documents join them: neither is a hard negative.
        relevant = samples.batch(torch.arange(block_slice.start, block_slice.stop))
        bm25_scores[relevant.query.cpu(), relevant.document.cpu()] = 0
        sorted_scores = bm25_scores.sort(dim=1, descending=True, stable=True)
        hardest[block_slice] = torch.where(sorted_scores.values > 0, sorted_scores.indices, -1)[:, : hardest.shape[1]]
    report_progress(len(samples), len(samples), RANKING_LABEL)
    return hardest


@dataclass(frozen=True, eq=False)
class Negatives:
    """Source of an epoch's negatives: irrelevant documents, any or hard ones, that a query is to beat."""

    relevant: tuple[tuple[int, ...], ...]  # rows of each training query's relevant documents, ascending
    documents: int  # size of the corpus
    pool: Tensor | None  # (Q, p) the result of `find_hardest`, None where no hard ones are drawn
    uniform: int  # uniform negatives a query
    hard: int  # hard negatives a query, fewer where the pool has fewer

    def draw(self, generator: torch.Generator) -> Tensor:
        """Draw an epoch's irrelevant documents for each training query: (Q, uniform + hard) rows, −1 pads.

        Uniform ones are drawn independently of each other: a document that is drawn twice counts once. The hard ones of
        a query all differ.
        """
        queries = len(self.relevant)
        irrelevant = self.documents - torch.tensor(list(map(len, self.relevant))).unsqueeze(1)
        # float64: float32 has too few digits to reach every document of a large corpus.
        uniform_shares = torch.rand(queries, self.uniform, generator=generator, dtype=torch.float64)
        # A random rank r among a query's irrelevant documents becomes a row: each relevant row up to it moves it on by
        # one. The relevant rows come in ascending order: the first of each query, then the second, and so on.
        uniform_rows = (uniform_shares * irrelevant).long().minimum((irrelevant - 1).clamp_min(0))
        for nth_relevant in self._relevant_columns:
            uniform_rows += uniform_rows >= nth_relevant.unsqueeze(1)
        uniform_negatives = torch.where(irrelevant > 0, uniform_rows, -1)
        if self.pool is None:
            return uniform_negatives
        # The smallest random keys are a sample without replacement; padding gets a key that comes last.
        random_keys = torch.rand(self.pool.shape, generator=generator).masked_fill(self.pool < 0, 2.0)
        return torch.cat([uniform_negatives, self.pool.gather(1, random_keys.argsort(dim=1)[:, : self.hard])], dim=1)

    @cached_property
    def _relevant_columns(self) -> tuple[Tensor, ...]:
        """The relevant rows in columns: (Q,) the first row of each training query, (Q,) the second, and so on.

        Queries with fewer relevant documents have the number n of documents there, which is no row.
        """
        return tuple(map(torch.tensor, zip_longest(*self.relevant, fillvalue=self.documents)))


class Projected(TrainableEncoder):
    """Projection heads that learn; every adapter before them is frozen.

    adapters: with heads.
    queries: (Q, d) query vectors as the heads take them.
    rows: (n, d) document vectors as the heads take them.
    """

    _adapters: Adapters

    def __init__(self, adapters: Adapters, heads: Heads, queries: Tensor, rows: Tensor) -> None:
        """Build a model whose heads, projections of queries and documents to fewer dimensions, learn.

        adapters: all trained parts, the heads among them; queries: (Q, d) and rows: (n, d), the frozen vectors of
        queries and documents that the heads project
        """
        super().__init__()
        self.heads, self.queries, self.rows = heads, queries, rows
        # Not registered as a submodule: of the adapters only the heads learn.
        object.__setattr__(self, "_adapters", adapters)

    def encode_query(self, positions: Tensor) -> Tensor:
        vectors: Tensor = self.heads.query(self.queries[positions])
        return vectors

    def encode_parts(self, positions: Tensor | None = None) -> Tensor:
        """Project the documents at (c,) positions, or all: (c, k), or (c, m, k) with several vectors."""
        vectors: Tensor = self.heads.corpus(self.rows if positions is None else self.rows[positions])
        return vectors

    def encode_corpus(self, positions: Tensor | None = None) -> Tensor:
        return self.heads.documents(self.rows if positions is None else self.rows[positions])[0]

    def result(self) -> dict[str, Tensor]:
        return self._adapters.state_dict()


class SampledSoftmax:
    """Loss of a projection: cross-entropy of a relevant document's softmax share among drawn negatives.

    It is averaged over a query's relevant documents; the query's other relevant documents are no negatives. A document
    with several vectors u_j scores max_j ⟨q, u_j⟩.
    """

    def __init__(self, model: Projected, recipe: ProjectionRecipe, negatives: Negatives) -> None:
        self.model, self.recipe, self.negatives = model, recipe, negatives
        self.drawn = torch.empty(0)

    def begin(self, generator: torch.Generator) -> None:
        """Draw the epoch's negatives."""
        self.drawn = self.negatives.draw(generator)

    def __call__(self, batch: TrainingBatch) -> Losses:
        """Return each query's softmax loss of its relevant documents among the epoch's drawn negatives.

        A query's negatives are its own alone, or with `in_batch` all documents of the batch.
        """
        # (B, m) rows of the documents drawn as negatives, −1 pads; then the pairs of query and negative that there are.
        negative_rows = self.drawn[batch.positions.cpu()].to(batch.positions.device)
        is_negative = negative_rows >= 0
        query_index, _ = is_negative.nonzero(as_tuple=True)
        # Each document of the batch is encoded once; `columns` maps every relevant and negative one to its column.
        documents, columns = torch.cat([batch.document, negative_rows[is_negative]]).unique(return_inverse=True)
        relevant_columns, negative_columns = columns.split([len(batch.document), len(query_index)])
        relevant = batch.relevance(relevant_columns, len(documents))
        score = max_inner_products(self.model.encode_query(batch.positions), self.model.encode_parts(documents))
        if not self.recipe.in_batch:
            is_listed = relevant.clone()
            is_listed[query_index, negative_columns] = True
            score = score.masked_fill(~is_listed, MASKED_SCORE)
        return Losses(info_nce(score, relevant, self.recipe.tau))


def max_inner_products(queries: Tensor, documents: Tensor) -> Tensor:
    """Return the (B, c) inner products of queries and documents; the largest one for several vectors.

    documents: (c, k), or (c, m, k) with m vectors each
    """
    if documents.ndim == 2:
        return queries @ documents.T
    return (queries @ documents.flatten(0, 1).T).view(len(queries), *documents.shape[:2]).amax(-1)
