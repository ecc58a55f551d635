"""Judged sets as deployments: what comes, what is measured, and the gains query by query."""

import numpy as np
import pytest
import torch

import engine
from engine.evidence.deployments import deploy_set, pick_cells
from engine.evidence.judged_sets import JudgedSet

COUNT = 12


@pytest.fixture
def one(monkeypatch):
    """A deployment of twelve documents on a circle; document 0 is right for most of the stream."""
    ids = tuple(map(str, range(COUNT)))
    angles = torch.arange(COUNT) * (2 * torch.pi / COUNT)
    names = {f"{split}{row}": row for split in ("train", "dev", "test") for row in range(COUNT)}

    def embed(what, encoder):
        turns = angles if what.ids == ids else torch.tensor([names[q] for q in what.ids]) * (2 * torch.pi / COUNT) + 0.3
        return engine.Embeddings(what.ids, torch.stack([turns.cos(), turns.sin()], 1))

    monkeypatch.setattr(engine, "embed", embed, raising=False)
    qrels = {
        split: engine.Qrels({f"{split}{row}": {str(row if row % 2 else 0): 1, "gone": 1} for row in range(COUNT)})
        for split in ("train", "dev", "test")
    }
    dataset = engine.Dataset(engine.Corpus(ids, ids), engine.Queries(tuple(names), tuple(names)), qrels)
    return deploy_set(JudgedSet(name="circle", dataset=dataset, encoder="none"))


def test_what_comes_is_not_what_is_measured(one):
    assert set(one.stream.grades) == {f"train{row}" for row in range(COUNT)}
    assert set(one.held_out.grades) == {f"{split}{row}" for split in ("dev", "test") for row in range(COUNT)}
    assert one.hops == {}
    # Rows 0 and the odd ones are right in the stream, and the even ones never are; half of twelve is never or once.
    assert one.tail.sum() == sum(int(query[-1]) % 2 for query in one.held_out.grades)


def test_gains_are_what_the_moved_documents_change(one):
    runs = [one.run(seed, exposure=20) for seed in (0, 1)]
    gains = one.gains(runs)
    assert set(pick_cells(gains, "ndcg")) == {"held-out ndcg@10", "stream ndcg@10"}
    queries, right = one.select_queries(one.held_out), {q: int(next(iter(g))) for q, g in one.held_out.grades.items()}

    def recall(vectors):
        best = np.argsort(-(queries.vectors.numpy() @ vectors.T), axis=1, kind="stable")[:, :10]
        return np.array([100 * (right[q] in row) / 2 for q, row in zip(queries.ids, best.tolist(), strict=True)])

    moved = np.mean([recall(run.final.astype(np.float32)) for run in runs], axis=0)
    expected = moved - recall(one.space.vectors.numpy())
    assert moved.any() and gains["held-out recall@10"] == pytest.approx(expected)


def test_fewer_dimensions_have_length_one(one):
    narrow = one.truncate(1)
    assert narrow.space.vectors.abs().flatten().tolist() == pytest.approx([1.0] * COUNT)
    assert narrow.queries.vectors.shape == (3 * COUNT, 1)


def test_a_set_without_a_stream_is_said(one):
    dataset = engine.Dataset(one.space.corpus, engine.Queries(("q",), ("q",)), {"test": engine.Qrels({"q": {"0": 1}})})
    with pytest.raises(engine.DataError, match="judgements of lone to learn from, train"):
        deploy_set(JudgedSet(name="lone", dataset=dataset, encoder="none"))
