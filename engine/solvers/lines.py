"""Rankings whose gains are lines in a parameter: in pieces between which the ranking changes."""

from dataclasses import dataclass

import numpy as np

from engine.display import OneLine

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class LambdaPath(OneLine):
    """One query's rankings at every λ of an interval, in pieces within which the ranking is the same.

    start: where it begins; ends: (m,) where each piece ends, ascending; picks: (m, k) candidates, −1 pads; gains:
    (m, 2, k) of lines, a at λ = 1 and b at 0: the gain is λ·a + (1−λ)·b; certain: (m, 2) from where to where in each
    piece no rounding decides, empty where the first is the larger.
    """

    start: float
    ends: Array
    picks: Array
    gains: Array
    certain: Array

    def piece(self, lam: float) -> int | None:
        """Return the index of the piece that `lam` lies in, or None if `lam` is too close to the piece's end.

        A piece is an interval of λ on which the ranking is the same. So close to its end, rounding could decide which
        of two rankings holds.
        """
        piece_index = min(int(np.searchsorted(self.ends, lam)), len(self.ends) - 1)
        certain_from, certain_to = self.certain[piece_index]
        return piece_index if certain_from <= lam <= certain_to else None

    def gain(self, piece_index: int, lam: float) -> Array:
        """Return the (k,) gains of the picks of a piece at a λ: values of lines in λ."""
        gain_at_one, gain_at_zero = self.gains[piece_index]
        # Where both are equal, the sum of their shares would round to another number.
        gains: Array = np.where(gain_at_one == gain_at_zero, gain_at_one, lam * gain_at_one + (1 - lam) * gain_at_zero)
        return gains

    @property
    def last(self) -> Array:
        """(s,) indices of the pieces after which the ranking changes, and of the last piece.

        A piece is a range of λ with one ranking, but neighbouring pieces may have the same one.
        """
        is_changed = (self.picks[1:] != self.picks[:-1]).any(1)
        return np.flatnonzero(np.append(is_changed, True))


def order_lines(
    start: float, ends: Array, certain: Array, members: Array, gains: Array, k: int, slack: float
) -> LambdaPath:
    """Rank documents whose values are lines in λ at every λ of an interval, cut where lines cross.

    Returns the path of the k largest values, ties to the earlier member. start: λ at which the first of m pieces
    begins; ends, certain: of the pieces, as in a LambdaPath; members: (m, s); gains: (m, 2, s) their values at λ = 1
    and 0; slack: values this close are not certain, unless their lines are the same.
    """
    source, starts, stops = _cut_at_crossings(start, ends, gains)

    def evaluate(positions: Array) -> Array:
        """Return (m, s) values of all lines, each piece at its own λ, (m,)."""
        line_values: Array = positions[:, None] * gains[source, 0] + (1 - positions)[:, None] * gains[source, 1]
        return line_values

    # Within a piece no lines cross, so the order in its middle is that of all of it.
    order = np.argsort(-evaluate((starts + stops) / 2), axis=1, kind="stable")
    members = np.take_along_axis(members[source], order, 1)
    lines = np.take_along_axis(gains[source], order[:, None], 2)
    left_lead, right_lead = (-np.diff(np.take_along_axis(evaluate(lam), order, 1))[:, :k] for lam in (starts, stops))
    # A document's rank is certain where its lead on the next one exceeds `slack`; a lead is a line in λ too.
    is_same_line = (np.diff(lines) == 0).all(1)[:, :k]
    with np.errstate(divide="ignore", invalid="ignore"):
        unsure_share = np.clip((slack - np.minimum(left_lead, right_lead)) / np.abs(right_lead - left_lead), 0, 1)
    lengths = (stops - starts)[:, None]
    lower = np.where(is_same_line | (left_lead > slack), starts[:, None], starts[:, None] + unsure_share * lengths)
    upper = np.where(is_same_line | (right_lead > slack), stops[:, None], stops[:, None] - unsure_share * lengths)
    lower[~is_same_line & (left_lead <= slack) & (right_lead <= slack)] = np.inf
    sure_intervals = np.stack([lower.max(1, initial=-np.inf), upper.min(1, initial=np.inf)], 1)
    sure_intervals[:, 0] = np.maximum(np.maximum(sure_intervals[:, 0], starts), certain[source, 0])
    sure_intervals[:, 1] = np.minimum(np.minimum(sure_intervals[:, 1], stops), certain[source, 1])
    return LambdaPath(start, stops, members[:, :k], lines[:, :, :k], sure_intervals)


def _cut_at_crossings(start: float, ends: Array, gains: Array) -> tuple[Array, Array, Array]:
    """Cut pieces of an interval of λ where two lines cross; return each part's (piece, start, stop), (p,).

    start: where the first of m pieces begins; ends: (m,) where each ends and the next begins; gains: (m, 2, s) values
    of the s lines of a piece at λ = 1 and at λ = 0
    """
    starts = np.append(start, ends[:-1])
    slopes = gains[:, 0] - gains[:, 1]
    first, second = np.triu_indices(gains.shape[2], 1)
    # Parallel lines do not cross: their quotient is infinite or no number, and fails both comparisons.
    with np.errstate(divide="ignore", invalid="ignore"):
        crossings = (gains[:, 1, first] - gains[:, 1, second]) / (slopes[:, second] - slopes[:, first])
    cut_piece, cut_pair = np.nonzero((crossings > starts[:, None]) & (crossings < ends[:, None]))
    # The original ends count as cuts too; source: for each stop, the number of the piece that it cuts or ends.
    source = np.append(cut_piece, np.arange(len(ends)))
    stops = np.append(crossings[cut_piece, cut_pair], ends)
    order = np.lexsort((stops, source))
    source, stops = source[order], stops[order]
    starts = np.append(start, stops[:-1])
    has_length = (stops > starts) | (len(stops) == 1)
    return source[has_length], starts[has_length], stops[has_length]
