"""The button that copies: it has the text, whatever that holds."""

import json

from support import pages


def page():
    from dashboard.components.picture import draw_copy_button

    draw_copy_button("Copy link", 'http://x/?text="<b>&é', "copy")


def test_it_copies_the_text_as_it_is():
    app = pages.draw_page(page)
    data = json.loads(next(one for one in app.main if one.type == "bidi_component").proto.json)
    assert data == {"label": "Copy link", "text": 'http://x/?text="<b>&é'}
