"""Weights of relevance at which a greedy selector would have made a pick, for every depth of its pool, compiled.

Given the picks before it, pick p is the argmax of λ·a + (1−λ)·b over its pool, so each rival j allows the λ with
λ·(a_p − a_j) + (1−λ)·(b_p − b_j) ≥ 0: an interval that begins at 0 or ends at 1. Rivals are passed in the order of
their relevance; after the first n of them the intersection is the interval for a pool of n documents.
"""

import numpy as np

from engine.solvers.greedy.steps import EXCLUDED_LIMIT, LOG_RESIDUAL, ROOT_RESIDUAL
from engine.solvers.jit import jit_exact

EMPTY_LOW, EMPTY_HIGH = 2.0, -1.0
"""Ends of an interval that no weight lies in."""
MAX_WEIGHT_BELOW_1 = 1 - 1e-8


@jit_exact
def compute_novelty_error(kind, novelty, square_error):
    """Return a bound on the error of a diversity gain that follows from a squared distance to the picks' span.

    kind: LOG_RESIDUAL, ROOT_RESIDUAL or another, whose error is part of the slack; square_error: bound on the error of
    the squared distance
    """
    if kind == LOG_RESIDUAL:
        return square_error / max(np.exp(novelty), square_error)
    if kind == ROOT_RESIDUAL:
        return min(square_error / max(novelty, 1e-300), np.sqrt(square_error))
    return 0.0


@jit_exact
def narrow_interval(kind, a, b, novelty, rival_novelty, square_error, low, high):
    """Return the interval of λ, (low, high), cut by one rival; EMPTY if that leaves nothing.

    a, b: how much more relevance and novelty the pick has than the rival, with their slack
    """
    # A distance to the span of the picks has an error of its own, which is computed only where it can decide.
    if b < 0:
        b += compute_novelty_error(kind, novelty, square_error)
        b += compute_novelty_error(kind, rival_novelty, square_error)
    if a >= 0 and b >= 0:
        return low, high
    # The rival is better in both parts, at every weight.
    if a < 0 and b < 0:
        return EMPTY_LOW, EMPTY_HIGH
    if a < 0:
        # A rival without any novelty is beaten at every weight but 1, where novelty counts for nothing.
        high = min(high, b / (b - a) if b < -EXCLUDED_LIMIT else MAX_WEIGHT_BELOW_1)
    else:
        low = max(low, -b / (a - b))
    if low > high:
        return EMPTY_LOW, EMPTY_HIGH
    return low, high


@jit_exact
def trace_list(
    kind, relevance, order, group_stops, tail, novelty, picks, slack_a, slack_b, square_error, first_by_relevance,
    counts, starts, lows, highs,
):  # fmt: skip
    """Trace one list: of every pick, the intervals of λ that explain it, as changes along the depth of the pool.

    relevance: (n,) the part a of the gains; order: (m,) rows by falling relevance; group_stops: (m,) one past the last
    position that ties with each position; tail: rows after those of `order`, in any order; novelty: (k, n) the part b
    before each pick; picks: (k,) rows; slack_a, slack_b: rounding of differences of either part; first_by_relevance:
    the first pick is the most relevant. Written: counts (k,), and per pick so many changes, one after the other:
    starts (depth from which it holds; m + 1 is all documents), lows, highs. Returns the number of changes.
    """
    n_events, is_chosen = 0, np.zeros(len(relevance), np.bool_)
    m = len(order)
    for rank in range(len(picks)):
        pick, low, high, first_event = picks[rank], 0.0, 1.0, n_events
        row = novelty[rank]
        by_relevance = rank == 0 and first_by_relevance
        # Without a rival every weight explains the pick.
        starts[n_events], lows[n_events], highs[n_events] = 0, low, high
        n_events += 1
        position = 0
        while position < m and high >= low:
            stop, old_low, old_high = group_stops[position], low, high
            # Rivals whose relevance ties may stand on either side of a pool's edge: they count once the pool holds
            # all of them.
            for index in range(position, stop):
                rival = order[index]
                if is_chosen[rival] or rival == pick:
                    continue
                a = relevance[pick] - relevance[rival] + slack_a
                if by_relevance:
                    if a < 0:
                        low, high = EMPTY_LOW, EMPTY_HIGH
                    continue
                b = row[pick] - row[rival] + slack_b
                if (a < 0 or b < 0) and high >= low:
                    low, high = narrow_interval(kind, a, b, row[pick], row[rival], square_error, low, high)
            if low != old_low or high != old_high:
                starts[n_events], lows[n_events], highs[n_events] = stop, low, high
                n_events += 1
            position = stop
        old_low, old_high = low, high
        # The rest of the corpus has no order: it counts for the pool of all documents alone.
        for index in range(len(tail)):
            rival = tail[index]
            if high < low:
                break
            if is_chosen[rival] or rival == pick:
                continue
            a = relevance[pick] - relevance[rival] + slack_a
            b = a if by_relevance else row[pick] - row[rival] + slack_b
            if a < 0 or b < 0:
                low, high = narrow_interval(kind, a, b, row[pick], row[rival], square_error, low, high)
        if low != old_low or high != old_high:
            starts[n_events], lows[n_events], highs[n_events] = m + 1, low, high
            n_events += 1
        counts[rank] = n_events - first_event
        is_chosen[pick] = True
    return n_events


@jit_exact
def trace_coverage(relevance, similarities, picks, positions, k, sizes, slack_a, slack_b, lows, highs):
    """Compute the intervals of λ that explain the picks of facility_location, for ground sets of several sizes.

    The ground set of size p is the p most relevant documents; a pick adds (k / p) Σ max(0, similarity − coverage).
    relevance: (m,) in falling order; similarities: (m, m) in that order; picks: (t,) positions in the order, −1 for a
    document outside; positions: (t,) the smallest ground set with the pick; sizes: ascending. Written: lows, highs,
    (t, len(sizes)), empty where the pick is outside.
    """
    m = len(relevance)
    coverage, added, is_chosen = np.zeros(m), np.empty(m), np.zeros(m, np.bool_)
    for rank in range(len(picks)):
        pick = picks[rank]
        added[:] = 0.0
        size = 0
        # Sizes ascend, so that each builds on the sums of the one before.
        for size_index in range(len(sizes)):
            # Documents join the ground set one by one: each is covered by all, and covers all.
            while size < sizes[size_index]:
                for item in range(size):
                    added[item] += max(0.0, similarities[item, size] - coverage[size])
                for item in range(size + 1):
                    added[size] += max(0.0, similarities[size, item] - coverage[item])
                size += 1
            low, high = EMPTY_LOW, EMPTY_HIGH
            # All gains are known for this size; they are lines in λ like any others.
            if pick >= 0 and positions[rank] <= size:
                low, high, factor = 0.0, 1.0, k / size
                for rival in range(size):
                    if is_chosen[rival] or rival == pick or high < low:
                        continue
                    a = relevance[pick] - relevance[rival] + slack_a
                    b = factor * (added[pick] - added[rival]) + slack_b
                    if a < 0 or b < 0:
                        low, high = narrow_interval(0, a, b, 0.0, 0.0, 0.0, low, high)
            lows[rank, size_index], highs[rank, size_index] = low, high
        if pick >= 0:
            is_chosen[pick] = True
            for item in range(m):
                coverage[item] = max(coverage[item], similarities[pick, item])


@jit_exact
def find_contribution_weights(relevance, diversity, slack_a, slack_b, lows, highs):
    """Write the weights at which each document of a list gains no less than all after it, EMPTY for none.

    relevance, diversity: (k,) the two parts of what each document contributes; lows, highs: (k,) written
    """
    for rank in range(len(relevance)):
        low, high = 0.0, 1.0
        for later in range(rank + 1, len(relevance)):
            a = relevance[rank] - relevance[later] + slack_a
            b = diversity[rank] - diversity[later] + slack_b
            if (a < 0 or b < 0) and high >= low:
                low, high = narrow_interval(0, a, b, 0.0, 0.0, 0.0, low, high)
        lows[rank], highs[rank] = low, high


@jit_exact
def order_set(relevance, similarities, weight, order):
    """Order a set as greedy max-sum picks from it at a weight; return the largest weight with that order.

    relevance: (k,) on the scale of the gains; similarities: (k, k); order: (k,) written, positions
    """
    k, highest = len(relevance), 1.0
    diversity, is_chosen = np.zeros(k), np.zeros(k, np.bool_)
    for rank in range(k):
        # The first pick is the most relevant, whatever the weight.
        lam, best, best_gain = weight if rank else 1.0, -1, -np.inf
        for item in range(k):
            gain = lam * relevance[item] + (1.0 - lam) * diversity[item]
            if not is_chosen[item] and gain > best_gain:
                best, best_gain = item, gain
        for item in range(k):
            a, b = relevance[best] - relevance[item], diversity[best] - diversity[item]
            # Only a document that is better in diversity or in relevance alone comes first at another weight.
            if rank and not is_chosen[item] and item != best and a < b and a < 0.0:
                highest = min(highest, max(b / (b - a), weight))
        order[rank], is_chosen[best] = best, True
        for item in range(k):
            diversity[item] -= 2.0 * similarities[item, best]
    return highest


@jit_exact
def rescale_weight(weight, ratio):
    """Return the λ whose gain λ·ratio·a + (1−λ)·b has the zeros of weight·a + (1−weight)·b; ratio ≥ 0.

    A scale of relevance that depends on the pool is a factor `ratio` of a: of the pool's range over the range for
    which the intervals were traced.
    """
    # At the ends one part alone decides, whatever the scale of the other.
    if weight <= 0.0 or weight >= 1.0:
        return weight
    scaled = (1.0 - weight) * ratio
    return weight / (weight + scaled)


@jit_exact
def find_intervals(offsets, starts, lows, highs, pick_starts, query_index, ratios, depth, low_at, high_at):
    """Write every pick's interval of λ for one depth of the pool to low_at, high_at, (P,); EMPTY where it has none.

    offsets: (P + 1,) where each pick's changes begin; pick_starts: (P,) the least depth with the pick; query_index:
    (P,); ratios: (Q, depths + 1) scale of relevance, (Q, 0) where it is 1 throughout
    """
    for pick in range(len(pick_starts)):
        low_at[pick], high_at[pick] = EMPTY_LOW, EMPTY_HIGH
        # A pool without the document explains nothing.
        if pick_starts[pick] > depth:
            continue
        event = offsets[pick]
        while event + 1 < offsets[pick + 1] and starts[event + 1] <= depth:
            event += 1
        if highs[event] < lows[event]:
            continue
        low_at[pick], high_at[pick] = lows[event], highs[event]
        if ratios.shape[1]:
            ratio = ratios[query_index[pick], depth]
            low_at[pick], high_at[pick] = rescale_weight(lows[event], ratio), rescale_weight(highs[event], ratio)


@jit_exact
def count_on_grid(offsets, starts, lows, highs, pick_starts, query_index, ratios, counts):
    """Count the picks that each depth of the pool and each λ of a grid explain, in `counts`, (depths + 1, L + 1).

    Row n is a pool of n documents, the last row all of them; column l is λ = l / (L − 1), the last column scratch. The
    other arguments are those of `find_intervals`.
    """
    n_rows, n_steps = counts.shape[0], counts.shape[1] - 2
    counts[:] = 0
    for pick in range(len(pick_starts)):
        event, event_stop = offsets[pick], offsets[pick + 1]
        for depth in range(max(1, pick_starts[pick]), n_rows):
            while event + 1 < event_stop and starts[event + 1] <= depth:
                event += 1
            low, high = lows[event], highs[event]
            if high < low:
                if event + 1 == event_stop:
                    break
                continue
            if ratios.shape[1]:
                ratio = ratios[query_index[pick], depth]
                low, high = rescale_weight(low, ratio), rescale_weight(high, ratio)
            # Ends that lie on the grid up to rounding belong to the interval.
            first, last = int(np.ceil(low * n_steps - 1e-9)), int(np.floor(high * n_steps + 1e-9))
            if first <= last:
                counts[depth, first] += 1
                counts[depth, last + 1] -= 1
    # Each row held the differences of its counts so far.
    for depth in range(n_rows):
        running = 0
        for column in range(counts.shape[1]):
            running += counts[depth, column]
            counts[depth, column] = running


@jit_exact
def find_best_weights(lows, highs):
    """Return the largest number of intervals that share a point, and the least and the largest such point.

    lows, highs: (P,) closed intervals; those with high < low are empty
    """
    opened, closed = np.sort(lows[lows <= highs]), np.sort(highs[lows <= highs])
    best, count, low, high, close_index = 0, 0, 0.0, 1.0, 0
    for open_index in range(len(opened)):
        # Intervals that end before this one begins; one that ends where it begins shares that point.
        while closed[close_index] < opened[open_index]:
            count -= 1
            close_index += 1
        count += 1
        if count > best:
            best, low = count, opened[open_index]
        # The next interval to end is where this best region ends.
        if count == best:
            high = closed[close_index]
    return best, low, high


@jit_exact
def sweep_depths(offsets, starts, lows, highs, pick_starts, query_index, ratios, depths, counts, low_ends, high_ends):
    """Find the best λ of each of some depths: written are its number of explained picks and the interval of such λ.

    depths: (S,); counts, low_ends, high_ends: (S,) written; the other arguments are those of `find_intervals`.
    """
    low_at, high_at = np.empty(len(pick_starts)), np.empty(len(pick_starts))
    for index in range(len(depths)):
        find_intervals(
            offsets, starts, lows, highs, pick_starts, query_index, ratios, depths[index], low_at, high_at
        )  # fmt: skip
        counts[index], low_ends[index], high_ends[index] = find_best_weights(low_at, high_at)
