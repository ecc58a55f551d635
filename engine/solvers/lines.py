"""Rankings whose gains are lines in a parameter: in pieces between which the ranking changes."""

from dataclasses import dataclass

import numpy as np

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class LambdaPath:
    """One problem's rankings at every λ of an interval.

    start: where it begins; ends: (m,) where each piece ends, ascending; picks: (m, k) candidates, −1 pads; gains:
    (m, 2, k) of lines, a at λ = 1 and b at 0: the gain is λ·a + (1−λ)·b; certain: (m, 2) from where to where in each
    piece no rounding decides, empty where the first is the larger.
    """

    start: float
    ends: Array
    picks: Array
    gains: Array
    certain: Array

    def piece(self, value: float) -> int | None:
        """The piece whose ranking is certain at a λ; None where there is none."""
        at = min(int(np.searchsorted(self.ends, value)), len(self.ends) - 1)
        low, high = self.certain[at]
        return at if low <= value <= high else None

    def gain(self, piece: int, value: float) -> Array:
        """(k,) gains of a piece at a λ."""
        a, b = self.gains[piece]
        gain: Array = np.where(a == b, a, value * a + (1 - value) * b)
        return gain

    @property
    def last(self) -> Array:
        """(s,) the last of each run of pieces with one ranking: cut for other reasons, it did not change."""
        changed = (self.picks[1:] != self.picks[:-1]).any(1)
        return np.flatnonzero(np.append(changed, True))


def by_value(
    start: float, ends: Array, certain: Array, members: Array, gains: Array, k: int, slack: float
) -> LambdaPath:
    """The k largest values in order wherever they are lines, ties to the earlier member, cut where lines cross.

    ends, certain: of m pieces, as of a LambdaPath; members: (m, s), gains: (m, 2, s) their lines; slack: values this
    close are not certain, unless their lines are the same.
    """
    left = np.append(start, ends[:-1])
    slopes = gains[:, 0] - gains[:, 1]
    one, two = np.triu_indices(members.shape[1], 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        crossing = (gains[:, 1, one] - gains[:, 1, two]) / (slopes[:, two] - slopes[:, one])
    piece, pair = np.nonzero((crossing > left[:, None]) & (crossing < ends[:, None]))
    of = np.append(piece, np.arange(len(ends)))
    right = np.append(crossing[piece, pair], ends)
    order = np.lexsort((right, of))
    of, right = of[order], right[order]
    left = np.append(start, right[:-1])
    long = (right > left) | (len(right) == 1)
    of, left, right = of[long], left[long], right[long]

    def values(at: Array) -> Array:
        value: Array = at[:, None] * gains[of, 0] + (1 - at)[:, None] * gains[of, 1]
        return value

    order = np.argsort(-values((left + right) / 2), axis=1, kind="stable")
    members, lines = np.take_along_axis(members[of], order, 1), np.take_along_axis(gains[of], order[:, None], 2)
    at_left, at_right = (-np.diff(np.take_along_axis(values(at), order, 1))[:, :k] for at in (left, right))
    same = (np.diff(lines) == 0).all(1)[:, :k]
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.clip((slack - np.minimum(at_left, at_right)) / np.abs(at_right - at_left), 0, 1)
    length = (right - left)[:, None]
    lower = np.where(same | (at_left > slack), left[:, None], left[:, None] + share * length)
    upper = np.where(same | (at_right > slack), right[:, None], right[:, None] - share * length)
    lower[~same & (at_left <= slack) & (at_right <= slack)] = np.inf
    sure = np.stack([lower.max(1, initial=-np.inf), upper.min(1, initial=np.inf)], 1)
    sure[:, 0] = np.maximum(np.maximum(sure[:, 0], left), certain[of, 0])
    sure[:, 1] = np.minimum(np.minimum(sure[:, 1], right), certain[of, 1])
    return LambdaPath(start, right, members[:, :k], lines[:, :, :k], sure)
