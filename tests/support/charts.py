"""The charts of a page, as the browser receives them."""

import json


def figure(app):
    return json.loads(app.get("plotly_chart")[0].proto.spec)


def ids(spec):
    return {i for trace in spec["data"] for i in trace.get("customdata", ())}
