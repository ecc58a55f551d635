"""Counts of off-topic documents on a page: those that are known at once, and others once their job has ended."""

from types import SimpleNamespace

from streamlit.testing.v1 import AppTest

import engine
from dashboard.services import off_topic as service
from dashboard.services.jobs import Job
from dashboard.widgets.off_topic import list_choices

MMR = engine.Decoder(engine.make("mmr", relevance_weight=0.5))


def test_choices_are_the_settings_that_have_a_decoder():
    mmr, other_system = SimpleNamespace(decoder=MMR), SimpleNamespace(decoder=None)
    assert list_choices(None) == []
    assert list_choices(SimpleNamespace(sure=mmr, bet=other_system)) == [MMR]
    assert list_choices(SimpleNamespace(sure=None, bet=mmr)) == [MMR]


def draw_counts():
    import streamlit as st

    from dashboard.widgets.off_topic import find_or_await_counts

    st.text(str(find_or_await_counts(None, ("Top-k", None), [], None, None, 10)))


def test_counts_are_drawn_once_their_job_has_ended(monkeypatch, go):
    job = Job("counting", lambda _: go.wait(30))
    answers = iter([job, "2 of 10"])
    monkeypatch.setattr(service, "find_counts", lambda *_: next(answers))
    app = AppTest.from_function(draw_counts).run()
    assert [text.value for text in app.text] == ["None"]
    go.set()
    job.join(30)
    assert [text.value for text in app.run().text] == ["2 of 10"]
