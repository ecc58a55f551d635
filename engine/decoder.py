"""Decoders: one stage each to retrieve, rerank and select, and the depth of the pool."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from numbers import Number
from typing import Any

import numpy as np
import torch
from torch import Tensor

from engine.candidates import Candidates, defer, get_corpus_rows, select_problems, without_autocast
from engine.data.encoders import embed
from engine.data.endpoints.consent import limit_tokens
from engine.display import OneLine
from engine.errors import DataError, ParamError
from engine.matrix import Matrix, products
from engine.params import Declared, Whole, declare
from engine.progress import Progress, Stop
from engine.selection.per_source import SourceLimit, check_per_source, number_sources, select_per_source
from engine.solvers.tie_breaking import rank_exactly
from engine.space import Elsewhere, QueryBatch, Space, find_own_documents, probe_of
from engine.stages import Scorer, Selector, TradeOffSelector, make_scorer, make_selector, spec_of
from engine.values import QUERY_FRAME_FIX, Corpus, Embeddings, Queries, Ranking, real_tensor

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
PER_SOURCE = Whole(
    default=None,
    low=1,
    comfortable=(1, 5),
    unset="any number",
    symbol="m",
    name="per_source",
    help="At most m documents of one source, by a column of the corpus; one without a value is a source of its own.",
)
LIMIT_FIELDS = ("per_source", "source", "without_self")
"""Fields of a decoder that leave documents out of its answers, whatever its stages are."""
MAX_BLOCK_SCORES = 1 << 24
"""Scores, or entries of pooled vectors, in memory at a time; larger batches go in blocks."""

QueryLike = Queries | Embeddings | str | Sequence[str] | Tensor | np.ndarray


@dataclass(frozen=True)
class Decoder(OneLine, Declared):
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
    per_source : int or None
        The most documents of one source in an answer; None for any number. Answers have fewer than k documents where
        the sources are used up. For selectors that pick in turn: each pick follows from those before it.
    source : str or None
        The metadata column of the corpus that names the sources, beside `per_source`. A document without a value is a
        source of its own.
    without_self : bool or None
        None leaves a document out of the answers to a query that is this document, with the same id and text; True one
        with the query's id, whatever its text; False none.

    Raises
    ------
    ParamError
        If a stage is of another kind, a number is below 1, one of `per_source` and `source` is given without the other,
        or the selector does not pick in turn.

    Examples
    --------
    >>> Decoder(make_selector("mmr"), depth=100).depth
    100
    """

    select: Selector
    retrieve: Scorer = field(default_factory=lambda: make_scorer("dense"))
    rerank: Scorer | None = None
    depth: int | None = declare(DEPTH)
    _: KW_ONLY
    per_source: int | None = declare(PER_SOURCE)
    source: str | None = None
    without_self: bool | None = None

    def __post_init__(self) -> None:
        """Check that each stage is of its kind, and the depth in its range; raise ParamError."""
        for name, kind in (("select", Selector), ("retrieve", Scorer), ("rerank", Scorer)):
            stage = getattr(self, name)
            if not isinstance(stage, kind) and not (name == "rerank" and stage is None):
                raise ParamError(f'{name} must be a {kind.__name__}, made by engine.make("…"); got {stage!r}')
        super().__post_init__()
        if (reason := explain_ignored_scorer(self.select, self.retrieve, self.rerank, self.depth)) is not None:
            raise ParamError(reason)
        if self.source is not None and (not isinstance(self.source, str) or not self.source):
            raise ParamError(f"source must be the name of a metadata column; got {self.source!r}")
        if self.without_self is not None and not isinstance(self.without_self, bool):
            raise ParamError(f"without_self must be True, False or None; got {self.without_self!r}")
        if (self.per_source is None) != (self.source is None):
            missing = "source" if self.source is None else "per_source"
            raise ParamError(
                f"per_source and source go together, as per_source=1, source='author'; {missing} is not given"
            )
        if self.per_source is not None:
            check_per_source(self.select)

    def _describe(self) -> str:
        return self.label

    @property
    def label(self) -> str:
        """The decoder as text, equal exactly when the decoders are equal."""
        uses = describe_scorer_use(self.select, self.retrieve, self.rerank, self.depth)
        scorers = {"retrieve": self.retrieve, "rerank": self.rerank}
        stage_labels = [mark_use(stage.label, uses.get(role)) for role, stage in scorers.items() if stage is not None]
        stage_labels.append(self.select.label)
        pool_label = f" [pool {self.depth}]" if self.depth else ""
        return " → ".join(stage_labels) + pool_label + format_limits(self.limits)

    @property
    def limits(self) -> dict[str, Any]:
        """The fields of LIMIT_FIELDS that are set, by name: the limit per source, and the rule on own documents."""
        return read_limits(vars(self))

    @property
    def is_pool_only(self) -> bool:
        """True if the scorer's scores choose the pool, and have no say in the set that the vectors make of it."""
        return not self.select.by_scores and not self.retrieve.inner_product


def describe_scorer_use(
    selector: Selector, retrieve: Scorer, rerank: Scorer | None, depth: int | None
) -> dict[str, str]:
    """Return role → what a scorer alone decides, if the vectors decide the rest of the set; {} where they do not.

    Inner products are what the vectors themselves say, and who retrieves for a reranker chooses the pool anyway.
    """
    if selector.by_scores and not selector.first_by_scores:
        return {}
    if rerank is not None:
        return {} if rerank.inner_product else {"rerank": "first pick only"}
    if retrieve.inner_product:
        return {}
    if not selector.by_scores:
        return {"retrieve": "pool only"}
    chooses_pool = depth is not None or not retrieve.retrieves_all
    return {"retrieve": "pool and first pick only" if chooses_pool else "first pick only"}


def mark_use(stage_text: str, use: str | None) -> str:
    """Return a scorer's text, marked by what it alone decides, as `describe_scorer_use` says it; None for no mark."""
    return stage_text if use is None else f"{stage_text} ({use})"


def read_limits(decoder_values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of LIMIT_FIELDS that a decoder's values have, without those that are None."""
    limits = {name: decoder_values.get(name) for name in LIMIT_FIELDS}
    return {name: value for name, value in limits.items() if value is not None}


def format_limits(limits: Mapping[str, Any]) -> str:
    """Format a decoder's limits as a label has them, " [1 per url] [with self]"; "" for none."""
    source_label = f" [{limits['per_source']} per {limits['source']}]" if "per_source" in limits else ""
    self_labels = {None: "", True: " [without self]", False: " [with self]"}
    return source_label + self_labels[limits.get("without_self")]


def explain_ignored_scorer(
    selector: Selector, retrieve: Scorer, rerank: Scorer | None, depth: int | None
) -> str | None:
    """Return the error message if a selector that reads vectors alone would ignore a scorer; None if it does not."""
    if selector.by_scores:
        return None
    if rerank is not None:
        return (
            f"rerank must be None before {selector.spec.name}, which reads the vectors alone and would ignore the new "
            f"scores; got {rerank.label}. Leave it out, or choose a selector that reads scores"
        )
    if depth is None and not retrieve.inner_product:
        return (
            f"retrieve must be an inner product of the vectors before {selector.spec.name}, which reads these alone "
            f"and would ignore other scores; got {retrieve.label}. Set a depth, so that they choose the pool, or "
            "choose a selector that reads scores"
        )
    return None


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


@limit_tokens()
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
    if len(decoders) != 1 and len({decoder_family(decoder) for decoder in decoders}) != 1:
        raise ParamError("decoders of a grid must differ in the parameters of their selector only, and be at least one")
    k = SET_SIZE.check(k)
    batch = _decoder_batch(decoders[0], space, queries)
    own_rows = find_own_documents(space, batch.ids, batch.texts, decoders[0].without_self)
    if max(own_rows.tolist(), default=-1) < 0:
        return _decode_batch(decoders, space, batch, k)
    is_document = own_rows >= 0
    # Queries that are documents choose among the others: their candidates are decoded apart.
    groups = [np.flatnonzero(~is_document), np.flatnonzero(is_document)]
    decoded = []
    for group, rows in zip(groups, (None, own_rows[is_document]), strict=True):
        if len(group):
            decoded.append(_decode_batch(decoders, space, batch.take(group.tolist()), k, rows))
    original_order = torch.from_numpy(np.argsort(np.concatenate(groups)))
    return [Ranking.joined(parts).take(original_order) for parts in zip(*decoded, strict=True)]


def _decode_batch(
    decoders: Sequence[Decoder], space: Space, batch: QueryBatch, k: int, own_rows: np.ndarray | None = None
) -> list[Ranking]:
    """Return the rankings of decoders of one family. own_rows: (B,) a row that each query's candidates leave out."""
    decoder, n_documents = decoders[0], len(space)
    selectors, source_limit = [each.select for each in decoders], find_source_limit(decoder, space)
    depth = min(decoder.depth or n_documents, n_documents - (own_rows is not None))
    # A set of the most relevant documents needs no others, which spares the vectors of all that can be retrieved.
    k_max = None if decoder.select.reads_vectors or source_limit is not None else k
    answers = []
    for start, stop in _cut_into_blocks(len(batch), space.vectors, depth, len(decoders)):
        block_rows = None if own_rows is None else torch.from_numpy(own_rows[start:stop]).to(space.device)
        block = _score_block(decoder, space, batch.block(start, stop), depth, k_max, block_rows)
        answers.append(block.select(selectors, k, source_limit))
    return [Ranking.joined(parts) for parts in zip(*answers, strict=True)]


@dataclass(frozen=True, eq=False)
class ScoredCandidates:
    """One query's documents with their scores, as a decoder's scorers pass them to its selector."""

    candidates: Candidates  # what the selector chooses from
    retrieved: Tensor  # (n,) scores of the first scorer for every document
    reranked: bool  # whether another scored the candidates again
    source_limit: SourceLimit | None = None  # how many documents of one source may be selected, None for any number


@without_autocast
def score_candidates(decoder: Decoder, space: Space, query: QueryLike) -> ScoredCandidates:
    """Score one query's documents by a decoder's scorers, for `select_from` to select from.

    So that the dashboard scores once, and selects anew while a user moves a selector's slider.

    Raises ParamError if there is not exactly one query, DataError if it does not fit the corpus.
    """
    batch = _decoder_batch(decoder, space, query)
    if len(batch) != 1:
        raise ParamError(f"query must be one query; got {len(batch)}")
    own_document = find_own_documents(space, batch.ids, batch.texts, decoder.without_self)
    own_rows = torch.from_numpy(own_document).to(space.device) if own_document[0] >= 0 else None
    depth = min(decoder.depth or len(space), len(space) - (own_rows is not None))
    block = _score_block(decoder, space, batch, depth, own_rows=own_rows)
    ((_, candidates),) = block.groups
    source_limit = find_source_limit(decoder, space)
    return ScoredCandidates(candidates, block.retrieved.relevance[0], decoder.rerank is not None, source_limit)


def select_from(selector: Selector, scored_candidates: ScoredCandidates, k: int = 10) -> Ranking:
    """Select k of one query's scored documents; the ranking is that of `decode`, without scoring again."""
    return select_grid_from([selector], scored_candidates, k)[0]


@without_autocast
def select_grid_from(selectors: Sequence[Selector], scored_candidates: ScoredCandidates, k: int = 10) -> list[Ranking]:
    """Select k of one query's scored documents by each of several selectors of one class, such as all mmr.

    So that the browser gets the answers at many positions of a slider at once, from one scoring.
    """
    k, source_limit = SET_SIZE.check(k), scored_candidates.source_limit
    return _select_rankings(selectors, scored_candidates.candidates, k, source_limit)


def decoder_family(decoder: Decoder) -> tuple[Any, ...]:
    """Return a key that is equal for decoders which one `decode_grid` call can evaluate together.

    It holds everything but the selector's parameters: its class, both scorers, the limit per source, the treatment of
    queries that are documents, and, last, the depth of the pool.
    """
    stages = type(decoder.select), decoder.retrieve, decoder.rerank
    return *stages, decoder.per_source, decoder.source, decoder.without_self, decoder.depth


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
    depth = min(pool or len(matrix), len(matrix))
    answers = []
    for start, stop in _cut_into_blocks(points.shape[0], rows, depth, len(stages)):
        block = points[start:stop]
        candidates = Candidates(rows, defer(partial(products, rows, block)), block, matrix)
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
    rows = space.vectors if isinstance(space, Embeddings) else real_tensor(space, "vectors")
    given_rows = queries.vectors if isinstance(queries, Embeddings) else real_tensor(queries, "queries")
    check_places(rows, given_rows)
    matrix = Matrix(rows)
    points = given_rows.unsqueeze(0) if given_rows.ndim == 1 else given_rows
    # Queries take the vectors' device and precision; as a matrix they are checked in the same way.
    return matrix, Matrix(points.to(matrix.vectors.device, matrix.vectors.dtype), "queries").vectors


def check_places(vectors: Tensor, queries: Tensor) -> None:
    """Raise DataError if the shapes tell that vectors and queries stand in each other's place, or lie on their side."""
    if vectors.ndim == 1 and queries.ndim == 2 and vectors.shape[0] == queries.shape[1]:
        raise DataError(
            f"vectors must be an array (n, d) of documents; got shape {tuple(vectors.shape)}, and queries of shape "
            f"{tuple(queries.shape)}. vectors and queries stand in each other's place: pass the documents first"
        )
    # A square matrix could stand either way, and is left to the check of dimensions.
    if vectors.ndim != 2 or not queries.ndim or vectors.shape[1] == queries.shape[-1]:
        return
    for name, is_turned in (
        ("vectors", vectors.shape[0] == queries.shape[-1]),
        ("queries", queries.ndim == 2 and queries.shape[0] == vectors.shape[1]),
    ):
        if is_turned:
            raise DataError(
                f"vectors (n, d) and queries (B, d) must have one dimension d; got shapes {tuple(vectors.shape)} and "
                f"{tuple(queries.shape)}. {name} may have its rows as columns: pass {name}.T"
            )


def check_dimension(name: str, points: Tensor, rows: Tensor, owner: str, verb: str = "has") -> None:
    """Raise a DataError if points, (B, d), and rows, (n, d), differ in d.

    name, owner, verb: words of the message, which says that `name` must have `owner`'s dimension
    """
    if points.shape[1] != rows.shape[1]:
        genitive = f"{owner}'" if owner.endswith("s") else f"{owner}'s"
        sizes = f"got {points.shape[1]}, {owner} {verb} {rows.shape[1]}"
        raise DataError(f"{name} must have {genitive} dimension; {sizes}")


def check_space(space: Any) -> None:
    """Raise DataError for a value that cannot be searched, such as queries in the corpus's place."""
    if not isinstance(space, Space | Elsewhere):
        fix = "Build one by engine.Space(corpus, engine.embed(corpus))"
        if isinstance(space, Queries | Embeddings | str | list | tuple):
            fix = "Space and queries may stand in each other's place"
        raise DataError(f"space must be an engine.Space; got {type(space).__name__}. {fix}")


def convert_queries(queries: Any) -> QueryLike:
    """Return queries of any usual kind as Queries, Embeddings, texts or a tensor of vectors.

    Columns and frames of pandas or polars, nested lists and lists of tensors are read. Raises DataError for vectors
    that are no numbers, and for a corpus or space, which stands in the other argument's place.
    """
    if isinstance(queries, Queries | Embeddings | str | Tensor):
        return queries
    if isinstance(queries, Mapping):
        return Queries.of(queries)
    if isinstance(queries, Space | Elsewhere | Corpus):
        raise DataError(
            f"queries must be text, engine.Queries or vectors; got a {type(queries).__name__}. Corpus and queries may "
            "stand in each other's place"
        )
    # Iterating a frame would yield the names of its columns.
    if hasattr(queries, "columns"):
        try:
            return real_tensor(queries, "queries")
        except DataError as error:
            raise DataError(f"{error}. {QUERY_FRAME_FIX}") from None
    if isinstance(queries, np.ndarray):
        is_text = queries.dtype.kind in "UOS" and isinstance(next(queries.flat, None), str)
        return [str(text) for text in queries.flat] if is_text else real_tensor(queries, "queries")
    # pyarrow hands out its own kind of numbers and texts.
    queries = queries.to_pylist() if hasattr(queries, "to_pylist") else queries
    first = next(iter(queries), None) if isinstance(queries, Iterable) else None
    # Vectors are numbers, or rows of numbers; whatever else is refused as texts.
    has_numbers = isinstance(first, Number | np.ndarray | Tensor | list | tuple) or hasattr(first, "__array__")
    return real_tensor(queries, "queries") if has_numbers and not isinstance(first, str) else queries


def as_queries(queries: Any) -> Queries:
    """Return Queries, numbered if they are plain text; raise DataError for no queries or other types."""
    if not isinstance(queries, Queries | str):
        queries = tuple(queries) if isinstance(queries, Iterable) else (queries,)
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
    check_space(space)
    # A corpus in a vector engine stands here by a small space with its dimension, encoder and scaling.
    space, queries = probe_of(space), convert_queries(queries)
    if isinstance(queries, Tensor) or (isinstance(queries, np.ndarray) and queries.dtype.kind not in "UOS"):
        query_rows = real_tensor(queries, "queries")
        matrix = Matrix(query_rows.unsqueeze(0) if query_rows.ndim == 1 else query_rows, "queries")
        check_dimension("queries", matrix.vectors, space.vectors, "the corpus")
        # Zero rows stay zero: the smallest normal number replaces their length.
        query_rows = matrix.vectors
        if space.matrix.unit:
            query_rows = query_rows / matrix.lengths.clamp_min(torch.finfo(query_rows.dtype).tiny).unsqueeze(1)
        ids = tuple(map(str, range(len(matrix))))
        # Numbers that nothing adapts are checked already, and no encoder made them.
        if space.adapt is None:
            return QueryBatch(ids, query_rows.to(space.device, space.vectors.dtype))
        queries = Embeddings(ids, query_rows)
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

    If none of the decoder's stages does and the corpus has no encoder, the batch has zeros for vectors, which nobody
    reads.
    """
    check_space(space)
    queries = convert_queries(queries)
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

    If the corpus came with its own vectors, these are the vectors that the queries came with.

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
        If the corpus has precomputed vectors and no encoder, and the queries have none.
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
    # Of a corpus in a vector engine only a small stand-in is in memory; it has the encoder and the adapter.
    space = probe_of(space)
    encoder = space.encoder
    if encoder is None:
        own_vectors = queries.embeddings if isinstance(queries, Queries) else None
        if own_vectors is None:
            problem = "queries are text, but the corpus came with its own vectors and no encoder"
            raise DataError(
                f"{problem}; pass the queries' vectors as an array or as engine.Embeddings, load them with the corpus "
                "(query_vectors.npy beside queries.jsonl, or query_vectors=), or embed the corpus with engine.embed",
                f"{problem}; load the queries' vectors with it (query_vectors.npy beside queries.jsonl), or load the "
                "texts and choose an encoder",
            )
        return space.fitted(own_vectors)
    report = None if progress is None else (lambda done, total, label: progress(done, total, f"{label} queries"))
    return space.fitted(embed(queries, encoder=encoder.name, dtype=encoder.dtype, progress=report, stop=stop))


@dataclass(frozen=True, eq=False)
class _ScoredBlock:
    """A block of queries with their scored candidates, in groups of queries whose pools have one size."""

    retrieved: Candidates  # every document, with the scores of the first scorer
    groups: list[tuple[list[int], Candidates]]  # positions of a group's queries, and the candidates of the selector

    def select(self, selectors: Sequence[Selector], k: int, source_limit: SourceLimit | None) -> list[Ranking]:
        """Select k candidates of every query by each selector; return one ranking of the block for each."""
        grouped_rankings = [_select_rankings(selectors, candidates, k, source_limit) for _, candidates in self.groups]
        if len(grouped_rankings) == 1:
            return grouped_rankings[0]
        # The groups' queries are put back into the order of the block.
        order = torch.tensor([position for positions, _ in self.groups for position in positions]).argsort()
        return [Ranking.joined(parts).take(order) for parts in zip(*grouped_rankings, strict=True)]


def _score_block(
    decoder: Decoder,
    space: Space,
    batch: QueryBatch,
    depth: int,
    k_max: int | None = None,
    own_rows: Tensor | None = None,
) -> _ScoredBlock:
    """Score the corpus for a block of queries; return the scores and what the selector chooses from.

    The latter are the `depth` most relevant documents, scored again by the reranker if there is one, without those
    that a scorer of words did not match. k_max: the size of the sets, if the most relevant documents make them;
    own_rows: (B,) a row that each query's candidates leave out, None for no such rows. Raises DataError if a scorer
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
    compute_scores = partial(_compute_scores, retrieve, space, batch)
    # Inner products of checked vectors are finite: none is looked at before a selector needs it.
    scores = defer(compute_scores) if retrieve.inner_product else compute_scores()
    # Scales of relevance concern those selectors alone that add it to similarities.
    needs_scale = isinstance(decoder.select, TradeOffSelector)
    unpooled = Candidates(
        space.vectors, scores, batch.vectors, space.matrix, retrieve.inner_product,
        similarity_scale=has_similarity_scale(retrieve),
        scale_basis=retrieve.find_scale_basis(space, batch) if needs_scale else None,
    )  # fmt: skip
    matches = None if retrieve.retrieves_all else retrieve.find_matches(space, batch, unpooled.relevance)
    if own_rows is not None:
        matches = exclude_own_documents(unpooled.relevance, matches, own_rows)
    if matches is not None and rerank is None and k_max is not None:
        depth = min(depth, k_max)
    groups = []
    for positions, part in _group_by_matches(unpooled, matches, depth):
        if matches is not None:
            own_part = None if own_rows is None else own_rows[positions]
            part = replace(part, n_matches=matches[positions].sum(1), own_rows=own_part)
        if rerank is not None and part.count:
            part_batch, pool_rows = batch.take(positions), get_corpus_rows(part)
            pool_scores = _compute_scores(rerank, space, part_batch, pool_rows)
            part = replace_relevance(part, pool_scores, rerank)
            basis = rerank.find_scale_basis(space, part_batch) if needs_scale else None
            part = replace(part, scale_basis=None if basis is None else basis.gather(1, pool_rows))
        groups.append((positions, part))
    return _ScoredBlock(unpooled, groups)


def exclude_own_documents(scores: Tensor, matches: Tensor | None, own_rows: Tensor) -> Tensor:
    """Return True for the documents that can be retrieved, (B, n), without the document that each query is itself.

    matches: of the documents that match, None for all; own_rows: (B,)
    """
    matches = torch.ones_like(scores, dtype=torch.bool) if matches is None else matches
    return matches.scatter(1, own_rows.unsqueeze(1), torch.zeros_like(own_rows, dtype=torch.bool).unsqueeze(1))


def _group_by_matches(candidates: Candidates, matches: Tensor | None, depth: int) -> list[tuple[list[int], Candidates]]:
    """Cut each query's pool from its matches, `depth` at most; return groups of queries with pools of one size.

    matches: True for documents that can be retrieved, (B, n); None for all
    """
    if matches is None:
        return [(list(range(candidates.batch)), select_pool(candidates, depth))]
    pool_sizes = matches.sum(1).clamp(max=depth).tolist()
    groups = []
    for size in sorted(set(pool_sizes)):
        positions = [position for position, pool_size in enumerate(pool_sizes) if pool_size == size]
        part = select_problems(candidates, torch.tensor(positions, device=matches.device))
        groups.append((positions, select_pool(part, size, matches[positions])))
    return groups


def _compute_scores(scorer: Scorer, space: Space, batch: QueryBatch, rows: Tensor | None = None) -> Tensor:
    """Return a scorer's scores of all documents or of `rows` in float32 or float64; DataError if one is not finite."""
    scores = scorer.score(space, batch, rows)
    scores = scores if scores.dtype in (torch.float32, torch.float64) else scores.float()
    # A finite sum proves every score finite in one pass; an infinite one may be an overflow of finite scores.
    if not math.isfinite(scores.sum()) and not bool(scores.isfinite().all()):
        raise DataError(f"{scorer.label} gave a document no finite score; a document that does not match scores 0")
    return scores


def _cut_into_blocks(n_queries: int, vectors: Tensor, depth: int, n_stages: int = 1) -> list[tuple[int, int]]:
    """Cut `n_queries` queries into blocks (start, stop) so small that their scores fit the memory budget.

    vectors: (n, d) the corpus; depth: documents in a pool, from which a selector chooses; n_stages: number of settings
    that share a block
    """
    n, d = vectors.shape
    # A query has n scores at each setting and, where a pool is cut from the corpus, the vectors of its pool.
    size = max(1, MAX_BLOCK_SCORES // (n * n_stages + (depth * d if depth < n else 0)))
    return [(block_start, min(block_start + size, n_queries)) for block_start in range(0, n_queries, size)]


def select_pool(candidates: Candidates, depth: int, matches: Tensor | None = None) -> Candidates:
    """Keep the `depth` most relevant documents of each query as the pool that a selector chooses from.

    Its rows ascend. matches: True for documents that can be kept, (B, n), at least `depth` a query; None for all
    """
    if depth == candidates.count:
        return candidates
    # A document that does not match stands behind all that do. No two at −∞ count as a near-tie, which would be scored
    # again, by the scores that are to be ignored.
    relevance = candidates.relevance
    if matches is not None:
        relevance = relevance.masked_fill(~matches, -torch.inf)
    # Ascending rows, so that ties go to the lower row inside a pool too.
    errors, refine = candidates.relevance_error, candidates.exact_relevance
    places = rank_exactly(relevance, depth, errors, refine, rescore_all=False)[0].sort(dim=1).values
    if candidates.vectors.ndim == 2:
        vectors = candidates.vectors[places]
    else:
        vectors = candidates.vectors.gather(1, places.unsqueeze(2).expand(-1, -1, candidates.vectors.shape[2]))
    pool = places if candidates.pool is None else candidates.pool.gather(1, places)
    scale_basis = None if candidates.scale_basis is None else candidates.scale_basis.gather(1, places)
    relevance = candidates.relevance.gather(1, places)
    return replace(candidates, vectors=vectors, relevance=relevance, pool=pool, scale_basis=scale_basis)


def replace_relevance(candidates: Candidates, scores: Tensor, scorer: Scorer) -> Candidates:
    """Return candidates with the scores that another scorer gave them, (B, m), as their relevance."""
    return replace(
        candidates, relevance=scores, inner_product=scorer.inner_product, pool=get_corpus_rows(candidates),
        similarity_scale=has_similarity_scale(scorer), scale_basis=None,
    )  # fmt: skip


def has_similarity_scale(scorer: Scorer) -> bool:
    """Return True if a scorer's numbers can be added to similarities as they are."""
    return scorer.inner_product or scorer.similarity_scale


def find_source_limit(decoder: Decoder, space: Any) -> SourceLimit | None:
    """Return a decoder's limit per source over a corpus, None without one; DataError if it has no such column."""
    if decoder.per_source is None or decoder.source is None:
        return None
    if not isinstance(space, Space):
        raise DataError(
            f"per_source reads the column {decoder.source!r} of a corpus, and plain vectors have none; pass a Space"
        )
    return SourceLimit(decoder.per_source, number_sources(space, decoder.source))


def _select_rankings(
    selectors: Sequence[Selector], candidates: Candidates, k: int, source_limit: SourceLimit | None = None
) -> list[Ranking]:
    """Select k candidates by each selector, all of one class; return rankings as rows of the corpus.

    Rankings of fewer than k documents are padded with row −1. Selectors of one class share computations. source_limit:
    how many documents of one source may be selected, None for any number
    """
    if not candidates.count:
        return [_make_empty_ranking(candidates, k) for _ in selectors]
    n_selected = min(k, candidates.count)
    if source_limit is None:
        selections = type(selectors[0]).select_grid(selectors, candidates, n_selected)
    else:
        selections = select_per_source(selectors, candidates, n_selected, source_limit)
    pool, padding = candidates.pool, (0, k - candidates.count)
    rankings = []
    for selector, selection in zip(selectors, selections, strict=True):
        # Positions in the pool become rows of the corpus; padding stays −1.
        index, gain = selection.index, selection.gain
        if pool is not None:
            index = torch.where(index >= 0, pool.gather(1, index.clamp_min(0)), -1)
        if k > candidates.count:
            index, gain = torch.nn.functional.pad(index, padding, value=-1), torch.nn.functional.pad(gain, padding)
        infos = tuple(
            {**details, **_describe_pool(candidates, query_index, selector, k)}
            for query_index, details in enumerate(selection.info)
        )
        rankings.append(Ranking(index, gain, infos))
    return rankings


def count_unmatched(ranking: Ranking) -> int:
    """Return the number of queries that got no document as no word of theirs occurs in the corpus."""
    return sum(info.get("matches") == 0 for info in ranking.info)


def _make_empty_ranking(candidates: Candidates, k: int) -> Ranking:
    """Return rankings without a document, for queries of which nothing can be retrieved."""
    index = candidates.queries.new_full((candidates.batch, k), -1, dtype=torch.int64)
    gain = candidates.queries.new_zeros((candidates.batch, k), dtype=torch.float64)
    facts = ({"candidates": 0} | _describe_matches(candidates, query, k) for query in range(candidates.batch))
    return Ranking(index, gain, tuple(facts))


def _describe_matches(candidates: Candidates, query_index: int, k: int) -> dict[str, Any]:
    """Return the facts of a ranking's info on what could be retrieved for a query.

    own_document: the row of the document that the query is; matches: the number of documents that match the query's
    words, where these are fewer than k and not all
    """
    facts: dict[str, Any] = {}
    if candidates.own_rows is not None:
        facts["own_document"] = int(candidates.own_rows[query_index])
    if candidates.n_matches is not None:
        n_matches = int(candidates.n_matches[query_index])
        if n_matches < min(k, len(candidates.matrix) - (candidates.own_rows is not None)):
            facts["matches"] = n_matches
    return facts


def _describe_pool(candidates: Candidates, query_index: int, selector: Selector, k: int) -> dict[str, Any]:
    """Return the facts of a ranking's info on what it was selected from.

    Besides those of `_describe_matches`, scope and depth of a pool that left documents out which could be retrieved.
    """
    count, n_retrievable = candidates.count, len(candidates.matrix) - (candidates.own_rows is not None)
    facts = _describe_matches(candidates, query_index, k)
    if candidates.n_matches is not None:
        n_retrievable = int(candidates.n_matches[query_index])
        if not selector.reads_vectors:
            # The most relevant of a pool are those of the corpus.
            return {**facts, "candidates": n_retrievable}
    if candidates.pool is not None and count < n_retrievable:
        facts |= {"scope": "pool", "depth": count}
    return facts
