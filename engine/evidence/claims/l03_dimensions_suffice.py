"""L3: the dimensions that equations 2 and 3 and the corollaries name keep the errors within what is asked."""

from collections.abc import Iterator, Sequence

import numpy as np

from engine.evidence.claim import Claim, Measurement
from engine.evidence.judged_sets import JudgedSet
from engine.evidence.rules import Ruling, Scope, theorem
from engine.theory.projection_bounds import (
    pair_error_bound,
    recall_dimension,
    recall_loss_bound,
    simple_dimension,
    sufficient_dimension,
)
from engine.theory.text_vectors import SAME, inner, margins_over, squared_norms, text_vectors

CASES, ROWS, LEAST = 10_000, 50, 30_000


def measure(sets: Sequence[JudgedSet], seed: int) -> Measurement:
    """By how much the lemmas' bounds at those dimensions pass β, as a share of it, at drawn ε, β, |D| and r₀; and by
    how much each query's least boolean margin is below what Corollary 2 has, (2 |q|² L_D)^−½."""
    rng = np.random.default_rng(seed)
    drawn = [excess for _ in range(CASES) for excess in _excesses(rng)]
    broken = [excess for excess in drawn if excess > 0]
    boolean = [excess for judged in sets for excess in _boolean(judged, rng)]
    return {"drawn": {"cases": len(drawn), "broken": broken}, "boolean": boolean}


def _excesses(rng: np.random.Generator) -> Iterator[float]:
    """Of equation 2, Corollary 1 and equation 3; margins up to 1, where Corollary 1 is tight."""
    margin, error = float(rng.uniform(0.02, 1.0)), float(10 ** rng.uniform(-6, -0.01))
    documents = int(10 ** rng.uniform(0, 6))
    rank = int(rng.integers(1, documents + 1))
    margin = 1.0 if rng.random() < 0.1 else margin
    for bound in (
        pair_error_bound(sufficient_dimension(margin, error), margin),
        pair_error_bound(simple_dimension(margin, error), margin),
        recall_loss_bound(recall_dimension(margin, error, documents, rank), margin, documents, rank),
    ):
        yield bound / error - 1


def _boolean(judged: JudgedSet, rng: np.random.Generator) -> Iterator[float]:
    """Of every query, over some documents that share a word with it, each against all that score less."""
    data = text_vectors(judged.dataset.corpus, judged.queries("test"), "boolean")
    norms, lengths = squared_norms(data.documents), np.sqrt(squared_norms(data.queries))
    for place, length in enumerate(lengths):
        scores = inner(data.queries[[place]], data.documents)[0]
        matching = np.flatnonzero(scores)
        if len(matching):
            rows = rng.choice(matching, min(len(matching), ROWS), replace=False)
            margins = margins_over(rows, scores, scores[rows], length, data.documents, norms)
            if (positive := margins[margins > SAME]).size:
                yield float(f"{(2 * norms.max()) ** -0.5 / length - positive.min():.6g}")


def judge(measured: Measurement) -> Ruling:
    drawn = measured["drawn"]
    return theorem([*drawn["broken"], *[0.0] * (drawn["cases"] - len(drawn["broken"])), *measured["boolean"]], LEAST)


CLAIM = Claim(
    id="L3",
    paper="sparse-dense",
    place="Corollaries 1 and 2, eq. 2, 3",
    sentence="The dimensions that equations 2 and 3 and Corollaries 1 and 2 ask for keep the probability of an error "
    "at β or below.",
    scope=Scope.EXACT,
    measure=measure,
    rule=judge,
    sets=("cranfield", "perspectrum"),
    differs="By the lemmas' bounds at these dimensions; L1 and L4 compare the bounds with measured errors. Boolean: "
    "the least margin of each query, some of its documents against all others.",
    cost=10,
)
