"""The choice of decoders: a chosen one has the colour and the symbol of its tile."""

from streamlit.testing.v1 import AppTest

from dashboard.charts.palette import method_style


def page():
    from dashboard.widgets.decoder_pills import choose_decoders

    titles = {"top_k.own": "BM25", "mmr": "MMR"}
    choose_decoders("Beside", titles, "some.key", methods={"top_k.own": "top_k", "mmr": "mmr"})


def test_each_pill_has_its_selectors_colour_and_symbol():
    app = AppTest.from_function(page).run()
    (pills,) = app.button_group
    assert list(pills.options) == [f"{method_style('top_k').sign} BM25", f"{method_style('mmr').sign} MMR"]
    (style,) = [html.value for html in app.get("html")]
    for number, name in enumerate(("top_k", "mmr"), start=1):
        rule = f".st-key-some-key button:nth-of-type({number})[aria-pressed=true] {{border-color: light-dark("
        assert f"{rule}{method_style(name).light}, {method_style(name).dark})" in style
