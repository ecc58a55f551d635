"""Choosing among decoders: each at its best on one split, the best of these taken, and all tested on another split."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np

from engine.decoder import SET_SIZE, Decoder
from engine.errors import ParamError
from engine.evaluation.exact_frontier import exact_frontiers
from engine.evaluation.metrics import METRICS
from engine.evaluation.paired import names, shared
from engine.evaluation.power import queries_needed
from engine.evaluation.splits import judged_by
from engine.evaluation.statistics import RESAMPLES, SEED, Comparison, compare, statement
from engine.evaluation.sweep.cell import Cell, as_json
from engine.evaluation.sweep.store import Store
from engine.evaluation.sweep.sweep import grid, sweep
from engine.evaluation.tuning.objectives import RELEVANT, Objective, TunedChoice
from engine.evaluation.tuning.tune import VERDICTS, choose_setting, choose_value, margin_of
from engine.progress import Progress, Stop, counted
from engine.space import Space
from engine.stages import Selector, Stage, make, methods
from engine.values import Embeddings, Qrels, Queries
from engine.wording import decimal, percent


@dataclass(frozen=True, eq=False, kw_only=True)
class Candidate:
    """A decoder at its best setting on dev."""

    name: str  # as charts write it
    decoder: Decoder
    settings: int  # number that were measured on dev
    dev: Cell
    test: Cell | None


@dataclass(frozen=True, eq=False, kw_only=True)
class ChosenDecoder:
    """The decoder that dev chose, and what test says of it and of those that it was chosen from.

    Where no setting is sure on dev to keep what must be kept, the baseline stays.
    """

    objective: Objective
    k: int
    dev: str
    test: str | None
    candidates: tuple[Candidate, ...]  # each decoder's best, the best of them first
    base: Candidate  # the first selector behind the first scorer
    choosing: TunedChoice  # why the first candidate is the best, and whether it is what was asked for on dev
    comparisons: Mapping[str, tuple[Comparison, ...]]  # metric → every candidate against the baseline on test, Holm

    @property
    def winner(self) -> Candidate:
        """The decoder that dev chose."""
        return self.base if self.stays else self.candidates[0]

    @property
    def stays(self) -> bool:
        """Whether the baseline stays, as no setting is sure on dev to keep what must be kept."""
        return self.objective.constrained and not self.choosing.satisfied

    @property
    def decoder(self) -> Decoder:
        """The same, as decoders are used."""
        return self.winner.decoder

    @property
    def confirmed(self) -> bool | None:
        """Whether test shows what was asked for; None without test, and for a knee, which claims nothing."""
        base, own = self.base.test, self.winner.test
        if own is None or base is None or self.stays or self.objective.aim == "knee":
            return None
        row = self.gained
        gained = row is not None and row.significant and row.difference > 0
        return gained and bool(
            self.objective.kept(_means(own, base, self.objective), _means(base, own, self.objective))
        )

    @property
    def status(self) -> str:
        """Whether test confirms the choice, in a few words."""
        if self.stays:
            return f"stays: no other is sure to keep {100 * self.objective.share:g}% on {self.dev}"
        return f"measured on {self.dev} only" if self.test is None else f"{VERDICTS[self.confirmed]} on {self.test}"

    @property
    def reached(self) -> str:
        """What it reaches on test, or else on dev, beside the baseline."""
        return self.objective.reached(*self.reached_means, self.base.name)

    @property
    def reached_means(self) -> tuple[dict[str, float], dict[str, float]]:
        """Its means and the baseline's there, over the queries on which both have them."""
        own, base = self.winner.test or self.winner.dev, self.base.test or self.base.dev
        return _means(own, base, self.objective), _means(base, own, self.objective)

    @property
    def gained(self) -> Comparison | None:
        """What it gains on test, None without one and where the baseline stays."""
        return _row(self, self.objective.metrics[-1])

    @property
    def next_step(self) -> str:
        """What to do where nothing is sure on dev, or test does not confirm it; "" where there is nothing to do."""
        steps = _to_be_sure(self) if self.stays else _to_be_confirmed(self) if self.confirmed is False else []
        return f"Next: {'; or '.join(steps)}." if steps else ""

    @property
    def sentences(self) -> tuple[str, ...]:
        """What a person should read, in order."""
        many = sum(candidate.settings for candidate in self.candidates)
        verb, status = ("stays, of", []) if self.stays else ("chosen from", [f"{self.status.capitalize()}."])
        said = [
            f"{self.winner.name}: {verb} {counted(len(self.candidates), 'decoder')} in {counted(many, 'setting')} "
            f"for {self.objective.text}, on {self.dev}.",
            self.choosing.said,
            *status,
        ]
        rows = [_row(self, metric) for metric in self.comparisons]
        said += [f"On {self.test}: {statement(row)}" for row in rows if row is not None]
        return (*said, self.next_step) if self.next_step else tuple(said)

    @property
    def table(self) -> list[list[str]]:
        """A head, then a row a candidate and the baseline's: its means on dev, and on test where there is one."""
        splits = [self.dev, *([self.test] if self.test is not None else [])]
        head = [
            "Decoder",
            *(f"{METRICS[m].title}@{self.k} on {split}" for split in splits for m in self.objective.metrics),
        ]
        rows = [
            [one.name, *(decimal(cell.mean[m]) for cell in (one.dev, one.test) if cell for m in self.objective.metrics)]
            for one in (*self.candidates, self.base)
        ]
        return [head, *rows]

    def as_json(self) -> dict[str, Any]:
        """The same as plain JSON values."""
        return {
            "objective": asdict(self.objective),
            "k": self.k,
            "dev": self.dev,
            "test": self.test,
            "decoder": as_json(self.decoder),
            "confirmed": self.confirmed,
            "satisfied": self.choosing.satisfied,
            "sentences": list(self.sentences),
            "candidates": [
                {
                    "decoder": as_json(one.decoder),
                    "settings": one.settings,
                    "dev": dict(one.dev.mean),
                    "test": None if one.test is None else dict(one.test.mean),
                }
                for one in (*self.candidates, self.base)
            ],
            "comparisons": [
                {**asdict(row), "wins": row.wins._asdict()} for rows in self.comparisons.values() for row in rows
            ],
        }


def choose(
    space: Space,
    queries: Queries | Embeddings,
    qrels: Mapping[str, Qrels],
    *,
    objective: Objective | str = "diverse",
    k: int = 10,
    dev: str = "dev",
    test: str | None = "test",
    selectors: Sequence[str] | None = None,
    scorers: Sequence[str] | None = None,
    points: int = 11,
    aspects: Mapping[str, Mapping[str, frozenset[str]]] | None = None,
    seed: int = 0,
    resamples: int = RESAMPLES.default,
    store: Store | str | Path | None = None,
    workers: int | None = None,
    cluster: str | None = None,
    progress: Progress | None = None,
    stop: Stop | None = None,
    seen: Callable[[Cell], None] | None = None,
) -> ChosenDecoder:
    """The best decoder for an objective: every one at its best on dev, the best of these by dev, all tested on test.

    queries: at least those that the splits judge; qrels: by split; selectors: names, by default all; scorers: names of
    those to retrieve with, by default the first alone; points: values a parameter, as in `grid`. A selector with a path
    behind the first scorer is given the best of all its values. On test every candidate is compared with the baseline,
    the first selector behind the first scorer, and Holm's correction is over all of them; the choice is dev's. What is
    measured is kept in the store, so the same call goes on where it was stopped. seen: told every cell of dev as it is
    finished. Raises ParamError, DataError, FrontierError, Cancelled.
    """
    objective = Objective(objective) if isinstance(objective, str) else objective
    k, seed, resamples = SET_SIZE.check(k), SEED.check(seed), RESAMPLES.check(resamples)
    judged = judged_by(queries, qrels, dev, test)
    splits = {split: {"queries": own, "qrels": qrels[split], "split": split} for split, own in judged.items()}
    options: dict[str, Any] = {"space": space, "k": k, "metrics": objective.metrics, "aspects": aspects, "stop": stop}
    swept = {"store": Store.of(store), "workers": workers, "cluster": cluster}
    run = _Run(objective, options, swept, seed, progress or (lambda *_: None))
    plain, tried = baseline(), families(selectors, scorers, points)
    asked = [plain, *(decoder for family in tried for decoder in family)]
    cells = run.measure(asked, splits[dev], f"measuring on {dev}", seen)
    base = cells[plain.label]
    bests = [run.best_of(family, cells, base, plain, splits[dev]) for family in tried]
    found = _best_first(bests, base, objective, k)
    on_test: dict[str, Cell] = {}
    rows: dict[str, tuple[Comparison, ...]] = {}
    if test is not None:
        on_test = run.measure([plain, *(decoder for decoder, _, _ in bests)], splits[test], f"reporting on {test}")
        rows = _compared([*on_test.values()], on_test[plain.label], objective, resamples, seed)
    written = names([base, *(cell for _, cell, _ in bests)])
    known = [
        Candidate(name=name, decoder=decoder, settings=count, dev=cell, test=on_test.get(decoder.label))
        for name, (decoder, cell, count) in zip(written, [(plain, base, 1), *bests], strict=True)
    ]
    return ChosenDecoder(
        objective=objective, k=k, dev=dev, test=test, candidates=tuple(known[1:]), base=known[0],
        choosing=found, comparisons=rows,
    )  # fmt: skip


def _best_first(bests: list[tuple[Decoder, Cell, int]], base: Cell, objective: Objective, k: int) -> TunedChoice:
    """Why the best is the best; it goes first in the list."""
    common = shared([base, *(cell for _, cell, _ in bests)], objective.metrics, k)
    means = {metric: values.mean(0) for metric, values in common.values.items()}
    others, own = {m: v[1:] for m, v in means.items()}, {m: float(v[0]) for m, v in means.items()}
    margin = margin_of(objective, common.values)
    found = objective.choose(others, own, list(range(len(bests))), k, names([base])[0], margin)
    bests.insert(0, bests.pop(found.best))
    return found


@dataclass(frozen=True, eq=False)
class _Run:
    """One call of `choose`."""

    objective: Objective
    options: Mapping[str, Any]  # of whatever measures
    swept: Mapping[str, Any]  # of `sweep` besides
    seed: int
    report: Progress

    def measure(
        self,
        decoders: Sequence[Decoder],
        split: Mapping[str, Any],
        label: str,
        seen: Callable[[Cell], None] | None = None,
    ) -> dict[str, Cell]:
        """Label → cell, in the order of the decoders. label: what the progress says."""
        cells = {}
        options = {**split, **self.options, **self.swept}
        for cell in sweep(list(decoders), progress=lambda done, total, _: self.report(done, total, label), **options):
            cells[cell.label] = cell
            if seen is not None:
                seen(cell)
        return {decoder.label: cells[decoder.label] for decoder in decoders}

    def best_of(
        self, family: Sequence[Decoder], cells: Mapping[str, Cell], base: Cell, plain: Decoder, split: Mapping[str, Any]
    ) -> tuple[Decoder, Cell, int]:
        """One selector's best setting behind a scorer, its cell on dev, and how many settings were measured."""
        stage, k = family[0].select, self.options["k"]
        best: Stage
        if len(family) > 1 and family[0].retrieve == plain.retrieve and stage.path_range is not None:
            asked = {name: value for name, value in self.options.items() if name != "k"}
            (curve,) = exact_frontiers(stage, **split, **asked, ks=(k,), keep_steps=True, progress=self.report)
            best, _ = choose_value(self.objective, curve, base, self.seed)
        else:
            by_stage: dict[Stage, Cell] = {decoder.select: cells[decoder.label] for decoder in family}
            best, _ = choose_setting(self.objective, by_stage, base, k, self.seed)
        decoder = replace(family[0], select=cast(Selector, best))
        label = f"measuring the best {decoder.select.spec.title}"
        return decoder, self.measure([decoder], split, label)[decoder.label], len(family)


def _named(argument: str, given: Sequence[str] | None, kind: Literal["selector", "scorer"]) -> list[str]:
    """The names that were given, checked; none for none. Raises ParamError."""
    known = list(methods(kind))
    if unknown := [name for name in given or () if name not in known]:
        raise ParamError(f"{argument} must be among {', '.join(known)}; got {unknown[0]!r}")
    return list(dict.fromkeys(given or ()))


def baseline() -> Decoder:
    """What all are compared with: the first selector behind the first scorer."""
    return Decoder(make(next(iter(methods("selector")))), make(next(iter(methods("scorer")))))


def families(
    selectors: Sequence[str] | None = None, scorers: Sequence[str] | None = None, points: int = 11
) -> list[list[Decoder]]:
    """The settings that `choose` measures, a list for every selector behind every scorer, without the baseline.

    The arguments are those of `choose`. Raises ParamError.
    """
    plain = baseline()
    chains = _named("scorers", scorers, "scorer") or [plain.retrieve.spec.name]
    found = []
    for scorer in chains:
        for name in _named("selectors", selectors, "selector") or list(methods("selector")):
            family = [replace(decoder, retrieve=make(scorer)) for decoder in grid(name, points)]
            if family != [plain]:
                found.append(family)
    if not found:
        raise ParamError(f"selectors must name another one than {plain.select.spec.name}, what all are compared with")
    return found


def compared_on_dev(found: ChosenDecoder) -> Mapping[str, tuple[Comparison, ...]]:
    """As its `comparisons`, on dev, where each was chosen because it looks good."""
    cells = [one.dev for one in found.candidates]
    return _compared(cells, found.base.dev, found.objective, RESAMPLES.default, SEED.default)


def _row(found: ChosenDecoder, metric: str) -> Comparison | None:
    """The chosen decoder's row of a metric."""
    label = found.winner.test.label if found.winner.test is not None else ""
    return next((row for row in found.comparisons.get(metric, ()) if row.label == label), None)


def _to_be_sure(found: ChosenDecoder) -> list[str]:
    nearest, steps, surest = found.candidates[0], [], found.choosing.surest
    if surest is not None and surest >= 0.01:
        kept = percent(np.floor(100 * surest + 1e-9) / 100)
        steps.append(f"ask for a share of {kept}, which {nearest.name} is sure to keep")
    slack = found.objective.slack(nearest.dev.values, found.base.dev.values[RELEVANT])
    slack = slack[np.isfinite(slack)]
    needed = queries_needed(slack, slack.mean()) if len(slack) and slack.mean() > 0 else None
    if needed is not None and needed > len(slack):
        steps.append(f"judge {counted(needed - len(slack), 'more query', 'more queries')} for {found.dev}")
    return steps


def _to_be_confirmed(found: ChosenDecoder) -> list[str]:
    test, base = found.winner.test, found.base.test
    if test is None or base is None:
        return []
    own, plain, steps = *(_means(*pair, found.objective) for pair in ((test, base), (base, test))), []
    short = found.objective.constrained and not found.objective.kept(own, plain)
    if short and plain[RELEVANT]:
        kept = np.floor(100 * own[RELEVANT] / plain[RELEVANT] + 1e-9) / 100
        steps.append(f"ask for a share of {percent(kept, 0)}, which it kept on {found.test}")
    metric = RELEVANT if short else found.objective.metrics[-1]
    pairs = np.stack([test.values[metric], base.values[metric]])
    pairs = pairs[:, np.isfinite(pairs).all(0)]
    wanted = (1 - found.objective.share) * plain[RELEVANT] if short else _gain_on_dev(found, metric)
    needed = queries_needed(pairs[0] - pairs[1], wanted) if wanted else None
    if needed is not None and needed > pairs.shape[1]:
        more = counted(needed - pairs.shape[1], "more query", "more queries")
        what = f"a difference of {decimal(abs(wanted))} {METRICS[metric].title}"
        steps.append(f"judge {more} for {found.test}: {what} takes {needed:,} to be seen")
    return steps or [f"more queries for {found.test}: on {pairs.shape[1]:,} what it gains is not told from chance"]


def _gain_on_dev(found: ChosenDecoder, metric: str) -> float:
    own, base = (
        _means(a.dev, b.dev, found.objective) for a, b in ((found.winner, found.base), (found.base, found.winner))
    )
    return own[metric] - base[metric]


def _compared(
    cells: Sequence[Cell], base: Cell, objective: Objective, resamples: int, seed: int
) -> dict[str, tuple[Comparison, ...]]:
    """Metric → a row a cell, with Holm's correction over them."""
    return {m: compare([base, *cells], m, base, base.k, resamples=resamples, seed=seed) for m in objective.metrics}


def _means(cell: Cell, other: Cell, objective: Objective) -> dict[str, float]:
    """The means of the objective's metrics over the queries on which both have them."""
    both = np.all([np.isfinite(c.values[m]) for c in (cell, other) for m in objective.metrics], axis=0)
    return {metric: float(cell.values[metric][both].mean()) for metric in objective.metrics}
