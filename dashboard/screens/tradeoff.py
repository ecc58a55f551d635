"""Trade-off: what every decoder reaches at every setting, and the sets behind each point."""

from dashboard import frame

loaded, question = frame.begin()
if loaded is not None:
    from dashboard.tradeoff import page

    page.show(loaded, question)
