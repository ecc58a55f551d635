"""Names of documents in lists, charts and tables, without the beginning that many of them share."""

import re
from bisect import bisect_left
from collections.abc import Iterator
from itertools import zip_longest
from weakref import WeakKeyDictionary

from engine.progress import shorten
from engine.values import Corpus, TextSource
from engine.wording import visible

MAX_NAME_LENGTH, MAX_FULL_NAME_LENGTH = 90, 240
"""Characters of a name, and of one in a tooltip, which has its beginning too."""
MAX_WHOLE_LENGTH, MIN_CUT_LENGTH = 48, 24
"""Characters up to which a name stays whole, and that a shared beginning must exceed to be cut."""
MAX_COMPARED_NAMES, MAX_COMPARED_LENGTH = 100_000, 300
"""Names of a corpus that are compared, evenly spaced in a larger one, and their characters."""
# Spaces, hyphens and underscores join the words of a phrase, which means nothing without its first half.
_SEPARATOR = re.compile(r"[^\w\s'’\"()\[\]{}-]+\s*")
_WORD = re.compile(r"\w")
_FIELD = re.compile(r"(?:^|, )(\w+): ?")
MIN_FIELDS = 3
"""Fields from which on a text without a title, "tool:Recipes, api:search, …", is named by their values."""
_NEIGHBOUR_OFFSETS = (-2, -1, 0, 1)

_SORTED_NAMES: WeakKeyDictionary[Corpus, list[str]] = WeakKeyDictionary()


def name_document(corpus: Corpus, row: int) -> str:
    """Return a document's name on one line: its title, else the beginning of its text, else its id.

    Of a text made of fields, "tool:Recipes, api:search, …", the values are the name. A long beginning that it shares
    with two other names or more is replaced by "…", so that names differ where they begin.
    """
    name = _list_values(_read_name(corpus, row))
    n_shared = _count_shared(corpus, name)
    text = f"…{name[n_shared:]}" if n_shared else name
    return shorten(visible(text), MAX_NAME_LENGTH)


def full_name(corpus: Corpus, row: int) -> str:
    """Return a document's name on one line with its beginning, for a tooltip."""
    return shorten(visible(_read_name(corpus, row)), MAX_FULL_NAME_LENGTH)


def format_heading(corpus: Corpus, row: int) -> str:
    """Return the heading of an open document: its title with its beginning, else its name, and its id."""
    title, doc_id = visible(" ".join(corpus.titles[row].split())), visible(corpus.ids[row])
    name = shorten(title, MAX_NAME_LENGTH) or name_document(corpus, row)
    return doc_id if name == doc_id else f"{name} · {doc_id}"


def _read_name(corpus: Corpus, row: int) -> str:
    """Return the beginning of a document's title, text or id, the first that has words, on one line."""
    sources = (corpus.titles, corpus.texts, corpus.ids)
    # A text may be a book: only its beginning is searched for white space.
    names = (" ".join(source[row][: 2 * MAX_COMPARED_LENGTH].split()) for source in sources)
    return next(filter(None, names), "")


def _list_values(text: str) -> str:
    """Return the values of a text that is made of fields, "Recipes · search"; another text as it is.

    Lists and tables among the values are left out, as they name nothing.
    """
    fields = list(_FIELD.finditer(text))
    if len(fields) < MIN_FIELDS or fields[0].start():
        return text
    values = list[str]()
    for field, following in zip_longest(fields, fields[1:]):
        value = text[field.end() : len(text) if following is None else following.start()].strip()
        if value and value[0] not in "[{":
            values.append(value)
    return " · ".join(values) or text


def _count_shared(corpus: Corpus, name: str) -> int:
    """Return the number of characters at a name's beginning that are cut; 0 for a name that stays whole."""
    # Texts on disk or in a store are not read for this, nor for the digest by which a corpus is looked up.
    if len(name) <= MAX_WHOLE_LENGTH or isinstance(corpus.texts, TextSource) or isinstance(corpus.titles, TextSource):
        return 0
    key, names = name[:MAX_COMPARED_LENGTH], _sort_names(corpus)
    lengths = sorted(_count_common(key, neighbour) for neighbour in _find_neighbours(names, key))
    # The second longest of the shared beginnings is the longest that two other names have.
    shared = key[: lengths[-2]] if len(lengths) > 1 else ""
    ends = (match.end() for match in _SEPARATOR.finditer(shared))
    fitting_ends = [end for end in ends if end > MIN_CUT_LENGTH and _WORD.search(name, end)]
    return fitting_ends[-1] if fitting_ends else 0


def _count_common(first: str, second: str) -> int:
    """Return the number of characters with which both texts begin."""
    pairs = enumerate(zip(first, second, strict=False))
    return next((position for position, (a, b) in pairs if a != b), min(len(first), len(second)))


def _find_neighbours(names: list[str], key: str) -> Iterator[str]:
    """Yield the two names before a key and the two behind it, among which are those that share most with it."""
    position = bisect_left(names, key)
    is_listed = position < len(names) and names[position] == key
    for offset in _NEIGHBOUR_OFFSETS:
        index = position + offset + (is_listed and offset >= 0)
        if 0 <= index < len(names):
            yield names[index]


def _sort_names(corpus: Corpus) -> list[str]:
    """Return the beginnings of a corpus's names in order, each once; the last result of each corpus is cached."""
    names = _SORTED_NAMES.get(corpus)
    if names is None:
        step = -(-len(corpus) // MAX_COMPARED_NAMES)
        all_names = (_list_values(_read_name(corpus, row)) for row in range(0, len(corpus), step))
        beginnings = {name[:MAX_COMPARED_LENGTH] for name in all_names}
        names = _SORTED_NAMES[corpus] = sorted(beginnings)
    return names
