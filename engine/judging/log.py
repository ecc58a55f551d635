"""Log of judgements: lines of JSON that are only ever added, so nothing given is lost, and undo is a line too.

Several people and several processes may write to one file. A line counts once it ends: what a killed process left of
one is cut off by whoever writes next. Lines are sealed one over the other, as those of feedback are, and the file that
writers lock says how long the log was, so neither a changed line nor the loss of the last ones goes unnoticed.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from functools import cached_property
from math import isfinite
from pathlib import Path
from typing import Any

from engine.data import files
from engine.data.cache import explained
from engine.data.locks import lock_of, locked
from engine.errors import DataError, ParamError
from engine.feedback.records import is_whole
from engine.feedback.serialization import START, opened, sealed
from engine.judging.pool import Pair
from engine.paths import file_mode, make_folder
from engine.values import Corpus, Notice, Queries

GRADES = (0, 1, 2, 3)
"""Not relevant; touches on it; relevant; exactly what was asked for."""
_OLDER, _HEAD = ({"log": "judgements", "version": version} for version in (1, 2))
"""First lines: of logs without seals, to which older versions still write, and of today's."""


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
        return Notice.of("judged documents are not in this corpus", gone)


class JudgingLog:
    """A file of judgements; thread-safe. It and its folder are made when first written to.

    path: of the file (.jsonl). Whatever reads it raises DataError where it is no such log, or a line of it is damaged.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._mutex = threading.Lock()
        self._fold, self._place = _Fold(), (0, 0)  # inode, and how many bytes of it were read

    def read(self) -> Judged:
        """All that is in the file by now."""
        with self._mutex:
            return self._refreshed().judged

    def judge(self, query: str, document: str, grade: int | None, person: str = "") -> Judged:
        """What the log holds with one judgement more, which is on the disk when this returns.

        grade: 0 to 3, None to skip. Raises ParamError for another one, FrontierError where it cannot be written.
        """
        return self.add([Judgement(query=query, document=document, grade=grade, person=person, time=time.time())])

    def add(self, judgements: Iterable[Judgement]) -> Judged:
        """What the log holds with several judgements more; raises as `judge`, and then nothing is written."""
        records = []
        for judgement in judgements:
            if problem := _problem(judgement):
                raise ParamError(problem)
            records.append(asdict(judgement))
        with self._writing():
            return self._append(records)

    def undo(self, person: str = "") -> tuple[Judged, Judgement | None]:
        """What the log holds once a person's newest judgement is taken back, and that one; None where there is none.

        What the person had said of the pair before counts again.
        """
        with self._writing() as fold:
            newest = fold.newest(person)
            return self._append([{"undo": person, "time": time.time()}] if newest else []), newest

    def ask(self, queries: Queries) -> Judged:
        """What the log holds with these queries, which it remembers; those that it has are passed over.

        Raises DataError for an id that it has with another text.
        """
        with self._writing() as fold:
            new = []
            for query, text in zip(queries.ids, queries.texts, strict=True):
                if fold.texts.get(query, text) != text:
                    known = fold.texts[query]
                    raise DataError(f"the query {query!r} is {known!r} in {self.path}; give {text!r} another id")
                if query not in fold.texts:
                    new.append({"query": query, "text": text})
            return self._append(new)

    @contextmanager
    def _writing(self) -> Iterator[_Fold]:
        """The file up to date, and nobody else writing to it; made where there is none."""
        with self._mutex:
            with explained(self.path):
                make_folder(self.path.parent)
                os.close(os.open(self.path, os.O_WRONLY | os.O_CREAT, file_mode(self.path)))
            with locked(self.path):
                yield self._refreshed()

    def _append(self, records: Sequence[Mapping[str, Any]]) -> Judged:
        """Write whole lines behind the last whole one, and read them; within `_writing`."""
        if records:
            inode, end = self._place
            text = "".join(f"{line}\n" for line in self._fold.lines_of(records)).encode("ascii")
            with explained(self.path), self.path.open("r+b") as file:
                file.truncate(end)
                file.seek(end)
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
                inode = os.fstat(file.fileno()).st_ino
            with suppress(OSError):  # where there is no such file, or its lock stands in the way
                lock_of(self.path).write_text(f"{inode} {end + len(text)}\n", encoding="ascii")
        return self._refreshed().judged

    def _refreshed(self) -> _Fold:
        """All whole lines of the file, of which only the new ones are read."""
        known = self._known()
        if not files.present(self.path):
            self._fold, self._place = _Fold(), (0, 0)
            return self._fold
        with files.readable(self.path), files.opened(self.path) as file:
            stat = os.fstat(file.fileno())
            inode, end = self._place
            if stat.st_ino != inode or stat.st_size < end:
                self._fold, end = _Fold(), 0  # another file in its place
            file.seek(end)
            raw = file.read()
        *whole, rest = raw.split(b"\n")
        if not end and not whole and not any(json.dumps(head).encode().startswith(rest) for head in (_OLDER, _HEAD)):
            raise DataError(f"{self.path} is no log of judgements; choose another file")
        for line in whole:
            self._fold.take(line, self.path)
            end += len(line) + 1
            self._place = stat.st_ino, end
        if known[0] == stat.st_ino and known[1] > end:
            raise DataError(
                f"{self.path} has whole lines up to byte {end:,}, and {known[1]:,} bytes were written: its last lines "
                f"were cut off. Copy the file back from a backup, or delete {lock_of(self.path).name} to go on with "
                "what is left"
            )
        return self._fold

    def _known(self) -> tuple[int, int]:
        """Inode and size of the file when it was last written to; zeros where nobody noted it."""
        try:
            inode, size = map(int, lock_of(self.path).read_text("ascii").split())
        except (OSError, ValueError):
            return 0, 0
        return inode, size


class _Fold:
    """The lines of a log, taken one after the other."""

    def __init__(self) -> None:
        self._seal: str | None = START  # of the last line, None in a log without seals
        self.texts: dict[str, str] = {}
        self._lines = 0
        self._said: dict[int, Judgement] = {}  # by line, what was not taken back
        self._own: dict[str, list[int]] = defaultdict(list)  # person → lines of it
        self._judged: Judged | None = None

    @property
    def judged(self) -> Judged:
        """The value of the lines so far."""
        if self._judged is None:
            newest: dict[tuple[str, str, str], Judgement] = {}
            for said in self._said.values():
                key = said.person, said.query, said.document
                newest.pop(key, None)
                newest[key] = said
            self._judged = Judged(tuple(newest.values()), dict(self.texts))
        return self._judged

    def newest(self, person: str) -> Judgement | None:
        """The last of a person that was not taken back."""
        own = self._own[person]
        return self._said[own[-1]] if own else None

    def lines_of(self, records: Sequence[Mapping[str, Any]]) -> list[str]:
        """Records as the next lines of the file, behind its first."""
        lines, seal = [] if self._lines else [json.dumps(_HEAD)], self._seal
        for record in records:
            if seal is None:
                lines.append(json.dumps(record))
            else:
                line, seal = sealed(record, seal)
                lines.append(line)
        return lines

    def take(self, line: bytes, path: Path) -> None:
        """One more line. Raises DataError naming file and line."""
        number, seal = self._lines + 1, self._seal
        try:
            if number == 1:
                record = json.loads(line)
                if record not in (_OLDER, _HEAD):
                    raise ValueError("the first line of such a log says what it is")
                seal = START if record == _HEAD else None
            elif seal is None:
                self._record(number, json.loads(line))
            elif (content := opened(line.decode("ascii", "replace"), seal)) is None:
                raise ValueError("it is not as it was written")
            else:
                record, seal = content
                self._record(number, record)
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            fix = f"; keep the lines before it: head -n {number - 1} {path.name} > kept.jsonl" if number > 1 else ""
            what = "is damaged" if number > 1 else "is no log of judgements"
            raise DataError(f"{path} line {number} {what} ({error}){fix}") from None
        self._lines, self._seal, self._judged = number, seal, None

    def _record(self, number: int, record: Any) -> None:
        if "undo" in record:
            if own := self._own[record["undo"]]:
                del self._said[own.pop()]
        elif "text" in record:
            Queries((record["query"],), (record["text"],))
            self.texts[record["query"]] = record["text"]
        else:
            judgement = Judgement(**record)
            if problem := _problem(judgement):
                raise ValueError(problem)
            self._said[number] = judgement
            self._own[judgement.person].append(number)


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
