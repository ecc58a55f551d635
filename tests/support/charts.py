"""The charts of a page, as the browser receives them."""

import json


def figure(app):
    return json.loads(app.get("plotly_chart")[0].proto.spec)


def ids(spec):
    return {i for trace in spec["data"] for i in trace.get("customdata", ())}


def have_crossing(first, second):
    """Return True if two segments, each of two positions, cross in their insides."""

    def turn(a, b, c):
        return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])

    (a, b), (c, d) = first, second
    return turn(a, b, c) * turn(a, b, d) < -1e-6 and turn(c, d, a) * turn(c, d, b) < -1e-6
