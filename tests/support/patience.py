"""How long tests wait for what must come: longer where the machine is busy, by the variable FRONTIER_TEST_PATIENCE."""

import os
import time

PATIENCE = float(os.environ.get("FRONTIER_TEST_PATIENCE", 1))
"""Factor of every time limit."""


def patient(seconds):
    """A time limit in seconds."""
    return seconds * PATIENCE


def until(condition, seconds=60.0, pause=0.02):
    """The condition's first true value; an error that names it where none comes in time."""
    end = time.monotonic() + patient(seconds)
    while not (value := condition()):
        if time.monotonic() > end:
            raise AssertionError(f"{condition} never became true in {patient(seconds):g} s")
        time.sleep(pause)
    return value
