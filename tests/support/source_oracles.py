"""Oracles of a limit per source: greedy steps in float64 that refuse a document of a full source."""

import numpy as np

import engine
from support.selector_oracles import STEPS, is_decided, score_ssd, score_top_k


def make_sourced_space(rows, sources):
    """Make a Space of rows whose documents have a metadata column "source"."""
    ids = tuple(f"d{row}" for row in range(len(rows)))
    corpus = engine.Corpus(ids, ids, metadata={"source": tuple(sources)})
    return engine.Space(corpus, engine.Embeddings(ids, rows), "cpu")


def draw_sources(rng, n, n_sources):
    """Draw a source for each of n documents, "" for about one in eight."""
    names = [f"s{number}" for number in range(n_sources)]
    return tuple("" if rng.random() < 1 / 8 else names[rng.integers(n_sources)] for _ in range(n))


def is_full(sources, chosen, row, limit):
    """Return True if a document may not be picked, as its source is full; one without a source always may."""
    return bool(sources[row]) and sum(sources[row] == sources[other] for other in chosen) >= limit


def score_vrsd(rows, query, chosen, k):
    """Score documents by the cosine of query and sum; the first by relevance."""
    if not chosen:
        return rows @ query
    sums = rows + rows[chosen].sum(0)
    lengths = np.linalg.norm(sums, axis=1) * np.linalg.norm(query)
    return np.where(lengths > 1e-12, sums @ query / np.where(lengths > 1e-12, lengths, 1), 0.0)


SCORES = {**STEPS, "top_k": score_top_k, "ssd": score_ssd, "vrsd": score_vrsd}


def check_limited_picks(name, rows, query, picks, k, sources, limit, **params):
    """Assert that every pick is the best of a source that is not full; return the number decided by a margin."""
    rows64, query64 = rows.astype(np.float64), query.astype(np.float64)
    margin = 1e-5 * max(1e-12, np.abs(rows64 @ query64).max())
    decided = 0
    for step in range(len(picks) + 1):
        chosen = picks[:step]
        score = np.asarray(SCORES[name](rows64, query64, chosen, k, **params), dtype=np.float64).copy()
        score[chosen] = -np.inf
        for row in range(len(rows)):
            if is_full(sources, chosen, row, limit):
                score[row] = -np.inf
        if step == len(picks):
            assert step == min(k, len(rows)) or not np.isfinite(score).any(), "a document could still be picked"
            break
        pick = picks[step]
        assert np.isfinite(score[pick]), f"{pick} was chosen already, or its source is full"
        assert score[pick] >= score.max() - margin, f"{pick} scores {score[pick]}, the best {score.max()}"
        decided += is_decided(score, rows64, pick, margin)
    return decided


def take_below_limited(rows, query, k, threshold, fill, sources, limit):
    """Return the rows that `threshold` picks with a limit per source, document by document."""
    rows64 = rows.astype(np.float64)
    lengths = np.sqrt((rows64**2).sum(1))
    taken, dropped = [], []
    for row in np.argsort(-(rows64 * query.astype(np.float64)).sum(1), kind="stable").tolist():
        if is_full(sources, taken, row, limit):
            continue
        scales = [lengths[row] * lengths[other] for other in taken]
        cosines = [rows64[row] @ rows64[j] / scale if scale else 0.0 for j, scale in zip(taken, scales, strict=True)]
        (dropped if any(cosine > threshold + 1e-12 for cosine in cosines) else taken).append(row)
    chosen = taken[:k]
    for row in dropped if fill == "fill" else ():
        if len(chosen) < k and not is_full(sources, chosen, row, limit):
            chosen.append(row)
    return chosen
