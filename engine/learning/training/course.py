"""A method with what it must be compared with: where it started, and the same time spent on going on as before."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.data.encoders import embed
from engine.decoder import Decoder
from engine.errors import Cancelled, DataError, ParamError
from engine.evaluation.sweep import grid
from engine.learning.training import run
from engine.learning.training.checkpoints import over, read
from engine.learning.training.comparison import System, Table, compared
from engine.learning.training.history import Dev, Epoch
from engine.learning.training.learnt import check_unseen
from engine.learning.training.recipes import Dense, Nnn, Recipe, made
from engine.learning.training.samples import apart, gathered, repeated
from engine.learning.training.trained import Trained
from engine.learning.training.verdict import CONTROL, ENCODER, START, verdict
from engine.progress import Progress, Stop
from engine.space import Space
from engine.stages import make, methods
from engine.values import Embeddings, Qrels, Queries

SIDE = ("query_side",)
"""What the start has in common with the method: what learns."""
ALIKE = ("epochs", "batch", "hidden", *SIDE)
"""What the control has in common with it. It has no patience: it is given the whole time, as its first epochs,
with a new adapter, gain little, and a control that gave up there would flatter the method."""


@dataclass(frozen=True, eq=False)
class Course:
    """What was trained, by stage; method: which of them was wanted; table: how all of it answers, that one last, None
    where the course was stopped."""

    stages: Mapping[str, Trained]
    table: Table | None
    method: str

    @property
    def last(self) -> Trained:
        """The method's stage; where it was stopped before, the last there is."""
        return self.stages.get(self.method) or list(self.stages.values())[-1]

    @property
    def verdict(self) -> str:
        """Whether the method was worth training, in a sentence or two; "" where there is nothing to say."""
        name = self.method if self.method in self.stages else list(self.stages)[-1]
        return verdict(name, self.last, self.stages.get(CONTROL), self.table.told if self.table else ())


@dataclass(frozen=True, eq=False)
class Foreseen:
    """What a course would take: a Preflight a stage, the method's last; repeated: queries of train, and of dev, left
    out as they have the text of one of a later split; seconds: of all epochs of all stages."""

    stages: Mapping[str, run.Preflight]
    repeated: int

    @property
    def method(self) -> run.Preflight:
        return list(self.stages.values())[-1]

    @property
    def seconds_an_epoch(self) -> float:
        """Of the method, with its look at dev."""
        return self.method.seconds_an_epoch + self.method.seconds_of_dev

    @property
    def seconds(self) -> float:
        return sum(stage.seconds for stage in self.stages.values())


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
    lines: Callable[[str, Dev], None] | None = None,
    progress: Progress | None = None,
    stop: Stop | None = None,
    **params: Any,
) -> Course:
    """Train a method and its control, and compare them with where they started.

    Three stages: inner products, or `start` in their place; the same again for as long, from there, which is the
    control; the method, from there too. For method "dense" there are the first two. space: the encoder's own; test:
    the split of the table, dev where there is none; queries of train and dev with the text of one of test are left out,
    and of train with that of one of dev; folder:
    for a checkpoint a stage, so that what was stopped goes on; watch: gets a stage and every Epoch of it; lines: gets a
    system that does not learn, the method's decoder before training for it, and dev as it answers it; the rest, and
    what is raised, as in `train`. Stopped in the middle of a stage, it returns what there is.
    """
    recipe = made(method, **params)
    queries, qrels, _ = _ready(space, queries, qrels, (train, dev, test), start, progress, stop)
    stages: dict[str, Trained] = {}
    before: dict[str, Decoder] = {}
    origin = start
    for name, of, given in _plan(recipe, params, start is not None):
        if of == recipe.name and origin is not None:
            try:
                own = _untrained(recipe, origin.space, queries, qrels, (train, dev), progress, stop)
            except Cancelled:
                return Course(stages, None, method)
            if own is not None:
                before[_begun(origin)] = own
                if lines is not None:
                    lines(
                        _called(_begun(origin), own),
                        _answered(System(_begun(origin), origin.space, own), queries, qrels[dev]),
                    )
        stages[name] = run.train(
            of,
            space if origin is None else origin.space,
            queries,
            qrels,
            train=train,
            dev=dev,
            seed=seed,
            checkpoint=None if folder is None else checkpoint(folder, name),
            watch=None if watch is None else (lambda epoch, name=name: watch(name, epoch)),
            progress=None if progress is None else (lambda d, t, label, n=name: progress(d, t, f"{n}: {label}")),
            stop=stop,
            **given,
        )
        if stop is not None and stop.is_set():
            return Course(stages, None, method)
        origin = origin or stages[name]
    split = test if test in qrels else dev
    try:
        systems = list(_systems(method, space, origin, stages, before, queries, qrels, (train, dev), progress, stop))
    except Cancelled:
        return Course(stages, None, method)
    asked = [row for row, query in enumerate(queries.ids) if query in qrels[split].grades]
    return Course(stages, compared(systems, queries.take(asked), qrels[split], split, seed), method)


def foreseen(
    method: str,
    space: Space,
    queries: Queries | Embeddings,
    qrels: Mapping[str, Qrels],
    *,
    train: str = "train",
    dev: str = "dev",
    test: str = "test",
    start: Trained | None = None,
    progress: Progress | None = None,
    stop: Stop | None = None,
    **params: Any,
) -> Foreseen:
    """What `course` would take, by the time of each stage's first steps; without the choices of λ₁ and λ₂."""
    recipe = made(method, **params)
    queries, qrels, again = _ready(space, queries, qrels, (train, dev, test), start, progress, stop)
    found = {}
    for name, of, given in _plan(recipe, params, start is not None):
        # Every stage does the same work wherever it starts.
        found[name] = run.preflight(
            of, space, queries, qrels, train=train, dev=dev, progress=progress, stop=stop, **given
        )
        if stop is not None and stop.is_set():
            raise Cancelled("stopped before every stage was timed")
    return Foreseen(found, again)


def checkpoint(folder: str | Path, stage: str) -> Path:
    """Where a course keeps a stage."""
    return Path(folder) / f"{stage}.safetensors"


def histories(folder: str | Path, method: str, begun: bool = False) -> dict[str, tuple[Epoch, ...]]:
    """The epochs of every stage that a course's folder holds, in their order; begun: it had a `start`.

    Raises DataError where a checkpoint is damaged.
    """
    there = {name: checkpoint(folder, name) for name in planned(method, begun)}
    return {name: read(path).run.history for name, path in there.items() if path.exists()}


def finished(folder: str | Path, method: str) -> bool:
    """Whether the last stage of a course's folder is over. Raises DataError where its checkpoint is damaged."""
    last = checkpoint(folder, planned(method)[-1])
    return last.exists() and over(read(last))


def planned(method: str, begun: bool = False) -> list[str]:
    """The names of a course's stages, in their order."""
    return [name for name, _, _ in _plan(made(method), {}, begun)]


def _ready(
    space: Space,
    queries: Queries | Embeddings,
    qrels: Mapping[str, Qrels],
    names: tuple[str, str, str],
    start: Trained | None,
    progress: Progress | None,
    stop: Stop | None,
) -> tuple[Queries | Embeddings, dict[str, Qrels], int]:
    """Queries as vectors; the judgements without those of train whose text another split has too, and without those of
    dev whose text test has; and how many these are. Raises DataError where the start has learnt from queries of either
    of these."""
    if space.adapt is not None:
        raise ParamError("space must be the encoder's own; what was trained before goes to start")
    if isinstance(queries, Queries) and space.encoder is not None:
        queries = embed(queries, encoder=space.encoder.name, dtype=space.encoder.dtype, progress=progress, stop=stop)
    train, dev, test = names
    if train in (dev, test):
        raise DataError(f"dev and test must not be the split that is learnt from, {train!r}: they would tell nothing")
    splits = apart(queries, qrels, *dict.fromkeys((train, dev, *([test] if test in qrels else []))))
    # What is chosen by a query of the table would look better there than on others, as what is learnt from it would.
    reported = {name: rows for name, rows in splits.items() if name != train}
    again = {train: repeated(queries, splits, train), dev: repeated(queries, reported, dev)}
    kept = dict(qrels)
    for name, rows in again.items():
        gone = {queries.ids[row] for row in rows}
        kept[name] = Qrels({query: own for query, own in qrels[name].grades.items() if query not in gone})
    # Texts without an encoder that embeds them are refused where the training begins.
    if start is not None and isinstance(queries, Embeddings):
        for name in reported:
            asked = [row for row in splits[name] if queries.ids[row] in kept[name].grades]
            check_unseen(start.space, queries.take(asked), name, "start")
    return queries, kept, sum(map(len, again.values()))


def _plan(recipe: Recipe, params: Mapping[str, Any], begun: bool) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Stages: name, method, parameters."""
    if isinstance(recipe, Dense):
        if not begun:
            yield START, recipe.name, params
        # What the control would be to another method: whether more of the same is worth anything.
        yield CONTROL, recipe.name, {"patience": None} | dict(params)
        return
    if not begun:
        yield START, Dense.name, {name: params[name] for name in SIDE if name in params}
    yield CONTROL, Dense.name, {"patience": None} | {name: params[name] for name in ALIKE if name in params}
    yield recipe.name, recipe.name, params


def _untrained(
    recipe: Recipe,
    space: Space,
    queries: Embeddings,
    qrels: Mapping[str, Qrels],
    splits: tuple[str, str],
    progress: Progress | None,
    stop: Stop | None,
) -> Decoder | None:
    """The method's decoder without training for it, λ₁ and λ₂ chosen in the same way; None where it has none of its
    own."""
    if not isinstance(recipe, Nnn):
        return None
    zero = {n: 0.0 for n in ("l1", "l2") if getattr(recipe, n) == 0}
    samples = gathered(space, queries, qrels, *splits, progress, stop)
    return run.best_on_dev(grid("nnn", fill="strict", **zero), space, samples, progress, stop)


def _begun(origin: Trained) -> str:
    """What the start is called: START where inner products were trained, else by its method."""
    return START if isinstance(origin.recipe, Dense) else f"start ({origin.recipe.name})"


def _called(stage: str, decoder: Decoder) -> str:
    return f"{stage}, {decoder.select.spec.name}"


def _answered(system: System, queries: Embeddings, qrels: Qrels) -> Dev:
    asked = [row for row, query in enumerate(queries.ids) if query in qrels.grades]
    return compared([system], queries.take(asked), qrels).dev(system.name)


def _systems(
    wanted: str,
    space: Space,
    origin: Trained,
    stages: Mapping[str, Trained],
    untrained: Mapping[str, Decoder],
    queries: Embeddings,
    qrels: Mapping[str, Qrels],
    splits: tuple[str, str],
    progress: Progress | None,
    stop: Stop | None,
) -> Iterator[System]:
    """What tells apart what the encoder, the training and the decoder are worth; the wanted stage last.

    untrained: the method's decoder in the space of a stage, where it is known.
    """
    plain = Decoder(make(next(iter(methods("selector")))))
    name = wanted if wanted in stages else list(stages)[-1]
    last = stages[name]
    yield System(ENCODER, space, plain)
    before = {_begun(origin): origin} | {n: t for n, t in stages.items() if n == CONTROL}
    for called, stage in before.items():
        if stage is last:
            continue
        yield System(called, stage.space, plain)
        own = untrained.get(called) or _untrained(last.recipe, stage.space, queries, qrels, splits, progress, stop)
        if own is not None:
            yield System(_called(called, own), stage.space, own)
    yield System(name, last.space, last.decoder)
