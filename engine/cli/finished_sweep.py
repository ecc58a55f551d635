"""A finished sweep: its cells, groups of its queries (`--by`), and runs of other systems beside it (`--run`)."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click

import engine
from engine.cli.group import Meter
from engine.cli.inputs import Encoding, ReadOptions, embed_corpus, embed_queries
from engine.cli.output import aligned, echo_notices, one_line
from engine.errors import DataError
from engine.evaluation.frontier import KEPT_SHARE, frontier, select_best_per_method
from engine.evaluation.paired import format_stage_call, short_names
from engine.evaluation.runs import read_run
from engine.evaluation.statistics import resolve_baseline
from engine.evaluation.stratification import QUERY_COUNT_TITLES, collect_query_values, count_by_query, stratify
from engine.evaluation.sweep.store import Store
from engine.evaluation.tables import find_default_baseline
from engine.values import Dataset


@dataclass(frozen=True)
class StratifiedSweep:
    """Each method's best setting in each group of queries."""

    kind: str  # what groups the queries
    title: str  # the same in words
    means: tuple[Any, ...]  # Strata of the metric
    differences: tuple[Any, ...]  # Strata of the differences to the baseline
    baseline: str  # its label
    best: tuple[Any, ...]  # the cell of each best setting

    @property
    def methods(self) -> dict[str, str]:
        """Label → its selector's name."""
        return {p.label: p.method for p in self.best}

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        rows = {"groups": self.means, "differences": self.differences}
        written = dict(zip(self.methods, short_names(self.best, format_stage_call), strict=True))
        plain = {kind: [{**asdict(row), "name": written[row.label]} for row in rows[kind]] for kind in rows}
        return {"kind": self.kind, "baseline": self.baseline, **plain}

    def table(self) -> tuple[dict[str, int], list[tuple[str, ...]]]:
        """Group → its number of queries; and a row a decoder: its name, and its mean in every group."""
        groups = {row.group: row.queries for row in self.means}
        cells = {(row.label, row.group): f"{row.mean:.4f}" for row in self.means}
        names = {row.label: row.name for row in self.means}
        return groups, [(name, *(cells[label, group] for group in groups)) for label, name in names.items()]


REPORTED = "test"
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
        """The cells of one data set and split in the store, and k, by default the largest."""
        store, split = self.store, self.split
        if not Path(store).is_file():
            raise click.UsageError(f"no such store: {store!r}; `frontier sweep --store {store}` makes one")
        cells = [cell for cell in Store(store).read_cells() if split in (None, cell.split)]
        if not cells:
            raise click.UsageError(f"{store} holds no cells" + (f" of split {split!r}" if split else ""))
        if len(splits := sorted({cell.split for cell in cells})) > 1:
            if REPORTED not in splits:
                raise click.UsageError(f"{store} holds the splits {', '.join(splits)}: say which with --split")
            cells = [cell for cell in cells if cell.split == REPORTED]
        if len({(cell.provenance["embeddings"], cell.provenance["queries"]) for cell in cells}) > 1:
            raise click.UsageError(
                f"{store} holds several data sets, whose queries cannot be compared: keep a store for each"
            )
        sizes = sorted({cell.k for cell in cells})
        if self.k is not None and self.k not in sizes:
            raise click.UsageError(f"{store} has no cells at k = {self.k}; it has {', '.join(map(str, sizes))}")
        return cells, self.k or sizes[-1]

    def load_corpus(self, cells: list[Any], option: str, metadata: Sequence[str] = ()) -> Dataset:
        """The data set that was swept; option: which one needs it. Raises UsageError where it is another one."""
        corpus, first = self.corpus, cells[0]
        if corpus is None:
            raise click.UsageError(f"{option} needs --corpus, the one that was swept: a store holds no documents")
        dataset = self.read(corpus, metadata=metadata)
        if dataset.corpus.digest != first.provenance["corpus"]:
            raise click.UsageError(f"the store was not swept on --corpus {corpus!r}, or the corpus has changed since")
        if first.split not in dataset.qrels or dataset.qrels[first.split].digest != first.provenance.get("qrels"):
            raise click.UsageError(f"the split {first.split!r} in --qrels {self.qrels!r} is not the one that was swept")
        return dataset

    def stratify(self, cells: list[Any], k: int) -> StratifiedSweep | None:
        """The metric `up` by group of queries, None without groups. Raises UsageError for another corpus."""
        by, first = self.by, cells[0]
        if by is None:
            return None
        try:
            dataset = self.load_corpus(cells, "--by", () if by in QUERY_COUNT_TITLES else (by,))
        except DataError as error:
            if by in QUERY_COUNT_TITLES:
                raise
            raise click.UsageError(
                f"--by must be one of {', '.join(QUERY_COUNT_TITLES)}, or a column; {error}"
            ) from None
        judged = dataset.corpus, dataset.judged(first.split), dataset.qrels[first.split]
        space = self._space(dataset, first) if by == "correlation" else None
        counts: dict[str, Any] = {**collect_query_values(*judged), **count_by_query(*judged, dataset.aspects, space)}
        title = QUERY_COUNT_TITLES.get(by, by)
        if by not in counts:
            raise click.UsageError(f"--by {by}: no query has {title}; there are {', '.join(counts)}")
        curve = frontier(cells, self.across, self.up, k)
        compared = [p.point for p in curve.points]
        base = resolve_baseline(compared, self.baseline or find_default_baseline(compared), k).label
        best = tuple(p.point for p in select_best_per_method(curve, base, KEPT_SHARE.default))
        means, differences = (stratify(best, self.up, counts[by], k, against=against) for against in (None, base))
        return StratifiedSweep(by, title, means, differences, base, best)

    def _space(self, dataset: Dataset, cell: Any) -> Any:
        """The corpus with the vectors that were swept. Raises UsageError where they are others."""
        space = engine.Space(dataset.corpus, dataset.vectors or engine.embed(dataset.corpus))
        if space.embeddings.digest != cell.provenance["embeddings"]:
            raise click.UsageError(
                "--by correlation embeds with the bundled encoder, and the store was swept with other vectors; group "
                "by another kind, or call engine.evaluation.stratification.count_by_query with the space"
            )
        return space


@dataclass(frozen=True, kw_only=True)
class OtherSystems(Encoding):
    """A command's choice of runs, and of the encoder that the sweep had."""

    runs: tuple[str, ...]  # files

    def cells(self, swept: FinishedSweep, cells: list[Any], k: int) -> list[Any]:
        """A cell for each run, in the metrics of the sweep, whose cells are given. Raises UsageError or DataError."""
        if not self.runs:
            return []
        first = cells[0]
        with Meter() as meter:
            dataset = swept.load_corpus(cells, "--run")
            queries = dataset.judged(first.split)
            found = [read_run(file, dataset.corpus.ids, queries.ids) for file in self.runs]
            if twice := [name for name, count in Counter(run.name for run in found).items() if count > 1]:
                raise click.UsageError(
                    f"two runs are called {twice[0]!r}; give each a tag of its own, or a .jsonl file"
                )
            space = embed_corpus(dataset, self, progress=meter)
            if space.embeddings.digest != first.provenance["embeddings"]:
                raise click.UsageError(f"the store was swept with other vectors than those of --encoder {self.encoder}")
            vectors = embed_queries(space, queries, progress=meter)
        echo_notices(notice for run in found for notice in run.notices)
        asked = (space, vectors, dataset.qrels[first.split], k, tuple(first.values))
        return [run.build_cell(*asked, split=first.split, aspects=dataset.aspects) for run in found]


def plain_strata(strata: StratifiedSweep) -> str:
    """Groups of queries as columns, decoders as rows."""
    groups, rows = strata.table()
    return aligned(
        [
            ("", *(one_line(group, 24) for group in groups)),
            ("queries", *(f"{count:,}" for count in groups.values())),
            *rows,
        ]
    )
