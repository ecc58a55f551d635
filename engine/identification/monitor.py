"""Comparison of a run with the setting that it should be made by, for a job that watches a system."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from engine.candidates import without_autocast
from engine.decoder import Decoder, QueryLike
from engine.errors import DataError, ParamError
from engine.evaluation.statistics import SIGNIFICANCE_LEVEL, compute_sign_flip_p_values
from engine.identification.evidence import Traces, collect_traces
from engine.identification.families import DecoderFamily, check_family
from engine.identification.identify import MIN_EXPLAINED_WITH_LOSSES, MIN_LISTS, N_SIGN_PATTERNS
from engine.identification.peaks import explain_picks, find_peak
from engine.identification.pools import MAX_POOL_DEPTH, RunLists
from engine.identification.rivals import IndexLosses, estimate_losses_at
from engine.identification.run_lists import read_lists
from engine.progress import Progress, Stop, counted, with_cancellation
from engine.space import Elsewhere, Space
from engine.values import Notice
from engine.wording import decimal, percent

MIN_EXPECTED_SHARE = 0.95
"""Share of picks that a setting has to explain for a run to be made by it; rounding of other formats costs a few."""
MAX_NAMED = 3


@dataclass(frozen=True, kw_only=True)
class Expectation:
    """The result of holding a run against the setting that was expected.

    is_met: True or False; None where it could not be judged; explained: the share of picks; sentences: the result in
    words; notices: what was odd in the run
    """

    is_met: bool | None
    explained: float
    sentences: tuple[str, ...]
    notices: tuple[Notice, ...]

    def as_json(self) -> dict[str, Any]:
        """Return the result as plain JSON values."""
        return {
            "expected": self.is_met, "explained": self.explained, "sentences": list(self.sentences),
            "notices": list(map(str, self.notices)),
        }  # fmt: skip


@without_autocast
def check_expectation(
    run: Any,
    space: Space,
    queries: QueryLike,
    decoder: Decoder,
    *,
    seed: int = 0,
    progress: Progress | None = None,
    stop: Stop | None = None,
) -> Expectation:
    """Compare a run with the decoder that should have made it; say what differs.

    The arguments are those of `engine.identify`. Raises DataError or ParamError where nothing can be judged: for a run
    of another corpus, or a decoder whose picks do not follow from a weight of relevance.
    """
    if isinstance(space, Elsewhere):
        raise space.refuse("comparing a run with a setting")
    report = with_cancellation(progress, stop, "the comparison was stopped")
    family = check_family(decoder)
    setting = _read_setting(decoder, space)
    read = read_lists(run, space, queries)
    lists = read.lists
    if family.scorer.words and lists.batch.texts is None:
        raise DataError(f"{family.scorer.label} reads the queries' words, and these are vectors alone")
    # One family alone: another one is not asked for here.
    (traces,) = collect_traces([family], space, lists, report)
    is_explained = explain_picks(traces, setting[1], setting[0])
    share = float(is_explained.mean())
    result = Expectation(is_met=None, explained=share, sentences=(), notices=read.notices)
    if (reason := _find_shortage(family, lists)) is not None:
        return replace(result, sentences=(reason,))
    explained = f"{percent(share)} of {counted(len(is_explained), 'pick')} in {counted(len(lists.rows), 'list')}"
    summary = f"The setting explains {explained}."
    changes = [] if is_explained.all() else _list_changes(traces, is_explained, setting, lists, seed)
    if share >= MIN_EXPECTED_SHARE and not changes:
        return replace(result, is_met=True, sentences=(summary,))
    sentences = [summary, *changes]
    losses = estimate_losses_at(family, space, lists, setting, report)
    if losses is not None and losses.share_explained >= MIN_EXPLAINED_WITH_LOSSES:
        sentences.append(_describe_losses(losses, space))
    elif len(sentences) == 1:
        sentences.append(
            "No other λ or depth explains much more, and no loss of documents does: the vectors have changed, or "
            "another system made these lists. Identify the run without an expectation to see which."
        )
    return replace(result, is_met=False, sentences=tuple(sentences))


def _read_setting(decoder: Decoder, space: Space) -> tuple[float | None, int]:
    """Return λ and the index of the depth of a decoder. Raises ParamError for a pool that is not traced."""
    n_depths = min(MAX_POOL_DEPTH, len(space))
    weight: float | None = getattr(decoder.select, "relevance_weight", None)
    # A pool of all documents has an index of its own.
    if decoder.depth is None or decoder.depth >= len(space):
        return weight, n_depths + 1
    if decoder.depth > n_depths:
        raise ParamError(
            f"depth of the expected decoder must be at most {n_depths:,}, or the whole corpus, for a run to be held "
            f"against it; got {decoder.depth:,}"
        )
    return weight, decoder.depth


def _find_shortage(family: DecoderFamily, lists: RunLists) -> str | None:
    """Return why lists do not suffice to judge a setting; None if they do."""
    # A job that judged a handful of lists would raise false alarms.
    if len(lists.rows) < MIN_LISTS:
        n_lists = counted(len(lists.rows), "list")
        return f"{n_lists} cannot tell: at least {MIN_LISTS} are needed, better a few dozen."
    if lists.k == 1 and family.has_weight:
        return "Lists of one document cannot tell: they show relevance alone. Ask for five documents or more."
    return None


def _list_changes(
    traces: Traces, is_explained: np.ndarray, setting: tuple[float | None, int], lists: RunLists, seed: int
) -> list[str]:
    """Return sentences on a λ or a depth that explains more than the expected one by more than chance."""
    peak = find_peak(traces, None, seed)
    # The peak was chosen for these lists, so it has to gain by more than chance.
    gains = peak.is_explained.astype(np.float64) - is_explained
    by_query = np.bincount(lists.query_index, weights=gains, minlength=len(lists.rows))
    p_value = compute_sign_flip_p_values(by_query[:, None], N_SIGN_PATTERNS, seed)[0]
    if by_query.sum() <= 0 or p_value >= SIGNIFICANCE_LEVEL:
        return []
    share, (weight, depth_index), changes = percent(peak.share_explained), setting, []
    if weight is not None and peak.weights is not None and not peak.weights[0] <= weight <= peak.weights[1]:
        low, high = map(decimal, peak.weights)
        changes.append(f"λ has changed: {decimal(weight)} was expected, and {low} to {high} explains {share}.")
    if not peak.depths[0] <= depth_index <= peak.depths[1]:
        ends = " to ".join("all documents" if end > traces.n_depths else f"{end:,}" for end in sorted(set(peak.depths)))
        expected = "all documents" if depth_index > traces.n_depths else f"{depth_index:,}"
        changes.append(f"The pool has changed: {expected} was expected, and {ends} explains {share}.")
    return changes


def _describe_losses(losses: IndexLosses, space: Space) -> str:
    """Return the sentence on documents that an index did not return where they were due."""
    digits = 0 if losses.rate >= 0.01 else 1
    sentence = (
        f"The index loses documents: {percent(losses.rate, digits)} of those that were due; without them the setting "
        f"explains {percent(losses.share_explained)}"
    )
    if losses.documents:
        named = ", ".join(repr(space.corpus.ids[row]) for row in losses.documents[:MAX_NAMED])
        sentence += f". Never returned: {named}"
    return f"{sentence}."
