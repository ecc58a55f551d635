"""Slow, plain, float64: what the definitions say, one document at a time."""

import numpy as np
import torch

import engine
from engine.candidates import Candidates
from engine.matrix import Matrix
from support.stage_laws import ROUNDED_GAINS


def steps_top_k(rows, query, picks):
    """The score of every document at every step, given the picks before it; −inf where already chosen."""
    score = np.array([np.dot(row, query) for row in rows])
    for step in range(len(picks)):
        yield _without(score, picks[:step])


def steps_mmr(rows, query, picks, relevance_weight, window=None):
    relevance = np.array([np.dot(row, query) for row in rows])
    for step in range(len(picks)):
        if step == 0:
            yield relevance
            continue
        recent = picks[max(0, step - (window or step)) : step]
        nearest = np.array([max(np.dot(row, rows[j]) for j in recent) for row in rows])
        yield _without(relevance_weight * relevance - (1 - relevance_weight) * nearest, picks[:step])


def residuals(rows, chosen, least):
    """Squared distance of every row to the span of the chosen rows, a row that adds less than `least` left out."""
    kept = []
    for j in chosen:
        if _distance(rows[j], kept) > least * (rows[j] @ rows[j]):
            kept.append(rows[j])
    return np.array([_distance(row, kept) for row in rows])


def _distance(row, others):
    if not others:
        return row @ row
    span = np.array(others).T
    left = row - span @ np.linalg.lstsq(span, row, rcond=None)[0]
    return left @ left


def steps_dpp(rows, query, picks, relevance_weight, window=None, floor=1e-6):
    """Scores in which a document past the rank is a million below its relevance."""
    relevance, square = rows @ query, (rows**2).sum(1)
    unit = np.abs(np.sqrt(square) - 1).max() < 1e-6
    for step in range(len(picks)):
        if relevance_weight == 1 or (step == 0 and (unit or len(picks) == 1)):
            yield _without(relevance, picks[:step])
            continue
        left = residuals(rows, picks[max(0, step - (window or step)) : step], floor)
        with np.errstate(divide="ignore"):
            alive = relevance_weight * relevance + (1 - relevance_weight) * np.log(np.maximum(left, 1e-300))
        yield _without(np.where(left > floor * square, alive, relevance - 1e6), picks[:step])


def steps_ssd(rows, query, picks, relevance_weight, window=None):
    relevance, square = rows @ query, (rows**2).sum(1)
    unit = np.abs(np.sqrt(square) - 1).max() < 1e-6
    for step in range(len(picks)):
        if step == 0 and (unit or len(picks) == 1):
            yield relevance
            continue
        left = residuals(rows, picks[max(0, step - (window or step)) : step], 1e-12)
        left[left < 1e-12 * square] = 0
        yield _without(relevance_weight * relevance + (1 - relevance_weight) * np.sqrt(left), picks[:step])


STEPS = {"top_k": steps_top_k, "mmr": steps_mmr, "dpp": steps_dpp, "ssd": steps_ssd}


def check_picks(name, rows, query, picks, **params):
    """Every pick is the oracle's, up to METHODS' margin; how many were decided by more than that."""
    rows64, query64 = rows.astype(np.float64), query.astype(np.float64)
    margin = 1e-5 * max(1e-12, np.abs(rows64 @ query64).max())
    steps = STEPS[name](rows64, query64, picks, **params)
    return sum(is_decided(score, rows64, pick, margin) for score, pick in zip(steps, picks, strict=True))


def is_decided(score, rows, pick, margin):
    """Whether the pick scores more than all that are no duplicates of it; it may fall short of none by more.

    score: (n,) −inf where already chosen. Of identical rows the lowest must come first.
    """
    assert np.isfinite(score[pick]), f"{pick} was already chosen"
    assert score[pick] >= score.max() - margin, f"{pick} scores {score[pick]}, the best {score.max()}"
    alike = np.flatnonzero((rows == rows[pick]).all(1) & np.isfinite(score))
    decided = np.delete(score, alike).max(initial=-np.inf) < score[pick] - margin
    assert not decided or pick == alike[0], f"expected the lower row {alike[0]}, got {pick}"
    return decided


def foreign(rows, queries, seed=9):
    """Candidates whose relevance, random numbers, is another scorer's."""
    vectors = torch.tensor(rows)
    relevance = torch.tensor(np.random.default_rng(seed).standard_normal((len(queries), len(rows)))).float()
    return Candidates(vectors, relevance, torch.tensor(queries), Matrix(vectors), inner_product=False)


def lowest_of_their_kind(rows, kinds, chosen):
    """Of the rows of each kind, all alike, the lowest are chosen, in order."""
    for kind in kinds:
        members = np.flatnonzero((rows == kind).all(1)).tolist()
        taken = [i for i in chosen if i in members]
        assert taken == members[: len(taken)]


def one_at_a_time(name, rows, queries, k, **params):
    """(the answer to a batch, that to each query alone), having checked that they agree."""
    together = engine.select(name, rows, queries, k=k, **params)
    alone = [engine.select(name, rows, query, k=k, **params) for query in queries]
    for b, answer in enumerate(alone):
        assert torch.equal(answer.index[0], together.index[b])
        assert torch.allclose(answer.gain[0], together.gain[b], rtol=0, atol=1e-6 if name in ROUNDED_GAINS else 0.0)
    return together, alone


def _without(score, taken):
    score = score.copy()
    score[list(taken)] = -np.inf
    return score
