"""Log of judgements: an append-only event log for several people and processes; undo is an event too.

Grades that a model gave are kept in it too, under the model's name, and count for nobody else.
"""

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
from engine.paths import home
from engine.values import Corpus, Notice, Queries

#: Not relevant; related; relevant; exactly what the query asks for.
GRADES = (0, 1, 2, 3)
#: The grade from which a judged document counts as relevant unless people say otherwise: "related" is not enough.
RELEVANT_GRADE = 2
#: Folder of Frontier's home with the logs, and what is exported from them.
JUDGEMENTS_FOLDER = "judgements"


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """Grade that a person or a model gave a document for a query."""

    query: str  # id
    document: str  # id
    grade: int | None  # None: skipped
    person: str = ""
    time: float = 0.0  # seconds since 1970
    is_model: bool = False  # `person` is then the name of a model
    reason: str = ""  # why a model gave this grade, or none


@dataclass(frozen=True, eq=False)
class Judged:
    """Contents of a log of judgements: the grades that count, and the queries added to it.

    judgements: people's that count, oldest first: the newest of each person, query and document that was not undone
    texts: map from id to text of the queries added to the log
    touched_pairs: pairs of a query and a document that a person ever graded here, also if that was undone
    model_judgements: models' that count: the newest of each model, query and document
    """

    judgements: tuple[Judgement, ...] = ()
    texts: Mapping[str, str] = field(default_factory=dict)
    touched_pairs: frozenset[Pair] = frozenset()
    model_judgements: tuple[Judgement, ...] = ()

    def queries(self, dataset_queries: Queries | None = None) -> Queries:
        """Return the queries of a data set, followed by those added to the log."""
        first = dataset_queries or Queries((), ())
        texts = {**dict(zip(first.ids, first.texts, strict=True)), **self.texts}
        return Queries(tuple(texts), tuple(texts.values()))

    @cached_property
    def people(self) -> tuple[str, ...]:
        """Names of all who judged, in the order of their first judgements."""
        return tuple(dict.fromkeys(judgement.person for judgement in self.judgements))

    @cached_property
    def models(self) -> tuple[str, ...]:
        """Names of the models that judged, in the order of their first judgements."""
        return tuple(dict.fromkeys(judgement.person for judgement in self.model_judgements))

    def of_model(self, name: str) -> Mapping[Pair, Judgement]:
        """Return what a model said of each pair of a query and a document, also where it gave no grade."""
        return {(item.query, item.document): item for item in self.model_judgements if item.person == name}

    def only_model(self, name: str) -> "Judged":
        """Return the log with one model's grades in place of people's; the texts of queries stay.

        Raises ParamError for a model that has not judged here.
        """
        if name not in self.models:
            raise ParamError(f"no model {name!r} has judged here; there are {', '.join(self.models) or 'none'}")
        answers = tuple(item for item in self.model_judgements if item.person == name)
        return Judged(answers, self.texts, frozenset((item.query, item.document) for item in answers))

    @cached_property
    def grades(self) -> Mapping[Pair, Mapping[str, int]]:
        """People's grades that count: (query, document) → person → grade, without pairs that they skipped."""
        grades: dict[Pair, dict[str, int]] = defaultdict(dict)
        for judgement in self.judgements:
            if judgement.grade is not None:
                grades[judgement.query, judgement.document][judgement.person] = judgement.grade
        return dict(grades)

    def remaining(self, pairs: Iterable[Pair], person: str = "", n_shared: int = 0) -> tuple[Pair, ...]:
        """Return the pairs of a query and a document that a person has yet to judge, in the given order.

        These are the pairs that nobody graded; and those among the first `n_shared` that this person did not, because
        everybody judges them, to measure agreement. pairs: from `order_pairs`.
        """
        # A pair that the person skipped is not asked again, so skips count as judged here.
        judged_pairs = {(item.query, item.document) for item in self.judgements if item.person == person}
        remaining_pairs = []
        for pair_index, pair in enumerate(pairs):
            if pair not in judged_pairs and (pair_index < n_shared or pair not in self.grades):
                remaining_pairs.append(pair)
        return tuple(remaining_pairs)

    def missing(self, corpus: Corpus) -> tuple[Notice, ...]:
        """Return a notice of judged documents that are not in a corpus."""
        missing_ids = dict.fromkeys(doc_id for _, doc_id in self.grades if doc_id not in corpus.position)
        return Notice.for_ids("judged documents are not in this corpus", missing_ids)


class JudgingLog(EventLog):
    """File of judgements; thread-safe. File and folder are created by the first write.

    Methods that read it raise DataError if it is no such log, or an event is damaged.
    """

    kind = "judgements"

    def __init__(self, path: str | Path) -> None:
        super().__init__(path)
        self._judged = _Fold()

    def read(self) -> Judged:
        """Read new events from the file, and return its contents."""
        with self._mutex:
            self._follow()
            return self._judged.value

    def judge(self, query: str, document: str, grade: int | None, person: str = "") -> Judged:
        """Write a judgement to the disk, and return the contents of the log.

        grade: 0 to 3, None to skip. Raises ParamError for another grade, FrontierError if it cannot be written.
        """
        return self.add([Judgement(query=query, document=document, grade=grade, person=person, time=time.time())])

    def add(self, judgements: Iterable[Judgement]) -> Judged:
        """Write several judgements in one transaction, and return the contents of the log.

        Raises ParamError for an invalid one, and FrontierError if the file cannot be written; then none is written.
        """
        events = []
        for judgement in judgements:
            if problem := _find_problem(judgement):
                raise ParamError(problem)
            # People's have neither of a model's two fields.
            event = asdict(judgement)
            events.append({name: value for name, value in event.items() if value or name not in ("is_model", "reason")})
        return self._write(lambda: events)

    def undo(self, person: str = "") -> tuple[Judged, Judgement | None]:
        """Undo a person's newest judgement; return the contents of the log, and the undone judgement if any.

        An earlier judgement of the pair by the person counts again.
        """
        # Filled within the transaction, so that the judgement is the newest of all writers'.
        newest: list[Judgement] = []

        def take_back() -> list[dict[str, Any]]:
            """Return a list of the event that undoes the person's newest judgement; empty if there is none.

            Called within the transaction, when the events of all writers are known; adds the judgement to `newest`.
            """
            newest.extend(self._judged.newest_judgement(person))
            return [{"undo": person, "time": time.time()}] if newest else []

        judged = self._write(take_back)
        return judged, newest[0] if newest else None

    def add_queries(self, queries: Queries) -> Judged:
        """Write queries that the log does not have yet, and return its contents.

        Raises DataError for an id that the log has with another text.
        """

        def new_queries() -> list[dict[str, Any]]:
            """Return an event to write for each query that the log lacks; DataError for an id with another text."""
            texts, new = self._judged.texts, []
            for query, text in zip(queries.ids, queries.texts, strict=True):
                if texts.get(query, text) != text:
                    raise DataError(f"the query {query!r} is {texts[query]!r} in {self.path}; give {text!r} another id")
                if query not in texts:
                    new.append({"query": query, "text": text})
            return new

        return self._write(new_queries)

    def _write(self, make_events: Callable[[], Sequence[dict[str, Any]]]) -> Judged:
        """Write the events that `make_events` returns in one transaction, and return the contents of the log.

        The function is called after all events of other writers are read, so that it can depend on them.
        """
        with self._mutex:
            with self._writing({"op": "begin"}) as log_rows:
                events = make_events()
                log_rows.append(events)
            # Only after the commit, so that events that could not be written never count.
            self._fold(None, events, log_rows.count - len(events))
            return self._judged.value

    def _fold(self, header: dict[str, Any] | None, events: Sequence[dict[str, Any]], n_folded: int) -> None:
        """Bring the log's contents up to date with events that were read from its file; `EventLog` calls it.

        header: the log's header if the file was read from its start, None if events were only added; n_folded: number
        of events before these. Raises DataError for a damaged event.
        """
        if header is not None:
            self._forget()
        for event_number, event in enumerate(events, n_folded + 1):
            try:
                self._judged.add_event(event_number, event)
            except (ValueError, TypeError, KeyError, ArithmeticError) as error:
                raise DataError(f"{self.path} event {event_number} is no judgement ({error})") from None

    def _forget(self) -> None:
        """Drop all contents: there is no file, or it is about to be read from its start; `EventLog` calls it."""
        self._judged = _Fold()


def locate_log(corpus: Corpus) -> Path:
    """Return the path of a corpus's log: one per corpus, whatever encoder it is loaded with."""
    return home() / JUDGEMENTS_FOLDER / f"{corpus.digest[:16]}.sqlite"


class _Fold:
    """Builder of a log's contents from its events, one after another.

    The contents are computed when they are asked for, and cached until the next event.
    """

    def __init__(self) -> None:
        """Start without events."""
        self.texts: dict[str, str] = {}
        self._touched_pairs: set[Pair] = set()
        self._judgements: dict[int, Judgement] = {}  # event number → judgement that was not undone
        self._numbers_by_person: dict[str, list[int]] = defaultdict(list)  # person → event numbers
        self._value: Judged | None = None

    @property
    def value(self) -> Judged:
        """Contents of the log after the events so far: of each person's grades of a pair, the newest."""
        if self._value is None:
            newest_by_key: dict[tuple[bool, str, str, str], Judgement] = {}
            for judgement in self._judgements.values():
                judgement_key = judgement.is_model, judgement.person, judgement.query, judgement.document
                # Removed first, so that the newest judgement of a key is also the last in order.
                newest_by_key.pop(judgement_key, None)
                newest_by_key[judgement_key] = judgement
            people, models = (
                tuple(item for item in newest_by_key.values() if item.is_model == is_model)
                for is_model in (False, True)
            )
            self._value = Judged(people, dict(self.texts), frozenset(self._touched_pairs), models)
        return self._value

    def newest_judgement(self, person: str) -> list[Judgement]:
        """Return the newest judgement of a person that was not undone, in a list of one; else an empty list."""
        return list(map(self._judgements.__getitem__, self._numbers_by_person[person][-1:]))

    def add_event(self, event_number: int, event: Mapping[str, Any]) -> None:
        """Add an event: a judgement, a query, or an undo, known by their fields.

        Raises ValueError, TypeError or KeyError for an invalid one.
        """
        if "undo" in event:
            # An undo by a person without a judgement left changes nothing.
            if own_numbers := self._numbers_by_person[event["undo"]]:
                del self._judgements[own_numbers.pop()]
        elif "text" in event:
            # Built for its checks alone: an id or text that is not valid raises.
            Queries((event["query"],), (event["text"],))
            self.texts[event["query"]] = event["text"]
        else:
            judgement = Judgement(**event)
            if problem := _find_problem(judgement):
                raise ValueError(problem)
            self._judgements[event_number] = judgement
            # An undo takes back what a person did, and a person may be called like a model.
            if judgement.is_model:
                self._value = None
                return
            if judgement.grade is not None:
                self._touched_pairs.add((judgement.query, judgement.document))
            self._numbers_by_person[judgement.person].append(event_number)
        self._value = None


def _find_problem(judgement: Judgement) -> str | None:
    """Return the error message for an invalid judgement; None for a valid one."""
    if not isinstance(judgement.is_model, bool):
        return f"is_model must be True or False; got {judgement.is_model!r}"
    for field_name in ("query", "document", "person", "reason"):
        if not isinstance(field_value := getattr(judgement, field_name), str):
            return f"{field_name} must be text; got {field_value!r}"
    grade = judgement.grade
    if grade is not None and (not is_whole(grade) or grade not in GRADES):
        return f"grade must be {', '.join(map(str, GRADES))}, or none to skip; got {grade!r}"
    if isinstance(judgement.time, bool) or not isinstance(judgement.time, int | float) or not isfinite(judgement.time):
        return f"time must be seconds since 1970; got {judgement.time!r}"
    return None
