"""A server of models, and a home whose endpoints.toml names it."""

import pytest

from engine.data.endpoints import client
from support.model_server import KEY, KEY_ENV, ModelServer


@pytest.fixture
def server(home, monkeypatch):
    """Run a server of models, the endpoint "mine" of the test's home; waits for it are short."""
    monkeypatch.setenv(KEY_ENV, KEY)
    monkeypatch.setattr(client, "FIRST_WAIT_SECONDS", 0.01)
    with ModelServer() as running:
        running.write_settings(home)
        yield running
