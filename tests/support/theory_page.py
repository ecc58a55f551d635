"""The Theory page after its job has ended, and its messages."""

from dashboard.theory.page import GROUPS
from support.pages import finish_jobs, screen, texts


def open_theory_view(view, source=None, **session):
    """Open a view and wait for its job."""
    group = next(name for name, views in GROUPS.items() if view in views)
    return finish_jobs(screen("theory", source, **{"theory.group": group, "theory.view": view, **session}))


def read_messages(app):
    return texts(app) + " ".join(e.value for e in app.success)
