"""The Theory page when its job has ended, and what it says."""

from dashboard.theory.page import GROUPS
from support.pages import ended, screen, texts


def theory(view, source=None, **session):
    """A view when its job has ended."""
    group = next(name for name, views in GROUPS.items() if view in views)
    return ended(screen("theory", source, **{"theory.group": group, "theory.view": view, **session}))


def said(app):
    return texts(app) + " ".join(e.value for e in app.success)
