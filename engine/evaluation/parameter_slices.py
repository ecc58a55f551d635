"""Metrics along one parameter: what a setting that was chosen owes to each of its parameters."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.errors import ParamError
from engine.evaluation.metrics import title_of
from engine.evaluation.paired import cells_at, common_form, declared_by, name_of, none_last, varying


@dataclass(frozen=True, kw_only=True)
class Slice:
    """The m settings of one selector along one of its parameters, rising, what is no number last."""

    name: str  # of the parameter
    symbol: str
    label: str
    log: bool  # whether its scale is one of ratios
    values: tuple[Any, ...]  # m of them, None where it is unset
    texts: tuple[str, ...]  # the same to read
    names: tuple[str, ...]  # of the settings
    keys: tuple[str, ...]
    means: Mapping[str, tuple[float, ...]]  # metric → m means
    on: tuple[bool, ...]  # which settings differ from the chosen one in this parameter alone
    chosen: int | None  # its position, None without one


@dataclass(frozen=True)
class Slices:
    """The settings of one selector along each parameter that varies, as declared."""

    method: str
    k: int
    split: str
    titles: Mapping[str, str]  # metric → as charts write it
    base: Mapping[str, float]  # metric → the baseline's mean
    slices: tuple[Slice, ...]


def slices(
    points: Iterable[Any], base: Any, metrics: Sequence[str], k: int = 10, *, through: Any | None = None
) -> Slices:
    """The settings of one selector along each parameter that varies among them.

    points: of one split and selector; base: the baseline's point; through: the chosen one of them. Without it a setting
    lies on a slice where no other parameter varies. Raises ParamError or DataError.
    """
    cells = list({p.label: p for p in cells_at(points, k)}.values())
    if len(selectors := sorted({p.method for p in cells})) > 1:
        raise ParamError(f"slices need points of one selector; got {', '.join(selectors)}")
    if missing := [p.label for p in (*cells, base) if any(m not in p.values for m in metrics)]:
        raise ParamError(f"{', '.join(metrics)}: not all were measured for {missing[0]}")
    chosen = next((p.decoder["select"] for p in cells if through is not None and p.label == through.label), None)
    lines = tuple(_slice(name, cells, chosen, metrics) for name in varying(cells))
    titles = {m: title_of(m) for m in metrics}
    return Slices(selectors[0], cells[0].k, str(cells[0].split), titles, {m: base.mean[m] for m in metrics}, lines)


def _slice(name: str, cells: Sequence[Any], chosen: Mapping[str, Any] | None, metrics: Sequence[str]) -> Slice:
    """One parameter's slice; chosen: the parameters of the chosen setting."""
    form = common_form(declared_by(cells[0].method)[name], cells)
    order = sorted(cells, key=lambda p: none_last(p.decoder["select"][name]))
    params = [p.decoder["select"] for p in order]
    values = tuple(own[name] for own in params)
    others = [n for n in varying(cells) if n != name]
    return Slice(
        name=name,
        symbol=form.symbol,
        label=form.label,
        log=getattr(form, "scale", "linear") == "log",
        values=values,
        texts=tuple(f"{v:g}" if isinstance(v, float) else form.text(v) for v in values),
        names=tuple(name_of(p.decoder, scorers=False) for p in order),
        keys=tuple(p.key for p in order),
        means={m: tuple(p.mean[m] for p in order) for m in metrics},
        on=tuple(not others if chosen is None else all(own[n] == chosen[n] for n in others) for own in params),
        chosen=None if chosen is None else params.index(chosen),
    )
