"""Roles of a table's columns: id, text, title and vectors, named by the caller or guessed from the first rows."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from statistics import fmean
from typing import Any, NamedTuple

from engine.data.vector_column import parse_numbers
from engine.errors import DataError

ID_NAMES = (
    *("id", "_id", "doc_id", "docid", "document_id", "documentid", "id_", "uid", "uuid"),
    *("chunk_id", "passage_id", "corpus_id", "node_id", "pid"),
)
TEXT_NAMES = (
    *("text", "body", "content", "contents", "page_content", "chunk_text", "chunk", "passage", "passage_text"),
    *("document", "document_text", "sentence", "description"),
)
TITLE_NAMES = ("title", "name", "headline", "heading", "subject")
COLUMN_ROLES = ("id", "text", "title", "vectors")
NO_COLUMN = "none"
"""Name by which a caller refuses a role that would be guessed."""
HEADER_RULES = ("auto", "first", "none")
"""First line of a .csv, .tsv or .xlsx table: guessed, names of columns, or data."""

ColumnChoice = Mapping[str, str | None]
"""Role → name of its column; None or "none" for no column."""

_ID_ENDING = re.compile("(_id|(^|_)(no|nr|number|code|key|ref))$")
# Names that pandas gives the index of a data frame.
_INDEX_NAMES = ("", "unnamed:_0", "__index_level_0__")
# Lists with fewer numbers may be spans or coordinates, so that they are not offered as vectors.
_MIN_OFFERED_DIMENSION = 16
# A name of a column is no sentence, and seldom as long.
_MIN_SENTENCE_WORDS, _MAX_NAME_CHARS = 6, 200
_DIGITS = re.compile(r"\d+")
_HEX_ID = re.compile(r"[0-9a-fA-F-]{12,}")


@dataclass(frozen=True, kw_only=True)
class Columns:
    """Roles of a table's columns; without an id column rows are numbered from 0.

    text: None only for documents that are vectors alone; metadata: columns that are loaded beside the documents, as
    text; vectors: column of lists of numbers, the documents' own vectors.
    """

    id: str | None = None
    text: str | None
    title: str | None = None
    metadata: tuple[str, ...] = ()
    vectors: str | None = None

    @property
    def required(self) -> tuple[str, ...]:
        """The columns that a table must have."""
        names = (self.id, self.text, self.title, self.vectors, *self.metadata)
        return tuple(name for name in names if name is not None)


@dataclass(frozen=True, kw_only=True)
class ColumnFacts:
    """Facts of a column, as the first rows of a table show them."""

    is_empty: bool  # True if no row has a value
    is_text: bool  # False if all values are lists or objects
    is_unique: bool
    n_chars: int  # of all values as texts
    dimension: int | None  # length of the lists of numbers, None if the column is not one of vectors


def check_column_choice(column_names: ColumnChoice) -> ColumnChoice:
    """Return a mapping from roles to names of columns. Raises DataError for an unknown role."""
    if unknown_roles := sorted(column_names.keys() - set(COLUMN_ROLES)):
        raise DataError(f"columns may name {', '.join(COLUMN_ROLES)}; got {', '.join(unknown_roles)}")
    return dict(column_names)


class CellKind(NamedTuple):
    """Kind of one cell of a table: length of its list of numbers, None without one, and True for a list or object."""

    n_numbers: int | None
    is_nested: bool


def describe_cell(value: Any) -> CellKind:
    """Return the kind of a cell; a text of a list of numbers counts as one, and a single number in brackets as none."""
    numbers = parse_numbers(value)
    n_numbers = None if numbers is None or len(numbers) < 2 else len(numbers)
    return CellKind(n_numbers, isinstance(value, list | dict))


def describe_column(cell_texts: Sequence[str], cell_kinds: Sequence[CellKind]) -> ColumnFacts:
    """Describe a column by the cells of the first rows: their texts, "" for missing ones, and their kinds."""
    present_kinds = [kind for kind, cell_text in zip(cell_kinds, cell_texts, strict=True) if cell_text]
    # A column of vectors has lists of numbers in every row, all of one length.
    lengths = set(map(itemgetter(0), present_kinds))
    dimension = lengths.pop() if len(lengths) == 1 else None
    # One text among lists makes a column of texts, in which a list is an error of its row.
    n_texts = sum(kind.n_numbers is None and not kind.is_nested for kind in present_kinds)
    return ColumnFacts(
        is_empty=bool(cell_texts) and not present_kinds,
        is_text=not present_kinds or n_texts > 0,
        is_unique=len(set(cell_texts)) == len(cell_texts),
        n_chars=sum(map(len, cell_texts)),
        dimension=dimension,
    )


def choose_columns(facts: Mapping[str, ColumnFacts], requested: ColumnChoice | None = None) -> Columns:
    """Return the roles of a table's columns: those that are requested, and guesses for all others but vectors.

    A role is guessed by usual names, that of texts else by their length. Lists and objects are never ids, texts or
    titles. facts: of each column, in the table's order; requested: role → column, None or "none" to refuse a role. The
    text is None if no column can be it, which `check_text_column` refuses.
    """
    requested = dict(requested or {})
    for role, column_name in requested.items():
        # A column that is called so is meant where there is one.
        if column_name == NO_COLUMN and NO_COLUMN not in facts:
            requested[role] = None
    requested_names = set(filter(None, requested.values()))
    candidates = []
    for column_name, column_facts in facts.items():
        if column_name not in requested_names and column_facts.is_text:
            candidates.append(column_name)
    vectors = requested.get("vectors")
    title = requested["title"] if "title" in requested else _find_usual_name(candidates, TITLE_NAMES)
    doc_id = requested["id"] if "id" in requested else _guess_id_column(candidates, facts)
    if "text" in requested:
        text = requested["text"]
    else:
        text = _guess_text_column(candidates, facts, doc_id, title, has_vectors=vectors is not None)
    # The column of texts is never that of guessed ids or titles too.
    if "id" not in requested and doc_id == text:
        doc_id = None
    if "title" not in requested and title == text:
        title = None
    return Columns(id=doc_id, text=text, title=title, vectors=vectors)


def _find_usual_name(column_names: Collection[str], usual_names: Iterable[str]) -> str | None:
    """Return the column with the first usual name that occurs; None if none does."""
    # Of two columns with one normalized name the earlier is taken.
    column_of = {normalize_name(column_name): column_name for column_name in reversed(list(column_names))}
    return next(filter(None, map(column_of.get, usual_names)), None)


def _guess_id_column(candidates: Sequence[str], facts: Mapping[str, ColumnFacts]) -> str | None:
    """Return the column that most likely holds ids; None if none does.

    Of several with usual names the first that distinguishes the first rows is taken: a table of chunks may have the id
    of their document too.
    """
    # A column of nulls holds no ids, whatever its name.
    filled_names = [column_name for column_name in candidates if not facts[column_name].is_empty]
    unique_names = [column_name for column_name in filled_names if facts[column_name].is_unique]
    usual_name = _find_usual_name(unique_names, ID_NAMES) or _find_usual_name(filled_names, ID_NAMES)
    if usual_name is not None:
        return usual_name
    # A first column such as "ticket id" or "Record No", or the index of a data frame, holds ids if it distinguishes
    # the first rows.
    first_column = next(iter(facts))
    first_name = normalize_name(first_column)
    is_id_name = first_name in _INDEX_NAMES or _ID_ENDING.search(first_name)
    return first_column if is_id_name and first_column in unique_names else None


def _guess_text_column(
    candidates: Sequence[str],
    facts: Mapping[str, ColumnFacts],
    id_column: str | None,
    title_column: str | None,
    has_vectors: bool,
) -> str | None:
    """Return the column that most likely holds texts: one of a usual name, else the longest; None if none can.

    has_vectors: whether documents have vectors of their own, so that ids and titles need not serve as texts.
    """
    usual_name = _find_usual_name(candidates, TEXT_NAMES)
    if usual_name is not None:
        return usual_name
    text_candidates = [column_name for column_name in candidates if column_name not in (id_column, title_column)]
    # A title can be all that there is to read; an id only if no other column could have been meant.
    if not text_candidates and title_column is not None:
        text_candidates = [title_column]
    elif not text_candidates and not has_vectors and len(candidates) == len(facts):
        text_candidates = list(candidates)
    return max(text_candidates, key=lambda column_name: facts[column_name].n_chars, default=None)


def check_text_column(table_name: str, facts: Mapping[str, ColumnFacts], columns: Columns) -> None:
    """Raise DataError if documents would have neither texts nor vectors, or texts of lists or objects."""
    text = columns.text
    if text is None and columns.vectors is None:
        listed_names = ", ".join(map(repr, facts))
        offers = offer_vectors(facts, None)
        problem = f"{table_name} has no column of texts among {listed_names} (lists and objects are none)"
        coded_advice, advice = "name the column of texts (text=NAME)", "name the column of texts"
        if offers:
            coded_advice, advice = _write_advice(offers)
        raise DataError(f"{problem}; {coded_advice}", f"{problem}; {advice}")
    if text is None or text not in facts or facts[text].is_text:
        return
    problem = f"{table_name}: {text!r} holds lists or objects, which are no texts; name another column"
    coded_advice, advice = _write_advice(offer_vectors({text: facts[text]}, None))
    raise DataError("; ".join(filter(None, [problem, coded_advice])), "; ".join(filter(None, [problem, advice])))


def _write_advice(offers: Mapping[str, str]) -> tuple[str, str]:
    """Return the offers of columns of vectors as one text, with the option of each and without."""
    return "; ".join(f"{offer} (vectors={column})" for column, offer in offers.items()), "; ".join(offers.values())


def offer_vectors(facts: Mapping[str, ColumnFacts], vectors: str | None) -> dict[str, str]:
    """Return column → part of a sentence, for each that could be the documents' own vectors.

    vectors: the column that is, if any; then no other one is offered.
    """
    offers = {}
    for column_name, column_facts in facts.items():
        dimension = column_facts.dimension or 0
        if vectors is None and dimension >= _MIN_OFFERED_DIMENSION:
            offers[column_name] = f"use column {column_name!r} as vectors, {dimension:,} dimensions"
    return offers


def looks_like_data(first_rows: Sequence[Sequence[str]]) -> bool:
    """Return True if the first row of a table is no header but data, like the rows below it.

    It is data if its first field is an id like those below, or if one of its fields is a sentence; never if one of its
    fields is a usual name of a column.
    """
    header_fields = first_rows[0]
    usual_names = {*ID_NAMES, *TEXT_NAMES, *TITLE_NAMES}
    if any(normalize_name(field) in usual_names for field in header_fields):
        return False
    # A data frame without names of columns has their numbers in its first line.
    if len(header_fields) > 1 and list(header_fields) in (_count_from(0, header_fields), _count_from(1, header_fields)):
        return False
    for field in header_fields:
        is_sentence = len(field.split()) >= _MIN_SENTENCE_WORDS and field.rstrip().endswith(".")
        if is_sentence or len(field) > _MAX_NAME_CHARS:
            return True
    if len(header_fields) < 2:
        return False
    first_field, fields_below = header_fields[0], [row[0] for row in first_rows[1:] if row]
    first_shape = _describe_id_shape(first_field)
    if first_shape is None:
        return False
    # A number alone is no name, so that a table of one row needs no row to compare it with.
    if not fields_below:
        return first_field.strip().isdecimal()
    n_alike = sum(_describe_id_shape(field) == first_shape for field in fields_below)
    return 2 * n_alike >= len(fields_below)


def _count_from(start: int, fields: Sequence[str]) -> list[str]:
    """Return the numbers from `start` on as texts; the first is empty if that of the fields is."""
    # With its index in front, a data frame's numbers begin in the second column.
    if fields[0] == "":
        return ["", *map(str, range(start, start + len(fields) - 1))]
    return list(map(str, range(start, start + len(fields))))


def _describe_id_shape(field: str) -> str | None:
    """Return the shape of an id, by which ids of one table are alike; None for a text without digits or with spaces."""
    field = field.strip()
    if not field or " " in field or not any(map(str.isdigit, field)):
        return None
    if _HEX_ID.fullmatch(field):
        return f"hexadecimal {len(field)}"
    return _DIGITS.sub("0", field)


def name_columns(first_rows: Sequence[Sequence[str]]) -> list[str]:
    """Return names for the columns of a table without a header: "id", "text", and "column 3" for a further one.

    The first column holds ids if it distinguishes the first rows and is not the longest, which holds the texts.
    """
    n_columns = len(first_rows[0])
    full_rows = [row for row in first_rows if len(row) == n_columns]
    lengths = [fmean(len(row[position]) for row in full_rows) for position in range(n_columns)]
    text_position = max(range(n_columns), key=lengths.__getitem__)
    names = [f"column {position + 1}" for position in range(n_columns)]
    names[text_position] = "text"
    if text_position > 0 and len(set(map(itemgetter(0), full_rows))) == len(full_rows):
        names[0] = "id"
    return names


def normalize_name(column_name: str) -> str:
    """Return a column's name in the style of the usual names: "Doc ID", "doc-id" and "docId" as "doc_id"."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])|[\s.-]+", "_", column_name.strip()).lower()
