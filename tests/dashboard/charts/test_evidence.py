"""Curves of effects: a figure for each pair of axes, a colour for each name, ticks where sizes grow by factors."""

import math

from dashboard.charts.evidence import plot_curves, plot_effects
from dashboard.charts.palette import PALETTE, method_style
from engine.evidence.rules import Effect, EffectCurve, curve_of


def times(name, axes, log=False) -> EffectCurve:
    return curve_of(name, axes, (10, 100, 1000), (1.0, 2.0, 4.0), log=log)


def test_curves_of_the_same_axes_share_a_figure_and_of_the_same_name_a_colour():
    curves = [times(name, axes) for axes in (("k", "seconds"), ("k", "times")) for name in ("fast", "slow & <b>bold")]
    figures = plot_curves([*curves, times("fast", ("documents", "seconds"), log=True)], dark=True)
    assert [len(figure.data) for figure in figures] == [2, 2, 1]
    assert [figure.layout.title.text for figure in figures] == ["seconds", "times", "seconds"]
    traces = [trace for figure in figures for trace in figure.data]
    colours = {name: {t.line.color for t in traces if t.name == name} for name in {t.name for t in traces}}
    assert len(colours) == 2 and all(len(own) == 1 for own in colours.values())
    assert "slow &amp; &lt;b&gt;bold" in colours
    assert list(traces[-1].x) == [10, 100, 1000] and "documents 10: 1" in traces[-1].hovertext[0]


def test_methods_have_their_own_look_and_others_none_of_theirs():
    curves = [times(name, ("k", "seconds")) for name in ("MMR", *"abcdefgh")]
    (figure,) = plot_curves(curves, dark=False)
    first, *others = figure.data
    style = method_style("mmr")
    assert (first.name, first.line.color, first.marker.symbol) == ("MMR", style.colour(False), style.symbol)
    assert len({(trace.line.color, trace.line.dash) for trace in figure.data}) == len(curves)
    assert not {trace.line.color for trace in others} & {style.light for style in PALETTE}


def test_axes_of_factors_have_ticks_in_plain_numbers():
    straight, growing = plot_curves([times("a", ("k", "s")), times("a", ("n", "s"), log=True)], dark=False)
    assert straight.layout.xaxis.type == "linear" and growing.layout.xaxis.type == "log"
    assert list(growing.layout.xaxis.ticktext[:4]) == ["10", "20", "50", "100"]
    assert list(growing.layout.yaxis.ticktext[:4]) == ["1", "2", "5", "10"]
    (flat,) = plot_curves([curve_of("a", ("n", "µs"), (10, 100), (12.4, 13.4), log=True)], dark=False)
    low, high = flat.layout.yaxis.range
    assert low < 1 < math.log10(20) < high, "what hardly grows is not drawn as steep"
    (single,) = plot_curves([curve_of("a", ("n", "s"), [10], [1e-5], log=True)], dark=False)
    for axis, power in ((single.layout.xaxis, 1), (single.layout.yaxis, -5)):
        assert axis.range[0] < power < axis.range[1], "a value on a tick has room on both sides"
    for power in range(-9, 9):
        plot_curves(
            [curve_of("a", ("n", "s"), [10**8, 10**9], [float(f"1e{power}"), float(f"5e{power}")], log=True)], False
        )
    wide = curve_of("a", ("n", "s"), (1, 1e6), (1e-3, 1), log=True)
    (figure,) = plot_curves([wide], dark=False)
    assert list(figure.layout.xaxis.ticktext) == ["1", "10", "100", "1,000", "10,000", "100,000", "1,000,000"]
    assert list(figure.layout.yaxis.ticktext)[:3] == ["0.001", "0.01", "0.1"]


def test_labels_of_rows_have_a_ground_that_keeps_the_line_at_0_out_of_them():
    effects = [Effect(name="a: points", value=0.8, low=-0.4, high=2.2), Effect(name="b: points", value=4.2)]
    figure = plot_effects(effects, is_dark=False)
    assert figure.layout.xaxis.zeroline and not figure.layout.shapes, "a shape would lie over the points"
    labels = [note for note in figure.layout.annotations if note.text]
    assert len(labels) == 2 and all(note.bgcolor.startswith("rgba(255, 255, 255") for note in labels)
    assert labels[0].text == "<b>0.800</b>  a: points", "a narrow screen cuts a long name off, not its figure"
    # The page gives the grounds of labels its own colour, by this ending.
    assert all(note.name.endswith("label") for note in labels)


def test_claimed_numbers_are_diamonds_on_the_axis_of_what_was_measured():
    effects = [Effect(name="a: points", value=-0.6, low=-1.1, high=-0.1, sign=-1), Effect(name="b: points", value=2.0)]
    claimed = {"a: points": (9.9,), "b: points": (-0.5, 8.3)}
    figure = plot_effects(effects, False, claimed.__getitem__)
    diamonds = [trace for trace in figure.data if trace.marker.symbol == "diamond-open"]
    assert [(list(trace.x), set(trace.y)) for trace in diamonds] == [([9.9], {0}), ([-0.5, 8.3], {1})]
    assert [trace.hovertext for trace in diamonds] == ["In the paper: 9.9", "In the paper: −0.5 to 8.3"]
    assert "◇ 9.9" in figure.layout.annotations[0].text
    assert len(plot_effects(effects, False).data) == 2
