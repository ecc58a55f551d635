"""Tune: a setting chosen on one split, reported on another, applied to Explore."""

from dashboard import frame

loaded, _ = frame.begin(asking=False)
if loaded is not None:
    from dashboard.tuning import page

    page.show(loaded)
