"""The Theory page when its job has ended, and what it says."""

from dashboard.theory.page import VIEWS
from support.pages import ended, screen, texts


def theory(view, source=None, **session):
    """A view when its job has ended."""
    assert view in VIEWS
    return ended(screen("theory", source, **{"theory.view": view, **session}))


def said(app):
    return texts(app) + " ".join(e.value for e in app.success)
