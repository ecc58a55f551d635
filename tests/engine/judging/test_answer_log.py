"""The log of answers: what was written is read by others, the newest counts, and damage is named."""

import sqlite3

import pytest

from engine.errors import DataError, ParamError
from engine.judging.answer_log import AnswerLog, SupportGrade, WrittenAnswer


def test_entries_are_read_by_another_and_the_newest_counts(tmp_path):
    log, other = AnswerLog(tmp_path / "log.sqlite"), AnswerLog(tmp_path / "log.sqlite")
    assert not other.read().written
    log.add(WrittenAnswer(query="q", key="k", model="m", text=None, reason="refused: no"))
    log.add(WrittenAnswer(query="q", key="k", model="m", text="a \ud800 b".encode("utf-8", "replace").decode()))
    log.add(SupportGrade(query="q", key="g", model="m", grade=2, reason="r"))
    contents = other.read()
    assert contents.written["m", "k"].text == "a ? b" and contents.written["m", "k"].time > 0
    assert contents.grades["m", "g"].grade == 2 and contents.written == log.read().written


@pytest.mark.parametrize("grade", [3, -1, 1.0, True, "2"])
def test_a_grade_of_another_scale_is_refused_and_not_written(tmp_path, grade):
    log = AnswerLog(tmp_path / "log.sqlite")
    with pytest.raises(ParamError, match="grade must be 0, 1, 2, or nothing"):
        log.add(SupportGrade(query="q", key="h", model="m", grade=grade))
    assert not log.path.exists()


def test_a_changed_event_is_damage(tmp_path):
    log = AnswerLog(tmp_path / "log.sqlite")
    log.add(WrittenAnswer(query="q", key="k", model="m", text="one"))
    with sqlite3.connect(log.path) as connection:
        connection.execute("UPDATE events SET body = replace(body, 'one', 'two')")
    with pytest.raises(DataError, match="event 1 is not as it was written"):
        AnswerLog(log.path).read()
