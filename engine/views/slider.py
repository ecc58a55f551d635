"""One query's sets at every position of a parameter's slider, as plain values that a browser asks for and draws."""

import weakref
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

import numpy as np
import torch

from engine.candidates import without_autocast
from engine.decoder import Decoder, ScoredCandidates, score_candidates, select_from, select_grid_from
from engine.errors import DataError
from engine.params import Param, Real, Whole, values_of
from engine.reach import Reach
from engine.space import Space
from engine.stages import Selector
from engine.values import Embeddings, Ranking
from engine.views.decision import relevances, similarities, trust
from engine.wording import visible

FINE, COARSE = 1000, 100
"""Steps of a linear slider from end to end: where every value has an answer, and where each is computed."""
RATIOS = 60
"""Positions of a slider of equal ratios."""
PRECISION = 100_000
"""Cosines are sent as whole numbers of 1/PRECISION, rounded down: at .9 one is a near-duplicate here as there."""
LONGEST_NAME = 90
TWO_PART_SIZE, FIRST_PART_START = 2048, 0.5
"""Documents from which on a slider's answers come in two parts, and where the first part of a path begins."""
MAX_FULL_SIZE, POOL_SIZE = 200_000, 500
"""Documents up to which a slider is drawn from all of them, and from how many of the most relevant it is beyond."""


def has_slider(param: Param | None) -> TypeGuard[Real | Whole]:
    """Whether a parameter is set by a slider: a number that cannot be left out, and that people look for."""
    return isinstance(param, Real | Whole) and param.unset is None and not param.advanced


def stops(param: Real | Whole, current: float, exact: bool) -> list[float]:
    """The values of a slider's positions; current: a value beyond the comfortable range is within the slider's."""
    low, high = param.comfortable_range
    if isinstance(param, Whole):
        return list(range(int(min(low, current)), int(max(high, current)) + 1))
    if param.scale == "log":
        values = [value for value in param.grid(RATIOS) if value is not None]
        return sorted({*values, *([] if min(values) <= current <= high else [current])})
    low, high, steps = min(low, current), max(high, current), FINE if exact else COARSE
    return [float(f"{low + (high - low) * i / steps:.6g}") for i in range(steps + 1)]


@dataclass(frozen=True, kw_only=True, eq=False)
class SliderRequest:
    """What a browser asks for when a slider is drawn: data alone, which keep no corpus alive."""

    source: weakref.ref[Space] | Reach  # the corpus, or the engine whose first documents stand for it
    decoder: Decoder
    param: Real | Whole  # the parameter, as its slider shows it
    stops: Sequence[float]  # the values of its positions
    start: float  # where a path begins at the earliest
    query: Embeddings  # of one query
    k: int
    candidates: weakref.ref[ScoredCandidates] | None  # scored already, where that takes long
    within: bool  # whether the most relevant stand for a corpus too large for a drag
    details: Mapping[str, Any]  # `relevant` and `scores` of `packed`

    def answer(self) -> dict[str, Any]:
        """The answers at every position as JSON values. Raises DataError where the corpus is not in memory."""
        if isinstance(self.source, weakref.ref):
            space, rows = self.source(), None
            found = None if space is None else self.candidates() if self.candidates else self._score(space)
        else:
            pool, rows = self.source.pool(self.query)
            space, found = self.source.space, self._score(pool)
        if space is None or found is None:
            raise DataError("what this slider shows is no longer in memory; move it to have it computed again")
        answers = slider_answers(self.decoder.select, self.param, self.stops, found, self.k, self.start)
        rankings = answers.pop("rankings")
        if rows is not None:
            rankings = np.where(rankings < 0, -1, np.array(rows)[rankings])
        if self.within or rows is not None:
            answers["within"] = f"from the top {len(rows) if rows is not None else self.decoder.depth:,}"
        return {**answers, "stops": self.stops, **packed(space, self.query.vectors[0], rankings, **self.details)}

    def _score(self, space: Space) -> ScoredCandidates:
        return score_candidates(self.decoder, space, self.query)


def requests(
    source: Space | Reach,
    decoder: Decoder,
    param: Real | Whole,
    query: Embeddings,
    k: int,
    candidates: ScoredCandidates | None = None,
    **details: Any,
) -> list[SliderRequest]:
    """The requests for a slider's answers, of a part of them first where all take long.

    candidates: scored already, None where scoring takes no time; details: `relevant` and `scores` of `packed`
    """
    stage, in_memory, size = decoder.select, isinstance(source, Space), len(source)
    exact = stage.no_path is None and param.name == stage.path_parameter
    values = stops(param, getattr(stage, param.name), exact)
    parts = [(values, 0.0)]
    if in_memory and TWO_PART_SIZE < size <= MAX_FULL_SIZE:
        sparse = values[::5] if isinstance(param, Real) and param.scale != "log" else values
        parts.insert(0, (values, FIRST_PART_START) if exact else (sparse, 0.0))
    within = in_memory and size > MAX_FULL_SIZE and decoder.depth is None
    if within:
        decoder = Decoder(stage, decoder.retrieve, decoder.rerank, max(POOL_SIZE, 2 * k))
    return [
        SliderRequest(
            source=weakref.ref(source) if isinstance(source, Space) else source,
            decoder=decoder,
            param=param,
            stops=part,
            start=start,
            query=query,
            k=k,
            candidates=None if candidates is None else weakref.ref(candidates),
            within=within,
            details=details,
        )
        for part, start in parts
    ]


@without_autocast
def slider_answers(
    stage: Selector, param: Real | Whole, values: Sequence[float], scored: ScoredCandidates, k: int, start: float = 0.0
) -> dict[str, Any]:
    """A selector's rankings of one query along one of its parameters, the others as they are.

    values: of the positions; start: where a path begins at the earliest. JSON values but for `rankings`, (m, k) rows
    of the corpus, −1 pads. With a path, `start` says where it begins, `ends` where in the parameter each ranking but
    the last gives way to the next, and `apart` holds (value, ranking) of positions before the start or that rounding
    decides; without, `ends` is None, each position has its ranking, and `why` says why.
    """
    name = "" if param.name != stage.path_parameter or not isinstance(param, Real) else stage.no_path
    if name is not None:
        settings = [type(stage)(**values_of(stage) | {param.name: value}) for value in values]
        answers = select_grid_from(settings, scored, k)
        return {"rankings": np.vstack([a.index.cpu().numpy() for a in answers]), "ends": None, "why": name}
    c = scored.candidates
    # Equal ratios never reach 0: the path begins at the first position above it.
    ratios = isinstance(param, Real) and param.scale == "log"
    inner = [value for value in values if value >= start and (value > 0 or not ratios)]
    lines = stage.lambda_path(c, min(k, c.count), (inner[0], inner[-1]), inner)[0]
    picks = lines.picks[lines.last]
    if c.pool is not None:
        picks = np.where(picks < 0, -1, c.pool[0].cpu().numpy()[picks])
    rankings = [np.pad(picks, ((0, 0), (0, k - picks.shape[1])), constant_values=-1)]
    values = [value for value in values if value >= start]
    at = np.minimum(np.searchsorted(lines.ends, values), len(lines.ends) - 1)
    low, high = lines.certain[at].T
    apart = [value for value, sure in zip(values, (low <= values) & (values <= high), strict=True) if not sure]
    count = len(rankings[0])
    for value in apart:
        setting = type(stage)(**values_of(stage) | {param.name: value})
        rankings.append(select_from(setting, scored, k).index.cpu().numpy())
    numbered = [[value, count + i] for i, value in enumerate(apart)]
    ends = lines.ends[lines.last[:-1]].tolist()
    return {"rankings": np.vstack(rankings), "start": lines.start, "ends": ends, "apart": numbered, "why": ""}


def packed(
    space: Space, query: torch.Tensor, rankings: np.ndarray, relevant: Collection[str] = (), scores: Any = None
) -> dict[str, Any]:
    """Sets of documents, and all that is drawn of them, as JSON values.

    query: (d,) its vector; rankings: (m, k) rows, −1 pads; relevant: ids judged so; scores: (n,) what the selector saw
    where that was not the inner product with the query. `sets` are the distinct rankings as positions in `rows`,
    `which` names the set of each ranking; `near` are the cosines of all pairs that meet in a set, in the order in which
    they first do (in a set: second with first, third with first, third with second, …), in 1/PRECISION.
    """
    sets, which = np.unique(rankings, axis=0, return_inverse=True)
    rows = np.unique(sets[sets >= 0])
    local = np.where(sets < 0, -1, np.searchsorted(rows, sets))
    second, first = np.tril_indices(sets.shape[1], -1)
    meet = np.sort(np.stack([local[:, first].ravel(), local[:, second].ravel()]), axis=0)
    meet = meet[:, meet[0] >= 0]
    _, at = np.unique(meet[0] * (len(rows) + 1) + meet[1], return_index=True)
    one, other = meet[:, np.sort(at)]
    documents, corpus = rows.tolist(), space.corpus
    cosines = similarities(space, documents)[one, other]
    own = None if scores is None else [None if s != s else round(s, 6) for s in scores[rows].tolist()]
    names = [corpus.titles[row] or corpus.texts[row] or corpus.ids[row] for row in documents]
    return {
        "rows": documents,
        "names": [visible(" ".join(name[: 2 * LONGEST_NAME].split()))[:LONGEST_NAME] for name in names],
        "relevance": [round(value, 6) for value in relevances(space, query, documents)],
        "scores": own,
        "right": [i for i, row in enumerate(documents) if corpus.ids[row] in relevant],
        "near": np.floor(cosines * PRECISION).astype(int).tolist(),
        "sets": [[i for i in ids if i >= 0] for ids in local.tolist()],
        "which": which.ravel().tolist(),
    }


def packed_ranking(space: Space, query: torch.Tensor, ranking: Ranking, **more: Any) -> dict[str, Any]:
    """The same of one ranking of one query, and what that says of itself."""
    return packed(space, query, ranking.index.cpu().numpy(), **more) | {"trust": trust(ranking.info[0])}
