"""A finished sweep: its cells, groups of its queries (`--by`), and runs of other systems beside it (`--run`)."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import click

from engine.cli.group import Meter
from engine.cli.inputs import Encoding, ReadOptions, embed_and_warn, embed_corpus
from engine.cli.output import echo_notices, format_columns, group_rows, one_line, read_column
from engine.errors import DataError
from engine.evaluation.curve import Curve
from engine.evaluation.decide import estimate_on_axes
from engine.evaluation.decision import list_best_options
from engine.evaluation.frontier import KEPT_SHARE, TIME_AXIS, Frontier, frontier, select_best_per_method
from engine.evaluation.paired import format_stage_call, short_names
from engine.evaluation.runs import read_run
from engine.evaluation.statistics import resolve_baseline
from engine.evaluation.stratification import QUERY_COUNT_TITLES, collect_query_values, count_by_query, stratify
from engine.evaluation.sweep.compute import DUPLICATE_ENTRY, SOURCE_PREFIX
from engine.evaluation.sweep.store import Store
from engine.evaluation.tables import find_default_baseline
from engine.evaluation.tuning.history import PastStudy, read_history
from engine.evaluation.tuning.objectives import DIVERSE, RELEVANT
from engine.space import Space
from engine.values import Dataset, explain_missing_split


@dataclass(frozen=True)
class StratifiedSweep:
    """Each method's best setting in each group of queries, such as those with few relevant documents.

    A stratum is one setting's mean in one group.
    """

    kind: str  # what groups the queries
    title: str  # the same in words
    means: tuple[Any, ...]  # Strata of the metric
    differences: tuple[Any, ...]  # Strata of the differences to the baseline
    baseline: str  # its label
    best: tuple[Any, ...]  # the cell of each best setting

    @property
    def methods(self) -> dict[str, str]:
        """Selector names by label."""
        return {best_cell.label: best_cell.method for best_cell in self.best}

    def as_json(self) -> dict[str, Any]:
        """Return the means, and their differences to the baseline, by group and setting as plain JSON values."""
        rows = {"groups": self.means, "differences": self.differences}
        # Both are in the order of the best settings.
        display_names = dict(zip(self.methods, short_names(self.best, format_stage_call), strict=True))
        # Readers of the JSON know the ends of a group by these names.
        keys = {"lowest": "least", "highest": "most"}
        json_rows: dict[str, list[dict[str, Any]]] = {}
        for kind, strata in rows.items():
            json_rows[kind] = []
            for stratum in strata:
                fields = {keys.get(key, key): value for key, value in asdict(stratum).items()}
                json_rows[kind].append({**fields, "name": display_names[stratum.label]})
        return {"kind": self.kind, "baseline": self.baseline, **json_rows}

    def table(self) -> tuple[dict[str, int], list[tuple[str, ...]]]:
        """Return group → number of queries, and a row a decoder: its name, and its mean in every group."""
        groups = {stratum.group: stratum.queries for stratum in self.means}
        rows = []
        # The strata of every decoder are in the order of the groups.
        for strata in group_rows(self.means, "label").values():
            rows.append((strata[0].name, *map("{:.4f}".format, read_column(strata, "mean"))))
        return groups, rows


CURVE_DATA = ("embeddings", "queries", "qrels")
"""Digests in a cell's provenance that its curves share."""
DEFAULT_REPORT_SPLIT = "test"
"""The split that is reported of a store that holds several."""


@dataclass(frozen=True, kw_only=True)
class FinishedSweep(ReadOptions):
    """A command's choice of a finished sweep."""

    store: str  # the file that holds it
    split: str | None  # which of its cells, where it holds several
    k: int | None  # the same
    across: str  # the frontier's x axis: a metric, or a query's time
    up: str  # the metric of its y axis
    baseline: str | None  # a method or a label, None for the first selector's
    by: str | None  # what groups the queries, None for no groups
    corpus: str | None  # what was swept, to group its queries

    def load_cells(self) -> tuple[list[Any], int]:
        """Load the cells of the chosen split; return them and the k to report, by default the largest.

        Raises UsageError if the store has no such cells, or those of several data sets.
        """
        store, split = self.store, self.split
        if not Path(store).is_file():
            raise click.UsageError(f"no such store: {store!r}; `frontier sweep --store {store}` makes one")
        cells = [cell for cell in Store(store).read_cells() if split in (None, cell.split)]
        if not cells:
            raise click.UsageError(f"{store} holds no cells" + (f" of split {split!r}" if split else ""))
        if len(splits := group_rows(cells, "split")) > 1:
            # Means over several splits would mix queries that chose a setting with those that judge it.
            if DEFAULT_REPORT_SPLIT not in splits:
                raise click.UsageError(f"{store} holds the splits {', '.join(sorted(splits))}: say which with --split")
            cells = splits[DEFAULT_REPORT_SPLIT]
        # Means over different queries or vectors are not comparable, so a store with several data sets is refused.
        if len({(cell.provenance["embeddings"], cell.provenance["queries"]) for cell in cells}) > 1:
            raise click.UsageError(
                f"{store} holds several data sets, whose queries cannot be compared: keep a store for each"
            )
        thresholds = {cell.provenance[DUPLICATE_ENTRY] for cell in cells if DUPLICATE_ENTRY in cell.provenance}
        if len(thresholds) > 1:
            raise click.UsageError(
                f"{store} holds Redundancy for near-duplicates of cosine {' and '.join(sorted(thresholds))}, which "
                "cannot be compared: keep a store for each"
            )
        sizes = sorted({cell.k for cell in cells})
        if self.k is not None and self.k not in sizes:
            raise click.UsageError(f"{store} has no cells at k = {self.k}; it has {', '.join(map(str, sizes))}")
        return cells, self.k or sizes[-1]

    def find_study(self, cells: list[Any], k: int) -> PastStudy | None:
        """Find the last tuning whose choice or report the cells are; None for a sweep, or another question than its.

        What a study keeps back to confirm its choice must not choose again.
        """
        # With another baseline or other axes the question is another one.
        if self.baseline is not None or (self.across, self.up) != (DIVERSE, RELEVANT):
            return None
        # The last one comes first.
        for study in read_history(Store(self.store)):
            if study.k == k and cells[0].split in (study.dev, study.test):
                return study
        return None

    def load_curves(self, cells: list[Any], k: int) -> list[Curve]:
        """Load the exact curves of the cells' split and data at k that have the metrics of both axes."""
        first_cell = cells[0]
        metrics = {self.across, self.up} - {TIME_AXIS}
        same_data = [first_cell.provenance.get(name) for name in CURVE_DATA]
        curves = []
        for curve in Store(self.store).read_curves():
            is_same = (curve.k, curve.split, curve.queries) == (k, first_cell.split, first_cell.queries)
            if is_same and metrics <= curve.means.keys() and same_data == list(map(curve.provenance.get, CURVE_DATA)):
                curves.append(curve)
        # A selector can have several, of different metrics: the one with most of them stays.
        curves.sort(key=lambda curve: len(curve.means))
        return list({curve.label: curve for curve in curves}.values())

    def load_corpus(
        self, cells: list[Any], option_name: str, encoding: Encoding, metadata: Sequence[str] = ()
    ) -> Dataset:
        """Load the data set that was swept; raise UsageError if it is another one.

        option_name: the option that needs the data set; encoding: of the sweep, for dropping duplicates
        """
        corpus, cell = self.corpus, cells[0]
        if corpus is None:
            raise click.UsageError(f"{option_name} needs --corpus, the one that was swept: a store holds no documents")
        dataset = self.read(corpus, encoding=encoding, metadata=metadata)
        # A changed corpus would give the stored cells another meaning without any error.
        if dataset.corpus.digest != cell.provenance["corpus"]:
            raise click.UsageError(f"the store was not swept on --corpus {corpus!r}, or the corpus has changed since")
        if cell.split not in dataset.qrels:
            raise click.UsageError(explain_missing_split(dataset.qrels, cell.split))
        swept_digest, swept_level = cell.provenance.get("qrels"), int(cell.provenance.get("relevant_from", "1"))
        if dataset.qrels[cell.split].digest == swept_digest:
            return dataset
        # The same grades may be judgements of another level.
        if dataset.with_relevant_from(swept_level).qrels[cell.split].digest == swept_digest:
            raise click.UsageError(
                f"--relevant-from must be {swept_level}, the grade that was swept; got {self.relevant_from}"
            )
        raise click.UsageError(
            f"the split {cell.split!r} in --qrels {self.qrels!r} is not the one that was swept, or was swept with "
            "another --judgements"
        )

    def stratify(self, cells: list[Any], k: int, encoding: Encoding) -> StratifiedSweep | None:
        """Compute each method's best setting and its mean in each group of queries, by the y axis's metric.

        encoding: of the sweep, for a grouping by vectors. Returns None if no grouping was requested. Raises UsageError
        for an unknown grouping or another corpus.
        """
        by, first_cell = self.by, cells[0]
        if by is None:
            return None
        try:
            dataset = self.load_corpus(cells, "--by", encoding, () if by in QUERY_COUNT_TITLES else (by,))
        # An unknown kind is taken for a column, so this error must name both.
        except DataError as error:
            if by in QUERY_COUNT_TITLES:
                raise
            kinds = ", ".join(QUERY_COUNT_TITLES)
            raise click.UsageError(f"--by must be one of {kinds}, or a column; {error}") from None
        data = dataset.corpus, dataset.judged(first_cell.split), dataset.qrels[first_cell.split]
        space = load_swept_space(dataset, first_cell, encoding) if by == "correlation" else None
        # For each way of grouping: the value of each query.
        counts: dict[str, Any] = {**collect_query_values(*data), **count_by_query(*data, dataset.aspects, space)}
        group_title = QUERY_COUNT_TITLES.get(by, by)
        if by not in counts:
            raise click.UsageError(f"--by {by}: no query has {group_title}; there are {', '.join(counts)}")
        curve = frontier(cells, self.across, self.up, k)
        curve_cells = read_column(curve.points, "point")
        base_cell = resolve_baseline(curve_cells, self.baseline or find_default_baseline(curve_cells), k)
        best, baseline = self._list_best_cells(curve, cells, base_cell, k), base_cell.label
        # Means, and differences to the baseline, are computed over the same groups.
        means, differences = (stratify(best, self.up, counts[by], k, against=against) for against in (None, baseline))
        return StratifiedSweep(by, group_title, means, differences, baseline, best)

    def _list_best_cells(self, curve: Frontier, cells: list[Any], base_cell: Any, k: int) -> tuple[Any, ...]:
        """Return the baseline, and each method's best setting: that of the decision, which Trade-off shows too.

        Without a decision, as on queries that a study keeps back to confirm its choice, means alone choose.
        """
        study = self.find_study(cells, k)
        share = KEPT_SHARE.default if study is None or study.share is None else study.share
        is_kept_back = study is not None and cells[0].split != study.dev
        estimates = None if is_kept_back else estimate_on_axes(curve, self.load_curves(cells, k), base_cell)
        if estimates is None:
            return tuple(read_column(select_best_per_method(curve, base_cell.label, share), "point"))
        labels = read_column(list_best_options(estimates.decide(share)), "label")
        # The baseline is the first cell, and no option.
        return base_cell, *(estimates.aligned.cells[estimates.position_of[label] + 1] for label in labels)


def load_swept_space(dataset: Dataset, cell: Any, encoding: Encoding, meter: Any = None) -> Space:
    """Return the corpus with the vectors that were swept. Raises UsageError if the encoding gives others.

    meter: progress line
    """
    space = embed_corpus(dataset, encoding, progress=meter)
    if space.embeddings.digest != cell.provenance["embeddings"]:
        trained_text = "" if encoding.trained is None else f" and --trained {encoding.trained}"
        raise click.UsageError(
            f"the store was swept with other vectors than those of --encoder {encoding.encoder}{trained_text}; name "
            "what it was swept with"
        )
    return space


@dataclass(frozen=True, kw_only=True)
class OtherSystems(Encoding):
    """A command's choice of other systems' result files (runs), and of the encoder of the sweep."""

    runs: tuple[str, ...]  # files

    def cells(self, swept: FinishedSweep, sweep_cells: list[Any], k: int) -> list[Any]:
        """Measure the results of other systems, files of ranked documents, with the metrics of the sweep.

        Returns a cell for each file, to be compared with the cells of the sweep. Raises UsageError for a run that does
        not belong to the sweep, or DataError for an unreadable one.
        """
        if not self.runs:
            return []
        first_cell = sweep_cells[0]
        with Meter() as meter:
            source = find_source_column(first_cell)
            dataset = swept.load_corpus(sweep_cells, "--run", self, tuple(filter(None, [source])))
            queries = dataset.judged(first_cell.split)
            results = [read_run(run_file, dataset.corpus.ids, queries.ids) for run_file in self.runs]
            # Runs are identified by their names in the table, so these must differ.
            for tag, runs in group_rows(results, "name").items():
                if len(runs) > 1:
                    raise click.UsageError(f"two runs are called {tag!r}; give each a tag of its own, or a .jsonl file")
            space = load_swept_space(dataset, first_cell, self, meter)
            vectors = embed_and_warn(space, queries, progress=meter)
        echo_notices(chain.from_iterable(read_column(results, "notices")))
        run_inputs = (space, vectors, dataset.qrels[first_cell.split], k, tuple(first_cell.values))
        threshold_text = first_cell.provenance.get(DUPLICATE_ENTRY)
        threshold = None if threshold_text is None else float(threshold_text)
        facts = {"split": first_cell.split, "aspects": dataset.aspects, "duplicate_threshold": threshold}
        facts |= {"source": source, "without_self": find_self_rule(sweep_cells)}
        return [run.build_cell(*run_inputs, **facts) for run in results]


def find_source_column(cell: Any) -> str | None:
    """Return the column of the corpus by which a cell's metric unique_sources was measured; None for none."""
    names = (entry.removeprefix(SOURCE_PREFIX) for entry in cell.provenance if entry.startswith(SOURCE_PREFIX))
    return next(names, None)


def find_self_rule(cells: Sequence[Any]) -> bool | None:
    """Return how a sweep treated queries that are documents, as a Decoder takes it; None for cells that differ."""
    rules = {cell.decoder.get("without_self") for cell in cells}
    return rules.pop() if len(rules) == 1 else None


def format_strata(strata: StratifiedSweep) -> str:
    """Format groups of queries as columns and decoders as rows."""
    group_sizes, table_rows = strata.table()
    group_names = [one_line(group_name, 24) for group_name in group_sizes]
    sizes = map("{:,}".format, group_sizes.values())
    return format_columns([("", *group_names), ("queries", *sizes), *table_rows])
