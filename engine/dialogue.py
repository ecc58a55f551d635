"""The talk with a vector engine about some queries: pools first, then questions, until nothing is open."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from engine.candidates import Candidates
from engine.data.stores import SearchResult, StoreRef, VectorStore, Where
from engine.data.stores.store import CHANGED, ShortResultError
from engine.decoder import Decoder, decode
from engine.errors import DataError
from engine.matrix import Matrix, products
from engine.progress import current_reporter, stoppable
from engine.solvers.questions import LinearQuestion
from engine.space import QueryBatch, Space
from engine.values import Corpus, Embeddings, EncoderRef, Ranking

T = TypeVar("T")

FIRST = 500
"""How many documents a query's pool begins with."""
MARGIN = 100
"""How many documents a pool has beside those that an answer needs of it."""
LEAST = 20
"""How many documents a question asks for beside those at hand above its limit, which the engine returns too."""
ROUNDS = 8
"""How often an answer asks at most; a proof goes on for as many scans."""
MOST_NUMBERS = 1 << 25
"""How many numbers of vectors come back in one round trip at most (128 MiB): more questions make several."""
PROVEN, ENGINE, POOL = "proven", "engine", "pool"
"""Scopes of an answer: proven for the whole corpus, for what an index finds of it, for its candidates only."""
HOPELESS = 1000
"""A question above whose limit so many documents at hand are is not asked: the answer stays open; a proof asks it."""
SLACK = 1e-12
"""Rounding of a bound from held floors, relative to what it bounds."""


@dataclass(frozen=True)
class Document:
    """One that came back."""

    vector: np.ndarray  # (d,) float32
    place: int | None


@dataclass(frozen=True)
class Bound:
    """No document that did not come back has a larger gain while `given` are among the picks made."""

    given: frozenset[str]
    most: float
    exact: bool


class PoolMatrix(Matrix):
    """Rows of a larger corpus: what holds of all of them is taken from there."""

    def __init__(self, vectors: Tensor, unit: bool | None, longest: float | None) -> None:
        super().__init__(vectors, cached=True)
        if unit is not None:
            self.unit = unit
        self.max_norm = max(self.max_norm, longest or 0.0)


@dataclass(eq=False, kw_only=True)
class PartialAnswer:
    """One query's answer under way: its pool, and what is known of all other documents."""

    point: np.ndarray  # (d,) float64
    documents: int  # how many there are
    unit: bool | None  # whether all of them have length 1, None where that is not known
    longest: float | None  # no document's vector is longer, None where that is not known
    encoder: EncoderRef | None = None
    pool: dict[str, Document] = field(default_factory=dict)
    order: list[str] = field(default_factory=list)  # of the pool, as ties go by it
    cuts: list[tuple[np.ndarray, float, bool]] = field(default_factory=list)  # unit point, floor, exact
    bounds: list[Bound] = field(default_factory=list)
    questions: Sequence[LinearQuestion] | None = None
    whole: bool = False  # whether every document that matches came back
    trips: int = 0
    scans: int = 0
    asked: int = 0
    plan: str = ""
    ranking: Ranking = field(init=False)
    matrix: PoolMatrix = field(init=False)

    def add(self, result: SearchResult, asked: int, question: LinearQuestion | None) -> None:
        """Take what came back for one point."""
        places = result.places[0] if result.places else None
        for at, name in enumerate(result.ids[0]):
            own = Document(result.vectors[0][at], None if places is None else int(places[at]))
            if self.pool.setdefault(name, own) is not own and not np.array_equal(self.pool[name].vector, own.vector):
                raise DataError(f"the document {name!r} {CHANGED}: its vector is another one now; ask again")
        self.asked += asked
        self.plan = result.plan
        floor, point = float(result.floor[0]), self.point if question is None else question.point
        # As many as match, so an index has overlooked none.
        self.whole = self.whole or floor == -math.inf or len(self.pool) == self.documents
        length = float(np.linalg.norm(point))
        if length > 0:
            self.cuts.append((point / length, floor / length, result.exact))
        if question is not None and question.value is not None:
            given = frozenset(self.order[row] for row in question.required_picks)
            self.bounds.append(Bound(given, question.value - question.limit + floor, result.exact))

    def sorted(self) -> list[str]:
        """The pool in the store's order, as ties go by it."""
        if len(self.order) < len(self.pool):
            rank = {name: (doc.place is None, doc.place or 0, name) for name, doc in self.pool.items()}
            self.order = sorted(self.pool, key=rank.__getitem__)
        return self.order

    def candidates(self) -> Candidates:
        """The pool as a corpus of its own."""
        vectors = torch.from_numpy(np.stack([self.pool[name].vector for name in self.sorted()]))
        self.matrix = PoolMatrix(vectors, self.unit, self.longest)
        query = torch.from_numpy(self.point).unsqueeze(0).to(vectors)
        return Candidates(vectors, products(vectors, query), query, self.matrix)

    def solve(self, decoder: Decoder, k: int) -> None:
        """The selector's answer from the pool, and what would prove it; nothing where the pool is as it was."""
        if len(self.order) == len(self.pool):
            return
        candidates = self.candidates()
        kind = type(decoder.select)
        self.ranking = kind.select_grid([decoder.select], candidates, min(k, candidates.count))[0]
        self.questions = None if self.whole else decoder.select.questions(candidates, self.ranking)

    def solve_pool(self, decoder: Decoder, query: QueryBatch, k: int, store: VectorStore) -> None:
        """The decoder's answer within its depth, its second scorer's if it has one."""
        names = tuple(self.sorted())
        texts = store.texts(names) if decoder.rerank is not None else [""] * len(names)
        vectors = torch.from_numpy(np.stack([self.pool[name].vector for name in names]))
        space = Space(Corpus(names, tuple(texts)), Embeddings(names, vectors, self.encoder), "cpu")
        self.ranking = decode(decoder, space, Embeddings(query.ids, query.vectors, self.encoder, query.texts), k)

    def open(self, exact: bool) -> list[LinearQuestion]:
        """The questions to ask next; exact: of all that no exact search has answered, else of those worth asking."""
        if self.questions is None or self.whole:
            return []
        left = [q for q in self.questions if not self._closed(q, exact) and q.point.any()]
        if exact:
            return left
        # What hangs on a pick that stays open stays open with it.
        lost = frozenset().union(*(q.picks for q in left if self.above(q) > HOPELESS))
        return [q for q in left if not q.picks <= lost]

    def above(self, question: LinearQuestion) -> int:
        """Count the fetched documents above the limit, which an engine would return first."""
        return int((self.matrix.vectors.numpy() @ question.point.astype(np.float32) > question.limit).sum())

    @property
    def picked(self) -> list[str]:
        """The ids of the answer, best first."""
        return [self.order[row] for row in self.ranking.rows()]

    def _closed(self, question: LinearQuestion, exact: bool) -> bool:
        own: LinearQuestion | None = question
        while own is not None:
            if own.point.any() and self._most(own.point, exact) < own.limit:  # a tie may go to what did not come back
                return True
            if own.value is not None:
                given = {self.order[row] for row in own.required_picks}
                if any(b.given <= given and b.most < own.value and (b.exact or not exact) for b in self.bounds):
                    return True
            own = own.alternative
        return False

    def _most(self, point: np.ndarray, exact: bool) -> float:
        """No document that did not come back has a larger inner product: from held floors and the longest length.

        max of u·q over |u| ≤ ρ, u·c ≤ s is s·p + √(ρ² − s²)·|q − pc| with p = q·c, where it is not ρ|q|.
        """
        cuts = [cut for cut in self.cuts if cut[2] or not exact]
        if not cuts:
            return math.inf
        units, floors = np.stack([unit for unit, _, _ in cuts]), np.array([floor for _, floor, _ in cuts])
        length = float(np.linalg.norm(point))
        along = units @ point
        across = np.linalg.norm(point - along[:, None] * units, axis=1)
        if self.longest is None:
            # Nothing is known of lengths: only a question asked before answers this one.
            same = (across <= SLACK * length) & (along > 0)
            return float((floors * along)[same].min()) + SLACK * length if same.any() else math.inf
        longest = self.longest
        cut = np.where(
            along * longest > floors * length,
            floors * along + np.sqrt(np.maximum(longest**2 - floors**2, 0)) * across,
            longest * length,
        )
        return min(float(cut.min()), longest * length) + SLACK * longest * length

    def certainty(self, decoder: Decoder, snapshots: bool, prove: bool) -> dict[str, Any]:
        """Return the answer's scope and its evidence, as documented in `Reach.decode_grid`."""
        returned = len(self.ranking.rows())
        scope, left = POOL, returned
        if decoder.depth is None and (self.questions is not None or self.whole):
            # A pool of all documents needs no question.
            questions = [] if self.whole else self.questions or []
            sure = snapshots and self.unit is not None and (self.whole or self.longest is not None)
            proven = [sure and self._closed(q, exact=True) for q in questions]
            closed = [self._closed(q, exact=False) for q in questions]
            scope = PROVEN if sure and all(proven) else ENGINE if all(closed) else POOL
            picks = [q.picks for q, done in zip(questions, proven, strict=True) if not done]
            left = min(returned, len(frozenset().union(*picks))) if sure or questions else returned
        depth = {"depth": decoder.depth} if decoder.depth is not None else {}
        return {
            "scope": scope,
            "open": left,
            "ids": tuple(self.picked),
            "trips": self.trips,
            "questions": self.asked,
            "scans": self.scans,
            "rows": len(self.pool),
            "documents": self.documents,
            "provable": snapshots and decoder.depth is None and self.questions is not None and not prove,
            "plan": self.plan,
            **depth,
        }


@dataclass(frozen=True)
class Dialogue:
    """What is asked: a store, of which documents, what is known of them, and whether it looks at all each time."""

    store: VectorStore
    where: Where | None
    ref: StoreRef
    exact: bool

    def pools(self, points: np.ndarray, size: int) -> list[SearchResult]:
        """The `size` most relevant documents of each query, (B, d)."""
        found = []
        for part in _parts(range(len(points)), size * self.ref.dimension):
            result = self.store.search(points[part], size, self.exact, self.where, self.ref)
            found += [result.only(at) for at in range(len(part))]
        return found

    def settle(self, answers: Sequence[PartialAnswer], decoder: Decoder, k: int, prove: bool) -> None:
        """Decode on the pools, ask what is open, and again, until nothing is or the rounds are used up.

        prove: then have the engine look at all documents, as often
        """
        rounds, scans, lost = 0, 0, frozenset[PartialAnswer]()
        report = stoppable(*current_reporter(), "asking was stopped")
        while True:
            report(rounds + scans, ROUNDS * (1 + prove), "asking the engine")
            for answer in answers:
                answer.solve(decoder, k)
            asking = [] if rounds == ROUNDS else [answer for answer in answers if answer not in lost]
            if asked := [(answer, question) for answer in asking for question in answer.open(exact=False)]:
                rounds += 1
                try:
                    self._ask(asked, rounds, self.exact)
                except ShortResultError:
                    # The index ends here: what is open stays so, unless all documents are looked at.
                    lost |= {answer for answer, _ in asked}
                continue
            asked = [(a, q) for a in answers for q in a.open(exact=True)] if prove and scans < ROUNDS else []
            if not asked:
                return
            scans += 1
            self._ask(asked, scans, True)

    def _ask(self, asked: Sequence[tuple[PartialAnswer, LinearQuestion]], turn: int, exact: bool) -> None:
        """One round trip with every open question of every answer."""
        sizes = [(LEAST + answer.above(q) * 5 // 4) << (turn - 1) // 2 for answer, q in asked]
        for part in _parts(list(zip(asked, sizes, strict=True)), max(sizes) * self.ref.dimension):
            points, wanted = np.stack([q.point for (_, q), _ in part]), [n for _, n in part]
            result = self.store.search(points, wanted, exact, self.where, self.ref)
            for at, ((answer, question), _) in enumerate(part):
                answer.add(result.only(at), 1, question)
        for answer in dict.fromkeys(answer for answer, _ in asked):
            answer.trips += 1
            answer.scans += result.exact


def _parts(entries: Sequence[T], numbers: int) -> list[list[T]]:
    """Entries that are asked about together, so that what comes back, `numbers` for each, fits in memory."""
    step = max(1, MOST_NUMBERS // numbers)
    return [list(entries[start : start + step]) for start in range(0, len(entries), step)]
