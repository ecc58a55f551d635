"""Deployments of judged sets: queries that come and are learned from, others that are only measured, and the gains."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from torch.nn.functional import normalize

import engine
from engine.data.degrade import shorten_documents
from engine.data.plans import expand_plans, has_plans
from engine.drift.round_metrics import rare_rows, right_counts, right_rows
from engine.errors import DataError
from engine.evaluation.splits import subsample
from engine.evidence.claim import Measurement
from engine.evidence.judged_sets import JudgedSet
from engine.evidence.measures import DENSE, POINTS
from engine.simulation.simulate import Plan, Simulated, simulate
from engine.space import Space
from engine.values import Embeddings, Qrels

SETS = ("ultratool-en", "metatool", "toollens", "toolbank-numpy")
STEPS = ("ultratool-en",)
"""The set whose questions have plans: their steps are the queries."""
REPORTED = {"metatool": ("dev",)}
"""Splits to report on, if not dev and test: metatool's test asks for two tools at once, its stream for one."""
STREAM, HELD_OUT, LEARNED = 3000, 2000, 600
"""At most so many queries come, so many that never come are measured, and so many of those that came."""
K, SEEDS = 10, 10
QUIET = Plan(checkpoints=1, measured=1, regret="none")
METRICS = ("ndcg", "recall")
DIGITS = 6
Values = TypeVar("Values")


@dataclass(frozen=True, eq=False, kw_only=True)
class JudgedDeployment:
    """A space, queries, and their judgements: of the stream, and of those that are only measured.

    hops: question → its queries in order, where questions have plans
    """

    name: str
    encoder: str
    space: Space
    queries: Embeddings
    stream: Qrels
    held_out: Qrels
    hops: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def learned(self, seed: int, **how: Any) -> Simulated:
        """What a deployment with a seed of order and draws comes to; how: as `simulate` takes it."""
        given: dict[str, Any] = {"plan": QUIET, "k": K, "held_out": self.held_out, **how}
        return simulate(self.space, self.queries, self.stream, seed=seed, **given)

    def values(self, part: Qrels, space: Space | None = None) -> dict[str, np.ndarray]:
        """Metric → (n,) points of the most relevant documents, for the queries of a part."""
        queries = self.of(part)
        ranking = engine.decode(DENSE, space or self.space, queries, k=K)
        found = engine.measure(ranking, self.space, queries, part, K, METRICS).values
        return {metric: POINTS * np.asarray(found[metric]) for metric in METRICS}

    def reached(self, run: Simulated, part: Qrels) -> dict[str, np.ndarray]:
        """The same in the space that a deployment ended with."""
        return self.values(part, self.space.with_embeddings(run.embeddings()))

    def gains(self, runs: Sequence[Simulated]) -> dict[str, np.ndarray]:
        """Part and metric → (n,) points gained, mean over the runs."""
        found: dict[str, np.ndarray] = {}
        for name, part in (("held-out", self.held_out), ("stream", subsample(self.stream, LEARNED))):
            before, after = self.values(part), [self.reached(run, part) for run in runs]
            found |= {f"{name} {m}@{K}": np.mean([each[m] for each in after], axis=0) - before[m] for m in METRICS}
        return found

    def of(self, part: Qrels) -> Embeddings:
        """The queries of a part."""
        return self.queries.take([row for row, query in enumerate(self.queries.ids) if query in part.grades])

    @cached_property
    def tail(self) -> np.ndarray:
        """(n,) whether all that is right for a measured query is among the half that is right least in the stream."""
        position = self.space.corpus.position
        rare = rare_rows(right_counts(right_rows(self.stream, list(self.stream.grades), position), len(self.space)))
        return np.array([rare[rows].all() for rows in right_rows(self.held_out, self.of(self.held_out).ids, position)])

    def on(self, stream: Qrels) -> "JudgedDeployment":
        """The same with another stream."""
        return replace(self, stream=stream)

    def in_order(self, order: np.ndarray) -> "JudgedDeployment":
        """The same with its queries in another order, in which a stream that is given comes."""
        return replace(self, queries=self.queries.take(order.tolist()))

    def narrowed(self, dimensions: int) -> "JudgedDeployment":
        """The same with the first dimensions alone, all vectors of length 1 again."""
        space = Space(self.space.corpus, _first(self.space.embeddings, dimensions))
        return replace(self, space=space, queries=_first(self.queries, dimensions))

    def cut(self, words: int | None) -> "JudgedDeployment":
        """The same with documents cut to their first words."""
        corpus = shorten_documents(self.space.corpus, words)
        return replace(self, space=Space(corpus, engine.embed(corpus, encoder=self.encoder)))


def deployed(judged: JudgedSet) -> JudgedDeployment:
    """A judged set as a deployment: train comes, dev and test are measured. Raises DataError for a set without them."""
    dataset, hops = judged.dataset, {}
    if judged.folder is not None and has_plans(judged.folder):
        plans = expand_plans(dataset, judged.folder)
        dataset, hops = plans.dataset, dict(plans.hops)
    reported = [split for split in REPORTED.get(judged.name, ("dev", "test")) if split in dataset.qrels]
    if "train" not in dataset.qrels or not reported:
        raise DataError(f"judgements of {judged.name} to learn from, train, and to report on, dev or test")
    known = dataset.corpus.position.keys()
    answerable = (
        Qrels({q: grades for split in splits for q, grades in dataset.qrels[split].grades.items() if known & grades})
        for splits in (("train",), reported)
    )
    stream, held_out = (subsample(part, most) for part, most in zip(answerable, (STREAM, HELD_OUT), strict=True))
    queries = dataset.queries.only({*stream.grades, *held_out.grades})
    embedded = engine.embed(queries, encoder=judged.encoder)
    return JudgedDeployment(
        name=judged.name, encoder=judged.encoder, space=judged.space, queries=embedded, stream=stream,
        held_out=held_out, hops=hops,
    )  # fmt: skip


def _first(embeddings: Embeddings, dimensions: int) -> Embeddings:
    return replace(embeddings, vectors=normalize(embeddings.vectors[:, :dimensions], dim=1))


def seeds(seed: int, count: int = SEEDS) -> range:
    """The seeds of a measurement's deployments: none of them is another measurement's."""
    return range(100 * seed, 100 * seed + count)


def measure_deployments(
    sets: Sequence[JudgedSet], measure: Callable[[JudgedDeployment], Mapping[str, np.ndarray]]
) -> Measurement:
    """What `measure` gives of each set's deployment, by the set's name and its own."""
    return {f"{judged.name}, {name}": plain(of) for judged in sets for name, of in measure(deployed(judged)).items()}


def ndcg_gains(deployment: JudgedDeployment, seed: int, **how: Any) -> dict[str, np.ndarray]:
    """Points of nDCG gained, mean over the runs of a seed; how: as `simulate` takes it."""
    return cells_of(deployment.gains([deployment.learned(at, **how) for at in seeds(seed)]), "ndcg")


def plain(values: np.ndarray) -> list[float]:
    """Numbers as they are kept."""
    return [float(value) for value in np.round(values, DIGITS) + 0.0]


def cells_of(measured: Mapping[str, Values], *words: str) -> dict[str, Values]:
    """The cells in whose name any of some words stands."""
    return {name: values for name, values in measured.items() if any(word in name for word in words)}
