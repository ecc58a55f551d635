"""At most m documents of one source: selectors that pick in turn, without what a full source has left."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch

from engine.candidates import Candidates, select_problem
from engine.errors import DataError, ParamError
from engine.solvers.gram import build_ranking
from engine.solvers.lines import LambdaPath
from engine.space import Space
from engine.stages import Selector, methods
from engine.values import Ranking


@dataclass(frozen=True, eq=False)
class SourceLimit:
    """At most `limit` documents of one source.

    sources: (n,) the source of each row of the corpus, as a number
    """

    limit: int
    sources: np.ndarray

    def list_full_sources(self, picked_rows: np.ndarray) -> "dict[int, tuple[int, ...]] | None":
        """Return the sources that are full before the first pick too many, with their picks; None if no pick is.

        picked_rows: (m,) rows of the corpus, in the order of the picks
        """
        rows_by_source: dict[int, tuple[int, ...]] = {}
        for row, source in zip(picked_rows.tolist(), self.sources[picked_rows].tolist(), strict=True):
            earlier_rows = rows_by_source.get(source, ())
            if len(earlier_rows) == self.limit:
                return {full: rows for full, rows in rows_by_source.items() if len(rows) == self.limit}
            rows_by_source[source] = (*earlier_rows, row)
        return None


def number_sources(space: Space, column: str) -> np.ndarray:
    """Return the (n,) sources of a corpus's documents as numbers, by a metadata column.

    A document without a value is a source of its own. Raises DataError if the corpus has no such column.
    """
    metadata = space.corpus.metadata
    if column not in metadata:
        loaded = f"the loaded columns are {', '.join(map(repr, metadata))}" if metadata else "it has none"
        problem = f"source must be a metadata column of the corpus; got {column!r}, and {loaded}"
        raise DataError(
            f"{problem}. Load the corpus with metadata=[{column!r}]",
            f"{problem}. Load the corpus with that column kept",
        )
    return space.derived(("sources", column), lambda: _number_values(metadata[column]))


def _number_values(values: Sequence[str]) -> np.ndarray:
    """Return (n,) numbers that are equal where the values are; each empty value has a number of its own."""
    numbers: dict[str, int] = {}
    value_numbers = []
    for row, value in enumerate(values):
        value_numbers.append(numbers.setdefault(value, len(numbers)) if value else -1 - row)
    return np.array(value_numbers, dtype=np.int64)


def list_limitable_selectors() -> list[str]:
    """Return the names of the selectors that can keep a limit per source: those that pick in turn."""
    return [name for name, spec in methods("selector").items() if spec.cls.sequential]


def check_per_source(selector: Selector) -> None:
    """Raise a ParamError that lists the selectors with a limit per source, if `selector` is none of them."""
    if not selector.sequential:
        raise ParamError(
            "per_source is for selectors whose picks follow from the picks before them: "
            f"{', '.join(list_limitable_selectors())}; got {selector.spec.name}, which chooses its documents together"
        )


def select_per_source(
    stages: Sequence[Selector], candidates: Candidates, k: int, source_limit: SourceLimit
) -> list[Ranking]:
    """Select k candidates at several settings, at most so many of one source; return one Ranking a setting.

    A pick follows from the picks before it alone. So the picks before the first one too many of its source are right;
    the selector runs again without the other documents of all sources that are full by then, until no pick is too
    many. Where the sources are used up, a ranking has fewer than k documents.
    """
    c, shape = candidates, (len(stages), candidates.batch, k)
    picks, gains = np.full(shape, -1, dtype=np.int64), np.zeros(shape)
    infos: list[list[dict[str, Any]]] = [[{} for _ in range(c.batch)] for _ in stages]
    rankings = type(stages[0]).select_grid(stages, c, k)
    indices = [ranking.index.cpu().numpy() for ranking in rankings]
    for query_index in range(c.batch):
        rows = _list_corpus_rows(c, query_index)
        open_settings: dict[_FullSources, list[int]] = {}
        for setting, (index, ranking) in enumerate(zip(indices, rankings, strict=True)):
            chosen = index[query_index][index[query_index] >= 0]
            full_sources = source_limit.list_full_sources(rows[chosen])
            if full_sources is None:
                place = setting, query_index, slice(len(chosen))
                picks[place], gains[place] = chosen, ranking.gain[query_index, : len(chosen)].cpu().numpy()
                infos[setting][query_index] = dict(ranking.info[query_index])
            else:
                open_settings.setdefault(_as_key(full_sources), []).append(setting)
        problem = _OpenProblem(select_problem(c, query_index), rows, source_limit)
        for setting, (chosen, chosen_gains, info) in problem.solve(stages, open_settings, k):
            place = setting, query_index, slice(len(chosen))
            picks[place], gains[place], infos[setting][query_index] = chosen, chosen_gains, info
    results = []
    for setting_picks, setting_gains, setting_infos in zip(picks, gains, infos, strict=True):
        columns = {name: [info[name] for info in setting_infos] for name in setting_infos[0]}
        results.append(build_ranking(c, setting_picks, setting_gains, columns))
    return results


def follow_path(
    stage: Selector,
    candidates: Candidates,
    k: int,
    interval: tuple[float, float],
    source_limit: SourceLimit | None,
    marks: Sequence[float] = (),
) -> list[LambdaPath]:
    """Return each query's rankings at every value of a path's parameter, as pieces, under a limit per source.

    stage, interval, marks: as `Selector.lambda_path` takes them; source_limit: None for any number of one source
    """
    if not candidates.count:
        certain, gains = np.array([interval], dtype=float), np.empty((1, 2, 0))
        picks = np.empty((1, 0), dtype=np.int64)
        return [LambdaPath(interval[0], certain[:, 1], picks, gains, certain)] * candidates.batch
    if source_limit is None:
        return stage.lambda_path(candidates, k, interval, marks)
    paths = []
    for query_index in range(candidates.batch):
        rows, problem = _list_corpus_rows(candidates, query_index), select_problem(candidates, query_index)
        search = _OpenProblem(problem, rows, source_limit)
        pieces = search.follow(stage, k, interval, (), np.asarray(marks, dtype=np.float64))
        ends, certain = np.array([piece.end for piece in pieces]), np.array([piece.certain for piece in pieces])
        picks, gains = np.stack([piece.picks for piece in pieces]), np.stack([piece.gains for piece in pieces])
        paths.append(LambdaPath(interval[0], ends, picks, gains, certain))
    return paths


_FullSources = tuple[tuple[int, tuple[int, ...]], ...]
"""Sources that are full, each with the rows picked from it, in ascending order."""
_Solution = tuple[np.ndarray, np.ndarray, dict[str, Any]]
"""Picks as positions among the candidates, their gains, and the ranking's info."""


def _as_key(full_sources: dict[int, tuple[int, ...]], earlier: _FullSources = ()) -> _FullSources:
    """Return full sources in a form that does not depend on the order of the picks, with those of an earlier search.

    The earlier ones are full again, by the same rows, unless rounding decides otherwise in another set of candidates.
    They stay full then, so that each search has one more, and the last one ends.
    """
    all_sources = {**{source: tuple(sorted(rows)) for source, rows in full_sources.items()}, **dict(earlier)}
    return tuple(sorted(all_sources.items()))


def _list_corpus_rows(c: Candidates, query_index: int) -> np.ndarray:
    """Return the (m,) rows of the corpus that one query's candidates are."""
    return np.arange(c.count) if c.pool is None else c.pool[query_index].cpu().numpy()


@dataclass(frozen=True, eq=False)
class _Piece:
    """Values of a parameter with one ranking.

    picks: (k,) positions among the candidates, −1 pads; gains: (2, k) of lines, as in a LambdaPath; certain: from where
    to where no rounding decides
    """

    start: float
    end: float
    picks: np.ndarray
    gains: np.ndarray
    certain: tuple[float, float]


class _OpenProblem:
    """One query whose selector ran into a full source: it runs again on the candidates that may still be picked."""

    def __init__(self, problem: Candidates, rows: np.ndarray, source_limit: SourceLimit) -> None:
        """Take one query's candidates. rows: (m,) their rows in the corpus."""
        self.problem, self.rows, self.source_limit = problem, rows, source_limit
        self.sources = source_limit.sources[rows]

    def solve(
        self, stages: Sequence[Selector], open_settings: dict[_FullSources, list[int]], k: int
    ) -> Iterator[tuple[int, _Solution]]:
        """Yield each open setting with its solution.

        open_settings: full sources → positions of the settings that run next without the rest of these
        """
        while open_settings:
            full_sources, settings = open_settings.popitem()
            allowed, restricted = self._restrict(full_sources)
            open_stages = [stages[setting] for setting in settings]
            rankings = type(stages[0]).select_grid(open_stages, restricted, min(k, len(allowed)))
            for setting, ranking in zip(settings, rankings, strict=True):
                chosen = allowed[ranking.rows()]
                next_full = self.source_limit.list_full_sources(self.rows[chosen])
                if next_full is not None:
                    open_settings.setdefault(_as_key(next_full, full_sources), []).append(setting)
                    continue
                # All candidates were there to choose from; those of full sources were refused, not unseen.
                info = {**ranking.info[0], "candidates": self.problem.count}
                yield setting, (chosen, ranking.gain[0, : len(chosen)].cpu().numpy(), info)

    def follow(
        self, stage: Selector, k: int, interval: tuple[float, float], full_sources: _FullSources, marks: np.ndarray
    ) -> list[_Piece]:
        """Return the pieces of the interval, in ascending order.

        full_sources: those that are full at every value of it
        """
        allowed, restricted = np.arange(len(self.rows)), self.problem
        if full_sources:
            allowed, restricted = self._restrict(full_sources)
        inner_marks = marks[(marks >= interval[0]) & (marks <= interval[1])]
        (path,) = stage.lambda_path(restricted, min(k, len(allowed)), interval, inner_marks.tolist())
        pieces = list(_list_pieces(path, allowed, k))
        results: list[_Piece] = []
        position = 0
        while position < len(pieces):
            key, group = self._group_from(pieces, position, full_sources)
            position += len(group)
            if key is None:
                results += group
                continue
            # Between the same full sources the next search runs once; its pieces end where this one's do.
            span = group[0].start, group[-1].end
            has_mark = not len(marks) or bool(((marks >= span[0]) & (marks <= span[1])).any())
            if has_mark:
                results += _cut_pieces(self.follow(stage, k, span, key, marks), group)
        return results

    def _group_from(
        self, pieces: Sequence[_Piece], position: int, full_sources: _FullSources
    ) -> tuple[_FullSources | None, list[_Piece]]:
        """Return the neighbouring pieces from `position` on with the same full sources, and these; None for none.

        full_sources: those that are full at every value of the pieces
        """
        find_key: Callable[[_Piece], _FullSources | None] = partial(self._find_full, full_sources)
        key, stop = find_key(pieces[position]), position + 1
        while stop < len(pieces) and find_key(pieces[stop]) == key:
            stop += 1
        return key, list(pieces[position:stop])

    def _find_full(self, full_sources: _FullSources, piece: _Piece) -> _FullSources | None:
        """Return the sources that are full before a piece's first pick too many; None if no pick is.

        full_sources: those that are full already
        """
        next_full = self.source_limit.list_full_sources(self.rows[piece.picks[piece.picks >= 0]])
        return None if next_full is None else _as_key(next_full, full_sources)

    def _restrict(self, full_sources: _FullSources) -> tuple[np.ndarray, Candidates]:
        """Return the positions of the candidates that may still be picked or are picked already, and these alone."""
        full_numbers, picked_rows = zip(*full_sources, strict=True)
        is_allowed = ~np.isin(self.sources, full_numbers) | np.isin(self.rows, np.concatenate(picked_rows))
        allowed, c = np.flatnonzero(is_allowed), self.problem
        index = torch.from_numpy(allowed).to(c.vectors.device)
        vectors = c.vectors[index][None] if c.vectors.ndim == 2 else c.vectors[:, index]
        pool = torch.from_numpy(self.rows[allowed]).to(index.device)[None]
        relevance = c.relevance[:, index]
        return allowed, replace(c, vectors=vectors, relevance=relevance, pool=pool, scaled_among=c, scale_basis=None)


def _list_pieces(path: LambdaPath, allowed: np.ndarray, k: int) -> Iterator[_Piece]:
    """Yield the pieces of a path over some candidates. allowed: their positions among all."""
    starts, n_missing = np.append(path.start, path.ends[:-1]), k - path.picks.shape[1]
    positions, gains = np.where(path.picks < 0, -1, allowed[path.picks]), path.gains
    if n_missing:
        positions = np.pad(positions, ((0, 0), (0, n_missing)), constant_values=-1)
        gains = np.pad(gains, ((0, 0), (0, 0), (0, n_missing)))
    for start, end, picks, lines, certain in zip(starts, path.ends, positions, gains, path.certain, strict=True):
        yield _Piece(float(start), float(end), picks, lines, (float(certain[0]), float(certain[1])))


def _cut_pieces(pieces: Sequence[_Piece], outer_pieces: Sequence[_Piece]) -> list[_Piece]:
    """Cut pieces where those of an earlier search end, and leave certain only what both searches are certain of."""
    results = []
    for piece in pieces:
        overlapping = [outer for outer in outer_pieces if outer.start < piece.end and piece.start < outer.end]
        # A piece of no length, at an end of the interval, lies in the outer piece that ends or begins there.
        for outer in overlapping or [outer for outer in outer_pieces if outer.start <= piece.end <= outer.end][:1]:
            certain = max(piece.certain[0], outer.certain[0]), min(piece.certain[1], outer.certain[1])
            start, end = max(piece.start, outer.start), min(piece.end, outer.end)
            results.append(replace(piece, start=start, end=end, certain=certain))
    return results
