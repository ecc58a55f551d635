"""A tuning as a value, and the work it takes."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import engine
from dashboard.services import confirmations
from dashboard.services.jobs import Job
from dashboard.services.model_grades import load_pair
from dashboard.services.query_vectors import embed_missing
from dashboard.services.request import JobRequest
from dashboard.services.source import Loaded
from engine.decoder import Decoder
from engine.evaluation.splits import select_judged_queries, split_in_half, subsample
from engine.evaluation.sweep.cell import Cell
from engine.evaluation.sweep.store import Store, cached_file
from engine.evaluation.tuning.history import record_study
from engine.evaluation.tuning.objectives import Objective
from engine.evaluation.tuning.search_space import Settings
from engine.evaluation.tuning.tune import build_families, choose, tune
from engine.evaluation.tuning.tuned import Tuned
from engine.selection.per_source import check_per_source
from engine.stages import Scorer, make, make_selector, methods, spec_of
from engine.values import Qrels, Queries

PURPOSE = "tune"
EVERY = "all"
"""Stands for all selectors: every decoder is tuned, and the best is chosen."""
STORED = "sweeps"
"""Section of the cache that has finished cells, one file for each corpus."""


CURVE_PREFIX = "every "
"""Beginning of the engine's label of an exact curve, of which each decoder has its own."""
TUNING_PARTS: tuple[tuple[str | tuple[str, ...], float], ...] = (
    (("tuning on", "measuring on"), 0.35),
    (CURVE_PREFIX, 0.45),
    ("measuring the best", 0.05),
    ("reporting on", 0.15),
)
"""Parts of a tuning in their order: beginnings of the engine's label, and share of the time, as on the demo."""


@dataclass(frozen=True)
class Splits:
    """Judged queries of a tuning: those to choose a setting on, and those to confirm it on."""

    qrels: Mapping[str, Qrels]  # by name
    dev: str  # the name of those to choose on
    test: str | None  # the name of those to report on
    queries: Mapping[str, Queries]  # name → the judged ones
    remarks: str  # how they came about, or ""


@dataclass(frozen=True, kw_only=True)
class TuningRequest(JobRequest):
    """Settings of a tuning as a value; most fields are parameters of the engine's `tune`."""

    method: str  # a selector, or EVERY
    objective: Objective
    k: int  # documents per set
    depth: int | None  # candidates that a decoder chooses from, None for all
    choose: str  # the split to choose on
    report: str | None  # the one to report on, None for none
    halve: bool  # report on one half of `choose`, and choose on the other
    most: int | None  # at most this many queries of each, None for all
    free: tuple[str, ...]  # names of the parameters to tune
    fixed: tuple[tuple[str, Any], ...]  # (name, value) of the others
    points: int  # values tried of each parameter, on a grid
    trials: int  # settings that a search tries, if there are too many for a grid
    retrieve: Scorer | None = None  # None for the default one
    rerank: Scorer | None = None
    scorers: tuple[str, ...] = ()  # of EVERY: those to retrieve with, none for the first
    per_source: int | None = None  # the most documents of one source, None for any number
    source: str | None = None  # the column that names the sources, for the limit and for the metric unique_sources
    without_self: bool | None = None  # the treatment of queries that are documents, as a Decoder takes it
    judge: str = ""  # the model whose grades count beside people's, "" for none

    @property
    def every(self) -> bool:
        """True if every decoder is tuned."""
        return self.method == EVERY

    @property
    def title(self) -> str:
        """Title of the tuned decoder; "every decoder" if all of them are tuned."""
        return "every decoder" if self.every else spec_of(self.method).title

    @property
    def count(self) -> int:
        """Number of settings that the tuning measures, at most. Raises ParamError."""
        if self.every:
            return sum(map(len, build_families(scorers=self.scorers, points=self.points, reference=self.like)))
        if self.per_source is not None:
            check_per_source(make_selector(self.method))
        return self.settings.count_trials(self.trials)

    @property
    def chains(self) -> list[Decoder]:
        """Decoders to check before the run: the baseline behind each scorer that the tuning uses."""
        return [replace(self.like, retrieve=make(name)) for name in self.scorers] or [self.like]

    @property
    def is_plain(self) -> bool:
        """True if the tuned decoders read the default scorer alone, over the whole corpus."""
        first_scorer = Decoder(make(find_baseline())).retrieve
        return self.depth is None and all(
            chain.retrieve == first_scorer and chain.rerank is None for chain in self.chains
        )

    @property
    def n_curves(self) -> int:
        """Number of decoders that are measured at every value of a parameter, at most."""
        names = methods("selector") if self.every else [self.method]
        return sum(make_selector(name).path_range is not None for name in names)

    def tries(self, cell: Cell) -> bool:
        """Return True if a measured cell is one of the settings being tuned, and not the baseline.

        cell: a decoder with its metrics
        """
        # A single tuned decoder has another selector than the baseline. Where all are tuned, the baseline's selector is
        # tried too, behind other scorers.
        return cell.label != self.like.label if self.every else cell.method == self.method

    @property
    def like(self) -> Decoder:
        """Baseline of the comparison: the default selector behind the same scorers as the tuned decoder."""
        baseline = Decoder(make(find_baseline()), depth=self.depth)
        return replace(
            baseline,
            retrieve=self.retrieve or baseline.retrieve,
            rerank=self.rerank,
            per_source=self.per_source,
            source=None if self.per_source is None else self.source,
            without_self=self.without_self,
        )

    @property
    def settings(self) -> Settings:
        """Settings of the one tuned decoder that are tried. Raises ParamError."""
        return Settings.build(spec_of(self.method, "selector"), self.points, self.free, dict(self.fixed))

    @property
    def split_names(self) -> tuple[str, ...]:
        """Names of the splits to choose on and to report on; the first alone if it is halved."""
        return (self.choose, *([self.report] if self.report is not None and not self.halve else []))

    def qrels(self, dataset: engine.Dataset) -> dict[str, Qrels]:
        """Return the judgements by split, those to choose on first.

        If one half of a split is to confirm what the other half chose, its two halves are returned as two splits.
        dataset: has the judgements. Raises DataError if a split is missing.
        """
        qrels_by_split = super().qrels(dataset)
        if not self.halve:
            return qrels_by_split
        halves = split_in_half(qrels_by_split[self.choose]).values()
        return {f"half {number} of {self.choose}": half for number, half in enumerate(halves, 1)}

    def splits(self, dataset: engine.Dataset) -> Splits:
        """Return the judgements and queries to choose and to confirm on, as a sample if the request says so.

        Raises DataError, also if the two splits share a query.
        """
        qrels, remarks = self.qrels(dataset), []
        # Without a second split there is nothing to confirm on: `test` is None.
        dev, test = (*qrels, None)[:2]
        assert dev is not None
        if self.halve:
            remarks.append(f"The two halves of {self.choose} share no query: a query's id decides where it goes.")
        queries = cast("dict[str, Queries]", select_judged_queries(dataset.queries, qrels, dev, test))
        if self.most is not None:
            sizes, samples = [], {}
            for name, split in queries.items():
                grades = qrels[name].grades
                # Judgements of queries without a text would take places of the sample.
                usable_ids = grades.keys() & set(split.ids)
                usable_qrels = replace(qrels[name], grades={query: grades[query] for query in usable_ids})
                samples[name] = subsample(usable_qrels, self.most)
                if len(samples[name]) < len(usable_qrels):
                    sizes.append(f"{len(samples[name]):,} of {len(usable_qrels):,} queries of {name}")
            qrels = samples
            if sizes:
                scope = " and ".join(sizes)
                remarks.append(f"A quick look: {scope}, drawn by their ids. Tune on all before you rely on it.")
            queries = cast("dict[str, Queries]", select_judged_queries(dataset.queries, qrels, dev, test))
        return Splits(qrels, dev, test, queries, " ".join(remarks))


@dataclass(frozen=True, eq=False)
class TuningOutcome:
    """Result of a tuning with the request that it answers."""

    request: TuningRequest  # what was asked for
    tuned: Tuned  # the result
    remarks: str  # on its splits
    documents: int  # the size of the corpus


class TuningProgress:
    """Progress of a tuning over its parts, so that its bar never goes back: settings, curves, best settings, report.

    A part is known by the label that the engine gives it. `report` is the engine's callback; it reports to the job.
    """

    def __init__(self, job: Job, request: TuningRequest) -> None:
        """Begin at nothing done; the request tells how many curves there will be, at most."""
        self._job, self._share = job, 0.0
        self._n_curves = request.n_curves
        self._curve_labels: list[str] = []

    def report(self, n_done: int, n_total: int, label: str) -> None:
        """Report a part's steps to the job, with the share of the whole that is done."""
        part_share = n_done / n_total if n_total else 0.0
        number = next((number for number, (prefix, _) in enumerate(TUNING_PARTS) if label.startswith(prefix)), None)
        if number is None:
            part_share, number = 0.0, 0
        elif TUNING_PARTS[number][0] == CURVE_PREFIX:
            if label not in self._curve_labels:
                self._curve_labels.append(label)
            part_share = (len(self._curve_labels) - 1 + part_share) / max(self._n_curves, len(self._curve_labels))
        share_before = sum(part_size for _, part_size in TUNING_PARTS[:number])
        # Parts that a goal does not need are passed over; one that comes back does not set the bar back.
        self._share = max(self._share, share_before + TUNING_PARTS[number][1] * part_share)
        self._job.report(n_done, n_total, label, self._share)


def find_baseline() -> str:
    """Return the name of the selector that the others are compared with: the registry's first."""
    return next(iter(methods("selector")))


def find_store_file(loaded: Loaded) -> Path:
    """Return the file on disk that has the measurements and past tunings of a corpus."""
    # The embeddings' digest identifies the corpus and its encoder.
    return cached_file(STORED, f"{loaded.space.embeddings.digest[:16]}.db")


def run_tuning(request: TuningRequest, loaded: Loaded, job: Job) -> TuningOutcome:
    """Measure the settings of a tuning and choose the best, in a job; return the result.

    Finished cells go to job.partial, for the page, and to disk, so that a stopped run resumes.
    """
    splits = request.splits(loaded.dataset)
    options: dict[str, Any] = {}
    if request.judge:
        splits, options = _add_model(request, splits, loaded, job)
    else:
        options["queries"] = request.vectors(loaded, splits.qrels, job)
    options |= {
        "space": loaded.space,
        "qrels": splits.qrels,
        "objective": request.objective,
        "k": request.k,
        "dev": splits.dev,
        "test": splits.test,
        "points": request.points,
        "aspects": loaded.dataset.aspects,
        "source": request.source,
        "store": (store := Store(find_store_file(loaded))),
        "progress": TuningProgress(job, request).report,
        "stop": job.stop,
        "seen": job.collect,
    }
    # `choose` tunes every decoder and takes the best; `tune` tunes one.
    if request.every:
        options |= {"per_source": request.per_source, "without_self": request.without_self}
        tuned = choose(scorers=request.scorers, **options)
    else:
        options |= {"free": request.free, "fixed": dict(request.fixed), "like": request.like, "trials": request.trials}
        tuned = tune(request.method, **options)
    # The history is in the same file as the cells.
    record_study(store, tuned, request.title, request.as_json())
    # The split that confirms is open from now on, for Trade-off too.
    confirmations.mark_tuned(loaded, tuned)
    return TuningOutcome(request, tuned, splits.remarks, len(loaded.space))


def _add_model(request: TuningRequest, splits: Splits, loaded: Loaded, job: Job) -> tuple[Splits, dict[str, Any]]:
    """Add a model's grades to a tuning; return its splits, and further arguments of the engine.

    Queries that people graded in part only are left out of those to choose on. Raises FrontierError if they graded too
    little.
    """
    paired = load_pair(loaded, request.judge, request.choose)
    dev_qrels = splits.qrels[splits.dev]
    grades = {query: graded for query, graded in dev_qrels.grades.items() if query in paired.people.grades}
    qrels = {**splits.qrels, splits.dev: replace(dev_qrels, grades=grades)}
    # The report's queries and the model's may be others than those to choose on.
    query_ids = set(paired.model.grades)
    for split_qrels in qrels.values():
        query_ids |= split_qrels.grades.keys()
    vectors = embed_missing(loaded, paired.queries.only(query_ids), job)
    arguments = {"queries": vectors, "model_qrels": paired.model, "judge": request.judge}
    return replace(splits, qrels=qrels), arguments
