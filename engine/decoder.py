"""Decoders: one stage each to retrieve, rerank and select, and the depth of the pool."""

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
MAX_BLOCK_SCORES = 1 << 24
"""Scores, or entries of pooled vectors, in memory at a time; larger batches go in blocks."""

QueryLike = Queries | Embeddings | str | Sequence[str] | Tensor | np.ndarray


@dataclass(frozen=True)
class Decoder(Declared):
    """A retrieval pipeline; a value that equals another with the same stages and depth.

    Parameters
    ----------
    select : Selector
        Selects the set from the pool.
    retrieve : Scorer
        Scores the corpus; the dense scorer by default.
    rerank : Scorer or None
        Scores the pool again.
    depth : int or None
        The size of the pool; None for the full corpus.

    Raises
    ------
    ParamError
        If a stage is of another kind or the depth is below 1.

    Examples
    --------
    >>> Decoder(make_selector("mmr"), depth=100).depth
    100
    """

    select: Selector
    retrieve: Scorer = field(default_factory=lambda: make_scorer("dense"))
    rerank: Scorer | None = None
    depth: int | None = declare(DEPTH)

    def __post_init__(self) -> None:
        """Check that each stage is of its kind, and the depth in its range; raise ParamError."""
        for name, kind in (("select", Selector), ("retrieve", Scorer), ("rerank", Scorer)):
            stage = getattr(self, name)
            if not isinstance(stage, kind) and not (name == "rerank" and stage is None):
                raise ParamError(f'{name} must be a {kind.__name__}, made by engine.make("…"); got {stage!r}')
        super().__post_init__()

    @property
    def label(self) -> str:
        """The decoder as text, equal exactly when the decoders are equal."""
        stage_labels = [self.retrieve.label, *([self.rerank.label] if self.rerank else []), self.select.label]
        return " → ".join(stage_labels) + (f" [pool {self.depth}]" if self.depth else "")


def decode(decoder: Decoder, space: Space | Elsewhere, queries: QueryLike, k: int = 10) -> Ranking:
    """Retrieve documents for each query.

    Parameters
    ----------
    decoder : Decoder
        The stages and the depth of the pool.
    space : Space or Reach
        The corpus to search.
    queries : Queries, str, sequence of str, Embeddings, ndarray or Tensor
        Text is embedded by the corpus's encoder, which is not needed if no stage reads vectors. Arrays of shape (d,) or
        (B, d) are scaled to length 1 if the documents are.
    k : int
        Documents per query.

    Returns
    -------
    Ranking
        (B, k) rows of the corpus, or of a reach's space.

    Raises
    ------
    ParamError
        If the decoder or k is invalid.
    DataError
        If the queries do not fit the corpus.

    Examples
    --------
    >>> space = Space.of(["one", "two"], [[1.0, 0.0], [0.0, 1.0]])
    >>> decode(Decoder(make_selector("top_k")), space, np.array([0.6, 0.8]), k=1).rows()
    [1]
    """
    return decode_grid([decoder], space, queries, k)[0]


@without_autocast
def decode_grid(
    decoders: Sequence[Decoder], space: Space | Elsewhere, queries: QueryLike, k: int = 10
) -> list[Ranking]:
    """Return the rankings of decoders that differ in selector parameters only, sharing the scoring.

    space: a corpus in memory, or one in a vector engine (Elsewhere). Raises ParamError if the decoders differ in more,
    are none or k is invalid, DataError if the queries do not fit the corpus.
    """
    for decoder in decoders:
        if not isinstance(decoder, Decoder):
            raise ParamError(f"decoder must be an engine.Decoder; got {decoder!r}")
    if isinstance(space, Elsewhere):
        return space.decode_grid(decoders, queries, k)
    # The scorers run once per block of queries, so all decoders must share them.
    if len({decoder_family(decoder) for decoder in decoders}) != 1:
        raise ParamError("decoders of a grid must differ in the parameters of their selector only, and be at least one")
    k = SET_SIZE.check(k)
    batch = _decoder_batch(decoders[0], space, queries)
    depth = min(decoders[0].depth or len(space), len(space))
    answers = []
    for start, stop in _cut_into_blocks(len(batch), space.vectors, depth, len(decoders)):
        _, candidates = _score_block(decoders[0], space, batch.block(start, stop), depth)
        answers.append(_select_rankings([decoder.select for decoder in decoders], candidates, k))
    return [Ranking.joined(parts) for parts in zip(*answers, strict=True)]


@dataclass(frozen=True, eq=False)
class ScoredCandidates:
    """One query's documents with their scores, as a decoder's scorers pass them to its selector."""

    candidates: Candidates  # what the selector chooses from
    retrieved: Tensor  # (n,) scores of the first scorer for every document
    reranked: bool  # whether another scored the candidates again


@without_autocast
def score_candidates(decoder: Decoder, space: Space, query: QueryLike) -> ScoredCandidates:
    """Score one query's documents by a decoder's scorers, for `select_from` to select from.

    Raises ParamError if there is not exactly one query, DataError if it does not fit the corpus.
    """
    batch = _decoder_batch(decoder, space, query)
    if len(batch) != 1:
        raise ParamError(f"query must be one query; got {len(batch)}")
    unpooled, candidates = _score_block(decoder, space, batch, min(decoder.depth or len(space), len(space)))
    return ScoredCandidates(candidates, unpooled.relevance[0], decoder.rerank is not None)


def select_from(selector: Selector, scored_candidates: ScoredCandidates, k: int = 10) -> Ranking:
    """Select k of one query's scored documents; the ranking is that of `decode`, without scoring again."""
    return select_grid_from([selector], scored_candidates, k)[0]


@without_autocast
def select_grid_from(selectors: Sequence[Selector], scored_candidates: ScoredCandidates, k: int = 10) -> list[Ranking]:
    """Select k of one query's scored documents by each of several selectors of one class, such as all mmr."""
    return _select_rankings(selectors, scored_candidates.candidates, SET_SIZE.check(k))


def decoder_family(decoder: Decoder) -> tuple[Any, ...]:
    """Return a key that is equal for decoders which one `decode_grid` call can evaluate together.

    It holds everything but the selector's parameters: its class, both scorers and the depth of the pool.
    """
    return type(decoder.select), decoder.retrieve, decoder.rerank, decoder.depth


@without_autocast
def select(
    selector: str | Selector, vectors: Any, queries: Any, k: int = 10, *, pool: int | None = None, **params: Any
) -> Ranking:
    """Select k rows of a matrix for each query, with the inner product as relevance.

    Parameters
    ----------
    selector : str or Selector
        A name, with parameters as keywords, or a stage.
    vectors : array or Tensor
        (n, d) documents.
    queries : array or Tensor
        (d,) or (B, d) queries.
    k : int
        Documents per query.
    pool : int or None
        Select from this many most relevant rows only.
    **params
        The parameters of a selector given by name.

    Returns
    -------
    Ranking
        (B, k) rows of `vectors`.

    Raises
    ------
    ParamError
        If the selector, k, pool or a parameter is invalid.
    DataError
        If the arrays do not fit.

    Examples
    --------
    >>> select("top_k", np.eye(3), np.array([0.1, 0.9, 0.2]), k=2).rows()
    [1, 2]
    """
    if not isinstance(selector, Selector):
        selector = make_selector(selector, **params)
    elif params:
        raise ParamError(f"{selector.label} has its parameters already; do not pass {', '.join(params)} as well")
    return _select_from_arrays([selector], vectors, queries, k, pool)[0]


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
    """Select k rows of a matrix for each query at every setting of a grid, sharing the products.

    Parameters
    ----------
    selector : str
        The name of a selector.
    vectors : array or Tensor
        (n, d) documents.
    queries : array or Tensor
        (d,) or (B, d) queries.
    k : int
        Documents per query.
    grid : sequence of mappings
        Parameters by name, one mapping for each setting.
    pool : int or None
        Select from this many most relevant rows only.

    Returns
    -------
    list of Ranking
        One for each setting, in order.

    Raises
    ------
    ParamError
        If an argument is invalid.
    DataError
        If the arrays do not fit.

    Examples
    --------
    >>> grid = [{"relevance_weight": 1.0}, {"relevance_weight": 0.0}]
    >>> len(select_grid("mmr", np.eye(3), np.ones(3), k=2, grid=grid))
    2
    """
    spec_of(selector, "selector")
    if isinstance(grid, str | Mapping) or not all(isinstance(params, Mapping) for params in grid):
        raise ParamError(f'grid must be a list of parameters by name, [{{"name": value}}, …]; got {grid!r}')
    stages = [make_selector(selector, **params) for params in grid]
    return _select_from_arrays(stages, vectors, queries, k, pool) if stages else []


def _select_from_arrays(stages: list[Selector], vectors: Any, queries: Any, k: int, pool: int | None) -> list[Ranking]:
    """Select k rows of an array for each query by every selector; return one Ranking for each selector.

    stages: selectors of one class at several settings; vectors: (n, d); queries: (d,) or (B, d); pool: select among
    this many most relevant rows, None for all
    """
    k = SET_SIZE.check(k)
    pool = POOL.check(pool)
    matrix, points = resolve_search_inputs(vectors, queries)
    rows = matrix.vectors
    check_dimension("queries", points, rows, "the vectors", "have")
    depth = min(pool or len(rows), len(rows))
    answers = []
    for start, stop in _cut_into_blocks(len(points), rows, depth, len(stages)):
        block = points[start:stop]
        candidates = Candidates(rows, products(rows, block), block, matrix)
        answers.append(_select_rankings(stages, select_pool(candidates, depth), k))
    return [Ranking.joined(parts) for parts in zip(*answers, strict=True)]


def resolve_search_inputs(space: Space | Any, queries: QueryLike | Any) -> tuple[Matrix, Tensor]:
    """Return the documents as a Matrix and the queries as (B, d) vectors, given a Space or arrays of both.

    Raises DataError for numbers that cannot be searched, and for a remote corpus, whose documents are not in memory.
    """
    if isinstance(space, Elsewhere):
        raise space.refuse("the answers at every λ, or what each pick adds,")
    if isinstance(space, Space):
        return space.matrix, query_batch(space, queries).vectors
    matrix = Matrix(real_tensor(space, "vectors"))
    given_rows = queries.vectors if isinstance(queries, Embeddings) else real_tensor(queries, "queries")
    points = given_rows.unsqueeze(0) if given_rows.ndim == 1 else given_rows
    # Queries take the vectors' device and precision; as a matrix they are checked in the same way.
    return matrix, Matrix(points.to(matrix.vectors.device, matrix.vectors.dtype), "queries").vectors


def check_dimension(name: str, points: Tensor, rows: Tensor, owner: str, verb: str = "has") -> None:
    """Raise a DataError if points, (B, d), and rows, (n, d), differ in d.

    name, owner, verb: words of the message, which says that `name` must have `owner`'s dimension
    """
    if points.shape[1] != rows.shape[1]:
        genitive = f"{owner}'" if owner.endswith("s") else f"{owner}'s"
        sizes = f"got {points.shape[1]}, {owner} {verb} {rows.shape[1]}"
        raise DataError(f"{name} must have {genitive} dimension; {sizes}")


def as_queries(queries: Queries | Sequence[str] | np.ndarray) -> Queries:
    """Return Queries, numbered if they are plain text; raise DataError for no queries or other types."""
    if not isinstance(queries, Queries | str):
        queries = tuple(queries)
        if non_texts := [query for query in queries if not isinstance(query, str)]:
            raise DataError(
                "queries must be text or engine.Queries, or, as vectors, an array or engine.Embeddings(ids, vectors); "
                f"got {type(non_texts[0]).__name__} among them"
            )
    numbered = queries if isinstance(queries, Queries) else Queries.of(queries)
    if not len(numbered):
        raise DataError("queries must hold at least one query; got none")
    return numbered


def query_batch(space: Space | Elsewhere, queries: QueryLike) -> QueryBatch:
    """Return queries of any kind as vectors that a corpus can be searched by, on its device.

    The corpus's encoder embeds text; arrays are scaled to length 1 if the documents are, and get numbers as ids. Raises
    DataError if dimensions or encoders differ.
    """
    # A corpus in a vector engine stands here by a small space with its dimension, encoder and scaling.
    space = probe_of(space)
    if isinstance(queries, Tensor) or (isinstance(queries, np.ndarray) and queries.dtype.kind not in "UOS"):
        query_rows = real_tensor(queries, "queries")
        matrix = Matrix(query_rows.unsqueeze(0) if query_rows.ndim == 1 else query_rows, "queries")
        check_dimension("queries", matrix.vectors, space.vectors, "the corpus")
        # Zero rows stay zero: the smallest normal number replaces their length.
        query_rows = matrix.vectors / matrix.lengths.clamp_min(torch.finfo(query_rows.dtype).tiny).unsqueeze(1)
        ids = tuple(map(str, range(len(query_rows))))
        queries = Embeddings(ids, query_rows if space.matrix.unit else matrix.vectors)
    if not isinstance(queries, Embeddings):
        numbered = as_queries(queries)
        queries = embed_queries(space, numbered if isinstance(queries, Queries) else numbered.texts)
    adapted = space.fitted(queries)
    # Encoders are compared by the digest of their weights: names are paths or aliases.
    corpus_encoder, query_encoder = space.embeddings.encoder, adapted.encoder
    if corpus_encoder and query_encoder and corpus_encoder.digest != query_encoder.digest:
        raise DataError(
            f"queries were embedded by {query_encoder.name} (weights {query_encoder.digest[:8]}), the corpus by "
            f"{corpus_encoder.name} (weights {corpus_encoder.digest[:8]}); embed both with one encoder"
        )
    vectors = Matrix(adapted.vectors, "queries").vectors
    check_dimension("queries", vectors, space.vectors, "the corpus")
    return QueryBatch(adapted.ids, vectors.to(space.device, space.vectors.dtype), adapted.texts)


def _decoder_batch(decoder: Decoder, space: Space, queries: QueryLike) -> QueryBatch:
    """Return queries as a batch for a decoder; text is embedded only if one of its stages reads vectors.

    Otherwise, where the corpus has no encoder, the vectors are zeros that nobody reads.
    """
    # Without readers of vectors, such as BM25 with top-k, a corpus without an encoder takes text queries too.
    scores_vectors = decoder.retrieve.vectors or (decoder.rerank is not None and decoder.rerank.vectors)
    reads_vectors = not decoder.select.by_scores or decoder.select.first_by_scores or scores_vectors
    if space.encoder is not None or reads_vectors or isinstance(queries, Embeddings | Tensor | np.ndarray):
        return query_batch(space, queries)
    numbered = as_queries(queries)
    return QueryBatch(numbered.ids, space.vectors.new_zeros(len(numbered), space.vectors.shape[1]), numbered.texts)


def check_encoder(space: Space | Elsewhere) -> None:
    """Raise DataError if a corpus in a vector engine names no encoder by which to embed text queries."""
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
    """Embed queries as a space searches for them, with its encoder and its trained adapter.

    Parameters
    ----------
    space : Space or Reach
        The corpus to search.
    queries : Queries, str or sequence of str
        The texts to embed.
    progress : callable or None
        Called as progress(done, total, label).
    stop : object with is_set() or None
        Cancels the work once it is set.

    Returns
    -------
    Embeddings
        One vector for each query.

    Raises
    ------
    DataError
        If the corpus has precomputed vectors and no encoder.
    Cancelled
        Once `stop` is set.

    Examples
    --------
    >>> space = Space.of(["one"], [[1.0, 0.0]])
    >>> embed_queries(space, "text")
    Traceback (most recent call last):
    engine.errors.DataError: queries are text, but the corpus came with its own vectors and no encoder; ...
    """
    check_encoder(space)
    space = probe_of(space)
    encoder = space.encoder
    if encoder is None:
        raise DataError(
            "queries are text, but the corpus came with its own vectors and no encoder; pass the queries' vectors "
            "as an array or as engine.Embeddings, or embed the corpus with engine.embed"
        )
    report = None if progress is None else (lambda done, total, label: progress(done, total, f"{label} queries"))
    return space.fitted(embed(queries, encoder=encoder.name, dtype=encoder.dtype, progress=report, stop=stop))


def _score_block(decoder: Decoder, space: Space, batch: QueryBatch, depth: int) -> tuple[Candidates, Candidates]:
    """Score the corpus for a block of queries; return (all documents, those that the selector gets).

    The latter are the `depth` most relevant, scored again by the reranker if there is one. Raises DataError if a scorer
    needs texts and the queries have none.
    """
    retrieve, rerank = decoder.retrieve, decoder.rerank
    # Checked before any scoring, which may take minutes.
    for scorer in (retrieve, rerank):
        if scorer is not None and scorer.words and batch.texts is None:
            raise DataError(
                f"{scorer.label} reads the queries' words, and these are vectors alone; pass engine.Queries or plain "
                "text, or Embeddings with their texts"
            )
    scores = _check_scores(retrieve, retrieve.score(space, batch))
    unpooled = Candidates(space.vectors, scores, batch.vectors, space.matrix, retrieve.inner_product)
    if rerank is None:
        return unpooled, select_pool(unpooled, depth)

    def rescore(pool_rows: Tensor) -> tuple[Tensor, bool]:
        """Return the reranker's scores of a pool, and True if they are inner products."""
        return _check_scores(rerank, rerank.score(space, batch, pool_rows)), rerank.inner_product

    return unpooled, select_pool(unpooled, depth, rescore)


def _check_scores(scorer: Scorer, scores: Tensor) -> Tensor:
    """Return a scorer's scores in float32 or float64; raise DataError if one is not finite."""
    scores = scores if scores.dtype in (torch.float32, torch.float64) else scores.float()
    # A finite sum proves every score finite in one pass; an infinite one may be an overflow of finite scores.
    if not bool(scores.sum().isfinite()) and not bool(scores.isfinite().all()):
        raise DataError(f"{scorer.label} gave a document no finite score; a document that does not match scores 0")
    return scores


def _cut_into_blocks(n_queries: int, vectors: Tensor, depth: int, n_stages: int = 1) -> list[tuple[int, int]]:
    """Cut `n_queries` queries into blocks (start, stop) so small that their scores fit the memory budget.

    vectors: (n, d) the corpus; depth: documents in a pool, from which a selector chooses; n_stages: number of settings
    that share a block
    """
    n, d = vectors.shape
    # A query has n scores at every stage, and within a depth the gathered vectors of its pool.
    size = max(1, MAX_BLOCK_SCORES // (n * n_stages + (depth * d if depth < n else 0)))
    return [(block_start, min(block_start + size, n_queries)) for block_start in range(0, n_queries, size)]


def select_pool(
    unpooled: Candidates, depth: int, rescore: Callable[[Tensor], tuple[Tensor, bool]] | None = None
) -> Candidates:
    """Keep the `depth` most relevant documents of each query as the pool that a selector chooses from.

    Its rows ascend. rescore: the reranker, which gives new scores of a pool's rows, (B, depth), and True if they are
    inner products
    """
    if depth == unpooled.count and rescore is None:
        return unpooled
    vectors, relevance, inner_product = (unpooled.vectors, unpooled.relevance, unpooled.inner_product)
    pool = torch.arange(unpooled.count, device=relevance.device).expand(unpooled.batch, -1)
    if depth < unpooled.count:
        # Ascending rows, so that ties go to the lower row inside a pool too.
        rows, _ = rank_exactly(relevance, depth, unpooled.relevance_error, unpooled.exact_relevance, rescore_all=False)
        pool = rows.sort(dim=1).values
        vectors, relevance = vectors[pool], relevance.gather(1, pool)
    if rescore is not None:
        relevance, inner_product = rescore(pool)
    return Candidates(vectors, relevance, unpooled.queries, unpooled.matrix, inner_product, pool)


def _select_rankings(selectors: Sequence[Selector], candidates: Candidates, k: int) -> list[Ranking]:
    """Select k candidates by each selector, all of one class; return rankings as rows of the corpus.

    Rankings of fewer than k documents are padded with row −1. Selectors of one class share computations.
    """
    selections = type(selectors[0]).select_grid(selectors, candidates, min(k, candidates.count))
    pool, padding, pad = candidates.pool, (0, max(0, k - candidates.count)), torch.nn.functional.pad
    rankings = []
    for selection in selections:
        # Positions in the pool become rows of the corpus; padding stays −1.
        index = selection.index
        if pool is not None:
            index = torch.where(index >= 0, pool.gather(1, index.clamp_min(0)), -1)
        info = selection.info
        if candidates.pool is not None and candidates.count < len(candidates.matrix):
            info = tuple({**details, "scope": "pool", "depth": candidates.count} for details in info)
        rankings.append(Ranking(pad(index, padding, value=-1), pad(selection.gain, padding), info))
    return rankings
