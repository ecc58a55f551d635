"""What most tests of training share: the planted set, and what is trained on it. A file may have others of its own."""

import pytest

import engine
from support.training import NNN, QUICK, shared_planted_set


@pytest.fixture(scope="session")
def data():
    """(space, queries, qrels)."""
    return shared_planted_set()


@pytest.fixture(scope="session")
def trained(data):
    return engine.train("nnn", *data, **NNN)


@pytest.fixture(scope="session")
def dense(data):
    return engine.train("dense", *data, **QUICK)
