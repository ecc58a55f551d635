"""Log of answers that models wrote from sets of documents, and of the grades that models gave these answers.

Append-only, as votes and judgements are. An answer is known by the query and the texts that it was written from, so
that decoders which return the same set share it; a grade by the query, the answer and the texts that support it.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from engine.data.event_log import EventLog
from engine.errors import DataError, ParamError
from engine.feedback.records import is_whole
from engine.paths import home
from engine.values import Corpus

#: Nothing of the answer is in the documents; a part; all of it (as in TREC 2024's RAG track).
SUPPORT_GRADES = (0, 1, 2)
#: The grade of an answer that counts as supported.
SUPPORTED_GRADE = 2
ANSWERS_FOLDER = "answers"
"""Folder of Frontier's home with the logs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenAnswer:
    """Answer of a model to a query from some documents."""

    query: str  # id
    key: str  # digest of the query's text and the documents'
    model: str
    text: str | None  # "" if the documents do not hold the answer, None for a refusal and what is no answer
    reason: str = ""  # why there is none
    time: float = 0.0  # seconds since 1970


@dataclass(frozen=True, slots=True, kw_only=True)
class SupportGrade:
    """Grade that a model gave an answer by the documents that are relevant to the query."""

    query: str  # id
    key: str  # digest of the query's text, the answer and the documents'
    model: str
    grade: int | None  # None for a refusal and what is no grade
    reason: str = ""
    time: float = 0.0


@dataclass(frozen=True, eq=False)
class LoggedAnswers:
    """Contents of a log: the newest answer, and the newest grade, of each model and key."""

    written: Mapping[tuple[str, str], WrittenAnswer] = field(default_factory=dict)
    grades: Mapping[tuple[str, str], SupportGrade] = field(default_factory=dict)


class AnswerLog(EventLog):
    """File of answers and their grades; thread-safe. File and folder are created by the first write.

    Methods that read it raise DataError if it is no such log, or an event is damaged.
    """

    kind = "answers"

    def __init__(self, path: str | Path) -> None:
        super().__init__(path)
        self._written: dict[tuple[str, str], WrittenAnswer] = {}
        self._grades: dict[tuple[str, str], SupportGrade] = {}

    def read(self) -> LoggedAnswers:
        """Read new events from the file, and return its contents."""
        with self._mutex:
            self._follow()
            return LoggedAnswers(dict(self._written), dict(self._grades))

    def add(self, entry: WrittenAnswer | SupportGrade) -> None:
        """Write an answer or a grade in a transaction of its own.

        Raises ParamError for an invalid one, FrontierError if it cannot be written.
        """
        try:
            _check_entry(entry)
        except ValueError as error:
            raise ParamError(str(error)) from None
        event = {**asdict(entry), "time": time.time()}
        with self._mutex:
            with self._writing({"op": "begin"}) as log_rows:
                log_rows.append([event])
            # Only after the commit, so that what could not be written never counts.
            self._fold(None, [event], log_rows.count - 1)

    def _fold(self, header: dict[str, Any] | None, events: Sequence[dict[str, Any]], n_folded: int) -> None:
        """Take in events that were read from the file; `EventLog` calls it. Raises DataError for a damaged one."""
        if header is not None:
            self._forget()
        for event_number, event in enumerate(events, n_folded + 1):
            try:
                # The two kinds of entries differ in one field.
                entry = WrittenAnswer(**event) if "text" in event else SupportGrade(**event)
                _check_entry(entry)
            except (ValueError, TypeError) as error:
                raise DataError(f"{self.path} event {event_number} is no answer ({error})") from None
            if isinstance(entry, WrittenAnswer):
                self._written[entry.model, entry.key] = entry
            else:
                self._grades[entry.model, entry.key] = entry

    def _forget(self) -> None:
        """Drop all contents: there is no file, or it is about to be read from its start; `EventLog` calls it."""
        self._written.clear()
        self._grades.clear()


def locate_answers(corpus: Corpus) -> Path:
    """Return the path of a corpus's log of answers."""
    return home() / ANSWERS_FOLDER / f"{corpus.digest[:16]}.sqlite"


def _check_entry(entry: WrittenAnswer | SupportGrade) -> None:
    """Raise ValueError for an entry with a value of another kind."""
    texts = (entry.query, entry.key, entry.model, entry.reason)
    if not all(isinstance(text, str) for text in texts):
        raise ValueError("query, key, model and reason must be text")
    if isinstance(entry, WrittenAnswer):
        if entry.text is not None and not isinstance(entry.text, str):
            raise ValueError(f"text must be text or nothing; got {entry.text!r}")
    elif entry.grade is not None and (not is_whole(entry.grade) or entry.grade not in SUPPORT_GRADES):
        raise ValueError(f"grade must be {', '.join(map(str, SUPPORT_GRADES))}, or nothing; got {entry.grade!r}")
