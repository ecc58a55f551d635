"""Who wins: the best candidate, or the k best, decided in float64 wherever float32 leaves it open.

Ties go to the lower row.
"""

from collections.abc import Callable

import torch
from torch import Tensor

Exact = Callable[[Tensor, Tensor], Tensor]
"""(m,) float64 scores at flat (problem, candidate) pairs."""

CROWD = 64
"""With more contenders than this a problem, exact duplicates are looked for before anything is scored again."""
MARGIN = 16
"""How many runners-up `ranked` fetches at first: enough unless near-ties abound."""


def best(
    score: Tensor, error: Tensor, exact: Exact, twins: Callable[[], Tensor | None] = lambda: None
) -> tuple[Tensor, Tensor]:
    """The best candidate of each problem.

    score: (B, n), −inf where a candidate is out; error: (B,) bound on the error of a score, or (B, n) on each;
    twins: gives (n,) the lowest candidate that is exactly alike, asked only when very many tie. Returns the winners,
    (B,) int64, and which problems needed float64, (B,) bool.
    """
    if error.ndim == 1 and score.shape[1] > 1 and not bool((error < 0).any()):
        top, index = score.topk(2, dim=1)
        undecided = top[:, 0] - top[:, 1] <= 2 * error
        best_, surest = index[:, 0], (top[:, 0] - error).unsqueeze(1)
    else:
        best_ = score.max(dim=1).indices
        surest = (score - (error if error.ndim == 2 else error.unsqueeze(1))).amax(1, keepdim=True)
        undecided = torch.ones_like(best_, dtype=torch.bool)
    problems = undecided.nonzero().flatten()
    if not len(problems):
        return best_, undecided
    # A contender may reach what the surest candidate has for certain; the top score is always one.
    reach = score[problems] + (error[problems] if error.ndim == 2 else error[problems].unsqueeze(1))
    open_ = reach >= surest[problems]
    undecided[problems] = open_.sum(1, dtype=torch.int32) > 1  # in int64 the sum costs twenty times as much
    left = undecided[problems]
    if bool(left.any()):
        best_[undecided] = decide(open_[left], exact, twins, problems[left])
    return best_, undecided


def decide(
    open_: Tensor, exact: Exact, twins: Callable[[], Tensor | None] = lambda: None, problems: Tensor | None = None
) -> Tensor:
    """(A,) the best of the contenders of some problems, the lowest row of equals.

    open_: (A, n) bool, at least one a problem; problems: (A,) their numbers, as `exact` takes them.
    """
    batch, candidate = open_.nonzero(as_tuple=True)
    contenders = open_.sum(1)
    if len(candidate) > CROWD * len(open_) and (alike := twins()) is not None:
        # The lowest candidate of each kind in each problem, and how many each problem has.
        kind = torch.unique(batch * len(alike) + alike[candidate], return_inverse=True)[1]
        at = torch.arange(len(kind), device=kind.device)
        lowest = torch.zeros_like(at)[: int(kind.max()) + 1].scatter_reduce(0, kind, at, "amin", include_self=False)
        kept = lowest.sort().values
        batch, candidate, contenders = batch[kept], candidate[kept], torch.bincount(batch[kept], minlength=len(open_))
    value = exact(batch if problems is None else problems[batch], candidate)
    # nonzero lists candidates in ascending order, and both sorts are stable: the lower row wins a tie.
    order = value.argsort(descending=True, stable=True)
    order = order[batch[order].argsort(stable=True)]
    return candidate[order[contenders.cumsum(0) - contenders]]


def ranked(score: Tensor, k: int, error: Tensor, exact: Exact, all_: bool = True) -> tuple[Tensor, Tensor]:
    """The k best candidates of each problem, best first.

    score: (B, n) with k ≤ n; error: (B,); all_: score all of them again in float64, else only those whose order is open
    otherwise. Returns (B, k) int64 candidates and their (B, k) float64 scores.
    """
    n = score.shape[1]
    width = min(n, k + MARGIN)
    value, index = score.topk(width, dim=1)
    reach = 2 * error.unsqueeze(1)
    if width < n and bool((value[:, -1:] >= value[:, k - 1 : k] - reach).any()):
        width = max(width, int((score >= value[:, k - 1 : k] - reach).sum(1).max()))
        value, index = score.topk(width, dim=1)
    sure = value.double()
    # Whoever is further than twice the error from both neighbours has its place.
    near = value[:, :-1] - value[:, 1:] <= reach
    open_ = torch.full_like(index, all_, dtype=torch.bool)
    open_[:, 1:] |= near
    open_[:, :-1] |= near
    if not bool(open_.any()):
        return index[:, :k], sure[:, :k]
    batch, place = open_.nonzero(as_tuple=True)
    sure[batch, place] = exact(batch, index[batch, place])
    # By row first, then by score: both sorts are stable, so the lower row goes first among equals.
    index, order = index.sort(dim=1)
    sure = sure.gather(1, order)
    order = sure.argsort(dim=1, descending=True, stable=True)[:, :k]
    return index.gather(1, order), sure.gather(1, order)
