"""What is read within a budget of words, over budgets: Recall, and answers (sparse-dense paper, §6, Fig. 5)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from engine.candidates import without_autocast
from engine.decoder import SET_SIZE, Decoder, decode
from engine.evaluation.aspects import Aspects
from engine.evaluation.frontier import BAND_RESAMPLES
from engine.evaluation.metrics import (
    READING_BUDGET_WORDS,
    RetrievedSets,
    compute_answer_coverage,
    compute_budget_recall,
    find_documents_read,
)
from engine.evaluation.statistics import bootstrap_intervals
from engine.evaluation.sweep.compute import embed_for_space
from engine.evaluation.sweep.sweep import check_list
from engine.params import Whole
from engine.space import Space
from engine.values import Embeddings, Qrels, Queries

BUDGETS = (50, 100, 200, READING_BUDGET_WORDS, 800, 1600)
WORDS = Whole(
    READING_BUDGET_WORDS, "words", 1, name="budgets", help="How many words a reader takes, best document first."
)


@dataclass(frozen=True, kw_only=True)
class WithinBudget:
    """One decoder and one budget."""

    label: str
    metric: str  # budget_recall or answer_coverage
    budget: int  # in words
    k: int
    queries: int  # number that have the metric
    mean: float
    low: float | None  # its 95% interval, None for one query
    high: float | None
    documents: float  # mean number that are read


@without_autocast
def budget_curve(
    decoders: Sequence[Decoder],
    space: Space,
    queries: Queries | Embeddings,
    qrels: Qrels | None = None,
    answers: Aspects | None = None,
    budgets: Sequence[int] = BUDGETS,
    k: int = 50,
) -> Iterator[WithinBudget]:
    """Recall of the relevant documents, and the share of the answers, in the first of the top-k that fit a budget.

    decoders: each ranks k documents once, for all budgets; qrels, answers: what is measured, one of them or both;
    budgets: in words as spaces part them, where the paper counts 400 word pieces. Read as `budget_recall` has it.
    Raises ParamError or DataError.
    """
    chosen = check_list(decoders, "decoders", "a list of engine.Decoder", Decoder)
    sizes = sorted({WORDS.check(budget) for budget in check_list(budgets, "budgets", "a list of whole numbers")})
    k, asked = min(SET_SIZE.check(k), len(space)), embed_for_space(space, queries)
    compute = {
        **({"budget_recall": compute_budget_recall} if qrels is not None else {}),
        **({"answer_coverage": compute_answer_coverage} if answers is not None else {}),
    }
    for decoder in chosen:
        sets = RetrievedSets(
            rows=decode(decoder, space, asked, k).index, space=space, ids=asked.ids, qrels=qrels, aspects=None,
            query_vectors=torch.empty(0, 0), answers=answers,
        )  # fmt: skip
        for metric, measure in compute.items():
            for budget in sizes:
                values = measure(sets, budget)
                defined = ~np.isnan(values)
                if not defined.any():
                    continue
                ((low, high),) = bootstrap_intervals(values[defined, None], BAND_RESAMPLES, 0)
                read = find_documents_read(sets, budget).sum(1)[defined]
                yield WithinBudget(
                    label=decoder.label, metric=metric, budget=budget, k=k, queries=int(defined.sum()),
                    mean=float(values[defined].mean()), low=low, high=high, documents=float(read.mean()),
                )  # fmt: skip
