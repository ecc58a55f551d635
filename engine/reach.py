"""A corpus in a vector engine, decoded on the documents it returns, with certificates for the rest."""

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from engine.candidates import without_autocast
from engine.data.encoders import TextEncoder
from engine.data.stores import SearchResult, StoreRef, VectorStore, Where
from engine.data.stores.recall import measured_recall
from engine.data.stores.results import CHANGED
from engine.decoder import SET_SIZE, Decoder, QueryLike, check_encoder, query_batch
from engine.errors import DataError, ParamError
from engine.remote_certificate import INITIAL_POOL_SIZE, POOL_MARGIN, Dialogue, Document, PartialAnswer
from engine.space import Elsewhere, Space
from engine.stages import TradeOffSelector
from engine.values import Corpus, Embeddings, EncoderRef, Ranking, TextSource

MAX_CACHED_POOLS = 64
"""Pools of queries cached for the next setting of a slider."""
MAX_CACHED_ROWS = 100_000
"""Below this size a reach's space takes in all returned documents, above it those of rankings only."""


class Reach(Elsewhere):
    """A corpus in a vector engine that decoders search like a Space.

    Parameters
    ----------
    store : VectorStore
        See `engine.data.stores`.
    where : mapping or None
        Search only documents with these values.
    exact : bool
        Make the engine scan all documents each time; otherwise it uses its index.
    encoder : EncoderRef or None
        The encoder of text queries; by default the store's.

    Raises
    ------
    DataError
        If the collection holds no documents or cannot be read.

    Notes
    -----
    Rankings hold rows of `space`, which grows. `engine.attach` constructs a reach from stores.toml.

    Examples
    --------
    >>> Reach(store, where={"lang": ["en"]})  # doctest: +SKIP
    """

    def __init__(
        self, store: VectorStore, where: Where | None = None, exact: bool = False, encoder: EncoderRef | None = None
    ) -> None:
        """Ask the vector engine for its number of documents; none is fetched before the first query.

        store: the collection; where: search only documents with these values; exact: make the engine scan all documents
        each time; encoder: what made its vectors, None for what the store names. Raises DataError if there are no
        documents.
        """
        self.store, self.where, self.exact = store, where, exact
        self._encoder = _with_weights_digest(encoder or store.encoder)
        self._lock = threading.RLock()
        ref = store.ref_of(where)
        if not ref.count:
            raise DataError(f"{ref.collection} holds no documents; load some: frontier store load")
        self._state = _StoreState(store, ref, self._encoder)

    def __len__(self) -> int:
        return self.ref.count

    @property
    def ref(self) -> StoreRef:
        return self._state.ref

    @property
    def probe(self) -> Space:
        """A space of one or two documents that stands in for the corpus where queries are embedded.

        It has the encoder, by which a query's text becomes the vector to send to the vector engine.
        """
        return self._state.probe

    def __reduce__(self) -> tuple[Any, ...]:
        # A worker opens the store itself: what travels is its name.
        return _reopen_reach, (self.ref, self.where, self.exact, self.encoder)

    @property
    def space(self) -> Space:
        """The documents retrieved so far, with their texts, as an ordinary space that rankings refer to.

        It grows at its end only, until the store changes: then it starts anew.
        """
        with self._lock:
            return self._state.space()

    def prove(self, decoder: Decoder, queries: QueryLike, k: int = 10) -> Ranking:
        """Rank documents like `decode`, then scan all documents until no unseen one can change the rankings.

        So the rankings hold even for documents that the engine's approximate index would miss. Raises DataError if the
        engine cannot scan all documents.
        """
        return self._decode([decoder], queries, k, prove=True)[0]

    def decode_grid(self, decoders: Sequence[Decoder], queries: QueryLike, k: int = 10) -> list[Ranking]:
        """Return the rankings of `engine.decode` for each decoder.

        info has, beside the selector's diagnostics: scope, "proven" for the full corpus, "engine" for all that the
        vector engine's index finds, or "pool" for the fetched candidates only; open, the number of unproven picks; ids,
        the documents; trips (requests), questions (certificate queries), scans (searches of all documents) and rows
        (documents fetched) that the ranking took; documents, their number in the corpus; plan, the engine's query plan;
        provable, True if `prove` could do more; recall, (for queries, for residuals) the index's recall as `frontier
        store check` measured it, or None; depth, the decoder's.
        """
        return self._decode(decoders, queries, k, prove=False)

    def pool(self, query: QueryLike, without_self: bool | None = None) -> tuple[Space, list[int]]:
        """Return the most relevant documents for one query as a space of their own, and their rows in `space`.

        They are the INITIAL_POOL_SIZE first results of the vector engine, fetched or from the cache. without_self: of
        the decoder that chooses among them
        """
        with self.store.snapshot():
            state = self._refresh_state()
            batch = query_batch(state.probe, query)
            query_point = batch.vectors[:1].double().cpu().numpy()
            own_id = batch.ids[0] if without_self else None
            pool_answer = self._start_answers(state, query_point, INITIAL_POOL_SIZE, self.exact, (own_id,))[0]
        documents = _ReturnedDocuments(self.store, self.encoder)
        documents.extend({name: pool_answer.pool[name] for name in pool_answer.sort_pool()})
        with self._lock:
            state.documents.extend(pool_answer.pool)
            rows = [state.documents.row_by_id[name] for name in documents.ids]
        return documents.space(), rows

    @without_autocast
    def _decode(self, decoders: Sequence[Decoder], queries: QueryLike, k: int, prove: bool) -> list[Ranking]:
        """Rank documents for each decoder, and report how certain the rankings are of the whole corpus.

        Pools of the most relevant documents are fetched from the vector engine and selected from. A certificate query
        then asks it for the documents whose score is above a bound: if all are known, no unseen one could have been
        picked. prove: scan all documents until no unseen one can change an answer
        """
        k, rankings = SET_SIZE.check(k), []
        for decoder in decoders:
            check_decodable(decoder)
        if not isinstance(queries, Embeddings | torch.Tensor | np.ndarray):
            check_encoder(self)
        with self.store.snapshot():
            state = self._refresh_state()
            # The probe is a space of one or two documents, which is enough to turn queries into vectors.
            batch = query_batch(state.probe, queries)
            points = batch.vectors.double().cpu().numpy()
            # It sends the certificate queries, and selects again with the documents that they bring.
            dialogue = Dialogue(self.store, self.where, state.ref, self.exact)
            for decoder in decoders:
                # More than are needed, so that the least relevance fetched lies below that of the last that counts.
                min_pool_size = decoder.depth or max(k, decoder.select.ground_size)
                # With a depth the pool alone decides, so a proof needs only an exact pool: all documents are scanned
                # for it. Without one, the proof comes from the certificate queries below.
                scans_all = self.exact or (prove and decoder.depth is not None)
                pool_size = max(INITIAL_POOL_SIZE, POOL_MARGIN + min_pool_size)
                own_ids = batch.ids if decoder.without_self else (None,) * len(batch)
                answers = self._start_answers(state, points, pool_size, scans_all, own_ids)
                if decoder.depth is None:
                    # Without a depth the pool stands for the whole corpus, which the certificate queries have to show.
                    dialogue.settle(answers, decoder, k, prove)
                else:
                    for position, answer in enumerate(answers):
                        answer.solve_pool(decoder, batch.block(position, position + 1), k, self.store)
                reports = [answer.certainty(decoder, self.store.snapshots, prove) for answer in answers]
                with self._lock:
                    parts = [
                        state.documents.build_ranking(answer, k, {**report, "recall": state.recall})
                        for answer, report in zip(answers, reports, strict=True)
                    ]
                rankings.append(Ranking.joined(parts))
        return rankings

    def _start_answers(
        self, state: "_StoreState", points: np.ndarray, size: int, exact: bool, own_ids: Sequence[str | None]
    ) -> list[PartialAnswer]:
        """Fetch each query's `size` most relevant documents as its pool; return one PartialAnswer a query.

        points: (B, d) queries; exact: scan all documents for them; own_ids: of the document that each answer leaves
        out, None for none. Pools are cached: an answer from the cache makes no request.
        """
        keys = [(exact, point.tobytes(), size) for point in points]
        with self._lock:
            pools = {key: state.pools[key] for key in keys if key in state.pools}
        # Fetched without the lock: other threads may decode from cached pools meanwhile.
        missing = [position for position, key in enumerate(keys) if key not in pools]
        dialogue = Dialogue(self.store, self.where, state.ref, exact)
        new_pools = dialogue.fetch_pools(points[missing], size) if missing else []
        pools |= {keys[position]: result for position, result in zip(missing, new_pools, strict=True)}
        with self._lock:
            state.pools |= pools
            while len(state.pools) > MAX_CACHED_POOLS:
                state.pools.popitem(last=False)
        answers, ref, encoder = [], state.ref, self.encoder
        for position, key in enumerate(keys):
            answer = PartialAnswer(
                point=points[position], collection=ref.collection, documents=ref.count, is_unit=ref.unit,
                max_length=ref.longest, encoder=encoder, own_id=own_ids[position],
            )  # fmt: skip
            answer.add(pools[key], 0, None)
            # Cached pools cost this answer nothing.
            if position in missing:
                answer.n_trips, answer.n_scans = 1, int(pools[key].exact)
            answers.append(answer)
        return answers

    def _refresh_state(self) -> "_StoreState":
        """Return the cached knowledge of the store; start anew if its documents have changed since.

        Called within a snapshot, so that all requests of one decoding see the same documents.
        """
        current_ref = self.store.ref_of(self.where)
        with self._lock:
            if current_ref == self._state.ref:
                if current_ref.snapshot != self._state.ref.snapshot:
                    # Ids, vectors and places are the same; texts may be others.
                    self._state.ref = current_ref
                    self._state.documents.forget_texts()
                return self._state
        new_state = _StoreState(self.store, current_ref, self._encoder)
        with self._lock:
            self._state = new_state
        return new_state


class _StoreState:
    """The knowledge of one version of a store: cached pools, returned documents, and a probe space.

    An answer keeps its state to the end while other threads may refresh.
    """

    def __init__(self, store: VectorStore, ref: StoreRef, encoder: EncoderRef | None) -> None:
        """Start without documents; make the probe, a space of one or two, by which queries become vectors.

        ref: identity of the documents
        """
        self.ref = ref
        recall_check = measured_recall(store)
        self.recall: tuple[float, float] | None = None
        # What a scan found says nothing of an index, nor what was measured over other documents.
        if recall_check is not None and not recall_check.sequential and recall_check.digest == ref.digest:
            self.recall = recall_check.queries, recall_check.residuals
        self.pools: OrderedDict[tuple[bool, bytes, int], SearchResult] = OrderedDict()
        self.documents = _ReturnedDocuments(store, encoder)
        self._space: Space | None = None
        # Queries are scaled to length 1 where all documents have it, so the probe gets one vector of length 1, or else
        # 2; where nobody knows, two documents of the store stand for all.
        if ref.unit is None:
            probe_ids, probe_vectors = next(store.scan(2))
        else:
            probe_length = 1 if ref.unit else 2
            probe_ids, probe_vectors = ("",), np.eye(1, ref.dimension, dtype=np.float32) * probe_length
        probe_embeddings = Embeddings(probe_ids, torch.from_numpy(probe_vectors), encoder)
        self.probe = Space(Corpus(probe_ids, ("",) * len(probe_ids)), probe_embeddings, "cpu")

    def space(self) -> Space:
        """Return the documents retrieved so far, with their texts."""
        if self._space is None or len(self._space) < len(self.documents):
            self._space = self.documents.space()
        return self._space


def attach(name: str, where: Where | None = None, exact: bool = False) -> Reach:
    """Open a collection of a vector engine for decoding.

    Parameters
    ----------
    name : str
        "name/collection", as configured in FRONTIER_HOME/stores.toml.
    where : mapping or None
        Search only documents with these values.
    exact : bool
        Make the engine scan all documents each time.

    Returns
    -------
    Reach
        The corpus, which `decode` takes in place of a Space.

    Raises
    ------
    DataError
        If the store is not configured or cannot be opened.

    Examples
    --------
    >>> attach("nowhere/none")  # doctest: +SKIP
    Traceback (most recent call last):
    engine.errors.DataError: ...
    """
    from engine.data.stores.config import open_store

    return Reach(open_store(name, where), where, exact)


def _with_weights_digest(encoder: EncoderRef | None) -> EncoderRef | None:
    """Return an encoder's identity with the digest of its weights; the model is loaded if that is missing."""
    if encoder is None or encoder.digest:
        return encoder
    return TextEncoder(encoder.name, dtype=encoder.dtype).reference


def _reopen_reach(ref: StoreRef, where: Where | None, exact: bool, encoder: EncoderRef | None = None) -> Reach:
    """Open a corpus in a vector engine again, in another process; raise DataError if it has changed.

    Pickling takes the arguments along, not the documents or the encoder's weights.
    """
    from engine.data.stores.config import open_store

    reach = Reach(open_store(ref.collection, where), where, exact, encoder)
    if reach.ref.digest != ref.digest:
        raise DataError(f"{ref.collection} {CHANGED}: it is no longer what the sweep began with; sweep again")
    return reach


def sample_documents(reach: Reach, n_documents: int, seed: int = 0) -> Space:
    """Return random documents of a corpus in a vector engine as a space in memory; texts come on demand."""
    doc_ids, document_vectors = reach.store.sample(n_documents, seed)
    corpus = Corpus(doc_ids, _StoreTexts(reach.store, doc_ids, {}), name=reach.name)
    return Space(corpus, Embeddings(doc_ids, torch.from_numpy(document_vectors), reach.encoder))


def check_decodable(decoder: Decoder) -> None:
    """Raise an error if a decoder cannot search a corpus in a vector engine.

    An engine only returns the nearest vectors: a DataError names a scorer that needs more, a ParamError asks for the
    depth that a reranker needs.
    """
    retrieve, rerank = decoder.retrieve, decoder.rerank
    if decoder.per_source is not None:
        raise DataError(
            f"per_source needs the column {decoder.source!r} of every document, and a vector engine returns none; load "
            "the corpus as a file, or leave per_source out"
        )
    if not retrieve.inner_product:
        rerank_hint = "" if retrieve.corpus_wide else ", and rerank a depth by this"
        raise DataError(
            f"{retrieve.label} cannot search a corpus in a vector engine, which finds documents by the inner product "
            f"of its own vectors only; retrieve by dense{rerank_hint}"
        )
    scale = decoder.select.relevance_scale if isinstance(decoder.select, TradeOffSelector) else "auto"
    if decoder.depth is None and scale not in ("auto", "raw"):
        problem = (
            "relevance_scale must be auto or raw in a vector engine, which does not return the whole corpus; got "
            f"{scale!r}. Set a depth, say"
        )
        raise ParamError(f"{problem} depth=500, over which to scale", f"{problem} 500, over which to scale")
    if rerank is None:
        return
    if rerank.corpus_wide:
        raise DataError(f"{rerank.label} reranks by the whole corpus, which is in a vector engine; choose another one")
    if decoder.depth is None:
        problem = f"{rerank.label} would rerank a whole corpus in a vector engine"
        raise ParamError(f"{problem}; set depth=, say 500", f"{problem}; set a depth, say 500")


class _StoreTexts(TextSource):
    """Texts of documents in a store, fetched on demand and cached."""

    def __init__(self, store: VectorStore, ids: Sequence[str], known_texts: dict[str, str]) -> None:
        self._store, self._ids, self._texts_by_id = store, ids, known_texts

    def __len__(self) -> int:
        return len(self._ids)

    def read_rows(self, rows: Sequence[int]) -> list[str]:
        """Return the texts of rows, in the given order; missing ones are fetched by one request."""
        wanted_ids = [self._ids[row] for row in rows]
        missing_ids = list(dict.fromkeys(doc_id for doc_id in wanted_ids if doc_id not in self._texts_by_id))
        # One request for all missing texts: each round trip costs milliseconds.
        if missing_ids:
            self._texts_by_id.update(zip(missing_ids, self._store.texts(missing_ids), strict=True))
        return [self._texts_by_id[doc_id] for doc_id in wanted_ids]


class _ReturnedDocuments:
    """The documents that a store returned so far, in order of arrival, which become rows of a space."""

    def __init__(self, store: VectorStore, encoder: EncoderRef | None) -> None:
        """Start without documents, with room for vectors of the store's dimension."""
        self.ids: list[str] = []
        self.row_by_id: dict[str, int] = {}
        self._store, self._encoder = store, encoder
        self._vectors = np.empty((1024, store.dimension), np.float32)
        self._texts_by_id: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self.ids)

    def forget_texts(self) -> None:
        """Clear the cached texts."""
        self._texts_by_id.clear()

    def extend(self, new_documents: Mapping[str, Document]) -> None:
        """Append documents, by id, that are not among the rows yet."""
        for doc_id, document in new_documents.items():
            if doc_id in self.row_by_id:
                continue
            row_index = self.row_by_id[doc_id] = len(self.ids)
            # Doubling keeps the cost of growth linear; older spaces keep the array that they were made of.
            if row_index == len(self._vectors):
                self._vectors = np.concatenate([self._vectors, np.empty_like(self._vectors)])
            self._vectors[row_index] = document.vector
            self.ids.append(doc_id)

    def build_ranking(self, answer: PartialAnswer, k: int, certainty: Mapping[str, Any]) -> Ranking:
        """Return one query's ranking as rows of the space that all documents returned so far make.

        certainty: figures that are added to its info
        """
        ranking, ids = answer.ranking, answer.picked_ids
        # All of the pool joins the space while that is small, else the picks alone.
        returned_ids = list(answer.pool) if len(self) < MAX_CACHED_ROWS else ids
        self.extend({doc_id: answer.pool[doc_id] for doc_id in returned_ids} | answer.left_out)
        index = torch.full((1, k), -1, dtype=torch.int64)
        gain = torch.zeros(1, k, dtype=ranking.gain.dtype)
        index[0, : len(ids)] = torch.tensor([self.row_by_id[doc_id] for doc_id in ids], dtype=torch.int64)
        gain[0, : len(ids)] = ranking.gain[0, : len(ids)]
        info = {**ranking.info[0], **certainty}
        # Metrics leave the document out of the judgements, too.
        for doc_id in answer.left_out:
            info["own_document"] = self.row_by_id[doc_id]
        # The selector names tied documents by position in the pool, rankings by row of the space.
        if info.get("tied"):
            new_rows = {old_row: self.row_by_id.get(doc_id) for old_row, doc_id in enumerate(answer.order)}
            info["tied"] = {new_rows[row]: [new_rows[twin] for twin in twins] for row, twins in info["tied"].items()}
        return Ranking(index, gain, (info,))

    def space(self) -> Space:
        """Return a space of all returned documents."""
        doc_ids = tuple(self.ids)
        vectors = torch.from_numpy(self._vectors[: len(doc_ids)])
        corpus = Corpus(doc_ids, _StoreTexts(self._store, doc_ids, self._texts_by_id), name=self._store.ref.collection)
        space = Space(corpus, Embeddings(doc_ids, vectors, self._encoder))
        space.is_complete = False
        return space
