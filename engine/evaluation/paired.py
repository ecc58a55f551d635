"""Decoders side by side: the queries that all of them answered, and the names that tell them apart."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import compress
from typing import Any

import numpy as np

from engine.decoder import SET_SIZE
from engine.errors import DataError, ParamError
from engine.params import Choice, Flag, Param, Text, form_of
from engine.stages import methods

SAME = 1e-9
"""Values that differ by no more are equal: the last bits depend on the order of a set and on the machine."""


@dataclass(frozen=True, eq=False)
class Shared:
    """Cells on the queries for which each of them has every metric."""

    points: tuple[Any, ...]  # of one k and split, each decoder once
    queries: tuple[str, ...]  # their ids, sorted, so that nothing depends on the order in which anything was given
    values: Mapping[str, np.ndarray]  # metric → (queries, points)
    asked: int  # number of queries that all were asked
    left_out: tuple[Any, ...]  # cells that have the metrics on no query at all, as where nothing was returned

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The points' names, in their order."""
        return names(self.points)


def cells_at(points: Iterable[Any], k: int) -> list[Any]:
    """The points of one k and one split; raises ParamError or DataError where there are none, or several splits."""
    k, given = SET_SIZE.check(k), list(points)
    cells = [p for p in given if p.k == k]
    if not cells:
        sizes = ", ".join(map(str, sorted({p.k for p in given}))) or "none"
        raise DataError(f"no point was measured at k = {k}; k of the points: {sizes}")
    if len(splits := {str(getattr(p, "split", "")) for p in cells}) > 1:
        raise DataError(f"points must be of one split; got {', '.join(sorted(splits))}")
    return cells


def shared(points: Iterable[Any], metrics: Sequence[str], k: int) -> Shared:
    """What points at k have in common; points: `Point`s, or anything with its k, label, queries, values and decoder.

    A decoder given twice with the same values counts once. Raises ParamError or DataError: nothing at this k, a metric
    that was not measured, several splits, one decoder with differing values, no query in common.
    """
    by_label: dict[str, Any] = {}
    for point in cells_at(points, k):
        if missing := [m for m in metrics if m not in point.values]:
            measured = ", ".join(point.values) or "nothing"
            raise ParamError(f"{', '.join(missing)} was not measured for {point.label}; it has {measured}")
        other = by_label.setdefault(point.label, point)
        if other is point:
            continue
        if other.queries != point.queries or not all(
            np.allclose(other.values[m], point.values[m], rtol=0, atol=SAME, equal_nan=True) for m in metrics
        ):
            raise DataError(f"two points are called {point.label} and differ: compare those of one data set at a time")
    cells = list(by_label.values())
    has = {p.label: np.all([np.isfinite(p.values[m]) for m in metrics], axis=0) for p in cells}
    compared = tuple(p for p in cells if has[p.label].any())
    what = " and ".join(dict.fromkeys(metrics))
    if not compared:
        raise DataError(f"no point has {what} at k = {k} on any query")
    common = sorted(set.intersection(*map(set, {p.queries for p in compared})))
    rows = {}
    for order in {p.queries for p in compared}:
        position = {query: row for row, query in enumerate(order)}
        rows[order] = np.array([position[query] for query in common], dtype=int)
    everywhere = np.all([has[p.label][rows[p.queries]] for p in compared], axis=0)
    if not everywhere.any():
        scarce = min(compared, key=lambda p: (has[p.label].sum(), p.label))
        raise DataError(
            f"no query has {what} for every point; {scarce.label} has it for the fewest, "
            f"{has[scarce.label].sum():,} of {len(scarce.queries):,}: leave it out"
        )
    values = {
        m: np.stack([np.asarray(p.values[m], np.float64)[rows[p.queries]][everywhere] for p in compared], axis=1)
        for m in metrics
    }
    queries = tuple(compress(common, everywhere))
    return Shared(compared, queries, values, len(common), tuple(p for p in cells if not has[p.label].any()))


@dataclass(frozen=True, slots=True)
class QueryDifference:
    """One query's metric with two decoders."""

    query: str  # its id
    value: float
    baseline: float
    difference: float  # value − baseline, 0 for a tie


def by_query(
    point: Any, baseline: Any, metric: str, k: int = 10, *, among: Iterable[Any] = ()
) -> tuple[QueryDifference, ...]:
    """The queries from the most won to the most lost, ties in between by id.

    point, baseline: of a sweep at k; among: the points they were compared with, so that the queries are the same as
    there: those for which all have the metric. Raises ParamError or DataError.
    """
    common = shared([point, baseline, *among], (metric,), k)
    labels = [p.label for p in common.points]
    columns = (common.values[metric][:, labels.index(p.label)].tolist() for p in (point, baseline))
    rows = [
        QueryDifference(query, a, b, a - b if abs(a - b) > SAME else 0.0)
        for query, a, b in zip(common.queries, *columns, strict=True)
    ]
    return tuple(sorted(rows, key=lambda row: (-row.difference, row.query)))


def scorers_matter(points: Iterable[Any]) -> bool:
    """Whether the points differ in their scorers, or rerank; a run of another system has none."""
    chains = {chain_of(p.decoder) for p in points if p.decoder.get("retrieve")}
    return len(chains) > 1 or any(rerank for _, rerank in chains)


def chain_of(decoder: Mapping[str, Any]) -> tuple[frozenset[Any], frozenset[Any]]:
    """The scorers of a decoder, its stages as plain values: equal where they and their parameters are."""
    retrieve, rerank = (frozenset((decoder.get(role) or {}).items()) for role in ("retrieve", "rerank"))
    return retrieve, rerank


def display(name: str, values: Mapping[str, str]) -> str:
    """A stage for people: title, numbers with their symbols, words: "MMR · λ 0.8", "Hybrid · λ 1 · rrf"."""
    declared, spec = declared_by(name), methods().get(name)
    numbers, words = [], []
    for param, text in values.items():
        known = form_of(declared[param], values)[1] if param in declared else None
        match known:
            case Flag() as flag:
                words.append(flag.label if text == flag.text(True) else f"no {flag.label}")
            case Choice(words=said, options=options) if said:
                words.append(said[options.index(text)])
            case Choice() | Text() if text[:1].isalpha():
                words.append(text)
            case _:
                numbers.append(f"{known.symbol if known else param} {text.removesuffix('.0')}")
    return " · ".join(filter(None, [spec.title if spec else name, " ".join(numbers), *words]))


def promise(stage: Mapping[str, Any]) -> str:
    """What names of a stage always say: "filled to k"; stage: as plain values. "" where there is nothing."""
    declared = declared_by(stage["name"])
    said = (form.words[form.options.index(stage[n])] for n, form in declared.items() if n in stage and _is_said(form))
    return ", ".join(said)


def _is_said(param: Param | None) -> bool:
    return isinstance(param, Choice) and bool(param.words)


def written_out(name: str, values: Mapping[str, str]) -> str:
    """A stage as files and code write it: name(l1=0.1, l2=0.1)."""
    shown = ", ".join(f"{n}={value}" for n, value in values.items())
    return f"{name}({shown})" if shown else name


Style = Callable[[str, Mapping[str, str]], str]
"""Writes a stage, of its name and its shown values."""


def names(points: Sequence[Any], style: Style = display) -> tuple[str, ...]:
    """Short names that tell decoders apart: the scorers go without saying where all have the same and none reranks."""
    scorers = scorers_matter(points)
    return tuple(name_of(p.decoder, scorers, style=style) for p in points)


def name_of(
    decoder: Mapping[str, Any],
    scorers: bool = True,
    without: tuple[str, str] | None = None,
    style: Style = display,
) -> str:
    """A decoder as pages and charts write it, "MMR · λ 0.8": advanced parameters only where not at their default, or
    where their words always have to be said.

    decoder: its stages as plain values; scorers: whether to name them too; without: (stage, parameter) to pass over.
    """
    parts = []
    for role in ("retrieve", "rerank", "select") if scorers else ("select",):
        if stage := decoder.get(role):
            declared = declared_by(stage["name"])
            shown = {
                name: declared[name].text(value) if name in declared else str(value)
                for name, value in stage.items()
                if name != "name" and (role, name) != without
                if name not in declared
                or not declared[name].advanced
                or value != declared[name].default
                or (style is display and _is_said(declared[name]))
            }
            parts.append(style(stage["name"], shown))
    pool = decoder.get("depth") if without != ("", "depth") else None
    return " → ".join(parts) + (f" [pool {pool}]" if pool else "")


def none_last(value: Any) -> tuple[bool, Any]:
    """A sort key: numbers in order, None after them, as declared grids have it."""
    return (value is None, 0 if value is None else value)


def varying(cells: Sequence[Any]) -> list[str]:
    """The parameters of the selector of cells that have more than one value, as declared."""
    return [name for name in cells[0].decoder["select"] if len({p.decoder["select"].get(name) for p in cells}) > 1]


def common_form(param: Param, cells: Iterable[Any]) -> Param:
    """A parameter of the selector in the form in which all cells mean it; as declared where they differ."""
    forms = {form_of(param, p.decoder["select"])[1] for p in cells}
    return forms.pop() if len(forms) == 1 else param


def declared_by(name: str) -> Mapping[str, Any]:
    """The declared parameters of a stage by name; none for a stage that is not registered here."""
    spec = methods().get(name)
    return {p.name: p for p in spec.params} if spec else {}
