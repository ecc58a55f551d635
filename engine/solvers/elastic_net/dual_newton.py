"""Non-negative elastic nets by Newton steps on the dual, many at a time on any device; for λ₂ > 0.

The dual function of a residual ρ, ρ·v − ½|ρ|² − |[Uρ − λ₁]₊|² / 2λ₂, is concave with one kink a row: where the rows
above λ₁ stay the same it is quadratic, and a Newton step, the step of a primal-dual active set, ends there.
"""

import torch
from torch import Tensor

from engine.candidates import Candidates

START_ROWS = 512
"""The working set begins with so many of the most relevant rows and doubles at most."""
DUAL_TOLERANCE = 1e-11
"""Largest excess of a dual over λ₁, of the largest score."""
MAX_NEWTON_STEPS, LINE_SEARCH_HALVINGS = 300, 40
MIN_STEP_NORM = 1e-13
"""A gradient shorter than this, of the query's length, is rounding."""


def maximise_dual(c: Candidates, l1: Tensor, l2: Tensor) -> tuple[Tensor, Tensor, int]:
    """Find each query's elastic-net weights by Newton steps on the dual, over a growing set of rows.

    Returns weights (B, m), 0 for none, of rows (B, m), and the number of passes over the candidates, which prove that
    rows outside have no weight. l1, l2: (B,) float64, l2 > 0.
    """
    queries = c.queries.double()
    n_start = min(c.count, START_ROWS)
    members = c.relevance.topk(n_start, dim=1).indices
    # The number of each query, as a column, to index (query, row) pairs by.
    query_column = torch.arange(c.batch, device=members.device).unsqueeze(1)
    is_used = torch.ones_like(members, dtype=torch.bool)
    max_scores = c.relevance.abs().amax(1).double()
    points, n_passes = queries.clone(), 0
    while True:
        rows = _gather_rows(c, query_column, members).mul_(is_used.unsqueeze(2))
        points, weights = _maximise_on_working_sets(rows, is_used, queries, points, l1, l2)
        # The residual that the weights leave, not the one that they came from.
        points = queries - torch.einsum("bm,bmd->bd", weights, rows)
        products = c.products(points.to(c.vectors.dtype))
        n_passes += 1
        # Rows outside the working set certainly have no weight unless their product may exceed λ₁ by the error of the
        # pass; those are computed again in float64.
        may_get_weight = products > (l1 - c.product_error(points)).unsqueeze(1)
        may_get_weight[query_column.expand_as(members)[is_used], members[is_used]] = False
        query_id, row_id = may_get_weight.nonzero(as_tuple=True)
        exact_products = (_gather_rows(c, query_id, row_id) * points[query_id]).sum(-1)
        # The copies of a row with a weight join it, however little λ₂ lifts their dual above λ₁.
        copy_lift = l2 * torch.where(weights > 0, weights, torch.inf).amin(1)
        tolerance = DUAL_TOLERANCE * max_scores
        is_violated = exact_products > (l1 + torch.minimum(copy_lift - tolerance, tolerance))[query_id]
        if not bool(is_violated.any()):
            return weights, members, n_passes
        violators = query_id[is_violated], row_id[is_violated], exact_products[is_violated]
        members, is_used = _extend_working_sets(members, is_used, *violators)


def _gather_rows(c: Candidates, query_id: Tensor, row_id: Tensor) -> Tensor:
    """Return float64 vectors of candidates, given by equally shaped numbers of queries and rows.

    The query matters only where each has its own pool of candidates.
    """
    return (c.vectors[row_id] if c.vectors.ndim == 2 else c.vectors[query_id, row_id]).double()


def _extend_working_sets(
    members: Tensor, is_used: Tensor, query_id: Tensor, row_id: Tensor, products: Tensor
) -> tuple[Tensor, Tensor]:
    """Add to each query's working set the rows that most need a weight; return the sets and their mask.

    A set at most doubles. members: (B, m) rows in the sets; is_used: (B, m) False for padding; query_id, row_id: the
    rows outside that would get a weight, as pairs of query and row; products: their inner products with the residual
    """
    # Entries sorted by query, the largest product first; the rank within its query is then an entry's new column.
    order = products.argsort(descending=True)
    order = order[query_id[order].argsort(stable=True)]
    query_id, row_id = query_id[order], row_id[order]
    n_violated = torch.bincount(query_id, minlength=len(members))
    rank_in_query = torch.arange(len(query_id), device=query_id.device) - (n_violated.cumsum(0) - n_violated)[query_id]
    # All sets have one width, so the shorter ones are padded: unused entries have is_used False.
    max_width = members.shape[1]
    n_added = min(max_width, int(n_violated.max()))
    added_members = members.new_zeros(len(members), n_added)
    added_used = torch.zeros_like(is_used[:, :1]).repeat(1, n_added)
    is_added = rank_in_query < n_added
    added_members[query_id[is_added], rank_in_query[is_added]] = row_id[is_added]
    added_used[query_id[is_added], rank_in_query[is_added]] = True
    return torch.cat([members, added_members], 1), torch.cat([is_used, added_used], 1)


def _maximise_on_working_sets(
    rows: Tensor, is_used: Tensor, queries: Tensor, points: Tensor, l1: Tensor, l2: Tensor
) -> tuple[Tensor, Tensor]:
    """Find the elastic-net weights over each query's working set of rows, by Newton steps on the dual.

    Returns the residuals, what the weights leave of the queries, (B, d), and the weights, (B, m). rows: (B, m, d)
    vectors; is_used: (B, m) False for padding; points: (B, d) residuals to start from
    """
    l1_column, l2_column = l1.unsqueeze(1), l2.unsqueeze(1)
    identity = torch.eye(queries.shape[1], dtype=queries.dtype, device=queries.device)
    min_step_norms = MIN_STEP_NORM * torch.linalg.vector_norm(queries, dim=1)
    # heights: by how much each document's dual, its product with the residual, exceeds λ₁.
    heights = torch.einsum("bmd,bd->bm", rows, points) - l1_column
    for _ in range(MAX_NEWTON_STEPS):
        # With a = [Uρ − λ₁]₊ the gradient of the dual is v − ρ − Uᵀa / λ₂, and the Hessian −(I + U_Aᵀ U_A / λ₂) over
        # the rows above λ₁.
        excess = torch.where(is_used, heights.clamp_min(0), 0)
        gradients = queries - points - torch.einsum("bm,bmd->bd", excess, rows) / l2_column
        active_rows = rows * (excess > 0).unsqueeze(2)
        curvatures = identity + active_rows.mT @ active_rows / l2_column.unsqueeze(2)
        steps = torch.cholesky_solve(gradients.unsqueeze(2), torch.linalg.cholesky(curvatures)).squeeze(2)
        climbs = torch.where(is_used, torch.einsum("bmd,bd->bm", rows, steps), 0)
        steps = steps * _search_line(heights, climbs, queries - points, steps, l2).unsqueeze(1)
        points = points + steps
        heights = torch.einsum("bmd,bd->bm", rows, points) - l1_column
        if bool((torch.linalg.vector_norm(steps, dim=1) <= min_step_norms).all()):
            break
    return points, torch.where(is_used, heights.clamp_min(0), 0) / l2_column


def _search_line(heights: Tensor, climbs: Tensor, smooth_gradient: Tensor, steps: Tensor, l2: Tensor) -> Tensor:
    """Return (B,) the share of each query's Newton step that raises the dual objective most.

    The objective is concave and smooth but for kinks, where the dual of a document passes λ₁ and it gets or loses a
    weight; so the slope along a step falls, and bisection on its sign finds the maximum. heights: (B, m) duals less λ₁;
    climbs: (B, m) their change along a full step; smooth_gradient: (B, d) gradient of the part without kinks; steps:
    (B, d). A full step, 1, is exact where no kink is passed.
    """
    initial_slope, squared_step = (smooth_gradient * steps).sum(1), (steps * steps).sum(1)

    def slope(step_share: Tensor) -> Tensor:
        """Return (B,) the derivative of the dual objective along each step, at a share of it."""
        excess = torch.addcmul(heights, climbs, step_share.unsqueeze(1)).clamp_min(0)
        return initial_slope - step_share * squared_step - (excess * climbs).sum(1) / l2

    # The maximum is looked for between no step and two full steps.
    lower_share, upper_share = torch.zeros_like(l2), torch.full_like(l2, 2)
    for _ in range(LINE_SEARCH_HALVINGS):
        middle_share = (lower_share + upper_share) / 2
        is_rising = slope(middle_share) > 0
        lower_share = torch.where(is_rising, middle_share, lower_share)
        upper_share = torch.where(is_rising, upper_share, middle_share)
    is_same_support = ((heights > 0) == (heights + climbs > 0)).all(1)
    return torch.where(is_same_support, 1.0, (lower_share + upper_share) / 2)
