"""The list of the cache, where nothing can be kept."""

import pytest

from dashboard.services import roots
from engine.paths import home, note_storage_result
from support.pages import load, screen, texts


@pytest.mark.threat("a home that cannot be written", "the page of the cache says so")
@pytest.mark.parametrize("shared", [False, True])
def test_a_cache_that_keeps_nothing_says_so(shared, monkeypatch):
    monkeypatch.setattr(roots, "_SERVER_RULES", [roots.Rules(shared=shared)])
    load()  # which keeps what it embeds
    note_storage_result("No space left on device")
    try:
        said = texts(screen("data", **{"data.view": "Cache"}))
    finally:
        note_storage_result(None)
    if shared:
        assert "⚠ Nothing new is kept on this server's disk." in said and str(home()) not in said
    else:
        assert "⚠ nothing new is kept in" in said and "No space left on device" in said
    assert "othing new is kept" not in texts(screen("data", **{"data.view": "Cache"}))
