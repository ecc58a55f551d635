"""A method with what it must be compared with: where it started, and the same time spent on going on as before."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.data.encoders import embed
from engine.decoder import Decoder
from engine.errors import Cancelled, ParamError
from engine.evaluation.sweep import grid
from engine.learning.training import run
from engine.learning.training.comparison import System, Table, compared
from engine.learning.training.history import Epoch
from engine.learning.training.recipes import Dense, Nnn, Recipe, made
from engine.learning.training.samples import apart, gathered, repeated
from engine.learning.training.trained import Trained
from engine.progress import Progress, Stop
from engine.space import Space
from engine.stages import make, methods
from engine.values import Embeddings, Qrels, Queries

START, CONTROL = "dense", "dense-cont"
ALIKE = ("epochs", "batch")
"""What the control has in common with the method. It has no patience: it is given the whole time, as its first epochs,
with a new adapter, gain little, and a control that gave up there would flatter the method."""


@dataclass(frozen=True, eq=False)
class Course:
    """What was trained, by stage, the method last; table: how all of it answers, None where the course was stopped."""

    stages: Mapping[str, Trained]
    table: Table | None

    @property
    def last(self) -> Trained:
        return list(self.stages.values())[-1]


def course(
    method: str,
    space: Space,
    queries: Queries | Embeddings,
    qrels: Mapping[str, Qrels],
    *,
    train: str = "train",
    dev: str = "dev",
    test: str = "test",
    start: Trained | None = None,
    folder: str | Path | None = None,
    seed: int = 0,
    watch: Callable[[str, Epoch], None] | None = None,
    progress: Progress | None = None,
    stop: Stop | None = None,
    **params: Any,
) -> Course:
    """Train a method and its control, and compare them with where they started.

    Three stages: inner products, or `start` in their place; the same again for as long, from there, which is the
    control; the method, from there too. For method "dense" there is the first alone. space: the encoder's own; test:
    the split of the table, dev where there is none; queries of train with the text of one of test are left out; folder:
    for a checkpoint a stage, so that what was stopped goes on; watch: gets a stage and every Epoch of it; the rest, and
    what is raised, as in `train`. Stopped in the middle of a stage, it returns what there is.
    """
    if space.adapt is not None:
        raise ParamError("space must be the encoder's own; what was trained before goes to start")
    recipe = made(method, **params)
    if isinstance(queries, Queries) and space.encoder is not None:
        queries = embed(queries, encoder=space.encoder.name, dtype=space.encoder.dtype, progress=progress, stop=stop)
    splits = apart(queries, qrels, *dict.fromkeys((train, dev, *([test] if test in qrels else []))))
    again = {queries.ids[row] for row in repeated(queries, splits, train)}
    kept = {query: grades for query, grades in qrels[train].grades.items() if query not in again}
    qrels = {**qrels, train: Qrels(kept)}
    stages: dict[str, Trained] = {}
    origin = start
    for name, of, given in _plan(recipe, params, start is not None):
        stages[name] = run.train(
            of,
            space if origin is None else origin.space,
            queries,
            qrels,
            train=train,
            dev=dev,
            seed=seed,
            checkpoint=None if folder is None else Path(folder) / f"{name}.safetensors",
            watch=None if watch is None else (lambda epoch, name=name: watch(name, epoch)),
            progress=None if progress is None else (lambda d, t, label, n=name: progress(d, t, f"{n}: {label}")),
            stop=stop,
            **given,
        )
        if stop is not None and stop.is_set():
            return Course(stages, None)
        origin = origin or stages[name]
    split = test if test in qrels else dev
    try:
        systems = list(_systems(space, origin, stages, queries, qrels, (train, dev), progress, stop))
    except Cancelled:
        return Course(stages, None)
    asked = [row for row, query in enumerate(queries.ids) if query in qrels[split].grades]
    return Course(stages, compared(systems, queries.take(asked), qrels[split], split, seed))


def _plan(recipe: Recipe, params: Mapping[str, Any], begun: bool) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Stages: name, method, parameters."""
    if isinstance(recipe, Dense):
        yield (CONTROL if begun else START), recipe.name, params
        return
    if not begun:
        yield START, Dense.name, {}
    yield CONTROL, Dense.name, {"patience": None} | {name: params[name] for name in ALIKE if name in params}
    yield recipe.name, recipe.name, params


def _systems(
    space: Space,
    origin: Trained,
    stages: Mapping[str, Trained],
    queries: Embeddings,
    qrels: Mapping[str, Qrels],
    splits: tuple[str, str],
    progress: Progress | None,
    stop: Stop | None,
) -> Iterator[System]:
    """What tells apart what the encoder, the training and the decoder are worth; what was wanted last."""
    plain = Decoder(make(next(iter(methods("selector")))))
    *_, (name, last) = stages.items()
    yield System("encoder", space, plain)
    before = {START: origin} | {n: t for n, t in stages.items() if n == CONTROL}
    for called, stage in before.items():
        if stage is last:
            continue
        yield System(called, stage.space, plain)
        if isinstance(last.recipe, Nnn):
            # The same decoder without training for it, with λ₁ and λ₂ chosen in the same way.
            zero = {n: 0.0 for n in ("l1", "l2") if getattr(last.recipe, n) == 0}
            samples = gathered(stage.space, queries, qrels, *splits, progress, stop)
            best = run.best_on_dev(grid("nnn", fill="strict", **zero), stage.space, samples, progress, stop)
            yield System(f"{called}, {best.select.spec.name}", stage.space, best)
    yield System(name, last.space, last.decoder)
