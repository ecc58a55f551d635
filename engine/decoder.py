"""Retrieve, rerank, select: a decoder names one stage of each, and a depth."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from engine.candidates import Candidates, without_autocast
from engine.data.encoders import embed
from engine.errors import DataError, ParamError
from engine.matrix import Matrix, products
from engine.params import Declared, Whole, declare
from engine.progress import Progress, Stop
from engine.solvers.tie_breaking import rank_exactly
from engine.space import Elsewhere, QueryBatch, Space, probe_of
from engine.stages import Scorer, Selector, make_scorer, make_selector, spec_of
from engine.values import Embeddings, Queries, Ranking, real_tensor

SET_SIZE = Whole(10, "k", 1, 1_000_000, comfortable=(1, 50), name="k", help="How many documents a query gets.")
DEPTH = Whole(
    default=None,
    low=1,
    comfortable=(10, 500),
    unset="the whole corpus",
    symbol="n",
    name="depth",
    help="The selector chooses from the n most relevant documents only.",
)
POOL = replace(DEPTH, name="pool")
BLOCK_NUMBERS = 1 << 24
"""How many scores (or pooled vector entries) are held at a time; queries go in blocks of that size."""

QueryLike = Queries | Embeddings | str | Sequence[str] | Tensor | np.ndarray


@dataclass(frozen=True)
class Decoder(Declared):
    """How sets are retrieved: a value, equal when its stages and depth are.

    select: picks the set
    retrieve: scores the corpus
    rerank: scores the pool again, or None
    depth: the pool's size, None for the whole corpus
    """

    select: Selector
    retrieve: Scorer = field(default_factory=lambda: make_scorer("dense"))
    rerank: Scorer | None = None
    depth: int | None = declare(DEPTH)

    def __post_init__(self) -> None:
        for name, kind in (("select", Selector), ("retrieve", Scorer), ("rerank", Scorer)):
            stage = getattr(self, name)
            if not isinstance(stage, kind) and not (name == "rerank" and stage is None):
                raise ParamError(f'{name} must be a {kind.__name__}, made by engine.make("…"); got {stage!r}')
        super().__post_init__()

    @property
    def label(self) -> str:
        """The decoder as text, equal exactly when the decoders are."""
        stages = [self.retrieve.label, *([self.rerank.label] if self.rerank else []), self.select.label]
        return " → ".join(stages) + (f" [pool {self.depth}]" if self.depth else "")


def decode(decoder: Decoder, space: Space | Elsewhere, queries: QueryLike, k: int = 10) -> Ranking:
    """The documents a decoder retrieves for each query.

    queries: Queries or plain text (embedded by the encoder that embedded the corpus; where nothing reads vectors, no
    encoder is needed), Embeddings, or a (d,) or (B, d) array or tensor, scaled to length 1 where the documents are.
    Returns a Ranking of (B, k) rows of the corpus, or of a reach's space. Raises ParamError or DataError, naming
    argument, range and value.
    """
    return decode_grid([decoder], space, queries, k)[0]


@without_autocast
def decode_grid(
    decoders: Sequence[Decoder], space: Space | Elsewhere, queries: QueryLike, k: int = 10
) -> list[Ranking]:
    """The same for decoders that differ in their selector's parameters only; they share whatever work they can."""
    for decoder in decoders:
        if not isinstance(decoder, Decoder):
            raise ParamError(f"decoder must be an engine.Decoder; got {decoder!r}")
    if isinstance(space, Elsewhere):
        return space.decode_grid(decoders, queries, k)
    if len({family(decoder) for decoder in decoders}) != 1:
        raise ParamError("decoders of a grid must differ in the parameters of their selector only, and be at least one")
    k = SET_SIZE.check(k)
    batch = _asked(decoders[0], space, queries)
    depth = min(decoders[0].depth or len(space), len(space))
    answers = []
    for start, stop in _blocks(len(batch), space.vectors, depth, len(decoders)):
        _, candidates = _scored_block(decoders[0], space, batch.block(start, stop), depth)
        answers.append(_chosen([decoder.select for decoder in decoders], candidates, k))
    return [Ranking.joined(parts) for parts in zip(*answers, strict=True)]


@dataclass(frozen=True, eq=False)
class ScoredCandidates:
    """One query's documents as the scorers of a decoder leave them to its selector."""

    candidates: Candidates  # what the selector chooses from
    retrieved: Tensor  # (n,) scores of the first scorer for every document
    reranked: bool  # whether another scored the candidates again


@without_autocast
def scored(decoder: Decoder, space: Space, query: QueryLike) -> ScoredCandidates:
    """What a decoder's selector chooses from, for one query; `select_from` does. Raises ParamError or DataError."""
    batch = _asked(decoder, space, query)
    if len(batch) != 1:
        raise ParamError(f"query must be one query; got {len(batch)}")
    whole, candidates = _scored_block(decoder, space, batch, min(decoder.depth or len(space), len(space)))
    return ScoredCandidates(candidates, whole.relevance[0], decoder.rerank is not None)


def select_from(selector: Selector, scored: ScoredCandidates, k: int = 10) -> Ranking:
    """What a selector picks from scored documents: the answer of `decode`, without scoring again."""
    return select_grid_from([selector], scored, k)[0]


@without_autocast
def select_grid_from(selectors: Sequence[Selector], scored: ScoredCandidates, k: int = 10) -> list[Ranking]:
    """The same for selectors of one class, which share whatever work they can."""
    return _chosen(selectors, scored.candidates, SET_SIZE.check(k))


def family(decoder: Decoder) -> tuple[Any, ...]:
    """What decoders have in common that one call decodes together: all but the parameters of the selector."""
    return type(decoder.select), decoder.retrieve, decoder.rerank, decoder.depth


@without_autocast
def select(
    selector: str | Selector, vectors: Any, queries: Any, k: int = 10, *, pool: int | None = None, **params: Any
) -> Ranking:
    """The k rows of `vectors` that a selector picks for each query, relevance being the inner product.

    selector: its name (parameters as keywords) or a stage; vectors: (n, d) array or tensor; queries: (d,) or (B, d);
    pool: choose from the most relevant only. Returns a Ranking of (B, k). Raises ParamError or DataError.
    """
    if not isinstance(selector, Selector):
        selector = make_selector(selector, **params)
    elif params:
        raise ParamError(f"{selector.label} has its parameters already; do not pass {', '.join(params)} as well")
    return _select([selector], vectors, queries, k, pool)[0]


@without_autocast
def select_grid(
    selector: str,
    vectors: Any,
    queries: Any,
    k: int = 10,
    *,
    grid: Sequence[Mapping[str, Any]],
    pool: int | None = None,
) -> list[Ranking]:
    """The answers of `select` at every setting of a grid, in order; products that they have in common are made once.

    grid: parameters by name, one mapping a setting. Raises ParamError or DataError.
    """
    spec_of(selector, "selector")
    if isinstance(grid, str | Mapping) or not all(isinstance(params, Mapping) for params in grid):
        raise ParamError(f'grid must be a list of parameters by name, [{{"name": value}}, …]; got {grid!r}')
    stages = [make_selector(selector, **params) for params in grid]
    return _select(stages, vectors, queries, k, pool) if stages else []


def _select(stages: list[Selector], vectors: Any, queries: Any, k: int, pool: int | None) -> list[Ranking]:
    k = SET_SIZE.check(k)
    pool = POOL.check(pool)
    matrix, points = searched(vectors, queries)
    rows = matrix.vectors
    check_dimension("queries", points, rows, "the vectors", "have")
    depth = min(pool or len(rows), len(rows))
    blocks = [points[start:stop] for start, stop in _blocks(len(points), rows, depth, len(stages))]
    answers = [_chosen(stages, pooled(Candidates(rows, products(rows, b), b, matrix), depth), k) for b in blocks]
    return [Ranking.joined(parts) for parts in zip(*answers, strict=True)]


def searched(space: Space | Any, queries: QueryLike | Any) -> tuple[Matrix, Tensor]:
    """The matrix and the (B, d) queries of a Space with what `decode` takes, or of arrays as `select` takes them."""
    if isinstance(space, Elsewhere):
        raise space.refuse("the answers at every λ, or what each pick adds,")
    if isinstance(space, Space):
        return space.matrix, query_batch(space, queries).vectors
    matrix = Matrix(real_tensor(space, "vectors"))
    given = queries.vectors if isinstance(queries, Embeddings) else real_tensor(queries, "queries")
    points = (given.unsqueeze(0) if given.ndim == 1 else given).to(matrix.vectors.device, matrix.vectors.dtype)
    return matrix, Matrix(points, "queries").vectors


def check_dimension(name: str, points: Tensor, rows: Tensor, whose: str, verb: str = "has") -> None:
    """Raise a DataError where points, (B, d), and somebody's rows, (n, d), differ in d."""
    if points.shape[1] != rows.shape[1]:
        genitive = f"{whose}'" if whose.endswith("s") else f"{whose}'s"
        sizes = f"got {points.shape[1]}, {whose} {verb} {rows.shape[1]}"
        raise DataError(f"{name} must have {genitive} dimension; {sizes}")


def labelled(queries: Queries | Sequence[str] | np.ndarray) -> Queries:
    """Queries, numbered where they are plain text; raises DataError where there are none, or other things."""
    if not isinstance(queries, Queries | str):
        queries = tuple(queries)
        if others := [query for query in queries if not isinstance(query, str)]:
            raise DataError(
                "queries must be text or engine.Queries, or, as vectors, an array or engine.Embeddings(ids, vectors); "
                f"got {type(others[0]).__name__} among them"
            )
    named = queries if isinstance(queries, Queries) else Queries.of(queries)
    if not len(named):
        raise DataError("queries must hold at least one query; got none")
    return named


def query_batch(space: Space | Elsewhere, queries: QueryLike) -> QueryBatch:
    """Queries as vectors on the space's device; text is embedded by the encoder that embedded the corpus."""
    space = probe_of(space)
    if isinstance(queries, Tensor) or (isinstance(queries, np.ndarray) and queries.dtype.kind not in "UOS"):
        rows = real_tensor(queries, "queries")
        matrix = Matrix(rows.unsqueeze(0) if rows.ndim == 1 else rows, "queries")
        check_dimension("queries", matrix.vectors, space.vectors, "the corpus")
        rows = matrix.vectors / matrix.lengths.clamp_min(torch.finfo(rows.dtype).tiny).unsqueeze(1)
        ids = tuple(map(str, range(len(rows))))
        queries = Embeddings(ids, rows if space.matrix.unit else matrix.vectors)
    if not isinstance(queries, Embeddings):
        named = labelled(queries)
        queries = embed_queries(space, named if isinstance(queries, Queries) else named.texts)
    points = space.fitted(queries)
    ours, theirs = space.embeddings.encoder, points.encoder
    if ours and theirs and ours.digest != theirs.digest:
        queries_by, corpus_by = (f"{encoder.name} (weights {encoder.digest[:8]})" for encoder in (theirs, ours))
        raise DataError(
            f"queries were embedded by {queries_by}, the corpus by {corpus_by}; embed both with one encoder"
        )
    vectors = Matrix(points.vectors, "queries").vectors
    check_dimension("queries", vectors, space.vectors, "the corpus")
    return QueryBatch(points.ids, vectors.to(space.device, space.vectors.dtype), points.texts)


def _asked(decoder: Decoder, space: Space, queries: QueryLike) -> QueryBatch:
    """What a decoder is asked: where nothing of it reads the queries' vectors, texts need no encoder."""
    scorers = decoder.retrieve, decoder.rerank or decoder.retrieve
    reads_vectors = not decoder.select.by_scores or decoder.select.first_by_scores or any(s.vectors for s in scorers)
    if space.encoder is not None or reads_vectors or isinstance(queries, Embeddings | Tensor | np.ndarray):
        return query_batch(space, queries)
    named = labelled(queries)
    return QueryBatch(named.ids, space.vectors.new_zeros(len(named), space.vectors.shape[1]), named.texts)


def check_encoder(space: Space | Elsewhere) -> None:
    """Raise DataError where nothing says how queries of text are embedded for a corpus elsewhere."""
    if isinstance(space, Elsewhere) and space.encoder is None:
        raise DataError(
            f"queries are text, and nothing says which encoder made the vectors of {space.name}: write "
            'encoder = "bundled", or the name of another one, under it in stores.toml; or pass the vectors of queries'
        )


def embed_queries(
    space: Space | Elsewhere,
    queries: Queries | Sequence[str],
    *,
    progress: Progress | None = None,
    stop: Stop | None = None,
) -> Embeddings:
    """Queries as this space searches for them: by its encoder, and through what was trained on top of it.

    Raises DataError where the corpus came with its own vectors, and what `embed` raises.
    """
    check_encoder(space)
    space = probe_of(space)
    encoder = space.encoder
    if encoder is None:
        raise DataError(
            "queries are text, but the corpus came with its own vectors and no encoder; pass the queries' vectors "
            "as an array or as engine.Embeddings, or embed the corpus with engine.embed"
        )
    tell = None if progress is None else (lambda done, total, label: progress(done, total, f"{label} queries"))
    return space.fitted(embed(queries, encoder=encoder.name, dtype=encoder.dtype, progress=tell, stop=stop))


def _scored_block(decoder: Decoder, space: Space, block: QueryBatch, depth: int) -> tuple[Candidates, Candidates]:
    """All documents as the first scorer has them, and what is left to the selector."""
    retrieve, rerank = decoder.retrieve, decoder.rerank
    for scorer in (retrieve, rerank):
        if scorer is not None and scorer.words and block.texts is None:
            raise DataError(
                f"{scorer.label} reads the queries' words, and these are vectors alone; pass engine.Queries or plain "
                "text, or Embeddings with their texts"
            )
    scores = _checked(retrieve, retrieve.score(space, block))
    whole = Candidates(space.vectors, scores, block.vectors, space.matrix, retrieve.inner_product)
    if rerank is None:
        return whole, pooled(whole, depth)
    return whole, pooled(
        whole, depth, lambda rows: (_checked(rerank, rerank.score(space, block, rows)), rerank.inner_product)
    )


def _checked(scorer: Scorer, scores: Tensor) -> Tensor:
    """The scores in float32 or float64, or a DataError that names the scorer where one is not finite."""
    scores = scores if scores.dtype in (torch.float32, torch.float64) else scores.float()
    if not bool(scores.sum().isfinite()) and not bool(scores.isfinite().all()):
        raise DataError(f"{scorer.label} gave a document no finite score; a document that does not match scores 0")
    return scores


def _blocks(count: int, vectors: Tensor, depth: int, settings: int = 1) -> list[tuple[int, int]]:
    """Where to cut `count` queries so that their scores, and their pools' vectors, stay within BLOCK_NUMBERS."""
    n, d = vectors.shape
    size = max(1, BLOCK_NUMBERS // (n * settings + (depth * d if depth < n else 0)))
    return [(start, min(start + size, count)) for start in range(0, count, size)]


def pooled(whole: Candidates, depth: int, rescore: Callable[[Tensor], tuple[Tensor, bool]] | None = None) -> Candidates:
    """The `depth` most relevant, scored again where there is something to do it."""
    if depth == whole.count and rescore is None:
        return whole
    vectors, relevance, inner_product = whole.vectors, whole.relevance, whole.inner_product
    pool = torch.arange(whole.count, device=relevance.device).expand(whole.batch, -1)
    if depth < whole.count:
        # Ascending rows, so that ties go to the lower row inside a pool too.
        pool = (
            rank_exactly(relevance, depth, whole.relevance_error, whole.exact_relevance, rescore_all=False)[0]
            .sort(dim=1)
            .values
        )
        vectors, relevance = vectors[pool], relevance.gather(1, pool)
    if rescore is not None:
        relevance, inner_product = rescore(pool)
    return Candidates(vectors, relevance, whole.queries, whole.matrix, inner_product, pool)


def _chosen(selectors: Sequence[Selector], candidates: Candidates, k: int) -> list[Ranking]:
    """What each selector, all of one class, picks from the candidates: rows of the corpus, padded to k."""
    answers = type(selectors[0]).select_grid(selectors, candidates, min(k, candidates.count))
    pool, short, pad = candidates.pool, (0, max(0, k - candidates.count)), torch.nn.functional.pad
    rankings = []
    for answer in answers:
        index = answer.index
        if pool is not None:
            index = torch.where(index >= 0, pool.gather(1, index.clamp_min(0)), -1)
        info = answer.info
        if candidates.pool is not None and candidates.count < len(candidates.matrix):
            info = tuple({**details, "scope": "pool", "depth": candidates.count} for details in info)
        rankings.append(Ranking(pad(index, short, value=-1), pad(answer.gain, short), info))
    return rankings
