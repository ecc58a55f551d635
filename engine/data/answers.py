"""Answer strings of queries, from answers.tsv in a BEIR folder, and the documents that contain them.

What an answer of a language model would show cannot be measured without one; whether what it needs stands in the texts
that it gets can. Answers are never embedded, and no query or document holds them.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from engine.data.cloze import containing
from engine.data.textfiles import lines
from engine.errors import DataError
from engine.values import Corpus

FILE = "answers.tsv"
"""A line an answer or key point: query-id, a tab, the text. A first line of these two names is a header."""
HEADER = ("query-id", "answer")


def read_answers(folder: str | Path) -> dict[str, tuple[str, ...]]:
    """query → its answers, in the file's order, each once. Raises DataError for a line that is no pair, and no file."""
    path = Path(folder) / FILE
    if not path.is_file():
        raise DataError(
            f"{folder} has no {FILE}: a line an answer, query-id, a tab, and the text to be found in documents"
        )
    answers: dict[str, dict[str, None]] = {}
    for number, line in lines(path):
        query, tab, text = line.rstrip("\r\n").partition("\t")
        if not line.strip() or (number == 1 and (query, text.strip()) == HEADER):
            continue
        if not tab or not query or not any(character.isalnum() for character in text):
            raise DataError(f"{FILE} line {number}: expected query-id, a tab and an answer; found {line.rstrip()!r}")
        answers.setdefault(query, {})[text.strip()] = None
    if not answers:
        raise DataError(f"{path} holds no answer")
    return {query: tuple(own) for query, own in answers.items()}


def containing_documents(corpus: Corpus, answers: Mapping[str, Sequence[str]]) -> dict[str, dict[str, frozenset[str]]]:
    """query → answer → the documents that contain its words one after the other, ignoring case and punctuation.

    An answer that no document contains has an empty set: nothing can cover it, and it counts.
    """
    distinct = list(dict.fromkeys(text for own in answers.values() for text in own))
    rows = containing(corpus.passages, distinct)
    documents = {text: frozenset(corpus.ids[row] for row in found) for text, found in zip(distinct, rows, strict=True)}
    return {query: {text: documents[text] for text in own} for query, own in answers.items()}
