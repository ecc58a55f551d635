"""A dialog is drawn again with its page until it is closed or another page is opened."""

from streamlit.testing.v1 import AppTest

from dashboard.widgets.open_dialog import OPEN_DIALOG_KEY
from support.patience import patient


def two_pages():
    import streamlit as st

    from dashboard.widgets.open_dialog import draw_dialog, find_open_dialog, forget_dialog_of_another_page

    forget_dialog_of_another_page(st.session_state.get("page", "first"))
    if st.button("Open", key="open") or find_open_dialog() == "greeting":
        draw_dialog("greeting", "Greeting", st.text, "hello")


def test_a_dialog_stays_with_its_page_and_goes_with_it():
    app = AppTest.from_function(two_pages, default_timeout=patient(30)).run()
    assert not app.text
    app.button(key="open").click().run()
    assert app.text[0].value == app.run().text[0].value == "hello"
    app.session_state["page"] = "second"
    assert not app.run().text and OPEN_DIALOG_KEY not in app.session_state
    app.session_state["page"] = "first"
    assert not app.run().text, "it does not come back with its page"
