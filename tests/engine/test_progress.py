"""The pace of long work, with a clock of our own."""

import io
import sys
from itertools import groupby
from types import SimpleNamespace

import pytest

from engine.errors import Cancelled
from engine.progress import Eta, ProgressBar, counted, current_reporter, format_duration, report_to, rough_duration


def test_the_time_left_follows_the_pace():
    clock = SimpleNamespace(now=100.0)
    eta = Eta(clock=lambda: clock.now)
    assert eta(0, 100, "embedding") is None
    clock.now += 4.5
    assert eta(10, 100, "embedding") is None, "a few seconds are too little to judge by"
    clock.now += 0.5
    assert eta(20, 100, "embedding") == 20.0
    clock.now += 1
    assert eta(100, 100, "embedding") == 0.0


def test_a_new_label_forgets_the_pace():
    clock = SimpleNamespace(now=100.0)
    eta = Eta(clock=lambda: clock.now)
    eta(0, 1000, "reading the cache")
    clock.now += 6
    assert eta(900, 1000, "reading the cache") is not None
    assert eta(900, 1000, "embedding") is None
    clock.now += 10
    assert eta(910, 1000, "embedding") == 90.0


def test_the_first_steps_say_nothing():
    clock = SimpleNamespace(now=100.0)
    eta = Eta(clock=lambda: clock.now)
    eta(0, 504, "map")
    clock.now += 30
    assert eta(2, 504, "map") is None and eta(25, 504, "map") is None
    assert eta(26, 504, "map") == 478 * 30 / 26


def test_only_the_last_seconds_count():
    clock = SimpleNamespace(now=100.0)
    eta = Eta(window=10, clock=lambda: clock.now)
    done = 0
    for pace in [100] * 20 + [1] * 80:
        done += pace
        clock.now += 1
        seconds = eta(done, 4000, "embedding")
    assert seconds == pytest.approx(4000 - done, rel=1e-5)


def test_the_words_do_not_turn_to_and_fro():
    clock = SimpleNamespace(now=0.0)
    eta, words = Eta(clock=lambda: clock.now), []
    for done in range(600):  # every twentieth step is ten times as long
        clock.now += 1 if done % 20 == 19 else 0.1
        seconds = eta(done, 600, "map")
        words += [] if seconds is None else [rough_duration(seconds)]
    assert [word for word, _ in groupby(words)] == ["1 min", "50 s", "40 s", "30 s", "20 s", "10 s"]


def test_a_reporter_holds_for_its_block_only():
    with pytest.raises(Cancelled), report_to(progress=print, stop=None):
        assert current_reporter() == (print, None)
        raise Cancelled
    assert current_reporter() == (None, None)


def test_a_count_takes_the_singular_for_one_only():
    assert [counted(n, "document") for n in (0, 1, 2000)] == ["0 documents", "1 document", "2,000 documents"]
    assert [counted(n, "query", "queries") for n in (1, 2)] == ["1 query", "2 queries"]


def test_an_estimate_is_rounded():
    words = [rough_duration(s) for s in (0.2, 14, 37, 54, 56, 125, 3500, 4800)]
    assert words == ["10 s", "10 s", "40 s", "50 s", "1 min", "2 min", "58 min", "1 h 20 min"]


def test_time_as_a_person_says_it():
    assert [format_duration(s) for s in (None, 7.6, 125, 4800)] == ["", "8 s", "2 min 05 s", "1 h 20 min"]


class Terminal(io.StringIO):
    """A text file that says to be a terminal."""

    def isatty(self):
        return True


def report_two_works(progress_bar):
    """Report a work of three steps, one of none, and one that stays unfinished."""
    for done in range(4):
        progress_bar(done, 3, "embedding")
    progress_bar(0, 0, "nothing")
    progress_bar(1, 2, "sweeping")
    progress_bar.close()


def test_bar_is_drawn_for_each_label_in_a_terminal_alone():
    screen, log_file = Terminal(), io.StringIO()
    report_two_works(ProgressBar(screen))
    report_two_works(ProgressBar(log_file))
    drawn = screen.getvalue()
    assert "embedding: 100%" in drawn and "3/3" in drawn and "sweeping:  50%" in drawn and "nothing" not in drawn
    assert log_file.getvalue() == ""


def test_bar_is_drawn_in_the_kernel_of_a_notebook(monkeypatch):
    notebook = SimpleNamespace(get_ipython=lambda: SimpleNamespace(kernel="a kernel"))
    monkeypatch.setitem(sys.modules, "IPython", notebook)
    output = io.StringIO()
    report_two_works(ProgressBar(output))
    assert "embedding: 100%" in output.getvalue()
