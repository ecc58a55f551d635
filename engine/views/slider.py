"""One query's sets at every position of a parameter's slider, as plain values for a browser to draw."""

import weakref
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from typing import Any, TypeGuard

import numpy as np
import torch

from engine.candidates import without_autocast
from engine.decoder import Decoder, ScoredCandidates, score_candidates, select_from, select_grid_from
from engine.errors import DataError
from engine.evaluation.duplicate_threshold import COSINE_TOLERANCE, resolve_duplicate_threshold
from engine.params import Param, Real, Whole, values_of
from engine.progress import raise_if_stopped
from engine.reach import Reach
from engine.selection.per_source import follow_path
from engine.space import Space
from engine.stages import Selector
from engine.values import Corpus, Embeddings, Ranking
from engine.views.decision import describe_trust, relevances, similarities
from engine.views.names import full_name, name_document

FINE_STEPS, COARSE_STEPS = 1000, 100
"""Steps of a linear slider from end to end: where every value has an answer, and where each is computed."""
RATIO_STEPS = 60
"""Positions of a slider of equal ratios."""
PRECISION = 100_000
"""Cosines are sent as whole numbers of 1/PRECISION, rounded down: one at a threshold reaches it there too."""
TWO_PART_SIZE, FIRST_PART_START = 2048, 0.5
"""Documents from which on a slider's answers come in two parts, and the start of the first part of a path."""
MAX_FULL_SIZE, POOL_SIZE = 200_000, 500
"""Documents up to which a slider is drawn from all of them, and size of the pool that it is drawn from beyond."""
MAX_WORK, MAX_PAIRS, MIN_SAMPLES = 4_000_000_000, 1_300_000, 5
"""Picks × candidates × settings, and pairs of documents in the sets of all settings, beyond which a slider is sampled
at fewer settings; and the fewest of these."""
SAMPLE_COUNTS, MAX_SAMPLING_SECONDS = (101, 51, 26, 11), 20.0
"""Settings of a slider that is sampled: the first number whose answers take no longer. Few numbers, as each has an
address of its own, and no two times are equal."""
MAX_CALL_WORK = 200_000_000
"""Picks² × candidates × settings of one call: between two, whoever asked may have gone."""
MAX_COSINE_BYTES = 50_000_000
"""Size up to which the cosines between all documents of a slider are computed and sent: some 2,500 documents."""


def has_slider(param: Param | None) -> TypeGuard[Real | Whole]:
    """Return True if a parameter is set by a slider: a required number that users adjust."""
    return isinstance(param, Real | Whole) and param.unset is None and not param.advanced


def stops(param: Real | Whole, current: float, exact: bool) -> list[float]:
    """List the values at which a parameter's slider stops: the range of sliders, extended to `current`.

    current: value that is set now; exact: True if all rankings over the parameter's interval are computed at once, so
    that steps may be fine
    """
    minimum, maximum = param.comfortable_range
    if isinstance(param, Whole):
        return list(range(int(min(minimum, current)), int(max(maximum, current)) + 1))
    if param.scale == "log":
        values = [value for value in param.grid(RATIO_STEPS) if value is not None]
        values += [] if min(values) <= current <= maximum else [current]
        return sorted(set(values))
    minimum, maximum = min(minimum, current), max(maximum, current)
    n_steps = FINE_STEPS if exact else COARSE_STEPS
    # Six digits, so that no stop shows the rounding of its sum.
    return [float(f"{minimum + (maximum - minimum) * position / n_steps:.6g}") for position in range(n_steps + 1)]


@dataclass(frozen=True, kw_only=True, eq=False)
class SliderRequest:
    """Request of a browser whose slider is moved: data alone, which keep no corpus alive."""

    source: weakref.ref[Space] | Reach  # the corpus, or the engine whose first documents stand for it
    decoder: Decoder
    param: Real | Whole  # the parameter, as its slider shows it
    stops: Sequence[float]  # the values of its positions
    start: float  # the smallest value at which a path begins
    query: Embeddings  # of one query
    k: int
    candidates: weakref.ref[ScoredCandidates] | None  # scored already, where that takes long
    within: bool  # True if the most relevant stand for a corpus too large for a drag
    sampled: str  # the reason why each of `stops` is solved alone, although the selector has a path; "" if it is not
    details: Mapping[str, Any]  # options of `pack_sets`

    def answer(self) -> dict[str, Any]:
        """Compute the sets at all positions of the slider as JSON values, for the browser to draw.

        Raises DataError if the corpus is no longer in memory.
        """
        scored: ScoredCandidates | None = None
        if isinstance(self.source, weakref.ref):
            # A call of a weak reference returns None once its corpus or candidates are no longer in memory.
            space, rows = self.source(), None
            if space is not None:
                scored = self.candidates() if self.candidates else self._score(space)
        # The corpus of a vector engine is not in memory: the engine's first results, the pool, stand for it.
        else:
            # rows: pool row → row of `space`, by which the rankings are translated below.
            pool_space, rows = self.source.pool(self.query, self.decoder.without_self)
            space, scored = self.source.space, self._score(pool_space)
        if space is None or scored is None:
            raise DataError("what this slider shows is no longer in memory; move it to have it computed again")
        stage = self.decoder.select
        answers = slider_answers(stage, self.param, self.stops, scored, self.k, self.start, self.sampled)
        rankings = answers.pop("rankings")
        if rows is not None:
            # −1 pads a short ranking, and is no row.
            rankings = np.where(rankings < 0, -1, np.array(rows)[rankings])
        if self.within or rows is not None:
            answers["within"] = f"from the top {len(rows) if rows is not None else self.decoder.depth:,}"
        return {**answers, "stops": self.stops, **pack_sets(space, self.query.vectors[0], rankings, **self.details)}

    def _score(self, space: Space) -> ScoredCandidates:
        """Score the candidates of the request's query."""
        return score_candidates(self.decoder, space, self.query)


def requests(
    source: Space | Reach,
    decoder: Decoder,
    param: Real | Whole,
    query: Embeddings,
    k: int,
    candidates: ScoredCandidates | None = None,
    seconds: float | None = None,
    **details: Any,
) -> list[SliderRequest]:
    """Build the requests by which a browser gets a query's sets at all positions of a parameter's slider.

    There is one request, or two for a corpus so large that a first part of the answers should come soon. source: the
    corpus, or a vector engine that holds it; candidates: scored already, None to score them in the request; seconds: of
    one answer, None if unknown; details: ids of `relevant` documents and `scores` of all, passed on to `pack_sets`.
    """
    stage, in_memory, size = decoder.select, isinstance(source, Space), len(source)
    # A selector with a path has all its rankings over the parameter's interval, not only at positions.
    is_exact = stage.no_path is None and param.name == stage.path_parameter
    values = stops(param, getattr(stage, param.name), is_exact)
    # Answers from all documents of a larger corpus would take too long: they come from a pool of the most relevant.
    within = in_memory and size > MAX_FULL_SIZE and decoder.depth is None
    if within:
        decoder = replace(decoder, depth=max(POOL_SIZE, 2 * k))
    n_candidates = min(size, decoder.depth or size) if in_memory else decoder.depth or max(POOL_SIZE, 2 * k)
    value_parts, sampled = [(values, 0.0)], ""
    max_settings = count_affordable_settings(min(k, n_candidates), n_candidates)
    if len(values) > max_settings:
        # All values would take minutes, for which the sliders of all visitors would wait.
        value_parts = [(sample_stops(values, min(max_settings, _count_samples(seconds))), 0.0)]
        if is_exact:
            sampled = f"every value, with k {k:,} of {n_candidates:,} documents, would take too long"
    elif in_memory and TWO_PART_SIZE < size <= MAX_FULL_SIZE:
        # A part comes first, so that something can be dragged soon: the end of a path, or every fifth position.
        sparse = values[::5] if isinstance(param, Real) and param.scale != "log" else values
        value_parts.insert(0, (values, FIRST_PART_START) if is_exact else (sparse, 0.0))
    # Weak references: a request that waits in a queue must not keep a corpus in memory.
    reference = weakref.ref(source) if isinstance(source, Space) else source
    candidates_reference = None if candidates is None else weakref.ref(candidates)
    return [
        SliderRequest(
            source=reference, decoder=decoder, param=param, stops=values_part, start=start, query=query, k=k,
            candidates=candidates_reference, within=within, sampled=sampled, details=details,
        )
        for values_part, start in value_parts
    ]  # fmt: skip


def count_affordable_settings(k: int, n_candidates: int) -> int:
    """Return the number of settings at which a slider's sets of k can be computed, compared and drawn in seconds."""
    by_work = MAX_WORK // max(1, k * n_candidates)
    # Each set has its cosines, which the browser reads pair by pair.
    by_pairs = MAX_PAIRS // max(1, k * (k - 1) // 2)
    return max(MIN_SAMPLES, min(by_work, by_pairs))


def _count_samples(seconds: float | None) -> int:
    """Return the number of settings of a slider that is sampled; seconds: of one answer, None if unknown."""
    # One answer may take seconds: linearly dependent documents make some selectors solve again what rounding has lost.
    is_affordable = (count for count in SAMPLE_COUNTS if (seconds or 0.0) * count <= MAX_SAMPLING_SECONDS)
    return next(is_affordable, MIN_SAMPLES)


def sample_stops(values: Sequence[float], n_samples: int) -> list[float]:
    """Return up to `n_samples` (2 at least) evenly spaced positions of a slider, with its first and its last."""
    positions = np.linspace(0, len(values) - 1, min(n_samples, len(values))).round().astype(int)
    return [values[position] for position in positions]


def _select_at(
    stage: Selector, param: Real | Whole, values: Sequence[float], scored: ScoredCandidates, k: int
) -> np.ndarray:
    """Return a selector's (m, k) rankings at m values of a parameter. Raises Cancelled if the caller is stopped."""
    settings = [type(stage)(**values_of(stage) | {param.name: value}) for value in values]
    # Settings solved in one call share their work, and no call can be interrupted.
    block_size = max(1, MAX_CALL_WORK // max(1, k * k * scored.candidates.count))
    rankings = []
    for block_start in range(0, len(settings), block_size):
        raise_if_stopped("the slider was stopped")
        answers = select_grid_from(settings[block_start : block_start + block_size], scored, k)
        rankings += [answer.index.cpu().numpy() for answer in answers]
    return np.vstack(rankings)


@without_autocast
def slider_answers(
    stage: Selector,
    param: Real | Whole,
    values: Sequence[float],
    scored: ScoredCandidates,
    k: int,
    start: float = 0.0,
    sampled: str = "",
) -> dict[str, Any]:
    """Compute a selector's rankings of one query at every position of one parameter's slider.

    With them the browser can move the slider without asking the server. Some selectors have a path: all rankings over
    an interval of the parameter, in pieces within which the ranking does not change. Others are solved at each
    position. values: the parameter's values at the positions, ascending; start: positions below it get no answer from a
    path; sampled: the reason why each position is solved although there is a path, "" for the path. Returns JSON values
    except `rankings`, an (m, k) array of rows of the corpus in which −1 pads. With a path:

    - start: the value at which the path begins
    - ends: the value at which each of the path's rankings gives way to the next
    - apart: (value, index into `rankings`) of each position that was solved alone: before the path begins, or where
      rounding could decide the path's ranking

    Without a path `ends` is None, and each position has its own ranking. `why` says why there is no path, or is "" for
    a parameter over which no selector's path runs.
    """
    has_path_parameter = param.name == stage.path_parameter and isinstance(param, Real)
    reason = (sampled or stage.no_path) if has_path_parameter else ""
    # Without a candidate every ranking is empty, wherever the slider stands.
    if not scored.candidates.count:
        return {"rankings": np.full((len(values), k), -1), "ends": None, "why": ""}
    # None: the selector has a path over this parameter.
    if reason is not None:
        return {"rankings": _select_at(stage, param, values, scored, k), "ends": None, "why": reason}
    candidates = scored.candidates
    # On a logarithmic slider 0 is a position but no point of a path, which begins at the first position above it.
    is_log_scale = isinstance(param, Real) and param.scale == "log"
    path_values = [value for value in values if value >= start and (value > 0 or not is_log_scale)]
    limits, n_selected = (path_values[0], path_values[-1]), min(k, candidates.count)
    (path,) = follow_path(stage, candidates, n_selected, limits, scored.source_limit, path_values)
    # Neighbouring pieces may have one ranking: it is taken once, from the last of them.
    picks = path.picks[path.last]
    # Candidates are numbered within the pool; answers are rows of the corpus.
    if candidates.pool is not None:
        picks = np.where(picks < 0, -1, candidates.pool[0].cpu().numpy()[picks])
    rankings = [np.pad(picks, ((0, 0), (0, k - picks.shape[1])), constant_values=-1)]
    values = [value for value in values if value >= start]
    pieces = np.minimum(np.searchsorted(path.ends, values), len(path.ends) - 1)
    low_certain, high_certain = path.certain[pieces].T
    # Positions at which rounding may decide the ranking are solved one by one.
    is_certain = (low_certain <= values) & (values <= high_certain)
    n_path_rankings = len(picks)
    uncertain_positions: list[list[float]] = []
    for value in compress(values, ~is_certain):
        raise_if_stopped("the slider was stopped")
        setting = type(stage)(**values_of(stage) | {param.name: value})
        rankings.append(select_from(setting, scored, k).index.cpu().numpy())
        uncertain_positions.append([value, n_path_rankings + len(uncertain_positions)])
    ends = path.ends[path.last[:-1]].tolist()
    stacked = np.vstack(rankings)
    return {"rankings": stacked, "start": path.start, "ends": ends, "apart": uncertain_positions, "why": ""}


def pack_sets(
    space: Space,
    query: torch.Tensor,
    rankings: np.ndarray,
    relevant: Collection[str] = (),
    scores: Any = None,
    duplicate_threshold: float | None = None,
) -> dict[str, Any]:
    """Pack rankings of one query, with all that a browser draws of their documents, as JSON values.

    query: (d,) its vector; rankings: (m, k) rows, −1 pads; relevant: ids judged so; scores: (n,) the selector's
    relevance if it is not the inner product with the query; duplicate_threshold: the cosine of near-duplicates, None
    for that of the corpus. The result has:

    - rows, names, relevance, scores: the documents that some ranking has, with name and relevance of each
    - tooltips: row → full name, of the documents whose name is cut
    - right: positions in `rows` of the documents judged relevant
    - sets: the distinct rankings, as positions in `rows`
    - which: for each ranking its index in `sets`
    - near: cosines in 1/PRECISION, each pair of documents that share a set once. The browser derives the pairs' order
      from `sets`: set by set, and in a set second with first, third with first, third with second, …; None for so many
      documents that their cosines would take more than MAX_COSINE_BYTES
    - unmeasured: the reason why `near` is None, as a sentence; "" if it is not
    - duplicate: the cosine from which on two documents are near-duplicates
    """
    distinct_rankings, which = np.unique(rankings, axis=0, return_inverse=True)
    rows = np.unique(distinct_rankings[distinct_rankings >= 0])
    local_sets = np.where(distinct_rankings < 0, -1, np.searchsorted(rows, distinct_rankings))
    members = [local_set[local_set >= 0] for local_set in local_sets]
    documents, corpus = rows.tolist(), space.corpus
    near, unmeasured = None, ""
    names = [name_document(corpus, row) for row in documents]
    if 8 * len(documents) ** 2 <= MAX_COSINE_BYTES:
        near = _pack_cosines(similarities(space, documents), members)
    else:
        unmeasured = (
            f"The sets have {len(documents):,} documents, too many to compare each with every other: without diversity "
            "and near-duplicates. A smaller k has them."
        )
    values = None if scores is None else list(map(_round_score, scores[rows].tolist()))
    return {
        "rows": documents,
        "names": names,
        "tooltips": _list_tooltips(corpus, dict(zip(documents, names, strict=True))),
        "relevance": list(map(_round_score, relevances(space, query, documents))),
        "scores": values,
        "right": [position for position, row in enumerate(documents) if corpus.ids[row] in relevant],
        "near": near,
        "unmeasured": unmeasured,
        "duplicate": resolve_duplicate_threshold(space, duplicate_threshold),
        "sets": [positions.tolist() for positions in members],
        "which": which.ravel().tolist(),
    }


def _pack_cosines(cosines: np.ndarray, sets: Sequence[np.ndarray]) -> list[int]:
    """Return the cosine, in 1/PRECISION, of each pair that some set has, in the order in which they first meet.

    cosines: (m, m); sets: positions in it. Raises Cancelled if the caller is stopped.
    """
    packed = np.floor((cosines + COSINE_TOLERANCE) * PRECISION).astype(np.int32)
    # One bit for each pair tells what is packed already, in place of a list of all pairs of all sets.
    is_packed = np.eye(len(packed), dtype=bool)
    parts, n_missing = [], len(packed) * (len(packed) - 1) // 2
    for positions in sets:
        raise_if_stopped("the slider was stopped")
        # Once every pair has been met, no further set brings one.
        if not n_missing:
            break
        second_rank, first_rank = np.tril_indices(len(positions), -1)
        second, first = positions[second_rank], positions[first_rank]
        is_new = ~is_packed[second, first]
        second, first = second[is_new], first[is_new]
        is_packed[second, first] = is_packed[first, second] = True
        n_missing -= len(first)
        parts.append(packed[second, first])
    return np.concatenate(parts).tolist() if parts else []


def _list_tooltips(corpus: Corpus, names: Mapping[int, str]) -> dict[int, str]:
    """Return row → full name of the documents whose name lacks its beginning or end; names: of all, by row."""
    full_names = {row: full_name(corpus, row) for row in names}
    return {row: text for row, text in full_names.items() if text != names[row]}


def _round_score(score: float) -> float | None:
    """Round a score for display; NaN, a document without a score, becomes None, as JSON has no NaN."""
    # NaN alone differs from itself.
    return None if score != score else round(score, 6)


def pack_ranking(space: Space, query: torch.Tensor, ranking: Ranking, **more: Any) -> dict[str, Any]:
    """Pack one ranking of one query, with its certificate in words."""
    return pack_sets(space, query, ranking.index.cpu().numpy(), **more) | {"trust": describe_trust(ranking.info[0])}
