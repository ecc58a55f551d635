"""Steps that gather rounds or remember earlier ones, against PyTorch's optimisers and the plain mean."""

import numpy as np
import pytest
import torch

from engine import orag
from engine.feedback import embedding_state
from engine.feedback.records import Event
from support.feedback import feed_outcomes, gradient, queries_near, random_space

ROUNDS, N, D = 24, 40, 6
FREE = {"cap": None, "trust": None, "ball": False, "temperature": 0.3}


@pytest.fixture(autouse=True)
def blocks_are_small(monkeypatch):
    monkeypatch.setattr(embedding_state, "STATE_BLOCK_NUMBERS", 3 * D)


@pytest.fixture(scope="module")
def space():
    return random_space(N, D)


def gradients(session):
    return [np.outer(gradient(event, N), event.query.exact) for event in session.events]


@pytest.mark.parametrize("mode", ("full", "chosen"))
@pytest.mark.parametrize("batch", (1, 4))
@pytest.mark.parametrize("schedule", ("constant", "sqrt"))
def test_adamw_is_pytorchs(space, mode, batch, schedule):
    how = {"mode": mode, "batch": batch, "schedule": schedule}
    after = feed_outcomes(orag.session(space, optimizer="adamw", rate=0.01, **how, **FREE), ROUNDS)
    theta = torch.tensor(space.vectors.numpy().astype(float), requires_grad=True)
    optimiser = torch.optim.AdamW([theta], lr=0.01)
    parts = gradients(after)
    for step, start in enumerate(range(0, ROUNDS, batch), 1):
        optimiser.param_groups[0]["lr"] = 0.01 / (np.sqrt(step) if schedule == "sqrt" else 1)
        theta.grad = torch.tensor(np.mean(parts[start : start + batch], axis=0))
        optimiser.step()
    assert np.allclose(after.exact, theta.detach().numpy(), rtol=0, atol=1e-12)


@pytest.mark.parametrize("mode", ("full", "chosen"))
@pytest.mark.parametrize("batch", (1, 5))
@pytest.mark.parametrize("schedule", ("constant", "sqrt"))
def test_a_batch_is_the_mean_of_its_rounds(space, mode, batch, schedule):
    """With batches of five the last four rounds do not count yet."""
    after = feed_outcomes(orag.session(space, mode=mode, batch=batch, schedule=schedule, **FREE), ROUNDS)
    theta = space.vectors.numpy().astype(float)
    parts = gradients(after)
    for step, start in enumerate(range(0, ROUNDS - batch + 1, batch), 1):
        rate = 0.02 / (np.sqrt(step) if schedule == "sqrt" else 1)
        theta = theta - rate * np.mean(parts[start : start + batch], axis=0)
    assert np.allclose(after.exact, theta, rtol=0, atol=1e-13)


def test_a_round_that_was_undone_leaves_its_batch_smaller(space):
    session = feed_outcomes(orag.session(space, batch=4, **FREE), 8)
    undone = orag.undo(session, session.events[1].id)
    theta = space.vectors.numpy().astype(float)
    parts = gradients(session)
    parts[1] = 0 * parts[1]
    theta -= 0.02 * (np.mean(parts[:4], axis=0) + np.mean(parts[4:], axis=0))
    assert np.allclose(undone.exact, theta, rtol=0, atol=1e-14)
    for event in session.events[:4]:
        undone = orag.undo(undone, event.id)
    assert (
        undone.exact.tobytes() == orag.replay(orag.session(space, session.preset), session.events[4:]).exact.tobytes()
    )


def test_a_coefficient_of_zero_leaves_every_bit(space):
    """Even of a document on the edge of its bounds, where being brought back again could turn a last bit."""
    for how in ({"mode": "full"}, {"mode": "full", "batch": 2}, {}):
        session = orag.session(space, **how, temperature=0.3, rate=1.0, cap=None)
        rng = np.random.default_rng(0)
        for turn in range(1, 41):
            query = session.resolve_query(rng.standard_normal(D).astype(np.float32))
            c = rng.standard_normal(N) * (rng.random(N) < 0.5)
            previous = session
            event = Event(turn, "full", query, range(N), c, 0, True, mode="full")
            session = orag.feed(session, event)
            if session.preset.batch == 1:
                still = np.flatnonzero(c == 0)
                assert session.exact[still].tobytes() == previous.exact[still].tobytes()
        assert np.linalg.norm(session.exact - session.origin, axis=1).max() > 0.499


def test_the_cap_binds_each_round_before_a_batch_is_summed(space):
    session = orag.session(space, batch=2, temperature=0.3, cap=0.01, trust=None, ball=False)
    query = session.resolve_query(queries_near(space)[0][0])
    for turn, c in ((1, -50.0), (2, 50.0)):
        session = orag.feed(session, Event(turn, "thumb", query, (3,), (c,), 3, True))
    assert np.allclose(session.row(3), session.origin[3], atol=1e-15)
    for turn in (3, 4):
        session = orag.feed(session, Event(turn, "thumb", query, (3,), (-50.0,), 3, True))
    assert np.allclose(session.row(3) - session.origin[3], 0.01 * query.exact, atol=1e-12)
