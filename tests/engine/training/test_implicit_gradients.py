"""Derivatives of exact elastic nets and of both losses: against differences, unrolled FISTA, and formulas."""

import numpy as np
import pytest
import torch
from torch.nn.functional import cosine_similarity

from engine.training import implicit
from engine.training.adapters import Adapters, CorpusAdapter, OverVectors, QueryAdapter
from engine.training.dataset import TrainingBatch
from engine.training.implicit import WeightGraph, implicit_weights, supports, weight_graph
from engine.training.losses import extend_weights, info_nce, set_margin
from engine.training.recipes.nnn import unroll_fista
from support.draws import deepen
from support.elastic_oracles import minimiser, paper_fista, violations
from support.instances import clustered_rows, random_rows, unit

L1, L2 = 0.15, 0.05


def instance(seed, n=12, d=6, batch=4, rows=random_rows):
    """Rows, queries near two or three of them, the last one with no document near it, and what is relevant."""
    rng = np.random.default_rng(seed)
    documents = rows(rng, n, d)
    mixed = documents[rng.integers(n, size=(batch, 3))].mean(1) + 0.2 * rng.standard_normal((batch, d))
    queries = unit(mixed)
    queries[-1] = -unit(documents.sum(0)) * 0.1
    relevant = np.zeros((batch, n), bool)
    for b in range(batch):
        relevant[b, rng.permutation(n)[: 1 + b % 3]] = True
    return [torch.from_numpy(a) for a in (documents, queries, relevant)]


def as_leaves(*values):
    return [torch.as_tensor(v, dtype=torch.float64).clone().requires_grad_(True) for v in values]


def weights_of(rows, queries, l1=L1, l2=L2):
    """(B, n) exact weights, differentiable in rows U (n, d) and queries (B, d)."""
    return implicit_weights(rows, queries, l2, supports(rows, queries, l1, l2))


def sizes_of(support):
    """(B,) how many documents have a weight."""
    return support.mask.sum(1)


def compute_loss(kind, rows, queries, relevant, l2=L2, max_documents=3):
    result = WeightGraph(rows, queries, weights_of(rows, queries, l2=l2), relevant, 0)
    if kind == "extended":
        return set_margin(extend_weights(result, L1, l2), relevant, 0, max_documents)
    return set_margin(result.weights, relevant)


@pytest.mark.parametrize("seed", deepen(range(3), (1, 2)))
def test_weights_and_both_losses_differentiate(seed):
    rows, queries, relevant = instance(seed)
    sizes = sizes_of(supports(rows, queries, L1, L2))
    assert sizes[-1] == 0 and sizes[:-1].min() > 0, "one support must be empty and the others not"
    assert torch.autograd.gradcheck(weights_of, as_leaves(rows, queries))
    weights = weights_of(rows, queries)
    assert ((weights == 0) & relevant).any() and ((weights > 0) & relevant).any()
    for kind in ("extended", "eq6"):
        assert (compute_loss(kind, rows, queries, relevant) > 0).any()
        assert torch.autograd.gradcheck(lambda u, v, k=kind: compute_loss(k, u, v, relevant), as_leaves(rows, queries))


@pytest.mark.parametrize("kind", ["extended", "eq6"])
def test_without_a_ridge_they_differentiate_too(kind):
    """λ₂ = 0, up to the 1e-6 that the backward solve adds."""
    rows, queries, relevant = instance(1)
    loss = lambda u, v: compute_loss(kind, u, v, relevant, 0.0)  # noqa: E731
    assert torch.autograd.gradcheck(loss, as_leaves(rows, queries), atol=1e-4, rtol=1e-4)


def test_an_empty_support_pulls_its_relevant_documents_in_the_extended_loss_alone():
    rows, queries, relevant = instance(0)
    for kind in ("extended", "eq6"):
        u, v = as_leaves(rows, queries)
        compute_loss(kind, u, v[-1:], relevant[-1:]).sum().backward()
        moved = u.grad.abs().sum(1) > 0
        assert moved.equal(relevant[-1]) if kind == "extended" else not moved.any()


@pytest.mark.parametrize("family", [random_rows, clustered_rows])
def test_as_through_two_thousand_steps_of_fista(family):
    rows, queries, relevant = instance(5, n=60, d=16, batch=8, rows=family)
    pulls = []
    for mode in ("implicit", "unrolled"):
        u, v = as_leaves(rows, queries)
        weights = weights_of(u, v) if mode == "implicit" else unroll_fista(u, v, L1, L2, 2000)
        set_margin(
            extend_weights(WeightGraph(u, v, weights, relevant, 0), L1, L2), relevant, 0, max_documents=8
        ).sum().backward()
        pulls.append((u.grad.flatten(), v.grad.flatten()))
    for mine, theirs in zip(*pulls, strict=True):
        assert theirs.norm() > 0
        assert float(cosine_similarity(mine, theirs, dim=0)) > 0.999
        assert float(mine.norm() / theirs.norm()) == pytest.approx(1, abs=0.01)


@pytest.mark.parametrize("steps", [1, 7, 50])
@pytest.mark.parametrize("n, d", [(30, 6), (8, 12)])
def test_unrolled_steps_are_those_of_the_paper(steps, n, d):
    """Also where the mean row says nothing of the direction in which the rows are longest."""
    rows, queries, _ = instance(3, n=n, d=d)
    for corpus in (rows, torch.cat([rows, -0.999 * rows])):
        result = unroll_fista(corpus, queries, L1, L2, steps)
        for b, query in enumerate(queries):
            assert np.abs(result[b].numpy() - paper_fista(corpus, query, L1, L2, steps)).max() < 1e-12


@pytest.mark.parametrize("l2", [0.05, 0.0])
def test_minimisers_over_many_rows_are_those_over_all_at_once(l2, monkeypatch):
    """The rows that queries have in common, grown until all others are proven to have no weight."""
    rows, queries, _ = instance(7, n=400, d=24, batch=9, rows=clustered_rows)
    rows, queries = rows.float(), queries.float()
    expected = supports(rows, queries, 0.03, l2)
    monkeypatch.setattr(implicit, "MAX_DIRECT_ROWS", 10)
    monkeypatch.setattr(implicit, "FIRST_SUPPORT_SIZE", 2)
    grown = supports(rows, queries, 0.03, l2)
    full = [torch.zeros(9, 400, dtype=torch.float64).scatter_add_(1, s.members, s.weights) for s in (expected, grown)]
    assert sizes_of(expected)[:-1].min() > 3 and (expected.weights[~expected.mask] == 0).all()
    assert (full[0] - full[1]).abs().max() < 1e-8
    assert violations(rows, queries, full[1].numpy(), 0.03, l2).max() < 1e-8
    for b in range(0, 9, 4):
        assert np.abs(full[1][b].numpy() - minimiser(rows, queries[b], 0.03, l2)).max() < 1e-5


@pytest.mark.parametrize("excess", [1e-4, 3e-8])
def test_a_row_whose_dual_exceeds_the_penalty_a_little_joins_the_support(excess, monkeypatch):
    """Over the first row alone the second one's dual is x/2 = λ₁ + excess: above a millionth of the largest score, or
    nearer to λ₁ than float32 can tell. It has a weight either way."""
    x = np.float32(0.4)
    rows = torch.tensor([[1.0, 0.0, 0.0], [0.0, x, np.sqrt(1 - x * x)]], dtype=torch.float32)
    l1 = float(x) / 2 - excess
    monkeypatch.setattr(implicit, "MAX_DIRECT_ROWS", 1)
    monkeypatch.setattr(implicit, "FIRST_SUPPORT_SIZE", 1)
    support = supports(rows, torch.tensor([[1.0, 0.5, 0.0]]), l1, 0.1)
    assert support.members[support.mask].tolist() == [0, 1]
    assert support.weights[0].tolist() == pytest.approx([(1 - l1) / 1.1, excess / 1.1], rel=1e-4)


def over_vectors(n=60, d=16, queries=8):
    rng = np.random.default_rng(2)
    rows, points = clustered_rows(rng, n, d), random_rows(rng, queries, d)
    generator = torch.Generator().manual_seed(0)
    corpus = CorpusAdapter(d, 24, generator)
    torch.nn.init.constant_(corpus.alpha, -1.0)  # so that the network has a share in the answer
    adapters = Adapters(QueryAdapter(d, 24, generator), (corpus,))
    return OverVectors(adapters, torch.from_numpy(points).float(), torch.from_numpy(rows).float())


@pytest.mark.parametrize("kind", ["extended", "eq6"])
def test_a_graph_of_the_rows_that_count_is_the_whole_graph(kind):
    model = over_vectors()
    relevant = torch.rand(8, 60, generator=torch.Generator().manual_seed(1)) < 0.05
    relevant[:, 3] = True
    every, gradients, values = torch.arange(8), [], []
    batch = TrainingBatch(every, *relevant.nonzero(as_tuple=True), relevant.sum(1))
    for mode in ("few", "all"):
        model.zero_grad()
        v, full = model.encode_query(every), model.encode_corpus()
        if mode == "few":
            result = weight_graph(full.detach(), model.encode_corpus, v, batch, 0.05, 0.05)
            assert 0 < result.rows.shape[0] < 60 and result.beyond == 60 - result.rows.shape[0]
        else:
            result = WeightGraph(full, v, weights_of(full, v, 0.05, 0.05), relevant, 0)
        scores, max_documents = (
            (extend_weights(result, 0.05, 0.05), 32) if kind == "extended" else (result.weights, None)
        )
        values.append(set_margin(scores, result.relevant, result.beyond, max_documents))
        values[-1].mean().backward()
        gradients.append(torch.cat([p.grad.flatten() for p in model.parameters()]))
    assert values[1].min() >= 0 and values[1].max() > 0 and (values[0] - values[1]).abs().max() <= 1e-5
    assert gradients[1].norm() > 0 and (gradients[0] - gradients[1]).abs().max() <= 1e-5 * gradients[1].abs().max()


def test_only_the_support_and_the_relevant_documents_have_a_gradient():
    for seed in range(4):
        rows, queries, relevant = instance(seed, n=40, d=8, batch=3)
        u, v = as_leaves(rows, queries)
        weights = weights_of(rows, queries)
        compute_loss("extended", u, v, relevant, max_documents=32).sum().backward()
        pulled = u.grad.abs().sum(1) > 0
        free = ~((weights > 0).any(0) | relevant.any(0))
        assert free.sum() > 10 and not pulled[free].any() and pulled[relevant.any(0)].any()


def by_the_book(weights, relevant, gamma, tau):
    """Eq. 6, as printed."""
    high = gamma * tau * np.log(np.exp(weights[~relevant] / tau).sum())
    return max(0.0, high + tau * np.log(np.exp(-weights[relevant] / tau).sum()))


@pytest.mark.parametrize("gamma, tau", [(1.5, 0.1), (1.1, 0.5)])
def test_the_margin_is_eq_6_whether_zeros_are_listed_or_counted(gamma, tau):
    rng = np.random.default_rng(0)
    weights = np.maximum(rng.standard_normal((6, 30)), 0) * (rng.random((6, 30)) < 0.4)
    relevant = rng.random((6, 30)) < 0.15
    relevant[:, 0] = True
    expected = [by_the_book(w, r, gamma, tau) for w, r in zip(weights, relevant, strict=True)]
    w, r = torch.from_numpy(weights), torch.from_numpy(relevant)
    assert np.abs(set_margin(w, r, gamma=gamma, tau=tau).numpy() - expected).max() < 1e-12
    assert np.abs(set_margin(w, r, max_documents=30, gamma=gamma, tau=tau).numpy() - expected).max() < 1e-12
    for b in range(6):
        max_documents = int((~r[b]).sum())
        single = set_margin(w[b : b + 1].float(), r[b : b + 1], max_documents=max_documents, gamma=gamma, tau=tau)
        assert abs(float(single) - expected[b]) < 1e-6
        # Documents without a weight that are not listed at all.
        counted = (w[b] > 0) | r[b]
        partial = set_margin(
            w[b : b + 1, counted], r[b : b + 1, counted], int((~counted).sum()), max_documents, gamma, tau
        )
        assert abs(float(partial) - expected[b]) < 1e-12


def test_only_so_many_irrelevant_documents_count():
    w = torch.tensor([[0.9, 0.5, 0.4, 0.0, 0.0, 0.7]])
    r = torch.tensor([[False, False, False, False, False, True]])
    listed = set_margin(w[:, [0, 1, 5]], r[:, [0, 1, 5]])
    assert set_margin(w, r, max_documents=2) == pytest.approx(float(listed))
    with_zeros = set_margin(w[:, [0, 1, 2, 3, 5]], r[:, [0, 1, 2, 3, 5]])
    assert set_margin(w[:, [0, 1, 2, 5]], r[:, [0, 1, 2, 5]], beyond=7, max_documents=4) == pytest.approx(
        float(with_zeros)
    )


def test_where_every_document_is_relevant_there_is_nothing_to_lose():
    w = torch.rand(2, 5, requires_grad=True)
    values = set_margin(w, torch.ones(2, 5, dtype=torch.bool), max_documents=3)
    values.sum().backward()
    assert values.tolist() == [0, 0] and not w.grad.any()
    info = info_nce(w, torch.ones(2, 5, dtype=torch.bool))
    info.sum().backward()
    assert info.abs().max() < 1e-6 and w.grad.isfinite().all()


def test_what_a_relevant_document_misses_is_its_weight_without_the_bound():
    """(u·ρ − λ₁)/(|u|² + λ₂): where its own weight alone would be best, were it allowed to be negative."""
    rows, queries, relevant = instance(2)
    rows = rows * torch.linspace(0.5, 2, len(rows), dtype=torch.float64).unsqueeze(1)
    weights = weights_of(rows, queries)
    scores = extend_weights(WeightGraph(rows, queries, weights, relevant, 0), L1, L2)
    assert scores.masked_fill(relevant & (weights == 0), 0).equal(weights)
    places = (relevant & (weights == 0)).nonzero().tolist()
    assert len(places) > 2
    for b, j in places:
        residual = queries[b] - weights[b] @ rows
        away = torch.linspace(-2, 0.5, 100_001, dtype=torch.float64)
        square = rows[j] @ rows[j]
        cost = 0.5 * away**2 * square - away * (residual @ rows[j]) + L1 * away + 0.5 * L2 * away**2
        assert float(scores[b, j]) == pytest.approx(float(away[cost.argmin()]), abs=1e-4)
        assert scores[b, j] <= 1e-12


def test_info_nce_masks_the_other_relevant_documents():
    rng = np.random.default_rng(3)
    score, relevant = rng.standard_normal((4, 9)), rng.random((4, 9)) < 0.3
    relevant[:, 0], relevant[:, 1] = True, False
    result = info_nce(torch.from_numpy(score), torch.from_numpy(relevant), 0.1)
    for s, r, value in zip(score / 0.1, relevant, result, strict=True):
        terms = [-np.log(np.exp(s[p]) / (np.exp(s[p]) + np.exp(s[~r]).sum())) for p in np.flatnonzero(r)]
        assert float(value) == pytest.approx(np.mean(terms), rel=1e-9)
