"""The requests to a vector engine: pools first, then certificate queries until no pick is open."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from engine.candidates import Candidates
from engine.data.stores import SearchResult, StoreRef, VectorStore, Where
from engine.data.stores.results import CHANGED
from engine.data.stores.store import ShortResultError
from engine.decoder import Decoder, decode
from engine.errors import DataError
from engine.matrix import Matrix, products
from engine.progress import counted, current_reporter, with_cancellation
from engine.solvers.certificate_queries import LinearQuestion
from engine.space import QueryBatch, Space
from engine.values import Corpus, Embeddings, EncoderRef, Ranking

RequestEntry = TypeVar("RequestEntry")

INITIAL_POOL_SIZE = 500
"""Documents in a query's first pool."""
POOL_MARGIN = 100
"""Documents in a pool beyond those that the answer needs."""
MIN_QUESTION_RESULTS = 20
"""Results that a question requests beyond the known documents above its limit."""
MAX_QUESTION_ROUNDS = 8
"""Rounds of questions per answer; a proof adds as many scans."""
MAX_RESPONSE_NUMBERS = 1 << 25
"""Vector entries that one round trip returns at most (128 MiB); more questions take several trips."""
SCOPE_PROVEN, SCOPE_ENGINE, SCOPE_POOL = "proven", "engine", "pool"
"""Certainty of an answer: for the full corpus, for what the index finds, or for its candidates only."""
MAX_DOCUMENTS_ABOVE = 1000
"""With more known documents above its limit, a question is asked for a proof only."""
BOUND_TOLERANCE = 1e-12
"""Rounding error of bounds from recorded floors, relative to the bounded value."""


@dataclass(frozen=True)
class Document:
    """A document that the vector engine returned: its vector, and its position in the store if known."""

    vector: np.ndarray  # (d,) float32
    store_position: int | None


@dataclass(frozen=True)
class Bound:
    """An upper bound on what any unseen document can gain, as a search of the vector engine has left it.

    It holds while the required picks, ids, are among those made; exact: the search scanned all documents.
    """

    required_picks: frozenset[str]
    max_gain: float
    exact: bool


class PoolMatrix(Matrix):
    """The vectors that a store returned, as a Matrix with the bound on lengths of the whole corpus.

    So error bounds hold for documents that were not returned as well.
    """

    def __init__(self, vectors: Tensor, unit: bool | None, longest: float | None) -> None:
        """Take the vectors that were returned, (m, d), and what the store knows of all its documents.

        unit: True if all have length 1, False if not; longest: the largest length; None for each that is unknown
        """
        super().__init__(vectors, cached=True)
        if unit is not None:
            self.unit = unit
        self.max_norm = max(self.max_norm, longest or 0.0)


@dataclass(eq=False, kw_only=True)
class PartialAnswer:
    """One query's answer in progress: the documents returned so far, and bounds on all unseen ones.

    Documents are picked from those returned, the pool; questions ask the vector engine if an unseen one could change
    the picks.
    """

    point: np.ndarray  # (d,) float64
    collection: str  # of the store, for errors
    documents: int  # how many there are
    is_unit: bool | None  # whether all of them have length 1, None where that is not known
    max_length: float | None  # no document's vector is longer, None where that is not known
    encoder: EncoderRef | None = None
    own_id: str | None = None  # of the document that the query is, which is no candidate
    left_out: dict[str, Document] = field(default_factory=dict)  # that document, once it came back
    pool: dict[str, Document] = field(default_factory=dict)
    order: list[str] = field(default_factory=list)  # of the pool, as ties go by it
    cuts: list[tuple[np.ndarray, float, bool]] = field(default_factory=list)  # unit point, floor, exact
    bounds: list[Bound] = field(default_factory=list)
    questions: Sequence[LinearQuestion] | None = None
    is_complete: bool = False  # whether every document that matches came back
    n_trips: int = 0
    n_scans: int = 0
    n_questions: int = 0
    plan: str = ""
    ranking: Ranking = field(init=False)
    matrix: PoolMatrix = field(init=False)

    def add(self, result: SearchResult, n_questions: int, question: LinearQuestion | None) -> None:
        """Add the results of one search: its documents to the pool, and a bound on all that it did not return.

        The bound is the search's floor: a document that was not returned has no larger product with the searched point.
        Point and floor are remembered as a "cut". n_questions: number of questions that the request answers; question:
        the one whose point was searched, None for the query itself. Raises DataError if the store changed in between,
        or contradicts what it returned before.
        """
        ranks = result.places[0] if result.places else None
        earlier_documents = {**self.pool, **self.left_out}
        for position, doc_id in enumerate(result.ids[0]):
            document = Document(result.vectors[0][position], None if ranks is None else int(ranks[position]))
            # Another vector under a known id means that the store changed between two requests.
            documents = self.left_out if doc_id == self.own_id else self.pool
            known_document = documents.setdefault(doc_id, document)
            if known_document is not document and not np.array_equal(known_document.vector, document.vector):
                raise DataError(
                    f"the document {doc_id!r} of {self.collection} {CHANGED}: its vector is another one now; ask again"
                )
        self.n_questions += n_questions
        self.plan = result.plan
        floor, point = float(result.floor[0]), self.point if question is None else question.point
        n_returned = len(self.pool) + len(self.left_out)
        # A floor of −∞, or as many documents as there are: none was overlooked.
        self.is_complete = self.is_complete or floor == -math.inf or n_returned == self.documents
        if n_returned > self.documents:
            raise DataError(
                f"{self.collection} returned {counted(n_returned, 'document')} and says that {self.documents:,} "
                "match: it "
                f"{CHANGED}, or miscounts them"
            )
        length = float(np.linalg.norm(point))
        # Points of length 1 and floors scaled alike make cuts comparable; a zero point bounds nothing.
        if length > 0:
            cut = (point / length, floor / length, result.exact)
            returned_ids = set(result.ids[0])
            self._check_cuts([doc for name, doc in earlier_documents.items() if name not in returned_ids], [cut])
            new_ids = returned_ids - earlier_documents.keys()
            self._check_cuts([self.pool.get(name) or self.left_out[name] for name in new_ids], self.cuts)
            self.cuts.append(cut)
        if question is not None and question.value is not None:
            required_picks = frozenset(self.order[row] for row in question.required_picks)
            self.bounds.append(Bound(required_picks, question.value - question.limit + floor, result.exact))

    def _check_cuts(self, documents: Sequence[Document], cuts: Sequence[tuple[np.ndarray, float, bool]]) -> None:
        """Raise a DataError if an exact search left out one of these documents, though it lies above the floor."""
        exact_cuts = [(unit_point, floor) for unit_point, floor, is_exact in cuts if is_exact]
        if not documents or not exact_cuts:
            return
        unit_points, floors = zip(*exact_cuts, strict=True)
        vectors = np.stack([document.vector for document in documents]).astype(np.float64)
        excess = vectors @ np.stack(unit_points).T - np.array(floors)
        if excess.max() > BOUND_TOLERANCE * float(np.linalg.norm(vectors, axis=1).max()):
            raise DataError(
                f"{self.collection} contradicts itself: an exact search left out a document that lies "
                f"{float(excess.max()):.3g} above the worst of those it returned; it {CHANGED}, or does not look at all"
            )

    def sort_pool(self) -> list[str]:
        """Return the ids of the pool in the store's order, by which ties are broken; unplaced ones come last."""
        # Documents are only added, so the same number means the same pool.
        if len(self.order) < len(self.pool):

            def sort_key(doc_id: str) -> tuple[bool, int, str]:
                """Sort by position in the store, then, without one, by id."""
                position = self.pool[doc_id].store_position
                return position is None, position or 0, doc_id

            self.order = sorted(self.pool, key=sort_key)
        return self.order

    def candidates(self) -> Candidates:
        """Return the pool as a corpus of its own for a selector, with relevance to the query."""
        vectors = torch.from_numpy(np.stack([self.pool[doc_id].vector for doc_id in self.sort_pool()]))
        self.matrix = PoolMatrix(vectors, self.is_unit, self.max_length)
        query = torch.from_numpy(self.point).unsqueeze(0).to(vectors)
        return Candidates(vectors, products(vectors, query), query, self.matrix)

    def solve(self, decoder: Decoder, k: int) -> None:
        """Select k documents from the pool, and derive questions that tell if unseen ones could change them.

        Nothing is done if the pool is unchanged since the last time.
        """
        if not self.pool:
            self.ranking, self.questions = _make_empty_ranking(), None
            return
        if len(self.order) == len(self.pool):
            return
        candidates = self.candidates()
        selector_class = type(decoder.select)
        self.ranking = selector_class.select_grid([decoder.select], candidates, min(k, candidates.count))[0]
        self.questions = None if self.is_complete else decoder.select.questions(candidates, self.ranking)

    def solve_pool(self, decoder: Decoder, query: QueryBatch, k: int, store: VectorStore) -> None:
        """Rank the pool by a decoder with a depth: rerank it, if the decoder does, and select k documents."""
        doc_ids = tuple(self.sort_pool())
        if not doc_ids:
            self.ranking = _make_empty_ranking()
            return
        texts = store.texts(doc_ids) if decoder.rerank is not None else [""] * len(doc_ids)
        vectors = torch.from_numpy(np.stack([self.pool[doc_id].vector for doc_id in doc_ids]))
        space = Space(Corpus(doc_ids, tuple(texts)), Embeddings(doc_ids, vectors, self.encoder), "cpu")
        self.ranking = decode(decoder, space, Embeddings(query.ids, query.vectors, self.encoder, query.texts), k)

    def find_open_questions(self, exact: bool) -> list[LinearQuestion]:
        """Return the questions about unseen documents that no search has answered yet and are worth asking.

        exact: return all that no exact search has answered, whatever they cost; needed for a proof
        """
        if self.questions is None or self.is_complete:
            return []
        still_open = [q for q in self.questions if not self._is_closed(q, exact) and q.point.any()]
        if exact:
            return still_open
        # A question with too many known documents above its limit is not asked, nor others about its picks alone.
        lost_picks = frozenset().union(*(q.picks for q in still_open if self.count_above(q) > MAX_DOCUMENTS_ABOVE))
        return [q for q in still_open if not q.picks <= lost_picks]

    def count_above(self, question: LinearQuestion) -> int:
        """Count the documents fetched so far whose inner product with a question's point exceeds its limit.

        A question asks the vector engine if an unseen document has a product above the limit. The engine returns the
        largest products first, those of fetched documents too, so it has to be asked for more results than this number.
        """
        return int((self.matrix.vectors.numpy() @ question.point.astype(np.float32) > question.limit).sum())

    @property
    def picked_ids(self) -> list[str]:
        """The ids of the answer, best first."""
        return [self.order[row] for row in self.ranking.rows()]

    def _is_closed(self, question: LinearQuestion, exact: bool) -> bool:
        """Return True if earlier searches show the answer to a question: no unseen document exceeds its limit.

        A question may have alternatives, with other points and limits; if one of them is answered, so is the question.
        exact: use only bounds of searches that scanned all documents
        """
        current: LinearQuestion | None = question
        while current is not None:
            # Strictly below: a tie may go to an unseen document.
            if current.point.any() and self._bound_product(current.point, exact) < current.limit:
                return True
            # A bound on the gain of unseen documents that an earlier search left may settle it too, if its required
            # picks are among those made here.
            if current.value is not None:
                required_ids = {self.order[row] for row in current.required_picks}
                for bound in self.bounds:
                    is_usable = bound.required_picks <= required_ids and (bound.exact or not exact)
                    if is_usable and bound.max_gain < current.value:
                        return True
            current = current.alternative
        return False

    def _bound_product(self, point: np.ndarray, exact: bool) -> float:
        """Return an upper bound on the inner product of any unseen document with a point, (d,).

        Each search left a floor s: no unseen document u has u·c > s for that search's unit point c. Nor is one longer
        than ρ (`max_length`). Under both limits the maximum of u·q for the point q is s·p + √(ρ² − s²)·|q − pc| with
        p = q·c, or ρ|q| where the first does not bind. exact: use floors of exact searches only
        """
        cuts = [bounds for bounds in self.cuts if bounds[2] or not exact]
        if not cuts:
            return math.inf
        unit_points, cut_floors, _ = zip(*cuts, strict=True)
        units, floors = np.stack(unit_points), np.array(cut_floors)
        length = float(np.linalg.norm(point))
        along = units @ point
        across = np.linalg.norm(point - along[:, None] * units, axis=1)
        if self.max_length is None:
            # Nothing is known of lengths: only a question asked before answers this one.
            is_parallel = (across <= BOUND_TOLERANCE * length) & (along > 0)
            if not is_parallel.any():
                return math.inf
            return float((floors * along)[is_parallel].min()) + BOUND_TOLERANCE * length
        max_length = self.max_length
        bounds = np.where(
            along * max_length > floors * length,
            floors * along + np.sqrt(np.maximum(max_length**2 - floors**2, 0)) * across,
            max_length * length,
        )
        return min(float(bounds.min()), max_length * length) + BOUND_TOLERANCE * max_length * length

    def certainty(self, decoder: Decoder, snapshots: bool, prove: bool) -> dict[str, Any]:
        """Return the figures for a ranking's info: how much of the corpus it is certain of, and what it took.

        scope is "proven" for the full corpus, "engine" for all that the engine's index finds, "pool" for the candidates
        only; open is the number of picks that are not proven. snapshots: True if the store answered all requests from
        one state; prove: True if a proof was asked for, by scans of all documents
        """
        n_returned = len(self.ranking.rows())
        scope, n_open = SCOPE_POOL, n_returned
        if decoder.depth is None and (self.questions is not None or self.is_complete):
            # A pool of all documents needs no question.
            questions = [] if self.is_complete else self.questions or []
            has_bounds = self.is_complete or self.max_length is not None
            is_certifiable = snapshots and self.is_unit is not None and has_bounds
            # Proven: exact searches show that no unseen document could change the answer. Closed: the index's show it,
            # which may overlook some.
            proven = [is_certifiable and self._is_closed(q, exact=True) for q in questions]
            closed = [self._is_closed(q, exact=False) for q in questions]
            if is_certifiable and all(proven):
                scope = SCOPE_PROVEN
            elif all(closed):
                scope = SCOPE_ENGINE
            open_picks = [q.picks for q, done in zip(questions, proven, strict=True) if not done]
            n_open = min(n_returned, len(frozenset().union(*open_picks))) if is_certifiable or questions else n_returned
        depth_info = {"depth": decoder.depth} if decoder.depth is not None else {}
        return {
            "scope": scope,
            "open": n_open,
            "ids": tuple(self.picked_ids),
            "trips": self.n_trips,
            "questions": self.n_questions,
            "scans": self.n_scans,
            "rows": len(self.pool),
            "documents": self.documents,
            "provable": snapshots and decoder.depth is None and self.questions is not None and not prove,
            "plan": self.plan,
            **depth_info,
        }


@dataclass(frozen=True)
class Dialogue:
    """The requests to a vector store for one decoding: pools of candidates, then certificate queries.

    where: only documents with these values; exact: scan all documents each time, not the index
    """

    store: VectorStore
    where: Where | None
    ref: StoreRef
    exact: bool

    def fetch_pools(self, points: np.ndarray, size: int) -> list[SearchResult]:
        """Ask the store for the `size` most relevant documents of each query, (B, d); return one result each."""
        results = []
        for query_part in _split_requests(range(len(points)), size * self.ref.dimension):
            result = self.store.search(points[query_part], size, self.exact, self.where, self.ref)
            results += [result.only(query_index) for query_index in range(len(query_part))]
        return results

    def settle(self, answers: Sequence[PartialAnswer], decoder: Decoder, k: int, prove: bool) -> None:
        """Select k documents for each answer, and ask about unseen ones until no pick is open or rounds end.

        Each round sends the open certificate queries to the vector engine, adds the documents that it returns and
        selects again. prove: then scan all documents too, for as many rounds. Answers whose index has no more results
        keep their queries open.
        """
        n_rounds, n_scans, stuck_answers = 0, 0, frozenset[PartialAnswer]()
        report = with_cancellation(*current_reporter(), "asking was stopped")
        while True:
            report(n_rounds + n_scans, MAX_QUESTION_ROUNDS * (1 + prove), "asking the engine")
            for answer in answers:
                answer.solve(decoder, k)
            active = [answer for answer in answers if answer not in stuck_answers and n_rounds < MAX_QUESTION_ROUNDS]
            if open_questions := _pair_open_questions(active, exact=False):
                n_rounds += 1
                try:
                    self._ask(open_questions, n_rounds, self.exact)
                except ShortResultError:
                    # The index ends here: what is open stays so, unless all documents are looked at.
                    stuck_answers |= {answer for answer, _ in open_questions}
                continue
            may_scan = prove and n_scans < MAX_QUESTION_ROUNDS
            open_questions = _pair_open_questions(answers if may_scan else (), exact=True)
            if not open_questions:
                return
            n_scans += 1
            self._ask(open_questions, n_scans, True)

    def _ask(self, asked_pairs: Sequence[tuple[PartialAnswer, LinearQuestion]], round_number: int, exact: bool) -> None:
        """Send open questions to the store in as few requests as fit, and add the results to their answers.

        asked_pairs: pairs of an answer in progress, one a query, and one of its questions; round_number: counted from
        1, later rounds request more results; exact: make the engine scan all documents
        """
        requests, max_size = [], 0
        for answer, question in asked_pairs:
            # Every second round doubles the number of results, so that each answer settles in a few rounds.
            # Known documents above the limit come back first: room for them, a quarter more, and some new ones.
            size = (MIN_QUESTION_RESULTS + answer.count_above(question) * 5 // 4) << (round_number - 1) // 2
            requests.append((answer, question, size))
            max_size = max(max_size, size)
        for part in _split_requests(requests, max_size * self.ref.dimension):
            part_answers, part_questions, sizes = zip(*part, strict=True)
            points = np.stack([question.point for question in part_questions])
            result = self.store.search(points, list(sizes), exact, self.where, self.ref)
            for position, (answer, question) in enumerate(zip(part_answers, part_questions, strict=True)):
                answer.add(result.only(position), 1, question)
        for answer in dict.fromkeys(answer for answer, _ in asked_pairs):
            answer.n_trips += 1
            answer.n_scans += result.exact


def _make_empty_ranking() -> Ranking:
    """Return the answer to a query that is the only document there is."""
    return Ranking(torch.empty((1, 0), dtype=torch.int64), torch.empty((1, 0), dtype=torch.float64), ({},))


def _pair_open_questions(answers: Sequence[PartialAnswer], exact: bool) -> list[tuple[PartialAnswer, LinearQuestion]]:
    """Return all questions that are still open, each with its answer; exact: see `find_open_questions`."""
    return [(answer, question) for answer in answers for question in answer.find_open_questions(exact)]


def _split_requests(entries: Sequence[RequestEntry], numbers_per_entry: int) -> list[list[RequestEntry]]:
    """Split requests into groups whose responses fit in memory, `numbers_per_entry` numbers a request."""
    part_size = max(1, MAX_RESPONSE_NUMBERS // numbers_per_entry)
    return [list(entries[part_start : part_start + part_size]) for part_start in range(0, len(entries), part_size)]
