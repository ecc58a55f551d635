"""One query's sets at every position of a parameter's slider, as plain values that a browser draws from."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, TypeGuard

import numpy as np

from engine.candidates import without_autocast
from engine.decoder import ScoredCandidates, select_from, select_grid_from
from engine.params import Param, Real, Whole, values_of
from engine.space import Space
from engine.stages import Selector
from engine.values import Ranking
from engine.views.decision import relevances
from engine.views.redundancy import similarities
from engine.wording import visible

FINE, COARSE = 1000, 100
"""Steps of a linear slider from end to end: where every value has an answer, and where each is computed."""
RATIOS = 60
"""Positions of a slider of equal ratios."""
PRECISION = 100_000
"""Cosines are sent as whole numbers of 1/PRECISION, rounded down: at .9 one is a near-duplicate here as there."""
LONGEST_NAME = 90


def has_slider(param: Param | None) -> TypeGuard[Real | Whole]:
    """Whether a parameter is set by a slider: a number that cannot be left out, and that people look for."""
    return isinstance(param, Real | Whole) and param.unset is None and not param.advanced


def stops(param: Real | Whole, current: float, exact: bool) -> dict[str, Any]:
    """The positions of a slider as JSON values: `low`, `high` and `steps` of equal size, or the `values` themselves.

    current: a value set beyond the comfortable range is within the slider's.
    """
    low, high = param.comfortable_range
    if isinstance(param, Whole):
        return {"values": list(range(int(min(low, current)), int(max(high, current)) + 1))}
    if param.scale == "log":
        values = [value for value in param.grid(RATIOS) if value is not None]
        return {"values": sorted({*values, *([] if min(values) <= current <= high else [current])})}
    low, high = min(low, current), max(high, current)
    return {"low": low, "high": high, "steps": FINE if exact else COARSE}


def coarser(given: dict[str, Any]) -> dict[str, Any]:
    """Fewer positions of a slider from end to end: those that are computed first where each takes long."""
    return given if "values" in given else {**given, "steps": given["steps"] // 5}


def positions(given: dict[str, Any]) -> list[float]:
    """The values of the positions of `stops`, the same to the last bit wherever they are computed."""
    if "values" in given:
        return list(given["values"])
    low, high, steps = given["low"], given["high"], given["steps"]
    return [float(f"{low + (high - low) * i / steps:.6g}") for i in range(steps + 1)]


@without_autocast
def slider_answers(
    stage: Selector, param: Real | Whole, given: dict[str, Any], scored: ScoredCandidates, k: int, above: float = 0.0
) -> dict[str, Any]:
    """A selector's rankings of one query along one of its parameters, the others as they are.

    given: of `stops`; above: where a path begins at the earliest. Returns JSON values but for `rankings`, (m, k) rows
    of the corpus, −1 pads. With a path, `start` says where it begins, `ends` where in the parameter each ranking but
    the last gives way to the next, and `apart` holds (value, ranking) of positions before the start or that rounding
    decides; without, `ends` is None, each position has its ranking, and `why` says why.
    """
    values = positions(given)
    name = "" if param.name != stage.path_parameter or not isinstance(param, Real) else stage.no_path
    if name is not None:
        settings = [type(stage)(**values_of(stage) | {param.name: value}) for value in values]
        answers = select_grid_from(settings, scored, k)
        return {"rankings": np.vstack([a.index.cpu().numpy() for a in answers]), "ends": None, "why": name}
    c = scored.candidates
    # Equal ratios never reach 0: the path begins at the first position above it.
    inner = [value for value in values if value >= above and (value > 0 or "values" not in given)]
    lines = stage.lambda_path(c, min(k, c.count), (inner[0], inner[-1]), inner)[0]
    picks = lines.picks[lines.last]
    if c.pool is not None:
        picks = np.where(picks < 0, -1, c.pool[0].cpu().numpy()[picks])
    rankings = [np.pad(picks, ((0, 0), (0, k - picks.shape[1])), constant_values=-1)]
    values = [value for value in values if value >= above]
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
    space: Space, query: Any, rankings: np.ndarray, relevant: Collection[str] = (), scores: Any = None
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
    cosines = similarities(space, documents)[one, other] if len(documents) else np.empty(0)
    own = None if scores is None else [None if s != s else round(s, 6) for s in scores[rows].tolist()]
    return {
        "rows": documents,
        "names": [_name(corpus.titles[row] or corpus.texts[row] or corpus.ids[row]) for row in documents],
        "relevance": [round(value, 6) for value in relevances(space, query, documents)],
        "scores": own,
        "right": [i for i, row in enumerate(documents) if corpus.ids[row] in relevant],
        "near": np.floor(cosines * PRECISION).astype(int).tolist(),
        "sets": [[i for i in ids if i >= 0] for ids in local.tolist()],
        "which": which.ravel().tolist(),
    }


def packed_ranking(space: Space, query: Any, ranking: Ranking, **more: Any) -> dict[str, Any]:
    """The same of one ranking of one query."""
    return packed(space, query, ranking.index.cpu().numpy(), **more)


def _name(text: str) -> str:
    return visible(" ".join(text[: 2 * LONGEST_NAME].split()))[:LONGEST_NAME]
