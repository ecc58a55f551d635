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

from engine.candidates import Candidates
from engine.data.encoders import TextEncoder
from engine.data.models.encoder_model import Role
from engine.decoder import SET_SIZE, Decoder, ScoredCandidates, decode, query_batch, select_from, select_pool
from engine.errors import DataError
from engine.evaluation.export import ExportContext, read_setting
from engine.space import Space
from engine.values import Corpus, Embeddings, EncoderRef, Ranking, real_tensor

Encode = Callable[[Sequence[str], Role], Any]
"""(texts, "document" or "query") → one vector a text."""
SERVE = "serve the decoder over its corpus: frontier answer --decoder setting.json"
KEPT = 20_000
"""Vectors of texts that an Answerer keeps: the oldest go first."""


def encode_with(documents: Callable[[list[str]], Any], query: Callable[[str], Any]) -> Encode:
    """Return the two functions of a framework's embedding model as the one that an Answerer takes."""
    return lambda texts, role: documents(list(texts)) if role == "document" else [query(text) for text in texts]


@contextmanager
def needs(package: str, extra: str) -> Iterator[None]:
    """Inside, a module that cannot be found is an ImportError that names what brings it."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise ImportError(
            f"engine.integrations.{extra.replace('-', '_')} needs {package} ({error}): "
            f"pip install 'frontier-retrieval[{extra}]'"
        ) from error


@dataclass(frozen=True, kw_only=True)
class Selection:
    """The set that a decoder picks for a query, best first.

    rows: places among the candidates; ids: those given with them, else the rows as text; scores: what the selector
    ranks by; certificate: what the answer rests on, as `Ranking.info` has it
    """

    rows: tuple[int, ...]
    ids: tuple[str, ...]
    scores: tuple[float, ...]
    certificate: Mapping[str, Any]


def answers_of(ranking: Ranking, ids: Sequence[str]) -> list[Selection]:
    """The answer of each query of a ranking; ids: of the documents it ranks."""
    answers = []
    for query, info in enumerate(ranking.info):
        rows = ranking.rows(query)
        scores = tuple(ranking.gain[query, : len(rows)].tolist())
        answers.append(
            Selection(rows=tuple(rows), ids=tuple(ids[row] for row in rows), scores=scores, certificate=dict(info))
        )
    return answers


def stored(values: Sequence[Any], what: str) -> list[Any] | None:
    """What a store brought with each candidate; None where it brought nothing. Raises DataError where some lack it."""
    missing = sum(value is None for value in values)
    if missing == len(values):
        return None
    if missing:
        raise DataError(f"{missing} of {len(values)} candidates have no {what}; give it to all of them, or to none")
    return list(values)


class Answerer:
    """A decoder for the candidates of a store: the n that it fetched, of which the decoder selects k.

    decoder: an engine.Decoder, or the file or the content of one that was exported as JSON; k: how many documents a
    query gets, by default as exported, else 10; encoder: what embeds queries and candidates that come without vectors,
    a name as `engine.embed` takes it or a function of texts and their role ("document" or "query"), by default as
    exported. Vectors of texts stay in memory, and never go to the disk. Raises ParamError or DataError.
    """

    def __init__(
        self,
        decoder: Decoder | Mapping[str, Any] | str | Path,
        k: int | None = None,
        encoder: str | Encode | None = None,
    ) -> None:
        self.decoder, use = read_setting(decoder)
        self.use = ExportContext(encoder=None) if use is None else use
        self.k = self.use.k if k is None else SET_SIZE.check(k)
        self.encoder = self.use.encoder if encoder is None and self.use.trained is None else encoder
        self._made: tuple[Encode, EncoderRef | None] | None = None
        self._kept: dict[str, Tensor] = {}
        self._lock = threading.RLock()
        rerank = self.decoder.rerank
        if rerank is not None and rerank.corpus_wide:
            raise DataError(f"{rerank.label} reranks by the whole corpus, and these are candidates; {SERVE}")

    def __call__(
        self,
        query: str | None,
        texts: Sequence[str] | None = None,
        *,
        vectors: Any = None,
        query_vector: Any = None,
        scores: Sequence[float] | None = None,
        ids: Sequence[str] | None = None,
        k: int | None = None,
    ) -> Selection:
        """The k candidates that the decoder selects.

        query: its text, None where its vector is all that the decoder needs; texts, vectors (n, d), scores, ids: of
        the candidates, best first; without vectors, texts are embedded. scores: the store's, higher is better; they
        stand for a first scorer that needs the whole corpus (the order does, before a reranker), and for no other.
        Raises ParamError or DataError.
        """
        k = self.k if k is None else SET_SIZE.check(k)
        count = len(next((given for given in (texts, vectors) if given is not None), ()))
        if texts is None and vectors is None:
            raise DataError("candidates need texts or vectors; got neither")
        for name, given in (("texts", texts), ("vectors", vectors), ("scores", scores), ("ids", ids)):
            if given is not None and len(given) != count:
                raise DataError(f"{name} must have one entry a candidate, {count}; got {len(given)}")
        if not count:
            return Selection(rows=(), ids=(), scores=(), certificate={})
        rows, reference = self._documents(texts, vectors)
        names = tuple(map(str, range(count)))
        space = Space(
            Corpus(names, ("",) * count if texts is None else tuple(texts)), Embeddings(names, rows, reference)
        )
        queries = self._query(query, query_vector, vectors is not None)
        ranking = _selected(self.decoder, space, queries, scores, k)
        return answers_of(ranking, names if ids is None else ids)[0]

    def _documents(self, texts: Sequence[str] | None, vectors: Any) -> tuple[Tensor, EncoderRef | None]:
        """(n, d) the candidates' vectors, and their encoder where it is known."""
        if vectors is not None:
            return _as_tensor(vectors, "vectors"), None
        with self._lock:
            encode, reference = self._encoder()
            missing = [text for text in dict.fromkeys(texts or ()) if text not in self._kept]
            if missing:
                self._kept.update(zip(missing, _as_tensor(encode(missing, "document"), "vectors"), strict=True))
            rows = torch.stack([self._kept[text] for text in texts or ()])
            for text in list(self._kept)[: max(0, len(self._kept) - KEPT)]:
                del self._kept[text]
        return rows, reference

    def _query(self, query: str | None, vector: Any, stored_vectors: bool) -> Embeddings:
        """The query's vector: the given one, but where the candidates are embedded here, as they are."""
        texts = None if query is None else (query,)
        if vector is not None and (stored_vectors or query is None):
            return Embeddings(("query",), _as_tensor([vector], "query_vector"), None, texts)
        if query is None:
            raise DataError("query must be a text, or query_vector its vector; got neither")
        encode, reference = self._encoder()
        return Embeddings(("query",), _as_tensor(encode([query], "query"), "query_vector"), reference, texts)

    def _encoder(self) -> tuple[Encode, EncoderRef | None]:
        """What embeds, and what it is called where it has a name."""
        with self._lock:
            if self._made is None:
                if self.encoder is None:
                    trained = f" (the decoder was exported for those of {self.use.trained})" if self.use.trained else ""
                    raise DataError(
                        f"there are texts to embed and no encoder{trained}; name the one that made the store's "
                        'vectors, encoder="…", or pass vectors and query_vector'
                    )
                if isinstance(self.encoder, str):
                    named = TextEncoder(self.encoder, dtype=self.use.dtype)
                    self._made = named, named.reference
                else:
                    self._made = self.encoder, None
            return self._made


def answer(
    decoder: Decoder | Mapping[str, Any] | str | Path,
    query: str | None,
    texts: Sequence[str] | None = None,
    *,
    encoder: str | Encode | None = None,
    **candidates: Any,
) -> Selection:
    """The candidates of a store that a decoder selects for one query; arguments as of `Answerer`, which keeps vectors
    from one query to the next. Raises ParamError or DataError."""
    return Answerer(decoder, encoder=encoder)(query, texts, **candidates)


def _as_tensor(rows: Any, name: str) -> Tensor:
    """Vectors as a tensor: lists of numbers, which stores make of float32, as float32 again."""
    if not isinstance(rows, Tensor | np.ndarray):
        rows = list(rows)
        if isinstance(rows[0], Tensor | np.ndarray):
            return torch.stack([real_tensor(row, name) for row in rows])
        return real_tensor(rows, name).float()
    return real_tensor(rows, name)


def _selected(decoder: Decoder, space: Space, query: Embeddings, scores: Sequence[float] | None, k: int) -> Ranking:
    """What the decoder selects for one query; the store stands for a first scorer that needs the whole corpus."""
    retrieve = decoder.retrieve
    if not retrieve.corpus_wide:
        return decode(decoder, space, query, k)
    rerank, depth = decoder.rerank, min(decoder.depth or len(space), len(space))
    if scores is None and rerank is None:
        raise DataError(
            f"{retrieve.label} needs the whole corpus, and these are candidates; pass the scores of the store that "
            f"retrieved them, or {SERVE}"
        )
    relevance = _as_tensor(range(len(space), 0, -1) if scores is None else scores, "scores").to(space.device)[None]
    if not bool(relevance.isfinite().all()):
        raise DataError("scores must be finite numbers, one a candidate")
    batch = query_batch(space, query)
    whole = Candidates(space.vectors, relevance, batch.vectors, space.matrix, inner_product=False)
    rescore = None if rerank is None else lambda rows: (rerank.score(space, batch, rows), rerank.inner_product)
    return select_from(
        decoder.select, ScoredCandidates(select_pool(whole, depth, rescore), relevance[0], rescore is not None), k
    )
