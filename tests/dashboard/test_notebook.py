"""The entry to the widget of a notebook, where anywidget is missing."""

import pytest

import engine
from dashboard import notebook

SPACE = engine.Space.of(["one", "two"], [[1.0, 0.0], [0.0, 1.0]])


def test_missing_package_is_named_with_its_command(monkeypatch):
    monkeypatch.setattr(notebook, "find_spec", lambda name: None)
    with pytest.raises(engine.FrontierError, match=r"needs anywidget: pip install 'frontier-retrieval\[notebook\]'"):
        notebook.explore(SPACE, [[1.0, 0.0]], ["top_k"])
