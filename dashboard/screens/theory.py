"""Theory: what the papers prove, checked on the corpus in use."""

from dashboard import frame

loaded, question = frame.draw_header()
if loaded is not None:
    from dashboard.theory import page

    page.draw_theory(loaded, question)
