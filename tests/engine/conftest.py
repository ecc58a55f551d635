"""What tests of the engine share."""

import pytest

import engine.reach
import engine.remote_certificate


@pytest.fixture
def small_pools(monkeypatch):
    """Pools of a few dozen, so that a few thousand documents are a large corpus."""
    for name, size in (("INITIAL_POOL_SIZE", 40), ("POOL_MARGIN", 5)):
        monkeypatch.setattr(engine.reach, name, size)
    monkeypatch.setattr(engine.remote_certificate, "MIN_QUESTION_RESULTS", 10)
