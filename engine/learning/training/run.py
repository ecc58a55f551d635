"""Training from beginning to end: samples, λ₁ and λ₂, the loop, λ₁ and λ₂ again, a checkpoint."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from engine.decoder import Decoder
from engine.errors import Cancelled, DataError
from engine.evaluation.sweep import grid, sweep
from engine.learning.training.adapters import Adapted, Adapters, CorpusAdapter, Learns, OverVectors, QueryAdapter
from engine.learning.training.checkpoints import keep_run, over, read, refuse, sketch
from engine.learning.training.colt import Graphs, ListAndContrast
from engine.learning.training.encoder import below, check_texts, learning, like, readers, reads_texts
from engine.learning.training.history import Dev, Epoch, measured
from engine.learning.training.learnt import check_unseen, marks
from engine.learning.training.loop import Objective, Plan, fit, generator_of, groups
from engine.learning.training.negatives import projecting, reads_words
from engine.learning.training.objectives import ElasticNets, InnerProducts
from engine.learning.training.recipe import FEW, SLOWER, TUNED, Recipe
from engine.learning.training.recipes import Colt, Dense, Nnn, declared, made
from engine.learning.training.recipes_projections import MultiVector, Projects
from engine.learning.training.samples import Samples, gathered
from engine.learning.training.trained import Trained, restored, trained
from engine.params import Whole
from engine.progress import Progress, Stop
from engine.space import Space
from engine.values import Embeddings, Qrels, Queries, digest_of

SEED = Whole(default=0, low=0, high=2**31 - 1, symbol="seed", name="seed", help="Same seed, same weights.")
CHOOSING = "choosing λ₁ and λ₂"
TIMED = 3
"""Steps that a preflight takes the time of."""


def train(
    method: str,
    space: Space,
    queries: Queries | Embeddings,
    qrels: Mapping[str, Qrels],
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
    """Train embeddings for a decoder, by adapters over those that the space has; dev says which epoch was the best.

    method: a name of RECIPES, such as "dense", "nnn" or "colt"; space: the encoder's own, or one that was trained
    before, which is trained on (nnn and colt are meant to start from a dense one, as in the paper), unless it was
    projected to fewer dimensions; queries: at least those that the two splits judge, as the encoder below embeds them;
    qrels: judgements by split; params: as the method declares them. λ₁ and λ₂ of nnn that are not given are first
    chosen on dev, by Comp@5 over the paper's grid, and again afterwards; a 0 that is given stays. checkpoint: a file
    that holds the run after every epoch: a run that was killed goes on from there, one that is over is read. watch:
    gets every Epoch; progress counts steps; stop: asked between steps, and what was best by then is returned. A query
    of train that has the text of one of dev is left out. Raises ParamError, and DataError where data do not fit, splits
    share queries, the space has learnt from some of dev, or the checkpoint is another run's; Cancelled where it is
    stopped before the first step.
    """
    seed = SEED.check(seed)
    recipe = made(method, **params)
    _check(space, recipe, queries)
    samples = gathered(space, queries, qrels, train, dev, progress, stop)
    check_unseen(space, samples.dev, dev)
    path = None if checkpoint is None else Path(checkpoint)
    facts = _facts(space, samples, qrels, train, dev, seed)
    if (encoded := reads_texts(recipe, space)) or reads_words(recipe, samples):
        texts = (*samples.train.texts, *samples.dev.texts)
        facts |= {"texts": digest_of(texts), "versions": facts["versions"] | (readers() if encoded else {})}
    found = read(path) if path is not None and path.exists() else None
    if found is not None:
        recipe = _resolved_as(recipe, params, found.facts.get("params", {}))
        facts |= {"method": method, "params": recipe.as_json()}
        refuse(path, found.facts, facts)
        if over(found):
            return restored(path, found, recipe, space)
    else:
        recipe = _resolved(recipe, params, space, samples, progress, stop)
        facts |= {"method": method, "params": recipe.as_json()}
    job = prepared(recipe, space, samples, seed, progress, stop)
    run = fit(
        job.model,
        job.optimizer,
        job.objective,
        samples,
        job.dev,
        job.plan,
        start=None if found is None else found.run,
        keep=(lambda _: None) if path is None else partial(keep_run, path, facts),
        watch=watch or (lambda _: None),
        progress=progress,
        stop=stop,
    )
    result = trained(recipe, space, recipe.watched(), run, facts)
    if stop is not None and stop.is_set():
        return result
    try:
        result = replace(result, decoder=_regridded(result, samples, progress, stop))
    except Cancelled:
        return result
    if path is not None:
        result.save(path)
    return result


@dataclass(frozen=True, eq=False)
class Job:
    """All that the loop takes."""

    model: Learns
    optimizer: torch.optim.Optimizer
    objective: Objective
    dev: Callable[[], Dev]
    plan: Plan


def prepared(
    recipe: Recipe,
    space: Space,
    samples: Samples,
    seed: int,
    progress: Progress | None = None,
    stop: Stop | None = None,
) -> Job:
    """Model, optimiser and objective of a recipe, the weights drawn from the seed. Raises ParamError, DataError where
    the recipe does not fit the data; Cancelled."""
    generator = generator_of(seed, -1)
    before = space.adapt.adapters if space.adapt is not None else Adapters()
    if isinstance(recipe, Colt):
        with torch.no_grad():
            asked = before.encode_query(below(space, samples, before))
        seen, unseen = asked[: len(samples)], asked[len(samples) :]
        model = Graphs(samples, seen, unseen, space.vectors, recipe.depth, like(before, copy.deepcopy(before.query)))
        objective: Objective = ListAndContrast(model, recipe)
        optimizer = torch.optim.Adam(model.parameters(), lr=recipe.rate, weight_decay=recipe.weight_decay)
    elif isinstance(recipe, Projects):
        model, objective = projecting(recipe, space, samples, before, generator, progress, stop)
        optimizer = torch.optim.AdamW(groups((list(model.parameters()), recipe.rate)), weight_decay=recipe.weight_decay)
    else:
        d = space.vectors.shape[1]
        stages = copy.deepcopy(tuple(before.corpus))
        if recipe.query_side == "encoder":
            model = learning(space, samples, before, (*stages, CorpusAdapter(d, recipe.hidden, generator)))
            query = model.adapters.encoder
        else:
            query = copy.deepcopy(before.query) or QueryAdapter(d, recipe.hidden, generator)
            corpus = (*stages, CorpusAdapter(d, recipe.hidden, generator))
            adapters = like(before, query.requires_grad_(True), corpus, before.table)
            model = OverVectors(
                adapters.to(space.device, space.vectors.dtype), below(space, samples, before), space.vectors
            )
        own = (list(query.parameters()), recipe.query_rate)
        rates = (own, (list(model.adapters.corpus[-1].parameters()), recipe.corpus_rate))
        optimizer = torch.optim.AdamW(groups(*rates), weight_decay=recipe.weight_decay)
        objective = InnerProducts(model, recipe) if isinstance(recipe, Dense) else None
        objective = objective or ElasticNets(model, recipe, len(space))
    at = torch.arange(len(samples), len(samples) + len(samples.dev), device=space.device)
    several = model.encode_parts if isinstance(recipe, MultiVector) else None
    dev = partial(measured, model, recipe.watched(), space.corpus, samples.dev, at, samples.qrels, several)
    return Job(model, optimizer, objective, dev, Plan(recipe.epochs, recipe.patience, recipe.batch, recipe.clip, seed))


@dataclass(frozen=True, slots=True)
class Preflight:
    """What training would take: queries to learn from, those left out for want of a relevant document, and those whose
    text dev has too; relevant documents a query; steps an epoch, and their seconds; seconds of a look at dev, and of
    all epochs."""

    queries: int
    left_out: int
    repeated: int
    mean_relevant: float
    steps: int
    seconds_an_epoch: float
    seconds_of_dev: float
    seconds: float


def preflight(
    method: str,
    space: Space,
    queries: Queries | Embeddings,
    qrels: Mapping[str, Qrels],
    *,
    train: str = "train",
    dev: str = "dev",
    progress: Progress | None = None,
    stop: Stop | None = None,
    **params: Any,
) -> Preflight:
    """What `train` would take, by the time of the first steps; without the choice of λ₁ and λ₂. Raises as `train`."""
    recipe = made(method, **params)
    _check(space, recipe, queries)
    samples = gathered(space, queries, qrels, train, dev, progress, stop)
    job = prepared(recipe, space, samples, SEED.default, progress, stop)
    job.objective.begin(generator_of(0, 0))
    order = torch.randperm(len(samples), generator=generator_of(0, 0))
    # What is compiled in a process's first call is no part of the time that a step takes.
    type(recipe.decoder().select).warm()
    took = []
    for at in order.split(recipe.batch)[: TIMED + 1]:
        began = time.perf_counter()
        job.optimizer.zero_grad()
        loss = job.objective(samples.batch(at)).values.mean()
        loss.backward()
        job.optimizer.step()
        # A GPU is still at work when the call returns: reading the loss waits for it.
        float(loss.detach())
        took.append(time.perf_counter() - began)
    began = time.perf_counter()
    job.dev()
    looked = time.perf_counter() - began
    steps = -(-len(samples) // recipe.batch)
    # The first step is slower than those that follow.
    pace = sum(took[1:] or took) / len(took[1:] or took)
    whole = recipe.epochs * (steps * pace + looked)
    counts = (len(samples), samples.left_out, samples.repeated)
    return Preflight(*counts, samples.mean_relevant, steps, steps * pace, looked, whole)


def _check(space: Space, recipe: Recipe, queries: Queries | Embeddings) -> None:
    if not isinstance(space, Space):
        raise DataError(f"space must be an engine.Space; got {type(space).__name__}")
    if space.adapt is not None and not isinstance(space.adapt, Adapted):
        raise DataError("space was trained by something else than engine.train, so it cannot be trained on")
    if space.adapt is not None and (heads := space.adapt.adapters.heads) is not None:
        raise DataError(
            f"space was projected from {heads.takes} to {space.embeddings.dimension} dimensions, so it cannot be "
            "trained on; train before projecting, or project anew from the space that it was made of"
        )
    if reads_texts(recipe, space):
        check_texts(space, queries)


def _facts(
    space: Space, samples: Samples, qrels: Mapping[str, Qrels], train: str, dev: str, seed: int
) -> dict[str, Any]:
    """What a checkpoint says it is of."""
    base, before = space.encoder, space.adapt
    return {
        "encoder": base.name if base else "",
        "weights": base.digest if base else "",
        "dtype": base.dtype if base else "",
        "corpus": space.corpus.digest,
        "embeddings": space.embeddings.digest if before is None else before.corpus,
        "sketch": sketch(space.embeddings.vectors) if before is None else list(before.sketch),
        "dimension": space.embeddings.dimension,
        "queries": samples.train.digest,
        "learnt": sorted(marks(samples.train) | (frozenset() if before is None else before.learnt)),
        "train": qrels[train].digest,
        "dev_queries": samples.dev.digest,
        "dev": qrels[dev].digest,
        "seed": seed,
        "parent": "" if before is None else before.digest,
        "versions": _versions(),
    }


def _versions() -> dict[str, str]:
    found = {"torch": torch.__version__}
    try:
        found["frontier"] = version("frontier-retrieval")
    except PackageNotFoundError:
        found["frontier"] = "checkout"
    return found


def _late(recipe: Recipe, given: Mapping[str, Any]) -> list[str]:
    """The parameters that the data decide."""
    return [name for name in recipe.late if name not in given]


def _resolved_as(recipe: Recipe, given: Mapping[str, Any], there: Mapping[str, Any]) -> Recipe:
    """What the data decide taken from a checkpoint: deciding it again would take a while, and give the same."""
    known = {p.name for p in declared(recipe.name)}
    return replace(recipe, **{n: there[n] for n in _late(recipe, given) if n in there and n in known})


def _resolved(
    recipe: Recipe,
    given: Mapping[str, Any],
    space: Space,
    samples: Samples,
    progress: Progress | None,
    stop: Stop | None,
) -> Recipe:
    late = _late(recipe, given)
    if "query_rate" in late and recipe.query_side == "encoder":
        recipe = replace(recipe, query_rate=TUNED)
    elif "query_rate" in late and len(samples) < FEW:
        recipe = replace(recipe, query_rate=SLOWER)
    if not isinstance(recipe, Nnn):
        return recipe
    if {"l1", "l2"} & set(late):
        fixed = {name: getattr(recipe, name) for name in ("l1", "l2") if name not in late}
        best = best_on_dev(grid("nnn", fill="strict", **fixed), space, samples, progress, stop)
        recipe = replace(recipe, l1=best.select.l1, l2=best.select.l2)
    return recipe


def _regridded(result: Trained, samples: Samples, progress: Progress | None, stop: Stop | None) -> Decoder:
    """The decoder with the λ₁ and λ₂ that are best on dev for the trained embeddings."""
    recipe = result.recipe
    if not isinstance(recipe, Nnn) or not recipe.regrid:
        return recipe.watched()
    trained_for = recipe.watched().select
    fixed = {name: 0.0 for name in ("l1", "l2") if getattr(recipe, name) == 0}
    how = {"solver": trained_for.solver, "iterations": trained_for.iterations}
    decoders = [recipe.watched(), *grid("nnn", fill="strict", **how, **fixed)]
    return best_on_dev(list(dict.fromkeys(decoders)), result.space, samples, progress, stop)


def best_on_dev(
    decoders: list[Decoder], space: Space, samples: Samples, progress: Progress | None, stop: Stop | None
) -> Decoder:
    """The decoder with the best Comp@5 on dev; of equals, the one with the best Recall@5, then the first."""
    told = None if progress is None else (lambda done, total, _: progress(done, total, CHOOSING))
    cells = sweep(
        decoders, space, samples.dev, samples.qrels, 5, ("comp", "recall"), split="dev", progress=told, stop=stop
    )
    worth = {cell.label: (cell.mean["comp"], cell.mean["recall"]) for cell in cells}
    return max(decoders, key=lambda decoder: worth[decoder.label])
