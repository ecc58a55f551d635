"""Counts of off-topic documents on a page: those that are known at once, and others once their job has ended."""

from types import SimpleNamespace

from streamlit.testing.v1 import AppTest

import engine
from dashboard.services.jobs import Job
from dashboard.widgets.off_topic import list_choices

MMR = engine.Decoder(engine.make("mmr", relevance_weight=0.5))


def test_choices_are_the_settings_that_have_a_decoder():
    mmr, other_system = SimpleNamespace(decoder=MMR), SimpleNamespace(decoder=None)
    assert list_choices(None) == []
    assert list_choices(SimpleNamespace(sure=mmr, bet=other_system)) == [MMR]
    assert list_choices(SimpleNamespace(sure=None, bet=mmr)) == [MMR]


def draw_counts(counts):
    import streamlit as st

    from dashboard.widgets.off_topic import take_or_await

    st.text(str(take_or_await(counts)))


def test_counts_are_drawn_once_their_job_has_ended(go):
    job = Job("counting", lambda _: go.wait(30))
    app = AppTest.from_function(draw_counts, kwargs={"counts": job}).run()
    assert [text.value for text in app.text] == ["None"]
    go.set()
    job.join(30)
    known = AppTest.from_function(draw_counts, kwargs={"counts": "2 of 10"}).run()
    assert [text.value for text in known.text] == ["2 of 10"]
