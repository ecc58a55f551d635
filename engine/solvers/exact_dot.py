"""Inner products in float64 that come out the same to the last bit, in whatever order and company they are summed."""

import math

import torch
from torch import Tensor


class ExactProducts:
    """Inner products of the rows of a matrix with one another.

    rows: (p, d). Each row is cut into a high and a low part of few enough bits that float64 sums high·high, and
    high·low, without rounding (Ozaki et al. 2012, §3): no blocking, thread count or batch can change a bit, equal rows
    have equal products, and s_ij = s_ji. What low·low would add is left out: at most d·2^(−2b−2) of the product of the
    two rows' largest entries, b = ⌊(53 − ⌈log₂ d⌉)/2⌋ (22 bits for d = 384).
    """

    def __init__(self, rows: Tensor) -> None:
        rows = rows.double()
        bits = (53 - math.ceil(math.log2(rows.shape[1]))) // 2
        # Every entry is less than 2^exponent; below 2^-900 there is nothing that a product could keep.
        exponent = torch.frexp(rows.abs().amax(1, keepdim=True)).exponent.clamp_min(-900)
        ones = torch.ones_like(exponent, dtype=torch.float64)
        step = torch.ldexp(ones, exponent - bits)
        self.high = (rows / step).round_().mul_(step)
        step = torch.ldexp(ones, exponent - 2 * bits)
        self.low = ((rows - self.high) / step).round_().mul_(step)

    def gram(self) -> Tensor:
        """(p, p) all inner products."""
        cross = self.high @ self.low.T
        return (self.high @ self.high.T).add_(cross + cross.T)

    def of(self, index: Tensor) -> Tensor:
        """(m, p) inner products of the rows at `index`, (m,), with all rows."""
        cross = (self.high[index] @ self.low.T).add_(self.low[index] @ self.high.T)
        return (self.high[index] @ self.high.T).add_(cross)
