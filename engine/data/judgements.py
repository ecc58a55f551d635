"""Reading of judgements: TREC's and BEIR's columns, tables with a header, JSON and Parquet; with or without aspects."""

import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

from engine.data.field_lines import (
    DOCUMENT_NAMES,
    ITERATION_NAMES,
    QUERY_NAMES,
    Fields,
    Roles,
    describe_matches,
    drop_empty_ends,
    find_columns,
    list_other_columns,
    match_ids,
    number_objects,
    read_field_lines,
)
from engine.data.files import split_suffix
from engine.data.json_files import is_json_lines, read_json_document
from engine.data.parquet import ParquetTable
from engine.data.tables import parse_id, read_json_rows
from engine.errors import ConflictingGradesError, DataError
from engine.progress import Progress, counted
from engine.values import FRACTION_FIX, Notice

Notices = tuple[Notice, ...]
JudgementTable = dict[tuple[str, ...], dict[str, int]]
"""grades[(query,)][document], or grades[(query, aspect)][document]."""
CONFLICT_RULES = ("refuse", "max", "last")
"""Treatments of a pair with different grades: raise an error, take the highest grade, take the last one."""
RECORD_SUFFIXES = (".jsonl", ".ndjson", ".json", ".parquet")

JUDGEMENT_NAMES: Mapping[str, Sequence[str]] = {
    "query": QUERY_NAMES,
    "document": DOCUMENT_NAMES,
    "grade": (
        "score", "grade", "relevance", "rel", "label", "judgement", "judgment", "qrel", "qrels", "relevant", "rating",
        "relevancegrade", "relevancelabel", "relevancescore", "relevancejudgement", "relevancejudgment", "gain",
    ),
    "aspect": ("aspectid", "aspect", "subtopicid", "subtopic", "subtopicnumber", "intentid", "intent", "facet"),
    "iteration": ITERATION_NAMES,
}  # fmt: skip
_RANK_NAMES = frozenset(("rank", "ranking", "position", "place"))
_ORDERS: Mapping[int, tuple[str, ...]] = {
    2: ("query", "document"),
    3: ("query", "document", "grade"),
    4: ("query", "iteration", "document", "grade"),
}
"""Number of columns without a header → their roles."""
_ASPECT_ORDER = ("query", "aspect", "document", "grade")
_FIELD_NAMES: Mapping[tuple[str, ...], str] = {
    _ORDERS[2]: "query-id, corpus-id",
    _ORDERS[3]: "query-id, corpus-id, score",
    _ORDERS[4]: "query, 0, document, grade",
    _ASPECT_ORDER: "query-id, aspect-id, corpus-id, score",
}
_DIGITS = frozenset("0123456789")
_TRUTH_GRADES = {"true": 1, "false": 0}
_GRADE_PATTERN = re.compile(r"([+-]?[0-9]{1,18})(\.0*)?")
# Rounds of judging may be counted by halves, as TREC-COVID's are; subtopics never.
_ROUND_PATTERN = re.compile(r"[0-9]*\.[0-9]+")
_ROUND_NAMES = frozenset({"", "0", "q0", "Q0"})
MAX_USUAL_GRADE = 1000
"""Higher grades are most likely ids: the third column of triples, say."""
_HEADER_FIX = "name the columns in a first line (query-id, corpus-id, score)"


class JudgedPair(NamedTuple):
    """One judgement as a file has it, with its line or row.

    aspect: in a file without aspects, TREC's iteration, or ""
    """

    line: int
    query: str
    aspect: str
    document: str
    grade: int


@dataclass(frozen=True, kw_only=True)
class JudgementRows:
    """The judgements of a file, in its order.

    label: name of the file in messages; with_aspects: whether a column of the file tells aspects (subtopics) apart;
    may_name_columns: whether the first row may be a header, as in a file of pairs, which have no number
    """

    label: str
    rows: Sequence[JudgedPair]
    with_aspects: bool
    notices: Notices
    row_word: str = "line"
    may_name_columns: bool = False

    def match_known(self, query_ids: Collection[str], document_ids: Collection[str]) -> "JudgementRows":
        """Return the judgements with ids that are written as those of the corpus and its queries are, and notices."""
        self._check_order(document_ids)
        queries = match_ids(dict.fromkeys(map(attrgetter("query"), self.rows)), query_ids)
        documents = match_ids(dict.fromkeys(map(attrgetter("document"), self.rows)), document_ids)
        header_notices = self._note_header(query_ids, document_ids)
        judged_rows = self.rows[len(header_notices) :]
        if not queries and not documents:
            return replace(self, rows=judged_rows, notices=self.notices + header_notices)
        rows = []
        for row in judged_rows:
            query, document = queries.get(row.query, row.query), documents.get(row.document, row.document)
            rows.append(row._replace(query=query, document=document))
        remark = "ids in {} are not written as in {}, and were matched"
        notices = Notice.for_ids(remark.format(self.label, "the queries"), describe_matches(queries))
        notices += Notice.for_ids(remark.format(self.label, "the corpus"), describe_matches(documents))
        return replace(self, rows=rows, notices=self.notices + header_notices + notices)

    def _note_header(self, query_ids: Collection[str], document_ids: Collection[str]) -> Notices:
        """Return a notice if the first row of a file of pairs is a header: its ids are unknown, those below are not.

        Its names are then no usual ones, which would have been recognised.
        """
        first_rows = self.rows[:2] if self.may_name_columns else ()
        known_ids = [row.query in query_ids or row.document in document_ids for row in first_rows]
        if known_ids != [False, True]:
            return ()
        remark = f"first line of {self.label} has no id that is known, and is read as names of columns"
        pair_text = f"{self.rows[0].query} {self.rows[0].document}"
        return Notice.for_ids(remark, [pair_text])

    def _check_order(self, document_ids: Collection[str]) -> None:
        """Raise DataError for four columns of which the second holds the documents and the last one the iteration.

        ir_datasets writes a table in this order: query, document, relevance, iteration.
        """
        has_iterations = any(row.aspect for row in self.rows) and not any(row.grade for row in self.rows)
        if has_iterations and all(row.aspect in document_ids for row in self.rows):
            raise DataError(
                f"{self.label}: its second column holds documents, and its last one only 0, which is no grade for any; "
                f"{_HEADER_FIX}, or put them in the order query, 0, document, grade"
            )

    def resolve(self, conflict_rule: str) -> tuple[JudgementTable, Notices]:
        """Build the grades, keyed by (query,) or by (query, aspect); return them with notices of repeated pairs.

        conflict_rule: "refuse", "max" or "last", what is done with a pair that has different grades. Raises
        ConflictingGradesError if the rule is to refuse them.
        """
        if conflict_rule not in CONFLICT_RULES:
            listed_rules = ", ".join(map(repr, CONFLICT_RULES))
            raise DataError(f"conflicting_grades must be one of {listed_rules}; got {conflict_rule!r}")
        table: JudgementTable = {}
        repeated_pairs: list[str] = []
        conflicting_pairs: dict[str, None] = {}
        for row in self.rows:
            key = (row.query, row.aspect) if self.with_aspects else (row.query,)
            grades = table.setdefault(key, {})
            if row.document not in grades:
                grades[row.document] = row.grade
                continue
            pair_text = " ".join([*key, row.document])
            if row.grade == grades[row.document]:
                repeated_pairs.append(pair_text)
                continue
            if conflict_rule == "refuse":
                raise self._refuse_conflict(row, pair_text)
            conflicting_pairs[pair_text] = None
            grades[row.document] = max(row.grade, grades[row.document]) if conflict_rule == "max" else row.grade
        notices = Notice.for_ids(f"judgements in {self.label} are repeated", repeated_pairs)
        rule_text = "highest" if conflict_rule == "max" else "last"
        remark = f"pairs in {self.label} have different grades, of which the {rule_text} counts"
        return table, notices + Notice.for_ids(remark, conflicting_pairs)

    def _refuse_conflict(self, row: JudgedPair, pair_text: str) -> ConflictingGradesError:
        """Return the error for a pair with two grades."""
        aspects = {row.aspect} if self.with_aspects else {other.aspect for other in self.rows}
        same_pairs = (
            r for r in self.rows if (r.query, r.document) == (row.query, row.document) and r.aspect in aspects
        )
        first_row = next(same_pairs)
        word, first_place = self.row_word, f"{self.row_word} {first_row.line}"
        finding = (
            f"{self.label} {word} {row.line}: {pair_text!r} is judged {row.grade} here and {first_row.grade} on "
            f"{first_place}; keep one of them, or take the highest grade of such pairs or the last one"
        )
        options = (
            '(conflicting_grades="max" or "last" from Python; --conflicting-grades max or last on the command line)'
        )
        return ConflictingGradesError(f"{finding} {options}", finding)


@dataclass(kw_only=True)
class _Reader:
    """Reader of one file: its label, and what is odd about its columns."""

    label: str
    needs_aspects: bool = False
    has_aspects: bool = False
    has_pairs: bool = False
    row_word: str = "line"
    notices: list[Notice] = field(default_factory=list)

    @property
    def orders(self) -> Mapping[int, tuple[str, ...]]:
        """Number of columns without a header → their roles."""
        return {4: _ASPECT_ORDER} if self.needs_aspects else _ORDERS

    def is_complete(self, fields: Fields) -> bool:
        """Return True if a line of these fields may be a header or a judgement."""
        return len(fields) in (3, 4) and (self.is_header(fields) or _is_numeric(fields[-1]))

    def is_header(self, fields: Fields) -> bool:
        """Return True if a file's first line names its columns."""
        # A header may call TREC's second column 0; any other number, and a second 0, is a grade or an id.
        numbers = [text.strip() for text in fields if _is_numeric(text)]
        if numbers and numbers != ["0"]:
            return False
        roles = find_columns(fields, JUDGEMENT_NAMES, self.label)
        if len(fields) == 2:
            return {"query", "document"} <= roles.keys()
        return roles.get("grade") == len(fields) - 1 or len(roles.keys() - {"iteration"}) > 1

    def read_header(self, fields: Fields) -> Roles:
        """Find the roles of columns by their names; the ones that have no usual name by their order.

        Raises DataError if columns are missing, or if it is unclear which is which.
        """
        roles = find_columns(fields, JUDGEMENT_NAMES, self.label)
        required_roles = ["query", "aspect", "document"] if self.needs_aspects else ["query", "document"]
        missing_roles = [role for role in required_roles if role not in roles]
        other_columns = list_other_columns(fields, roles)
        if "grade" not in roles and other_columns:
            missing_roles.append("grade")
        if missing_roles and len(missing_roles) != len(other_columns):
            listed_names = ", ".join(map(repr, fields))
            raise DataError(
                f"{self.label} line 1: no column is called as one of {' and '.join(missing_roles)}s is; it has "
                f"{listed_names}; {_HEADER_FIX}"
            )
        roles |= dict(zip(missing_roles, other_columns, strict=True)) if missing_roles else {}
        # A rank read as a grade would call the last document of a list the most relevant.
        if "grade" in missing_roles and fields[roles["grade"]].strip().lower() in _RANK_NAMES:
            raise DataError(
                f"{self.label} line 1: {fields[roles['grade']]!r} is a place in a list, not a grade; is this a run? "
                f"{_HEADER_FIX}"
            )
        if missing_roles:
            guesses = ", ".join(f"{fields[roles[role]]} = {role}" for role in missing_roles)
            self.add_notice(
                f"columns of {self.label} have no usual name, and are read as: {guesses}", len(missing_roles)
            )
        # Objects of one file may have other keys, and parts of one split other columns.
        self.has_aspects |= "aspect" in roles
        # Named as such, the iteration is no subtopic.
        roles.pop("iteration", None)
        return roles

    def read_order(self, fields: Fields, line_number: int) -> Roles:
        """Find the roles of columns by their number, in a file without a header. Raises DataError."""
        # A trailing tab adds an empty field; behind two fields it may be a grade that is missing.
        fields = drop_empty_ends(fields, 3)
        order = self.orders.get(len(fields))
        if order is None:
            expected = _FIELD_NAMES[max(self.orders.items())[1] if self.needs_aspects else _ORDERS[3]]
            cause = "is this a run? " if len(fields) in (5, 6) else ""
            if any("\r" in text for text in fields):
                cause = "lines must end in LF or CRLF, not in CR alone; "
            raise DataError(
                f"{self.label} line {line_number}: expected {counted(expected.count(',') + 1, 'field')} ({expected}) "
                "separated by "
                f"tabs, found {len(fields)}; {cause}{_HEADER_FIX}"
            )
        self.has_aspects |= "aspect" in order
        self.has_pairs = order == _ORDERS[2]
        return {role: column for column, role in enumerate(order)}

    def read_text(self, path: Path, progress: Progress) -> Iterator[JudgedPair]:
        """Yield the judgements of a text file of columns. Raises DataError naming the line."""
        numbered_lines = read_field_lines(path, self.is_complete, progress)
        first_line, first_fields = next(numbered_lines, (0, None))
        if first_fields is None:
            return
        names = drop_empty_ends(first_fields)
        if has_header := self.is_header(names):
            roles = self.read_header(names)
        else:
            roles = self.read_order(first_fields, first_line)
            names = [""] * len(roles)
            numbered_lines = chain([(first_line, first_fields)], numbered_lines)
        if has_header:
            roles, names, numbered_lines = self._skip_row_names(roles, names, numbered_lines)
        query_column, document_column, grade_column = roles["query"], roles["document"], roles.get("grade")
        # Until the whole file is read, the iteration of TREC's format may be a subtopic.
        aspect_column = roles.get("aspect", roles.get("iteration"))
        for line_number, fields in numbered_lines:
            if len(fields) != len(names):
                fields = drop_empty_ends(fields, len(names))
            if len(fields) != len(names):
                listed_names = ", ".join(names) if has_header else _FIELD_NAMES[tuple(roles)]
                raise DataError(
                    f"{self.label} line {line_number}: expected {len(names)} fields ({listed_names}) separated by "
                    f"tabs, found {len(fields)}"
                )
            grade = 1
            if grade_column is not None:
                grade = self.read_grade(fields[grade_column], names[grade_column], line_number)
            aspect = "" if aspect_column is None else fields[aspect_column]
            yield JudgedPair(line_number, fields[query_column], aspect, fields[document_column], grade)
        self._note_missing_grades(roles)

    def _skip_row_names(
        self, roles: Roles, names: Fields, numbered_lines: Iterator[tuple[int, Fields]]
    ) -> tuple[Roles, Fields, Iterator[tuple[int, Fields]]]:
        """Shift the columns by one if rows have a field more than the header, as R's write.table makes them.

        Returns the roles, the names of the columns and the lines, of which the first is read for this.
        """
        first_rows = list(islice(numbered_lines, 1))
        numbered_lines = chain(first_rows, numbered_lines)
        # R quotes the names, and separates them by spaces or tabs, at which quotes are left in place.
        is_quoted = all(name.startswith('"') for name in names)
        if not is_quoted or not first_rows or len(drop_empty_ends(first_rows[0][1])) != len(names) + 1:
            return roles, names, numbered_lines
        self.add_notice(f"column more than {self.label} names: the first field of each row is taken for its number", 1)
        return {role: column + 1 for role, column in roles.items()}, ["", *names], numbered_lines

    def read_records(self, records: Iterator[tuple[int, Mapping[str, Any]]]) -> Iterator[JudgedPair]:
        """Yield the judgements of numbered records of JSON or Parquet. Raises DataError naming the record."""
        roles: Roles = {}
        names: Fields = []
        for row_number, record in records:
            if list(record) != names:
                names = list(record)
                roles = self.read_header(names)
            location = f"{self.label} {self.row_word} {row_number}"
            ids = {"aspect": ""}
            for role in roles.keys() - {"grade"}:
                column_name = names[roles[role]]
                ids[role] = parse_id(record[column_name], location, column_name)
            grade = 1
            if "grade" in roles:
                column_name = names[roles["grade"]]
                grade = self.read_grade(record[column_name], column_name, row_number)
            yield JudgedPair(row_number, ids["query"], ids["aspect"], ids["document"], grade)
        self._note_missing_grades(roles)

    def read_grade(self, value: Any, column_name: str, line: int) -> int:
        """Return a grade as a whole number. Raises DataError for another value."""
        grade = parse_grade(value)
        if grade is None:
            raise _refuse_grade(f"{self.label} {self.row_word} {line}", value, column_name)
        return grade

    def _note_missing_grades(self, roles: Roles) -> None:
        """Note that a file has no grades, so that each judgement counts as grade 1."""
        if roles and "grade" not in roles:
            self.add_notice(f"column of grades is missing in {self.label}: each pair has grade 1", 1)

    def add_notice(self, remark: str, count: int) -> None:
        """Add a notice, once: records of JSON may have other columns from line to line."""
        if (notice := Notice(remark, count)) not in self.notices:
            self.notices.append(notice)


def read_judgement_files(
    paths: Sequence[Path], label: str, progress: Progress, with_aspects: bool = False, split: str | None = None
) -> JudgementRows:
    """Read the judgements of a file, or of the parts of one; label: its name in messages.

    Text of two columns (query, document), three (and a grade) or four (TREC's), separated by tabs, spaces, or the marks
    of a CSV file, with or without a header; JSON, as {query: {document: grade}}, {query: [document, …]} or objects with
    a query, a document and a grade; JSON Lines and Parquet of such objects. A second column of TREC's four that differs
    within a query holds subtopics, which become aspects. with_aspects: whether a column of aspects is required, as in
    aspects.tsv; split: which one of `list_json_splits` to read. Raises DataError naming file, line and fix; Cancelled.
    """
    reader = _Reader(label=label, needs_aspects=with_aspects)
    rows = list(chain.from_iterable(_read_rows(path, reader, progress, split) for path in paths))
    has_aspects = reader.has_aspects or with_aspects
    if not has_aspects and _has_subtopics(rows):
        subtopic_remark = "have subtopics in their second column, read as aspects (write 0 there if it means none)"
        reader.add_notice(f"judgements in {label} {subtopic_remark}", len(rows))
        has_aspects = True
    high_grades = [f"{row.query} {row.document} {row.grade}" for row in rows if row.grade > MAX_USUAL_GRADE]
    remark = f"grades in {label} are above {MAX_USUAL_GRADE:,}; is the column of grades one of ids?"
    notices = (*reader.notices, *Notice.for_ids(remark, high_grades))
    return JudgementRows(
        label=label,
        rows=rows,
        with_aspects=has_aspects,
        notices=notices,
        row_word=reader.row_word,
        may_name_columns=reader.has_pairs,
    )


def list_json_splits(path: Path, query_ids: Collection[str]) -> list[str]:
    """List the splits in one JSON file, {split: {query: {document: grade}}}; none in a file of another form.

    query_ids: of the data set; a split has one of them, and is not called like one
    """
    if split_suffix(path)[1] != ".json" or is_json_lines(path):
        return []
    document = read_json_document(path)
    if not isinstance(document, dict) or "relevant_docs" in document or any(name in query_ids for name in document):
        return []
    is_known = False
    for content in document.values():
        # A list of pairs would be that of a query's documents, and a list of objects is a split's.
        if isinstance(content, list) and content and all(isinstance(each, dict) for each in content):
            is_known = True
        elif isinstance(content, dict) and all(isinstance(each, dict | list) for each in content.values()):
            is_known = is_known or any(query_id in query_ids for query_id in content)
        else:
            return []
    return list(document) if is_known else []


def _read_rows(path: Path, reader: _Reader, progress: Progress, split: str | None) -> Iterator[JudgedPair]:
    """Return the judgements of a file, or of one of the splits in it, by the kind of its suffix."""
    suffix = split_suffix(path)[1]
    if suffix in (".jsonl", ".ndjson") or (suffix == ".json" and is_json_lines(path)):
        return reader.read_records(read_json_rows(path, progress))
    if suffix == ".json":
        document = read_json_document(path)
        document = document if split is None else document[split]
        if isinstance(document, list):
            reader.row_word = "value"
            return reader.read_records(number_objects(document, reader.label, "query-id, corpus-id and score"))
        reader.row_word = "query"
        return _read_dictionary(document, reader.label)
    if suffix == ".parquet":
        reader.row_word = "row"
        return _read_parquet(path, reader, progress)
    return reader.read_text(path, progress)


def _read_parquet(path: Path, reader: _Reader, progress: Progress) -> Iterator[JudgedPair]:
    """Yield the judgements of a Parquet file, of which the columns without a role are not read."""
    with closing(ParquetTable(path, max_rows=1)) as head:
        names = head.names
    roles = _Reader(label=reader.label, needs_aspects=reader.needs_aspects).read_header(names)
    table = ParquetTable(path, [names[column] for column in sorted(roles.values())])
    with closing(table.rows(progress)) as rows:
        yield from reader.read_records(rows)


def _read_dictionary(document: Any, label: str) -> Iterator[JudgedPair]:
    """Yield the judgements of {query: {document: grade}}, or of {query: [document, …]} with grade 1 each.

    LlamaIndex puts the second into "relevant_docs", beside queries and corpus. Raises DataError for another shape.
    """
    if isinstance(document, dict) and isinstance(document.get("relevant_docs"), dict) and "corpus" in document:
        document = document["relevant_docs"]
    if not isinstance(document, dict):
        raise DataError(f"{label}: expected {{query: {{document: grade}}}}; found {type(document).__name__}")
    for number, (query, judged) in enumerate(document.items(), 1):
        if isinstance(judged, list):
            judged = {parse_id(doc_id, f"{label} query {query!r}", "document"): 1 for doc_id in judged}
        if not isinstance(judged, dict):
            raise DataError(f"{label} query {query!r}: expected {{document: grade}}; found {type(judged).__name__}")
        for doc_id, value in judged.items():
            grade = parse_grade(value)
            if grade is None:
                raise _refuse_grade(f"{label} query {query!r}, document {doc_id!r}", value)
            yield JudgedPair(number, query, "", doc_id, grade)


def _refuse_grade(location: str, value: Any, column_name: str = "") -> DataError:
    """Return the error for a value that is no grade, with the fix that fits it."""
    column = f" in column {column_name!r}" if column_name else ""
    fix = f"give grades such as 0, 1, 2, or {_HEADER_FIX}"
    if isinstance(value, dict):
        fix = "the splits of one file must be {split: {query: {document: grade}}} with the ids of the corpus's queries"
    elif _is_numeric(value):
        fix = FRACTION_FIX
    return DataError(f"{location}: the score must be a whole number; found {value!r:.80}{column}; {fix}")


def _is_numeric(value: Any) -> bool:
    """Return True for a grade, or for a number that is none: a fraction."""
    if parse_grade(value) is not None:
        return True
    try:
        return math.isfinite(float(str(value).strip().strip('"')))
    except ValueError:
        return False


def parse_grade(value: Any) -> int | None:
    """Return a grade as a whole number; None for anything else. True counts as 1, and quotes are left out.

    pandas writes the truth values of a column as True and False.
    """
    if isinstance(value, bool):
        return int(value)
    # Most grades are one digit, which need no pattern.
    if isinstance(value, str) and value in _DIGITS:
        return int(value)
    grade_text = str(value).strip().strip('"').strip()
    grade_match = _GRADE_PATTERN.fullmatch(grade_text)
    return int(grade_match[1]) if grade_match else _TRUTH_GRADES.get(grade_text.lower())


def _has_subtopics(rows: Sequence[JudgedPair]) -> bool:
    """Return True if the second column of TREC's four columns holds subtopics.

    It is the same throughout a query otherwise, or counts rounds of judging, which may be halves.
    """
    first_values: dict[str, str] = {}
    differs = False
    if all(row.aspect in _ROUND_NAMES for row in rows):
        return False
    for row in rows:
        value = "0" if row.aspect in _ROUND_NAMES else row.aspect
        if _ROUND_PATTERN.fullmatch(value):
            return False
        differs = differs or first_values.setdefault(row.query, value) != value
    return differs
