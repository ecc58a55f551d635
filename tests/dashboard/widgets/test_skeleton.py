"""Grey boxes in place of what is being computed: gone with it, and never over a page that is there."""

from streamlit.testing.v1 import AppTest

from dashboard.widgets import skeleton
from support.pages import finish_jobs, screen


def boxes(app):
    return [html.value for html in app.get("html") if "frontier-skeleton" in html.value]


def page():
    import streamlit as st

    from dashboard.widgets import skeleton

    slot = skeleton.draw_first("explore", ((1, 30), (3, 120)), ".tiles", "Comparing <two>")
    if st.session_state.get("waits"):
        st.stop()
    slot.empty()


def test_boxes_stand_for_a_page_until_it_has_come_once():
    app = AppTest.from_function(page)
    app.session_state["waits"] = True
    (html,) = boxes(app.run())
    assert html.count("<i style=height:120px>") == 3 and html.count("<i style=height:30px>") == 1
    assert "<p>Comparing &lt;two&gt;</p>" in html
    # What is drawn before the slow part stays hidden with it, and the boxes go as soon as that is there.
    assert ".stMain:has(.tiles) .frontier-skeleton, .stMain:not(:has(.tiles)) .st-key-explore {display: none}" in html
    assert not boxes(app.run()), "a page that is there must not blink"


def test_a_page_that_opens_has_boxes_with_a_sentence_until_it_had_a_corpus():
    def opening():
        import streamlit as st

        from dashboard.widgets import skeleton

        skeleton.draw_opening(st.empty(), "explore", ((2, 30),), "Opening <it>")
        if st.session_state["loaded"]:
            skeleton.end_opening("explore")

    app = AppTest.from_function(opening)
    app.session_state["loaded"] = False
    for _ in range(2):
        (html,) = boxes(app.run())
        assert html.count("<i style=height:30px>") == 2 and "<p>Opening &lt;it&gt;</p>" in html
    app.session_state["loaded"] = True
    app.run()
    assert not boxes(app.run())


def test_a_value_takes_the_place_of_its_boxes_and_a_known_one_has_none():
    def computing():
        import streamlit as st

        from dashboard.widgets import skeleton

        with st.container():
            skeleton.draw_until(lambda: (st.session_state["stop"] and st.stop()) or 7, ((1, 10),), st.text)
        skeleton.draw_until(lambda: 8, ((1, 10),), st.text, is_known=True)

    app = AppTest.from_function(computing)
    app.session_state["stop"] = False
    assert [text.value for text in app.run().text] == ["7", "8"] and not boxes(app)
    app.session_state["stop"] = True
    assert not app.run().text, "the old value is gone while the new one is computed"


def test_boxes_are_taken_away_also_when_the_computation_fails():
    def failing():
        from dashboard.widgets import skeleton

        skeleton.draw_until(lambda: 1 / 0, ((1, 10),))

    app = AppTest.from_function(failing).run()
    assert app.exception and not boxes(app)


def test_pages_have_none_left():
    for name in ("explore", "theory", "tradeoff"):
        # While settings are measured, boxes stand for them.
        assert not boxes(finish_jobs(screen(name)))
    assert skeleton.EXPLORE_ROWS
