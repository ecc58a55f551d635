"""Theory: what the papers prove, checked on the corpus in use."""

import sys
from types import ModuleType

from dashboard import frame
from dashboard.widgets import skeleton


def import_page() -> ModuleType:
    """Import the page's module, which takes a second or two the first time."""
    from dashboard.theory import page

    return page


loaded, question = frame.draw_header()
if loaded is not None:
    skeleton.draw_until(
        import_page,
        skeleton.THEORY_ROWS,
        lambda page: page.draw_theory(loaded, question),
        is_known="dashboard.theory.page" in sys.modules,
    )
