"""Order of queries for a person who corrects a model's judgements: what narrows the interval and keeps it valid."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from engine.evaluation.corrected_judge import find_judged_queries, tabulate_values
from engine.evaluation.paired import TIE_TOLERANCE
from engine.evaluation.statistics import SEED

N_STRATA = 3
"""Groups, beside that of no difference, into which queries are divided by the model's differences."""


def list_next_queries(
    person_queries: Iterable[str], model_cells: Sequence[Any], metric: str, seed: int = 0
) -> tuple[str, ...]:
    """Order the queries that only the model judged, by what a person should judge next.

    Queries are divided by how far the model's values of the settings lie apart: not at all, and N_STRATA groups. The
    next query is a random one of the group that the person's queries cover least, so that after any number of them each
    group has its share: the samples balance, and chance in the model's mean does not widen the interval. Only groups
    are chosen, never queries, and in proportion to their size: every query keeps the same chance, so that plain means
    over the person's queries stay unbiased, for any settings and metric. Groups with wide differences alone would
    narrow one comparison further, but need weights that judgements do not carry.
    """
    judged = sorted(find_judged_queries(model_cells, metric))
    # Where the model finds nothing relevant it sees no difference either.
    table = np.nan_to_num(tabulate_values(model_cells, metric, judged))
    distances = table.std(1)
    is_apart = distances > TIE_TOLERANCE
    edges = np.quantile(distances[is_apart], np.linspace(0, 1, N_STRATA + 1)[1:-1]) if is_apart.any() else []
    strata = np.where(is_apart, 1 + np.searchsorted(edges, distances), 0)
    person_ids = set(person_queries)
    is_known = np.array([query in person_ids for query in judged], dtype=bool)
    random, keys = np.random.default_rng(SEED.check(seed)), np.full(len(judged), np.inf)
    for stratum in np.unique(strata):
        row_order = random.permutation(np.flatnonzero((strata == stratum) & ~is_known))
        members = strata == stratum
        # The share of the group that is judged once the query is. A random start leaves no group ahead by rounding.
        keys[row_order] = (is_known[members].sum() + np.arange(len(row_order)) + random.random()) / members.sum()
    # The queries that the person judged have no key, and come last.
    order = np.argsort(keys, kind="stable")[: (~is_known).sum()]
    return tuple(judged[row] for row in order.tolist())
