"""What is read within budgets of words: against loops over the texts."""

import numpy as np
import pytest
import torch

import engine
from engine.data.answers import containing_documents
from engine.evaluation.studies.budget_curve import compute_budget_curve
from support.rankings import queries_of, space_of

N = 30


@pytest.fixture
def data():
    rng = np.random.default_rng(3)
    texts = tuple(" ".join(f"w{i}" for i in rng.integers(0, 40, size=rng.integers(1, 30))) for _ in range(N))
    rows = rng.standard_normal((N, 6))
    grades = {f"q{b}": {f"d{row}": 1 for row in rng.choice(N, 3, replace=False)} for b in range(8)}
    answers = {f"q{b}": ("w1 w2", f"w{b}", "nowhere") for b in range(1, 8)}
    space, queries = space_of(rows, texts), queries_of(torch.from_numpy(rng.standard_normal((8, 6))))
    return space, queries, engine.Qrels(grades), containing_documents(space.corpus, answers)


def test_recall_and_answers_by_loops(data):
    space, queries, qrels, answers = data
    decoders = [engine.Decoder(engine.make("top_k")), engine.Decoder(engine.make("mmr"))]
    rows = list(compute_budget_curve(decoders, space, queries, qrels, answers, (40, 10, 90), k=12))
    assert [row.budget for row in rows] == [10, 40, 90] * 4 and {row.k for row in rows} == {12}
    for decoder in decoders:
        index = engine.decode(decoder, space, queries, k=12).index
        for budget in (10, 40, 90):
            recalls, shares, reads = [], [], []
            for b in range(8):
                read, used = [], 0
                for row in index[b].tolist():
                    used += len(space.corpus.texts[row].split())
                    if read and used > budget:
                        break
                    read.append(f"d{row}")
                relevant = qrels.relevant(f"q{b}")
                recalls.append(len(relevant & set(read)) / len(relevant))
                reads.append(len(read))
                if query_answers := answers.get(f"q{b}"):
                    texts = [f" {space.corpus.texts[int(name[1:])]} " for name in read]
                    shares.append(np.mean([any(f" {a} " in text for text in texts) for a in query_answers]))
            by_metric = {row.metric: row for row in rows if row.label == decoder.label and row.budget == budget}
            assert by_metric["budget_recall"].mean == pytest.approx(np.mean(recalls))
            assert by_metric["budget_recall"].documents == pytest.approx(np.mean(reads))
            assert by_metric["answer_coverage"].mean == pytest.approx(np.mean(shares))
            assert (by_metric["budget_recall"].queries, by_metric["answer_coverage"].queries) == (8, 7)
            assert by_metric["budget_recall"].low <= by_metric["budget_recall"].mean <= by_metric["budget_recall"].high


def test_at_the_usual_budget_it_is_the_metric(data):
    space, queries, qrels, answers = data
    decoder = engine.Decoder(engine.make("top_k"))
    ranking = engine.decode(decoder, space, queries, k=20)
    names = ("budget_recall", "answer_coverage")
    means = engine.measure(ranking, space, queries, qrels, 20, names, answers=answers).mean
    for row in compute_budget_curve([decoder], space, queries, qrels, answers, (400,), k=20):
        assert row.mean == pytest.approx(means[row.metric])
    assert [row.metric for row in compute_budget_curve([decoder], space, queries, None, answers, (400,))] == [
        "answer_coverage"
    ]
    with pytest.raises(engine.ParamError, match=r"budgets \(words\) must be a whole number"):
        list(compute_budget_curve([decoder], space, queries, qrels, budgets=(0,)))
