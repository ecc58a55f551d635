"""Agreement of a model's grades with a person's, and the refusal of a judge that is no better than chance."""

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from engine.errors import DataError
from engine.progress import counted
from engine.values import Qrels
from engine.wording import decimal, percent

UNNAMED_JUDGE = "a model"
UPPER_TAIL = 0.975
"""Probability below the upper end of a two-sided 95% interval."""
KAPPA_TOLERANCE = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeAgreement:
    """Agreement of a model with a person on the pairs of a query and a document that both graded."""

    judge: str  # the model's name
    pairs: int
    queries: int  # on which these pairs are
    same: int  # number of pairs with equal grades
    kappa: (
        float | None
    )  # Cohen 1968, quadratic weights: 1 is full agreement, 0 chance; None where one of them gave one grade alone
    low: float | None  # ends of its 95% interval; None for a single query
    high: float | None
    item: str = "document"  # what both graded

    @property
    def sentence(self) -> str:
        """The agreement in words, "MODEL gives your grade to 78% of 400 documents (κ 0.52, 0.44 to 0.60)."."""
        kappa_text = ""
        if self.kappa is not None:
            kappa_text = f"κ {decimal(self.kappa, 2)}"
            if self.low is not None and self.high is not None:
                kappa_text += f", {decimal(self.low, 2)} to {decimal(self.high, 2)}"
            kappa_text = f" ({kappa_text})"
        share_text, n_text = percent(self.same / self.pairs), counted(self.pairs, self.item)
        return f"{self.judge} gives your grade to {share_text} of {n_text}{kappa_text}."


def compute_judge_agreement(
    person: Qrels, model: Qrels, judge: str = UNNAMED_JUDGE, item: str = "document"
) -> JudgeAgreement:
    """Compute how far a model's grades agree with a person's: Cohen's κ with quadratic weights, and its interval.

    With quadratic weights κ is 2·cov(a, b)/(var a + var b + (mean a − mean b)²), for two grades the plain one. Pairs of
    one query depend on each other, so the interval is that of the jackknife over queries. Where the person's
    judgements are complete, a document that they lack has grade 0. item: what was graded, for sentences. Raises
    DataError if nothing was judged by both.
    """
    sums = []
    for query_id, grades in person.grades.items():
        model_grades = model.grades.get(query_id, {})
        person_grades = grades if person.is_pooled else {**dict.fromkeys(model_grades, 0), **grades}
        rows = [(grade, model_grades[doc_id]) for doc_id, grade in person_grades.items() if doc_id in model_grades]
        if rows:
            # All that κ needs are sums, so leaving out a query later is a subtraction.
            person_column, model_column = np.array(rows, dtype=float).T
            n_equal = float((person_column == model_column).sum())
            products = person_column @ person_column, model_column @ model_column, person_column @ model_column
            sums.append((len(rows), person_column.sum(), model_column.sum(), *products, n_equal))
    if not sums:
        raise DataError(f"{judge} must have graded some of the {item}s that you graded; got none of them")
    table = np.array(sums)
    # κ of all pairs, and of all but those of one query at a time.
    total, n_queries, low, high = table.sum(0), len(table), None, None
    kappa = float(_compute_kappa(total[None])[0])
    if n_queries > 1 and not math.isnan(kappa):
        without_one = _compute_kappa(total - table)
        # Without its only query of another grade κ is undefined, and the query tells nothing of the spread.
        without_one = without_one[np.isfinite(without_one)]
        spread = math.sqrt((n_queries - 1) / n_queries * float(((without_one - without_one.mean()) ** 2).sum()))
        margin = float(stdtrit(n_queries - 1, UPPER_TAIL)) * spread
        low, high = max(-1.0, kappa - margin), min(1.0, kappa + margin)
    return JudgeAgreement(
        judge=judge, pairs=int(total[0]), queries=n_queries, same=int(total[-1]),
        kappa=None if math.isnan(kappa) else kappa, low=low, high=high, item=item,
    )  # fmt: skip


def _compute_kappa(sums: np.ndarray) -> np.ndarray:
    """Return the (r,) quadratically weighted κ of rows of sums: pairs, a, b, a², b², ab.

    NaN where one of the two gave one grade alone.
    """
    n_pairs, person_mean, model_mean, person_squares, model_squares, products = sums[:, :6].T / np.maximum(
        sums[:, 0], 1
    )
    variances = np.stack([person_squares - person_mean**2, model_squares - model_mean**2])
    spread = variances.sum(0) + (person_mean - model_mean) ** 2
    # Of a judge who gives one grade throughout, κ is 0 whatever the other does: it tells nothing.
    has_spread = (variances.min(0) > KAPPA_TOLERANCE) & (n_pairs > 0)
    kappa: np.ndarray = np.where(
        has_spread, 2 * (products - person_mean * model_mean) / np.where(has_spread, spread, 1), np.nan
    )
    return kappa


def check_judge(person: Qrels, model: Qrels, judge: str = UNNAMED_JUDGE, item: str = "document") -> JudgeAgreement:
    """Return a model's agreement with a person; raise DataError for a judge that is no better than chance."""
    agreement = compute_judge_agreement(person, model, judge, item)
    if agreement.kappa is not None and agreement.kappa <= 0:
        raise DataError(
            f"{judge} must agree with you better than chance; κ is {decimal(agreement.kappa, 2)} on "
            f"{agreement.pairs:,} {item}s that both graded. Judge by another model, or leave its judgements out"
        )
    return agreement
