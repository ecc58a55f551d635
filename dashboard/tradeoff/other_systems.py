"""Runs of other systems beside the decoders: their cells, and what one returned."""

from dashboard.services.memo import remembered
from dashboard.services.source import Loaded
from dashboard.services.sweeps import Sweep
from dashboard.tradeoff.selection import MEMORY
from dashboard.widgets import runs
from engine.evaluation.runs import RankedRun
from engine.evaluation.sweep.cell import Cell
from engine.values import Queries


def measured(loaded: Loaded, sweep: Sweep, queries: Queries) -> dict[str, tuple[RankedRun, Cell]]:
    """Label → a run and its cell, in the metrics of the sweep; none before the queries have vectors.

    queries: all that the split has, of which the sweep may have drawn some.
    """
    vectors, qrels = sweep.vectors, sweep.qrels
    if vectors is None or qrels is None:
        return {}

    def cell(run: RankedRun) -> Cell:
        asked = loaded.space, vectors, qrels, sweep.k, sweep.metrics
        return remembered(
            MEMORY,
            ("run", run.name, run.digest, sweep.key),
            lambda: run.cell(*asked, split=sweep.split, aspects=loaded.dataset.aspects),
        )

    return {run.label: (run, cell(run)) for run in runs.added_runs(loaded, queries).values()}
