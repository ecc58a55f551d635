"""Slow, plain, float64: what the definitions say, one document at a time."""

import numpy as np


def steps_top_k(rows, query, picks):
    """The score of every document at every step, given the picks before it; −inf where already chosen."""
    score = np.array([np.dot(row, query) for row in rows])
    for step in range(len(picks)):
        yield _without(score, picks[:step])


def steps_mmr(rows, query, picks, relevance_weight):
    relevance = np.array([np.dot(row, query) for row in rows])
    for step in range(len(picks)):
        if step == 0:
            yield relevance
            continue
        nearest = np.array([max(np.dot(row, rows[j]) for j in picks[:step]) for row in rows])
        yield _without(relevance_weight * relevance - (1 - relevance_weight) * nearest, picks[:step])


STEPS = {"top_k": steps_top_k, "mmr": steps_mmr}


def check_picks(name, rows, query, picks, **params):
    """Every pick is the oracle's, up to METHODS' margin; among identical rows the lowest comes first."""
    rows64, query64 = rows.astype(np.float64), query.astype(np.float64)
    margin = 1e-5 * max(1e-12, np.abs(rows64 @ query64).max())
    decided = 0
    for step, score in enumerate(STEPS[name](rows64, query64, picks, **params)):
        best = int(np.argmax(score))
        pick = picks[step]
        assert np.isfinite(score[pick]), f"step {step}: {pick} was already chosen"
        assert score[pick] >= score[best] - margin, f"step {step}: {pick} scores {score[pick]}, {best} {score[best]}"
        rivals = score.copy()
        rivals[[i for i in range(len(rows)) if (rows[i] == rows[best]).all()]] = -np.inf
        if score[best] - rivals.max() > margin:
            decided += 1
            free = [i for i in range(len(rows)) if np.isfinite(score[i]) and (rows[i] == rows[best]).all()]
            assert pick == free[0], f"step {step}: expected row {free[0]}, got {pick}"
    return decided


def _without(score, taken):
    score = score.copy()
    score[list(taken)] = -np.inf
    return score
