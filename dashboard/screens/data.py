"""Data: choose and embed a corpus, judge its documents, compare encoders, manage the cache."""

from dashboard.data import cache_view, encoders, judge, page
from dashboard.widgets.choices import choose

VIEWS = {"Corpus": page.show, "Judge": judge.show, "Encoders": encoders.show, "Cache": cache_view.show}

VIEWS[choose("View", VIEWS, "data.view")]()
