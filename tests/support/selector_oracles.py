"""Oracles of the selectors: their definitions in float64, one document at a time."""

import numpy as np
import torch

import engine
from engine.candidates import Candidates
from engine.matrix import Matrix
from support.stage_laws import ROUNDED_GAINS


def score_top_k(rows, query, chosen, k):
    """Score every document at the next of k steps; the scores of chosen ones are not used."""
    return np.array([np.dot(row, query) for row in rows])


def score_mmr(rows, query, chosen, k, relevance_weight, window=None):
    relevance = score_top_k(rows, query, chosen, k)
    if not chosen:
        return relevance
    nearest = np.array([max(np.dot(row, rows[j]) for j in chosen[-(window or k) :]) for row in rows])
    return relevance_weight * relevance - (1 - relevance_weight) * nearest


def residuals(rows, chosen, min_share):
    """Compute squared distances to the span of the chosen rows, without rows that add under `min_share`."""
    basis = []
    for j in chosen:
        if _distance(rows[j], basis) > min_share * (rows[j] @ rows[j]):
            basis.append(rows[j])
    return np.array([_distance(row, basis) for row in rows])


def _distance(row, basis):
    if not basis:
        return row @ row
    span = np.array(basis).T
    residual = row - span @ np.linalg.lstsq(span, row, rcond=None)[0]
    return residual @ residual


def _by_relevance(rows, chosen, k):
    """Return True if the first pick is by relevance alone: rows of unit length, or k = 1."""
    return not chosen and (k == 1 or np.abs(np.linalg.norm(rows, axis=1) - 1).max() < 1e-6)


def score_dpp(rows, query, chosen, k, relevance_weight, window=None, floor=1e-6):
    """Score documents; one past the rank is a million below its relevance."""
    relevance, square = rows @ query, (rows**2).sum(1)
    if relevance_weight == 1 or _by_relevance(rows, chosen, k):
        return relevance
    remaining = residuals(rows, chosen[-(window or k) :], floor)
    alive = relevance_weight * relevance + (1 - relevance_weight) * np.log(np.maximum(remaining, 1e-300))
    return np.where(remaining > floor * square, alive, relevance - 1e6)


def score_ssd(rows, query, chosen, k, relevance_weight, window=None):
    relevance, square = rows @ query, (rows**2).sum(1)
    if _by_relevance(rows, chosen, k):
        return relevance
    remaining = residuals(rows, chosen[-(window or k) :], 1e-12)
    remaining[remaining < 1e-12 * square] = 0
    return relevance_weight * relevance + (1 - relevance_weight) * np.sqrt(remaining)


STEPS = {"top_k": score_top_k, "mmr": score_mmr, "dpp": score_dpp, "ssd": score_ssd}


def check_picks(name, rows, query, picks, **params):
    """Assert that every pick is the oracle's up to METHODS' margin; count those decided by more."""
    rows64, query64 = rows.astype(np.float64), query.astype(np.float64)
    margin = 1e-5 * max(1e-12, np.abs(rows64 @ query64).max())
    decided = 0
    for step, pick in enumerate(picks):
        score = STEPS[name](rows64, query64, picks[:step], len(picks), **params)
        score[picks[:step]] = -np.inf
        decided += is_decided(score, rows64, pick, margin)
    return decided


def is_decided(score, rows, pick, margin):
    """Return True if the pick beats all rows but its duplicates by `margin`; assert that none beats it by more.

    score: (n,) −inf where already chosen. Of identical rows the lowest must come first.
    """
    assert np.isfinite(score[pick]), f"{pick} was already chosen"
    assert score[pick] >= score.max() - margin, f"{pick} scores {score[pick]}, the best {score.max()}"
    alike = np.flatnonzero((rows == rows[pick]).all(1) & np.isfinite(score))
    decided = np.delete(score, alike).max(initial=-np.inf) < score[pick] - margin
    assert not decided or pick == alike[0], f"expected the lower row {alike[0]}, got {pick}"
    return decided


def take_below(rows, query, k, threshold, fill="strict", relevance=None):
    """Return the rows that `threshold` picks: document by document, with cosines one pair at a time.

    relevance: (n,) the scorer's numbers, None for inner products with the query
    """
    rows64 = rows.astype(np.float64)
    lengths = np.sqrt((rows64**2).sum(1))
    relevance = (rows64 * query.astype(np.float64)).sum(1) if relevance is None else relevance
    taken, dropped = [], []
    for row in np.argsort(-relevance, kind="stable").tolist():
        scales = [lengths[row] * lengths[other] for other in taken]
        cosines = [rows64[row] @ rows64[j] / scale if scale else 0.0 for j, scale in zip(taken, scales, strict=True)]
        is_similar = any(cosine > threshold + 1e-12 for cosine in cosines)
        (dropped if is_similar else taken).append(row)
    return ([*taken, *dropped] if fill == "fill" else taken)[:k]


def make_foreign_candidates(rows, queries, seed=9):
    """Make candidates whose relevance, random numbers, is another scorer's."""
    vectors = torch.tensor(rows)
    relevance = torch.tensor(np.random.default_rng(seed).standard_normal((len(queries), len(rows)))).float()
    return Candidates(vectors, relevance, torch.tensor(queries), Matrix(vectors), inner_product=False)


def space_of(rows):
    """Make a Space of rows, whose Gram matrix all queries share."""
    ids = tuple(map(str, range(len(rows))))
    return engine.Space(engine.Corpus(ids, ids), engine.Embeddings(ids, torch.tensor(rows)), "cpu")


def assert_lowest_copies_first(rows, kinds, chosen):
    """Assert that of the identical rows of each kind the lowest are chosen, in order."""
    for kind in kinds:
        members = np.flatnonzero((rows == kind).all(1)).tolist()
        chosen_members = [i for i in chosen if i in members]
        assert chosen_members == members[: len(chosen_members)]


def select_together_and_alone(name, rows, queries, k, **params):
    """Return (the answer to a batch, that to each query alone) after asserting that they agree."""
    together = engine.select(name, rows, queries, k=k, **params)
    alone = [engine.select(name, rows, query, k=k, **params) for query in queries]
    for b, answer in enumerate(alone):
        assert torch.equal(answer.index[0], together.index[b])
        assert torch.allclose(answer.gain[0], together.gain[b], rtol=0, atol=1e-6 if name in ROUNDED_GAINS else 0.0)
    return together, alone
