"""The talk with a vector engine about some queries: pools first, then questions, until nothing is open."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from engine.data.stores import SearchResult, StoreRef, VectorStore, Where
from engine.data.stores.store import ShortResultError
from engine.decoder import Decoder
from engine.errors import Cancelled
from engine.partial_answer import PartialAnswer
from engine.progress import current_reporter
from engine.solvers.questions import LinearQuestion
from engine.space import QueryBatch

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
        while True:
            _stop(rounds + scans, ROUNDS * (1 + prove))
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

    def solve_pools(self, answers: Sequence[PartialAnswer], decoder: Decoder, batch: QueryBatch, k: int) -> None:
        """Decode within the depth, with the second scorer if there is one."""
        for at, answer in enumerate(answers):
            answer.solve_pool(decoder, batch.block(at, at + 1), k, self.store)

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


def _stop(done: int, total: int) -> None:
    """Report the rounds; raise Cancelled where the work was stopped."""
    report, stop = current_reporter()
    if stop is not None and stop.is_set():
        raise Cancelled("asking was stopped")
    if report is not None:
        report(done, total, "asking the engine")
