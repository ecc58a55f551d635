"""Comparison of systems, a space and a decoder each, on the same queries; and the verdict on a trained method."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import starmap
from typing import Any

import numpy as np

from engine.decoder import Decoder, decode
from engine.errors import DataError
from engine.evaluation.metrics import METRICS
from engine.evaluation.statistics import RESAMPLES, Comparison, build_comparisons, describe_comparison
from engine.evaluation.stratification import merge_into_ranges
from engine.progress import counted
from engine.space import Space
from engine.training.metrics import REPORTED_SIZES, TRAINING_METRICS, Columns, Dev, mean_and_error, measure_reported
from engine.values import Embeddings, Qrels

DECIDING_METRIC = ("comp", 5)
"""The metric of the comparisons."""
MAX_GROUPS = 5
"""Groups of similar |S|, at most."""
ENCODER, START, CONTROL = "encoder", "dense", "dense-cont"
"""Names of systems: the corpus before training, the starting point of a method, the same trained on for longer."""

Values = Mapping[str, Columns]
"""System → its metrics."""


@dataclass(frozen=True, eq=False)
class System:
    """A named decoder with the space that it searches."""

    name: str
    space: Space
    decoder: Decoder


@dataclass(frozen=True, slots=True)
class Group:
    """Queries with a similar count of relevant documents."""

    relevant: str  # that count, "3" or "5–7"
    queries: int  # count of the queries
    means: Mapping[str, tuple[float, float]]  # system → mean of Comp@5 and its standard error


@dataclass(frozen=True, eq=False)
class Table:
    """Metrics of several systems on the queries of a split, side by side, the method in question last."""

    split: str  # its name
    queries: int  # count of its queries with a relevant document
    values: Values  # every metric of every system, by query
    told: tuple[Comparison, ...]  # the last system against every other in Comp@5, with Holm's correction over them
    relevant: np.ndarray  # (B,) count of relevant documents, |S|

    @property
    def head(self) -> tuple[str, ...]:
        """The column titles of `rows`."""
        return ("", *(f"{METRICS[metric].title}@{k}" for metric, k in TRAINING_METRICS))

    def mean(self, name: str, metric: str, k: int) -> tuple[float, float]:
        """Return a system's mean over the queries, and its standard error."""
        return mean_and_error(self.values[name][metric, k])

    def _means(self, name: str) -> list[tuple[float, float]]:
        """Return a system's mean and standard error by every metric, in the order of `head`."""
        return [self.mean(name, *metric_and_k) for metric_and_k in TRAINING_METRICS]

    @property
    def rows(self) -> tuple[tuple[str, ...], ...]:
        """The table as texts: a row for each system, in percent with standard errors."""
        return tuple((system_name, *starmap(percent, self._means(system_name))) for system_name in self.values)

    @property
    def records(self) -> tuple[dict[str, Any], ...]:
        """Return one record per system, its means and standard errors as numbers, for files."""
        records = []
        for system_name in self.values:
            record = {"system": system_name, "split": self.split, "queries": self.queries}
            for column_title, (mean, error) in zip(self.head[1:], self._means(system_name), strict=True):
                record |= {column_title: mean, f"{column_title} se": error}
            records.append(record)
        return tuple(records)

    def groups(self, max_groups: int = MAX_GROUPS) -> tuple[Group, ...]:
        """Return Comp@5 for groups of queries with similar counts of relevant documents, ascending.

        Comp@5 is the share of queries whose first 5 documents hold all relevant ones.
        """
        groups = []
        for min_size, max_size in merge_into_ranges(self.relevant, max_groups):
            in_group = (self.relevant >= min_size) & (self.relevant <= max_size)
            means = {name: mean_and_error(columns[DECIDING_METRIC][in_group]) for name, columns in self.values.items()}
            size_range = f"{min_size}" if min_size == max_size else f"{min_size}–{max_size}"
            groups.append(Group(size_range, int(in_group.sum()), means))
        return tuple(groups)

    def dev(self, name: str) -> Dev:
        """Return a system's means as Dev, the form in which epochs have them."""
        return Dev.of(self.values[name])

    @property
    def sentences(self) -> tuple[str, ...]:
        """Sentences on the significant differences of the last system to others."""
        return tuple(map(describe_comparison, self.told))


def compare_systems(
    systems: Sequence[System], queries: Embeddings, qrels: Qrels, split: str = "", seed: int = 0
) -> Table:
    """Decode and measure every system on the queries that have a relevant document; return the table.

    The last system is compared with every other one. Raises DataError if no query has a relevant document.
    """
    # A query without a relevant document has no recall, so it is in no mean.
    n_relevant = np.array([len(qrels.relevant(query)) for query in queries.ids])
    if not n_relevant.any():
        raise DataError(f"no query of {split!r} has a relevant document")
    judged_queries = queries.take(np.flatnonzero(n_relevant).tolist())
    values = {}
    for system in systems:
        ranking = decode(system.decoder, system.space, judged_queries, max(REPORTED_SIZES))
        values[system.name] = measure_reported(ranking, system.space, judged_queries, qrels)
    return Table(split, len(judged_queries), values, _compare_last(values, seed), n_relevant[n_relevant > 0])


def percent(mean: float, error: float) -> str:
    """Format a mean and its standard error for tables."""
    return f"{100 * mean:.1f} ± {100 * error:.1f}"


def _compare_last(systems: Values, seed: int) -> tuple[Comparison, ...]:
    """Test the last system against each of the others by Comp@5, with correction for their number.

    Comp@5 is 1 for a query whose first 5 documents hold all relevant ones, else 0. systems: name → metric → values by
    query; () for a single system
    """
    # Insertion order: the method in question comes last.
    *baseline_names, method_name = systems
    if not baseline_names:
        return ()
    # The method's column, (B, 1), is broadcast against the baselines' columns, (B, m).
    # Of each system the values by query of Comp@5 alone are compared.
    *baselines, method_column = (columns[DECIDING_METRIC] for columns in systems.values())
    row_labels = [(method_name, method_name, baseline_name) for baseline_name in baseline_names]
    values = method_column[:, None], np.stack(baselines, axis=1)
    return build_comparisons(row_labels, *DECIDING_METRIC, *values, RESAMPLES.default, seed)


def verdict(name: str, results: Sequence[Comparison], unimproved: bool, epochs: int, control_epochs: int | None) -> str:
    """State in a sentence or two if training a method was worth it; "" without anything to compare with.

    results: comparisons of the method with every other system; unimproved: True if on dev no epoch was better than the
    weights before the first step; epochs: the number that the method trained; control_epochs: the number that its
    control trained, None without a control. The control starts from the same weights and is trained on without the
    method. If the method's decoder was also tried on the control's embeddings, that comparison says what the training
    is worth. The comparison with the control alone includes the decoder's worth.
    """
    sentences = []
    # If dev chose the weights before the first step, the comparisons below say nothing about the training.
    if unimproved:
        sentences.append(f"Training {name} never improved dev: its weights are those it started with.")
    sentences += _judgement(name, {row.baseline: row for row in results})
    if sentences and control_epochs is not None:
        control_length, method_length = counted(control_epochs, "epoch"), counted(epochs, "epoch")
        sentences.append(f"{CONTROL} was trained on for {control_length}, {name} for {method_length}.")
    return " ".join(sentences)


def _judgement(name: str, by_baseline: Mapping[str, Comparison]) -> Iterator[str]:
    """Yield the sentences on a trained method's worth, from its comparisons by the other system's name.

    There are up to three other systems. One is the encoder before any training. One is the control, the method's
    starting point trained on without the method. The third, which not every method has, searches the control's
    embeddings by the method's decoder: it says most about the training, as both sides have the decoder.
    """
    # "dense-cont, nnn": the control's embeddings searched by the method's decoder, as the experiment names this system.
    same_decoder = next((row for baseline, row in by_baseline.items() if baseline.startswith(f"{CONTROL}, ")), None)
    control_row, encoder_row = by_baseline.get(CONTROL), by_baseline.get(ENCODER)
    # A difference that is not significant counts as none.
    gain_over_control = control_row.difference if control_row is not None and control_row.significant else 0.0
    beats_control, loses_to_control = gain_over_control > 0, gain_over_control < 0
    if same_decoder is not None:
        yield _worth_of_training(name, same_decoder, beats_control)
        if not same_decoder.significant and beats_control:
            yield f"What it gains over {CONTROL}, the decoder gains without being trained for."
    elif name == START and encoder_row is not None:
        # The method is dense training itself: the control is the same training with more epochs.
        yield _compare_with(name, encoder_row, "the encoder's own embeddings")
        if loses_to_control:
            yield f"{CONTROL}, trained on for as long again, beats it: more epochs would help."
    elif control_row is not None:
        yield _compare_with(name, control_row, f"its control, {CONTROL}")


def _worth_of_training(name: str, row: Comparison, beats_control: bool) -> str:
    """State if training for a decoder was worth it, against that decoder without the training.

    row: the comparison of the two; beats_control: the method beats further dense training too
    """
    baseline = f"{row.baseline}, the same decoder on the embeddings of its control"
    if not row.significant:
        return f"Training for the decoder makes no significant difference here: {name} vs {baseline}."
    if row.difference > 0 and beats_control:
        return f"Training for the decoder is worth it here: {name} beats {baseline}, and {CONTROL} by itself."
    if row.difference > 0:
        return (
            f"{name} beats {baseline}, but does not beat {CONTROL} by itself: training for the decoder, and the "
            "decoder, are not worth it here."
        )
    return f"Training for the decoder does harm here: {name} is worse than {baseline}."


def _compare_with(name: str, row: Comparison, baseline: str) -> str:
    """State if a method beats a baseline, which is described in words."""
    if not row.significant:
        return f"{name} does not beat {baseline}: no significant difference."
    return f"{name} {'beats' if row.difference > 0 else 'is worse than'} {baseline}."
