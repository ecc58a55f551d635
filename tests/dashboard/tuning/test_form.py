"""The form filled in as an earlier study had it: what it then asks for is what was asked for."""

import json

import pytest

from engine.evaluation.tuning.tune import build_families
from support.pages import draw_page, load, screen


def form_again():
    """The form after a study was taken up, and what it asks for."""
    import json

    import streamlit as st

    from dashboard.services import corpora
    from dashboard.services.source import Source
    from dashboard.tuning import form

    loaded = corpora.get_loading_job(Source("numpy-api")).result
    if "asked" in st.session_state:
        form.fill_form(json.loads(st.session_state.pop("asked")), loaded)
    st.session_state["request"], _ = form.draw_form(loaded)


SET = {
    "every": {"tune.share": 0.8, "k": 7, "tune.most": 9, "tune.scorers": ["dense", "bm25"]},
    "nnn": {
        "tune.method": "nnn", "tune.aim": "maximise", "tune.metric": "recall", "tune.free.nnn": ["l2"], "pool": 50,
        "tune.nnn.scale": "support", "tune.nnn.l1.support": 12, "explore.nnn.retrieve": "bm25",
    },
    "frank_wolfe": {"tune.method": "frank_wolfe", "tune.aim": "knee", "tune.points": 4, "tune.free.frank_wolfe": [
        "relevance_weight", "loading", "polish"], "tune.trials": 16},
}  # fmt: skip


@pytest.mark.parametrize("name", SET)
def test_a_study_is_taken_up_as_it_was(name):
    load()
    request = draw_page(form_again, **SET[name]).session_state["request"]
    again = draw_page(form_again, asked=json.dumps(request.as_json()))
    assert again.session_state["request"] == request != draw_page(form_again).session_state["request"]
    assert not again.exception


def test_a_study_is_run_again_at_once():
    app = screen("tune", **{"tune.method": "mmr", "tune.most": 5, "tune.again": True})
    assert "tune.again" not in app.session_state and "mmr" in str(app.session_state["jobs"]["tune"].key.request)
    app.session_state["jobs"]["tune"].cancel()


def test_a_decoder_without_parameters_is_named_with_the_choice_that_compares_it():
    load()
    app = draw_page(form_again)
    assert not any("no parameter to tune" in line.value for line in app.caption), "every decoder has it with it"
    app = draw_page(form_again, **{"tune.method": "mmr"})
    (sentence,) = [line.value for line in app.caption if "no parameter to tune" in line.value]
    assert sentence.startswith("VRSD has no parameter") and "“every decoder” compares it" in sentence
    (decoders,) = [box for box in app.selectbox if box.label == "Decoder"]
    assert decoders.options[0] == "every decoder" and not any("VRSD" in option for option in decoders.options)
    assert "vrsd" in [family.settings.spec.name for family in build_families()]
