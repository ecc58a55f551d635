"""Controlled experiment: a method, and a control that continues its starting point for as many epochs, in one table."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from engine.decoder import Decoder
from engine.display import OneLine
from engine.errors import Cancelled, DataError, ParamError
from engine.progress import Progress, Reporter, Stop
from engine.space import Space
from engine.stages import make, methods
from engine.training import train as training
from engine.training.checkpoints import read
from engine.training.comparison import CONTROL, ENCODER, START, System, Table, compare_systems, verdict
from engine.training.dataset import AnyQueries, Splits, disjoint_splits, embed_texts, gather_samples, repeated_queries
from engine.training.leakage import check_unseen
from engine.training.metrics import Dev, Epoch
from engine.training.recipe import Recipe
from engine.training.recipes import make_recipe
from engine.training.recipes.dense import DenseRecipe
from engine.training.trained import Trained
from engine.values import Embeddings, Qrels, Queries

Plan = dict[str, tuple[str, Mapping[str, Any]]]
"""Stage → the method that it trains, and its parameters."""
START_PARAMS = ("query_side",)
"""Parameters that the start shares with the method."""
CONTROL_PARAMS = ("epochs", "batch", "hidden", *START_PARAMS)
"""Parameters that the control shares with the method. It has no patience: it runs all epochs, as its first ones, with a
new adapter, gain little, and a control that gave up there would flatter the method."""


@dataclass(frozen=True, eq=False)
class Course(OneLine):
    """Result of an experiment: trained stages and the comparison of all systems.

    A stage is one training of the experiment: the dense start, the control, which trains on from there without the
    method, and the method.
    """

    stages: Mapping[str, Trained]  # trained stages by name
    table: Table | None  # every system side by side, the method last; None where the experiment was stopped
    method: str  # the method in question

    @property
    def last(self) -> Trained:
        """The method's own training; if the experiment was stopped before it, the last training that was done."""
        return self.stages.get(self.method) or list(self.stages.values())[-1]

    @property
    def verdict(self) -> str:
        """Verdict on the worth of training the method, in a sentence or two; "" where there is none.

        Without the method's own training, the last one that was done is judged.
        """
        stage_name = self.method if self.method in self.stages else list(self.stages)[-1]
        learnt, control = self.last, self.stages.get(CONTROL)
        control_epochs = None if control is None or control is learnt else control.history[-1].epoch + 1
        comparisons = self.table.told if self.table else ()
        # Epoch −1 is the state before training: as the best one it means that training improved nothing.
        return verdict(stage_name, comparisons, learnt.run.best < 0, learnt.history[-1].epoch + 1, control_epochs)


@dataclass(frozen=True, eq=False)
class Foreseen(OneLine):
    """Estimated time of an experiment, by stage."""

    stages: Mapping[str, training.Preflight]  # a Preflight for each stage, the method's last
    repeated: int  # queries of train, and of dev, left out as they have the text of one of a later split

    @property
    def method(self) -> training.Preflight:
        """The estimate for the method's own training, the last one of the experiment."""
        return list(self.stages.values())[-1]

    @property
    def seconds_an_epoch(self) -> float:
        """Seconds of an epoch of the method, dev included."""
        return self.method.seconds_an_epoch + self.method.seconds_of_dev

    @property
    def seconds(self) -> float:
        """Seconds of all epochs of all trainings of the experiment."""
        return sum(stage.seconds for stage in self.stages.values())


@dataclass(eq=False, kw_only=True)
class _Experiment:
    """An experiment under way: its inputs, and the stages (start, control, method) trained so far.

    lines: called with the name and dev metrics of systems that need no training
    """

    recipe: Recipe
    space: Space
    queries: Embeddings
    qrels: Mapping[str, Qrels]
    train: str
    dev: str
    start: Trained | None
    lines: Callable[[str, Dev], None] | None
    reporter: Reporter
    stages: dict[str, Trained] = field(default_factory=dict)
    untrained: dict[str, Decoder] = field(default_factory=dict)

    @property
    def origin(self) -> Trained | None:
        """The training that control and method start from: `start`, or the first one done; None before that."""
        return self.start or next(iter(self.stages.values()), None)

    @property
    def origin_name(self) -> str:
        """The starting point's name in tables: "dense" for a dense training, else "start (method)"."""
        if self.start is None or self.start.recipe.name == DenseRecipe.name:
            return START
        return f"start ({self.start.recipe.name})"

    def judged(self, split: str) -> Embeddings:
        """Return the queries that a split judges."""
        grades = self.qrels[split].grades
        return self.queries.take([row for row, query_id in enumerate(self.queries.ids) if query_id in grades])

    def untrained_decoder(self, recipe: Recipe, space: Space) -> Decoder | None:
        """Choose on dev the method's decoder for embeddings that were not trained for it; None if it has none."""
        if not (decoders := recipe.untrained_decoders()):
            return None
        samples = gather_samples(space, self.queries, self.qrels, self.train, self.dev, self.reporter)
        return training.best_on_dev(decoders, samples, self.reporter)

    def report_untrained(self, origin: Trained) -> None:
        """Choose on dev the method's decoder for the starting embeddings; store it and report its metrics.

        The metrics show what the method's decoder reaches on embeddings that were not trained for it. They go to the
        caller's `lines`, so that a chart can show them beside the epochs. origin: the training that the method starts
        from
        """
        name, decoder = self.origin_name, self.untrained_decoder(self.recipe, origin.space)
        if decoder is None:
            return
        self.untrained[name] = decoder
        if self.lines is not None:
            table = compare_systems([System(name, origin.space, decoder)], self.judged(self.dev), self.qrels[self.dev])
            self.lines(_name_with_selector(name, decoder), table.dev(name))

    def train_stage(
        self, stage_name: str, method: str, watch: Callable[[str, Epoch], None] | None, params: Mapping[str, Any]
    ) -> None:
        """Run one of the experiment's trainings (stages), and add it to `stages`.

        It starts from the experiment's first training, the common starting point, once there is one. watch: called with
        the stage's name and each of its epochs; params: of the method, seed and checkpoint
        """
        # Both the control and the method start from the first stage: else they would differ by more than the loss.
        space = self.space if self.origin is None else self.origin.space
        watched = None if watch is None else partial(watch, stage_name)
        progress, stop = self.reporter.relabel(f"{stage_name}: {{label}}")
        self.stages[stage_name] = training.train(
            method, space, self.queries, self.qrels, train=self.train, dev=self.dev, watch=watched, progress=progress,
            stop=stop, **params,
        )  # fmt: skip

    def systems(self) -> Iterator[System]:
        """Yield the systems to compare, from the encoder alone to the trained method, which comes last.

        A system is a space of embeddings with the decoder that searches it. The embeddings of the starting point and
        those of the control are searched twice: by inner products, and by the method's decoder.
        """
        # The first registered selector is plain search by inner product.
        untrained = Decoder(make(next(iter(methods("selector")))))
        last_name = self.recipe.name if self.recipe.name in self.stages else list(self.stages)[-1]
        last_stage = self.stages[last_name]
        yield System(ENCODER, self.space, untrained)
        for stage_name, stage in ((self.origin_name, self.origin), (CONTROL, self.stages.get(CONTROL))):
            if stage is None or stage is last_stage:
                continue
            # Each stage twice: by inner products, and by the decoder of the method, which was not trained for there.
            yield System(stage_name, stage.space, untrained)
            # `self.untrained` has the decoders that were already chosen on dev, by stage.
            decoder = self.untrained.get(stage_name) or self.untrained_decoder(last_stage.recipe, stage.space)
            if decoder is not None:
                yield System(_name_with_selector(stage_name, decoder), stage.space, decoder)
        yield System(last_name, last_stage.space, last_stage.decoder)


def course(
    method: str,
    space: Space,
    queries: AnyQueries,
    qrels: Splits,
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
    """Train a method and its control, and compare both with their starting point.

    The stages are inner products (or `start` in their place), the control, trained as long without the method, and the
    method, both from the first stage. For the method "dense" there are the first two only. Queries of train and dev
    whose text is in test are left out, and those of train whose text is in dev.

    Parameters
    ----------
    method : str
        The name of a recipe.
    space : Space
        The space of the encoder itself.
    queries : AnyQueries
        The queries, whose ids name the judgements.
    qrels : Splits
        Judgements by split.
    train : str
        The split to train on.
    dev : str
        The split that chooses the epoch.
    test : str
        The split of the results; dev if it does not exist.
    start : Trained or None
        A training to start from.
    folder : str, Path or None
        A folder for one checkpoint per stage, from which an interrupted course resumes.
    seed : int
        The seed of the random numbers.
    watch : callable or None
        Called with the stage and each Epoch of it.
    lines : callable or None
        Called with each system that does not learn, and its metrics on dev.
    progress : callable or None
        Called repeatedly as progress(done, total, label).
    stop : callable or None
        The work is cancelled once it returns true.
    **params
        The parameters of the recipe.

    Returns
    -------
    Course
        The stages so far, also if it is stopped within a stage.

    Raises
    ------
    ParamError, DataError
        If an argument is invalid or inputs do not belong together.
    Cancelled
        If it is stopped.

    Examples
    --------
    >>> course = engine.course("nnn", space, queries, qrels)  # doctest: +SKIP
    """
    recipe, reporter = make_recipe(method, **params), Reporter(progress, stop)
    vectors, judgements, _ = _prepare_inputs(space, queries, qrels, (train, dev, test), start, reporter)
    run = _Experiment(
        recipe=recipe, space=space, queries=vectors, qrels=judgements, train=train, dev=dev, start=start, lines=lines,
        reporter=reporter,
    )  # fmt: skip
    for stage_name, (learner, recipe_params) in _plan_stages(recipe, params, start is not None).items():
        # Before the method's own stage, so that a chart has the line without training from the first epoch on.
        if learner == recipe.name and run.origin is not None:
            try:
                run.report_untrained(run.origin)
            except Cancelled:
                return Course(run.stages, None, method)
        path = None if folder is None else checkpoint(folder, stage_name)
        run.train_stage(stage_name, learner, watch, {"seed": seed, "checkpoint": path, **recipe_params})
        if reporter.is_stopped:
            return Course(run.stages, None, method)
    split = test if test in judgements else dev
    try:
        systems = list(run.systems())
    except Cancelled:
        return Course(run.stages, None, method)
    return Course(run.stages, compare_systems(systems, run.judged(split), judgements[split], split, seed), method)


def foreseen(
    method: str,
    space: Space,
    queries: AnyQueries,
    qrels: Splits,
    *,
    train: str = "train",
    dev: str = "dev",
    test: str = "test",
    start: Trained | None = None,
    progress: Progress | None = None,
    stop: Stop | None = None,
    **params: Any,
) -> Foreseen:
    """Estimate the time of an experiment, `course`, from the first steps of each of its trainings.

    The trainings are the method's, that of its starting point and that of its control. The choice of λ₁ and λ₂ on dev
    is not timed. Arguments as in `course`. Raises ParamError, DataError and Cancelled.
    """
    recipe, reporter = make_recipe(method, **params), Reporter(progress, stop)
    vectors, judgements, repeated = _prepare_inputs(space, queries, qrels, (train, dev, test), start, reporter)
    estimates = {}
    for stage_name, (learner, recipe_params) in _plan_stages(recipe, params, start is not None).items():
        # A stage does the same work from any starting point.
        estimates[stage_name] = training.preflight(
            learner, space, vectors, judgements, train=train, dev=dev, progress=progress, stop=stop, **recipe_params
        )
        if reporter.is_stopped:
            raise Cancelled("stopped before every stage was timed")
    return Foreseen(estimates, repeated)


def checkpoint(folder: str | Path, stage: str) -> Path:
    """Return the path of the checkpoint of one training (stage) in an experiment's folder."""
    return Path(folder) / f"{stage}.safetensors"


def histories(folder: str | Path, method: str, begun: bool = False) -> dict[str, tuple[Epoch, ...]]:
    """Return the epochs of each training (stage) in an experiment's folder, in the order of training.

    An experiment trains a start, a control and the method; those without a checkpoint yet are left out. begun: True if
    it started from an existing training, so that it has no start. Raises DataError where a checkpoint is damaged.
    """
    by_stage = {}
    for stage_name in list_planned_stages(method, begun):
        checkpoint_path = checkpoint(folder, stage_name)
        if checkpoint_path.exists():
            by_stage[stage_name] = read(checkpoint_path).run.history
    return by_stage


def is_course_finished(folder: str | Path, method: str) -> bool:
    """Return True if an experiment's last training, the method's, is over. Raises DataError.

    folder: of the experiment, with a checkpoint for each of its trainings
    """
    last_checkpoint = checkpoint(folder, list_planned_stages(method)[-1])
    return last_checkpoint.exists() and read(last_checkpoint).finished


def list_planned_stages(method: str, begun: bool = False) -> list[str]:
    """List the names of the trainings (stages) that an experiment of a method runs, in order.

    begun: True if it starts from an existing training, so that the first one is not needed
    """
    return list(_plan_stages(make_recipe(method), {}, begun))


def _prepare_inputs(
    space: Space, queries: AnyQueries, qrels: Splits, names: Sequence[str], start: Trained | None, reporter: Reporter
) -> tuple[Embeddings, dict[str, Qrels], int]:
    """Embed an experiment's queries, take out those that splits share by text, check the starting point.

    names: the splits train, dev and test. Return the queries' vectors, the judgements without the queries taken out,
    and the count of those: queries of train whose text another split has too, and of dev whose text test has. Raises
    DataError where the start has learnt from queries of dev or test.
    """
    if space.adapt is not None:
        raise ParamError("space must be the encoder's own; what was trained before goes to start")
    vectors = embed_texts(space, queries, reporter) if isinstance(queries, Queries) else queries
    train, dev, test = names
    if train in (dev, test):
        raise DataError(f"dev and test must not be the split that is learnt from, {train!r}: they would tell nothing")
    splits = disjoint_splits(vectors, qrels, *dict.fromkeys((train, dev, *([test] if test in qrels else []))))
    # A choice made by a query of the table flatters the table, as learning from it would.
    reported = {name: split_rows for name, split_rows in splits.items() if name != train}
    repeated = {train: repeated_queries(vectors, splits, train), dev: repeated_queries(vectors, reported, dev)}
    judgements = dict(qrels)
    for name, split_rows in repeated.items():
        grades = dict(qrels[name].grades)
        for row in split_rows:
            del grades[vectors.ids[row]]
        judgements[name] = replace(qrels[name], grades=grades)
    if start is not None:
        for name in reported:
            judged_rows = [row for row in splits[name] if vectors.ids[row] in judgements[name].grades]
            check_unseen(start.space, vectors.take(judged_rows), name, "start")
    return vectors, judgements, sum(map(len, repeated.values()))


def _plan_stages(recipe: Recipe, params: Mapping[str, Any], begun: bool) -> Plan:
    """Return the trainings of an experiment in their order, as name (stage) → (method, parameters).

    They are the start, a training of plain inner products (dense); the control, the same trained on without the method;
    and the method itself. begun: there is a start already, so that the first is left out. For the dense method there is
    no third: its control shows if more of the same training gains anything.
    """
    is_dense = recipe.name == DenseRecipe.name

    def select_shared(names: Collection[str]) -> Mapping[str, Any]:
        """Select the parameters that a dense stage takes too; all of them if the method is dense."""
        return params if is_dense else {name: params[name] for name in names if name in params}

    plan: Plan = {} if begun else {START: (DenseRecipe.name, select_shared(START_PARAMS))}
    # Without patience the control trains for all epochs, even if dev gains nothing.
    plan[CONTROL] = (DenseRecipe.name, {"patience": None, **select_shared(CONTROL_PARAMS)})
    return plan if is_dense else plan | {recipe.name: (recipe.name, params)}


def _name_with_selector(stage_name: str, decoder: Decoder) -> str:
    """Name a system by the training of its embeddings and the selector that searches: "dense-cont, nnn"."""
    return f"{stage_name}, {decoder.select.spec.name}"
