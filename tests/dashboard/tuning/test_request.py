"""The progress of a tuning over its parts."""

from itertools import pairwise
from types import SimpleNamespace

import pytest

from dashboard.services.jobs import Job
from dashboard.tuning.request import TuningProgress

STEPS = [
    (0, 12, "embedding"),
    *((done, 40, "measuring on dev") for done in range(41)),
    *((done, 20, f"every λ of {name}") for name in ("MMR", "DPP") for done in range(21)),
    *((done, 2, "measuring the best MMR") for done in range(3)),
    *((done, 4, "reporting on test") for done in range(5)),
]


@pytest.mark.parametrize("n_curves", [0, 1, 6])
def test_the_bar_of_a_tuning_never_goes_back_and_ends_full(n_curves):
    reports = []
    job = SimpleNamespace(report=lambda *given: reports.append(given))
    progress = TuningProgress(job, SimpleNamespace(n_curves=n_curves))
    for step in STEPS:
        progress.report(*step)
    assert [report[:3] for report in reports] == STEPS, "counts and labels are those of the part"
    shares = [share for *_, share in reports]
    assert all(before <= after for before, after in pairwise(shares))
    assert (
        shares[0] == 0 and shares[-1] == pytest.approx(1) and shares[STEPS.index((40, 40, "measuring on dev"))] == 0.35
    )


def test_a_share_of_the_whole_moves_the_bar_and_the_estimate_of_a_job():
    def work(job):
        job._eta = lambda done, total, label: asked.append((done / total, label)) or 30.0
        job._part_eta = lambda done, total, label: asked.append((done / total, label)) or 90.0
        job.report(3, 4, "a part", 0.25)

    asked = []
    job = Job("a test", work)
    job.join()
    progress = job.progress
    assert (progress.done, progress.total, progress.bar_share) == (3, 4, 0.25)
    assert asked == [(0.25, ""), (0.75, "a part")]
    assert (progress.part_seconds_left, progress.seconds_left) == (90, 90), "the whole ends no earlier than its part"
