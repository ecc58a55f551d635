"""Recall and answers within a reading budget of words, over budgets (sparse-dense paper, §6, Fig. 5)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from engine.candidates import without_autocast
from engine.decoder import SET_SIZE, Decoder, decode
from engine.evaluation import metrics
from engine.evaluation.aspects import Aspects
from engine.evaluation.frontier import BAND_RESAMPLES
from engine.evaluation.metrics import READING_BUDGET_WORDS
from engine.evaluation.statistics import bootstrap_intervals
from engine.evaluation.sweep.compute import embed_for_space
from engine.evaluation.sweep.sweep import check_list
from engine.params import Whole
from engine.space import Space, find_own_documents
from engine.values import Embeddings, Qrels, Queries

WORD_BUDGETS = (50, 100, 200, READING_BUDGET_WORDS, 800, 1600)
BUDGET_WORDS = Whole(
    READING_BUDGET_WORDS, "words", 1, name="budgets", help="How many words a reader takes, best document first."
)


@dataclass(frozen=True, kw_only=True)
class BudgetResult:
    """Result of one decoder at one reading budget: a reader takes so many words, best document first."""

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
def compute_budget_curve(
    decoders: Sequence[Decoder],
    space: Space,
    queries: Queries | Embeddings,
    qrels: Qrels | None = None,
    answers: Aspects | None = None,
    budgets: Sequence[int] = WORD_BUDGETS,
    k: int = 50,
) -> Iterator[BudgetResult]:
    """Measure Recall or answers found in the first documents that fit each reading budget, in words.

    decoders: each ranks k documents once, for all budgets; qrels, answers: one of them or both; budgets: in words
    separated by spaces (Luan et al. 2021, section 6, count 400 of a tokeniser's word pieces instead). Documents are
    read as in the metric `budget_recall`.
    Raises ParamError or DataError.
    """
    decoder_list = check_list(decoders, "decoders", "a list of engine.Decoder", Decoder)
    sizes = sorted(set(map(BUDGET_WORDS.check, check_list(budgets, "budgets", "a list of whole numbers"))))
    k, vectors = min(SET_SIZE.check(k), len(space)), embed_for_space(space, queries)
    measures = {"budget_recall": metrics.compute_budget_recall} if qrels is not None else {}
    measures |= {"answer_coverage": metrics.compute_answer_coverage} if answers is not None else {}
    own_rows = find_own_documents(space, vectors.ids, vectors.texts)
    own_ids = metrics.map_own_ids(space, vectors.ids, own_rows)
    qrels, answers = metrics.drop_own_judgements(qrels, own_ids), metrics.drop_own_coverage(answers, own_ids)
    for decoder in decoder_list:
        # One ranking serves all budgets, each of which cuts it elsewhere.
        retrieved = metrics.RetrievedSets(
            rows=decode(decoder, space, vectors, k).index, space=space, ids=vectors.ids, qrels=qrels, aspects=None,
            query_vectors=torch.empty(0, 0), answers=answers,
        )  # fmt: skip
        for metric, measure in measures.items():
            for budget in sizes:
                values = measure(retrieved, budget)
                # Queries without relevant documents, or answers, have no value; they count in no mean.
                is_defined = ~np.isnan(values)
                if not is_defined.any():
                    continue
                ((low_mean, high_mean),) = bootstrap_intervals(values[is_defined, None], BAND_RESAMPLES, 0)
                n_read = metrics.find_documents_read(retrieved, budget).sum(1)[is_defined]
                yield BudgetResult(
                    label=decoder.label, metric=metric, budget=budget, k=k, queries=int(is_defined.sum()),
                    mean=float(values[is_defined].mean()), low=low_mean, high=high_mean, documents=float(n_read.mean()),
                )  # fmt: skip
