"""Time limits of the tests: longer on a busy machine, by the variable FRONTIER_TEST_PATIENCE."""

import os
import time

PATIENCE = float(os.environ.get("FRONTIER_TEST_PATIENCE", 1))
"""Factor of every time limit."""


def patient(seconds):
    """Return a time limit in seconds."""
    return seconds * PATIENCE


def until(condition, seconds=60.0, pause=0.02):
    """Return the condition's first true value; fail if there is none in time."""
    end = time.monotonic() + patient(seconds)
    while not (value := condition()):
        if time.monotonic() > end:
            raise AssertionError(f"{condition} never became true in {patient(seconds):g} s")
        time.sleep(pause)
    return value
