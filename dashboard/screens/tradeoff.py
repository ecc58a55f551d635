"""Trade-off: what every decoder reaches at every setting, and the sets behind each point."""

from dashboard import frame

loaded, question = frame.draw_header()
if loaded is not None:
    from dashboard.sharing import onboarding
    from dashboard.tradeoff import page

    onboarding.draw_tour()
    page.draw_tradeoff(loaded, question)
