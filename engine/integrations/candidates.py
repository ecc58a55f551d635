"""A decoder over the candidates of any store: what the adapters share, and a plain function of it."""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from engine.candidates import Candidates, get_corpus_rows
from engine.data.encoders import TextEncoder
from engine.data.models.encoder_model import Role
from engine.decoder import (
    SET_SIZE,
    Decoder,
    ScoredCandidates,
    decode,
    find_source_limit,
    has_similarity_scale,
    query_batch,
    replace_relevance,
    select_from,
    select_pool,
)
from engine.display import OneLine
from engine.errors import DataError
from engine.evaluation.export_decoder import ExportContext, read_setting
from engine.progress import counted
from engine.space import Space
from engine.values import Corpus, Embeddings, EncoderRef, Ranking, real_tensor

Encode = Callable[[Sequence[str], Role], Any]
"""(texts, "document" or "query") → one vector a text."""
SERVE_ADVICE = "serve the decoder over its corpus: frontier answer --decoder setting.json"
MAX_CACHED_VECTORS = 20_000
"""Vectors of texts that an Answerer keeps: the oldest go first."""


def encode_with(documents: Callable[[list[str]], Any], query: Callable[[str], Any]) -> Encode:
    """Combine a framework's two embedding functions into one function of texts and their role.

    documents: function from texts to vectors; query: function from one text to its vector.
    """
    return lambda texts, role: documents(list(texts)) if role == "document" else list(map(query, texts))


@contextmanager
def require_package(package_name: str, extra_name: str) -> Iterator[None]:
    """Turn a missing module inside into an ImportError that names the extra to install."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise ImportError(
            f"engine.integrations.{extra_name.replace('-', '_')} needs {package_name} ({error}): "
            f"pip install 'frontier-retrieval[{extra_name}]'"
        ) from error


@dataclass(frozen=True, kw_only=True)
class Selection(OneLine):
    """The documents that a decoder selects for a query, best first.

    Parameters
    ----------
    rows : tuple of int
        Positions among the candidates.
    ids : tuple of str
        The ids given with them, otherwise the rows as text.
    scores : tuple of float
        The values by which the selector ranks.
    certificate : mapping of str to object
        The evidence of the answer, as in `Ranking.info`.

    Examples
    --------
    >>> import engine, torch
    >>> decoder = engine.Decoder(engine.make("mmr"))
    >>> engine.integrations.answer(decoder, None, vectors=torch.eye(2), query_vector=torch.tensor([1.0, 0.0]), k=1).ids
    ('0',)
    """

    rows: tuple[int, ...]
    ids: tuple[str, ...]
    scores: tuple[float, ...]
    certificate: Mapping[str, Any]


def build_selections(ranking: Ranking, ids: Sequence[str]) -> list[Selection]:
    """Convert a ranking of several queries into one Selection each, with ids, scores and certificate.

    ids: of the documents that it ranks, by row.
    """
    selections = []
    for query_index, info in enumerate(ranking.info):
        rows = ranking.rows(query_index)
        scores = tuple(ranking.gain[query_index, : len(rows)].tolist())
        selected_ids = tuple(map(ids.__getitem__, rows))
        selections.append(Selection(rows=tuple(rows), ids=selected_ids, scores=scores, certificate=dict(info)))
    return selections


def require_values(values: Sequence[Any], field_name: str) -> list[Any] | None:
    """Return a field of all candidates, such as the score, as a list; None if no candidate has one.

    Raises DataError if only some are missing: to ignore the others, or to invent values, would change the answer
    unnoticed.
    """
    n_missing = sum(store_value is None for store_value in values)
    if n_missing == len(values):
        return None
    if n_missing:
        raise DataError(
            f"{n_missing} of {counted(len(values), 'candidate')} have no {field_name}; give it to all of them, or to "
            "none"
        )
    return list(values)


class Answerer:
    """A decoder for the candidates of a store: the n that it fetched, of which the decoder selects k.

    Vectors of texts stay in memory and are never written to the disk.

    Parameters
    ----------
    decoder : Decoder, mapping of str to object, str or Path
        A decoder, or the file or the content of one that was exported as JSON.
    k : int or None
        The number of documents per query; by default as exported, or 10.
    encoder : str, Encode or None
        The encoder of queries and of candidates without vectors: a name, as `engine.embed` takes it, or a function
        of texts and their role ("document" or "query"); by default as exported.

    Raises
    ------
    ParamError, DataError
        If an argument is invalid or inputs do not belong together.

    Examples
    --------
    >>> import engine, torch
    >>> answerer = engine.integrations.Answerer(engine.Decoder(engine.make("mmr")), k=1)
    >>> answerer(None, vectors=torch.eye(2), query_vector=torch.tensor([1.0, 0.0])).rows
    (0,)
    """

    def __init__(
        self,
        decoder: Decoder | Mapping[str, Any] | str | Path,
        k: int | None = None,
        encoder: str | Encode | None = None,
    ) -> None:
        """Read the decoder, and the encoder and k that it was exported with.

        decoder: a decoder, or the file or the content of one that was exported as JSON; k: number of documents to
        select; encoder: name or function that embeds texts. None takes the k or the encoder of the export.
        """
        self.decoder, context = read_setting(decoder)
        self.context = ExportContext(encoder=None) if context is None else context
        self.k = self.context.k if k is None else SET_SIZE.check(k)
        # A decoder exported for the vectors of a trained checkpoint has no default: the encoder it names is untrained.
        self.encoder = self.context.encoder if encoder is None and self.context.trained is None else encoder
        self._embedding: tuple[Encode, EncoderRef | None] | None = None
        self._cached_vectors: dict[str, Tensor] = {}
        self._lock = threading.RLock()
        # Scores of a corpus-wide reranker depend on documents that the store did not fetch.
        reranker = self.decoder.rerank
        if reranker is not None and reranker.corpus_wide:
            raise DataError(f"{reranker.label} reranks by the whole corpus, and these are candidates; {SERVE_ADVICE}")

    def __call__(
        self,
        query: str | None,
        texts: Sequence[str] | None = None,
        *,
        vectors: Any = None,
        query_vector: Any = None,
        scores: Sequence[float] | None = None,
        ids: Sequence[str] | None = None,
        sources: Sequence[str | None] | None = None,
        k: int | None = None,
    ) -> Selection:
        """Return the k documents that the decoder selects among those that a store retrieved for a query.

        query: its text, None if the decoder needs only its vector; texts, vectors (n, d), scores, ids: of the
        candidates, best first. Without vectors, the texts are embedded. scores: those of the store, higher is better.
        They are used only in place of a first scorer that needs the whole corpus; before a reranker the candidates'
        order suffices. sources: of the candidates, for a decoder with a limit per source; None or "" for one without.
        Raises ParamError or DataError.
        """
        k = self.k if k is None else SET_SIZE.check(k)
        if texts is None and vectors is None:
            raise DataError("candidates need texts or vectors; got neither")
        n_candidates = len(vectors if texts is None else texts)
        lists = {"texts": texts, "vectors": vectors, "scores": scores, "ids": ids, "sources": sources}
        for argument_name, argument in lists.items():
            if argument is not None and len(argument) != n_candidates:
                raise DataError(f"{argument_name} must have one entry a candidate, {n_candidates}; got {len(argument)}")
        # An empty result of the store is no error: its selection is empty too.
        if not n_candidates:
            return Selection(rows=(), ids=(), scores=(), certificate={})
        rows, encoder_ref = self._embed_candidates(texts, vectors)
        row_names = tuple(map(str, range(n_candidates)))
        # Rerankers that read texts need them; a decoder of vectors alone gets empty ones.
        metadata = self._build_metadata(sources)
        corpus = Corpus(row_names, ("",) * n_candidates if texts is None else tuple(texts), metadata=metadata)
        # The candidates are a small corpus of their own, from which the decoder selects.
        space = Space(corpus, Embeddings(row_names, rows, encoder_ref))
        queries = self._embed_query(query, query_vector, vectors is not None)
        ranking = _rank(self.decoder, space, queries, scores, k)
        return build_selections(ranking, row_names if ids is None else ids)[0]

    def list_sources(self, metadata: Sequence[Mapping[str, Any]]) -> list[str] | None:
        """Return the sources that candidates name in their metadata; None if the decoder has no limit per source."""
        column = self.decoder.source
        if column is None:
            return None
        values = [entry.get(column) for entry in metadata]
        return ["" if value is None else str(value) for value in values]

    def _build_metadata(self, sources: Sequence[str | None] | None) -> dict[str, tuple[str, ...]]:
        """Return the column of sources that the decoder reads; DataError if it reads one and there are none."""
        column = self.decoder.source
        if column is None:
            return {}
        if sources is None:
            raise DataError(f"sources must be given: {self.decoder.label} takes them from {column!r} of each candidate")
        return {column: tuple(source or "" for source in sources)}

    def _embed_candidates(self, texts: Sequence[str] | None, vectors: Any) -> tuple[Tensor, EncoderRef | None]:
        """Return the (n, d) vectors of the candidates, and their encoder, None if it is unknown.

        vectors: those of the store, None to embed the texts, whose vectors are cached in memory.
        """
        if vectors is not None:
            return _as_tensor(vectors, "vectors"), None
        # Several threads may answer at once; each text is embedded by one of them.
        with self._lock:
            encode, encoder_ref = self._find_encoder()
            new_texts = [text for text in dict.fromkeys(texts or ()) if text not in self._cached_vectors]
            if new_texts:
                new_vectors = _as_tensor(encode(new_texts, "document"), "vectors")
                self._cached_vectors.update(zip(new_texts, new_vectors, strict=True))
            candidate_vectors = torch.stack(list(map(self._cached_vectors.__getitem__, texts or ())))
            # Dictionaries keep insertion order, so that the oldest vectors go first.
            for text in list(self._cached_vectors)[: max(0, len(self._cached_vectors) - MAX_CACHED_VECTORS)]:
                del self._cached_vectors[text]
        return candidate_vectors, encoder_ref

    def _embed_query(self, query: str | None, query_vector: Any, stored_vectors: bool) -> Embeddings:
        """Return the query's vector as Embeddings.

        A given `query_vector` is used if the candidates' vectors come from the store as well. Candidates that this
        object embeds need a query embedded by the same encoder: the text, if given, is then embedded instead.
        """
        query_texts = None if query is None else (query,)
        if query_vector is not None and (stored_vectors or query is None):
            return Embeddings(("query",), _as_tensor([query_vector], "query_vector"), None, query_texts)
        if query is None:
            raise DataError("query must be a text, or query_vector its vector; got neither")
        encode, encoder_ref = self._find_encoder()
        return Embeddings(("query",), _as_tensor(encode([query], "query"), "query_vector"), encoder_ref, query_texts)

    def _find_encoder(self) -> tuple[Encode, EncoderRef | None]:
        """Return the embedding function, and a reference to the encoder, None for a function of the caller.

        Raises DataError if no encoder was named.
        """
        with self._lock:
            if self._embedding is None:
                if self.encoder is None:
                    checkpoint = self.context.trained
                    trained = f" (the decoder was exported for those of {checkpoint})" if checkpoint else ""
                    raise DataError(
                        f"there are texts to embed and no encoder{trained}; name the one that made the store's "
                        'vectors, encoder="…", or pass vectors and query_vector'
                    )
                # A name has a reference, by which vectors of another encoder are refused; a function has none.
                if isinstance(self.encoder, str):
                    text_encoder = TextEncoder(self.encoder, dtype=self.context.dtype)
                    self._embedding = text_encoder, text_encoder.reference
                else:
                    self._embedding = self.encoder, None
            return self._embedding


def answer(
    decoder: Decoder | Mapping[str, Any] | str | Path,
    query: str | None,
    texts: Sequence[str] | None = None,
    *,
    encoder: str | Encode | None = None,
    **candidates: Any,
) -> Selection:
    """Select documents from the candidates of a store for one query.

    `Answerer` takes the same arguments, and keeps vectors from one query to the next.

    Parameters
    ----------
    decoder : Decoder, mapping of str to object, str or Path
        A decoder, or the file or the content of one that was exported as JSON.
    query : str or None
        The text of the query; None if its vector is given.
    texts : sequence of str or None
        The texts of the candidates.
    encoder : str, Encode or None
        As in `Answerer`.
    **candidates
        Further arguments of `Answerer.__call__`: vectors, query_vector, scores, ids and k.

    Returns
    -------
    Selection
        The selected documents, best first.

    Raises
    ------
    ParamError, DataError
        If an argument is invalid or inputs do not belong together.

    Examples
    --------
    >>> import engine, torch
    >>> decoder = engine.Decoder(engine.make("mmr"))
    >>> engine.integrations.answer(decoder, None, vectors=torch.eye(2), query_vector=torch.tensor([1.0, 0.0]), k=1).rows
    (0,)
    """
    return Answerer(decoder, encoder=encoder)(query, texts, **candidates)


def _as_tensor(raw_vectors: Any, argument_name: str) -> Tensor:
    """Convert vectors, an (n, d) array or a list of n vectors, to a tensor; argument_name: for errors.

    Lists of numbers, which stores make of float32, become float32 again; arrays and tensors keep their type.
    """
    if not isinstance(raw_vectors, Tensor | np.ndarray):
        raw_vectors = list(raw_vectors)
        if isinstance(raw_vectors[0], Tensor | np.ndarray):
            return torch.stack([real_tensor(raw_vector, argument_name) for raw_vector in raw_vectors])
        return real_tensor(raw_vectors, argument_name).float()
    return real_tensor(raw_vectors, argument_name)


def _rank(decoder: Decoder, space: Space, query: Embeddings, scores: Sequence[float] | None, k: int) -> Ranking:
    """Select k documents for one query from a space that holds the store's candidates.

    scores: the store's, None if unknown. A first scorer that needs the whole corpus cannot run on candidates: the
    store's scores, or its order, stand in for it.
    """
    retrieve = decoder.retrieve
    if not retrieve.corpus_wide:
        return decode(decoder, space, query, k)
    rerank, depth = decoder.rerank, min(decoder.depth or len(space), len(space))
    if scores is None and rerank is None:
        raise DataError(
            f"{retrieve.label} needs the whole corpus, and these are candidates; pass the scores of the store that "
            f"retrieved them, or {SERVE_ADVICE}"
        )
    # Without scores the store's order stands in: ranks from the best down.
    relevance = _as_tensor(range(len(space), 0, -1) if scores is None else scores, "scores").to(space.device)[None]
    if not bool(relevance.isfinite().all()):
        raise DataError("scores must be finite numbers, one a candidate")
    batch = query_batch(space, query)
    candidates = Candidates(
        space.vectors, relevance, batch.vectors, space.matrix, inner_product=False,
        similarity_scale=has_similarity_scale(retrieve),
    )  # fmt: skip
    pool = select_pool(candidates, depth)
    if rerank is not None:
        # A reranker scores the `depth` best candidates again before the selector chooses among them.
        pool = replace_relevance(pool, rerank.score(space, batch, get_corpus_rows(pool)), rerank)
    source_limit = find_source_limit(decoder, space)
    scored = ScoredCandidates(pool, relevance[0], rerank is not None, source_limit)
    return select_from(decoder.select, scored, k)
