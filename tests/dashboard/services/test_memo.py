"""Tables of computed values: one look-up each, so that an eviction by another thread is no error."""

import pytest

from dashboard.services import memo


class Evicting(memo.Memo):
    """Another thread's eviction comes right after a look whether the key is there."""

    def __contains__(self, key):
        is_there = super().__contains__(key)
        self.forget(key)
        return is_there


@pytest.mark.parametrize("value", [3, None])
def test_a_value_is_computed_once_and_an_eviction_during_the_look_up_is_no_error(monkeypatch, value):
    table, computed = Evicting(9), []
    monkeypatch.setattr(memo, "session_memo", lambda *_: table)
    for _ in range(2):
        assert memo.get_or_compute("table", "key", lambda: computed.append(1) or value) is value
    assert len(computed) == 1


def test_sessions_share_what_depends_on_data_alone(monkeypatch):
    """A visitor's page does not compute again what another one's has computed; the rest stays a session's own."""
    sessions = iter([{}, {}, {}, {}])
    monkeypatch.setattr(memo.st, "session_state", next(sessions))
    computed = []

    def ask(is_shared):
        return memo.get_or_compute("table", "key", lambda: computed.append(1) or len(computed), is_shared=is_shared)

    assert [ask(True), ask(False)] == [1, 2]
    monkeypatch.setattr(memo.st, "session_state", next(sessions))
    assert [ask(True), ask(False)] == [1, 3]
    memo._SHARED_TABLES.clear()
    assert ask(True) == 4
