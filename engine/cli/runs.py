"""Runs of other systems beside a finished sweep (`--run`)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import click

from engine.cli.encoding import ENCODER, Encoding, embed_corpus, embed_queries
from engine.cli.group import Meter
from engine.cli.options import grouped, option
from engine.cli.output import echo_notices
from engine.cli.stratify import FinishedSweep


@dataclass(frozen=True, kw_only=True)
class OtherSystems(Encoding):
    """A command's choice of runs, and of the encoder that the sweep had."""

    runs: tuple[str, ...]  # files

    def cells(self, swept: FinishedSweep, cells: list[Any], k: int) -> list[Any]:
        """A cell for each run, in the metrics of the sweep, whose cells are given. Raises UsageError or DataError."""
        from engine.evaluation.runs import read_run

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
        return [run.cell(*asked, split=first.split, aspects=dataset.aspects) for run in found]


RUNS = grouped(
    "others",
    OtherSystems,
    option(
        "--run",
        "runs",
        multiple=True,
        metavar="FILE",
        help="What another system returned, beside the sweep: a TREC run, or .jsonl with query, document, rank and "
        "score.",
    ),
    ENCODER,
)
"""The options of a command that takes runs of other systems."""
