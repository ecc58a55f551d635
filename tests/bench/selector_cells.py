"""The grid's cells: who takes part in each, the clock, and the rows that come of it."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import peers
import torch
from harness import summary, time_call
from selector_data import Data
from torch import Tensor

import engine
from engine.evaluation.studies.latency import greedy_dpp, greedy_mmr
from engine.matrix import Matrix

DATA, CELL, GRID, MEMORY = "data", "cell", "grid", "memory"
"""What a row can be part of."""
KEYS = ("part", "device", "data", "n", "d", "k", "weight", "method")
"""What the rows of one cell, measured together, share."""
COLUMNS = (
    *KEYS, "who", "queries", "runs", "seconds", "least", "most", "pass_seconds", "same", "objective", "bytes",
    "allowance", "note",
)  # fmt: skip
"""A row says what one contestant needed in one cell.

queries: how many one call answers; runs: timed calls; seconds, least, most: median and range of a call, None where
there was none; pass_seconds: median of one product of all vectors with one vector, measured among those calls; same:
share of the queries for which the picks were ours, in order; objective: share for which our set's objective is no
lower; bytes, allowance: memory over the resident vectors, and its target; note: why a call is missing.
"""
WEIGHTS = (0.5, 0.7, 0.9)
METHODS = ("top_k", "mmr", "dpp", "vrsd", "frank_wolfe", "max_sum", "facility_location", "ssd", "nnn")
UNWEIGHTED = ("top_k", "vrsd", "nnn")
STRATEGIES = {"mmr": "mmr", "dpp": "dpp", "max_sum": "msd", "facility_location": "cover", "ssd": "ssd"}
"""pyversity's names of the methods that it has."""
OURS, PAPER = "engine", "engine, loading=1, polish=False"
PRODUCT, GREEDY, REFERENCE = "torch product + topk", "plain torch greedy", "plain torch reference"
BATCH = 64
LONG, TOO_LONG = 5.0, 60.0
"""Seconds: past the first a call is made three times, past the second once, and by a peer not again in larger cells."""
MOST_BYTES = 4 << 30
LANGCHAIN_MOST = (10_000, 100)
COVER_ROWS = 1_000
"""Facility location is measured up to here: its ground set is the whole corpus, as the peer's is."""

Call = Callable[[int], Any]
Row = dict[str, Any]


@dataclass
class Contestant:
    """One who takes part: call(i) answers query i."""

    who: str
    call: Call
    queries: int = 1
    """How many queries a call answers."""
    absent: str = ""
    """Why it is not called."""
    most: int = 0
    """How often it is called."""
    times: list[float] = field(default_factory=list)
    picks: dict[int, list[int]] = field(default_factory=dict)

    def keep(self, i: int, seconds: float, answer: Any) -> None:
        self.times.append(seconds)
        self.picks[i] = np.asarray(answer.cpu() if isinstance(answer, Tensor) else answer).tolist()


class Bench:
    """One matrix, and what its contestants are given: on `device`, and as an array for those who want one."""

    def __init__(self, data: Data, device: str) -> None:
        self.data, self.device = data, device
        self.vectors, self.queries = data.vectors.to(device), data.queries.to(device)
        self.array, self.points = data.vectors.numpy(), data.queries.numpy()
        self.matrix = Matrix(self.vectors)
        self._index: Any = None

    def row(self, part: str, k: int, weight: float | None, method: str, **figures: Any) -> Row:
        n, d = self.vectors.shape
        keys = zip(KEYS, (part, self.device, self.data.name, n, d, k, weight, method), strict=True)
        return {**dict(keys), "queries": 1, "runs": 0, "note": "", **figures}

    def one_pass(self, i: int) -> Tensor:
        return self.vectors @ self.queries[i]

    def time_call(self, call: Call, i: int) -> tuple[float, Any]:
        """Seconds of call(i), the device's queue empty before and after, and what it answers."""
        synchronize = torch.cuda.synchronize if self.device == "cuda" else int
        synchronize()

        def call_and_wait() -> Any:
            answer = call(i)
            synchronize()
            return answer

        return time_call(call_and_wait)

    def contestants(self, method: str, k: int, weight: float | None) -> Iterator[Contestant]:
        """Ours first, then the peers that this method has on this device."""
        params = {} if weight is None else {"relevance_weight": weight}
        if method == "facility_location":
            params["ground_set"] = None
        rows, points, w = self.vectors, self.queries, weight or 0.0

        def ours(who: str, **more: Any) -> Contestant:
            return Contestant(who, lambda i: engine.select(method, rows, points[i], k=k, **params, **more).index[0])

        def make_contestant(who: str, peer: Callable[..., Tensor]) -> Contestant:
            return Contestant(who, lambda i: peer(rows, points[i], k, w))

        yield ours(OURS)
        match method:
            case "top_k":
                yield from self._search(k)
            case "mmr":
                yield make_contestant(GREEDY, greedy_mmr)
            case "dpp":
                yield make_contestant(GREEDY, greedy_dpp)
            case "frank_wolfe":
                yield ours(PAPER, loading=1.0, polish=False)
                yield make_contestant(REFERENCE, peers.reference_frank_wolfe)
            case "nnn":
                eigenvalue = self.matrix.spectral_norm_squared
                yield Contestant("plain torch FISTA-50", lambda i: peers.plain_fista(rows, points[i], k, eigenvalue))
                if self.device == "cpu":
                    yield Contestant("scikit-learn", lambda i: peers.elastic_net(self.array, self.points[i], k))
        # The libraries compute on the CPU; beside another device they would be measured twice.
        if self.device == "cpu" and method in STRATEGIES:
            yield self._pyversity(STRATEGIES[method], k, w)
            if method == "mmr":
                far = len(rows) > LANGCHAIN_MOST[0] or k > LANGCHAIN_MOST[1]
                why = f"not called past n = {LANGCHAIN_MOST[0]}, k = {LANGCHAIN_MOST[1]}" if far else ""
                yield Contestant(
                    "langchain mmr", lambda i: peers.langchain(self.array, self.points[i], k, w), absent=why
                )

    def _pyversity(self, strategy: str, k: int, weight: float) -> Contestant:
        n, d = self.vectors.shape
        # cover: similarities, their clipped copy and a power of them; ssd: three matrices and k coefficients a row.
        need = 4 * n * {"cover": 3 * n, "ssd": 4 * d + k, "dpp": 2 * d + k}.get(strategy, 2 * d)
        return Contestant(
            f"pyversity {strategy}",
            lambda i: peers.pyversity(strategy, self.array, self.points[i], k, weight),
            absent=f"needs about {need / 2**30:.0f} GiB" if need > MOST_BYTES else "",
        )

    def _search(self, k: int) -> Iterator[Contestant]:
        rows, points = self.vectors, self.queries
        every = points[:BATCH]
        yield Contestant(PRODUCT, lambda i: peers.product_topk(rows, points[i : i + 1], k)[0])
        yield Contestant(OURS, lambda i: engine.select("top_k", rows, every, k=k).index, BATCH)
        yield Contestant(PRODUCT, lambda i: peers.product_topk(rows, every, k), BATCH)
        if self.device == "cpu":
            index = self._index = self._index or peers.flat_index(self.array)
            yield Contestant("faiss IndexFlatIP", lambda i: index.search(self.points[i : i + 1], k)[1][0])
            yield Contestant("faiss IndexFlatIP", lambda i: index.search(self.points[:BATCH], k)[1], BATCH)


def measure_cell(bench: Bench, method: str, k: int, weight: float | None, runs: int, past: Iterable[Row]) -> list[Row]:
    """One cell: every contestant in turn, round after round, so that a busy moment burdens all alike.

    Round i asks query i. past: rows so far; a peer that took over a minute in a cell no larger is not called.
    """
    cell, passes = bench.row(CELL, k, weight, method), []
    seats = list(bench.contestants(method, k, weight))
    engine.methods("selector")[method].cls.warm()
    bench.time_call(bench.one_pass, 0)
    for seat in seats:
        seat.absent = seat.absent or _find_reason_to_skip(seat, cell, past)
        if not seat.absent:
            seconds, answer = bench.time_call(seat.call, 0)
            seat.most = runs if seconds <= LONG else 3 if seconds <= TOO_LONG else 1
            # The first call is not counted, unless it is so long that nothing in it is warm-up.
            if seconds > LONG:
                seat.keep(0, seconds, answer)
    for i in range(runs):
        # Nobody always follows the same one, whose traces in the caches it would inherit.
        for seat in np.roll(np.array(seats, dtype=object), -i):
            if len(seat.times) < seat.most and i not in seat.picks:
                seat.keep(i, *bench.time_call(seat.call, i))
            # The second of two, as a selector's passes follow each other: the first may find the caches cold.
            passes.append([bench.time_call(bench.one_pass, i)[0] for _ in range(2)][1])
    return [cell | _result(bench, seat, seats[0].picks, weight, statistics.median(passes)) for seat in seats]


def _find_reason_to_skip(seat: Contestant, cell: Row, past: Iterable[Row]) -> str:
    """Return the reason not to call a peer again, or an empty string."""
    for row in past if not seat.who.startswith("engine") else ():
        alike = all(row[key] == cell[key] for key in ("part", "device", "data", "method"))
        smaller = all(row[key] <= cell[key] for key in ("n", "d", "k"))
        same = (row["who"], row["queries"]) == (seat.who, seat.queries)
        if alike and smaller and same and (row["seconds"] or 0) > TOO_LONG:
            return f"over {TOO_LONG:.0f} s already at n = {row['n']}, d = {row['d']}, k = {row['k']}"
    return ""


def _result(bench: Bench, seat: Contestant, ours: dict[int, list[int]], weight: float | None, one_pass: float) -> Row:
    """The fields of a contestant's row, those of the cell apart; ours: our picks by query."""
    result: Row = {"who": seat.who, "queries": seat.queries, "note": seat.absent}
    if seat.times:
        result |= {"runs": len(seat.times), "pass_seconds": one_pass} | summary(seat.times)
    shared = sorted(seat.picks.keys() & ours.keys())
    if shared and seat.who != OURS and seat.queries == 1:
        result["same"] = statistics.mean(seat.picks[i] == ours[i] for i in shared)
        if seat.who == REFERENCE and weight is not None:

            def value(i: int, picks: list[int]) -> float:
                return peers.objective(bench.vectors, bench.queries[i], picks, weight)

            pairs = [(value(i, ours[i]), value(i, seat.picks[i])) for i in shared]
            result["objective"] = statistics.mean(
                mine >= peer_value - 1e-9 * abs(peer_value) for mine, peer_value in pairs
            )
    return result
