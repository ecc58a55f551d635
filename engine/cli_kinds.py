"""`--by`: a finished sweep by kind of query, how many documents are relevant and how long they are among them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import click

from engine.cli import QRELS


def of_kinds(command: Any) -> Any:
    """The options by which a command on a finished sweep parts the queries."""
    for option in (
        QRELS,
        click.option("--corpus", default=None, metavar="NAME|PATH", help="The corpus that was swept, for --by."),
        click.option(
            "--by",
            default=None,
            metavar="KIND",
            help="The y axis in groups of queries too: by how many documents are relevant, by their length, by the "
            "words of the query, or by its aspects (relevant, length, words, aspects).",
        ),
    ):
        command = option(command)
    return command


@dataclass(frozen=True)
class ByKind:
    """Each method's best setting in each group of queries.

    kind, title: what parts the queries, its name and in words; means: Strata of the metric; differences: of the
    differences to the baseline; baseline: its label; methods: label → its selector's name.
    """

    kind: str
    title: str
    means: tuple[Any, ...]
    differences: tuple[Any, ...]
    baseline: str
    methods: dict[str, str]

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        rows = {"groups": self.means, "differences": self.differences}
        plain = {name: [asdict(row) for row in some] for name, some in rows.items()}
        return {"kind": self.kind, "baseline": self.baseline, **plain}


def by_kind(
    points: list[Any], across: str, up: str, k: int, baseline: str | None, by: str, corpus: str | None, qrels: str
) -> ByKind:
    """The metric `up` by kind of query, on the corpus that was swept. Raises UsageError for another one."""
    import engine
    from engine.evaluation.frontier import SHARE, best_of_each, frontier
    from engine.evaluation.statistics import meant
    from engine.evaluation.strata import KINDS, kinds, stratify
    from engine.evaluation.tables import usual_baseline

    if by not in KINDS:
        raise click.UsageError(f"--by must be one of {', '.join(KINDS)}; got {by!r}")
    if corpus is None:
        raise click.UsageError("--by needs --corpus, the one that was swept: a store holds no documents")
    dataset, first = engine.load_dataset(corpus, qrels=qrels), points[0]
    if dataset.corpus.digest != first.provenance["corpus"]:
        raise click.UsageError(f"the store was not swept on --corpus {corpus!r}, or the corpus has changed since")
    if first.split not in dataset.qrels or dataset.qrels[first.split].digest != first.provenance.get("qrels"):
        raise click.UsageError(f"the split {first.split!r} in --qrels {qrels!r} is not the one that was swept")
    counts = kinds(dataset.corpus, dataset.judged(first.split), dataset.qrels[first.split], dataset.aspects)
    if by not in counts:
        raise click.UsageError(f"--by {by}: no query has {KINDS[by]}; there are {', '.join(counts)}")
    curves = frontier(points, across, up, k)
    there = [p.point for p in curves.points]
    base = meant(there, usual_baseline(there) if baseline is None else baseline, k).label
    best = [p.point for p in best_of_each(curves, base, SHARE.default)]
    means, differences = (stratify(best, up, counts[by], k, against=against) for against in (None, base))
    return ByKind(by, KINDS[by], means, differences, base, {p.label: p.method for p in best})


def plain_strata(found: ByKind) -> str:
    """Groups of queries as columns, decoders as rows."""
    groups = {row.group: row.queries for row in found.means}
    cells = {(row.label, row.group): f"{row.mean:.4f}" for row in found.means}
    names = {row.label: row.name for row in found.means}
    return aligned(
        [
            ("", *groups),
            ("queries", *(f"{count:,}" for count in groups.values())),
            *((name, *(cells[label, group] for group in groups)) for label, name in names.items()),
        ]
    )


def aligned(lines: list[tuple[str, ...]]) -> str:
    """Rows of cells as columns: the first to the left, the others to the right."""
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    return "\n".join(
        "  ".join([line[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(line[1:], widths[1:], strict=True))])
        for line in lines
    )
