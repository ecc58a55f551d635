"""Training from samples to checkpoint: parameters that dev decides, the loop, and the final decoder."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from engine.decoder import Decoder
from engine.display import OneLine
from engine.errors import Cancelled, DataError
from engine.evaluation.sweep.sweep import sweep
from engine.progress import SILENT, Progress, Reporter, Stop, counted, report_to
from engine.space import Elsewhere, Space
from engine.training.adapters import adapted_of
from engine.training.checkpoints import Checkpoint, check_facts, keep_run, read, sketch, space_facts
from engine.training.dataset import AnyQueries, Samples, Splits, gather_samples
from engine.training.encoder import AdaptedTexts, check_texts, reader_versions
from engine.training.leakage import check_unseen, training_query_hashes
from engine.training.loop import SEED, PreparedRun, Schedule, fit, generator_of
from engine.training.metrics import Epoch, measure_dev
from engine.training.recipe import Recipe
from engine.training.recipes import make_recipe
from engine.training.trained import Trained, restore, trained_from
from engine.values import Qrels, digest_of

CHOOSING_LABEL = "choosing λ₁ and λ₂"
TIMED_STEPS = 3
"""Steps that a preflight times."""


def train(
    method: str,
    space: Space,
    queries: AnyQueries,
    qrels: Splits,
    *,
    train: str = "train",
    dev: str = "dev",
    seed: int = SEED.default,
    checkpoint: str | Path | None = None,
    watch: Callable[[Epoch], None] | None = None,
    progress: Progress | None = None,
    stop: Stop | None = None,
    **params: Any,
) -> Trained:
    """Train embeddings for a decoder, by adapters over those of the space; dev chooses the epoch.

    Queries of train whose text is in dev are left out. λ₁ and λ₂ of nnn, the elastic net decoder, that are not given
    are chosen on dev before the training, and again after it, among the values of its paper, by Comp@5: the share of
    queries whose first 5 documents hold all relevant ones. A given 0 stays 0.

    Parameters
    ----------
    method : str
        A name of RECIPES, such as "dense", "nnn" or "colt".
    space : Space
        The space of the encoder itself, or a trained one to continue from, unless it was projected to fewer
        dimensions. In the paper nnn and colt start from a dense one.
    queries : AnyQueries
        At least the queries that the two splits judge, embedded by the same encoder.
    qrels : Splits
        Judgements by split.
    train : str
        The split to train on.
    dev : str
        The split that chooses the epoch.
    seed : int
        The seed of the random numbers.
    checkpoint : str, Path or None
        A file with the state after every epoch: an interrupted training resumes from it, a finished one is read.
    watch : callable or None
        Called with every Epoch.
    progress : callable or None
        Called repeatedly as progress(done, total, label).
    stop : callable or None
        The training ends between two steps once it returns true, with the best epoch so far.
    **params
        The parameters of the recipe.

    Returns
    -------
    Trained
        The trained vectors and the history.

    Raises
    ------
    ParamError
        If an argument is invalid.
    DataError
        If the data do not fit, splits share queries, the space has learnt from dev, or the checkpoint is another
        training's.
    Cancelled
        If it is stopped before the first step.

    Examples
    --------
    >>> trained = engine.train("nnn", space, queries, qrels)  # doctest: +SKIP
    """
    seed = SEED.check(seed)
    recipe, reporter = make_recipe(method, **params), Reporter(progress, stop)
    _check_space(space, recipe, queries)
    samples = gather_samples(space, queries, qrels, train, dev, reporter)
    check_unseen(space, samples.dev, dev)
    checkpoint_path = None if checkpoint is None else Path(checkpoint)
    facts = _identifying_facts(recipe, samples, qrels[train], qrels[dev], seed)
    stored = read(checkpoint_path) if checkpoint_path is not None and checkpoint_path.exists() else None
    # A stored run decides the open parameters, so the facts are compared only once those are resolved.
    recipe = _resolve_recipe(recipe, params, stored, samples, reporter)
    facts |= {"method": method, "params": recipe.as_json()}
    if checkpoint_path is not None and stored is not None:
        check_facts(checkpoint_path, stored.facts, facts)
        if stored.finished:
            return restore(checkpoint_path, stored, recipe, space)
    loop_state = fit(
        prepare_run(recipe, samples, seed, reporter),
        start=None if stored is None else stored.run,
        keep=(lambda _: None) if checkpoint_path is None else partial(keep_run, checkpoint_path, facts),
        watch=watch or (lambda _: None),
        reporter=reporter,
    )
    result = trained_from(recipe, space, recipe.dev_decoder(), loop_state, facts)
    return result if reporter.is_stopped else _finish_training(result, samples, checkpoint_path, reporter)


def _finish_training(result: Trained, samples: Samples, path: Path | None, reporter: Reporter) -> Trained:
    """Choose the final decoder on dev and write the checkpoint of the finished training.

    If the choice is cancelled, the result is returned as it is, and the checkpoint stays unfinished.
    """
    candidates = result.recipe.final_decoders()
    if len(candidates) > 1:
        # The best penalties before training need not be the best after it, so dev chooses again.
        try:
            trained_samples = replace(samples, space=result.space)
            result = replace(result, decoder=best_on_dev(candidates, trained_samples, reporter))
        except Cancelled:
            return result
    if path is not None:
        result.save(path)
    return result


def prepare_run(recipe: Recipe, samples: Samples, seed: int, reporter: Reporter = SILENT) -> PreparedRun:
    """Build what the training loop needs: model, optimiser, loss, samples, measurement on dev, schedule.

    The initial weights are drawn from the seed. Raises ParamError or DataError where the recipe does not fit the data;
    Cancelled.
    """
    with report_to(*reporter):
        # −1: epochs have generators of their own, numbered from 0.
        built = recipe.build(samples, generator_of(seed, -1))
    # Models number the dev queries after the training queries.
    dev_positions = torch.arange(len(samples), len(samples) + len(samples.dev), device=samples.space.device)
    inputs = recipe.dev_decoder(), samples.space.corpus, samples.dev, dev_positions, samples.qrels
    dev = partial(measure_dev, built.model, *inputs, document_parts=built.document_parts)
    schedule = Schedule(recipe.epochs, recipe.patience, recipe.batch, recipe.max_gradient, seed)
    return PreparedRun(built, samples, dev, schedule)


@dataclass(frozen=True, slots=True, kw_only=True)
class Preflight(OneLine):
    """Estimate of a training."""

    queries: int  # training queries
    left_out: int  # training queries without a relevant document, left out
    repeated: int  # training queries with the text of one of dev, left out
    mean_relevant: float  # mean count of relevant documents per query
    steps: int  # steps an epoch
    seconds_an_epoch: float  # time of an epoch's steps
    seconds_of_dev: float  # time of measuring dev once
    seconds: float  # time of all epochs


def preflight(
    method: str,
    space: Space,
    queries: AnyQueries,
    qrels: Splits,
    *,
    train: str = "train",
    dev: str = "dev",
    progress: Progress | None = None,
    stop: Stop | None = None,
    **params: Any,
) -> Preflight:
    """Estimate the time of `train` from its first steps, without the choice of λ₁ and λ₂.

    Parameters
    ----------
    method : str
        The name of a recipe.
    space : Space
        The corpus to search.
    queries : AnyQueries
        The queries, whose ids name the judgements.
    qrels : Splits
        Judgements by split.
    train : str
        The split to train on.
    dev : str
        The split that chooses the epoch.
    progress : callable or None
        Called repeatedly as progress(done, total, label).
    stop : callable or None
        The work is cancelled once it returns true.
    **params
        The parameters of the recipe.

    Returns
    -------
    Preflight
        The estimated time and memory.

    Raises
    ------
    ParamError, DataError
        If an argument is invalid or inputs do not belong together.
    Cancelled
        If it is stopped.

    Examples
    --------
    >>> estimate = engine.preflight("nnn", space, queries, qrels)  # doctest: +SKIP
    """
    recipe, reporter = make_recipe(method, **params), Reporter(progress, stop)
    _check_space(space, recipe, queries)
    samples = gather_samples(space, queries, qrels, train, dev, reporter)
    prepared_run = prepare_run(recipe, samples, SEED.default, reporter)
    # Compilation in a process's first call is no part of a step's time.
    type(recipe.decoder().select).warm()
    epoch_seconds = prepared_run.steps * _time_steps(prepared_run)
    started_at = time.perf_counter()
    prepared_run.dev()
    dev_seconds = time.perf_counter() - started_at
    return Preflight(
        queries=len(samples),
        left_out=samples.left_out,
        repeated=samples.repeated,
        mean_relevant=samples.mean_relevant,
        steps=prepared_run.steps,
        seconds_an_epoch=epoch_seconds,
        seconds_of_dev=dev_seconds,
        seconds=recipe.epochs * (epoch_seconds + dev_seconds),
    )


def _time_steps(run: PreparedRun) -> float:
    """Return the mean seconds of the first few steps of an optimiser, to estimate a training's time."""
    seconds = []
    for batch in islice(run.batches(generator_of(0, 0)), TIMED_STEPS + 1):
        started_at = time.perf_counter()
        run.built.step(batch, run.schedule.clip)
        seconds.append(time.perf_counter() - started_at)
    # The first step is slower than those that follow.
    typical = seconds[1:] or seconds
    return sum(typical) / len(typical)


def _check_space(space: Space, recipe: Recipe, queries: AnyQueries) -> None:
    """Raise a DataError if a recipe cannot train over a space: checked before anything is computed.

    Three kinds of spaces are refused: those whose vectors are on a server (`Elsewhere`), those trained by something
    else than `train`, and projected ones. So are queries without texts if the recipe reads texts.
    """
    if isinstance(space, Elsewhere):
        raise space.refuse("training")
    if not isinstance(space, Space):
        raise DataError(f"space must be an engine.Space; got {type(space).__name__}")
    adapted = adapted_of(space)
    if space.adapt is not None and adapted is None:
        raise DataError("space was trained by something else than engine.train, so it cannot be trained on")
    if adapted is not None and (heads := adapted.adapters.heads) is not None:
        raise DataError(
            f"space was projected from {heads.query.weight.shape[1]} to "
            f"{counted(space.embeddings.dimension, 'dimension')}, so it "
            "cannot be trained on; train before projecting, or project anew from the space that it was made of"
        )
    if _reads_texts(recipe, space):
        check_texts(space, queries)


def _reads_texts(recipe: Recipe, space: Space) -> bool:
    """Return True if the model encodes the queries' texts, not only adapts their vectors."""
    return recipe.text_use == "encoder" or isinstance(space.adapt, AdaptedTexts)


def _identifying_facts(recipe: Recipe, samples: Samples, train: Qrels, dev: Qrels, seed: int) -> dict[str, Any]:
    """Return the facts that tell which training a checkpoint belongs to, but for the recipe's parameters.

    A training resumes only from a checkpoint with these facts, and refuses that of other work.
    """
    space = samples.space
    base_encoder, previous = space.encoder, adapted_of(space)
    query_hashes = training_query_hashes(samples.train) | (frozenset() if previous is None else previous.learnt)
    try:
        frontier_version = version("frontier-retrieval")
    except PackageNotFoundError:
        frontier_version = "checkout"
    facts = space_facts(space) | {
        "encoder": base_encoder.name if base_encoder else "",
        "embeddings": space.embeddings.digest if previous is None else previous.corpus,
        "sketch": sketch(space.embeddings.vectors) if previous is None else list(previous.sketch),
        "queries": samples.train.digest,
        "learnt": sorted(query_hashes),
        "train": train.digest,
        "dev_queries": samples.dev.digest,
        "dev": dev.digest,
        "seed": seed,
        "parent": "" if previous is None else previous.digest,
        "versions": {"torch": str(torch.__version__), "frontier": frontier_version},
    }
    # Texts belong to the identity only where training reads them: equal vectors may come with other texts.
    encodes = _reads_texts(recipe, space)
    if encodes or (recipe.text_use == "words" and samples.train.texts is not None):
        facts["texts"] = digest_of((*(samples.train.texts or ()), *(samples.dev.texts or ())))
        facts["versions"] |= reader_versions() if encodes else {}
    return facts


def _resolve_recipe(
    recipe: Recipe, params: Mapping[str, Any], checkpoint: Checkpoint | None, samples: Samples, reporter: Reporter
) -> Recipe:
    """Fill in the parameters that are set from the data, from a checkpoint (saved state) if there is one.

    `recipe.late` names them, such as the learning rate; those that the caller gave in `params` stay as they are.
    """
    open_names = [name for name in recipe.late if name not in params]
    if checkpoint is None:
        best = partial(best_on_dev, samples=samples, reporter=reporter)
        return recipe.resolve(open_names, len(samples), best)
    # A resumed run goes on with the values of its first part, also where dev would choose others today.
    values, names = checkpoint.facts.get("params", {}), {param.name for param in recipe.parameters()}
    return replace(recipe, **{name: values[name] for name in open_names if name in values and name in names})


def best_on_dev(decoders: Sequence[Decoder], samples: Samples, reporter: Reporter = SILENT) -> Decoder:
    """Find the decoder with the best Comp@5 on dev; ties go to the best Recall@5, then to the first.

    Comp@5 is the share of queries whose first 5 documents hold all relevant ones.
    """
    dev, (progress, stop) = (samples.space, samples.dev, samples.qrels), reporter.relabel(CHOOSING_LABEL)
    cells = sweep(decoders, *dev, 5, ("comp", "recall"), split="dev", progress=progress, stop=stop)
    quality = {cell.label: (cell.mean["comp"], cell.mean["recall"]) for cell in cells}
    # `max` keeps the first of equals, so the order of the decoders decides ties.
    return max(decoders, key=lambda decoder: quality[decoder.label])
