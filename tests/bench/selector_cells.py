"""The grid's cells: who takes part in each, and the clock."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np
import peers
import torch
from harness import timed
from selector_data import Data
from selector_rows import CELL, Row
from torch import Tensor

import engine

WEIGHTS = (0.5, 0.7, 0.9)
METHODS = ("top_k", "mmr", "dpp", "vrsd", "frank_wolfe", "max_sum", "facility_location", "ssd")
UNWEIGHTED = ("top_k", "vrsd")
OURS, PAPER = "engine", "engine, loading=1, polish=False"
REFERENCE = "plain torch reference"
BATCH = 64
LONG, TOO_LONG = 5.0, 60.0
"""Seconds: past the first a call is made three times, past the second once, and by a peer not again in larger cells."""
MOST_BYTES = 4 << 30
LANGCHAIN_MOST = (10_000, 100)
COVER_ROWS = 1_000
"""Facility location is measured up to here: its ground set is the whole corpus, as the peer's is."""

Call = Callable[[int], object]


@dataclass(frozen=True)
class Contestant:
    """One who takes part: call(i) answers query i; queries: how many it answers; absent: why it is not called."""

    who: str
    call: Call
    queries: int = 1
    absent: str = ""


class Bench:
    """One matrix, and what its contestants are given: on `device`, and as an array for those who want one."""

    def __init__(self, data: Data, device: str) -> None:
        self.data, self.device = data, device
        self.vectors, self.queries = data.vectors.to(device), data.queries.to(device)
        self.array, self.points = data.vectors.numpy(), data.queries.numpy()
        self._index: object = None

    @property
    def shape(self) -> tuple[int, int]:
        return self.vectors.shape[0], self.vectors.shape[1]

    def cell(self, method: str, k: int, weight: float | None) -> Row:
        """The row that all rows of a cell are copies of."""
        n, d = self.shape
        return Row(CELL, self.device, self.data.name, n, d, k, weight, method, "")

    def one_pass(self, i: int) -> Tensor:
        return self.vectors @ self.queries[i]

    def ours(self, method: str, k: int, **params: object) -> Call:
        return lambda i: engine.select(method, self.vectors, self.queries[i], k=k, **params).index[0]

    def contestants(self, method: str, k: int, weight: float | None) -> list[Contestant]:
        """Ours first, then the peers that this method has on this device."""
        n, _ = self.shape
        params = {} if weight is None else {"relevance_weight": weight}
        if method == "facility_location":
            params["ground_set"] = None
        seats = [Contestant(OURS, self.ours(method, k, **params))]
        rows, points, w = self.vectors, self.queries, weight or 0.0

        def torch_peer(who: str, plain: Callable[..., Tensor]) -> Contestant:
            return Contestant(who, lambda i: plain(rows, points[i], k, w))

        match method:
            case "top_k":
                seats += self._search(k)
            case "mmr":
                seats.append(torch_peer("plain torch greedy", peers.greedy_mmr))
            case "dpp":
                seats.append(torch_peer("plain torch greedy", peers.greedy_dpp))
            case "frank_wolfe":
                seats.append(Contestant(PAPER, self.ours(method, k, **params, loading=1.0, polish=False)))
                seats.append(torch_peer(REFERENCE, peers.reference_frank_wolfe))
        strategy = {"mmr": "mmr", "dpp": "dpp", "max_sum": "msd", "facility_location": "cover", "ssd": "ssd"}
        # The libraries compute on the CPU; beside another device they would be measured twice.
        if self.device == "cpu" and method in strategy:
            seats.append(self._pyversity(strategy[method], k, w))
            if method == "mmr":
                far = n > LANGCHAIN_MOST[0] or k > LANGCHAIN_MOST[1]
                why = f"not called past n = {LANGCHAIN_MOST[0]}, k = {LANGCHAIN_MOST[1]}" if far else ""
                call: Call = lambda i: peers.langchain(self.array, self.points[i], k, w)  # noqa: E731
                seats.append(Contestant("langchain mmr", call, absent=why))
        return seats

    def _pyversity(self, strategy: str, k: int, weight: float) -> Contestant:
        n, d = self.shape
        # cover: similarities, their clipped copy and a power of them; ssd: three matrices and k coefficients a row.
        need = 4 * n * {"cover": 3 * n, "ssd": 4 * d + k, "dpp": 2 * d + k}.get(strategy, 2 * d)
        why = f"needs about {need / 2**30:.0f} GiB" if need > MOST_BYTES else ""
        call: Call = lambda i: peers.pyversity(strategy, self.array, self.points[i], k, weight)  # noqa: E731
        return Contestant(f"pyversity {strategy}", call, absent=why)

    def _search(self, k: int) -> list[Contestant]:
        rows, points = self.vectors, self.queries
        every = points[:BATCH]
        seats = [
            Contestant("torch product + topk", lambda i: peers.product_topk(rows, points[i : i + 1], k)[0]),
            Contestant(OURS, lambda i: engine.select("top_k", rows, every, k=k).index, BATCH),
            Contestant("torch product + topk", lambda i: peers.product_topk(rows, every, k), BATCH),
        ]
        if self.device == "cpu":
            index = self._index = self._index or peers.flat_index(self.array)
            seats += [
                Contestant("faiss IndexFlatIP", lambda i: index.search(self.points[i : i + 1], k)[1][0]),
                Contestant("faiss IndexFlatIP", lambda i: index.search(self.points[:BATCH], k)[1], BATCH),
            ]
        return seats


def measured(bench: Bench, method: str, k: int, weight: float | None, runs: int, past: Iterable[Row]) -> list[Row]:
    """One cell: every contestant in turn, round after round, so that a busy moment burdens all alike.

    Round i asks query i. past: rows so far; a peer that took over a minute in a cell no larger is not called.
    """
    cell = bench.cell(method, k, weight)
    seats = [_seated(c, cell, past) for c in bench.contestants(method, k, weight)]
    clock = _Clock(bench, seats)
    clock.warm_up()
    for i in range(runs):
        clock.round(i)
    return [replace(cell, **seat) for seat in clock.results(method, weight)]


def _seated(contestant: Contestant, cell: Row, past: Iterable[Row]) -> Contestant:
    if contestant.who.startswith("engine") or contestant.absent:
        return contestant
    for row in past:
        alike = replace(row, n=cell.n, d=cell.d, k=cell.k, weight=cell.weight).cell == cell.cell
        smaller = row.n <= cell.n and row.d <= cell.d and row.k <= cell.k
        same = (row.who, row.queries) == (contestant.who, contestant.queries)
        if alike and smaller and same and (row.seconds or 0) > TOO_LONG:
            at = f"n = {row.n}, d = {row.d}, k = {row.k}"
            return replace(contestant, absent=f"over {TOO_LONG:.0f} s already at {at}")
    return contestant


class _Clock:
    def __init__(self, bench: Bench, seats: list[Contestant]) -> None:
        self.bench, self.seats = bench, seats
        self.times: list[list[float]] = [[] for _ in seats]
        self.picks: list[dict[int, list[int]]] = [{} for _ in seats]
        self.most = [0 for _ in seats]
        self.passes: list[float] = []

    def warm_up(self) -> None:
        """The first call of each: not counted, unless it is so long that nothing in it is warm-up."""
        timed_on(self.bench.device, self.bench.one_pass, 0)
        for at, seat in enumerate(self.seats):
            if seat.absent:
                continue
            seconds, answer = timed_on(self.bench.device, seat.call, 0)
            self.most[at] = 1000
            if seconds > LONG:
                self.most[at] = 3 if seconds <= TOO_LONG else 1
                self._keep(at, 0, seconds, answer)

    def round(self, i: int) -> None:
        order = list(range(len(self.seats)))
        # Nobody always follows the same one, whose traces in the caches it would inherit.
        for at in order[i % len(order) :] + order[: i % len(order)]:
            if len(self.times[at]) < self.most[at] and i not in self.picks[at]:
                self._keep(at, i, *timed_on(self.bench.device, self.seats[at].call, i))
            # The second of two, as a selector's passes follow each other: the first may find the caches cold.
            self.passes.append([timed_on(self.bench.device, self.bench.one_pass, i)[0] for _ in range(2)][1])

    def _keep(self, at: int, i: int, seconds: float, answer: object) -> None:
        self.times[at].append(seconds)
        self.picks[at][i] = np.asarray(answer.cpu() if isinstance(answer, Tensor) else answer).tolist()

    def results(self, method: str, weight: float | None) -> Iterable[dict[str, object]]:
        """The fields of a row for each contestant, those of the cell apart."""
        one_pass = statistics.median(self.passes)
        for seat, times, picks in zip(self.seats, self.times, self.picks, strict=True):
            result: dict[str, object] = {"who": seat.who, "queries": seat.queries, "note": seat.absent}
            if times:
                result |= {"runs": len(times), "seconds": statistics.median(times), "pass_seconds": one_pass}
                result |= {"least": min(times), "most": max(times)}
            shared = sorted(picks.keys() & self.picks[0].keys())
            if shared and seat.who != OURS and seat.queries == 1:
                ours = self.picks[0]
                result["same"] = statistics.mean(picks[i] == ours[i] for i in shared)
                if seat.who == REFERENCE and weight is not None:
                    result["objective"] = statistics.mean(self._no_lower(i, ours[i], picks[i], weight) for i in shared)
            yield result

    def _no_lower(self, i: int, ours: list[int], theirs: list[int], weight: float) -> bool:
        mine, other = (
            peers.objective(self.bench.vectors, self.bench.queries[i], picks, weight) for picks in (ours, theirs)
        )
        return mine >= other - 1e-9 * abs(other)


def timed_on(device: str, call: Call, i: int) -> tuple[float, object]:
    """Seconds of call(i), the device's queue empty before and after, and what it answers."""
    synchronize = torch.cuda.synchronize if device == "cuda" else int
    synchronize()

    def answered() -> object:
        answer = call(i)
        synchronize()
        return answer

    return timed(answered)
