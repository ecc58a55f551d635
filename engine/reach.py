"""A corpus in a vector engine: decoded on what it returned, and asked until nothing that it holds back could matter."""

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
from engine.data.stores.store import CHANGED
from engine.decoder import SET_SIZE, Decoder, QueryLike, check_encoder, query_batch
from engine.dialogue import FIRST, MARGIN, Dialogue, Document, PartialAnswer
from engine.errors import DataError, ParamError
from engine.space import Elsewhere, Space
from engine.values import Corpus, Embeddings, EncoderRef, Ranking, TextSource

KEPT_QUERIES = 64
"""Pools of queries that are kept for the next setting of a slider."""
KEPT_ROWS = 100_000
"""Up to so many documents a reach's space has all that came back; then it grows by what answers hold."""


class Reach(Elsewhere):
    """A corpus in a vector engine, which decoders search as they do a Space.

    store: see `engine.data.stores`; where: only documents with these values; exact: whether the engine looks at all
    documents every time, else it asks its index. An answer's documents are rows of `space`, which grows. Raises
    DataError or ParamError.
    """

    def __init__(
        self, store: VectorStore, where: Where | None = None, exact: bool = False, encoder: EncoderRef | None = None
    ) -> None:
        self.store, self.where, self.exact = store, where, exact
        self._encoder = _known(encoder or store.encoder)
        self._lock = threading.RLock()
        ref = store.ref_of(where)
        if not ref.count:
            raise DataError(f"{ref.collection} holds no documents; load some: frontier store load")
        self._state = _State(store, ref, self._encoder)

    def __len__(self) -> int:
        return self.ref.count

    @property
    def ref(self) -> StoreRef:
        return self._state.ref

    @property
    def probe(self) -> Space:
        return self._state.probe

    def __reduce__(self) -> tuple[Any, ...]:
        # A worker opens the store itself: what travels is its name.
        return _reopened, (self.ref, self.where, self.exact, self.encoder)

    @property
    def space(self) -> Space:
        """What answers are about: an ordinary space of all documents that came back so far, with their texts.

        It grows at its end only, until the store changes: then it begins anew.
        """
        with self._lock:
            return self._state.space()

    def prove(self, decoder: Decoder, queries: QueryLike, k: int = 10) -> Ranking:
        """The answers of `decode`, then the engine is made to look at all documents until nothing is found.

        Raises DataError where the engine cannot.
        """
        return self._decode([decoder], queries, k, prove=True)[0]

    def decode_grid(self, decoders: Sequence[Decoder], queries: QueryLike, k: int = 10) -> list[Ranking]:
        """The answers of `engine.decode` for each decoder.

        info, beside what the selector says of its candidates: scope, "proven" of the whole corpus, "engine" as far as
        the engine's index found what there is, or "pool" of the candidates only; open, how many picks are not; ids;
        trips, questions, scans and rows that the answer took; documents, how many there are; plan, what the engine did;
        provable, whether `prove` could do more; recall, what `frontier store check` measured that the index finds of
        queries and of such questions, (queries, residuals), None where it did not; depth, the decoder's.
        """
        return self._decode(decoders, queries, k, prove=False)

    def pool(self, query: QueryLike) -> tuple[Space, list[int]]:
        """The documents that an answer to one query begins with, as a space of their own, and their rows in `space`."""
        with self.store.snapshot():
            state = self._now()
            point = query_batch(state.probe, query).vectors[:1].double().cpu().numpy()
            answer = self._begun(state, point, FIRST, self.exact)[0]
        documents = _Documents(self.store, self.encoder)
        documents.extend({name: answer.pool[name] for name in answer.sorted()})
        with self._lock:
            state.documents.extend(answer.pool)
            rows = [state.documents.row[name] for name in documents.ids]
        return documents.space(), rows

    @without_autocast
    def _decode(self, decoders: Sequence[Decoder], queries: QueryLike, k: int, prove: bool) -> list[Ranking]:
        k, rankings = SET_SIZE.check(k), []
        for decoder in decoders:
            check_decodable(decoder)
        if not isinstance(queries, Embeddings | torch.Tensor | np.ndarray):
            check_encoder(self)
        with self.store.snapshot():
            state = self._now()
            batch = query_batch(state.probe, queries)
            points = batch.vectors.double().cpu().numpy()
            dialogue = Dialogue(self.store, self.where, state.ref, self.exact)
            for decoder in decoders:
                # A few more than are needed, so that the floor lies below the last that counts.
                needed = decoder.depth or max(k, decoder.select.ground_size)
                exact = self.exact or (prove and decoder.depth is not None)
                answers = self._begun(state, points, max(FIRST, MARGIN + needed), exact)
                if decoder.depth is None:
                    dialogue.settle(answers, decoder, k, prove)
                else:
                    for at, answer in enumerate(answers):
                        answer.solve_pool(decoder, batch.block(at, at + 1), k, self.store)
                told = [answer.certainty(decoder, self.store.snapshots, prove) for answer in answers]
                with self._lock:
                    parts = [
                        state.documents.ranking_of(answer, k, {**said, "recall": state.recall})
                        for answer, said in zip(answers, told, strict=True)
                    ]
                rankings.append(Ranking.joined(parts))
        return rankings

    def _begun(self, state: "_State", points: np.ndarray, size: int, exact: bool) -> list[PartialAnswer]:
        """Answers to queries, (B, d), that have their pool of `size` documents; pools are kept for the next time."""
        keys = [(exact, point.tobytes(), size) for point in points]
        with self._lock:
            known = {key: state.pools[key] for key in keys if key in state.pools}
        missing = [at for at, key in enumerate(keys) if key not in known]
        dialogue = Dialogue(self.store, self.where, state.ref, exact)
        asked = dialogue.pools(points[missing], size) if missing else []
        known |= {keys[at]: result for at, result in zip(missing, asked, strict=True)}
        with self._lock:
            state.pools |= known
            while len(state.pools) > KEPT_QUERIES:
                state.pools.popitem(last=False)
        answers = []
        for at, key in enumerate(keys):
            ref = state.ref
            answer = PartialAnswer(
                point=points[at], documents=ref.count, unit=ref.unit, longest=ref.longest, encoder=self.encoder
            )
            answer.add(known[key], 0, None)
            answer.trips, answer.scans = int(at in missing), int(at in missing and known[key].exact)
            answers.append(answer)
        return answers

    def _now(self) -> "_State":
        """What is known of the store as this thread's snapshot has it: nothing from before where it has changed."""
        ref = self.store.ref_of(self.where)
        with self._lock:
            if ref == self._state.ref:
                if ref.snapshot != self._state.ref.snapshot:
                    # Ids, vectors and places are the same; texts may be others.
                    self._state.ref = ref
                    self._state.documents.forget_texts()
                return self._state
        state = _State(self.store, ref, self._encoder)
        with self._lock:
            self._state = state
        return state


class _State:
    """What is known of a store in one state: an answer keeps to its own, whatever another thread sees meanwhile."""

    def __init__(self, store: VectorStore, ref: StoreRef, encoder: EncoderRef | None) -> None:
        self.ref = ref
        measured = measured_recall(store)
        self.recall: tuple[float, float] | None = None
        # What a scan found says nothing of an index, nor what was measured over other documents.
        if measured is not None and not measured.sequential and measured.digest == ref.digest:
            self.recall = measured.queries, measured.residuals
        self.pools: OrderedDict[tuple[bool, bytes, int], SearchResult] = OrderedDict()
        self.documents = _Documents(store, encoder)
        self._space: Space | None = None
        # Queries are scaled where all documents are unit; where nobody knows, where two are.
        known = None if ref.unit is None else (("",), np.eye(1, ref.dimension, dtype=np.float32) * (2 - ref.unit))
        names, vectors = known or next(store.scan(2))
        few = Embeddings(names, torch.from_numpy(vectors), encoder)
        self.probe = Space(Corpus(names, ("",) * len(names)), few, "cpu")

    def space(self) -> Space:
        """The documents that came back, with their texts."""
        if self._space is None or len(self._space) < len(self.documents):
            self._space = self.documents.space()
        return self._space


def attach(name: str, where: Where | None = None, exact: bool = False) -> Reach:
    """The corpus "name/collection" of FRONTIER_HOME/stores.toml, in its vector engine.

    where: only documents with these values; exact: have the engine look at all documents every time. Raises DataError.
    """
    from engine.data.stores.config import open_store

    return Reach(open_store(name, where), where, exact)


def _known(encoder: EncoderRef | None) -> EncoderRef | None:
    """The encoder with the digest of its weights, read now where only its name was given."""
    if encoder is None or encoder.digest:
        return encoder
    return TextEncoder(encoder.name, dtype=encoder.dtype).reference


def _reopened(ref: StoreRef, where: Where | None, exact: bool, encoder: EncoderRef | None = None) -> Reach:
    """The reach in another process, over the same documents; the encoder's weights need not lie there."""
    from engine.data.stores.config import open_store

    reach = Reach(open_store(ref.collection, where), where, exact, encoder)
    if reach.ref.digest != ref.digest:
        raise DataError(f"{ref.collection} {CHANGED}: it is no longer what the sweep began with; sweep again")
    return reach


def sample(reach: Reach, count: int, seed: int = 0) -> Space:
    """Documents of a reach at random, with their texts, as a space of their own."""
    names, vectors = reach.store.sample(count, seed)
    corpus = Corpus(names, _Texts(reach.store, names, {}), name=reach.name)
    return Space(corpus, Embeddings(names, torch.from_numpy(vectors), reach.encoder))


def check_decodable(decoder: Decoder) -> None:
    """Raise a DataError that names the stage which needs more than an engine's nearest vectors."""
    retrieve, rerank = decoder.retrieve, decoder.rerank
    if not retrieve.inner_product:
        raise DataError(
            f"{retrieve.label} cannot search a corpus in a vector engine, which finds documents by the inner product "
            "of its own vectors only; retrieve by dense" + ", and rerank a depth by this" * (not retrieve.corpus_wide)
        )
    if rerank is None:
        return
    if rerank.corpus_wide:
        raise DataError(f"{rerank.label} reranks by the whole corpus, which is in a vector engine; choose another one")
    if decoder.depth is None:
        raise ParamError(f"{rerank.label} would rerank a whole corpus in a vector engine; pass depth=, say depth=500")


class _Texts(TextSource):
    """Texts of documents in a store, fetched when they are looked at and kept."""

    def __init__(self, store: VectorStore, ids: Sequence[str], known: dict[str, str]) -> None:
        self._store, self._ids, self._known = store, ids, known

    def __len__(self) -> int:
        return len(self._ids)

    def many(self, rows: Sequence[int]) -> list[str]:
        wanted = [self._ids[row] for row in rows]
        missing = list(dict.fromkeys(name for name in wanted if name not in self._known))
        if missing:
            self._known.update(zip(missing, self._store.texts(missing), strict=True))
        return [self._known[name] for name in wanted]


class _Documents:
    """Documents that came back, in the order they did."""

    def __init__(self, store: VectorStore, encoder: EncoderRef | None) -> None:
        self.ids: list[str] = []
        self.row: dict[str, int] = {}
        self._store, self._encoder = store, encoder
        self._vectors = np.empty((1024, store.dimension), np.float32)
        self._texts: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self.ids)

    def forget_texts(self) -> None:
        """Have texts fetched anew."""
        self._texts.clear()

    def extend(self, documents: Mapping[str, Document]) -> None:
        """Add those that are not here yet."""
        for name, document in documents.items():
            if name in self.row:
                continue
            at = self.row[name] = len(self.ids)
            if at == len(self._vectors):
                self._vectors = np.concatenate([self._vectors, np.empty_like(self._vectors)])
            self._vectors[at] = document.vector
            self.ids.append(name)

    def ranking_of(self, answer: PartialAnswer, k: int, told: Mapping[str, Any]) -> Ranking:
        """The answer of one query, its documents as rows of the space; told: what it says of itself."""
        ranking, ids = answer.ranking, answer.picked
        wanted = list(answer.pool) if len(self) < KEPT_ROWS else ids
        self.extend({name: answer.pool[name] for name in wanted})
        index = torch.full((1, k), -1, dtype=torch.int64)
        gain = torch.zeros(1, k, dtype=ranking.gain.dtype)
        index[0, : len(ids)] = torch.tensor([self.row[name] for name in ids], dtype=torch.int64)
        gain[0, : len(ids)] = ranking.gain[0, : len(ids)]
        info = {**ranking.info[0], **told}
        if info.get("tied"):
            renamed = {at: self.row.get(name) for at, name in enumerate(answer.order)}
            info["tied"] = {renamed[i]: [renamed[j] for j in others] for i, others in info["tied"].items()}
        return Ranking(index, gain, (info,))

    def space(self) -> Space:
        """A space of them all."""
        ids = tuple(self.ids)
        vectors = torch.from_numpy(self._vectors[: len(ids)])
        corpus = Corpus(ids, _Texts(self._store, ids, self._texts), name=self._store.ref.collection)
        return Space(corpus, Embeddings(ids, vectors, self._encoder))
