"""Data: choose and embed a corpus, judge its documents, compare encoders, manage the cache."""

from dashboard.data import cache_view, encoders, judge, page
from dashboard.session import address
from dashboard.widgets.choices import choose

VIEWS = {"Corpus": page.draw, "Judge": judge.draw, "Encoders": encoders.draw, "Cache": cache_view.draw}
if address.get_source().store:
    # Both read all documents, which are in a vector engine.
    del VIEWS["Judge"], VIEWS["Encoders"]

VIEWS[choose("View", VIEWS, "data.view")]()
