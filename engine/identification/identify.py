"""Identification of a run: decoder, weight of relevance and depth of the pool, read off its lists."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from engine.candidates import without_autocast
from engine.decoder import DEPTH, QueryLike
from engine.errors import ParamError
from engine.evaluation.statistics import SEED, SIGNIFICANCE_LEVEL, compute_sign_flip_p_values
from engine.identification.encoder_comparison import (
    MAX_ENCODERS,
    MIN_REFUTING_PICKS,
    ComparedVectors,
    HypothesisSettings,
    compare_vectors,
    explain_run,
)
from engine.identification.hypotheses import (
    Explanation,
    Hypothesis,
    ListComparison,
    UnexplainedPick,
    merge_explanations,
)
from engine.identification.identification import Identification
from engine.identification.pools import MAX_POOL_DEPTH, RunLists
from engine.identification.rivals import estimate_losses, find_rivals
from engine.identification.run_lists import ReadRun, read_lists
from engine.identification.run_vectors import CachedVectors, OtherVectors, RunVectors, find_cached_vectors
from engine.identification.verdict import describe_verdict
from engine.progress import Progress, Stop, counted, with_cancellation
from engine.space import Elsewhere, Space
from engine.values import Embeddings, Notice, Queries

Array = np.ndarray

MIN_EXPLAINED = 0.93
"""Share of picks that the best hypothesis has to explain, as they are or once the losses of an index are counted.

Systems of ours explain more, with a tenth of the documents lost or other number formats; a little recency mixed into
relevance leaves up to 0.92 to the most relevant documents (assets/results/identify.md).
"""
MIN_EXPLAINED_WITH_LOSSES = 0.9
"""Share from which the losses of an index are what has changed about a system that is expected."""
MIN_LISTS = 6
"""With fewer lists no difference between two hypotheses is more than chance."""
MAX_CONTENDERS = 40
"""Hypotheses, of those that are not worse by more than chance, that may count as one with the best."""
N_SIGN_PATTERNS = 10_000
MIN_SORTED_SHARE, SORTING_SLACK = 0.95, 1e-5
"""Share of lists in order of relevance from which all are said to be; rounding of a difference of relevance."""
UNTRIED_REMARK = f"encoders with vectors in the cache were not tried, as {MAX_ENCODERS} are at most"
N_EXAMPLES = 10
N_FURTHER = 10


@without_autocast
def identify(
    run: Any,
    space: Space,
    queries: QueryLike,
    *,
    decoders: Any = None,
    depth: int | None = None,
    seed: int = 0,
    embeddings: Any = None,
    progress: Progress | None = None,
    stop: Stop | None = None,
) -> Identification:
    """Name the decoder, the weight of relevance λ and the depth of the pool that made a run, off its lists.

    Given the picks before it, a pick is explained at an interval of λ for every depth of the pool; the setting that
    explains most picks is the system's. All depths up to 1,000 and the whole corpus are looked at, the first 20 picks
    of a list, and for facility_location ground sets up to 200 and the default one.

    Parameters
    ----------
    run : RankedRun, str, Path or mapping
        What the system returned: a file of a run, or query ids to lists of document ids, best first.
    space : Space
        The corpus, embedded as the system embeds it.
    queries : Queries, Embeddings, sequence of str, ndarray or Tensor
        The queries that were asked, and perhaps others; rows of arrays and texts are numbered from 0.
    decoders : sequence of Decoder, Selector or str, or None
        What is tried, at every λ and depth; None for top_k, mmr, dpp, ssd, max_sum and facility_location over dense
        and, if the queries have texts, bm25 and hybrid scores.
    depth : int or None
        The depth of the pool, if it is known.
    seed : int
        Of the resampling.
    embeddings : sequence of pairs of Embeddings, or None
        Other embeddings of the documents and of the queries, with which the same is tried unless they explain a sample
        of the lists much worse. None takes those of other encoders that are in the cache if `decoders` is None: the
        last four, of the same documents and of the same queries. Nothing is embedded for it; () for none.
    progress : callable or None
        Called as progress(done, total, label).
    stop : object with is_set() or None
        Cancels the work once it is set.

    Returns
    -------
    Identification
        The best hypothesis, the runner-up, all hypotheses, and whether the best is sure.

    Raises
    ------
    ParamError
        If `decoders`, `depth`, `seed` or `embeddings` is invalid.
    DataError
        If the run has no known query, the corpus lacks more than half of its documents, or `embeddings` are of others.
    Cancelled
        Once `stop` is set.

    Examples
    --------
    >>> import engine, numpy
    >>> space = engine.Space.of(list("abc"), [[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]])
    >>> engine.identify({"0": ["0", "1"]}, space, numpy.array([1.0, 0.0])).best.decoder.select.spec.name
    'top_k'
    """
    if isinstance(space, Elsewhere):
        raise space.refuse("identifying a run")
    if not isinstance(space, Space):
        raise ParamError(f"space must be an engine.Space; got {type(space).__name__}")
    seed, depth = SEED.check(seed), DEPTH.check(depth)
    report = with_cancellation(progress, stop, "the identification was stopped")
    read = read_lists(run, space, queries)
    base = RunVectors(encoder=None, space=space, lists=read.lists, further=read.further)
    settings = HypothesisSettings(
        decoders=decoders, depth_index=_find_depth_index(depth, space, read.lists), seed=seed
    )  # fmt: skip
    if embeddings is None:
        embeddings = _find_embeddings(space, queries) if decoders is None else ()
    candidates = OtherVectors(base, embeddings)
    ranked = explain_run(base, settings, report)
    comparison = compare_vectors(base, candidates, ranked, settings, report)
    return _judge(read, comparison, settings, report)


def _find_embeddings(space: Space, queries: QueryLike) -> tuple[CachedVectors, ...]:
    """Return the vectors of other encoders in the cache, for the queries as they were passed."""
    if isinstance(queries, Embeddings) and queries.texts is not None:
        queries = Queries(queries.ids, queries.texts)
    # Those that are read, which may be fewer, are looked up in any case.
    return find_cached_vectors(space, [queries] if isinstance(queries, Queries) else [])


def _find_depth_index(depth: int | None, space: Space, lists: RunLists) -> int | None:
    """Return the index of a given depth. Raises ParamError for a pool that is neither traced nor the whole corpus."""
    if depth is None:
        return None
    n_depths = min(MAX_POOL_DEPTH, len(space))
    # A pool of all documents has an index of its own.
    if depth >= len(space):
        return n_depths + 1
    if depth < lists.k or depth > n_depths:
        raise ParamError(
            f"depth must be from {lists.k} (the longest list) to {n_depths:,}, or all "
            f"{counted(len(space), 'document')}; got "
            f"{depth:,}. Leave it out to find it"
        )
    return depth


def _judge(read: ReadRun, compared: ComparedVectors, settings: HypothesisSettings, report: Progress) -> Identification:
    """Decide which explanations count as one, which is best, and whether that is sure."""
    lists, ranked = read.lists, compared.ranked
    is_beaten = _find_beaten(ranked, lists, settings.seed)
    contenders = [each for each, beaten in zip(ranked, is_beaten, strict=True) if not beaten]
    # Whether enough is explained, with losses or without, decides how the rest is read.
    first = _complete(ranked[0], compared.vectors, settings, report)
    is_explained = max(first.explained, first.explained_with_losses or 0.0) >= MIN_EXPLAINED
    comparison = ListComparison(compared.vectors, lists.k, settings.seed)
    # Where little is explained it does not matter which of the hypotheses are the same.
    group = merge_explanations(contenders[:MAX_CONTENDERS] if is_explained else contenders[:1], comparison)
    best, same = group[0], tuple(each.family.label for each in group[1:])
    hypothesis = first
    if best is not ranked[0]:
        hypothesis = _complete(best, compared.vectors, settings, report)
    hypothesis = replace(hypothesis, same=same)
    # A rival is a contender that gives other lists: with one left, nothing is sure.
    others = [each for each in ranked if each not in group]
    rivals = [each for each in contenders if each not in group]
    sure = is_explained and not rivals and len(lists.rows) >= MIN_LISTS and lists.k > 1
    # Of those that are not the same the nearest one.
    runner_up = next(iter(rivals or others), None)
    further = () if runner_up is None else comparison.find_differences(best, runner_up)[:N_FURTHER]
    runner_up_hypothesis = None if runner_up is None else runner_up.build_hypothesis()
    hypotheses = (hypothesis, *(each.build_hypothesis() for each in ranked if each is not best))
    notices = (*read.notices, *Notice.for_ids(UNTRIED_REMARK, compared.untried))
    identification = Identification(
        best=hypothesis, runner_up=runner_up_hypothesis, hypotheses=hypotheses, sure=sure, n_lists=len(lists.rows),
        n_picks=lists.n_picks, k=lists.k, further=further, weaker_encoders=compared.weaker, notices=notices,
        sentences=(),
    )  # fmt: skip
    rival_labels = tuple(each.family.label for each in rivals)
    n_documents = len(compared.vectors[None].space)
    is_sorted = not is_explained and _are_sorted(compared.vectors[None])
    sentences = describe_verdict(identification, rival_labels, n_documents, MIN_LISTS, is_explained, is_sorted)
    return replace(identification, sentences=sentences)


def _are_sorted(vectors: RunVectors) -> bool:
    """Return True if nearly all lists are in order of relevance, but for rounding."""
    n_sorted = 0
    for query_vector, rows in zip(vectors.lists.batch.vectors, vectors.lists.rows, strict=True):
        relevance = (vectors.space.vectors[np.asarray(rows)] @ query_vector).double()
        n_sorted += bool((relevance.diff() <= SORTING_SLACK).all())
    return n_sorted >= MIN_SORTED_SHARE * len(vectors.lists.rows)


def _find_beaten(ranked: Sequence[Explanation], lists: RunLists, seed: int) -> list[bool]:
    """Return, for each explanation, whether the first one explains more by more than chance, paired by query.

    Where the first one explains every pick, others are beaten by the few that they miss: a system makes no mistakes.
    """
    n_queries = len(lists.rows)
    counts = np.stack(
        [
            np.bincount(lists.query_index, weights=each.peak.is_explained, minlength=n_queries).astype(np.float64)
            for each in ranked
        ],
        axis=1,
    )
    # Paired: each hypothesis is judged on the same lists.
    differences = counts[:, :1] - counts
    p_values = compute_sign_flip_p_values(differences, N_SIGN_PATTERNS, seed)
    # Every other hypothesis has to be beaten, so that the largest p decides, and no correction is due.
    is_beaten = (p_values < SIGNIFICANCE_LEVEL) & (differences.mean(0) > 0)
    if ranked[0].n_explained == lists.n_picks:
        is_beaten |= differences.sum(0) >= MIN_REFUTING_PICKS
    beaten: list[bool] = is_beaten.tolist()
    return beaten


def _complete(
    best: Explanation, vectors: Mapping[str | None, RunVectors], settings: HypothesisSettings, report: Progress
) -> Hypothesis:
    """Return the best hypothesis with its losses, and examples that it does not explain."""
    hypothesis = best.build_hypothesis()
    space, lists = vectors[best.family.encoder].space, vectors[best.family.encoder].lists
    if best.n_explained == lists.n_picks:
        return hypothesis
    hypothesis = replace(hypothesis, unexplained=_list_unexplained(best, space, lists))
    # An index that loses documents spoils more picks than it loses.
    losses = estimate_losses(best.family, best.peak, space, lists, settings.depth_index, settings.seed, report)
    if losses is None:
        return hypothesis
    missing = tuple(space.corpus.ids[row] for row in losses.documents)
    return replace(
        hypothesis, loss_rate=losses.rate, explained_with_losses=losses.share_explained, missing=missing[:N_EXAMPLES]
    )


def _list_unexplained(best: Explanation, space: Space, lists: RunLists) -> tuple[UnexplainedPick, ...]:
    """Return the first picks that the best explanation does not explain, with what it would have picked."""
    peak, ids, examples = best.peak, space.corpus.ids, list[UnexplainedPick]()
    offsets = np.searchsorted(lists.query_index, np.arange(len(lists.rows)))
    for query_index, rivals in find_rivals(best.family, space, lists, peak.weight, peak.depth_index):
        for rank, pick_rivals in enumerate(rivals):
            if peak.is_explained[offsets[query_index] + rank]:
                continue
            expected = ids[int(pick_rivals[0])] if len(pick_rivals) else None
            document = ids[int(lists.rows[query_index][rank])]
            examples.append(
                UnexplainedPick(query=lists.batch.ids[query_index], rank=rank + 1, document=document, expected=expected)
            )
            if len(examples) == N_EXAMPLES:
                return tuple(examples)
    return tuple(examples)
