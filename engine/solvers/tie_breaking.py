"""Selection of the best candidate, or the k best, decided in float64 wherever float32 leaves it open.

Ties go to the lower row.
"""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

ExactScorer = Callable[[Tensor, Tensor], Tensor]
"""(m,) float64 scores at flat (problem, candidate) pairs."""

MAX_CONTENDERS = 64
"""With more contenders than this a problem, exact duplicates are looked for before anything is scored again."""
N_RUNNERS_UP = 16
"""Runners-up that `rank_exactly` fetches at first: enough unless near-ties abound."""


def find_best(
    scores: Tensor, errors: Tensor, score_exactly: ExactScorer,
    find_duplicates: Callable[[], Tensor | None] = lambda: None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Find each query's best candidate by rounded scores; near-ties are decided in float64, equals by row.

    scores: (B, n), −inf where a candidate is out; errors: (B,) bound on the error of a score, or (B, n) on each;
    score_exactly: gives float64 scores of (problem, candidate) pairs; find_duplicates: gives (n,) the lowest candidate
    that is exactly alike, called only when very many tie. Returns the winners, (B,) int64, and which problems needed
    float64, (B,) bool.
    """
    # With one error a query the best two decide. A negative error marks a query whose scores are all exactly equal:
    # then, and with an error for each score, all candidates are compared.
    if errors.ndim == 1 and scores.shape[1] > 1 and not bool((errors < 0).any()):
        top_two, top_rows = scores.topk(2, dim=1)
        # Scores further apart than the sum of both errors cannot change places.
        is_undecided = top_two[:, 0] - top_two[:, 1] <= 2 * errors
        best_ids, guaranteed_score = top_rows[:, 0], (top_two[:, 0] - errors).unsqueeze(1)
    else:
        best_ids = scores.max(dim=1).indices
        guaranteed_score = (scores - (errors if errors.ndim == 2 else errors.unsqueeze(1))).amax(1, keepdim=True)
        is_undecided = torch.ones_like(best_ids, dtype=torch.bool)
    problems = is_undecided.nonzero().flatten()
    if not len(problems):
        return best_ids, is_undecided
    # A contender's exact score may be as high as one that another has for certain; the top score is always one.
    best_possible = scores[problems] + (errors[problems] if errors.ndim == 2 else errors[problems].unsqueeze(1))
    is_contender = best_possible >= guaranteed_score[problems]
    # Counted in int32: in int64 the sum costs twenty times as much.
    is_undecided[problems] = is_contender.sum(1, dtype=torch.int32) > 1
    is_tied = is_undecided[problems]
    if bool(is_tied.any()):
        best_ids[is_undecided] = break_ties(is_contender[is_tied], score_exactly, find_duplicates, problems[is_tied])
    return best_ids, is_undecided


def break_ties(
    open_: Tensor, score_exactly: ExactScorer, find_duplicates: Callable[[], Tensor | None] = lambda: None,
    problems: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Return (A,) each query's best contender by float64 score, the lowest row of equals.

    Contenders are the candidates whose rounded scores are too close to tell. open_: (A, n) bool, True for contenders,
    at least one a problem; problems: (A,) the problems' numbers, as `score_exactly` takes them, None for 0 … A − 1.
    """
    problem, doc_ids = open_.nonzero(as_tuple=True)
    n_contenders = open_.sum(1)
    if len(doc_ids) > MAX_CONTENDERS * len(open_) and (duplicate_of := find_duplicates()) is not None:
        # Of identical candidates only the lowest of each problem stays a contender, as it wins their tie.
        group_keys = problem * len(duplicate_of) + duplicate_of[doc_ids]
        _, group_ids = torch.unique(group_keys, return_inverse=True)
        positions = torch.arange(len(group_ids), device=group_ids.device)
        lowest = torch.zeros_like(positions)[: int(group_ids.max()) + 1]
        lowest = lowest.scatter_reduce(0, group_ids, positions, "amin", include_self=False)
        first_positions = lowest.sort().values
        problem, doc_ids = problem[first_positions], doc_ids[first_positions]
        n_contenders = torch.bincount(problem, minlength=len(open_))
    exact_scores = score_exactly(problem if problems is None else problems[problem], doc_ids)
    # nonzero lists candidates in ascending order, and both sorts are stable: the lower row wins a tie.
    score_order = exact_scores.argsort(descending=True, stable=True)
    score_order = score_order[problem[score_order].argsort(stable=True)]
    # Each problem's winner stands where its contenders begin.
    return doc_ids[score_order[n_contenders.cumsum(0) - n_contenders]]


@np.errstate(invalid="ignore")
def rank_exactly(
    scores: Tensor, k: int, errors: Tensor, score_exactly: ExactScorer, rescore_all: bool = True
) -> tuple[Tensor, Tensor]:
    """Return each query's k best candidates, (B, k), best first, and their float64 scores, (B, k).

    Scores in low precision settle most of the order; what they leave open is scored again. scores: (B, n) with k ≤ n;
    errors: (B,) bound on the error of a score; rescore_all: score all k again in float64, else only those whose order
    is open.
    """
    n = scores.shape[1]
    n_fetched = min(n, k + N_RUNNERS_UP)
    top_scores, row_ids = scores.topk(n_fetched, dim=1)
    host_scores, tie_width = top_scores.cpu().numpy(), 2 * errors.cpu().numpy()[:, None]
    # Whoever is further than twice the error from both neighbours has its place; no two that are out, at −∞, tie.
    is_near_tie = host_scores[:, :-1] - host_scores[:, 1:] <= tie_width
    if not rescore_all and not is_near_tie[:, :k].any():
        return row_ids[:, :k], top_scores[:, :k].double()
    lowest_rival = host_scores[:, [max(k - 1, 0)]] - tie_width
    # Where candidates that were not fetched may tie with the k-th, all of those are fetched too.
    if n_fetched < n and (host_scores[:, -1:] >= lowest_rival).any():
        n_rivals = int((scores >= torch.from_numpy(lowest_rival).to(scores.device)).sum(1).max())
        top_scores, row_ids = scores.topk(max(n_fetched, n_rivals), dim=1)
        host_scores = top_scores.cpu().numpy()
        is_near_tie = host_scores[:, :-1] - host_scores[:, 1:] <= tie_width
    is_open = np.full(host_scores.shape, rescore_all)
    is_open[:, 1:] |= is_near_tie
    is_open[:, :-1] |= is_near_tie
    # Runners-up that cannot reach the k-th need no order among themselves.
    is_open &= host_scores >= lowest_rival
    problem, rank_index = (torch.from_numpy(index).to(scores.device) for index in is_open.nonzero())
    exact_scores, host_ids = host_scores.astype(np.float64), row_ids.cpu().numpy()
    exact_scores[is_open] = score_exactly(problem, row_ids[problem, rank_index]).cpu().numpy()
    # By score first, then by row, so that the lower row goes first among equals.
    order = np.lexsort((host_ids, -exact_scores))[:, :k]
    ranked_ids, ranked_scores = (np.take_along_axis(array, order, 1) for array in (host_ids, exact_scores))
    return torch.from_numpy(ranked_ids).to(scores.device), torch.from_numpy(ranked_scores).to(scores.device)
