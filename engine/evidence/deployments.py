"""Deployments of judged sets: queries that come and are learned from, others that are only measured, and the gains."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import Any, TypeVar

import numpy as np
from torch.nn.functional import normalize

import engine
from engine.data.degrade import shorten_documents
from engine.data.plans import expand_plans, has_plans
from engine.drift.round_metrics import rare_rows, right_counts, right_rows
from engine.errors import DataError
from engine.evaluation.splits import subsample
from engine.evidence.cells import map_values, rename_cells, subtract_cells
from engine.evidence.claim import Measurement
from engine.evidence.judged_sets import JudgedSet
from engine.evidence.measures import DENSE, POINTS
from engine.simulation.simulate import Plan, Simulated, simulate
from engine.space import Space
from engine.values import Embeddings, Qrels

DEPLOYMENT_SETS = ("ultratool-en", "metatool", "toollens", "toolbank-numpy")
STEP_SETS = ("ultratool-en",)
"""The set whose questions have plans: their steps are the queries."""
REPORT_SPLITS = {"metatool": ("dev",)}
"""Splits to report on, if not dev and test: metatool's test asks for two tools at once, its stream for one."""
MAX_STREAM, MAX_HELD_OUT, MAX_LEARNED = 3000, 2000, 600
"""At most so many queries come, so many that never come are measured, and so many of those that came."""
K, N_SEEDS = 10, 10
QUIET_PLAN = Plan(checkpoints=1, measured=1, regret="none")
GAIN_METRICS = ("ndcg", "recall")
STORED_DIGITS = 6
CellValues = TypeVar("CellValues")


@dataclass(frozen=True, eq=False, kw_only=True)
class JudgedDeployment:
    """A retrieval deployment to simulate: documents, and queries that are learned from or only measured.

    stream: judgements of the queries that come and whose feedback is learned from; held_out: of those that never come;
    hops: question → its queries in order, where questions have plans of several steps
    """

    name: str
    encoder: str
    space: Space
    queries: Embeddings
    stream: Qrels
    held_out: Qrels
    hops: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def run(self, seed: int, **changes: Any) -> Simulated:
        """Simulate the deployment once, from feedback on its stream, and return the finished run.

        seed: of the order of queries and of random draws; changes: arguments of `simulate` that replace the defaults
        here
        """
        options: dict[str, Any] = {"plan": QUIET_PLAN, "k": K, "held_out": self.held_out, **changes}
        return simulate(self.space, self.queries, self.stream, seed=seed, **options)

    def values(self, part_qrels: Qrels, space: Space | None = None) -> dict[str, np.ndarray]:
        """Return metric → (n,) points that plain dense retrieval gets on the queries that `part_qrels` judges.

        space: embeddings to search, such as those learnt in a simulation; by default those before any feedback
        """
        part_queries = self.select_queries(part_qrels)
        ranking = engine.decode(DENSE, space or self.space, part_queries, k=K)
        metric_values = engine.measure(ranking, self.space, part_queries, part_qrels, K, GAIN_METRICS).values
        return {metric: POINTS * np.asarray(metric_values[metric]) for metric in GAIN_METRICS}

    def run_all(self, seeds: Iterable[int], **changes: Any) -> list[Simulated]:
        """Simulate a deployment with each of the seeds."""
        return [self.run(seed, **changes) for seed in seeds]

    def mean_after(self, seeds: Iterable[int]) -> dict[str, np.ndarray]:
        """Return metric → (n,) points on held-out queries after learning, mean over a simulation a seed."""
        return self._mean_points(self.run_all(seeds), self.held_out)

    def _mean_points(self, finished_runs: Sequence[Simulated], part_qrels: Qrels) -> dict[str, np.ndarray]:
        """Return metric → (n,) points by query after learning, mean over the runs.

        finished_runs: simulations, whose learnt embeddings are searched; part_qrels: judgements of the queries to
        measure, such as those held out
        """
        learnt_spaces = (self.space.with_embeddings(run.embeddings()) for run in finished_runs)
        run_points = [self.values(part_qrels, learnt_space) for learnt_space in learnt_spaces]
        return {metric: np.mean([points[metric] for points in run_points], axis=0) for metric in GAIN_METRICS}

    def gains(self, finished_runs: Sequence[Simulated]) -> dict[str, np.ndarray]:
        """Return "part metric@k" → (n,) gains: by query, points after learning less those before.

        A point is a hundredth of nDCG or Recall; those after learning are means over the runs. The two parts are
        "held-out", queries that never come, and "stream", those that came and were learned from. finished_runs:
        simulations of this deployment, each of which has learnt embeddings of its own
        """
        gains: dict[str, np.ndarray] = {}
        # Every query of the stream was learned from. Of these at most MAX_LEARNED are measured here, to save time.
        # A cell, in the names of the two functions, is an entry of a dictionary: the numbers of one metric by query.
        for name, part_qrels in (("held-out", self.held_out), ("stream", subsample(self.stream, MAX_LEARNED))):
            part_gains = subtract_cells(self._mean_points(finished_runs, part_qrels), self.values(part_qrels))
            gains |= rename_cells(part_gains, prefix=f"{name} ", suffix=f"@{K}")
        return gains

    def select_queries(self, qrels: Qrels) -> Embeddings:
        """Return the queries that a part's judgements name."""
        return self.queries.take([row for row, query_id in enumerate(self.queries.ids) if query_id in qrels.grades])

    @cached_property
    def tail(self) -> np.ndarray:
        """Mark the held-out queries whose right documents are all rare, as an (n,) mask: the long tail."""
        positions = self.space.corpus.position
        # Rare: among the half of the documents that are least often right in the stream.
        stream_rows = right_rows(self.stream, list(self.stream.grades), positions)
        is_rare = rare_rows(right_counts(stream_rows, len(self.space)))
        held_out_rows = right_rows(self.held_out, self.select_queries(self.held_out).ids, positions)
        return np.array([is_rare[rows].all() for rows in held_out_rows])

    def with_stream(self, stream: Qrels) -> "JudgedDeployment":
        """Return this deployment learning from other judgements."""
        return replace(self, stream=stream)

    def reorder(self, order: np.ndarray) -> "JudgedDeployment":
        """Return this deployment with its queries in another order, in which a "given" stream brings them."""
        return replace(self, queries=self.queries.take(order.tolist()))

    def truncate(self, n_dimensions: int) -> "JudgedDeployment":
        """Return this deployment with vectors cut to their first dimensions, scaled to length 1."""
        narrow_space = Space(self.space.corpus, _truncate(self.space.embeddings, n_dimensions))
        return replace(self, space=narrow_space, queries=_truncate(self.queries, n_dimensions))

    def shorten(self, max_words: int | None) -> "JudgedDeployment":
        """Return this deployment with documents cut to their first words."""
        short_corpus = shorten_documents(self.space.corpus, max_words)
        return replace(self, space=Space(short_corpus, engine.embed(short_corpus, encoder=self.encoder)))


def deploy_set(judged_set: JudgedSet) -> JudgedDeployment:
    """Build a judged set's deployment: train comes as the stream to learn from, dev and test are held out.

    Only queries with a relevant document in the corpus take part, at most MAX_STREAM and MAX_HELD_OUT of them. Raises
    DataError if the set has no train split, or neither of the others.
    """
    dataset, hops = judged_set.dataset, {}
    # Questions with plans are split into their steps, which are the queries of the deployment.
    if judged_set.folder is not None and has_plans(judged_set.folder):
        plans = expand_plans(dataset, judged_set.folder)
        dataset, hops = plans.dataset, dict(plans.hops)
    report_splits = [split for split in REPORT_SPLITS.get(judged_set.name, ("dev", "test")) if split in dataset.qrels]
    if "train" not in dataset.qrels or not report_splits:
        # The message completes "Missing: …", the sentence in which the report says why a claim was not tested.
        raise DataError(f"judgements of {judged_set.name} to learn from, train, and to report on, dev or test")
    document_ids = dataset.corpus.position.keys()

    def join_splits(splits: Iterable[str]) -> Qrels:
        """Join the judgements of some splits, without queries that have no judged document in the corpus."""
        grades_by_query = chain.from_iterable(dataset.qrels[split].grades.items() for split in splits)
        return Qrels({query: grades for query, grades in grades_by_query if document_ids & grades})

    # Queries without a right document in the corpus can neither be learned from nor measured.
    stream, held_out = (
        subsample(join_splits(["train"]), MAX_STREAM),
        subsample(join_splits(report_splits), MAX_HELD_OUT),
    )
    queries = dataset.queries.only({*stream.grades, *held_out.grades})
    query_vectors = engine.embed(queries, encoder=judged_set.encoder)
    return JudgedDeployment(
        name=judged_set.name, encoder=judged_set.encoder, space=judged_set.space, queries=query_vectors, stream=stream,
        held_out=held_out, hops=hops,
    )  # fmt: skip


def _truncate(embeddings: Embeddings, n_dimensions: int) -> Embeddings:
    """Cut vectors to their first dimensions and scale them to length 1."""
    return replace(embeddings, vectors=normalize(embeddings.vectors[:, :n_dimensions], dim=1))


def run_seeds(seed: int, n_seeds: int = N_SEEDS) -> range:
    """Return the seeds of a measurement's runs; two measurements' seeds never overlap."""
    return range(100 * seed, 100 * seed + n_seeds)


def measure_deployments(
    sets: Sequence[JudgedSet], measure: Callable[[JudgedDeployment], Mapping[str, np.ndarray]]
) -> Measurement:
    """Apply `measure` to the deployment of each data set; return "set, label" → numbers query by query.

    A deployment is a simulated use of the set, in which documents learn from feedback on its queries. measure: takes a
    deployment and returns label → (n,) numbers
    """
    cells: dict[str, Any] = {}
    for judged in sets:
        cells |= rename_cells(map_values(as_list, measure(deploy_set(judged))), prefix=f"{judged.name}, ")
    return cells


def ndcg_gains(deployment: JudgedDeployment, seed: int, **how: Any) -> dict[str, np.ndarray]:
    """Simulate a deployment with all seeds; return part → (n,) points of nDCG gained, mean over the runs.

    The parts are the held-out queries and those of the stream that was learned from. how: arguments of `simulate`
    """
    return pick_cells(deployment.gains(deployment.run_all(run_seeds(seed), **how)), "ndcg")


def as_list(raw_values: np.ndarray) -> list[float]:
    """Return numbers as a list, rounded to the digits that are stored."""
    # Adding 0.0 turns −0.0 into 0.0, so that stored files do not depend on the sign of zero.
    rounded_values: list[float] = (np.round(raw_values, STORED_DIGITS) + 0.0).tolist()
    return rounded_values


def pick_cells(measured: Mapping[str, CellValues], *name_parts: str) -> dict[str, CellValues]:
    """Return the cells, values of a measurement by name, whose name contains any of the given texts."""
    return {name: values for name, values in measured.items() if any(name_part in name for name_part in name_parts)}
