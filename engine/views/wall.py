"""Sets of many queries at every position of a parameter's slider, as plain values for a browser to draw as squares."""

import base64
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from engine.decoder import Decoder, decode_grid
from engine.errors import DataError
from engine.evaluation.duplicate_threshold import resolve_duplicate_threshold
from engine.evaluation.studies.check_up import CheckUp, SetRedundancy, measure_redundancy
from engine.params import Real, Whole, values_of
from engine.progress import raise_if_stopped
from engine.space import Space
from engine.values import Embeddings
from engine.views.decision import relevances
from engine.views.slider import POOL_SIZE, SAMPLE_COUNTS, sample_stops, stops

EMPTY_CELL = 255
"""Byte of a pair that a set does not have; a cosine from 0 to 1 is a byte from 0 to 254."""
MAX_WALL_WORK, MAX_WALL_CELLS = 2_000_000_000, 10_000_000
"""Queries × positions × picks × candidates, some ten seconds, and bytes of all squares, beyond which positions are
sampled; a corpus that is too large even then is searched in a pool."""
PART_WORK, PART_CELLS, MAX_PARTS = 20_000_000, 1_000_000, 20
"""Work and cells of one part, and the most parts: between two, answers to other visitors' sliders are computed."""


def pack_redundancy(sets: SetRedundancy | CheckUp, order: Sequence[int] | None = None) -> dict[str, Any]:
    """Pack sets of k documents with their figures, as JSON values.

    order: positions of the sets to pack, None for all. The result has `pairs` and `groups` of near-duplicates, `ilad`
    (None for fewer than two documents), and `cells`: a byte for each pair of ranks, second with first, third with
    first, third with second, …, of one set after the other, in base64
    """
    positions = slice(None) if order is None else list(order)
    second_rank, first_rank = np.tril_indices(sets.similarity.shape[1], -1)
    cosines = sets.similarity[positions][:, second_rank, first_rank]
    scaled = np.nan_to_num(cosines).clip(0, 1) * (EMPTY_CELL - 1)
    cells = np.where(np.isnan(cosines), EMPTY_CELL, scaled).astype(np.uint8)
    return {
        "cells": base64.b64encode(cells.tobytes()).decode(),
        "pairs": sets.pairs[positions].tolist(),
        "groups": sets.groups[positions].tolist(),
        # JSON has no NaN, which differs from itself.
        "ilad": [round(spread, 4) if spread == spread else None for spread in sets.ilad[positions].tolist()],
    }


@dataclass(frozen=True, kw_only=True)
class TopicBounds:
    """Documents that count as relevant to a query, and as on its topic."""

    floor: float | None  # of `find_topic_floor`
    relevant: frozenset[int]  # rows of the documents judged relevant; none for a query without judgements


def pack_costs(
    space: Space, queries: Embeddings, sets: Sequence[np.ndarray], bounds: Sequence[TopicBounds]
) -> dict[str, Any]:
    """Pack what diversity costs the sets of some queries, as JSON values, one query's sets after the other's.

    sets: (m, k) rows of each query's sets, −1 pads. `found` has the relevant documents of each set, `off` those that
    are neither relevant nor on topic, None where no floor is known, and `strayed` 1 for a set whose mean relevance is
    below the floor
    """
    n_right, n_off, is_strayed = list[int](), list[int | None](), list[int]()
    for vector, query_sets, bound in zip(queries.vectors, sets, bounds, strict=True):
        # Sets of one query share most of their documents.
        documents, positions = np.unique(query_sets, return_inverse=True)
        positions, is_right = positions.reshape(query_sets.shape), np.isin(documents, list(bound.relevant))
        n_right += is_right[positions].sum(1).tolist()
        if bound.floor is None:
            n_off, is_strayed = n_off + [None] * len(query_sets), is_strayed + [0] * len(query_sets)
            continue
        # As exact as the floor, which has six digits.
        relevance = np.round(relevances(space, vector, documents.tolist()), 6)
        is_off = (relevance < bound.floor) & ~is_right & (documents >= 0)
        n_off += is_off[positions].sum(1).tolist()
        is_filled = query_sets >= 0
        mean_relevance = (relevance[positions] * is_filled).sum(1) / is_filled.sum(1).clip(1)
        is_strayed += ((mean_relevance < bound.floor) & is_filled.any(1)).astype(int).tolist()
    return {"found": n_right, "off": n_off, "strayed": is_strayed}


@dataclass(frozen=True, kw_only=True, eq=False)
class WallRequest:
    """Request of a browser for the sets of some queries at all positions of a slider; it keeps no corpus alive."""

    space: weakref.ref[Space]
    decoder: Decoder
    param: Real | Whole  # the parameter, as its slider shows it
    stops: Sequence[float]  # the values of its positions
    queries: Embeddings
    k: int
    bounds: Sequence[TopicBounds] | None  # of each query, None to leave out what diversity costs
    duplicate_threshold: float | None = None  # cosine of near-duplicates, None for that of the corpus

    def answer(self) -> dict[str, Any]:
        """Compute the sets as JSON values: those of `pack_redundancy` for all distinct sets, one query after the other.

        Besides, with those of `pack_costs`, `counts` has the number of distinct sets of each query, and `which` the
        index of the set at each position. Raises DataError if the corpus is no longer in memory, Cancelled if the
        caller is stopped.
        """
        space = self.space()
        # A call of a weak reference returns None once the corpus is no longer in memory.
        if space is None:
            raise DataError("what this slider shows is no longer in memory; open the view again")
        stage = self.decoder.select
        settings = [type(stage)(**values_of(stage) | {self.param.name: value}) for value in self.stops]
        decoders = [replace(self.decoder, select=setting) for setting in settings]
        # Settings of one selector share their work, so all positions take little more than a few.
        rankings = decode_grid(decoders, space, self.queries, self.k)
        raise_if_stopped("the wall was stopped")
        distinct_sets, which = [], []
        # (B, m, k): the rows of each query at each position.
        for query_rows in np.stack([ranking.index.cpu().numpy() for ranking in rankings], axis=1):
            # Between two changes of λ's ranking the sets are equal: each is sent once.
            query_sets, set_index = np.unique(query_rows, axis=0, return_inverse=True)
            distinct_sets.append(query_sets)
            which.append(set_index.ravel().tolist())
        # One call for the sets of all queries: their cosines are computed block by block.
        rows = torch.from_numpy(np.concatenate(distinct_sets))
        redundancy = measure_redundancy(space, rows, resolve_duplicate_threshold(space, self.duplicate_threshold))
        costs = {} if self.bounds is None else pack_costs(space, self.queries, distinct_sets, self.bounds)
        return {"counts": list(map(len, distinct_sets)), "which": which, **pack_redundancy(redundancy), **costs}


def build_wall_requests(
    space: Space,
    decoder: Decoder,
    param: Real | Whole,
    queries: Embeddings,
    k: int,
    bounds: Sequence[TopicBounds] | None = None,
    duplicate_threshold: float | None = None,
) -> list[WallRequest]:
    """Build the requests by which a browser gets the sets of many queries at all positions of a parameter's slider.

    Each is for some of the queries, in order. Where all positions would take minutes or many megabytes they are
    sampled; documents of a corpus too large for that come from a pool of the most relevant. bounds: of each query, by
    which the costs of `pack_costs` are counted too; duplicate_threshold: the cosine of near-duplicates, None for that
    of the corpus
    """
    # Each position is solved, as no path is needed where nobody can put the slider between two.
    values = stops(param, getattr(decoder.select, param.name), exact=False)
    n_candidates = min(len(space), decoder.depth or len(space))
    position_work, position_cells = min(k, n_candidates) * n_candidates, max(1, k * (k - 1) // 2)
    # Work decides for large corpora, the size of the answers for large sets.
    n_affordable = min(
        MAX_WALL_WORK // (len(queries) * position_work or 1), MAX_WALL_CELLS // (len(queries) * position_cells or 1)
    )
    # Few numbers of positions, so that corpora of nearly one size are shown alike.
    if n_affordable < len(values):
        n_samples = next((count for count in SAMPLE_COUNTS if count <= n_affordable), SAMPLE_COUNTS[-1])
        values = sample_stops(values, n_samples)
    if len(queries) * position_work * len(values) > MAX_WALL_WORK and decoder.depth is None:
        decoder = replace(decoder, depth=max(POOL_SIZE, 2 * k))
        position_work = k * max(POOL_SIZE, 2 * k)
    by_work, by_cells = PART_WORK // (position_work * len(values)), PART_CELLS // (position_cells * len(values))
    # Each part has an address, of which the server remembers some hundreds for all visitors.
    part_size = max(1, -(-len(queries) // MAX_PARTS), min(by_work, by_cells))
    return [
        WallRequest(
            space=weakref.ref(space), decoder=decoder, param=param, stops=values, k=k,
            queries=queries.take(range(start, min(start + part_size, len(queries)))),
            bounds=None if bounds is None else bounds[start : start + part_size],
            duplicate_threshold=duplicate_threshold,
        )
        for start in range(0, len(queries), part_size)
    ]  # fmt: skip
