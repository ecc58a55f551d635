"""What a page has drawn, as the browser is given it."""

import json


def figure(app):
    return json.loads(app.get("plotly_chart")[0].proto.spec)


def ids(drawn):
    return {i for trace in drawn["data"] for i in trace.get("customdata", ())}
