"""Results of the Theory views: computed at once, or by the page's job, and kept for the session."""

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

from dashboard.services import memo
from dashboard.services.jobs import Job
from dashboard.services.memo import session_memo
from dashboard.widgets.job_panel import JobPanel
from engine.progress import report_to

T = TypeVar("T")
PURPOSE, MEMORY, ENTRIES = "theory", "theory.memory", 16


def remembered(key: Hashable, make: Callable[[], T]) -> T:
    """The value of `make`, computed once a session; key: names all that it depends on."""
    return memo.remembered(MEMORY, key, make, ENTRIES)


def measure(
    key: Hashable,
    title: str,
    work: Callable[[Job], T],
    show: Callable[[T], Any] | None = None,
    *,
    by_itself: bool,
    on_partial: Callable[[Any], Any] | None = None,
) -> T | None:
    """The result of a job, which `show` draws; until it is there its progress or the button to start it, and None.

    Other arguments are those of a JobPanel.
    """

    def reporting(job: Job) -> T:
        # What is slow before the first step, counting words, reports too.
        with report_to(job.report, job.stop):
            return work(job)

    result = JobPanel(
        purpose=PURPOSE,
        key=key,
        title=title,
        work=reporting,
        start="Run",
        again="Run",
        by_itself=by_itself,
        on_partial=on_partial,
        memo=session_memo(MEMORY, ENTRIES),
    ).result()
    if result is not None and show is not None:
        show(result)
    return result
