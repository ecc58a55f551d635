"""Data: choose and embed a corpus, compare encoders, manage the cache."""

from dashboard.data import cache_view, encoders, page
from dashboard.widgets.choices import choose

VIEWS = {"Corpus": page.show, "Encoders": encoders.show, "Cache": cache_view.show}

VIEWS[choose("View", VIEWS, "data.view")]()
