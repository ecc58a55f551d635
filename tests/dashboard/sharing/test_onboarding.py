"""The tour: four stops, closed for the session or for good, on the demo only."""

import pytest

from dashboard.services.source import Source
from dashboard.session.link import State, format_state
from dashboard.sharing import onboarding
from engine.paths import home
from support.pages import PETS, csv_source, keys, open_by_link, press, screen


@pytest.fixture
def settings():
    """The file of settings, not there."""
    file = home() / onboarding.SETTINGS_FILE
    file.unlink(missing_ok=True)
    yield file
    file.unlink(missing_ok=True)


def stop_of(app):
    """The stop that is shown, None for none."""
    strips = [m.value for m in app.markdown if " of 4 · " in m.value]
    return strips[0].strip("*").partition("·")[2].partition(".")[0].strip() if strips else None


def test_it_goes_on_stop_by_stop_to_the_last(settings):
    app = screen("explore")
    assert stop_of(app) == onboarding.TOUR_STOPS[0].act
    assert stop_of(press(app, "tour.next")) == onboarding.TOUR_STOPS[1].act
    app = screen("explore", **{onboarding.STOP_KEY: 3})
    assert stop_of(app) == onboarding.TOUR_STOPS[3].act and "tour.next" not in keys(app)
    assert stop_of(press(app, "tour.close")) is None


def test_it_closes_for_the_session_or_for_good(settings):
    assert stop_of(press(screen("explore"), "tour.close")) is None and not settings.exists()
    app = screen("explore")
    assert stop_of(app), "it was closed for another session"
    assert stop_of(press(app, "tour.never")) is None and stop_of(screen("explore")) is None
    settings.write_bytes(b"{damaged")
    assert stop_of(screen("explore"))


def test_it_is_not_drawn_for_a_link_or_on_another_corpus(settings, tmp_path):
    assert stop_of(open_by_link(format_state(State(source=Source("numpy-api"), k=3)))) is None
    assert stop_of(screen("explore", csv_source(tmp_path / "pets.csv", PETS))) is None


def test_the_dot_is_anchored_at_the_control_of_its_stop(settings):
    """Over nothing else: a strip lay over the navigation of every page until it was closed."""
    for number, stop in enumerate(onboarding.TOUR_STOPS):
        app = screen("explore", **{onboarding.STOP_KEY: number})
        (css,) = (html.value for html in app.get("html") if "anchor-name" in html.value)
        assert f"{stop.control} {{anchor-name: --tour}}" in css and stop.position in css
