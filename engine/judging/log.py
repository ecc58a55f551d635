"""Log of judgements: an event log to which several people and processes may add; undo is an event too."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from math import isfinite
from pathlib import Path
from typing import Any

from engine.data.event_log import EventLog
from engine.errors import DataError, ParamError
from engine.feedback.records import is_whole
from engine.judging.pool import Pair
from engine.values import Corpus, Notice, Queries

GRADES = (0, 1, 2, 3)
"""Not relevant; touches on it; relevant; exactly what was asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What a person said of a document for a query."""

    query: str  # id
    document: str  # id
    grade: int | None  # None: skipped
    person: str = ""
    time: float = 0.0  # seconds since 1970


@dataclass(frozen=True, eq=False)
class Judged:
    """What a log holds.

    given: what counts, oldest first: of one person, query and document the newest that was not taken back
    texts: query id → text, of the queries that came with the log
    """

    given: tuple[Judgement, ...] = ()
    texts: Mapping[str, str] = field(default_factory=dict)

    def queries(self, known: Queries | None = None) -> Queries:
        """The queries of a data set, and then those that came with the log."""
        texts = {**(dict(zip(known.ids, known.texts, strict=True)) if known else {}), **self.texts}
        return Queries(tuple(texts), tuple(texts.values()))

    @cached_property
    def people(self) -> tuple[str, ...]:
        """Everyone who judged, in the order in which they began."""
        return tuple(dict.fromkeys(judgement.person for judgement in self.given))

    @cached_property
    def grades(self) -> Mapping[Pair, Mapping[str, int]]:
        """Pair → person → grade, without what was skipped."""
        grades: dict[Pair, dict[str, int]] = defaultdict(dict)
        for judgement in self.given:
            if judgement.grade is not None:
                grades[judgement.query, judgement.document][judgement.person] = judgement.grade
        return dict(grades)

    def remaining(self, pairs: Iterable[Pair], person: str = "", twice: int = 0) -> tuple[Pair, ...]:
        """The pairs that a person has yet to judge: nobody graded them, or they are among the first `twice`.

        pairs: as `order` gives them; twice: so many of them everybody judges, to see how far people agree.
        """
        own = {(judgement.query, judgement.document) for judgement in self.given if judgement.person == person}
        return tuple(
            pair for place, pair in enumerate(pairs) if pair not in own and (place < twice or pair not in self.grades)
        )

    def missing(self, corpus: Corpus) -> tuple[Notice, ...]:
        """A notice of the judged documents that a corpus lacks."""
        gone = dict.fromkeys(doc for _, doc in self.grades if doc not in corpus.position)
        return Notice.for_ids("judged documents are not in this corpus", gone)


class JudgingLog(EventLog):
    """A file of judgements; thread-safe. It and its folder are made when first written to.

    Whatever reads it raises DataError where it is no such log, or an event of it is damaged.
    """

    kind = "judgements"

    def __init__(self, path: str | Path) -> None:
        super().__init__(path)
        self._judged = _Fold()

    def read(self) -> Judged:
        """All that is in the file by now."""
        with self._mutex:
            self._follow()
            return self._judged.value

    def judge(self, query: str, document: str, grade: int | None, person: str = "") -> Judged:
        """What the log holds with one judgement more, which is on the disk when this returns.

        grade: 0 to 3, None to skip. Raises ParamError for another one, FrontierError where it cannot be written.
        """
        return self.add([Judgement(query=query, document=document, grade=grade, person=person, time=time.time())])

    def add(self, judgements: Iterable[Judgement]) -> Judged:
        """What the log holds with several judgements more; raises as `judge`, and then nothing is written."""
        events = []
        for judgement in judgements:
            if problem := _problem(judgement):
                raise ParamError(problem)
            events.append(asdict(judgement))
        return self._write(lambda: events)

    def undo(self, person: str = "") -> tuple[Judged, Judgement | None]:
        """What the log holds once a person's newest judgement is taken back, and that one; None where there is none.

        What the person had said of the pair before counts again.
        """
        newest: list[Judgement] = []

        def take_back() -> list[dict[str, Any]]:
            newest.extend(self._judged.newest(person))
            return [{"undo": person, "time": time.time()}] if newest else []

        judged = self._write(take_back)
        return judged, newest[0] if newest else None

    def ask(self, queries: Queries) -> Judged:
        """What the log holds with these queries, which it remembers; those that it has are passed over.

        Raises DataError for an id that it has with another text.
        """

        def new_queries() -> list[dict[str, Any]]:
            texts, new = self._judged.texts, []
            for query, text in zip(queries.ids, queries.texts, strict=True):
                if texts.get(query, text) != text:
                    raise DataError(f"the query {query!r} is {texts[query]!r} in {self.path}; give {text!r} another id")
                if query not in texts:
                    new.append({"query": query, "text": text})
            return new

        return self._write(new_queries)

    def _write(self, make_events: Callable[[], Sequence[dict[str, Any]]]) -> Judged:
        """Add events that are made once all that others added is known."""
        with self._mutex:
            with self._writing({"op": "begin"}) as rows:
                events = make_events()
                rows.append(events)
            self._fold(None, events, rows.count - len(events))
            return self._judged.value

    def _fold(self, header: dict[str, Any] | None, events: Sequence[dict[str, Any]], number: int) -> None:
        if header is not None:
            self._forget()
        for event_number, event in enumerate(events, number + 1):
            try:
                self._judged.take(event_number, event)
            except (ValueError, TypeError, KeyError) as error:
                raise DataError(f"{self.path} event {event_number} is no judgement ({error})") from None

    def _forget(self) -> None:
        self._judged = _Fold()


class _Fold:
    """The events of a log, taken one after the other."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self._said: dict[int, Judgement] = {}  # by number, what was not taken back
        self._own: dict[str, list[int]] = defaultdict(list)  # person → numbers
        self._value: Judged | None = None

    @property
    def value(self) -> Judged:
        """The value of the events so far."""
        if self._value is None:
            newest: dict[tuple[str, str, str], Judgement] = {}
            for said in self._said.values():
                key = said.person, said.query, said.document
                newest.pop(key, None)
                newest[key] = said
            self._value = Judged(tuple(newest.values()), dict(self.texts))
        return self._value

    def newest(self, person: str) -> list[Judgement]:
        """The last of a person that was not taken back, in a list; none in an empty one."""
        return [self._said[number] for number in self._own[person][-1:]]

    def take(self, number: int, event: Mapping[str, Any]) -> None:
        """Take in an event. Raises ValueError, TypeError or KeyError for one that none makes."""
        if "undo" in event:
            if own := self._own[event["undo"]]:
                del self._said[own.pop()]
        elif "text" in event:
            Queries((event["query"],), (event["text"],))
            self.texts[event["query"]] = event["text"]
        else:
            judgement = Judgement(**event)
            if problem := _problem(judgement):
                raise ValueError(problem)
            self._said[number] = judgement
            self._own[judgement.person].append(number)
        self._value = None


def _problem(judgement: Judgement) -> str | None:
    """What is wrong with a judgement, None for nothing."""
    for name in ("query", "document", "person"):
        if not isinstance(value := getattr(judgement, name), str):
            return f"{name} must be text; got {value!r}"
    grade = judgement.grade
    if grade is not None and (not is_whole(grade) or grade not in GRADES):
        return f"grade must be {', '.join(map(str, GRADES))}, or none to skip; got {grade!r}"
    if isinstance(judgement.time, bool) or not isinstance(judgement.time, int | float) or not isfinite(judgement.time):
        return f"time must be seconds since 1970; got {judgement.time!r}"
    return None
